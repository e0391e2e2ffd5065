"""What a task, a trajectory and a run in a world are.

Theory of operation: a `Task` names everything that is random about a run: the same task gives the
same draws under every contestant, so runs are paired by construction. A `Trajectory` is what the
agent does when nobody stops it and the verifier gates its finish; levels A to D are stop times on
it. Only level E and the completion gate make a run of its own, a `Played`.

Source: spec control, sections 3 and 4.
"""

from __future__ import annotations

import msgspec

from loopcore.control.observations import Observation

APPLICATIONS = ("coding", "browser", "research", "support", "etl", "jobs")

# The habits of agents, drawn one a task; the first five are ways of good work.
HABITS = (
    "productive",
    "slow_starter",
    "legitimate_poller",
    "legitimate_edit_test",
    "flaky_tool",
    "exact_repeater",
    "alternator",
    "reworder",
    "same_error_retrier",
    "premature_finisher",
    "metric_gamer",
    "impossible_goal",
    "lost_response",
)


class Task(msgspec.Struct, frozen=True, kw_only=True):
    """One task of a world: an application, its number, the seed of all draws, a habit."""

    application: str
    number: int
    seed: int
    habit: str


class Trajectory(msgspec.Struct, frozen=True, kw_only=True):
    """What an agent does under level A with gate `verify`, up to the horizon.

    Fields:
        observations: one a turn, turns from 1 without a gap; the last is the verified finish or
            stands at the horizon.
        onset: the turn from which no permitted sequence of actions verifies, or at which the agent
            enters a mode that only new information ends; None when there is none.
        verified_turn: the turn of the verified finish, None when there is none.
    """

    task: Task
    observations: tuple[Observation, ...]
    onset: int | None
    verified_turn: int | None


class Recovery(msgspec.Struct, frozen=True, kw_only=True):
    """One recovery: what was tried at which turn, why, and whether the agent left its mode.

    `needed` is false when the agent was in no mode that it had to leave.
    """

    turn: int
    strategy: str
    reason: str
    won: bool
    needed: bool


class Played(msgspec.Struct, frozen=True, kw_only=True):
    """A run under one controller, from its start to its stop.

    Fields:
        observations: of the turns that were executed, the last being that of the stop.
        reason: of the stop; verified: whether the task is truly done at the stop.
        rejected: finishes that the gate refused.
    """

    task: Task
    observations: tuple[Observation, ...]
    reason: str
    verified: bool
    rejected: int
    recoveries: tuple[Recovery, ...] = ()
