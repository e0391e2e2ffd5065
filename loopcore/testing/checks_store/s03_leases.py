"""S03: a lease is taken only when it is released or expired on the clock of the store."""

from __future__ import annotations

from hypothesis import strategies as st
from hypothesis.strategies import SearchStrategy

from loopcore.testing.checks_store.generating import (
    append,
    do,
    filled,
    goals,
    one_of,
    opening,
    script,
    scripts,
)
from loopcore.testing.checks_store.playing import LEASE_MS, play, script_of
from loopcore.testing.contract import Case, Json, Judgement
from loopcore.testing.store_contract import StoreProperty, StoreTarget

_TAKE = append("lease_acquired")
_RELEASE = append("lease_released")
_RENEW = do("renew", lease_ms=LEASE_MS)
# Around the end of a lease, and back in time.
_TICKS = (-LEASE_MS, -1, 1, LEASE_MS - 1, LEASE_MS, LEASE_MS + 1)


def _tick(ms: int) -> dict[str, Json]:
    return do("tick", ms=ms)


def _cases() -> SearchStrategy[Case]:
    """Draw lease after lease, with the clock and renewals between."""
    lengths = one_of((1, LEASE_MS // 2, LEASE_MS, 2 * LEASE_MS))
    return scripts(
        [opening()],
        filled("append", kinds=one_of((["lease_acquired"],)), lease_ms=lengths),
        filled("tick", ms=one_of(_TICKS)),
        filled("renew", shift=one_of((-1, 0, 0, 1)), lease_ms=lengths),
        st.sampled_from((_RELEASE, append(), _TAKE)),
    )


def _judge(target: StoreTarget, case: Case) -> Judgement:
    return play(target, script_of(case)).judgement(("append", "renewal"))


PROPERTY = StoreProperty(
    id="S03",
    name="leases",
    statement=(
        "A lease_acquired is refused while the lease before it is neither released nor expired on "
        "the store's clock: one millisecond before its end it is held, at its end it is not. A "
        "renewal counts from now, of the epoch in force alone, and not after a release. An expired "
        "epoch may append and be renewed until a higher one exists."
    ),
    prevents=(
        "Two workers own one run, since each trusts its own clock, or since a renewal did not "
        "count."
    ),
    mutants=(),
    cases=_cases,
    judge=_judge,
    examples=(
        script(opening(), _tick(LEASE_MS - 1), _TAKE, _tick(1), _TAKE),
        script(opening(), _TAKE, _RELEASE, _TAKE, append()),
        script(
            opening(), _tick(LEASE_MS // 2), _RENEW, _tick(LEASE_MS - 1), _TAKE, _tick(1), _TAKE
        ),
        script(opening(), _tick(LEASE_MS + 1), append(), _RENEW, _TAKE, _tick(LEASE_MS), _TAKE),
        script(opening(), _RELEASE, _RENEW, append()),
        script(opening(), _tick(LEASE_MS), _TAKE, {**_RENEW, "shift": -1}, {**_RENEW, "shift": 1}),
        script(append("run_created"), _RENEW, _TAKE, _tick(-LEASE_MS), _TAKE),
        script(append("lease_acquired", "lease_released"), _TAKE, _TAKE),
    ),
    goals=lambda target: goals(
        "append:LeaseHeld",
        "append:accepted",
        "clock:back",
        "renewal:accepted",
        "renewal:StaleEpoch",
        "renewal:LeaseNotHeld",
    ),
)
