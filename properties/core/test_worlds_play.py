"""Nothing that a controller says reaches an agent, but a recovery: runs are prefixes of one.

Mutants that this claim must notice: a draw that depends on the controller, a recovery that wins
where its strategy changes nothing relevant, a larger chance that loses where a smaller one wins,
a recovery that costs nothing, a `trust` gate that asks the verifier.
"""

from __future__ import annotations

from collections.abc import Mapping

import pytest

from loopcore.control.decisions import Decision
from loopcore.control.limits import Limits
from loopcore.control.observations import Observation
from loopcore.control.recovery import STRATEGIES
from loopcore.control.variants import named_controller
from loopcore.errors import UsageError
from loopcore.worlds.habits import RELEVANT
from loopcore.worlds.model import APPLICATIONS, HABITS, Played, Task
from loopcore.worlds.playing import HORIZON, RECOVERY_COSTS, play, tool_policies, trajectory
from loopcore.worlds.tasks import tasks

SEED = 44
CONTESTANTS = ("A", "B", "C", "D", "consecutive-3", "total-3-result", "step-cap-12")
NOTHING: Mapping[tuple[str, str], float] = {}


def chances(chance: float) -> dict[tuple[str, str], float]:
    """Return this chance for every habit and strategy."""
    return {(habit, strategy): chance for habit in HABITS for strategy in STRATEGIES}


def some_tasks(count: int) -> list[Task]:
    """Return the first tasks of every application."""
    return [task for application in APPLICATIONS for task in tasks(application, count, SEED)]


def played(task: Task, name: str, gate: str, leaving: Mapping[tuple[str, str], float]) -> Played:
    """Return the run of a task under a contestant with the default limits."""
    limits = Limits(gate="trust" if gate == "trust" else "verify")
    limits = Limits(gate=limits.gate, tools=tool_policies(task.application))
    return play(task, named_controller(name), limits, leaving)


def test_level_a_with_the_gate_is_the_trajectory() -> None:
    for task in some_tasks(25):
        whole, run = trajectory(task, HORIZON), played(task, "A", "verify", NOTHING)
        assert run.observations == whole.observations
        assert run.verified == (whole.verified_turn is not None)
        assert run.reason == ("completed" if run.verified else "step_budget_exhausted")
        refused = [seen for seen in whole.observations if seen.verified is False]
        assert run.rejected == len(refused)
        assert run.recoveries == ()


@pytest.mark.parametrize("name", CONTESTANTS)
def test_every_contestant_sees_a_prefix_of_the_trajectory(name: str) -> None:
    for task in some_tasks(12):
        whole = trajectory(task, HORIZON).observations
        for gate in ("trust", "verify"):
            run = played(task, name, gate, NOTHING)
            assert run.observations == whole[: len(run.observations)]


def test_a_trusted_claim_ends_the_run_whatever_is_true() -> None:
    accepted = 0
    for task in some_tasks(40):
        run = played(task, "A", "trust", NOTHING)
        claims = [seen for seen in run.observations if seen.claims_done]
        assert run.rejected == 0
        if run.reason != "completed":
            assert claims == []
            continue
        assert claims == [run.observations[-1]]
        if claims[0].verified is not None:
            assert run.verified == claims[0].verified
        accepted += not run.verified
    assert accepted > 5


def test_a_run_that_nobody_stops_ends_at_the_horizon_of_the_limits() -> None:
    task = next(task for task in some_tasks(40) if task.habit == "impossible_goal")
    limits = Limits(horizon=20, tools=tool_policies(task.application))
    run = play(task, named_controller("consecutive-99"), limits, NOTHING)
    assert (run.reason, len(run.observations), run.verified) == ("none", 20, False)
    boundless = Limits(max_steps=None, horizon=None)
    assert len(play(task, named_controller("step-cap-200"), boundless, NOTHING).observations) == 200


def test_every_strategy_has_a_cost_and_no_other_has() -> None:
    assert tuple(RECOVERY_COSTS) == STRATEGIES
    assert set().union(*RELEVANT.values()) <= set(STRATEGIES)
    assert "retry_same" not in RECOVERY_COSTS
    assert set(RELEVANT) <= set(HABITS) - {"impossible_goal"}


def test_recoveries_win_only_by_chance_and_only_where_they_change_something_relevant() -> None:
    won = needless = 0
    for task in some_tasks(40):
        never, always = (played(task, "E", "verify", chances(chance)) for chance in (0.0, 1.0))
        assert not [recovery for recovery in never.recoveries if recovery.won]
        for recovery in always.recoveries:
            relevant = recovery.strategy in RELEVANT.get(task.habit, ())
            assert recovery.won == (recovery.needed and relevant)
            won += recovery.won
            needless += not recovery.needed
        if task.habit == "impossible_goal":
            assert all(recovery.needed for recovery in always.recoveries)
            assert not always.verified
    assert won > 20
    assert needless > 20


def test_a_won_recovery_resumes_work_that_then_verifies() -> None:
    bad = dict.fromkeys(RELEVANT, 1.0)
    tasks_of = [task for name in APPLICATIONS for task in tasks(name, 25, SEED, mixture=bad)]
    runs = [played(task, "E", "verify", chances(1.0)) for task in tasks_of]
    lost = [played(task, "E", "verify", chances(0.0)) for task in tasks_of]
    saved = [run for run in runs if run.verified and any(one.won for one in run.recoveries)]
    assert {run.task.habit for run in saved} == set(RELEVANT)
    assert sum(run.verified for run in runs) > 1.3 * sum(run.verified for run in lost)
    for run in saved:
        won = [one.turn for one in run.recoveries if one.won]
        assert len(won) == 1
        assert len(run.observations) > won[0] + 1


def test_a_larger_chance_wins_wherever_a_smaller_one_does() -> None:
    differed = 0
    for task in some_tasks(60):
        if task.habit not in RELEVANT:
            continue
        small, large = (
            next((one for one in run.recoveries if one.won), None)
            for run in (played(task, "E", "verify", chances(chance)) for chance in (0.3, 0.7))
        )
        if small is not None:
            assert large is not None
            assert large.turn <= small.turn
        differed += (small is None) != (large is None)
    assert differed > 3


class Nagger:
    """Recovers at one turn, needed or not, and stops at a verified finish."""

    def __init__(self, turn: int, strategy: str) -> None:
        self.turn = turn
        self.strategy = strategy

    def start(self, limits: Limits) -> None:
        """Begin a new run."""

    def observe(self, observation: Observation) -> Decision:
        """Return the decision for this observation."""
        if observation.verified:
            return Decision(decision="stop", reason="completed")
        if observation.turn == self.turn:
            return Decision(decision="recover", reason="no_progress", strategy=self.strategy)
        return Decision(decision="continue")


@pytest.mark.parametrize("strategy", STRATEGIES)
def test_a_recovery_that_nobody_needed_costs_a_turn_and_changes_nothing_else(strategy: str) -> None:
    for task in some_tasks(10):
        if task.habit != "productive":
            continue
        whole = trajectory(task, HORIZON).observations
        run = play(task, Nagger(4, strategy), Limits(), chances(1.0))
        assert [(one.turn, one.won, one.needed) for one in run.recoveries] == [(4, False, False)]
        cost = run.observations[4]
        assert (cost.tool, cost.turn, cost.claims_done) == (None, 5, False)
        assert cost.usage.model_calls is not None
        assert cost.usage.model_calls >= 1
        assert cost.usage.cost_microunits is not None
        assert cost.usage.cost_microunits > 1_000
        calls = [seen.action_fingerprint for seen in (*run.observations[:4], *run.observations[5:])]
        assert calls == [seen.action_fingerprint for seen in whole]
        assert run.verified
        # Only a smaller context makes the turns that follow cheaper.
        before, after = whole[4].usage.input_tokens, run.observations[5].usage.input_tokens
        assert before is not None
        assert after is not None
        assert (after < before) == (strategy == "smaller_context")


def test_a_strategy_that_is_none_is_refused() -> None:
    with pytest.raises(UsageError, match="strategy: expected one of replan"):
        play(some_tasks(1)[0], Nagger(1, "retry_same"), Limits(), NOTHING)
