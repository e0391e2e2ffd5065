"""Each kind of false stop and missed loop keeps its verdict wherever it stands, on every level.

Theory of operation: every incident of the kinds 1.x and 2.x is a strategy that draws a script, the
limits that are its policy, and which step a detection answers, if any. The script is then put after
other work, text is spoken between its steps, and it is played on every level: D answers as the kind
says; E recovers there and goes on; A and B detect nothing; C knows equal calls running and no more.

Killers: a prefix or text that moves a threshold, a recovery from good work or for another reason, a
loop that a recovery does not see again, level C looking at results, B looking at calls.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from loopcore.control.decisions import Decision
from loopcore.control.fingerprints import action_fingerprint
from loopcore.control.levels import controller
from loopcore.control.limits import Limits, ToolPolicy
from loopcore.control.observations import Observation
from loopcore.control.recovery import TRIED
from properties.incidents.test_detection_incidents import (
    FINISH,
    OPEN,
    Step,
    changed,
    names,
    observations,
)

EXAMPLES = 15
Draw = st.DrawFn
small = st.integers(2, 6)
spare = st.integers(0, 4)


@dataclass(frozen=True, slots=True, kw_only=True)
class Kind:
    """A script with its policy; `place` is the step (from 1) that a detection answers, or None."""

    script: list[Step]
    limits: Limits
    place: int | None = None
    reason: str | None = None


def poll_1_1(draw: Draw) -> Kind:
    """A poll: bounded by its own limit where it is declared, else by repetition."""
    tool, repeat, declared = draw(names), draw(small), draw(st.booleans())
    polls = repeat + draw(spare)
    script = [Step(tool=tool, arguments={"job": 7}, result="running", state="s")] * polls
    if not declared:
        limits = changed(repeat=repeat, cycle_max=None)
        return Kind(script=script, limits=limits, place=repeat, reason="repeated_action")
    tight = draw(st.booleans())
    policy = ToolPolicy(wait=True, max_waits=polls if tight else polls + 1)
    limits = changed(repeat=repeat, tools={tool: policy})
    return Kind(
        script=script,
        limits=limits,
        place=polls if tight else None,
        reason="no_progress" if tight else None,
    )


def growing_log_1_2(draw: Draw) -> Kind:
    """A log that grows, read with or without a sleep between."""
    tool, asleep, repeat = draw(names), draw(st.booleans()), draw(small)
    script: list[Step] = []
    for size in range(repeat + draw(spare)):
        script.append(Step(tool=tool, arguments={"h": 1}, result=f"{size}", state=f"b{size}"))
        script += [Step(tool="sleep", arguments=5, result="ok", state=f"b{size}")] * asleep
    return Kind(script=script, limits=changed(repeat=repeat, cycle_repeats=2))


def routine_1_3(draw: Draw) -> Kind:
    """One routine of some tools over many items."""
    items, actions = draw(st.integers(2, 8)), draw(small)
    script = [
        Step(tool=f"tool{action}", arguments=f"f{item}", state=f"s{item}.{action}")
        for item in range(items)
        for action in range(actions)
    ]
    return Kind(script=script, limits=changed(repeat=2, cycle_repeats=2))


def button_1_4(draw: Draw) -> Kind:
    """One button, pressed on pages that change or on one that stays."""
    tool, repeat, frozen = draw(names), draw(small), draw(st.booleans())
    presses = range(repeat + draw(spare))
    script = [Step(tool=tool, arguments="next", state="p" if frozen else f"p{n}") for n in presses]
    place, reason = (repeat, "repeated_action") if frozen else (None, None)
    return Kind(script=script, limits=changed(repeat=repeat), place=place, reason=reason)


def proposed_1_5(draw: Draw) -> Kind:
    """A batch of which only the first action is dispatched, so that nothing else is observed."""
    tool, repeat = draw(names), draw(small)
    script = [Step(tool=tool, arguments="x", state=f"s{n}") for n in range(repeat * 2)]
    return Kind(script=script, limits=changed(repeat=repeat, max_tool_calls=repeat * 2 + 9))


def nested_1_6(draw: Draw) -> Kind:
    """Calls that differ deep inside their arguments, with one result."""
    tool, depth, repeat = draw(names), draw(st.integers(0, 4)), draw(small)
    script: list[Step] = []
    for number in range(repeat + draw(spare)):
        item: object = {"questions": [{"id": number}]}
        for _ in range(depth):
            item = {"k": [item]}
        script.append(Step(tool=tool, arguments=item, result="answered", state="s"))
    return Kind(script=script, limits=changed(repeat=repeat))


def period_2_1(draw: Draw) -> Kind:
    """A cycle of any declared period, in results or in states."""
    period, turns, known = draw(st.integers(2, 7)), draw(st.integers(2, 3)), draw(st.booleans())
    cycle = [
        Step(tool=f"t{n}", arguments=n, result=f"r{n}", state=f"s{n}" if known else None)
        for n in range(period)
    ]
    limits = changed(cycle_max=period + draw(spare), cycle_repeats=turns)
    script = cycle * (turns + draw(st.integers(0, 2)))
    return Kind(script=script, limits=limits, place=period * turns, reason="nonproductive_cycle")


def empty_2_2(draw: Draw) -> Kind:
    """Turns without text or action, none of which brings anything."""
    window = draw(st.integers(1, 9))
    script = [Step(progress=draw(st.sampled_from((0, -1))))] * (window + draw(spare))
    return Kind(script=script, limits=changed(window=window), place=window, reason="no_progress")


def interleaved_2_3(draw: Draw) -> Kind:
    """A failing test, with a look at another file after each."""
    window = draw(st.integers(1, 8))
    script: list[Step] = []
    for number in range(window):
        script.append(Step(tool="test", arguments={}, result="E", error="assert", progress=0))
        script.append(Step(tool="read", arguments=f"f{number}", progress=0))
    return Kind(script=script, limits=changed(window=window), place=window, reason="no_progress")


def reworded_2_4(draw: Draw) -> Kind:
    """Searches in other words with one result."""
    tool, window, known = draw(names), draw(st.integers(1, 9)), draw(st.booleans())
    script = [
        Step(tool=tool, arguments=f"q{n}", result="set", state="s" if known else None, progress=0)
        for n in range(window + draw(spare))
    ]
    return Kind(script=script, limits=changed(window=window), place=window, reason="no_progress")


def spelled_2_5(draw: Draw) -> Kind:
    """One call with its arguments spelled otherwise each time."""
    tool, repeat = draw(names), draw(small)
    spellings: list[object] = ['{"a":1,"b":2}', '{ "b": 2,\n "a": 1.0 }', {"b": 2, "a": 1}]
    script = [
        Step(tool=tool, arguments=draw(st.sampled_from(spellings)), state="s")
        for _ in range(repeat + draw(spare))
    ]
    limits = changed(repeat=repeat)
    return Kind(script=script, limits=limits, place=repeat, reason="repeated_action")


def volatile_2_6(draw: Draw) -> Kind:
    """One logical click whose reference is numbered anew each time."""
    tool, field, repeat = draw(names), draw(st.sampled_from(("ref", "pid", "sid"))), draw(small)
    script = [
        Step(tool=tool, arguments=[{field: f"E{n}", "name": "Submit"}], state="page")
        for n in range(repeat + draw(spare))
    ]
    declared = draw(st.booleans())
    limits = changed(repeat=repeat, tools={tool: ToolPolicy(volatile=(field,))} if declared else {})
    place, reason = (repeat, "repeated_action") if declared else (None, None)
    return Kind(script=script, limits=limits, place=place, reason=reason)


def borders_2_7(draw: Draw) -> Kind:
    """Identical failures; the text between them is put there by the test."""
    tool, repeat = draw(names), draw(small)
    step = Step(tool=tool, arguments="x", result="no match", error="match", state="s")
    limits = changed(repeat=repeat, error_streak=repeat)
    script = [step] * (repeat + draw(spare))
    return Kind(script=script, limits=limits, place=repeat, reason="repeated_action")


def clock_2_8(draw: Draw) -> Kind:
    """A clock: every reading is new, and nothing is achieved; its twin is a log that grows."""
    tool, window, twin = draw(names), draw(st.integers(2, 9)), draw(st.booleans())
    script = [
        Step(tool=tool, arguments={}, result=f"11:{n:02}", progress=1 if twin else 0)
        for n in range(window + draw(spare))
    ]
    place, reason = (None, None) if twin else (window, "no_progress")
    return Kind(script=script, limits=changed(window=window), place=place, reason=reason)


def errors_2_9(draw: Draw) -> Kind:
    """One class of errors over arguments and tools, or another class each time."""
    streak, others, constant = draw(small), draw(st.booleans()), draw(st.booleans())
    script = [
        Step(
            tool=f"t{n}" if others else "edit",
            arguments=f"v{n}",
            result=f"r{n}",
            error="auth" if constant else f"e{n}",
        )
        for n in range(streak + draw(spare))
    ]
    place, reason = (streak, "tool_failure") if constant else (None, None)
    return Kind(script=script, limits=changed(error_streak=streak), place=place, reason=reason)


KINDS: tuple[Callable[[Draw], Kind], ...] = (
    poll_1_1,
    growing_log_1_2,
    routine_1_3,
    button_1_4,
    proposed_1_5,
    nested_1_6,
    period_2_1,
    empty_2_2,
    interleaved_2_3,
    reworded_2_4,
    spelled_2_5,
    volatile_2_6,
    borders_2_7,
    clock_2_8,
    errors_2_9,
)
each_kind = pytest.mark.parametrize("kind", KINDS, ids=[kind.__name__ for kind in KINDS])
some = settings(max_examples=EXAMPLES, deadline=None)
WORK = st.sampled_from((1, None))


@st.composite
def placed(draw: Draw, kind: Callable[[Draw], Kind]) -> tuple[Kind, list[Step], int | None]:
    """Draw a kind, its script after other work and with text in it, and where its detection is."""
    drawn = kind(draw)
    progress = draw(WORK)
    before = [
        Step(tool="work", arguments=n, result=f"w{n}", state=f"w{n}", progress=progress)
        for n in range(draw(st.integers(0, 5)))
    ]
    steps, place = list(before), None
    for number, step in enumerate(drawn.script, start=1):
        steps += [Step()] * draw(st.sampled_from((0, 0, 0, 1, 2)))
        steps.append(step)
        if number == drawn.place:
            place = len(steps)
    return drawn, [*steps, FINISH], place


def answers(level: str, run: list[Observation], limits: Limits) -> list[Decision]:
    """Return a level's answers to a run."""
    ours = controller(level)
    ours.start(limits)
    return [ours.observe(seen) for seen in run]


def acted(said: list[Decision]) -> int | None:
    """Return the number of the first observation that is not answered by `continue`."""
    return next((n for n, each in enumerate(said, start=1) if each.decision != "continue"), None)


@each_kind
@some
@given(data=st.data())
def test_level_d_answers_a_kind_at_its_place(
    kind: Callable[[Draw], Kind], data: st.DataObject
) -> None:
    drawn, steps, place = data.draw(placed(kind))
    said = answers("D", observations(steps), drawn.limits)
    assert acted(said) == (place or len(steps))
    assert said[(place or len(steps)) - 1].reason == (drawn.reason or "completed")


@each_kind
@some
@given(data=st.data())
def test_level_e_recovers_where_level_d_stops_sees_it_again_and_never_in_good_work(
    kind: Callable[[Draw], Kind], data: st.DataObject
) -> None:
    drawn, steps, place = data.draw(placed(kind))
    said = answers("E", observations(steps), drawn.limits)
    if place is None or drawn.reason is None:
        assert {each.decision for each in said[:-1]} == {"continue"}
        assert said[-1].reason == "completed"
        return
    assert acted(said) == place
    assert said[place - 1] == Decision(
        decision="recover", reason=drawn.reason, strategy=TRIED[drawn.reason][0]
    )
    # The agent leaves its loop: nothing that was before keeps it from finishing.
    left = [*steps[:place], Step(tool="new", state="new", progress=1), FINISH]
    assert answers("E", observations(left), drawn.limits)[-1].reason == "completed"
    # It does not leave it: the same again is detected again, and by another strategy.
    script = drawn.script[: drawn.place]
    again = answers("E", observations(script * 2), drawn.limits)
    assert [n for n, each in enumerate(again, start=1) if each.decision == "recover"] == [
        len(script),
        2 * len(script),
    ]
    assert again[-1].strategy == TRIED[drawn.reason][1]
    # And it is stopped in the end, whatever it is told.
    tried = answers("E", observations(script * 5), drawn.limits)
    assert (tried[-1].decision, tried[-1].reason) == ("stop", drawn.reason)


@each_kind
@some
@given(data=st.data())
def test_levels_a_and_b_detect_nothing_and_b_stops_at_its_steps(
    kind: Callable[[Draw], Kind], data: st.DataObject
) -> None:
    drawn, spoken, _ = data.draw(placed(kind))
    run = observations(spoken)
    said = answers("A", run, drawn.limits)
    assert acted(said) == len(run)
    assert said[-1].reason == "completed"
    # A poll's own bound is part of level B; everything else here is not.
    limits = msgspec.structs.replace(drawn.limits, tools={})
    assert acted(answers("B", run, limits)) == len(run)
    steps = data.draw(st.integers(1, len(run)))
    bounded = answers("B", run, msgspec.structs.replace(limits, max_steps=steps))
    assert acted(bounded) == steps
    due = "completed" if steps == len(run) else "step_budget_exhausted"
    assert bounded[steps - 1].reason == due


@each_kind
@some
@given(data=st.data())
def test_level_c_stops_equal_calls_running_whatever_came_of_them(
    kind: Callable[[Draw], Kind], data: st.DataObject
) -> None:
    drawn, steps, _ = data.draw(placed(kind))
    repeat = drawn.limits.repeat or 0
    last: list[str] = []
    due = len(steps)
    for number, step in enumerate(steps, start=1):
        policy = drawn.limits.policy(step.tool)
        if step.tool is None or policy.wait or due < len(steps):
            continue
        # Without arguments there is no fingerprint, and what is unknown equals nothing.
        known = step.arguments is not None
        digest = action_fingerprint(step.tool, step.arguments, policy.volatile)
        last.append(digest if known else f"unknown {number}")
        if len(last) >= repeat and len(set(last[-repeat:])) == 1:
            due = number
    limits = msgspec.structs.replace(drawn.limits, max_waits=None)
    without_waits = {
        tool: msgspec.structs.replace(policy, max_waits=None)
        for tool, policy in limits.tools.items()
    }
    limits = msgspec.structs.replace(limits, tools=without_waits)
    said = answers("C", observations(steps), limits)
    assert acted(said) == due
    assert said[due - 1].reason == ("completed" if due == len(steps) else "repeated_action")


def test_every_incident_of_detection_is_a_kind_here() -> None:
    numbers = [kind.__name__.rsplit("_", 2)[1:] for kind in KINDS]
    assert numbers == [
        *(["1", str(number)] for number in range(1, 7)),
        *(["2", str(number)] for number in range(1, 10)),
    ]
    assert OPEN.max_steps is None
