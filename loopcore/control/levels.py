"""Levels A to E: which rows a level has is one table, which of them wins is another.

Theory of operation: `LEVELS` says which rows a level has, the table of precedence orders what they
answer. On each observation all rows of the level are updated, whatever else fires, and the highest
answer is given. Once a turn is over whose decision is a stop, every later observation gets that
stop and changes nothing. Once one is over whose decision is a recovery, the detectors begin anew.

Choices: a claim that the verifier could not judge does not make its turn idle, whatever its
progress. An observation with arguments and no tool is a call, as it has an action fingerprint.
What level E adds to level D is in `loopcore.control.recovery`.

Source: spec control, section 2; spec controllers, sections 2 to 6.
"""

from __future__ import annotations

from collections.abc import Mapping

import msgspec

from loopcore.control.decisions import Controller, Decision
from loopcore.control.detectors import (
    Cycle,
    Detector,
    ErrorStreak,
    ExactRun,
    Facts,
    IdleWindow,
    Repetition,
    Waits,
)
from loopcore.control.fingerprints import action_fingerprint, result_fingerprint
from loopcore.control.gates import Gatekeeper, Sums
from loopcore.control.limits import Limits, ToolPolicy
from loopcore.control.observations import Observation
from loopcore.control.precedence import CONTINUE, RANKS, STEPS
from loopcore.control.recovery import Recoveries
from loopcore.control.turns import Turns
from loopcore.errors import UsageError

# The detectors by the letters of their rows, each with the rank of its answer.
DETECTORS: Mapping[str, tuple[type[Detector], int]] = {
    "n": (ExactRun, RANKS["stop", "repeated_action"]),
    "r": (Repetition, RANKS["stop", "repeated_action"]),
    "e": (ErrorStreak, RANKS["stop", "tool_failure"]),
    "c": (Cycle, RANKS["stop", "nonproductive_cycle"]),
    "w": (IdleWindow, RANKS["stop", "no_progress"]),
    "p": (Waits, RANKS["stop", "no_progress"]),
}


class LevelRule(msgspec.Struct, frozen=True, kw_only=True):
    """What a level has.

    Fields:
        detectors: letters of rows. budgets: max_steps and the sums, not only the horizon.
        gate_stops: refusals and a broken verifier end the run, in bounded number.
        fingerprints: whether actions and results must be told apart.
        needs: the inputs that it declares on the wire.
        recovers: a detector's stop becomes a recovery while its budgets last.
    """

    detectors: str
    budgets: bool
    gate_stops: bool
    fingerprints: bool
    needs: tuple[str, ...]
    recovers: bool = False


_D = LevelRule(
    detectors="recwp",
    budgets=True,
    gate_stops=True,
    fingerprints=True,
    needs=("call", "arguments", "result", "error", "state", "progress"),
)
LEVELS: Mapping[str, LevelRule] = {
    "A": LevelRule(detectors="", budgets=False, gate_stops=False, fingerprints=False, needs=()),
    "B": LevelRule(detectors="p", budgets=True, gate_stops=True, fingerprints=False, needs=()),
    "C": LevelRule(
        detectors="np",
        budgets=True,
        gate_stops=True,
        fingerprints=True,
        needs=("call", "arguments"),
    ),
    "D": _D,
    "E": msgspec.structs.replace(_D, recovers=True),
}


def controller(name: str) -> Controller:
    """Return a new controller of level A, B, C, D or E, started with the default limits.

    Errors: UsageError when there is no level of this name.
    """
    if name not in LEVELS:
        raise UsageError(f"level: expected one of {', '.join(LEVELS)}, got {name!a}")
    return Level(name)


class Level:
    """A controller of level A, B, C, D or E."""

    def __init__(self, name: str) -> None:
        self._rule = LEVELS[name]
        self.start(Limits())

    def start(self, limits: Limits) -> None:
        """Begin a new run under these limits; nothing of an earlier run is remembered."""
        self._limits = limits
        self._horizon = limits.horizon_turns()
        self._turns = Turns(Recoveries(limits) if self._rule.recovers else None)
        self._turn_actions: set[str] = set()
        self._turn_counted = False
        self._steps = 0
        self._sums = Sums(limits)
        self._gate = Gatekeeper(limits, self._rule.gate_stops)
        self._begin_detecting()

    def observe(self, observation: Observation) -> Decision:
        """Return the decision for this observation.

        Errors: UsageError when (turn, action) is not after the one before; nothing changes then.
        """
        ended = self._turns.enter(observation)
        if ended is not None:
            return ended
        if self._turns.is_new:
            self._turn_actions.clear()
            self._turn_counted = False
            if self._turns.recovered:
                self._begin_detecting()
        return self._turns.settle(self._rank(observation))

    def _begin_detecting(self) -> None:
        """Make the detectors new: nothing that was observed counts for them."""
        self._detectors = tuple(
            (DETECTORS[letter][0](self._limits), DETECTORS[letter][1])
            for letter in self._rule.detectors
        )

    def _rank(self, observation: Observation) -> int:
        """Return the rank of the highest row that fires, after every row has seen it."""
        policy = self._limits.policy(observation.tool)
        rank = CONTINUE
        if self._rule.budgets:
            rank = min(rank, self._sums.add(observation.usage))
            if not policy.wait:
                rank = min(rank, self._count_step())
        if self._horizon is not None and observation.turn >= self._horizon:
            rank = min(rank, STEPS)
        facts = self._facts(observation, policy)
        rank = min(rank, self._gate.answer(observation, facts))
        for detector, reason in self._detectors:
            if detector.update(facts):
                rank = min(rank, reason)
        return rank

    def _count_step(self) -> int:
        """Count the turn once, and say whether the steps are used up."""
        if not self._turn_counted:
            self._turn_counted = True
            self._steps += 1
        steps = self._limits.max_steps
        return STEPS if steps is not None and self._steps >= steps else CONTINUE

    def _facts(self, observation: Observation, policy: ToolPolicy) -> Facts:
        action, result = observation.action_fingerprint, observation.result_fingerprint
        if self._rule.fingerprints:
            if action is None and observation.arguments is not None:
                action = action_fingerprint(
                    observation.tool, observation.arguments, policy.volatile
                )
            if result is None and observation.result is not None:
                result = result_fingerprint(observation.result, policy.volatile)
        call = not policy.wait and (observation.tool is not None or action is not None)
        counts = call and action not in self._turn_actions
        if counts and action is not None:
            self._turn_actions.add(action)
        progress = observation.progress
        verify_claim = self._limits.gate == "verify" and observation.claims_done
        refused = verify_claim and observation.verified is False
        return Facts(
            turn=observation.turn,
            tool=observation.tool,
            action=action,
            result=result,
            state=observation.state_fingerprint,
            error=observation.error_class,
            progress=progress,
            wait=policy.wait,
            repeatable=policy.repeatable,
            call=call,
            counts=counts,
            good=not policy.wait and progress is not None and progress > 0,
            pending_claim=verify_claim and observation.verified is None,
            identical_refusal=refused
            and self._gate.is_identical(result, observation.state_fingerprint),
        )
