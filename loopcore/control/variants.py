"""Naive guards, kept to be measured: each stops at the K-th identical call and knows nothing else.

Theory of operation: a name says what a variant does. `consecutive-K` stops on the K-th call running
with the same tool and arguments, `total-K` on the K-th anywhere in the run; with `-result` the
result is part of the key. `step-cap-N` stops at turn N. They know no gate (a verified finish still
completes), no tool policy but `volatile`, no progress and no other bound. Text between calls is
ignored; a call whose key is unknown equals nothing and ends a run of equal calls.

`total-K` must remember every key, so its memory is bounded only by `KEYS_MAX`: a key that comes
after so many different ones is not remembered, and is therefore never the K-th.

Source: spec control, section 2.
"""

from __future__ import annotations

import re
from typing import Literal, TypeAlias

from loopcore.control.decisions import Controller, Decision
from loopcore.control.fingerprints import action_fingerprint, result_fingerprint
from loopcore.control.levels import LEVELS, controller
from loopcore.control.limits import Limits
from loopcore.control.observations import Observation
from loopcore.control.precedence import COMPLETED, CONTINUE, RANKS, STEPS
from loopcore.control.turns import Turns
from loopcore.errors import UsageError

KEYS_MAX = 1_000_000
# One call repeats nothing.
REPEAT_MIN = 2
# A K or N of more digits than these would never be reached.
_NAME = re.compile(
    r"(?:(consecutive|total)-([1-9][0-9]{0,8})(-result)?)|(?:step-cap-([1-9][0-9]{0,8}))"
)
_REPEATED = RANKS["stop", "repeated_action"]

Scope = Literal["consecutive", "total"]
Key: TypeAlias = tuple[str, str | None]


def named_controller(name: str) -> Controller:
    """Return a new controller: a level (A to E) or a variant by its name.

    Errors: UsageError when no level and no variant has this name.
    """
    if name in LEVELS:
        return controller(name)
    return variant(name)


def declared_needs(name: str) -> tuple[str, ...]:
    """Return the inputs that a level or variant declares; errors as `named_controller`."""
    if name in LEVELS:
        return LEVELS[name].needs
    found = variant(name)
    if isinstance(found, StepCap):
        return ()
    return ("call", "arguments", "result") if found.with_result else ("call", "arguments")


def variant(name: str) -> RepeatedCall | StepCap:
    """Return a new variant: `consecutive-K`, `total-K`, each also `-result`, or `step-cap-N`.

    Errors: UsageError when the name is none of these; K is at least 2, N at least 1.
    """
    match = _NAME.fullmatch(name)
    if match is not None and match[4] is not None:
        return StepCap(int(match[4]))
    if match is None or int(match[2]) < REPEAT_MIN:
        raise UsageError(
            f"controller: expected one of {', '.join(LEVELS)}, consecutive-K, total-K, "
            f"consecutive-K-result, total-K-result (K at least 2) or step-cap-N, got {name!a}"
        )
    scope: Scope = "consecutive" if match[1] == "consecutive" else "total"
    return RepeatedCall(scope, int(match[2]), with_result=match[3] is not None)


class RepeatedCall:
    """Stops with `repeated_action` on the K-th identical call."""

    def __init__(self, scope: Scope, count: int, *, with_result: bool) -> None:
        self.scope = scope
        self.count = count
        self.with_result = with_result
        self.start(Limits())

    def start(self, limits: Limits) -> None:
        """Begin a new run; of the limits only the volatile names are used."""
        self._limits = limits
        self._turns = Turns()
        # Consecutive calls need the count of one key only; the others are dropped.
        self._counts: dict[Key, int] = {}

    def observe(self, observation: Observation) -> Decision:
        """Return the decision for this observation; UsageError when it is out of order."""
        ended = self._turns.enter(observation)
        if ended is not None:
            return ended
        fired = self._count(observation)
        if observation.claims_done and observation.verified is True:
            return self._turns.settle(COMPLETED)
        return self._turns.settle(_REPEATED if fired else CONTINUE)

    def _count(self, seen: Observation) -> bool:
        """Count the call; return whether it is (at least) the K-th."""
        volatile = self._limits.policy(seen.tool).volatile
        action, result = seen.action_fingerprint, None
        if action is None and seen.arguments is not None:
            action = action_fingerprint(seen.tool, seen.arguments, volatile)
        if seen.tool is None and action is None:
            return False
        if self.with_result:
            result = seen.result_fingerprint
            if result is None and seen.result is not None:
                result = result_fingerprint(seen.result, volatile)
        if action is None or (self.with_result and result is None):
            if self.scope == "consecutive":
                self._counts.clear()
            return False
        key = (action, result)
        count = self._counts.get(key, 0) + 1
        if self.scope == "consecutive":
            self._counts.clear()
        if count > 1 or len(self._counts) < KEYS_MAX:
            self._counts[key] = count
        return count >= self.count


class StepCap:
    """Stops with `step_budget_exhausted` at turn N; a verified finish there comes first."""

    def __init__(self, turns: int) -> None:
        self.turns_max = turns
        self.start(Limits())

    def start(self, limits: Limits) -> None:
        """Begin a new run; no limit is used."""
        self._turns = Turns()

    def observe(self, observation: Observation) -> Decision:
        """Return the decision for this observation; UsageError when it is out of order."""
        ended = self._turns.enter(observation)
        if ended is not None:
            return ended
        if observation.claims_done and observation.verified is True:
            return self._turns.settle(COMPLETED)
        return self._turns.settle(STEPS if observation.turn >= self.turns_max else CONTINUE)
