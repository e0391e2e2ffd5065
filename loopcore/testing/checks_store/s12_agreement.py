"""S12: whatever is asked in whatever order, the answer is that of the naive model."""

from __future__ import annotations

from hypothesis import strategies as st
from hypothesis.strategies import SearchStrategy

from loopcore.testing.checks_store.faults import FAULTS
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
from loopcore.testing.checks_store.playing import HEADS, play, script_of
from loopcore.testing.contract import Case, Json, Judgement
from loopcore.testing.store_contract import StoreProperty, StoreTarget

_TAKES: tuple[Json, ...] = (
    ["lease_acquired"],
    ["lease_released"],
    ["lease_acquired", "action_reserved"],
)


def _cases() -> SearchStrategy[Case]:
    """Draw operations of all kinds, in several runs through several handles."""
    runs, handles = one_of("ab"), one_of((0, 0, 1))
    shifts = one_of((0, 0, 0, 0, -1, 1))
    heads = one_of((*(("current",) * 6), *HEADS))
    places = st.integers(0, 3)
    one = {"run": runs, "handle": handles}
    faulty = {"fault": one_of(tuple(FAULTS)), "place": places}
    return scripts(
        [],
        runs.map(lambda run: opening(str(run))),
        filled("append", kinds=batches(), head=heads, shift=shifts, **one),
        filled("append", kinds=batches(), head=heads, **one),
        filled("append", kinds=one_of(_TAKES), head=heads, shift=shifts, **one),
        filled("append", kinds=batches(), **faulty, **one),
        filled("renew", shift=shifts, lease_ms=one_of((1, 500, 2000)), **one),
        filled("tick", ms=one_of((-500, 1, 500, 1000))),
        filled("read", after=one_of((0, 1, 4)), **one),
        filled("head", **one),
        st.just(do("runs")),
        most=16,
    )


def _judge(target: StoreTarget, case: Case) -> Judgement:
    return play(target, script_of(case)).judgement(("append", "renewal", "read"))


PROPERTY = StoreProperty(
    id="S12",
    name="agreement",
    statement=(
        "In any sequence of operations, in several runs and through several handles, every answer "
        "is the one that the rules give, and after a refusal nothing has changed."
    ),
    prevents=(
        "Each rule holds alone, and a renewal after a takeover after a refused batch does not."
    ),
    mutants=(),
    cases=_cases,
    judge=_judge,
    examples=(
        script(opening("a"), append(run="a", handle=1), do("renew", run="a"), do("runs")),
        script(append("lease_acquired", shift=1), append("run_created"), append("lease_acquired")),
        script(
            opening("a"),
            do("tick", ms=1000),
            append("lease_acquired", run="a", head="earlier"),
            append("lease_acquired", run="a", fault="gap"),
            append("lease_acquired", run="a"),
            append("lease_acquired", run="a", handle=1),
        ),
    ),
    goals=lambda target: goals(
        "append:accepted",
        "append:StaleHead",
        "append:StaleEpoch",
        "append:LeaseHeld",
        "append:InvalidEvent",
    ),
)
