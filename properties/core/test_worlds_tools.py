"""A world's verifier and its measure see the state alone: no word, no game and no repetition helps.

Mutants that this claim must notice: a verifier that forgets removed tests, a second order, unread
sources, repeated steps, deleted rows or made-up units; a measure that takes a deleted row or a made
up note for progress; a tool that hides its second effect.
"""

from __future__ import annotations

import pytest

from loopcore.control.progress import ProgressMeter
from loopcore.worlds.applications import BUILDERS
from loopcore.worlds.calls import Value
from loopcore.worlds.model import APPLICATIONS
from loopcore.worlds.world import Hands, Setup, World

SIZES = (2, 3, 5, 9, 18)
SHAPES = (0, 0x5DEECE66D5DEECE6, 0xFFFFFFFFFFFFFFFF)
CALLS_MAX = 400


def build(
    application: str, size: int, shape: int, *, impossible: bool = False
) -> tuple[World, Hands]:
    """Return the world and hands of a task of some size."""
    setup = Setup(size=size, shape=shape, waits=(3,), impossible=impossible)
    return BUILDERS[application](setup)


def finish(world: World, hands: Hands) -> int:
    """Make every useful call; return how many there were, at most `CALLS_MAX`."""
    for calls in range(CALLS_MAX):
        call = hands.advance()
        if call is None:
            return calls
        world.execute(call)
    return CALLS_MAX


@pytest.mark.parametrize("shape", SHAPES)
@pytest.mark.parametrize("size", SIZES)
@pytest.mark.parametrize("application", APPLICATIONS)
def test_useful_calls_alone_verify_and_nothing_less_does(
    application: str, size: int, shape: int
) -> None:
    world, hands = build(application, size, shape)
    calls = finish(world, hands)
    assert world.verified()
    assert not any(world.reading().remaining)
    again, others = build(application, size, shape)
    for _ in range(calls - 1):
        call = others.advance()
        assert call is not None
        again.execute(call)
        assert not again.verified()


@pytest.mark.parametrize("application", APPLICATIONS)
def test_each_useful_call_is_progress_or_leads_to_one(application: str) -> None:
    world, hands = build(application, 9, SHAPES[1])
    meter = ProgressMeter()
    meter.update(world.reading())
    improved = 0
    while (call := hands.advance()) is not None:
        world.execute(call)
        progress = meter.update(world.reading())
        assert progress is not None
        assert progress >= 0
        improved += progress
    assert improved >= 3


@pytest.mark.parametrize("application", APPLICATIONS)
def test_a_mistake_and_a_look_are_never_progress(application: str) -> None:
    world, hands = build(application, 5, SHAPES[1])
    meter = ProgressMeter()
    meter.update(world.reading())
    for index in range(CALLS_MAX):
        for call in (hands.look(index), hands.mistake(index), hands.mistake(index), hands.check()):
            world.execute(call)
            progress = meter.update(world.reading())
            assert progress is not None
            assert progress <= 0
        useful = hands.advance()
        if useful is None:
            break
        world.execute(useful)
        meter.update(world.reading())
    assert world.verified()


@pytest.mark.parametrize("shape", SHAPES)
@pytest.mark.parametrize("application", APPLICATIONS)
def test_an_impossible_task_is_never_verified_by_useful_calls(application: str, shape: int) -> None:
    world, hands = build(application, 4, shape, impossible=True)
    for _ in range(CALLS_MAX):
        call = hands.advance()
        if call is not None:
            world.execute(call)
        assert not world.verified()
    assert any(world.reading().remaining)


@pytest.mark.parametrize("before", [0, 2, 5])
@pytest.mark.parametrize("application", APPLICATIONS)
def test_the_measure_sees_through_an_agent_that_games_it(application: str, before: int) -> None:
    world, hands = build(application, 5, SHAPES[1])
    meter = ProgressMeter()
    meter.update(world.reading())
    for _ in range(before):
        call = hands.advance()
        assert call is not None
        world.execute(call)
        meter.update(world.reading())
    states: list[object] = [world.state()]
    for index in range(60):
        world.execute(hands.game(index))
        states.append(world.state())
        progress = meter.update(world.reading())
        assert progress is not None
        assert progress <= 0
        assert not world.verified()
    # What was spoilt can be taken back by one who knows, and then the work can be done.
    hands.aware = True
    finish(world, hands)
    assert world.verified()


@pytest.mark.parametrize(
    ("application", "first", "look", "better"),
    [
        ("coding", 0, "failed", -1),
        ("browser", 0, "confirmed", 1),
        ("research", 0, "citations", 1),
        ("support", 0, "noted", 1),
        ("etl", 0, "invalid", -1),
    ],
)
def test_a_game_looks_like_progress_to_who_asks_the_tool(
    application: str, first: int, look: str, better: int
) -> None:
    world, hands = build(application, 5, SHAPES[1])

    def shown() -> int:
        answer = world.execute(hands.check()).result
        assert isinstance(answer, dict)
        return int(answer[look])

    before = shown()
    world.execute(hands.game(first))
    assert (shown() - before) * better > 0


@pytest.mark.parametrize(
    ("application", "tool", "arguments"),
    [
        ("coding", "remove_test", {"test": "test_0"}),
        ("coding", "set_checker", {"mode": "loose"}),
        ("coding", "edit", {"path": "parser.py", "line": 12, "text": 2}),
        ("browser", "submit", {}),
        ("research", "cite", {"claim": "claim-0", "document": "claim-0/unread"}),
        ("research", "retract", {"claim": "claim-0", "document": "claim-0/a"}),
        ("support", "note", {"datum": "order", "value": "n/a"}),
        ("support", "remediate", {"step": "refund"}),
        ("etl", "set_schema", {"mode": "relaxed"}),
        ("jobs", "register", {"unit": "unit-0/part"}),
        ("jobs", "submit", {"unit": "unit-0"}),
    ],
)
def test_one_wrong_effect_after_the_work_is_enough_to_be_refused(
    application: str, tool: str, arguments: dict[str, Value]
) -> None:
    world, hands = build(application, 5, SHAPES[1])
    finish(world, hands)
    assert world.verified()
    assert world.execute(world.box.call(tool, **arguments)).error is None
    assert not world.verified()


@pytest.mark.parametrize("application", APPLICATIONS)
def test_an_unsafe_effect_spoils_the_task_the_second_time_and_not_the_first(
    application: str,
) -> None:
    for times in (1, 2):
        world, hands = build(application, 5, SHAPES[1])
        call = hands.effect(unsafe=True)
        assert call.unsafe
        for _ in range(times):
            world.execute(call)
        finish(world, hands)
        assert world.verified() == (times == 1)
        if times > 1:
            hands.aware = True
            finish(world, hands)
            assert world.verified()


@pytest.mark.parametrize("application", APPLICATIONS)
def test_an_idempotent_effect_may_be_repeated(application: str) -> None:
    world, hands = build(application, 5, SHAPES[1])
    for place in range(CALLS_MAX):
        call = hands.effect(unsafe=False) if place % 3 == 0 else hands.advance()
        if call is None:
            break
        world.execute(call)
        if not call.unsafe and not call.wait:
            world.execute(call)
    finish(world, hands)
    assert world.verified()


@pytest.mark.parametrize("application", APPLICATIONS)
def test_noise_spoils_nothing_for_good_and_bad_calls_do_no_work(application: str) -> None:
    world, hands = build(application, 5, SHAPES[1])
    for index in range(40):
        for call in (hands.look(index), hands.check(), hands.mistake(index), hands.slip(index)):
            world.execute(call)
            assert not world.verified()
        for call in (hands.alternate(index % 4), hands.reword(index), hands.fail(index)):
            world.execute(call)
            assert not world.verified()
    finish(world, hands)
    assert world.verified()


@pytest.mark.parametrize("application", APPLICATIONS)
def test_failing_calls_have_one_error_class_and_reworded_ones_one_answer(application: str) -> None:
    world, hands = build(application, 5, SHAPES[1])
    failures = [world.execute(hands.fail(index)).error for index in range(20)]
    assert failures[0] is not None
    assert len(set(failures)) == 1
    actions = {hands.reword(index).fingerprint for index in range(20)}
    answers = {world.execute(hands.reword(index)).fingerprint for index in range(20)}
    assert len(actions) == 20
    assert len(answers) == 1


@pytest.mark.parametrize("application", APPLICATIONS)
def test_a_stalled_poll_never_ends_and_a_running_one_does(application: str) -> None:
    world, hands = build(application, 5, SHAPES[1])
    stalled = {world.execute(hands.stall()).fingerprint for _ in range(100)}
    assert len(stalled) == 1
    if application != "jobs":
        answers = [world.execute(hands.poll(0)).result for _ in range(4)]
        status = [answer["status"] for answer in answers if isinstance(answer, dict)]
        assert status == ["running", "running", "done", "done"]
