"""The habit model makes the same run for a number anywhere, and runs of the right shape."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise

import numpy as np
import pytest

from loopcore.batch.columns import PROGRESS_UNKNOWN, Columns, Int64s
from loopcore.batch.interning import columns
from loopcore.batch.stop_times import stop_times
from loopcore.control.limits import Limits
from loopcore.control.observations import Observation, Usage
from loopcore.errors import UsageError
from loopcore.worlds.draws import Draws, mixed
from loopcore.worlds.habit_model import HORIZON, fit, generate, load
from loopcore.worlds.habit_model_generation import Generated, Words
from loopcore.worlds.habit_model_tables import (
    ROW_BITS,
    SLOTS,
    THRESHOLD_BITS,
    alias_words,
)
from loopcore.worlds.model import APPLICATIONS, HABITS, Task, Trajectory
from loopcore.worlds.playing import tool_policies
from loopcore.worlds.tasks import tasks

GOLDEN = 0x9E3779B97F4A7C15
EACH_APPLICATION = pytest.mark.parametrize("application", APPLICATIONS)


def by_number(made: Generated) -> dict[int, list[bytes]]:
    """The columns of each run up to its length, by number."""
    return {
        int(number): [
            *(array[: made.columns.lengths[run], run].tobytes() for _, array in columns_of(made)),
            bytes([made.habit[run]]),
            made.onset[run].tobytes(),
        ]
        for run, number in enumerate(made.numbers)
    }


def columns_of(made: Generated) -> list[tuple[str, Int64s]]:
    return [(name, array.astype(np.int64)) for name, array in made.columns.arrays()]


def test_a_number_is_the_same_run_in_every_range() -> None:
    whole = by_number(generate("coding", range(200), seed=3))
    assert by_number(generate("coding", range(100, 160), seed=3)) == {
        number: run for number, run in whole.items() if 100 <= number < 160
    }
    other = by_number(generate("coding", range(200), seed=4))
    assert sum(whole[number] == other[number] for number in whole) < 10


def test_the_size_of_the_groups_changes_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    whole = by_number(generate("coding", range(120), seed=3))
    monkeypatch.setattr("loopcore.worlds.habit_model_generation.GROUP_RUNS", 50)
    assert by_number(generate("coding", range(120), seed=3)) == whole


def test_what_followed_more_often_follows_more_often() -> None:
    # Of four runs that are stuck, three repeat one call and one makes a new one each turn.
    stuck = [call("same")] * 20
    wandering = [call("same"), *[call(f"new {n}") for n in range(19)]]
    runs = [run_of("productive", [GOOD[0], *seen], 2) for seen in (stuck, stuck, stuck, wandering)]
    model = fit(runs, horizon=21)
    # The manner of being stuck is drawn first; within one manner the next call is certain.
    found = model.generate("coding", range(4_000), seed=1, turns=21, mixture={"productive": 1})
    repeated = found.columns.action[20] == found.columns.action[19]
    assert abs(repeated.mean() - 0.75) < 0.03
    # One run of two calls that come by turns and in pairs: what follows is drawn.
    mixed_ = [GOOD[0], *[call(name) for name in "aababbabaabbbabaabab" * 3]]
    model = fit([run_of("productive", mixed_, 2)], horizon=len(mixed_))
    found = model.generate(
        "coding", range(4_000), seed=1, turns=len(mixed_), mixture={"productive": 1}
    )
    action = found.columns.action[20:]
    again = float((action[1:] == action[:-1]).mean())
    names = [seen.action_fingerprint for seen in mixed_[20:]]
    expected = sum(one == other for one, other in pairwise(names)) / (len(names) - 1)
    assert 0.2 < expected < 0.8
    assert abs(again - expected) < 0.08


def test_what_was_rare_is_rare_and_does_occur() -> None:
    common, rare = [call("look"), GOOD[0], DONE], [REFUSED, GOOD[0], DONE]
    runs = [run_of("productive", seen, None) for seen in [common] * 199 + [rare]]
    model = fit(runs, horizon=3)
    found = model.generate("coding", range(20_000), seed=1, turns=3, mixture={"productive": 1})
    assert 0.003 < found.columns.claims[0].mean() < 0.007


def test_a_shorter_horizon_cuts_the_same_runs() -> None:
    whole = generate("support", range(300), seed=3)
    short = generate("support", range(300), seed=3, turns=20)
    assert short.columns.turns == 20
    one, other = np.argsort(whole.numbers), np.argsort(short.numbers)
    lengths, finish = whole.columns.lengths[one], whole.verified_turn[one]
    assert (short.columns.lengths[other] == np.minimum(lengths, 20)).all()
    assert (short.verified_turn[other] == np.where(finish <= 20, finish, 0)).all()
    inside = np.arange(20)[:, None] < np.minimum(lengths, 20)
    for name, array in short.columns.arrays():
        expected = dict(whole.columns.arrays())[name][:20, one]
        assert (array[:, other][inside] == expected[inside]).all()


@EACH_APPLICATION
def test_the_habit_of_a_number_is_that_of_the_task_of_this_number(application: str) -> None:
    made = generate(application, range(200), seed=9)
    habits = [task.habit for task in tasks(application, 200, 9)]
    assert [HABITS[habit] for habit in made.habit[np.argsort(made.numbers)]] == habits


@EACH_APPLICATION
def test_runs_end_at_their_finish_or_at_the_horizon_and_never_verify_after_an_onset(
    application: str,
) -> None:
    made = generate(application, range(3_000), seed=2)
    found, runs = made.columns, np.arange(3_000)
    verified = made.verified_turn > 0
    assert (found.lengths == np.where(verified, made.verified_turn, HORIZON)).all()
    last = found.lengths - 1
    assert (found.claims[last, runs][verified]).all()
    assert (found.verified[last, runs][verified] == 1).all()
    inside = np.arange(HORIZON)[:, None] < found.lengths
    assert (found.verified == 1)[inside].sum() == verified.sum()
    assert not (verified & (made.onset > 0)).any()
    assert verified.any()
    assert (made.onset > 0).any()


@EACH_APPLICATION
def test_values_are_those_that_columns_may_hold(application: str) -> None:
    found = generate(application, range(2_000), seed=5).columns
    inside = np.arange(HORIZON)[:, None] < found.lengths
    turns = np.broadcast_to(np.arange(HORIZON)[:, None], inside.shape)[inside]
    for ids in (found.action, found.result, found.state):
        assert ids[inside].min() >= -1
        assert (ids[inside] <= turns).all()
    assert set(np.unique(found.progress[inside])) <= {PROGRESS_UNKNOWN, -1, 0, 1}
    unmeasured = (found.progress == PROGRESS_UNKNOWN)[inside].mean()
    assert 0.01 < unmeasured < 0.03
    assert found.tool[inside].max() < len(found.tools)
    assert found.error[inside].max() < len(found.errors)
    assert set(found.tools) <= set(tool_policies(application))
    assert (found.model_calls[inside] >= 1).all()
    assert (found.cost_microunits[inside] > 0).all()
    nothing = inside & (found.tool < 0)
    assert (found.action[nothing] == -1).all()
    assert (found.tool_calls[nothing] == 0).all()


def test_words_are_splitmix64_of_number_and_counter() -> None:
    numbers = np.array([0, 1, 77, 10**12])
    words = Words(8, "stream", numbers)
    out, scratch = np.empty(4, np.uint64), np.empty(4, np.uint64)
    origin = Draws(8, "stream", 0).word(0, 0)
    for counter in (0, 1, 120):
        words.write(counter, slice(0, 4), out, scratch)
        expected = [
            mixed(mixed(origin + int(number) * GOLDEN) + (counter + 1) * GOLDEN)
            for number in numbers
        ]
        assert out.tolist() == expected


@pytest.mark.parametrize("weights", [[1], [1, 1], [3, 1], [1, 2, 3, 994], [1] * 64, [5, *[1] * 40]])
def test_alias_words_choose_by_weight(weights: list[int]) -> None:
    words = alias_words([([1], [1]), (list(range(10, 10 + len(weights))), weights)])[1]
    chance = np.zeros(10 + len(weights))
    for word in words.tolist():
        below = (word & ((1 << THRESHOLD_BITS) - 1)) / (1 << THRESHOLD_BITS)
        chance[word >> (THRESHOLD_BITS + ROW_BITS)] += below / SLOTS
        chance[word >> THRESHOLD_BITS & ((1 << ROW_BITS) - 1)] += (1 - below) / SLOTS
    assert chance[10:] == pytest.approx(np.array(weights) / sum(weights), abs=2**-15)


def test_only_the_heaviest_successors_have_a_slot() -> None:
    words = alias_words([(list(range(100)), [1000] * SLOTS + [1] * (100 - SLOTS))])[0]
    rows = {word >> (THRESHOLD_BITS + ROW_BITS) for word in words.tolist()}
    assert rows == set(range(SLOTS))


def run_of(habit: str, seen: Sequence[Observation], onset: int | None) -> Trajectory:
    task = Task(application="coding", number=0, seed=0, habit=habit)
    usage = Usage(model_calls=1, input_tokens=10, output_tokens=5, cost_microunits=100)
    return Trajectory(
        task=task,
        observations=tuple(
            Observation(
                turn=turn,
                action=1,
                tool=one.tool,
                action_fingerprint=one.action_fingerprint,
                result_fingerprint=one.result_fingerprint,
                state_fingerprint=one.state_fingerprint,
                progress=one.progress,
                error_class=one.error_class,
                claims_done=one.claims_done,
                verified=one.verified,
                usage=usage,
            )
            for turn, one in enumerate(seen, start=1)
        ),
        onset=onset,
        verified_turn=None if onset else len(seen),
    )


def call(
    name: str, result: str | None = None, progress: int = 0, error: str | None = None
) -> Observation:
    return Observation(
        turn=1,
        action=1,
        tool="edit",
        action_fingerprint=name,
        # Equal results of different calls are nothing that the model keeps.
        result_fingerprint=result or f"result of {name}",
        progress=progress,
        error_class=error,
    )


def poll(result: str) -> Observation:
    return Observation(
        turn=1,
        action=1,
        tool="ci_status",
        action_fingerprint="poll",
        result_fingerprint=result,
        progress=0,
    )


TALK = Observation(turn=1, action=1, progress=0)
REFUSED = Observation(turn=1, action=1, claims_done=True, verified=False, progress=0)
UNJUDGED = Observation(turn=1, action=1, claims_done=True, progress=0)
DONE = Observation(turn=1, action=1, claims_done=True, verified=True, progress=0)
GOOD = [call(f"good {n}", f"done {n}", progress=1) for n in range(40)]
# Runs of which every level makes something else; each is the only one of its model.
SINGLE: dict[str, tuple[list[Observation], int | None]] = {
    "good work": ([*GOOD[:6], DONE], None),
    "no success at all": ([DONE], None),
    "a repetition": ([*GOOD[:3], *[call("same")] * 30], 4),
    "a repetition with talk": ([*GOOD[:2], *[call("same"), TALK] * 15], 3),
    "two calls in turn": ([GOOD[0], *[call("one"), call("two")] * 12], 2),
    "a round of five": ([*GOOD[:2], *[call(f"step {n}") for n in range(5)] * 6], 3),
    "a round too long": ([*GOOD[:2], *[call(f"step {n}") for n in range(7)] * 5], 3),
    "new errors of one class": ([GOOD[0], *[call(f"e{n}", error="E") for n in range(30)]], 2),
    "errors of two classes": (
        [GOOD[0], *[call(f"e{n}", error="EF"[n // 2 % 2]) for n in range(30)]],
        2,
    ),
    "a frozen poll": ([GOOD[0], *[poll("running")] * 60], 2),
    "wandering": ([GOOD[0], *[call(f"new {n}", f"r{n}") for n in range(30)]], 2),
    "refused claims": ([*GOOD[:2], *[REFUSED] * 20], 3),
    "claims without an answer": ([GOOD[0], *[UNJUDGED] * 20], 2),
    "work that stops": ([call("look"), *GOOD[:8], *[call("same")] * 20], 1),
}


def equalities(found: Columns, run: int) -> list[list[int]]:
    """What of a run stays when fingerprints, tools and errors are renamed."""
    length = int(found.lengths[run])
    listed: list[list[int]] = []
    for name in ("action", "result", "state", "error"):
        values = getattr(found, name)[:length, run].tolist()
        listed.append([-1 if value == -1 else values.index(value) for value in values])
    for name in ("progress", "claims", "verified", "cost_microunits"):
        listed.append(getattr(found, name)[:length, run].astype(np.int64).tolist())
    return listed


@pytest.mark.parametrize("name", SINGLE)
def test_a_model_of_one_run_makes_that_run(name: str) -> None:
    seen, onset = SINGLE[name]
    one = run_of("productive", seen, onset)
    limits = Limits(tools=tool_policies("coding"))
    model = fit([one], horizon=len(seen))
    made = model.generate("coding", range(3), seed=1, turns=len(seen), mixture={"productive": 1})
    original = columns([one.observations], limits)
    assert made.onset.tolist() == [onset or 0] * 3
    assert equalities(made.columns, 0) == equalities(original, 0)
    for level in ("A", "B", "C", "D", "total-3", "consecutive-3-result"):
        expected, found = (stop_times(c, limits, level) for c in (original, made.columns))
        assert found.turn.tolist() == expected.turn.tolist() * 3
        assert found.reason.tolist() == expected.reason.tolist() * 3


def test_bad_input_is_refused_in_a_sentence() -> None:
    with pytest.raises(UsageError, match="expected one of coding"):
        generate("cooking", range(3), seed=1)
    with pytest.raises(UsageError, match="turns: expected 1 to 120, got 121"):
        generate("coding", range(3), seed=1, turns=121)
    with pytest.raises(UsageError, match="mixture"):
        generate("coding", range(3), seed=1, mixture={"lazy": 1.0})
    one = fit([run_of("productive", [*GOOD[:2], DONE], None)], horizon=3)
    with pytest.raises(UsageError, match="no runs of alternator"):
        one.generate("coding", range(3), seed=1, turns=3, mixture={"alternator": 1.0})
    assert load().fitted.horizon == HORIZON
