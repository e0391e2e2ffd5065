"""C02: a run that makes progress in each turn is never stopped by a detector."""

from __future__ import annotations

from hypothesis import strategies as st
from hypothesis.strategies import DrawFn

from loopcore.control.limits import decode_limits
from loopcore.control.wire import decode_observation
from loopcore.testing.checks_controller.generating import (
    ALL_OFF,
    drawn_limits,
    drawn_runs,
    in_turns,
)
from loopcore.testing.checks_controller.playing import (
    Fields,
    act_in,
    fields_of,
    is_detection,
    limits_for,
    play,
    run_of,
    told,
)
from loopcore.testing.contract import Case, Judgement
from loopcore.testing.controller_contract import ControllerProperty, ControllerTarget
from loopcore.testing.naive_controllers import NaiveController

_GAIN_MAX = 3


@st.composite
def _cases(draw: DrawFn) -> Case:
    """Draw limits and a run with a positive progress in each turn."""
    run = draw(drawn_runs())
    gains: dict[object, int] = {}
    for seen in run:
        if seen["turn"] not in gains:
            gains[seen["turn"]] = draw(st.integers(1, _GAIN_MAX))
    productive = [{**seen, "progress": gains[seen["turn"]]} for seen in run]
    return {"limits": draw(drawn_limits()), "run": productive}


def _judge(target: ControllerTarget, case: Case) -> Judgement:
    limits, run = limits_for(target, case["limits"]), run_of(case)
    stop = act_in(run, play(target, limits, run))
    if stop is not None and is_detection(stop):
        finding = f"progress is positive in each turn, and {stop.reason} is met in {stop.turn}"
        return Judgement(finding=finding, expected=None, got=told(stop))
    return Judgement(labels=_labels(case))


def _labels(case: Case) -> tuple[str, ...]:
    """Return what would stop the run if it made no progress, by the naive level D."""
    naive = NaiveController("D")
    naive.start(decode_limits(fields_of(case["limits"])))
    for seen in run_of(case):
        said = naive.observe(decode_observation({**seen, "progress": 0}))
        if said.decision == "stop":
            return (f"without progress:{said.reason}",)
    return ()


def _example(cycle: list[Fields], **limits: object) -> Case:
    run = in_turns([{**seen, "progress": 1} for _ in range(4) for seen in cycle])
    return {"limits": {**ALL_OFF, **limits}, "run": run}


_EDIT: Fields = {"tool": "edit", "arguments": {}, "result": "same"}
_TEST: Fields = {"tool": "test", "arguments": {}, "result": "same"}
_POLL: Fields = {"tool": "poll", "arguments": {}, "result": "same"}
PROPERTY = ControllerProperty(
    id="C02",
    name="productive-runs",
    statement=(
        "A run whose progress is positive in each turn is never stopped by a detector of a "
        "controller that declares progress, nor made to recover, whatever it repeats."
    ),
    prevents=(
        "An agent that edits and tests, and fixes one failing test a turn, is stopped as a loop "
        "because its test command is always the same."
    ),
    mutants=(
        "detectors-repetition-ignores-good",
        "detectors-error-ignores-good",
        "detectors-cycle-ignores-good",
    ),
    inputs=frozenset({"progress"}),
    cases=_cases,
    judge=_judge,
    examples=(
        _example([_EDIT], repeat=2),
        _example([{**_EDIT, "error_class": "syntax"}], error_streak=2),
        _example([_EDIT, _TEST], cycle_max=3, cycle_repeats=2),
        _example([_EDIT], window=2),
        _example([_POLL], max_waits=2, tools={"poll": {"wait": True}}),
    ),
    goals=lambda target: frozenset(
        f"without progress:{reason}"
        for reason in ("repeated_action", "tool_failure", "nonproductive_cycle", "no_progress")
    ),
)
