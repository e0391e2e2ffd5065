"""S13: a terminal is an event like another to a store, and what may follow it is kept."""

from __future__ import annotations

from hypothesis.strategies import SearchStrategy

from loopcore.testing.checks_store.generating import (
    append,
    batches,
    filled,
    goals,
    one_of,
    opening,
    script,
    scripts,
)
from loopcore.testing.checks_store.playing import play, script_of
from loopcore.testing.contract import Case, Json, Judgement
from loopcore.testing.store_contract import StoreProperty, StoreTarget

# What the protocol accepts after a terminal.
_KINDS = (
    "effect_reconciled",
    "outcome_observed",
    "lease_released",
    "lease_acquired",
    "run_resumed",
)
_AFTER: tuple[Json, ...] = tuple([kind] for kind in _KINDS)
_END = append("state_committed", "terminal_committed")


def _cases() -> SearchStrategy[Case]:
    """Draw what may follow a terminal, with and without the lease."""
    return scripts(
        [opening(), append(), _END],
        filled("append", kinds=one_of(_AFTER), shift=one_of((0, 0, 0, -1))),
        filled("tick", ms=one_of((1, 1000))),
        filled("append", kinds=batches(2), head=one_of(("current", "earlier"))),
    ).map(lambda case: {"script": [*script_of(case), append("effect_reconciled")]})


def _judge(target: StoreTarget, case: Case) -> Judgement:
    return play(target, script_of(case)).judgement(("append",))


PROPERTY = StoreProperty(
    id="S13",
    name="terminals-are-events",
    statement=(
        "After a terminal_committed the store goes by head, epoch and lease as before it: what the "
        "protocol still accepts then is accepted, and kept behind the terminal."
    ),
    prevents=(
        "A late outcome or a reconciled effect cannot be recorded any more, because the store "
        "takes the run for closed."
    ),
    mutants=(),
    cases=_cases,
    judge=_judge,
    examples=(
        script(opening(), _END, *(append(kind) for kind in _KINDS)),
        script(opening(), _END, append("effect_reconciled", shift=-1), append("run_resumed")),
        script(opening(), _END, append("lease_acquired"), append("run_resumed", head="earlier")),
    ),
    goals=lambda target: goals("append:accepted", "append:LeaseHeld", "append:StaleEpoch"),
)
