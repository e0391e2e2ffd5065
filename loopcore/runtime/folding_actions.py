"""How each event of an action moves the state, and what it may not do.

Theory of operation: one function a kind. Each first refuses what no honest worker can have
appended (a second settlement, a dispatch after a cancel request, a "verified no effect" without a
fence), then moves the state.

Choices: a reservation is settled before its step is committed, in the same append, since a step
counts what it was settled at. A definitive outcome that arrives when a step has already decided the
run is recorded and settled, and is no step.

Source: spec runtime, sections 2, 3 and 5.
"""

from __future__ import annotations

import msgspec

from loopcore.canonical import digest
from loopcore.runtime.amounts import exceeded
from loopcore.runtime.observing import feed
from loopcore.runtime.payloads import (
    ActionDispatched,
    ActionRefused,
    ActionReserved,
    ChildCreated,
    EffectReconciled,
    EvidenceValidated,
    FinishRefused,
    OutcomeObserved,
    ReservationSettled,
    StateCommitted,
)
from loopcore.runtime.progress import Taken
from loopcore.runtime.state import Action, Ending, Invocation, State
from loopcore.runtime.tables import (
    INFRASTRUCTURE,
    REFUSAL_TERMINALS,
    RETRIES_TERMINAL,
    VERIFIER_TERMINAL,
)
from loopcore.runtime.usage import charge
from loopcore.store.journal import Event, InvalidEvent


def broken(event: Event, reason: str) -> InvalidEvent:
    """Return the error of an event that breaks a rule."""
    return InvalidEvent(reason, sequence=event.sequence)


def action_named(state: State, event: Event, name: str) -> Action:
    """Return the action that an event is about."""
    action = state.actions.get(name)
    if action is None:
        raise broken(event, f"there is no action {name}")
    return action


def _keep(state: State, action: Action) -> None:
    """Store an action, and keep it among the open ones while it holds something."""
    state.actions[action.name] = action
    settled_uncommitted = action.status == "resolved" and action.step is None
    if action.is_open or settled_uncommitted:
        state.open[action.name] = action
    else:
        state.open.pop(action.name, None)


def action_reserved(state: State, event: Event, payload: ActionReserved) -> None:
    """Hold a slot and a worst case, within every budget, for an invocation that is not open."""
    if state.ending is not None or state.resumption_due:
        raise broken(event, "a reservation when the run is ending or its owner new")
    if payload.action in state.actions or event.idempotency_key is None:
        raise broken(event, f"the action {payload.action} is not a new one with a key")
    total = state.charged.plus(state.outstanding).plus(payload.reserved)
    if exceeded(state.policy, total, event.at_unix_ms):
        raise broken(event, f"the reservation of {payload.action} is over a budget")
    known = state.invocations.get(payload.identity)
    if known is not None:
        last = state.actions[known.last_action]
        if known.payload_sha256 != payload.payload_sha256:
            raise broken(event, "one identity with another payload")
        if last.is_open or known.incident or payload.attempt != known.attempts + 1:
            raise broken(event, f"{payload.action} repeats {last.name}, which is not over")
    state.invocations[payload.identity] = Invocation(
        payload_sha256=payload.payload_sha256,
        attempts=payload.attempt,
        last_action=payload.action,
        retries=known.retries if known else 0,
    )
    last_occurrence = state.occurrences.get(payload.logical, 0)
    state.occurrences[payload.logical] = max(last_occurrence, payload.occurrence)
    state.outstanding = state.outstanding.plus(payload.reserved)
    state.started, state.refusals = True, 0
    _keep(
        state,
        Action(reserved=payload, key=event.idempotency_key, status="reserved", epoch=event.epoch),
    )


def action_refused(state: State, event: Event, payload: ActionRefused) -> None:
    """Answer a proposal; too many answers in a row bind the run to end."""
    state.results.append(payload)
    if payload.ends_run:
        state.refused = payload
        return
    state.refusals += payload.counts
    if state.refusals > state.envelope.rules.refusals_max and payload.code in REFUSAL_TERMINALS:
        bind(state, event, REFUSAL_TERMINALS[payload.code], f"refused proposals: {payload.code}")


def action_dispatched(state: State, event: Event, payload: ActionDispatched) -> None:
    """Let a reserved action of this owner cross the boundary."""
    action = action_named(state, event, payload.action)
    if state.ending is not None or state.resumption_due:
        raise broken(event, "a dispatch when the run is ending or its owner new")
    if action.status != "reserved" or event.idempotency_key != action.key:
        raise broken(event, f"{payload.action} is not reserved under this key")
    if event.epoch != action.epoch:
        raise broken(event, f"{payload.action} was reserved by another owner")
    _keep(state, msgspec.structs.replace(action, status="dispatched", dispatched=payload))


def outcome_observed(state: State, event: Event, payload: OutcomeObserved) -> None:
    """Take in the first definitive outcome, or that it is unknown; later ones change nothing."""
    action = action_named(state, event, payload.action)
    if payload.usage_late != (state.receipt is not None):
        raise broken(event, "late usage is what comes after the terminal")
    if payload.contradicts:
        _mark_incident(state, action)
    if payload.usage_late and action.charged is not None:
        due = charge(action.reserved.reserved, payload.measured)
        more = due.minus(action.charged.plus(action.late))
        state.late = state.late.plus(more)
        _keep(state, msgspec.structs.replace(action, late=action.late.plus(more)))
    if payload.usage_late or payload.late:
        return
    state.findings.extend(f"{action.name}: {finding}"[:1_024] for finding in payload.findings)
    if payload.abandoned:
        state.findings.append(f"{action.name}: abandoned, it may still be running")
    definitive = payload.outcome != "indeterminate"
    if action.status != "dispatched" and not (action.status == "unresolved" and definitive):
        raise broken(event, f"{payload.action} awaits no such outcome")
    _keep(
        state,
        msgspec.structs.replace(
            action,
            status="resolved" if definitive else "unresolved",
            outcome=payload.outcome if definitive else None,
            observed=payload,
            epoch=event.epoch,
        ),
    )


def _mark_incident(state: State, action: Action) -> None:
    identity = action.reserved.identity
    known = state.invocations[identity]
    state.invocations[identity] = msgspec.structs.replace(known, incident=True)
    state.findings.append(f"{action.name}: an effect was found where none had been verified")


def effect_reconciled(state: State, event: Event, payload: EffectReconciled) -> None:
    """Take in what the effect's own system says; no effect only behind a fence."""
    action = action_named(state, event, payload.action)
    if payload.late:
        return
    if action.status not in ("dispatched", "unresolved"):
        raise broken(event, f"{payload.action} has no open effect")
    if payload.finding == "still_indeterminate":
        told = msgspec.structs.replace(
            action, answers=action.answers + 1, asked_at_unix_ms=event.at_unix_ms
        )
        _keep(state, told)
        return
    no_effect = payload.finding == "verified_no_effect"
    if no_effect and (payload.fence is None or payload.fence.key != action.key):
        raise broken(event, f"no effect of {payload.action} is verified without a fence")
    _keep(
        state,
        msgspec.structs.replace(
            action,
            status="resolved",
            outcome="failed" if no_effect else "succeeded",
            no_effect=no_effect,
            reconciled=payload,
            epoch=event.epoch,
        ),
    )


def evidence_validated(state: State, event: Event, payload: EvidenceValidated) -> None:
    """Count evidence that was not seen before."""
    action = action_named(state, event, payload.action)
    if any(receipt in state.evidence_seen for receipt in payload.accepted):
        raise broken(event, "evidence that was seen before is accepted")
    state.evidence_seen.update(payload.accepted)
    _keep(state, msgspec.structs.replace(action, accepted=payload.accepted))


def reservation_settled(state: State, event: Event, payload: ReservationSettled) -> None:
    """End a reservation, exactly once."""
    action = action_named(state, event, payload.action)
    if action.charged is not None:
        raise broken(event, f"{payload.action} is settled a second time")
    never = payload.because in ("never_called", "not_called")
    if never and action.status not in ("reserved", "dispatched"):
        raise broken(event, f"{payload.action} was called")
    if not never and action.status not in ("unresolved", "resolved"):
        raise broken(event, f"{payload.action} has no outcome to settle")
    state.outstanding = state.outstanding.minus(action.reserved.reserved)
    state.complete = state.complete and payload.complete
    settled = msgspec.structs.replace(action, charged=payload.charged)
    if never:
        settled = msgspec.structs.replace(settled, status="dropped")
        state.results.append(settled)
    state.uncommitted = state.uncommitted.plus(payload.charged)
    _keep(state, settled)


def finish_refused(state: State, event: Event, payload: FinishRefused) -> None:
    """Count a finish that the verifier did not accept, or could not judge."""
    action = action_named(state, event, payload.action)
    if action.reserved.kind != "finish" or action.status != "resolved":
        raise broken(event, f"{payload.action} is no finish with an outcome")
    if payload.fault:
        state.verifier_faults += 1
    else:
        state.verifier_faults = 0
        state.finish_refusals += 1
    _keep(state, msgspec.structs.replace(action, finish_refused=True))


def state_committed(state: State, event: Event, payload: StateCommitted) -> None:
    """Make an action a step, and let the rules see it."""
    action = action_named(state, event, payload.action)
    if action.charged is None or action.step is not None or action.status == "dropped":
        raise broken(event, f"{payload.action} is no settled action without a step")
    if state.ending is not None and state.ending.on_step is not None:
        raise broken(event, "a step after the one that ended the run")
    if (payload.step, payload.state_before_sha256) != (
        state.progress.total.steps + 1,
        state.state_sha256,
    ):
        raise broken(event, "the step does not follow the last one")
    outcome = action.outcome or "indeterminate"
    committed = msgspec.structs.replace(action, step=payload.step, outcome=outcome)
    step = taken(committed, state_after=event.state_sha256 or "", at_unix_ms=event.at_unix_ms)
    verdict = state.progress.advance(step)
    state.uncommitted = state.uncommitted.minus(step.charged)
    state.results.append(committed)
    _keep(state, committed)
    if verdict.terminal is not None:
        if state.ending is not None:
            raise broken(event, "a step that ends a run which is already ending")
        state.ending = Ending(
            terminal=verdict.terminal,
            violations=verdict.violations,
            on_step=payload.step,
            reason="",
            since_unix_ms=event.at_unix_ms,
        )
        state.proof = step.proof if verdict.terminal == "completed" else None
    _count_failures(state, event, committed)
    stop = feed(state, committed, verdict.progress)
    if stop is not None:
        bind(state, event, stop, "controller")


def taken(action: Action, *, state_after: str, at_unix_ms: int) -> Taken:
    """Return the step that a settled action is, when it is committed now."""
    reserved, observed = action.reserved, action.observed
    refused = action.finish_refused
    completion = None if observed is None or observed.completion is None else observed.completion
    return Taken(
        kind="verification" if refused else reserved.kind,
        action_sha256=reserved.action_sha256,
        outcome="failed" if refused else (action.outcome or "indeterminate"),
        state_after=state_after,
        evidence=action.accepted,
        proof=None if refused or completion is None else digest(completion),
        at_unix_ms=at_unix_ms,
        charged=action.charged or reserved.reserved,
    )


def _count_failures(state: State, event: Event, action: Action) -> None:
    """Count infrastructure failures and verifier faults in a row; too many end the run."""
    rules = state.envelope.rules
    observed = action.observed
    infrastructure = observed is not None and observed.error_class == INFRASTRUCTURE
    if infrastructure and action.outcome == "failed":
        state.infrastructure_failures += 1
        identity = action.reserved.identity
        known = state.invocations[identity]
        state.invocations[identity] = msgspec.structs.replace(known, retries=known.retries + 1)
        if state.infrastructure_failures > rules.retries_max:
            bind(state, event, RETRIES_TERMINAL, "infrastructure failures")
    elif action.outcome == "succeeded":
        state.infrastructure_failures = 0
    if state.verifier_faults > rules.verifier_faults_max:
        bind(state, event, VERIFIER_TERMINAL, "the verifier failed")


def bind(state: State, event: Event, terminal: str, reason: str) -> None:
    """Bind the run to a terminal between steps, unless it is bound already."""
    if state.ending is None:
        state.ending = Ending(
            terminal=terminal,
            violations=(),
            on_step=None,
            reason=reason,
            since_unix_ms=event.at_unix_ms,
        )


def child_created(state: State, event: Event, payload: ChildCreated) -> None:
    """Note that an action is a run of its own."""
    action = action_named(state, event, payload.action)
    if action.status != "dispatched" or action.child_run_id is not None:
        raise broken(event, f"{payload.action} may not have a child now")
    state.children[payload.action] = payload.child_run_id
    _keep(state, msgspec.structs.replace(action, child_run_id=payload.child_run_id))
