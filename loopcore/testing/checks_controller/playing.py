"""Runs as plain JSON, played on a controller, and what its decisions say of the run.

Theory of operation: a run is a list of observations and is played to its end whatever is answered.
The decision of a turn is the highest of its answers and takes effect when the turn is over, so a
stop is known by its turn and by the reason that is highest there. A controller that decides before
dispatch is asked about each call first; when it stops there, the call and everything after it are
not dispatched, and its stop stands for the rest of the run.

Source: spec controllers, sections 2, 5 and 7.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import TypeAlias, cast

import msgspec

from loopcore.control.decisions import Decision
from loopcore.control.limits import Limits
from loopcore.control.observations import Observation
from loopcore.testing.contract import Case, Json
from loopcore.testing.controller_contract import ControllerTarget

Fields: TypeAlias = "dict[str, object]"

COMPLETED = "completed"
BUDGETS = (
    "deadline_exceeded",
    "step_budget_exhausted",
    "model_budget_exhausted",
    "tool_budget_exhausted",
    "cost_budget_exhausted",
    "input_token_budget_exhausted",
    "output_token_budget_exhausted",
)
GATE = ("stalled_verifier", "invalid_completion")
_NO_DETECTORS = frozenset({COMPLETED, *BUDGETS, *GATE})
_CALL_FIELDS = ("tool", "arguments", "action_fingerprint")


@dataclass(frozen=True, slots=True, kw_only=True)
class Stop:
    """Where a run was stopped: the turn, the observation that was first answered so, and why."""

    turn: int
    index: int
    reason: str


def fields_of(value: object) -> Fields:
    """Return an object of a case."""
    assert isinstance(value, dict)
    return cast("Fields", value)


def run_of(case: Case, name: str = "run") -> list[Fields]:
    """Return the observations of a case."""
    return cast("list[Fields]", case[name])


def plain_run(run: Iterable[Observation]) -> list[Fields]:
    """Return observations as JSON, without what is null and without a claim that is not made."""
    return [plain_observation(seen) for seen in run]


def plain_observation(seen: Observation) -> Fields:
    """Return one observation as JSON, without what is null and without a claim that is not made.

    A refusal is kept: a verifier that says no is not one that says nothing.
    """
    fields = fields_of(msgspec.json.decode(msgspec.json.encode(seen)))
    usage = {
        name: used for name, used in fields_of(fields.pop("usage")).items() if used is not None
    }
    if fields["claims_done"] is False:
        del fields["claims_done"]
    kept = {name: value for name, value in fields.items() if value is not None}
    return {**kept, "usage": usage} if usage else kept


def plain_limits(limits: Limits) -> Fields:
    """Return limits as JSON; a horizon that follows max_steps is left out."""
    return fields_of(msgspec.json.decode(msgspec.json.encode(limits)))


def limits_for(target: ControllerTarget, value: object) -> Fields:
    """Return the limits of a case, without tool policies where the target is told of no tool."""
    limits = fields_of(value)
    return limits if "call" in target.needs else {**limits, "tools": {}}


def waits(limits: Fields, seen: Fields) -> bool:
    """Return whether the tool of an observation is marked as waiting."""
    policy = fields_of(limits.get("tools", {})).get(str(seen.get("tool")))
    return isinstance(policy, dict) and cast("Fields", policy).get("wait") is True


def is_good(limits: Fields, seen: Fields) -> bool:
    """Return whether an observation brought progress and does not wait."""
    progress = seen.get("progress")
    return isinstance(progress, int) and progress > 0 and not waits(limits, seen)


def play(target: ControllerTarget, limits: Fields, run: Sequence[Fields]) -> list[Decision]:
    """Return the decisions on a run, one an observation; raises TargetError."""
    target.start(cast("Json", limits))
    return go_on(target, run)


def go_on(target: ControllerTarget, run: Sequence[Fields | bytes]) -> list[Decision]:
    """Return the decisions on the rest of a run that has begun."""
    answers: list[Decision] = []
    for seen in run:
        proposal: Decision | None = None
        if target.decides == "before" and isinstance(seen, dict) and seen.get("tool") is not None:
            call = {name: seen.get(name) for name in _CALL_FIELDS}
            proposal = target.propose(cast("Json", call))
            if proposal.decision == "stop":
                return answers + [proposal] * (len(run) - len(answers))
        answer = target.observe(seen if isinstance(seen, bytes) else cast("Json", seen))
        silent = answer.decision == "continue" and proposal is not None
        answers.append(proposal if silent and proposal is not None else answer)
    return answers


def turn_of(seen: Fields) -> int:
    """Return the turn of an observation."""
    return cast("int", seen["turn"])


def stop_in(run: Sequence[Fields], answers: Sequence[Decision]) -> Stop | None:
    """Return the first stop of a run, or None; a verified finish in its turn comes first."""
    first = next((i for i, said in enumerate(answers) if said.decision == "stop"), None)
    if first is None:
        return None
    turn = turn_of(run[first])
    reasons = [
        str(said.reason)
        for seen, said in zip(run, answers, strict=True)
        if turn_of(seen) == turn and said.decision == "stop"
    ]
    reason = COMPLETED if COMPLETED in reasons else reasons[0]
    return Stop(turn=turn, index=first, reason=reason)


def act_in(run: Sequence[Fields], answers: Sequence[Decision]) -> Stop | None:
    """Return the first stop or recovery of a run: a recovery is what a detection becomes."""
    return stop_in(run, [_as_stop(said) for said in answers])


def _as_stop(said: Decision) -> Decision:
    recovers = said.decision == "recover"
    return Decision(decision="stop", reason=said.reason) if recovers else said


def is_detection(stop: Stop) -> bool:
    """Return whether a stop is a detector's: neither the finish, a budget nor the gate."""
    return stop.reason not in _NO_DETECTORS


def told(stop: Stop | None) -> Fields | None:
    """Return a stop as JSON, for a finding."""
    return None if stop is None else {"turn": stop.turn, "reason": stop.reason}


def shown(decision: Decision) -> str:
    """Return a decision in words."""
    return decision.decision + (f"({decision.reason})" if decision.reason else "")


def first_difference(one: Sequence[Decision], other: Sequence[Decision]) -> int | None:
    """Return the index of the first answer that differs, or None."""
    pairs = enumerate(zip(one, other, strict=True))
    return next((index for index, (left, right) in pairs if left != right), None)
