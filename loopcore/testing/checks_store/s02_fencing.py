"""S02: an append with a stale epoch is refused although its head is the current one."""

from __future__ import annotations

from hypothesis import strategies as st
from hypothesis.strategies import SearchStrategy

from loopcore.testing.checks_store.generating import (
    append,
    batches,
    do,
    filled,
    goals,
    one_of,
    opening,
    script,
    scripts,
)
from loopcore.testing.checks_store.playing import play, script_of
from loopcore.testing.contract import Case, Judgement
from loopcore.testing.store_contract import StoreProperty, StoreTarget

_RELEASE = append("lease_released")
_TAKE = append("lease_acquired")
_EXPIRE = do("tick", ms=1000)


def _cases() -> SearchStrategy[Case]:
    """Draw appends with epochs around the current one, and workers that take over."""
    drawn = filled("append", kinds=batches(), shift=one_of((-2, -1, -1, 0, 0, 1)))
    released = st.sampled_from((_RELEASE, _TAKE, _EXPIRE))
    return scripts([opening(), _EXPIRE, _TAKE], drawn, drawn, released)


def _judge(target: StoreTarget, case: Case) -> Judgement:
    return play(target, script_of(case)).judgement(("append",))


PROPERTY = StoreProperty(
    id="S02",
    name="fencing",
    statement=(
        "An append with another epoch than the one in force is refused, older or newer, although "
        "it is linked to the current head; the epoch rises by one with a lease_acquired and in no "
        "other way."
    ),
    prevents=(
        "A worker that was thought dead wakes up, reads the head, and goes on writing beside the "
        "one that took over."
    ),
    mutants=(),
    cases=_cases,
    judge=_judge,
    examples=(
        script(opening(), _EXPIRE, _TAKE, append(shift=-1)),
        script(opening(), _EXPIRE, _TAKE, append("state_committed", "lease_released", shift=-1)),
        script(opening(), _RELEASE, _TAKE, append(shift=-2), append(shift=1), append()),
        script(opening(), _RELEASE, append("lease_acquired", shift=1), append(shift=-1)),
        script(opening(), _RELEASE, append("lease_acquired", shift=-1)),
    ),
    goals=lambda target: goals("append:StaleEpoch", "append:accepted"),
)
