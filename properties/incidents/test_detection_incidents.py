"""Every reported false stop and missed loop, as a whole kind, has the verdict of level D's rows.

Each test is one incident (its number in the name), generated over names, thresholds, lengths and
positions. Where an incident's wording names another reason than the table of rows does, the table
is right and a comment says so.

Killers: 1.x a wait that counts as a call, states left out of a repeat, identities that drop nested
fields; 2.x cycles without states, streaks that text or another tool resets, thresholds off by one.
"""

from __future__ import annotations

import json

import msgspec
import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from loopcore.control.decisions import Decision
from loopcore.control.fingerprints import action_fingerprint
from loopcore.control.levels import controller
from loopcore.control.limits import Limits, ToolPolicy
from loopcore.control.observations import Json, Observation, Usage

names = st.sampled_from(["poll", "read_out", "click", "tool", "наблюдать", "mcp:x/y"])
# Bounds that are not the subject of an incident are off, so only its rows can answer.
OPEN = Limits(max_steps=None, horizon=None, max_waits=None)


class Step(msgspec.Struct, frozen=True, kw_only=True):
    """One turn of a script with one action; `tool` None is text only."""

    tool: str | None = None
    arguments: Json = None
    result: Json = "ok"
    state: str | None = None
    progress: int | None = None
    error: str | None = None
    claims: bool = False


FINISH = Step(result=None, claims=True)


def observations(steps: list[Step], per_turn: int = 1, gap: int = 1) -> list[Observation]:
    """Return a script as observations, several actions a turn and turn numbers skipped."""
    return [
        Observation(
            turn=1 + gap * (index // per_turn),
            action=1 + index % per_turn,
            tool=step.tool,
            arguments=step.arguments,
            result=None if step.tool is None else step.result,
            state_fingerprint=step.state,
            progress=step.progress,
            error_class=step.error,
            claims_done=step.claims,
            verified=True if step.claims else None,
            usage=Usage(model_calls=1, tool_calls=0 if step.tool is None else 1, latency_ms=1),
        )
        for index, step in enumerate(steps)
    ]


def verdict(run: list[Observation], limits: Limits = OPEN) -> tuple[int | None, str | None]:
    """Return (index of the observation that is first answered by a stop, its reason)."""
    ours = controller("D")
    ours.start(limits)
    for index, seen in enumerate(run):
        decision = ours.observe(seen)
        if decision.decision == "stop":
            return index, decision.reason
    return None, None


def outcome(steps: list[Step], limits: Limits = OPEN) -> tuple[int | None, str | None]:
    """Return (number of the step that a stop answers, its reason), or (None, None)."""
    index, reason = verdict(observations(steps), limits)
    return (None if index is None else index + 1), reason


def changed(limits: Limits = OPEN, **fields: object) -> Limits:
    """Return limits with some fields replaced."""
    return msgspec.structs.replace(limits, **fields)


@given(names, st.integers(2, 6), st.integers(1, 12), st.integers(0, 5))
def test_1_1_a_declared_poll_is_bounded_by_its_own_limit_and_not_by_repetition(
    tool: str, repeat: int, polls: int, before: int
) -> None:
    prefix = [Step(tool="start", arguments={"job": n}, state=f"b{n}") for n in range(before)]
    waiting = [Step(tool=tool, arguments={"job": 7}, result="running", state="s0")] * polls
    end = [Step(tool="result", arguments={"job": 7}, state="s1", progress=1), FINISH]
    script = [*prefix, *waiting, *end]
    # The incident lets all of "max 4 polls" pass; the table fires at the n-th, so n + 1 is given.
    own = changed(repeat=repeat, tools={tool: ToolPolicy(wait=True, max_waits=polls + 1)})
    assert outcome(script, own) == (len(script), "completed")
    tight = changed(repeat=repeat, tools={tool: ToolPolicy(wait=True, max_waits=polls)})
    assert outcome(script, tight) == (before + polls, "no_progress")
    deadline = changed(own, max_latency_ms=before + polls)
    assert outcome(script, deadline) == (before + polls, "deadline_exceeded")
    undeclared = outcome(script, changed(repeat=repeat, cycle_max=None))
    if polls >= repeat:
        assert undeclared == (before + repeat, "repeated_action")
    else:
        assert undeclared == (len(script), "completed")


@given(names, st.integers(6, 30), st.booleans(), st.booleans())
def test_1_2_a_poll_whose_result_grows_is_never_a_loop(
    tool: str, reads: int, with_state: bool, asleep: bool
) -> None:
    script: list[Step] = []
    for n in range(reads):
        state = f"bytes{n}" if with_state else None
        script.append(Step(tool=tool, arguments={"h": 1}, result=f"log {n * 10}", state=state))
        if asleep:
            # The sleep's own result is constant; without a state only the read shows the growth.
            script.append(Step(tool="sleep", arguments=5, result="slept", state=state))
    assert outcome([*script, FINISH]) == (len(script) + 1, "completed")


@given(st.integers(2, 20), st.integers(2, 6), st.sampled_from([None, "state"]))
def test_1_3_one_routine_over_many_items_is_not_a_cycle(
    items: int, actions: int, state: str | None
) -> None:
    script = [
        Step(
            tool=f"tool{action}",
            arguments={"file": f"f{item}"},
            state=state and f"{state}{item}{action}",
        )
        for item in range(items)
        for action in range(actions)
    ]
    assert outcome([*script, FINISH]) == (len(script) + 1, "completed")


@given(names, st.integers(2, 6), st.integers(1, 20))
def test_1_4_one_button_pressed_again_is_a_loop_only_when_the_page_stays(
    tool: str, repeat: int, presses: int
) -> None:
    limits = changed(repeat=repeat)
    moving = [Step(tool=tool, arguments="next", state=f"p{n}") for n in range(presses)]
    assert outcome([*moving, FINISH], limits) == (presses + 1, "completed")
    frozen = [Step(tool=tool, arguments="next", state="p1")] * presses
    expected = (repeat, "repeated_action") if presses >= repeat else (presses + 1, "completed")
    assert outcome([*frozen, FINISH], limits) == expected


@given(st.integers(1, 12), st.integers(1, 4))
def test_1_5_an_action_that_was_only_proposed_counts_for_nothing(
    dispatched: int, skipped: int
) -> None:
    # What is not dispatched gives no observation: the skipped clicks are in the text of the turn.
    script = [Step(tool="click", arguments="x", state=f"s{n}") for n in range(dispatched)]
    proposed = dispatched * (1 + skipped)
    assert outcome(script, changed(max_tool_calls=dispatched)) == (None, None)
    assert outcome(script, changed(max_tool_calls=proposed)) == (None, None)
    # The first dispatched click on y is the first of its run.
    later = [Step(tool="click", arguments="y", state="t")] * 4
    assert outcome([*script, *later]) == (dispatched + 4, "repeated_action")
    one_more = [*script, Step(tool="click", arguments="y", state="t")]
    assert outcome(one_more, changed(max_tool_calls=dispatched)) == (
        dispatched + 1,
        "tool_budget_exhausted",
    )


@given(st.integers(0, 5), st.text(max_size=3), st.booleans())
def test_1_6_calls_that_differ_deep_inside_their_arguments_are_different(
    depth: int, key: str, in_list: bool
) -> None:
    def nested(value: int) -> Json:
        item: Json = {"questions": [{"id": value, "text": "same"}]}
        for _ in range(depth):
            item = [0, item] if in_list else {key: item, key + "x": 0}
        return item

    digests = {action_fingerprint("ask", nested(k)) for k in range(6)}
    assert len(digests) == 6
    # Nothing but the identity tells these calls apart: one result, one state.
    script = [Step(tool="ask", arguments=nested(k), result="answered", state="s") for k in range(6)]
    assert outcome([*script, FINISH]) == (7, "completed")


@given(st.integers(2, 8), st.integers(2, 4), st.integers(0, 7), st.booleans(), st.integers(0, 1))
def test_2_1_a_cycle_of_every_declared_period_is_seen_when_it_is_complete(
    period: int, rounds: int, before: int, with_state: bool, same_tool: int
) -> None:
    prefix = [Step(tool="look", arguments=n, state=f"q{n}") for n in range(before)]
    cycle = [
        Step(
            tool="tool" if same_tool else f"tool{phase}",
            arguments=phase,
            result=f"r{phase}",
            state=f"s{phase}" if with_state else None,
        )
        for phase in range(period)
    ]
    script = [*prefix, *cycle * rounds]
    limits = changed(cycle_max=period, cycle_repeats=rounds)
    assert outcome(script, limits) == (len(script), "nonproductive_cycle")
    assert outcome(script[:-1], limits) == (None, None)
    if period > 2:
        assert outcome(script, changed(limits, cycle_max=period - 1)) == (None, None)
    # The twin: every phase comes back to another state.
    twin = [msgspec.structs.replace(s, state=f"t{n}") for n, s in enumerate(script)]
    assert outcome(twin, limits) == (None, None)


@given(st.integers(1, 20), st.integers(1, 20), st.integers(0, 5))
def test_2_2_empty_turns_are_counted_over_a_restart(window: int, restart: int, before: int) -> None:
    work = [Step(tool="edit", arguments=n, state=f"s{n}", progress=1) for n in range(before)]
    script = [*work, *[Step(progress=0)] * (window + 3)]
    limits = changed(window=window)
    assert outcome(script, limits) == (before + window, "no_progress")
    # Level D resumes from the run's observations, whose answers are discarded.
    run = observations(script)
    cut = min(restart, before + window - 1)
    resumed = controller("D")
    resumed.start(limits)
    discarded: list[Decision] = [resumed.observe(seen) for seen in run[:cut]]
    rest = [resumed.observe(seen).decision for seen in run[cut:]]
    assert all(decision.decision == "continue" for decision in discarded)
    assert rest.index("stop") + cut == before + window - 1
    # Where nobody can measure progress, the model's budget still bounds empty turns.
    blind = [Step()] * (window + 3)
    assert outcome(blind, limits) == (None, None)
    assert outcome(blind, changed(limits, max_model_calls=window)) == (
        window + 1,
        "model_budget_exhausted",
    )


@given(st.integers(1, 8), st.integers(1, 2), st.sampled_from(["E", "AssertionError"]))
def test_2_3_a_failing_test_between_other_reads_is_no_progress(
    window: int, per_turn: int, error: str
) -> None:
    def interleaved(progress: int | None, constant: bool) -> list[Step]:
        script: list[Step] = []
        for n in range(12):
            result = "E" if constant else f"E{n}"
            script.append(
                Step(tool="test", result=result, arguments={}, error=error, progress=progress)
            )
            script.append(Step(tool="read", arguments=f"f{n}", progress=progress))
        return script

    limits = changed(window=window)
    index, reason = verdict(observations(interleaved(0, constant=True), per_turn), limits)
    assert (index, reason) == (per_turn * (window - 1), "no_progress")
    # The control: other results each time, and the failing tests grow fewer or nobody counts them.
    for progress in (1, None):
        run = observations(interleaved(progress, constant=False), per_turn)
        assert verdict(run, limits) == (None, None)


@given(names, st.integers(1, 12), st.booleans())
def test_2_4_reworded_searches_with_one_result_are_no_progress(
    tool: str, window: int, with_state: bool
) -> None:
    state = "s" if with_state else None
    script = [
        Step(tool=tool, arguments={"q": f"words {n}"}, result="same set", state=state, progress=0)
        for n in range(window + 3)
    ]
    assert outcome(script, changed(window=window)) == (window, "no_progress")


@given(st.permutations(["a", "b", "c"]), st.sampled_from([None, 1, 4]), st.integers(2, 6))
def test_2_5_spaces_and_key_order_do_not_make_a_new_call(
    order: list[str], indent: int | None, repeat: int
) -> None:
    value = {"a": 1, "b": [1, 2], "c": "x y"}
    same = [
        json.dumps(value),
        json.dumps({key: value[key] for key in order}, indent=indent),
        {key: value[key] for key in order},
    ]
    script = [Step(tool="run", arguments=same[n % 3], state="s") for n in range(repeat)]
    limits = changed(repeat=repeat)
    assert outcome(script, limits) == (repeat, "repeated_action")
    # The control: the order of an array, a text for a number and another text are other calls.
    others: list[Json] = [value, {**value, "b": [2, 1]}, {**value, "a": "1"}, {**value, "c": "xy"}]
    distinct = [Step(tool="run", arguments=other, state="s") for other in others]
    assert outcome(distinct, limits) == (None, None)


@given(st.lists(st.integers(0, 99), min_size=4, max_size=9, unique=True), st.booleans())
def test_2_6_a_renumbered_reference_does_not_make_a_new_click(
    references: list[int], deep: bool
) -> None:
    def click(reference: int, name: str) -> Step:
        target: Json = {"ref": f"E{reference}", "role": "button", "name": name}
        return Step(tool="click", arguments=[{"at": target}] if deep else target, state="page")

    limits = changed(tools={"click": ToolPolicy(volatile=("ref",))})
    script = [click(reference, "Submit") for reference in references]
    assert outcome(script, limits) == (4, "repeated_action")
    assert outcome(script) == (None, None)
    named = [click(reference, f"Item {reference}") for reference in references]
    assert outcome(named, limits) == (None, None)


@given(st.lists(st.integers(0, 3), min_size=5, max_size=5), st.integers(1, 4), st.integers(2, 5))
def test_2_7_text_between_calls_and_turn_borders_change_no_streak(
    texts: list[int], gap: int, repeat: int
) -> None:
    edit = Step(tool="edit", arguments="x", result="no match", error="match", state="s")
    limits = changed(repeat=repeat, error_streak=repeat)
    assert outcome([edit] * 5, limits) == (repeat, "repeated_action")
    spoken = [step for count in texts for step in [*[Step()] * count, edit]]
    run = observations(spoken, gap=gap)
    index, reason = verdict(run, limits)
    assert index is not None
    assert reason == "repeated_action"
    assert sum(seen.tool == "edit" for seen in run[: index + 1]) == repeat


@given(st.integers(2, 6), st.integers(1, 14))
def test_2_8_a_clock_read_again_and_again_is_no_progress(repeat: int, window: int) -> None:
    def readings(state: str | None) -> list[Step]:
        return [
            Step(tool="now", arguments={}, result=f"11:{n:02}", state=state, progress=0)
            for n in range(20)
        ]

    limits = changed(repeat=repeat, window=window)
    assert outcome(readings(None), limits) == (window, "no_progress")
    # The incident says no_progress here too. By row r, equal known states make these calls repeats
    # whatever the result says, and repeated_action is the higher of the two.
    known = (repeat, "repeated_action") if repeat <= window else (window, "no_progress")
    assert outcome(readings("s"), limits) == known
    # The twin: a log that grows, on a tool of the same shape.
    growing = [msgspec.structs.replace(step, progress=1) for step in readings(None)]
    assert outcome(growing, limits) == (None, None)


@given(st.integers(1, 8), st.booleans(), st.booleans(), st.integers(0, 7))
def test_2_9_one_error_class_over_arguments_and_tools_is_a_streak(
    streak: int, other_tools: bool, spoken: bool, success: int
) -> None:
    def failing(count: int, *, classes: int = 1, progress: int | None = None) -> list[Step]:
        return [
            Step(
                tool=f"tool{n}" if other_tools else "edit",
                arguments=f"v{n}",
                result=f"text {n}",
                error=f"SyntaxError{n % classes}",
                progress=progress,
            )
            for n in range(count)
        ]

    # The incident says no_progress; the table gives this evidence a reason of its own (row e).
    limits = changed(error_streak=streak, window=None)
    assert outcome(failing(streak), limits) == (streak, "tool_failure")
    assert outcome(failing(streak - 1), limits) == (None, None)
    if spoken:
        script = [step for failure in failing(streak) for step in (Step(), failure)]
        assert outcome(script, limits) == (2 * streak, "tool_failure")
    # A success in between ends the streak.
    assume(success < streak)
    fixed = failing(streak + success)
    fixed[success] = Step(tool="edit", arguments="fixed", result="done")
    assert outcome(fixed, limits) == (None, None)
    # The controls: another class each time, and one class with fewer failures each time.
    if streak > 1:
        assert outcome(failing(12, classes=2), limits) == (None, None)
    assert outcome(failing(12, progress=1), limits) == (None, None)


@pytest.mark.parametrize("level", ["B", "C"])
def test_the_lower_levels_show_what_these_incidents_cost_them(level: str) -> None:
    ours = controller(level)
    ours.start(Limits())
    # Incident 1.4: the naive rule stops pages that do change; a step bound alone does not see it.
    moving = observations([Step(tool="next", arguments=1, state=f"p{n}") for n in range(6)])
    answers = [ours.observe(seen).reason for seen in moving]
    assert ("repeated_action" in answers) is (level == "C")
