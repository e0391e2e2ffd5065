"""fold(state, event): the only way in which a state comes about, and the guard of every rule.

Theory of operation: one function a kind of event, chosen by a table; those of actions stand in
`loopcore.runtime.folding_actions`. A journal that folds is a journal that kept the protocol, so a
new owner finds out about one that did not before it does anything.

Source: spec runtime, sections 1 to 5.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import cast

import msgspec

from loopcore.canonical import digest
from loopcore.runtime.folding_actions import (
    action_dispatched,
    action_refused,
    action_reserved,
    bind,
    broken,
    child_created,
    effect_reconciled,
    evidence_validated,
    finish_refused,
    outcome_observed,
    reservation_settled,
    state_committed,
)
from loopcore.runtime.observing import new_controller
from loopcore.runtime.payloads import (
    ActionDispatched,
    ActionRefused,
    ActionReserved,
    CancelRequested,
    ChildCreated,
    EffectReconciled,
    EvidenceValidated,
    FinishRefused,
    LeaseAcquired,
    LeaseReleased,
    OutcomeObserved,
    Payload,
    ReservationSettled,
    ResumptionStarted,
    RunCreated,
    RunResumed,
    StateCommitted,
    TerminalCommitted,
    payload_of,
)
from loopcore.runtime.progress import Progress
from loopcore.runtime.state import State
from loopcore.runtime.tables import AFTER_TERMINAL
from loopcore.store.journal import EMPTY_HEAD, Event, InvalidEvent, follow


def fold(state: State, event: Event) -> State:
    """Return the state after an event; it is the same object, moved on.

    Raises InvalidEvent where the event does not continue the journal or breaks a rule; the state
    is not used again then.
    """
    payload = payload_of(event)
    if isinstance(payload, RunCreated):
        _begin(state, event, payload)
    elif not state.created:
        raise InvalidEvent(f"a {event.kind} before its run_created", sequence=event.sequence)
    elif event.policy_sha256 != state.policy_sha256:
        raise broken(event, "it names another policy")
    if event.at_unix_ms < state.last_at_unix_ms:
        raise broken(event, "its stamp is before the last one")
    if state.receipt is not None and event.kind not in AFTER_TERMINAL:
        raise broken(event, f"a {event.kind} after the terminal")
    state.head = follow(state.run_id, state.head, event)
    state.epoch = event.epoch
    _HANDLERS[type(payload)](state, event, payload)
    state.last_at_unix_ms = event.at_unix_ms
    if event.state_sha256 != state.state_sha256:
        raise broken(event, "its state is not the fold of the events before it")
    return state


def fold_all(events: Iterable[Event], state: State | None = None) -> State:
    """Return the fold of events, on a state or on none; linear in their number."""
    state = State() if state is None else state
    for event in events:
        fold(state, event)
    return state


def _begin(state: State, event: Event, payload: RunCreated) -> None:
    policy_sha256 = digest(payload.policy)
    if event.policy_sha256 != policy_sha256:
        raise broken(event, "it names another policy than it holds")
    if digest(payload.envelope) != payload.policy.run_envelope_sha256:
        raise broken(event, "its policy names another envelope")
    if state.created:
        _continue(state, event, payload)
    elif payload.resumes is not None:
        raise broken(event, f"it continues {payload.resumes.run_id}, which was not read before it")
    else:
        state.progress = Progress(payload.policy)
        state.last_at_unix_ms = payload.policy.started_at_unix_ms
    state.created = True
    state.run_id, state.lineage = event.run_id, payload.lineage
    state.policy, state.policy_sha256 = payload.policy, policy_sha256
    state.envelope, state.depth, state.parent = payload.envelope, payload.depth, payload.parent
    state.grant_sha256 = digest(payload.envelope.grants)
    state.rules_by_tool = {rule.name: rule for rule in payload.envelope.tools}
    finish = payload.envelope.rule("finish")
    if finish is not None:
        state.rules_by_tool["finish"] = finish
    state.controller = new_controller(payload.envelope.control)


def _continue(state: State, event: Event, payload: RunCreated) -> None:
    """Go on with a run that has a terminal, under a new policy."""
    permit, resumes = state.resumed, payload.resumes
    if permit is None or resumes is None or state.receipt is None:
        raise broken(event, "a second run_created")
    if (resumes.run_id, resumes.run_resumed_sha256, resumes.receipt_sha256) != (
        state.run_id,
        state.resumed_sha256,
        state.receipt.receipt_sha256,
    ):
        raise broken(event, "it does not name the event that permits it")
    if (permit.new_run_id, permit.new_policy_sha256) != (event.run_id, event.policy_sha256):
        raise broken(event, "another run or policy was permitted to continue")
    state.head, state.epoch, state.owner, state.lease_released = EMPTY_HEAD, 0, None, False
    state.receipt = state.resumed = state.ending = state.cancel = state.refused = None
    state.resumed_sha256 = None
    state.refusals = state.verifier_faults = state.infrastructure_failures = 0
    state.progress.continue_under(payload.policy)


def _run_created(state: State, event: Event, payload: RunCreated) -> None:
    if event.epoch != 0:
        raise broken(event, "a run begins without a lease")


def _lease_acquired(state: State, event: Event, payload: LeaseAcquired) -> None:
    state.owner, state.lease_released = payload.owner, False
    state.resumption_due = state.started and state.receipt is None


def _lease_released(state: State, event: Event, payload: LeaseReleased) -> None:
    if state.owner != payload.owner:
        raise broken(event, f"{payload.owner} does not hold the lease")
    state.lease_released = True


def _resumption_started(state: State, event: Event, payload: ResumptionStarted) -> None:
    if not state.resumption_due:
        raise broken(event, "nothing is to be resumed")
    state.resumption_due = False


def _cancel_requested(state: State, event: Event, payload: CancelRequested) -> None:
    if state.cancel is not None:
        raise broken(event, "a second cancel request")
    state.cancel = payload
    bind(state, event, "cancelled", payload.reason)


def _run_resumed(state: State, event: Event, payload: RunResumed) -> None:
    if state.receipt is None or state.resumed is not None:
        raise broken(event, "a terminal has at most one successor")
    if payload.receipt_sha256 != state.receipt.receipt_sha256:
        raise broken(event, "it names another receipt")
    state.resumed = payload
    state.resumed_sha256 = state.head.digest


def _terminal_committed(state: State, event: Event, payload: TerminalCommitted) -> None:
    receipt = payload.receipt
    unsettled = [name for name, action in state.open.items() if action.charged is None]
    if unsettled:
        raise broken(event, f"a terminal while {unsettled[0]} is not settled")
    bound = state.ending
    if bound is not None and (receipt.terminal, receipt.on_step) != (bound.terminal, bound.on_step):
        raise broken(event, f"the run was bound to end as {bound.terminal}")
    if receipt.usage != state.progress.usage():
        raise broken(event, "the receipt's usage is not the fold of the journal")
    body = msgspec.structs.replace(receipt, receipt_sha256="")
    if digest(body) != receipt.receipt_sha256:
        raise broken(event, "the receipt's own digest does not match")
    state.receipt = receipt


_Handler = Callable[[State, Event, Payload], None]
_HANDLERS: Mapping[type[Payload], _Handler] = cast(
    "Mapping[type[Payload], _Handler]",
    {
        RunCreated: _run_created,
        LeaseAcquired: _lease_acquired,
        LeaseReleased: _lease_released,
        ResumptionStarted: _resumption_started,
        ActionReserved: action_reserved,
        ActionRefused: action_refused,
        ActionDispatched: action_dispatched,
        OutcomeObserved: outcome_observed,
        EffectReconciled: effect_reconciled,
        EvidenceValidated: evidence_validated,
        ReservationSettled: reservation_settled,
        StateCommitted: state_committed,
        FinishRefused: finish_refused,
        ChildCreated: child_created,
        CancelRequested: _cancel_requested,
        RunResumed: _run_resumed,
        TerminalCommitted: _terminal_committed,
    },
)
