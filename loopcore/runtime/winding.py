"""How a run is brought to its terminal, and what is still accepted behind it.

Theory of operation: once the run is bound to end, nothing is admitted. Step by step, each of its
own append or command: reservations that were never called are settled at zero, calls are asked to
stop and waited for within the shutdown budget, those that do not stop are recorded as what they
are, children are cancelled and joined; then the one terminal. Behind it only lease, reconciliation
and late usage are written, and none of them changes the receipt.

Source: spec runtime, sections 2 and 5.
"""

from __future__ import annotations

import msgspec

from loopcore.runtime.drafting import Batch
from loopcore.runtime.messages import Abort, Command, Done, Local, Observation, Pump, Wait
from loopcore.runtime.moves import Move, abandon, crossing, record, settle_scopes
from loopcore.runtime.payloads import LeaseReleased
from loopcore.runtime.resolving import is_orphan, question
from loopcore.runtime.settlement import add_outcome, add_unknown, add_zero, rule_of
from loopcore.runtime.state import State
from loopcore.runtime.termination import add_terminal


def wind_down(state: State, local: Local, pump: Pump) -> Move | None:
    """Bring a run that is bound to end to its terminal."""
    if state.ending is None and local.stop is None:
        return None
    for move in (_settle_uncalled, _abort_calls, _close_orphans, _await_calls):
        found = move(state, local, pump)
        if found is not None:
            return found
    batch = Batch(state, pump.now)
    ending, stop = state.ending, local.stop
    if ending is not None:
        add_terminal(
            batch,
            state,
            ending.terminal,
            reason=ending.reason,
            violations=ending.violations,
            on_step=ending.on_step,
        )
    elif stop is not None:
        add_terminal(batch, state, stop[0], reason=stop[1])
    return Move(local, batch)


def _settle_uncalled(state: State, local: Local, pump: Pump) -> Move | None:
    """Settle at zero what is reserved, and what this worker dispatched and did not call.

    A child that it did not call is nobody's then: it is cancelled and joined before it is settled.
    """
    batch = Batch(state, pump.now)
    for action in state.open.values():
        uncalled = action.name in local.uncalled and action.child_run_id is None
        if action.status == "reserved":
            add_zero(batch, action, because="never_called")
        elif action.status == "dispatched" and uncalled:
            add_zero(batch, action, because="not_called")
    if not len(batch) and not local.uncalled:
        return None
    after = msgspec.structs.replace(local, uncalled=frozenset(), proposals=None, scopes_due=True)
    return Move(after, batch)


def _abort_calls(state: State, local: Local, pump: Pump) -> Move | None:
    fresh = sorted(local.calling - local.aborting)
    if not fresh:
        return None
    after = msgspec.structs.replace(local, aborting=local.aborting | set(fresh))
    return Move(after, commands=tuple(Abort(action=name) for name in fresh))


def _close_orphans(state: State, local: Local, pump: Pump) -> Move | None:
    """Record dispatches that nobody here waits for; cancel children that nobody here runs."""
    for action in state.open.values():
        if not is_orphan(action, local):
            continue
        if action.child_run_id is not None:
            joined = frozenset({action.name})
            after = msgspec.structs.replace(
                local, calling=local.calling | joined, aborting=local.aborting | joined
            )
            return Move(after, commands=(crossing(action, cancel=True),))
        batch = Batch(state, pump.now)
        if rule_of(state, action).effect == "none":
            interrupted = Observation(outcome="failed", error_class="interrupted")
            add_outcome(batch, state, action.name, interrupted, ends=True)
        else:
            add_unknown(batch, state, action, reason="unresolved", step=False)
        return Move(msgspec.structs.replace(local, scopes_due=True), batch)
    return None


def _await_calls(state: State, local: Local, pump: Pump) -> Move | None:
    """Wait for calls within the shutdown budget, then record them as they are."""
    if not local.calling:
        return None
    since = state.ending.since_unix_ms if state.ending else local.stop_since_unix_ms or 0
    until = since + state.envelope.rules.shutdown_ms
    batch = Batch(state, pump.now)
    if batch.at_unix_ms >= until:
        for name in sorted(local.calling):
            move = abandon(state, local, batch, name)
            if move is not None:
                return move
        return Move(local, commands=(Wait(),))
    return Move(local, commands=(Wait(until_unix_ms=until),))


def after_terminal(state: State, local: Local, pump: Pump) -> Move:
    """Record what comes late, ask about open effects where wanted, and give the run back."""
    late = record(state, local, pump)
    if late is not None:
        return late
    due = settle_scopes(state, local, pump)
    if due is not None:
        return due
    if local.mode == "reconcile" and local.reconciles:
        asked = local.reconciling | local.answered
        unknown = [
            action
            for action in state.actions.values()
            if action.status == "unresolved" and action.name not in asked
        ]
        if unknown:
            names = frozenset(action.name for action in unknown)
            commands: tuple[Command, ...] = tuple(question(action) for action in unknown)
            after = msgspec.structs.replace(local, reconciling=local.reconciling | names)
            return Move(after, commands=commands)
        if local.reconciling:
            return Move(local, commands=(Wait(),))
    if state.lease_released:
        return Move(local, commands=(Done(),))
    batch = Batch(state, pump.now)
    batch.add(LeaseReleased(owner=local.worker))
    return Move(local, batch)
