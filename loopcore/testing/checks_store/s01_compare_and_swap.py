"""S01: an append on any head but the current one is refused, and changes nothing."""

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
from loopcore.testing.checks_store.playing import HEADS, play, script_of
from loopcore.testing.contract import Case, Judgement
from loopcore.testing.store_contract import StoreProperty, StoreTarget


def _cases() -> SearchStrategy[Case]:
    """Draw appends on heads of all kinds, in two runs."""
    drawn = filled("append", run=one_of("ab"), kinds=batches(), head=one_of(HEADS))
    return scripts([opening("a"), opening("b")], drawn)


def _judge(target: StoreTarget, case: Case) -> Judgement:
    return play(target, script_of(case)).judgement(("append",))


PROPERTY = StoreProperty(
    id="S01",
    name="compare-and-swap",
    statement=(
        "An append names the head that it continues. On the current head it is accepted; on an "
        "earlier one, an empty one, one of another run or an unknown one it is refused as stale, "
        "and changes nothing."
    ),
    prevents=(
        "Two workers decide on the same state and both write: the journal then tells of a history "
        "that neither of them saw, and a budget is spent twice."
    ),
    mutants=(),
    cases=_cases,
    judge=_judge,
    examples=(
        *(
            script(opening("a"), opening("b"), append(run="a"), append(run="a", head=head))
            for head in HEADS
        ),
        script(opening("a"), append("action_reserved", "state_committed", head="earlier")),
    ),
    goals=lambda target: goals(
        *(f"head:{head}" for head in HEADS), "append:accepted", "append:StaleHead"
    ),
)
