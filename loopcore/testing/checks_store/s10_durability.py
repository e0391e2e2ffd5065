"""S10: what was appended is there when the store is closed and opened again."""

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

_REOPEN = do("reopen")


def _cases() -> SearchStrategy[Case]:
    """Draw operations with the store opened again between them."""
    runs = one_of("ab")
    return scripts(
        [opening("a")],
        filled("append", run=runs, kinds=batches()),
        filled("append", run=runs, kinds=one_of((["lease_acquired"], ["lease_released"]))),
        filled("renew", run=runs, lease_ms=one_of((1, 2000))),
        filled("tick", ms=one_of((500, 1000))),
        st.just(do("runs")),
        st.just(_REOPEN),
    ).map(lambda case: {"script": [*script_of(case), _REOPEN]})


def _judge(target: StoreTarget, case: Case) -> Judgement:
    return play(target, script_of(case)).judgement(("store",))


PROPERTY = StoreProperty(
    id="S10",
    name="durability",
    statement=(
        "After the store is closed and opened again, every journal, head, epoch and lease is as it "
        "was, and goes on from there."
    ),
    prevents=(
        "A restart finds the run at an earlier place, or a lease that nobody holds, and does the "
        "same work again."
    ),
    mutants=(),
    cases=_cases,
    judge=_judge,
    examples=(
        script(opening(), append(), _REOPEN, append(), append("lease_acquired"), _REOPEN),
        script(opening(), _REOPEN, do("tick", ms=999), append("lease_acquired")),
        script(
            opening(),
            do("renew", lease_ms=3000),
            _REOPEN,
            do("tick", ms=2999),
            append("lease_acquired"),
        ),
        script(opening("a"), opening("b"), _REOPEN, do("runs"), append(run="b", shift=-1)),
    ),
    goals=lambda target: goals("store:reopened", "append:accepted", "append:LeaseHeld"),
    needs=frozenset({"durable"}),
)
