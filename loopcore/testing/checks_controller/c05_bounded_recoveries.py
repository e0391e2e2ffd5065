"""C05: recoveries are bounded, nested budgets included."""

from __future__ import annotations

from typing import cast

from hypothesis import strategies as st
from hypothesis.strategies import DrawFn

from loopcore.control.decisions import Decision
from loopcore.testing.checks_controller.generating import ALL_OFF, in_turns
from loopcore.testing.checks_controller.playing import (
    Fields,
    Stop,
    is_detection,
    limits_for,
    play,
    run_of,
    stop_in,
    told,
    turn_of,
)
from loopcore.testing.contract import Case, Judgement
from loopcore.testing.controller_contract import (
    ControllerProperty,
    ControllerTarget,
    is_level,
    is_repetition_guard,
    step_cap,
)
from loopcore.testing.naive_controllers import HIGHEST_FIRST

_PROBE_TURNS = 40
_RUN_MAX = 60
_BUDGET_MAX = 4
_TOTAL = "max_recoveries"
# The beginnings of the strategies that have a budget of their own within the total.
NESTED: dict[str, tuple[str, ...]] = {
    "max_replans": ("replan",),
    "max_tool_retries": ("tool_retr",),
    "max_critiques": ("critique",),
}
# The same for level E, whose strategies are known by name.
NESTED_OF_E: dict[str, tuple[str, ...]] = {
    "max_replans": ("replan", "smaller_context", "drop_satisfied"),
    "max_tool_retries": ("other_arguments", "fallback_tool"),
    "max_critiques": ("critique",),
}
_BUDGETS = (*NESTED, _TOTAL)
_DETECTING: Fields = {
    "repeat": 3,
    "window": 4,
    "error_streak": 3,
    "cycle_max": 4,
    "cycle_repeats": 2,
    "max_waits": 3,
    "max_replans": 2,
    "max_tool_retries": 2,
    "max_critiques": 1,
    "max_recoveries": 4,
}
_STUCK: Fields = {
    "tool": "edit",
    "arguments": {},
    "result": "same",
    "state_fingerprint": "s",
    "progress": 0,
    "error_class": "syntax",
}
_OTHER: Fields = {**_STUCK, "tool": "test", "error_class": None}


@st.composite
def _cases(draw: DrawFn) -> Case:
    """Draw recovery budgets and detectors, and a run that goes round without end."""
    budget = st.none() | st.integers(0, _BUDGET_MAX)
    limits: Fields = {**ALL_OFF, **_DETECTING, **{name: draw(budget) for name in _BUDGETS}}
    # The higher detectors are off now and then, since they hide the others.
    limits |= dict.fromkeys(draw(st.sets(st.sampled_from(("repeat", "cycle_max")))))
    limits["error_streak"] = draw(st.sampled_from((None, 3)))
    # What ends a run all the same: recoveries begin none of it anew.
    limits["max_steps"] = draw(st.none() | st.integers(5, _RUN_MAX))
    limits["max_refusals"] = draw(st.none() | st.integers(2, 6))
    cycle = draw(st.lists(st.sampled_from((_STUCK, _OTHER)), min_size=1, max_size=3))
    if draw(st.booleans()):
        cycle.append({"claims_done": True, "verified": False})
    length = draw(st.integers(10, _RUN_MAX))
    gains = draw(st.lists(st.integers(0, length - 1), max_size=3))
    steps = [
        {**cycle[place % len(cycle)], "progress": 1 if place in gains else 0}
        for place in range(length)
    ]
    run = in_turns(steps)
    # Some turns have a second action, so that one detection is met twice in them.
    doubled = draw(st.sets(st.integers(0, length - 1), max_size=5))
    for place in sorted(doubled, reverse=True):
        run.insert(place + 1, {**run[place], "action": 2, "tool": "read"})
    return {"limits": limits, "run": run}


def _rank(said: Decision) -> int:
    """Return the place of an answer, a recovery in that of its reason's stop."""
    kind = "stop" if said.decision == "recover" else said.decision
    words = " ".join(filter(None, (kind, said.reason)))
    return HIGHEST_FIRST.index(words) if words in HIGHEST_FIRST else len(HIGHEST_FIRST)


def _begun(run: list[Fields], answers: list[Decision]) -> list[str]:
    """Return the strategies of the recoveries that took effect: one a turn, until the stop."""
    turns: dict[int, list[Decision]] = {}
    for seen, said in zip(run, answers, strict=True):
        turns.setdefault(turn_of(seen), []).append(said)
    begun: list[str] = []
    for said in (min(each, key=_rank) for each in turns.values()):
        if said.decision == "stop":
            break
        begun += [str(said.strategy)] if said.decision == "recover" else []
    return begun


def _judge(target: ControllerTarget, case: Case) -> Judgement:
    limits, run = limits_for(target, case["limits"]), run_of(case)
    answers = play(target, limits, run)
    begun = _begun(run, answers)
    nested = NESTED_OF_E if is_level(target, "E") else NESTED
    counts = {
        name: sum(strategy.startswith(beginnings) for strategy in begun)
        for name, beginnings in nested.items()
    }
    counts[_TOTAL] = len(begun)
    bounds = {name: cast("int | None", limits[name]) for name in _BUDGETS}
    for name, count in counts.items():
        bound = bounds[name]
        if bound is not None and count > bound:
            finding = f"{name} is {bound}, and {count} such recoveries were begun"
            return Judgement(finding=finding, expected={name: bound}, got={name: count})
    stop = stop_in(run, answers)
    detected = stop is not None and is_detection(stop)
    spent = [name for name, count in counts.items() if count == bounds[name]]
    if is_level(target, "E") and detected and not spent:
        return _early(stop)
    labels = [f"recoveries:{name} spent" for name in spent if bounds[name]]
    if begun:
        labels.append("recoveries:within every budget")
    if detected and begun:
        labels.append("recoveries:stopped after them")
    return Judgement(labels=tuple(labels), vacuous=not labels)


def _early(stop: Stop | None) -> Judgement:
    finding = "a detection stops the run although something is left of every recovery budget"
    return Judgement(finding=finding, expected="a recovery", got=told(stop))


def _applies(target: ControllerTarget) -> str | None:
    named = is_level(target, "ABCD") or is_repetition_guard(target)
    if named or step_cap(target) is not None:
        return f"{target.name} never recovers"
    if is_level(target, "E"):
        return None
    run = in_turns([_STUCK] * _PROBE_TURNS)
    answers = play(target, limits_for(target, {**ALL_OFF, **_DETECTING}), run)
    if any(said.decision == "recover" for said in answers):
        return None
    return (
        f"it recovers from nothing: {_PROBE_TURNS} equal turns without progress bring no recovery"
    )


def _goals(target: ControllerTarget) -> frozenset[str]:
    within = frozenset({"recoveries:within every budget"})
    if not is_level(target, "E"):
        return within
    spent = {f"recoveries:{name} spent" for name in _BUDGETS}
    return within | spent | {"recoveries:stopped after them"}


def _example(steps: list[Fields], **limits: object) -> Case:
    run = in_turns([steps[place % len(steps)] for place in range(_RUN_MAX)])
    return {"limits": {**ALL_OFF, **_DETECTING, **limits}, "run": run}


_ALONE: Fields = {"repeat": None, "cycle_max": None}
_GENEROUS: Fields = {name: _BUDGET_MAX for name in _BUDGETS}  # noqa: C420 invariant values
PROPERTY = ControllerProperty(
    id="C05",
    name="bounded-recoveries",
    statement=(
        "The recoveries of a run are no more than max_recoveries, and those by replanning, "
        "retrying a tool and critique no more than their own budgets within it; level E recovers "
        "from a detection while something is left of each."
    ),
    prevents=(
        "A loop that is told to try something else tries something else for ever, each time with a "
        "budget of its own."
    ),
    mutants=(
        "recovery-total-never-taken",
        "recovery-nested-never-taken",
        "recovery-replans-unbounded",
    ),
    judges_stops=False,
    cases=_cases,
    judge=_judge,
    examples=(
        _example([_STUCK]),
        _example([_STUCK, _OTHER]),
        _example([_STUCK], **_ALONE),
        _example([_OTHER], **_ALONE),
        # One budget is small in each, and nothing else is.
        *(
            _example(steps, **{**limits, **_GENEROUS, name: bound})
            for name in _BUDGETS
            for bound in (0, 1)
            for steps, limits in (
                ([_STUCK], {}),
                ([_STUCK], _ALONE),
                ([_OTHER], _ALONE),
                ([_STUCK, _OTHER], {"error_streak": None}),
            )
        ),
    ),
    goals=_goals,
    applies=_applies,
)
