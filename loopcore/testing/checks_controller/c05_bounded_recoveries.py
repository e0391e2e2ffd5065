"""C05: recoveries are bounded, nested budgets included."""

from __future__ import annotations

from typing import cast

from hypothesis import strategies as st
from hypothesis.strategies import DrawFn

from loopcore.testing.checks_controller.generating import ALL_OFF, in_turns
from loopcore.testing.checks_controller.playing import Fields, limits_for, play, run_of, turn_of
from loopcore.testing.contract import Case, Judgement
from loopcore.testing.controller_contract import (
    ControllerProperty,
    ControllerTarget,
    is_level,
    is_repetition_guard,
    step_cap,
)

_PROBE_TURNS = 40
_RUN_MAX = 60
_BUDGET_MAX = 4
# The beginnings of the strategies that have a budget of their own within the total.
NESTED: tuple[tuple[str, str], ...] = (
    ("replan", "max_replans"),
    ("tool_retr", "max_tool_retries"),
    ("critique", "max_critiques"),
)
_TOTAL = "max_recoveries"
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
    """Draw recovery budgets, and a run that goes round without end."""
    names = [name for _, name in NESTED] + [_TOTAL]
    budgets: Fields = {name: draw(st.integers(0, _BUDGET_MAX)) for name in names}
    cycle = draw(st.lists(st.sampled_from((_STUCK, _OTHER)), min_size=1, max_size=3))
    length = draw(st.integers(10, _RUN_MAX))
    gains = draw(st.lists(st.integers(0, length - 1), max_size=3))
    steps = [
        {**cycle[place % len(cycle)], "progress": 1 if place in gains else 0}
        for place in range(length)
    ]
    return {"limits": {**ALL_OFF, **_DETECTING, **budgets}, "run": in_turns(steps)}


def _judge(target: ControllerTarget, case: Case) -> Judgement:
    limits, run = limits_for(target, case["limits"]), run_of(case)
    answers = play(target, limits, run)
    # The decision of a turn is one, so several recoveries within it are one.
    begun: dict[int, str] = {
        turn_of(seen): str(said.strategy)
        for seen, said in zip(run, answers, strict=True)
        if said.decision == "recover"
    }
    if not begun:
        return Judgement(vacuous=True)
    counts = {_TOTAL: len(begun)}
    for beginning, name in NESTED:
        counts[name] = sum(strategy.startswith(beginning) for strategy in begun.values())
    for name, count in counts.items():
        bound = cast("int", limits[name])
        if count > bound:
            finding = f"{name} is {bound}, and {count} such recoveries were begun"
            return Judgement(finding=finding, expected={name: bound}, got={name: count})
    return Judgement(labels=("recoveries:within every budget",))


def _applies(target: ControllerTarget) -> str | None:
    named = is_level(target, "ABCD") or is_repetition_guard(target)
    if named or step_cap(target) is not None:
        return f"{target.name} never recovers"
    run = in_turns([_STUCK] * _PROBE_TURNS)
    answers = play(target, limits_for(target, {**ALL_OFF, **_DETECTING}), run)
    if any(said.decision == "recover" for said in answers):
        return None
    return (
        f"it recovers from nothing: {_PROBE_TURNS} equal turns without progress bring no recovery"
    )


PROPERTY = ControllerProperty(
    id="C05",
    name="bounded-recoveries",
    statement=(
        "The recoveries of a run are no more than max_recoveries, and those by replanning, "
        "retrying a tool and critique no more than their own budgets within it."
    ),
    prevents=(
        "A loop that is told to try something else tries something else for ever, each time with a "
        "budget of its own."
    ),
    # Levels A to D never recover, so no mutant of them can break this.
    mutants=(),
    judges_stops=False,
    cases=_cases,
    judge=_judge,
    examples=({"limits": {**ALL_OFF, **_DETECTING}, "run": in_turns([_STUCK] * _RUN_MAX)},),
    goals=lambda target: frozenset({"recoveries:within every budget"}),
    applies=_applies,
)
