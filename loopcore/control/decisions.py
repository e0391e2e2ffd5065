"""What a controller answers: one decision for each observation.

Source: spec control, section 1; spec controllers, sections 5 to 7.
"""

from __future__ import annotations

from typing import Literal, Protocol

import msgspec

from loopcore.control.limits import Limits
from loopcore.control.observations import Observation

DecisionKind = Literal["continue", "warn", "stop", "recover", "reject_finish"]


class Decision(msgspec.Struct, frozen=True, kw_only=True):
    """A controller's answer; `reason` and `strategy` are None where they do not apply."""

    decision: DecisionKind
    reason: str | None = None
    strategy: str | None = None


class Controller(Protocol):
    """Decides on a run from its observations alone: no clock, no I/O, bounded memory."""

    def start(self, limits: Limits) -> None:
        """Begin a new run under these limits; everything remembered of an earlier run is gone."""
        ...

    def observe(self, observation: Observation) -> Decision:
        """Return the decision for this observation, in amortised constant time."""
        ...
