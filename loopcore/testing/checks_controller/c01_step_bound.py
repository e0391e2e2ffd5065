"""C01: every run stops within its step bound, and stays stopped."""

from __future__ import annotations

from typing import cast

from hypothesis import strategies as st
from hypothesis.strategies import DrawFn

from loopcore.testing.checks_controller.generating import (
    ALL_OFF,
    drawn_limits,
    drawn_runs,
    new_call,
)
from loopcore.testing.checks_controller.playing import (
    COMPLETED,
    Fields,
    limits_for,
    play,
    run_of,
    stop_in,
    told,
    turn_of,
    waits,
)
from loopcore.testing.contract import Case, Judgement
from loopcore.testing.controller_contract import (
    ControllerProperty,
    ControllerTarget,
    is_level,
    is_repetition_guard,
    step_cap,
)

_HORIZON_FACTOR = 4
_HORIZON_WITHOUT_STEPS = 120
# So many turns after the bound are played, to see that the stop lasts.
_TURNS_AFTER = 2
# A bound beyond this many turns is not played.
_TURNS_MAX = 300


@st.composite
def _cases(draw: DrawFn) -> Case:
    """Draw limits with a step bound, and a run that it may meet anywhere."""
    steps = draw(st.none() | st.integers(1, 9))
    horizon = draw(st.none() | st.integers(1, 20)) if steps is not None else 0
    bounds: Fields = {"max_steps": steps, "horizon": horizon or None}
    if steps is None:
        bounds["horizon"] = draw(st.integers(1, 20))
    elif draw(st.booleans()):
        # The horizon then follows the steps.
        del bounds["horizon"]
    limits = {**draw(drawn_limits() | st.just(ALL_OFF)), **bounds}
    if "horizon" not in bounds:
        limits.pop("horizon", None)
    finishes = draw(st.booleans())
    return {"limits": limits, "run": draw(drawn_runs() | st.just([])), "finishes": finishes}


def _is_at_bound(target: ControllerTarget, limits: Fields, turn: int, counted: int) -> bool:
    cap = step_cap(target)
    if cap is not None:
        return turn >= cap
    steps = cast("int | None", limits["max_steps"])
    derived = _HORIZON_WITHOUT_STEPS if steps is None else _HORIZON_FACTOR * steps
    horizon = cast("int | None", limits.get("horizon", derived))
    return (steps is not None and counted >= steps) or (horizon is not None and turn >= horizon)


def _bounded(target: ControllerTarget, limits: Fields, case: Case) -> tuple[list[Fields], int]:
    """Return the run, made longer by new calls until after its bound, and the bound's turn."""
    run = list(run_of(case))
    counted: set[int] = set()
    bound: int | None = None
    index = 0
    while bound is None or turn_of(run[-1]) < bound + _TURNS_AFTER:
        if index == len(run):
            turn = turn_of(run[-1]) + 1 if run else 1
            run.append(new_call(turn, progress=1))
        while index < len(run):
            turn = turn_of(run[index])
            if not waits(limits, run[index]):
                counted.add(turn)
            if bound is None and _is_at_bound(target, limits, turn, len(counted)):
                bound = turn
            index += 1
        if turn_of(run[-1]) > _TURNS_MAX:
            break
    if case["finishes"] is True and bound is not None:
        last = max(place for place, seen in enumerate(run) if turn_of(seen) == bound)
        action = cast("int", run[last]["action"]) + 1
        run.insert(last + 1, new_call(bound, action, progress=1, claims_done=True, verified=True))
    return run, bound or 0


def _judge(target: ControllerTarget, case: Case) -> Judgement:
    limits = limits_for(target, case["limits"])
    run, bound = _bounded(target, limits, case)
    if not bound:
        return Judgement(vacuous=True)
    answers = play(target, limits, run)
    stop = stop_in(run, answers)
    expected: Fields = {"stopped by turn": bound}
    if stop is None or stop.turn > bound:
        finding = f"the step bound is reached in turn {bound} and does not stop the run there"
        return Judgement(finding=finding, expected=expected, got=told(stop))
    for seen, said in zip(run, answers, strict=True):
        if turn_of(seen) > stop.turn and said.decision != "stop":
            finding = f"the run was stopped in turn {stop.turn} and goes on in {turn_of(seen)}"
            return Judgement(finding=finding, expected=expected, got=told(stop))
    finish = any(
        turn_of(seen) == bound and seen.get("claims_done") is True and seen.get("verified") is True
        for seen in run
    )
    if stop.turn < bound:
        return Judgement(labels=("bound:stopped before",))
    if finish and stop.reason != COMPLETED:
        finding = "a verified finish in the turn of the step bound counts first, and does not here"
        return Judgement(finding=finding, expected={"reason": COMPLETED}, got=told(stop))
    return Judgement(labels=("bound:finish" if finish else "bound:stopped at",))


def _applies(target: ControllerTarget) -> str | None:
    if is_level(target, "A"):
        return "level A is no control: it has a horizon and no step bound"
    if is_repetition_guard(target):
        return f"{target.name} knows repeated calls alone and claims no step bound"
    return None


def _limits(**changes: object) -> Fields:
    return {**ALL_OFF, **changes}


_WAITING: Fields = {"wait": {"wait": True}}
PROPERTY = ControllerProperty(
    id="C01",
    name="step-bound",
    statement=(
        "Every run is stopped no later than the turn that reaches max_steps or the horizon, stays "
        "stopped, and a verified finish in that very turn still completes it."
    ),
    prevents=(
        "An agent runs all night because its loop counted only some kinds of turns, or a run that "
        "finished on its last permitted turn is booked as a failure."
    ),
    mutants=(
        "levels-steps-strict",
        "levels-steps-count-waits-only",
        "levels-horizon-strict",
    ),
    cases=_cases,
    judge=_judge,
    examples=(
        {"limits": _limits(max_steps=3), "run": [], "finishes": False},
        {"limits": _limits(max_steps=3), "run": [], "finishes": True},
        {"limits": _limits(horizon=4), "run": [], "finishes": False},
        {
            "limits": _limits(max_steps=2, tools=_WAITING, horizon=9),
            "run": [{"turn": 1, "action": 1, "tool": "wait"}],
            "finishes": False,
        },
    ),
    goals=lambda target: frozenset({"bound:stopped at", "bound:finish"}),
    applies=_applies,
)
