"""The figures say what the specification says, by a second statement that knows no arrays."""

from collections.abc import Sequence
from functools import lru_cache

import numpy as np
import pytest

from loopcore.batch.interning import columns
from loopcore.batch.stop_times import REASONS, stop_times
from loopcore.comparison.figures import (
    BY_NAME,
    COMPARED,
    DERIVED,
    FIGURES,
    OWN,
    SHARED,
    own_values,
    shared_values,
)
from loopcore.comparison.outcomes import (
    CAUSES,
    REASON_CAUSES,
    Accounts,
    Outcomes,
    Truth,
    causes_of,
    from_played,
    from_stops,
    truth_of,
)
from loopcore.control.limits import Limits
from loopcore.control.variants import named_controller
from loopcore.errors import UsageError
from loopcore.worlds.model import Played, Trajectory
from loopcore.worlds.playing import play, tool_policies, trajectory
from loopcore.worlds.tasks import tasks

APPLICATION, TASKS, HORIZON, CAP = "support", 160, 120, 30


def limits(gate: str) -> Limits:
    """Return default limits under a gate, with the application's tools."""
    policies = tool_policies(APPLICATION)
    return Limits(gate="trust" if gate == "trust" else "verify", tools=policies, horizon=HORIZON)


@lru_cache(maxsize=1)
def runs() -> list[Trajectory]:
    """Return what the agents do when nobody stops them."""
    return [trajectory(task, HORIZON) for task in tasks(APPLICATION, TASKS, 4)]


@lru_cache(maxsize=32)
def played(name: str, gate: str, rho: float = 0.0) -> list[Played]:
    """Return the runs of every task under a scalar controller."""
    leaving = {
        (run.task.habit, strategy): rho
        for run in runs()
        for strategy in ("replan", "other_arguments", "drop_satisfied", "critique")
    }
    controller = named_controller(name)
    return [play(run.task, controller, limits(gate), leaving) for run in runs()]


def cost(run: Played, first: int = 1) -> int:
    """Return the cost of the executed turns from one on."""
    return sum(o.usage.cost_microunits or 0 for o in run.observations if o.turn >= first)


def naive(one: Trajectory, run: Played) -> dict[str, int]:
    """Return the features of one task by the words of the specification."""
    end, onset = len(run.observations), one.onset or 0
    source = CAUSES[REASON_CAUSES[run.reason]]
    in_s = one.verified_turn is not None
    stopped = source != "none"
    looped = 0 < onset < CAP
    spoken = [recovery.turn for recovery in run.recoveries]
    spoken += [end] if source == "detector" else []
    first = min((turn for turn in spoken if turn >= onset), default=CAP)
    caught = looped and first < CAP
    success = run.reason == "completed" and run.verified
    false_stop = in_s and stopped and not success
    early = stopped and end < onset
    return {
        "verified": success,
        "false_stop": false_stop,
        "false_stop_detector": false_stop and source == "detector",
        "false_stop_budget": false_stop and source == "budget",
        "false_stop_gate": false_stop and source == "gate",
        "false_stop_finish": false_stop and source == "finish",
        "harmed": in_s and not success,
        "missed": looped and not caught,
        "missed_early": looped and not caught and early,
        "early": early and not in_s,
        "caught": caught,
        "delay": first - onset if caught else 0,
        "cost_after_onset": cost(run, onset) if looped else 0,
        "steps": end,
        "steps_on_success": end if success else 0,
        "steps_outside": 0 if in_s else end,
        "model_calls": sum(o.usage.model_calls or 0 for o in run.observations),
        "tool_calls": sum(o.usage.tool_calls or 0 for o in run.observations),
        "tokens": sum(
            (o.usage.input_tokens or 0) + (o.usage.output_tokens or 0) for o in run.observations
        ),
        "latency_ms": sum(o.usage.latency_ms or 0 for o in run.observations),
        "cost": cost(run),
        "false_completions": run.reason == "completed" and not run.verified,
        "rejected": run.rejected,
        "recoveries": len(run.recoveries),
        "won": sum(recovery.won for recovery in run.recoveries),
        "unneeded": sum(not recovery.needed for recovery in run.recoveries),
    }


def stopped(name: str, gate: str) -> Outcomes:
    """Return the outcomes of a contestant by its vectorised stop times."""
    made = columns([run.observations for run in runs()], limits(gate))
    stops = stop_times(made, limits(gate), name)
    truth = truth_of(APPLICATION, runs())
    return from_stops(Accounts(made), truth, stops.turn, stops.reason, REASONS, gate=gate)


def assert_equal_to_naive(outcomes: Outcomes, scalar: Sequence[Played]) -> None:
    """Compare every feature of every task with the naive one."""
    values = own_values(truth_of(APPLICATION, runs()), outcomes, CAP)
    for task, (one, run) in enumerate(zip(runs(), scalar, strict=True)):
        expected = naive(one, run)
        assert {name: int(values[task, at]) for at, name in enumerate(OWN)} == {
            name: int(value) for name, value in expected.items()
        }, (task, one.onset, one.verified_turn, run.reason)


@pytest.mark.parametrize("gate", ["trust", "verify"])
@pytest.mark.parametrize("name", ["A", "B", "C", "D"])
def test_stop_times_have_the_figures_of_the_scalar_levels(name: str, gate: str) -> None:
    assert_equal_to_naive(stopped(name, gate), played(name, gate))


@pytest.mark.parametrize("name", ["consecutive-3", "total-3-result", "step-cap-20"])
def test_stop_times_have_the_figures_of_the_scalar_variants(name: str) -> None:
    assert_equal_to_naive(stopped(name, "verify"), played(name, "verify"))


@pytest.mark.parametrize("gate", ["trust", "verify"])
@pytest.mark.parametrize(("name", "rho"), [("D", 0.0), ("E", 0.0), ("E", 0.6), ("E", 1.0)])
def test_played_runs_have_the_naive_figures(name: str, rho: float, gate: str) -> None:
    found = played(name, gate, rho)
    onsets = [run.onset or 0 for run in runs()]
    assert_equal_to_naive(from_played(found, onsets), found)


def test_the_sample_exercises_every_feature() -> None:
    sums = np.zeros(len(OWN), dtype=np.int64)
    truth = truth_of(APPLICATION, runs())
    for name, gate in (("A", "trust"), ("D", "verify"), ("total-3-result", "verify")):
        sums += own_values(truth, stopped(name, gate), CAP).sum(axis=0)
    onsets = [run.onset or 0 for run in runs()]
    sums += own_values(truth, from_played(played("E", "verify", 1.0), onsets), CAP).sum(axis=0)
    shared = shared_values(truth, CAP).sum(axis=0)
    never = [name for name, total in zip(OWN, sums, strict=True) if total == 0]
    # A refusal four times over on a task that verifies after all is too rare for this sample.
    assert set(never) <= {"false_stop_gate"}
    assert all(shared > 0)
    assert dict(zip(SHARED, shared.tolist(), strict=True)) == {
        "tasks": TASKS,
        "in_s": sum(run.verified_turn is not None for run in runs()),
        "looped": sum(0 < (run.onset or 0) < CAP for run in runs()),
        "outside": sum(run.verified_turn is None for run in runs()),
        "onset_outside": sum(run.onset is not None and run.verified_turn is None for run in runs()),
    }


def test_under_level_a_and_gate_verify_nothing_is_harmed_and_every_loop_is_missed() -> None:
    values = own_values(truth_of(APPLICATION, runs()), stopped("A", "verify"), CAP).sum(axis=0)
    found = dict(zip(OWN, values.tolist(), strict=True))
    assert found["false_stop"] == found["harmed"] == found["false_completions"] == 0
    assert found["missed"] == shared_values(truth_of(APPLICATION, runs()), CAP).sum(axis=0)[2] > 0
    assert found["verified"] == sum(run.verified_turn is not None for run in runs())


def at_the_border(onsets: Sequence[int], caught: Sequence[int], cause: str) -> dict[str, list[int]]:
    """Return the features of tasks with these onsets and first detections."""
    zeros = np.zeros(len(onsets), dtype=np.int64)
    short = zeros.astype(np.int32)
    outcomes = Outcomes(
        turn=np.full(len(onsets), HORIZON, dtype=np.int32),
        cause=np.full(len(onsets), CAUSES.index(cause), dtype=np.int8),
        verified=zeros.astype(np.bool_),
        false_completion=zeros.astype(np.bool_),
        rejected=short,
        caught_turn=np.array(caught, dtype=np.int32),
        model_calls=zeros,
        tool_calls=zeros,
        input_tokens=zeros,
        output_tokens=zeros,
        cost_microunits=zeros,
        latency_ms=zeros,
        cost_after_onset=zeros,
        recoveries=short,
        won=short,
        unneeded=short,
    )
    truth = Truth(
        application=APPLICATION,
        habit=zeros.astype(np.int8),
        onset=np.array(onsets, dtype=np.int32),
        verified_turn=np.where(np.array(onsets) == 0, 50, 0).astype(np.int32),
    )
    values = own_values(truth, outcomes, CAP)
    return {name: values[:, place].tolist() for place, name in enumerate(OWN)}


def test_the_cap_itself_is_too_late_for_an_onset_and_for_its_detection() -> None:
    found = at_the_border([CAP - 1, CAP, 5, 5, 5], [CAP - 1, CAP, CAP - 1, CAP, 0], "detector")
    assert found["caught"] == [1, 0, 1, 0, 0]
    assert found["missed"] == [0, 0, 0, 1, 1]
    assert found["delay"] == [0, 0, CAP - 6, 0, 0]


def test_a_run_that_nobody_stopped_is_harmed_and_no_false_stop() -> None:
    found = at_the_border([0], [0], "none")
    assert (found["harmed"], found["false_stop"]) == ([1], [0])
    found = at_the_border([0], [0], "budget")
    assert (found["harmed"], found["false_stop"]) == ([1], [1])


def test_outcomes_replaced_in_some_places_are_the_others_there_and_no_copy_elsewhere() -> None:
    base, other = stopped("A", "verify"), stopped("B", "verify")
    places = [3, 17, 40]
    part = from_played(
        [played("B", "verify")[place] for place in places],
        [runs()[place].onset or 0 for place in places],
    )
    before = base.cost_microunits.copy()
    mixed = base.with_tasks(places, part)
    for place in range(TASKS):
        source = other if place in places else base
        assert mixed.turn[place] == source.turn[place]
        assert mixed.cost_microunits[place] == source.cost_microunits[place]
    assert np.array_equal(base.cost_microunits, before)


def test_a_reason_that_no_controller_gives_is_refused() -> None:
    with pytest.raises(UsageError, match="bored"):
        causes_of(["completed", "bored"])


def test_every_figure_is_made_of_features_that_are_summed() -> None:
    known = {*SHARED, *OWN, *DERIVED}
    assert all({figure.above, figure.below} <= known for figure in FIGURES)
    assert all({whole, part} <= known - {*DERIVED} for whole, part in DERIVED.values())
    assert len(BY_NAME) == len(FIGURES)
    assert set(COMPARED) <= set(BY_NAME)
