"""S04: a batch with one faulty event is refused, and nothing of it is kept."""

from __future__ import annotations

from hypothesis import strategies as st
from hypothesis.strategies import SearchStrategy

from loopcore.testing.checks_store.faults import FAULTS
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
from loopcore.testing.contract import Case, Judgement
from loopcore.testing.store_contract import StoreProperty, StoreTarget

_BATCH = ("action_reserved", "action_dispatched", "outcome_observed", "state_committed")


def _cases() -> SearchStrategy[Case]:
    """Draw right batches, and batches with a fault at some place."""
    names = one_of(tuple(FAULTS))
    faulty = filled("append", kinds=batches(), fault=names, place=st.integers(0, 3))
    return scripts([opening()], faulty, filled("append", kinds=batches()))


def _judge(target: StoreTarget, case: Case) -> Judgement:
    return play(target, script_of(case)).judgement(("fault",))


PROPERTY = StoreProperty(
    id="S04",
    name="whole-batches",
    statement=(
        "The events of an append are kept all or none: where one of them is out of sequence, not "
        "linked, of another run or epoch, or has no canonical form, none is, and the head stays."
    ),
    prevents=(
        "An outcome is kept without its settlement, so a budget stays reserved for ever, or is "
        "given back twice."
    ),
    mutants=(),
    cases=_cases,
    judge=_judge,
    examples=(
        *(
            script(opening(), append(*_BATCH, fault=fault, place=place), append(*_BATCH))
            for fault in FAULTS
            for place in (0, 3)
        ),
    ),
    goals=lambda target: goals(*(f"fault:{fault}" for fault in FAULTS), "append:accepted"),
)
