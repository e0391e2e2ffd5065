"""At which turn a contestant would have stopped a recorded run, and what that had spared.

Theory of operation: the run's observations are shown to a fresh controller in order until it says
stop. A contestant that decides after a turn has executed that whole turn; one that decides before
dispatch has blocked the very action, but the model call that proposed it is paid for. On a run
that verified, any stop before its end is a false stop. On a run that failed, the steps and the
cost after the stop are saved. A step is a dispatched action. What was not recorded is unknown: a
saved cost with one unknown part is None.

Source: spec control, sections 1 and 5; spec controllers, section 5.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Literal

import msgspec

from loopcore.control.decisions import Controller
from loopcore.control.fingerprints import action_fingerprint, result_fingerprint
from loopcore.control.limits import Limits
from loopcore.control.observations import Observation
from loopcore.control.precedence import PRECEDENCE, RANKS
from loopcore.recordings.accounting import total_or_unknown
from loopcore.recordings.model import Run, is_call

Phase = Literal["before", "after"]
Cause = Literal["detector", "budget", "gate", "finish"]

# Which part of a controller a stop's reason belongs to, and which reason counts first in a turn.
_CAUSES: dict[str | None, Cause] = {
    answer.reason: answer.source for answer in PRECEDENCE if answer.source != "none"
}
_UNRANKED = len(PRECEDENCE)


class Contestant(msgspec.Struct, frozen=True, kw_only=True):
    """A controller under one setting; `phase` says whether it decides before or after dispatch.

    `needs_progress` says that it cannot judge a run whose progress is unknown throughout.
    """

    name: str
    make: Callable[[], Controller]
    limits: Limits
    phase: Phase = "after"
    needs_progress: bool = False


class Stop(msgspec.Struct, frozen=True, kw_only=True):
    """What one contestant would have done to one run.

    Fields:
        turn, action, reason, cause, phase: of the stop; None when it lets the run end.
        false_stop: a verified run was ended before its end; None when the outcome is unknown.
        steps, steps_saved: dispatched actions of the run, and those after the stop.
        cost_microunits, cost_saved_microunits: the same in money, None when unknown.
        blind: it needs progress and the run's is unknown throughout.
        recovery_turn: where it would first have acted to recover; nothing more is known.
    """

    run_id: str
    task: str
    turn: int | None
    action: int | None
    reason: str | None
    cause: Cause | None
    phase: Phase | None
    false_stop: bool | None
    steps: int
    steps_saved: int
    cost_microunits: int | None
    cost_saved_microunits: int | None
    blind: bool
    recovery_turn: int | None = None

    @property
    def stopped(self) -> bool:
        """Whether the run was ended before its end."""
        return self.turn is not None


def with_fingerprints(run: Run) -> Run:
    """Return the run with the fingerprints that every controller would compute itself.

    Only for limits without `volatile` names: a given fingerprint is used as it is.
    """
    seen: list[Observation] = []
    for observation in run.observations:
        action, result = observation.action_fingerprint, observation.result_fingerprint
        if action is None and observation.arguments is not None:
            action = action_fingerprint(observation.tool, observation.arguments)
        if result is None and observation.result is not None:
            result = result_fingerprint(observation.result)
        seen.append(
            msgspec.structs.replace(
                observation, action_fingerprint=action, result_fingerprint=result
            )
        )
    return msgspec.structs.replace(run, observations=tuple(seen))


def is_blind(run: Run) -> bool:
    """Return whether the run's progress is unknown throughout."""
    return all(observation.progress is None for observation in run.observations)


def replay(run: Run, contestant: Contestant) -> Stop:
    """Return what the contestant would have done to the run; the run itself is only read.

    Complexity: linear in the observations up to the stop.
    """
    controller = contestant.make()
    controller.start(contestant.limits)
    found: tuple[Observation, str] | None = None
    recovery: int | None = None
    for observation in run.observations:
        if found is not None and observation.turn > found[0].turn:
            break
        decision = controller.observe(observation)
        if decision.decision == "recover" and recovery is None:
            recovery = observation.turn
        if decision.decision == "stop":
            found = _higher(found, (observation, decision.reason or "no reason"))
            if contestant.phase == "before":
                break
    return _judge(run, contestant, found, recovery)


def _higher(
    found: tuple[Observation, str] | None, new: tuple[Observation, str]
) -> tuple[Observation, str]:
    """Return the stop of a turn that counts: the one of the higher precedence, the first of equals.

    Each answer of a controller is to its own observation; the turn's is the highest among them.
    """
    if found is None:
        return new
    old_rank = RANKS.get(("stop", found[1]), _UNRANKED)
    return new if RANKS.get(("stop", new[1]), _UNRANKED) < old_rank else found


def _judge(
    run: Run,
    contestant: Contestant,
    found: tuple[Observation, str] | None,
    recovery: int | None,
) -> Stop:
    last = run.observations[-1]
    if found is not None and contestant.phase == "after" and found[0].turn >= last.turn:
        # The turn of the stop has run, and it was the last one: nothing was cut off.
        found = None
    steps = sum(map(is_call, run.observations))
    stop, reason = found if found is not None else (None, None)
    executed = steps if stop is None else _executed(run.observations, stop, contestant.phase)
    later: Sequence[Observation] = ()
    if stop is not None:
        later = [o for o in run.observations if o.turn > stop.turn]
    return Stop(
        run_id=run.run_id,
        task=run.task,
        turn=None if stop is None else stop.turn,
        action=None if stop is None else stop.action,
        reason=reason,
        cause=None if reason is None else _CAUSES.get(reason, "detector"),
        phase=None if stop is None else contestant.phase,
        false_stop=None if run.success is None else run.success and stop is not None,
        steps=steps,
        steps_saved=steps - executed,
        cost_microunits=_cost(run.observations),
        cost_saved_microunits=_cost(later),
        blind=contestant.needs_progress and is_blind(run),
        recovery_turn=recovery,
    )


def _executed(observations: Sequence[Observation], stop: Observation, phase: Phase) -> int:
    """Return how many actions had been dispatched when the stop took effect."""
    if phase == "after":
        return sum(is_call(o) for o in observations if o.turn <= stop.turn)
    place = (stop.turn, stop.action)
    return sum(is_call(o) for o in observations if (o.turn, o.action) < place)


def _cost(observations: Sequence[Observation]) -> int | None:
    """Return the recorded cost, or None when a turn that called a model has none."""
    return total_or_unknown(
        o.usage.cost_microunits if o.usage.model_calls != 0 else o.usage.cost_microunits or 0
        for o in observations
        if o.action == 1
    )
