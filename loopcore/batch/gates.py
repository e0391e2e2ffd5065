"""The answers to claims, over many runs at once, with the refusals that bound a run.

Theory of operation: as `loopcore.control.gates.Gatekeeper`, with arrays. Most turns of most runs
claim nothing, so a turn without any claim only notes where progress begins the count anew.

Source: spec controllers, section 6.
"""

from __future__ import annotations

from collections.abc import Iterator

from loopcore.batch.facts import Facts
from loopcore.batch.state import Fired, Row, counters
from loopcore.control.limits import Limits
from loopcore.control.precedence import COMPLETED, INVALID, STALLED


class Gates(Row):
    """Accepted finishes, and for levels that stop by the gate its refusals and broken answers."""

    arrays = ("_refusals", "_pending")

    def __init__(self, limits: Limits, turns: int, runs: int, *, stops: bool) -> None:
        """Begin with no claim; `stops`: refusals and a broken verifier end the run."""
        self._allowed = limits.max_refusals
        self._streak = limits.error_streak
        self._stops = stops and limits.gate == "verify"
        self._refusals = counters(turns, runs)
        self._pending = counters(turns, runs)

    def update(self, facts: Facts, row: int) -> Iterator[Fired]:
        """Take one turn; yield where each of the gate's answers stops the run."""
        yield Fired(COMPLETED, facts.completed[row], 0)
        if not self._stops:
            return
        good = facts.good[row]
        if self._allowed is not None:
            self._refusals *= ~good
        claims = facts.claims[row]
        if not claims.any():
            return
        pending = facts.pending[row]
        if self._allowed is not None:
            refused = facts.refused[row]
            self._refusals += refused
            over = refused & (self._refusals > self._allowed)
            yield Fired(INVALID, over, self._allowed + 1)
        if self._streak is not None:
            self._pending += pending
            self._pending *= pending | ~claims
            yield Fired(STALLED, pending & (self._pending >= self._streak), self._streak)
