"""Stop times over columns are those of the scalar controllers: same turn and same reason.

Killers, each of which alone turns this file red: a deadline compared as the other sums, a wait
that counts as a step, a refusal that differs by a value nobody knows, a pending streak that a
refusal does not end, a register that progress does not empty, a cycle that is only a repetition,
results compared where states are known, a repeatable tool that is stopped, a key that forgets its
results, turns after a run's end that are looked at, runs mixed up when the open ones are narrowed.
"""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Sequence

import msgspec
import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from loopcore.batch import state
from loopcore.batch import stop_times as module
from loopcore.batch.columns import UNKNOWN
from loopcore.batch.interning import AMOUNT_MAX, columns
from loopcore.batch.stop_times import CAUSES, REASONS, STOP_LEVELS, rejected, stop_times
from loopcore.control.limits import Limits, ToolPolicy
from loopcore.control.observations import Observation, Usage
from loopcore.control.variants import named_controller
from loopcore.errors import UsageError
from loopcore.testing.control_strategies import controller_limits, observation_sequences
from properties.core.random_runs import NAMES, POLICIES, random_limits, random_run

RUNS = 40
LIMITS_DEFAULT, LIMITS_SLOW = 50, 600


def scalar_stop(name: str, limits: Limits, run: Sequence[Observation]) -> tuple[int, str]:
    """Return (turn, reason) of the scalar controller's stop, (length, "none") without one."""
    one = named_controller(name)
    one.start(limits)
    for seen in run:
        decision = one.observe(seen)
        if decision.decision == "stop":
            assert decision.reason is not None
            return seen.turn, decision.reason
    return len(run), "none"


def vector_stops(name: str, limits: Limits, runs: list[list[Observation]]) -> list[tuple[int, str]]:
    """Return (turn, reason) of every run."""
    stops = stop_times(columns(runs, limits), limits, name)
    pairs = zip(stops.turn.tolist(), stops.reason.tolist(), strict=True)
    return [(turn, REASONS[reason]) for turn, reason in pairs]


def one_a_turn(run: list[Observation]) -> list[Observation]:
    """Return a run's observations, each in a turn of its own."""
    return [
        msgspec.structs.replace(seen, turn=turn, action=1) for turn, seen in enumerate(run, start=1)
    ]


def agree_at_random(seed: int, draws: int) -> Counter[tuple[str, str]]:
    """Compare every contestant on random runs under random limits; count what was met."""
    draw = random.Random(seed)
    met: Counter[tuple[str, str]] = Counter()
    for _ in range(draws):
        limits = random_limits(draw)
        runs = [random_run(draw) for _ in range(RUNS)]
        made = columns(runs, limits)
        for name in NAMES:
            stops = stop_times(made, limits, name)
            for number, run in enumerate(runs):
                expected = scalar_stop(name, limits, run)
                found = int(stops.turn[number]), REASONS[int(stops.reason[number])]
                assert found == expected, (name, limits, run)
                met[name, found[1]] += 1
    return met


def test_every_contestant_stops_random_runs_where_the_scalar_one_does_and_meets_every_reason(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    # Small groups and blocks, so that their borders lie within the runs.
    monkeypatch.setattr(module, "GROUP_RUNS", 50)
    monkeypatch.setattr(module, "BLOCK_TURNS", 3)
    met = agree_at_random(seed=1, draws=LIMITS_DEFAULT)
    assert {reason for name, reason in met if name == "D"} == set(REASONS)
    assert min(count for (name, _), count in met.items() if name == "D") >= 5
    assert sum(met.values()) == LIMITS_DEFAULT * RUNS * len(NAMES)


@pytest.mark.slow
def test_every_contestant_stops_random_runs_where_the_scalar_one_does_at_length() -> None:
    met = agree_at_random(seed=2, draws=LIMITS_SLOW)
    assert sum(met.values()) == LIMITS_SLOW * RUNS * len(NAMES)


@settings(
    max_examples=60,
    deadline=None,
    derandomize=True,
    suppress_health_check=[HealthCheck.too_slow, HealthCheck.data_too_large],
)
@given(st.sampled_from(NAMES), controller_limits(), st.lists(observation_sequences(), max_size=4))
def test_every_contestant_stops_drawn_runs_where_the_scalar_one_does(
    name: str, limits: Limits, drawn: list[list[Observation]]
) -> None:
    runs = [one_a_turn(run) for run in drawn]
    assert vector_stops(name, limits, runs) == [scalar_stop(name, limits, run) for run in runs]


CALL = Observation(turn=1, action=1, tool="x", action_fingerprint="x", state_fingerprint="s")
OTHER = msgspec.structs.replace(CALL, action_fingerprint="y")
POLL = Observation(turn=1, action=1, tool="poll")
FAILED = Observation(turn=1, action=1, error_class="e")
IDLE = Observation(turn=1, action=1, progress=0)
REFUSED = Observation(turn=1, action=1, claims_done=True, verified=False, progress=None)
PENDING = Observation(turn=1, action=1, claims_done=True)
OFF = Limits(
    repeat=None, window=None, error_streak=None, cycle_max=None, max_steps=None, max_refusals=None
)


@pytest.mark.parametrize(
    ("limits", "run", "reason", "threshold", "cause"),
    [
        ({"repeat": 3}, [CALL] * 9, "repeated_action", 3, "detector"),
        ({"error_streak": 2}, [FAILED] * 9, "tool_failure", 2, "detector"),
        ({"cycle_max": 4}, [CALL, OTHER] * 9, "nonproductive_cycle", 6, "detector"),
        ({"cycle_max": 4, "cycle_repeats": 2}, [CALL, OTHER] * 9, "nonproductive_cycle", 4,
         "detector"),
        ({"window": 5}, [IDLE] * 9, "no_progress", 5, "detector"),
        ({"max_waits": 7}, [POLL] * 9, "no_progress", 7, "detector"),
        ({"max_refusals": 2}, [REFUSED] * 9, "invalid_completion", 3, "gate"),
        ({"error_streak": 2}, [PENDING] * 9, "stalled_verifier", 2, "gate"),
        ({"max_steps": 4}, [IDLE] * 9, "step_budget_exhausted", 0, "budget"),
        ({"gate": "trust"}, [IDLE, PENDING], "completed", 0, "finish"),
        ({}, [IDLE] * 9, "none", 0, "none"),
    ],
)  # fmt: skip
def test_a_stop_has_the_threshold_and_the_cause_of_the_row_that_fired(
    limits: dict[str, object], run: list[Observation], reason: str, threshold: int, cause: str
) -> None:
    rules = msgspec.structs.replace(OFF, tools={"poll": ToolPolicy(wait=True)}, **limits)
    stops = stop_times(columns([one_a_turn(run)], rules), rules, "D")
    assert REASONS[stops.reason[0]] == reason
    assert stops.threshold[0] == threshold
    assert {each: bool(stops.is_cause(each)[0]) for each in set(CAUSES)} == {
        each: each == cause for each in set(CAUSES)
    }


def test_a_budget_says_no_threshold_where_a_detector_fires_in_the_same_turn() -> None:
    limits = msgspec.structs.replace(OFF, repeat=3, max_steps=3)
    stops = stop_times(columns([one_a_turn([CALL] * 5)], limits), limits, "D")
    assert (REASONS[stops.reason[0]], stops.threshold[0]) == ("step_budget_exhausted", 0)


@pytest.mark.parametrize("name", [*STOP_LEVELS, "consecutive-3", "total-3", "step-cap-2"])
def test_no_runs_and_a_run_without_turns_have_no_stop(name: str) -> None:
    assert vector_stops(name, Limits(), []) == []
    assert vector_stops(name, Limits(), [[]]) == [(0, "none")]


@pytest.mark.parametrize("name", ["E", "consecutive-1", "nothing"])
def test_a_name_that_has_no_stop_times_is_refused(name: str) -> None:
    with pytest.raises(UsageError, match="expected"):
        stop_times(columns([], Limits()), Limits(), name)


def test_what_stands_after_a_runs_end_is_never_looked_at() -> None:
    draw = random.Random(3)
    limits = Limits(repeat=2, window=3, max_refusals=1)
    runs = [random_run(draw) for _ in range(RUNS)]
    clean, dirty = columns(runs, limits), columns(runs, limits)
    filler = np.random.default_rng(4)
    for _, array in dirty.arrays():
        after = np.arange(dirty.turns)[:, None] >= dirty.lengths
        array[after] = filler.integers(0, 2, int(after.sum())).astype(array.dtype)
    for name in NAMES:
        one, other = stop_times(clean, limits, name), stop_times(dirty, limits, name)
        for field in ("turn", "reason", "threshold"):
            assert (getattr(one, field) == getattr(other, field)).all(), (name, field)


def test_rejected_finishes_are_counted_up_to_the_stop_and_not_at_all_under_trust() -> None:
    limits = Limits(max_refusals=2)
    runs = [one_a_turn([REFUSED, IDLE, REFUSED, IDLE, REFUSED, REFUSED]), one_a_turn([REFUSED])]
    made = columns(runs, limits)
    stops = stop_times(made, limits, "B")
    assert rejected(made, stops, "verify").tolist() == [3, 1]
    assert rejected(made, stops, "trust").tolist() == [0, 0]


@pytest.mark.parametrize(
    ("run", "words"),
    [
        ([CALL, CALL], "run 1: expected .* turn 2, action 1, got turn 1, action 1"),
        ([msgspec.structs.replace(CALL, turn=2)], "turn 1, action 1, got turn 2"),
        ([msgspec.structs.replace(CALL, action=2)], "got turn 1, action 2"),
        ([msgspec.structs.replace(CALL, usage=Usage(latency_ms=AMOUNT_MAX + 1))], "latency_ms"),
        ([msgspec.structs.replace(CALL, usage=Usage(input_tokens=-1))], "input_tokens"),
    ],
)
def test_runs_that_columns_cannot_hold_are_refused(run: list[Observation], words: str) -> None:
    with pytest.raises(UsageError, match=words):
        columns([[CALL], run], Limits())


def test_equal_fingerprints_of_a_run_are_equal_integers_and_volatile_names_do_not_count() -> None:
    limits = Limits(tools={"click": ToolPolicy(volatile=("ref",))})
    run = [
        Observation(turn=1, action=1, tool="click", arguments={"at": 1, "ref": 1}, result="a"),
        Observation(turn=2, action=1, tool="click", arguments='{"ref": 2, "at": 1.0}', result="a"),
        Observation(turn=3, action=1, tool="press", arguments={"at": 1, "ref": 2}, result='"a"'),
        Observation(turn=4, action=1, tool="press", arguments={"at": 1, "ref": 3}),
        Observation(turn=5, action=1, claims_done=True),
    ]
    made = columns([run], limits)
    assert made.action[:, 0].tolist() == [0, 0, 1, 2, UNKNOWN]
    assert made.result[:, 0].tolist() == [0, 0, 0, UNKNOWN, UNKNOWN]
    assert [made.tools[number] for number in made.tool[:4, 0]] == ["click"] * 2 + ["press"] * 2


@pytest.mark.slow
def test_a_run_of_more_turns_than_two_bytes_count_is_decided_alike() -> None:
    turns = 2**15 + 10
    run = [msgspec.structs.replace(IDLE, turn=turn) for turn in range(1, turns + 1)]
    limits = msgspec.structs.replace(OFF, window=turns - 1, horizon=None)
    assert vector_stops("D", limits, [run]) == [(turns - 1, "no_progress")]


@pytest.mark.parametrize("most", [0, 39, 40, 41])
def test_wider_counters_stop_alike(most: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(state, "SHORT_TURNS_MAX", most)
    draw = random.Random(5)
    runs = [random_run(draw) for _ in range(RUNS)]
    limits = Limits(repeat=3, window=6, max_refusals=2, tools=POLICIES)
    for name in ("C", "D", "consecutive-3"):
        found = vector_stops(name, limits, runs)
        assert found == [scalar_stop(name, limits, run) for run in runs]


@pytest.mark.parametrize("added", [0, 200, 2**20, 2**31 - 10])
def test_fingerprints_of_any_size_make_keys_that_tell_them_apart(added: int) -> None:
    made = columns([one_a_turn([CALL, OTHER] * 9)], Limits(cycle_max=2))
    np.add(made.action, added, out=made.action)
    np.add(made.state, added, out=made.state)
    stops = stop_times(made, Limits(cycle_max=2), "D")
    assert (stops.turn[0], REASONS[stops.reason[0]]) == (6, "nonproductive_cycle")
