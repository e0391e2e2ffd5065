"""What became of every task under one contestant: one array a fact, one element a task.

Theory of operation: levels A to D, the naive rules and a step cap stop a given trajectory, so
their outcome is the trajectory's sums up to the stop, read from cumulative sums that all of them
share (`Accounts`). A contestant that makes a run of its own gives a `Played`, which is summed
observation by observation. Both ways end in the same `Outcomes`, beside the world's own `Truth`.

Choices: a step is an executed turn. The turn of the onset belongs to what comes after the onset.
Where gate `trust` ends a run at a claim that the verifier could not judge, the claim is true when
the run went on to verify and nothing had to be achieved for that after the claim.

Source: spec control, sections 1 and 3; spec controllers, sections 5 and 6.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, fields
from typing import TYPE_CHECKING, Protocol, cast

import numpy as np

from loopcore.batch.columns import UNKNOWN, Booleans, Columns, Int8s, Int32s, Int64s
from loopcore.batch.stop_times import REASONS
from loopcore.control.observations import Observation
from loopcore.control.precedence import PRECEDENCE
from loopcore.errors import UsageError
from loopcore.worlds.model import HABITS, Played, Trajectory

if TYPE_CHECKING:
    from loopcore.worlds.habit_model_generation import Generated
    from loopcore.worlds.habit_model_outcomes import Recovered

# The part of a controller that ended a run; `none`: the run ended by itself.
CAUSES = ("none", "finish", "budget", "gate", "detector")
FINISH, BUDGET, GATE, DETECTOR = (CAUSES.index(name) for name in CAUSES[1:])
# The cause of every reason that a stop can have.
REASON_CAUSES: Mapping[str, int] = {
    "none": CAUSES.index("none"),
    **{
        answer.reason: CAUSES.index(answer.source)
        for answer in PRECEDENCE
        if answer.decision == "stop" and answer.reason is not None
    },
}
COMPLETED = "completed"
USAGE = (
    "model_calls",
    "tool_calls",
    "input_tokens",
    "output_tokens",
    "cost_microunits",
    "latency_ms",
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Truth:
    """What the world knows of its tasks, each array of shape (tasks,); no contestant sees it.

    Fields:
        habit: index into HABITS. onset: turn, 0 for none.
        verified_turn: of the verified finish under level A with gate `verify`, 0 for none; the
            tasks that have one are S.
    """

    application: str
    habit: Int8s
    onset: Int32s
    verified_turn: Int32s

    @property
    def in_s(self) -> Booleans:
        """Whether each task verifies within the horizon when nobody stops it."""
        return self.verified_turn > 0


@dataclass(frozen=True, slots=True, kw_only=True)
class Outcomes:
    """What became of each task, each array of shape (tasks,).

    Fields:
        turn: the last executed turn. cause: index into CAUSES.
        verified: ended by a finish that is truly done; false_completion: by one that is not.
        rejected: finishes that the gate refused.
        caught_turn: of the first detector's stop or recovery at or after the onset, 0 for none.
        model_calls … latency_ms: sums over the executed turns.
        cost_after_onset: cost of the executed turns from the onset on, 0 without one.
        recoveries, won, unneeded: tried, those that made the agent leave its mode, those begun on
            an agent that had no mode to leave.
    """

    turn: Int32s
    cause: Int8s
    verified: Booleans
    false_completion: Booleans
    rejected: Int32s
    caught_turn: Int32s
    model_calls: Int64s
    tool_calls: Int64s
    input_tokens: Int64s
    output_tokens: Int64s
    cost_microunits: Int64s
    latency_ms: Int64s
    cost_after_onset: Int64s
    recoveries: Int32s
    won: Int32s
    unneeded: Int32s

    def with_tasks(self, places: Sequence[int], other: Outcomes) -> Outcomes:
        """Return these outcomes with those of `other` at the given places, one a place."""
        changed: dict[str, object] = {}
        for field in fields(self):
            array = cast("Int64s", getattr(self, field.name)).copy()
            array[list(places)] = cast("Int64s", getattr(other, field.name))
            changed[field.name] = array
        return cast("_Maker", Outcomes)(**changed)


class _Maker(Protocol):
    """Makes outcomes from arrays whose element types are those of the fields already."""

    def __call__(self, **arrays: object) -> Outcomes: ...


class Accounts:
    """Cumulative sums of a chunk's columns, made once and read at every contestant's stops."""

    def __init__(self, columns: Columns) -> None:
        self.columns = columns
        self._runs = np.arange(columns.runs)
        refused = columns.claims & (columns.verified == 0)
        self._sums = {name: _cumulative(getattr(columns, name)) for name in USAGE}
        self._sums["rejected"] = _cumulative(refused)
        self._sums["achievements"] = _cumulative(columns.progress > 0)

    def until(self, name: str, turn: Int32s) -> Int64s:
        """Return each run's sum over the turns up to and with `turn`; 0 turns sum to 0."""
        return self._sums[name][turn, self._runs]

    def done_at(self, turn: Int32s, verified_turn: Int32s) -> Booleans:
        """Return whether each run's claim in this turn is true; False where it makes none."""
        made, runs, row = self.columns, self._runs, turn - 1
        answer: Int8s = made.verified[row, runs]
        claims: Booleans = made.claims[row, runs]
        follows = verified_turn >= turn
        end = np.where(follows, verified_turn, turn).astype(np.int32)
        achieved = self.until("achievements", end) > self.until("achievements", turn)
        unjudged = (answer == UNKNOWN) & follows & ~achieved
        true: Booleans = claims & ((answer == 1) | unjudged)
        return true


def _cumulative(array: Int32s | Booleans) -> Int64s:
    """Return sums over the turns before each turn, one row more than there are turns."""
    sums = np.zeros((array.shape[0] + 1, array.shape[1]), dtype=np.int64)
    np.cumsum(array, axis=0, out=sums[1:])
    return sums


def from_stops(
    accounts: Accounts,
    truth: Truth,
    turn: Int32s,
    reason: Int8s,
    reasons: Sequence[str],
    *,
    gate: str,
) -> Outcomes:
    """Return the outcomes of a contestant that stops given trajectories.

    Arguments:
        turn, reason: of each run's stop, shape (runs,); reason indexes reasons, and a run that
            ended without a stop has reason "none" and its length as turn.
        gate: with "trust" no finish is refused, since the first one ends the run.
    """
    cause = causes_of(reasons)[reason]
    passed = accounts.done_at(turn, truth.verified_turn)
    finished = cause == FINISH
    none = np.zeros_like(turn)
    rejected = none if gate == "trust" else accounts.until("rejected", turn).astype(np.int32)
    caught = (cause == DETECTOR) & (truth.onset > 0) & (turn >= truth.onset)
    cost = accounts.until("cost_microunits", turn)
    before = np.minimum(np.maximum(truth.onset - 1, 0), turn)
    after = np.where(truth.onset > 0, cost - accounts.until("cost_microunits", before), 0)
    return Outcomes(
        turn=turn,
        cause=cause,
        verified=finished & passed,
        false_completion=finished & ~passed,
        rejected=rejected,
        caught_turn=np.where(caught, turn, 0).astype(np.int32),
        model_calls=accounts.until("model_calls", turn),
        tool_calls=accounts.until("tool_calls", turn),
        input_tokens=accounts.until("input_tokens", turn),
        output_tokens=accounts.until("output_tokens", turn),
        cost_microunits=cost,
        latency_ms=accounts.until("latency_ms", turn),
        cost_after_onset=after,
        recoveries=none,
        won=none,
        unneeded=none,
    )


def from_recovered(run: Recovered) -> Outcomes:
    """Return the outcomes of level E on the habit model, in the order of its columns."""
    cause = causes_of(REASONS)[run.reason]
    finished = cause == FINISH
    return Outcomes(
        turn=run.turn,
        cause=cause,
        verified=finished & run.verified,
        false_completion=finished & ~run.verified,
        rejected=run.rejected,
        caught_turn=run.caught_turn,
        model_calls=run.model_calls,
        tool_calls=run.tool_calls,
        input_tokens=run.input_tokens,
        output_tokens=run.output_tokens,
        cost_microunits=run.cost_microunits,
        latency_ms=run.latency_ms,
        cost_after_onset=run.cost_after_onset,
        recoveries=run.recoveries,
        won=run.won,
        unneeded=run.unneeded,
    )


def causes_of(reasons: Sequence[str]) -> Int8s:
    """Return the cause of each reason; UsageError for a reason that no controller gives."""
    for reason in reasons:
        if reason not in REASON_CAUSES:
            raise UsageError(f"no controller stops for the reason {reason!r}")
    return np.array([REASON_CAUSES[reason] for reason in reasons], dtype=np.int8)


def truth_of_generated(application: str, made: Generated) -> Truth:
    """Return what the habit model knows of the runs that it made, in the order of its columns."""
    return Truth(
        application=application,
        habit=made.habit,
        onset=made.onset,
        verified_turn=made.verified_turn,
    )


def truth_of(application: str, trajectories: Sequence[Trajectory]) -> Truth:
    """Return what the world knows of these trajectories' tasks."""
    return Truth(
        application=application,
        habit=np.array([HABITS.index(one.task.habit) for one in trajectories], dtype=np.int8),
        onset=np.array([one.onset or 0 for one in trajectories], dtype=np.int32),
        verified_turn=np.array([one.verified_turn or 0 for one in trajectories], dtype=np.int32),
    )


def from_played(played: Sequence[Played], onsets: Sequence[int]) -> Outcomes:
    """Return the outcomes of runs that a contestant made of its own.

    Arguments: onsets, the turn of each task's onset, 0 for none.
    """
    causes = causes_of([one.reason for one in played])
    ended = np.array([len(one.observations) for one in played], dtype=np.int32)
    verified = np.array([one.verified for one in played], dtype=np.bool_)
    sums = {
        name: np.array([_sum(one.observations, name) for one in played], dtype=np.int64)
        for name in USAGE
    }
    pairs = list(zip(played, onsets, strict=True))
    after = [_sum(one.observations[onset - 1 :], "cost_microunits") for one, onset in pairs]
    finished = causes == FINISH
    return Outcomes(
        turn=ended,
        cause=causes,
        verified=finished & verified,
        false_completion=finished & ~verified,
        rejected=np.array([one.rejected for one in played], dtype=np.int32),
        caught_turn=np.array([_caught(one, onset) for one, onset in pairs], dtype=np.int32),
        model_calls=sums["model_calls"],
        tool_calls=sums["tool_calls"],
        input_tokens=sums["input_tokens"],
        output_tokens=sums["output_tokens"],
        cost_microunits=sums["cost_microunits"],
        latency_ms=sums["latency_ms"],
        cost_after_onset=np.where(np.array(onsets) > 0, np.array(after, dtype=np.int64), 0),
        recoveries=np.array([len(one.recoveries) for one in played], dtype=np.int32),
        won=np.array([sum(r.won for r in one.recoveries) for one in played], dtype=np.int32),
        unneeded=np.array(
            [sum(not r.needed for r in one.recoveries) for one in played], dtype=np.int32
        ),
    )


def _sum(observations: Sequence[Observation], name: str) -> int:
    """Return the sum of one kind of usage; what is not known adds nothing, as in every budget."""
    return sum(cast("int | None", getattr(seen.usage, name)) or 0 for seen in observations)


def _caught(played: Played, onset: int) -> int:
    """Return the turn of the first recovery or detector's stop at or after the onset, 0 if none."""
    if onset == 0:
        return 0
    turns = [recovery.turn for recovery in played.recoveries]
    if REASON_CAUSES[played.reason] == DETECTOR:
        turns.append(len(played.observations))
    return min((turn for turn in turns if turn >= onset), default=0)
