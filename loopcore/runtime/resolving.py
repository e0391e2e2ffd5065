"""Dispatches of which nobody here knows the outcome: ask, and end the run when asking is over.

Theory of operation: an *orphan* is a dispatch in the journal that this worker neither called nor is
about to call: inherited from an owner that died, or its own whose append was not answered. It may
have crossed the boundary, so it is treated exactly like a call whose outcome is indeterminate.
Nothing is dispatched again before a verified "no effect"; when the budget of questions is spent the
run ends as `indeterminate_effect`.

Source: spec runtime, sections 3 and 4.
"""

from __future__ import annotations

import msgspec

from loopcore.runtime.drafting import Batch
from loopcore.runtime.messages import Command, Local, Observation, Pump, Reconcile
from loopcore.runtime.moves import Move, crossing
from loopcore.runtime.settlement import add_completion, add_outcome, add_unknown, rule_of
from loopcore.runtime.state import Action, State


def is_orphan(action: Action, local: Local) -> bool:
    """Return whether nothing was recorded of a dispatch and this worker will learn nothing."""
    return (
        action.awaits_outcome
        and action.name not in local.calling
        and action.name not in local.uncalled
    )


def complete(state: State, local: Local, pump: Pump) -> Move | None:
    """Settle and commit what has an outcome in the journal and is not yet a step."""
    for action in state.open.values():
        if action.status == "resolved":
            batch = Batch(state, pump.now)
            add_completion(batch, state, action)
            if len(batch):
                return Move(msgspec.structs.replace(local, scopes_due=True), batch)
    return None


def conclude(state: State, local: Local, pump: Pump) -> Move | None:
    """End the run on an effect that nobody can tell, when asking is over or there is no time."""
    if not state.open:
        return None
    batch = Batch(state, pump.now)
    expired = batch.at_unix_ms >= state.policy.deadline_unix_ms
    for action in state.open.values():
        if not _is_unknown(state, action, local):
            continue
        spent = action.answers >= state.envelope.rules.reconciliations_max
        if spent or expired or not local.reconciles:
            add_unknown(batch, state, action, reason="unresolved", step=True)
            return Move(msgspec.structs.replace(local, scopes_due=True), batch)
    return None


def _is_unknown(state: State, action: Action, local: Local) -> bool:
    """Return whether only the effect's own system can tell what became of a call."""
    if action.status == "unresolved":
        return True
    effect = rule_of(state, action).effect
    return is_orphan(action, local) and effect != "none" and action.child_run_id is None


def reconcile(state: State, local: Local, pump: Pump) -> Move | None:
    """Ask about every unknown effect; take up children; close orphans without an effect."""
    if not state.open:
        return None
    batch = Batch(state, pump.now)
    commands: list[Command] = []
    asked: set[str] = set()
    for action in state.open.values():
        if is_orphan(action, local):
            if action.child_run_id is not None:
                after = msgspec.structs.replace(local, calling=local.calling | {action.name})
                return Move(after, commands=(crossing(action, cancel=False),))
            if rule_of(state, action).effect == "none":
                interrupted = Observation(outcome="failed", error_class="interrupted")
                add_outcome(batch, state, action.name, interrupted, ends=False)
                return Move(msgspec.structs.replace(local, scopes_due=True), batch)
        if not _is_unknown(state, action, local) or action.name in local.reconciling:
            continue
        due = action.asked_at_unix_ms + state.envelope.rules.reconcile_after_ms
        if action.answers and batch.at_unix_ms < due:
            continue
        commands.append(question(action))
        asked.add(action.name)
    if not commands:
        return None
    after = msgspec.structs.replace(local, reconciling=local.reconciling | asked)
    return Move(after, commands=tuple(commands))


def question(action: Action) -> Reconcile:
    """Return the record that a reconciler works from.

    Source: spec runtime, section 3: {invocation identity, idempotency key, dispatch receipt, last
    observation, reconciliation owner}.
    """
    reserved, dispatched, observed = action.reserved, action.dispatched, action.observed
    return Reconcile(
        action=action.name,
        tool=reserved.tool,
        arguments=reserved.arguments,
        idempotency_key=action.key,
        identity=reserved.identity,
        deadline_unix_ms=0 if dispatched is None else dispatched.deadline_unix_ms,
        lifetime_until_unix_ms=None if dispatched is None else dispatched.lifetime_until_unix_ms,
        last_observation="" if observed is None else (observed.error_class or observed.output),
        answers=action.answers,
        child_run_id=action.child_run_id,
    )
