"""Columnar level E decides as the scalar level E on the very runs that it spliced."""

from __future__ import annotations

from functools import lru_cache
from itertools import pairwise, product

import numpy as np
import pytest

from loopcore.batch.columns import PROGRESS_UNKNOWN, Columns
from loopcore.batch.stop_times import REASONS, stop_times
from loopcore.control.levels import controller
from loopcore.control.limits import Gate, Limits
from loopcore.control.observations import Observation, Usage
from loopcore.control.recovery import STRATEGIES
from loopcore.worlds.habit_model import load
from loopcore.worlds.habit_model_generation import Generated
from loopcore.worlds.habit_model_outcomes import Recovered
from loopcore.worlds.habit_model_recovery import Forks, curve, recovered
from loopcore.worlds.model import HABITS
from loopcore.worlds.playing import tool_policies

SEED = 6
RUNS = 400
ALL_HABITS: tuple[str, ...] = HABITS
LIMITS: dict[str, dict[str, object]] = {
    "default": {},
    "tight": {"max_steps": 18, "repeat": 3, "window": 6, "max_recoveries": 2},
    "loose": {"max_steps": 60, "max_replans": 1, "max_critiques": 0, "max_tool_retries": 5},
    "budget": {"max_cost_microunits": 300_000, "max_recoveries": None},
}


def limits_of(name: str, application: str, gate: Gate = "verify") -> Limits:
    return Limits(gate=gate, tools=tool_policies(application), **LIMITS[name])  # type: ignore[arg-type]


def everywhere(rho: float) -> dict[tuple[str, str], float]:
    return dict.fromkeys(product(HABITS, STRATEGIES), rho)


@lru_cache(maxsize=4)
def generated(application: str) -> Generated:
    # All habits alike, so that there is much to recover from.
    mixture = dict.fromkeys(ALL_HABITS, 1.0)
    return load().generate(application, range(RUNS), seed=SEED, mixture=mixture)


def observations(found: Columns, run: int) -> list[Observation]:
    """The observations of which a run's columns would be made."""

    def text(value: int) -> str | None:
        return None if value == -1 else str(value)

    seen: list[Observation] = []
    for row in range(int(found.lengths[run])):
        tool, error = int(found.tool[row, run]), int(found.error[row, run])
        progress, verified = int(found.progress[row, run]), int(found.verified[row, run])
        seen.append(
            Observation(
                turn=row + 1,
                action=1,
                tool=None if tool == -1 else found.tools[tool],
                action_fingerprint=text(int(found.action[row, run])),
                result_fingerprint=text(int(found.result[row, run])),
                state_fingerprint=text(int(found.state[row, run])),
                progress=None if progress == PROGRESS_UNKNOWN else progress,
                error_class=None if error == -1 else found.errors[error],
                claims_done=bool(found.claims[row, run]),
                verified=None if verified == -1 else bool(verified),
                usage=Usage(cost_microunits=int(found.cost_microunits[row, run])),
            )
        )
    return seen


def scalar(seen: list[Observation], limits: Limits) -> tuple[int, str, int]:
    """Turn and reason of level E's stop, and how often it recovered."""
    level = controller("E")
    level.start(limits)
    recoveries = 0
    for observation in seen:
        decision = level.observe(observation)
        if decision.decision == "stop":
            return observation.turn, str(decision.reason), recoveries
        recoveries += decision.decision == "recover"
    return len(seen), "none", recoveries


@pytest.mark.parametrize("gate", ["verify", "trust"])
@pytest.mark.parametrize("name", LIMITS)
def test_the_scalar_level_e_recovers_and_stops_in_the_same_turns(name: str, gate: Gate) -> None:
    made, limits = generated("coding"), limits_of(name, "coding", gate)
    stops = stop_times(made.columns, limits, "D")
    forks = Forks(load(), "coding", made, seed=SEED, limits=limits, leaving=everywhere(0.5))
    found = forks.run(stops)
    assert forks.forked.size > RUNS / 8
    for place, run in enumerate(forks.forked.tolist()):
        expected = scalar(observations(forks.columns, place), limits)
        reason = REASONS[found.reason[run]]
        assert (found.turn[run], reason, found.recoveries[run]) == expected
        cost = forks.columns.cost_microunits[: found.turn[run], place].sum()
        assert found.cost_microunits[run] == cost


def test_runs_that_level_d_does_not_stop_by_a_detection_are_as_under_level_d() -> None:
    made, limits = generated("support"), limits_of("default", "support")
    stops = stop_times(made.columns, limits, "D")
    found = recovered(
        load(), "support", made, seed=SEED, limits=limits, leaving=everywhere(1.0), stops=stops
    )
    others = ~stops.is_cause("detector")
    assert (found.turn == stops.turn)[others].all()
    assert (found.reason == stops.reason)[others].all()
    assert not found.recoveries[others].any()
    assert (found.recoveries > 0)[~others].all()


def test_without_budget_for_recoveries_level_e_is_level_d() -> None:
    made = generated("jobs")
    limits = Limits(tools=tool_policies("jobs"), max_recoveries=0)
    stops = stop_times(made.columns, limits, "D")
    found = recovered(
        load(), "jobs", made, seed=SEED, limits=limits, leaving=everywhere(1.0), stops=stops
    )
    assert (found.turn == stops.turn).all()
    assert (found.reason == stops.reason).all()
    assert not found.recoveries.any()
    caught = stops.is_cause("detector") & (made.onset > 0) & (stops.turn >= made.onset)
    assert (found.caught_turn == np.where(caught, stops.turn, 0)).all()


def verified_runs(found: Recovered) -> set[int]:
    return set(np.flatnonzero(found.verified).tolist())


@pytest.mark.parametrize("application", ["coding", "research"])
def test_a_greater_chance_wins_wherever_a_smaller_one_does(application: str) -> None:
    made, limits = generated(application), limits_of("default", application)
    outcomes = curve(
        load(), application, made, seed=SEED, limits=limits, rhos=(0.0, 0.2, 0.5, 0.8, 1.0)
    )
    wins = [set(np.flatnonzero(one.won > 0).tolist()) for one in outcomes]
    assert not wins[0]
    for fewer, more in pairwise(wins):
        assert fewer <= more
    assert len(wins[1]) < len(wins[-1])
    assert len(verified_runs(outcomes[0])) < len(verified_runs(outcomes[-1]))
    for one in outcomes:
        assert one.recoveries.max() <= 4
        assert (one.won + one.unneeded <= one.recoveries).all()
        assert (one.won[made.onset == 0] == 0).all()


def test_what_changes_nothing_relevant_never_wins() -> None:
    made, limits = generated("coding"), limits_of("default", "coding")
    found = recovered(load(), "coding", made, seed=SEED, limits=limits, leaving=everywhere(1.0))
    impossible = made.habit == HABITS.index("impossible_goal")
    assert found.recoveries[impossible].any()
    assert not found.won[impossible].any()
    assert not found.verified[impossible].any()
    nothing = {("exact_repeater", "critique"): 1.0}
    found = recovered(load(), "coding", made, seed=SEED, limits=limits, leaving=nothing)
    assert not found.won.any()


def test_the_outcome_of_a_number_does_not_depend_on_its_range() -> None:
    limits = limits_of("default", "browser")
    results: list[dict[int, tuple[int, int, int]]] = []
    for numbers in (range(300), range(200, 260)):
        made = load().generate("browser", numbers, seed=SEED)
        found = recovered(
            load(), "browser", made, seed=SEED, limits=limits, leaving=everywhere(0.5)
        )
        rows = zip(
            found.turn.tolist(), found.cost_microunits.tolist(), found.won.tolist(), strict=True
        )
        results.append(dict(zip(made.numbers.tolist(), rows, strict=True)))
    assert results[1] == {number: results[0][number] for number in range(200, 260)}
