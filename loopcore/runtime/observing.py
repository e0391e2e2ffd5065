"""A controller level beside the policy: what it sees of a committed step, and its stop.

Theory of operation: the controller is fed by the fold, one observation a committed step, so its
memory is a fold of the journal and a crash loses none of it. Its stop ends the run between steps
and does not project.

Choices: under a new policy the controller begins anew, under that policy's limits.

Source: spec runtime, sections 2 and 8; spec controllers, section 2.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from loopcore.control.decisions import Controller
from loopcore.control.levels import controller
from loopcore.control.limits import decode_limits
from loopcore.control.observations import Observation, Usage
from loopcore.runtime.envelope import Control

if TYPE_CHECKING:
    from loopcore.runtime.state import Action, State


def new_controller(control: Control | None) -> Controller | None:
    """Return the controller that an envelope names, started; or None."""
    if control is None:
        return None
    level = controller(control.level)
    level.start(decode_limits(control.limits))
    return level


def feed(state: State, action: Action, progress: bool) -> str | None:
    """Show a committed step to the run's controller; return the terminal of its stop, or None."""
    if state.controller is None or action.step is None:
        return None
    reserved, observed, charged = action.reserved, action.observed, action.charged
    claims = reserved.kind == "finish"
    decision = state.controller.observe(
        Observation(
            turn=action.step,
            action=1,
            tool=None if claims else reserved.tool,
            arguments=None if claims else reserved.arguments,
            result=None if observed is None else observed.output,
            state_fingerprint=state.state_sha256,
            progress=int(progress),
            error_class=None if observed is None else observed.error_class,
            claims_done=claims,
            verified=(not action.finish_refused) if claims else None,
            usage=Usage()
            if charged is None
            else Usage(
                model_calls=charged.model_calls,
                tool_calls=charged.tool_calls,
                input_tokens=charged.input_tokens,
                output_tokens=charged.output_tokens,
                cost_microunits=charged.cost_microunits,
            ),
        )
    )
    return decision.reason if decision.decision == "stop" else None
