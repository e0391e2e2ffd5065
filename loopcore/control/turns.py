"""A decision takes effect when its turn is over; from a stop on it is the only answer.

Theory of operation: a controller enters each observation here first. That checks the order, tells
whether a turn begins, and answers at once where an earlier turn ended in a stop. After deciding,
the controller settles its rank, and the highest rank of the turn is kept. What a rank means is a
row of the table of precedence, unless the controller recovers.

Source: spec controllers, sections 2 and 5.
"""

from __future__ import annotations

from loopcore.control.decisions import Decision
from loopcore.control.observations import Observation
from loopcore.control.precedence import CONTINUE, DECISIONS
from loopcore.control.recovery import Recoveries
from loopcore.errors import UsageError


class Turns:
    """Where a run is, and the highest rank of its current turn."""

    def __init__(self, recoveries: Recoveries | None = None) -> None:
        self._recoveries = recoveries
        self._last = (0, 0)
        self._rank = CONTINUE
        # Whether the observation entered last is the first of its turn.
        self.is_new = True
        # Whether the turn before that one ended in a recovery.
        self.recovered = False

    def enter(self, observation: Observation) -> Decision | None:
        """Return the stop that already ended the run, or None when this observation counts.

        Errors: UsageError when (turn, action) is not after the last that counted.
        """
        place = (observation.turn, observation.action)
        if place <= self._last:
            raise UsageError(f"observation: (turn, action) {place} is not after {self._last}")
        is_new = observation.turn != self._last[0]
        if is_new:
            highest = self._meaning(self._rank)
            if highest.decision == "stop":
                return highest
            self.recovered = highest.decision == "recover"
            if self._recoveries is not None and self.recovered:
                self._recoveries.begin(highest)
            self._rank = CONTINUE
        self.is_new = is_new
        self._last = place
        return None

    def settle(self, rank: int) -> Decision:
        """Return the answer of this rank, which now takes part in the turn's decision."""
        self._rank = min(self._rank, rank)
        return self._meaning(rank)

    def _meaning(self, rank: int) -> Decision:
        return DECISIONS[rank] if self._recoveries is None else self._recoveries.answer(rank)
