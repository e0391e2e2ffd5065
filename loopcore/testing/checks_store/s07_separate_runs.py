"""S07: runs have nothing to do with each other, and every run with an event is listed."""

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
from loopcore.testing.checks_store.playing import HEADS, play, script_of
from loopcore.testing.contract import Case, Json, Judgement
from loopcore.testing.store_contract import StoreProperty, StoreTarget

_RUNS: tuple[Json, ...] = ("a", "A", "a/b", "a%", "a_", "~")


def _cases() -> SearchStrategy[Case]:
    """Draw appends and leases in several runs, and lists of them."""
    runs = one_of(_RUNS)
    return scripts(
        [opening("a")],
        runs.map(lambda run: opening(str(run))),
        filled("append", run=runs, kinds=batches(), head=one_of((*HEADS, "current", "current"))),
        filled("append", run=runs, kinds=one_of((["lease_acquired"], ["lease_released"]))),
        filled("renew", run=runs, shift=one_of((0, 1))),
        st.just(do("runs")),
        most=10,
    ).map(lambda case: {"script": [*script_of(case), do("runs")]})


def _judge(target: StoreTarget, case: Case) -> Judgement:
    return play(target, script_of(case)).judgement(("runs",))


PROPERTY = StoreProperty(
    id="S07",
    name="separate-runs",
    statement=(
        "Appends, leases and refusals in one run change nothing in another, however alike their "
        "ids are; the list of runs holds exactly those with an event, each once, in order."
    ),
    prevents=(
        "A run is lost in a restart because it was not listed, or two runs whose ids differ in "
        "case share one journal."
    ),
    mutants=(),
    cases=_cases,
    judge=_judge,
    examples=(
        script(do("runs"), opening("a"), do("runs"), opening("A"), do("runs")),
        script(*(opening(str(run)) for run in _RUNS), do("runs")),
        script(opening("a"), append(run="b", head="unknown"), do("runs")),
        script(opening("a"), opening("b"), append("lease_released", run="a"), opening("b")),
    ),
    goals=lambda target: goals("runs:1", "runs:2", "append:accepted", "append:StaleHead"),
)
