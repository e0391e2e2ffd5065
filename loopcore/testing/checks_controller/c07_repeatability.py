"""C07: the same input, the same decisions, whatever was played before and in whichever process."""

from __future__ import annotations

from typing import cast

from hypothesis import strategies as st
from hypothesis.strategies import DrawFn

from loopcore.control.decisions import Decision
from loopcore.testing.checks_controller.generating import (
    ALL_OFF,
    drawn_limits,
    drawn_runs,
    in_turns,
)
from loopcore.testing.checks_controller.playing import (
    Fields,
    first_difference,
    limits_for,
    play,
    run_of,
    shown,
)
from loopcore.testing.contract import Case, Judgement
from loopcore.testing.controller_contract import ControllerProperty, ControllerTarget

_RUNS_MAX = 3
# One case in so many starts another process, which costs more than all its turns.
_FRESH_EVERY = 40


@st.composite
def _cases(draw: DrawFn) -> Case:
    """Draw a few runs with their limits, and whether another process takes part."""
    one = st.fixed_dictionaries({"limits": drawn_limits(), "run": drawn_runs()})
    runs = draw(st.lists(one, min_size=1, max_size=_RUNS_MAX))
    return {"runs": runs, "fresh": draw(st.integers(1, _FRESH_EVERY)) == _FRESH_EVERY}


def _judge(target: ControllerTarget, case: Case) -> Judgement:
    runs = cast("list[Case]", case["runs"])
    first = _answers(target, runs)
    labels = ["same input:other order"]
    finding = _disagreement(first, _answers(target, runs[::-1])[::-1], "after other runs")
    if finding is None and case["fresh"] is True:
        labels.append("same input:other process")
        other = target.fresh()
        try:
            finding = _disagreement(first, _answers(other, runs), "in another process")
        finally:
            other.close()
    return Judgement(finding=finding, labels=tuple(labels))


def _answers(target: ControllerTarget, runs: list[Case]) -> list[list[Decision]]:
    return [play(target, limits_for(target, each["limits"]), run_of(each)) for each in runs]


def _disagreement(
    first: list[list[Decision]], second: list[list[Decision]], where: str
) -> str | None:
    for number, (before, after) in enumerate(zip(first, second, strict=True), start=1):
        index = first_difference(before, after)
        if index is not None:
            return (
                f"observation {index + 1} of run {number} was answered {shown(before[index])}, and "
                f"{where} {shown(after[index])}"
            )
    return None


def _one(steps: list[Fields], **limits: object) -> Case:
    return {"limits": {**ALL_OFF, **limits}, "run": in_turns(steps)}


_EDIT: Fields = {"tool": "edit", "arguments": {}, "result": "same", "error_class": "syntax"}
_TEST: Fields = {"tool": "test", "arguments": {}, "result": "same"}
_REFUSED: Fields = {"claims_done": True, "verified": False, "progress": 0}
_POLL: Fields = {"tool": "poll"}
_SPENT: Fields = {"usage": {"model_calls": 1}}
PROPERTY = ControllerProperty(
    id="C07",
    name="repeatability",
    statement=(
        "The same limits and observations bring the same decisions, after other runs, in another "
        "process and under another hash seed."
    ),
    prevents=(
        "A stop cannot be explained afterwards, because the streak that caused it belonged to the "
        "run before, or to the order of a set."
    ),
    mutants=(
        "levels-gate-kept-between-runs",
        "levels-steps-kept-between-runs",
        "levels-sums-kept-between-runs",
    ),
    judges_stops=False,
    cases=_cases,
    judge=_judge,
    examples=(
        # Each run ends one short of a threshold, so that what is kept of it would be seen.
        {
            "runs": [
                _one([_EDIT] * 2, repeat=3, error_streak=3, max_steps=3),
                _one([_EDIT, _TEST] * 2, cycle_max=2, cycle_repeats=2, window=5),
                _one([_REFUSED] * 2, max_refusals=2, window=2),
            ],
            "fresh": False,
        },
        {
            "runs": [
                _one([_POLL] * 2, max_waits=3, tools={"poll": {"wait": True}}),
                _one([_SPENT] * 2, max_model_calls=3),
                _one([{"claims_done": True}] * 2, error_streak=3),
            ],
            "fresh": False,
        },
        {"runs": [_one([{}] * 2, max_steps=2, horizon=5), _one([{}], max_steps=2)], "fresh": True},
        {"runs": [_one([{}], max_steps=2)], "fresh": False},
    ),
    goals=lambda target: frozenset({"same input:other order", "same input:other process"}),
)
