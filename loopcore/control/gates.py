"""What bounds a run besides its detectors: the gate's answers to claims, and the summed budgets.

Theory of operation: `Gatekeeper` answers the claim of one observation and counts refusals and
broken answers; `Sums` adds usage up. Both answer with a rank of the table of precedence.

Choices: a refusal on a good observation is the first one since it. The first refusal of a run is
not identical to anything.

Source: spec controllers, sections 3, 4 (row b) and 6.
"""

from __future__ import annotations

from loopcore.control.detectors import Facts
from loopcore.control.limits import Limits
from loopcore.control.observations import Observation, Usage
from loopcore.control.precedence import (
    COMPLETED,
    CONTINUE,
    DEADLINE,
    INVALID,
    RANKS,
    REJECT,
    STALLED,
)


class Gatekeeper:
    """The answer to a claim, with the refusals and the broken answers that bound it."""

    def __init__(self, limits: Limits, stops: bool) -> None:
        self._limits = limits
        self._stops = stops
        self._refusals = 0
        self._pending = 0
        # Result and state of the last refusal of the run.
        self._refused: tuple[str | None, str | None] | None = None

    def is_identical(self, result: str | None, state: str | None) -> bool:
        """Return whether a refusal now is not known to differ from the last one."""
        if self._refused is None:
            return False
        pairs = zip((result, state), self._refused, strict=True)
        return all(new is None or old is None or new == old for new, old in pairs)

    def answer(self, observation: Observation, facts: Facts) -> int:
        """Return the rank of the gate's answer, and count what it answered."""
        if facts.good:
            self._refusals = 0
        if not observation.claims_done:
            return CONTINUE
        if observation.verified is True or self._limits.gate == "trust":
            self._pending = 0
            return COMPLETED
        if observation.verified is None:
            self._pending += 1
            bound = self._limits.error_streak
            stalled = self._stops and bound is not None and self._pending >= bound
            return STALLED if stalled else CONTINUE
        self._pending = 0
        self._refusals += 1
        self._refused = (facts.result, facts.state)
        allowed = self._limits.max_refusals
        if self._stops and allowed is not None and self._refusals > allowed:
            return INVALID
        return REJECT


# What is summed, and the reason when a sum goes over its bound.
_SUMMED: tuple[tuple[str, str, int], ...] = (
    ("model_calls", "max_model_calls", RANKS["stop", "model_budget_exhausted"]),
    ("tool_calls", "max_tool_calls", RANKS["stop", "tool_budget_exhausted"]),
    ("cost_microunits", "max_cost_microunits", RANKS["stop", "cost_budget_exhausted"]),
    ("input_tokens", "max_input_tokens", RANKS["stop", "input_token_budget_exhausted"]),
    ("output_tokens", "max_output_tokens", RANKS["stop", "output_token_budget_exhausted"]),
    # A deadline is reached where the others are exceeded: it is compared with one less.
    ("latency_ms", "max_latency_ms", DEADLINE),
)


class Sums:
    """Row b: what the run consumed, against the bounds that are on."""

    def __init__(self, limits: Limits) -> None:
        self._bounds: list[tuple[str, int, int]] = []
        for name, bound_name, rank in _SUMMED:
            bound: int | None = getattr(limits, bound_name)
            if bound is not None:
                self._bounds.append((name, bound - 1 if rank == DEADLINE else bound, rank))
        self._sums = [0] * len(self._bounds)

    def add(self, usage: Usage) -> int:
        """Add one observation's usage; return the rank of the highest bound gone over."""
        highest = CONTINUE
        for index, (name, bound, rank) in enumerate(self._bounds):
            used: int | None = getattr(usage, name)
            self._sums[index] += used or 0
            if self._sums[index] > bound:
                highest = min(highest, rank)
        return highest
