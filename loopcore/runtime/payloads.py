"""What each kind of event says: one closed type a kind, and the table that joins the two.

Theory of operation: an event's payload is written from one of these types and read back into it, so
that a journal holds nothing that the fold does not understand. Arguments and outputs of tools are
kept as text, because a journal has no floating point numbers and tools do.

Source: spec runtime, section 1.
"""

from __future__ import annotations

from typing import Annotated, Literal, TypeAlias, TypeVar, cast

import msgspec

from loopcore.models import ActionKind, Count, Digest, Outcome, Policy, Positive, Terminal, Usage
from loopcore.runtime.amounts import NOTHING, UNMEASURED, Amounts, Measured
from loopcore.runtime.envelope import Envelope
from loopcore.store.journal import Event, EventKind, InvalidEvent

TEXT_CHARACTERS_MAX = 65_536

Text = Annotated[str, msgspec.Meta(max_length=TEXT_CHARACTERS_MAX)]
Label = Annotated[str, msgspec.Meta(min_length=1, max_length=256)]
Reason = Annotated[str, msgspec.Meta(max_length=1_024)]

RefusalCode = Literal[
    "budget",
    "unknown_tool",
    "bad_parameters",
    "missing_authority",
    "key_conflict",
    "duplicate",
    "incident",
    "too_many_children",
    "too_deep",
    "carve",
    "batch_too_large",
]
SettledBecause = Literal["outcome", "indeterminate", "never_called", "not_called"]
FindingKind = Literal["verified_success", "verified_no_effect", "still_indeterminate"]


class EvidenceReceipt(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """What an issuer attests; its digest names it.

    Fields:
        subject: what was found, in the issuer's own terms. scope: the run that it was made for.
        state_sha256: the state that it was taken on, or None where it depends on none.
    """

    issuer: Label
    release: Label
    scope: Label
    subject: Reason
    issued_at_unix_ms: Count
    state_sha256: Digest | None = None


class Parent(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Where a child run comes from."""

    run_id: Label
    action: Label


class Resumes(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """The run with a terminal that this one continues, and the event that permits it."""

    run_id: Label
    receipt_sha256: Digest
    run_resumed_sha256: Digest


class RunCreated(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """The run begins. lineage: the first run of a chain of resumptions."""

    policy: Policy
    envelope: Envelope
    lineage: Label
    depth: Count = 0
    parent: Parent | None = None
    resumes: Resumes | None = None


class LeaseAcquired(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A worker holds the run; the event's epoch is its fencing token."""

    owner: Label
    duration_ms: Positive


class LeaseReleased(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """The worker gives the run back."""

    owner: Label


class ActionReserved(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """One action slot and its worst case are held.

    Fields:
        identity: of the invocation, the same for every attempt; payload_sha256: tool, arguments.
        logical: what the occurrence counts.
        retry: infrastructure failures of this invocation so far, which are no repetition.
        carve: what a child run may use at most, else None.
    """

    action: Label
    kind: ActionKind
    tool: Label
    arguments: Text
    action_sha256: Digest
    identity: Digest
    payload_sha256: Digest
    logical: Digest
    occurrence: Positive
    attempt: Positive
    retry: Count
    reserved: Amounts
    carve: Amounts | None = None


class ActionRefused(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A proposal is answered, uncharged.

    Fields:
        reserved: its worst case; beside: that of the rest of a batch that is refused whole.
        of_action: the action that already is what was proposed, for `duplicate`.
        scope: the wider budget that refused it, else None.
        bound: the terminal of the budget that has no room, for `budget`.
        counts: the first of a proposal of which nothing was admitted.
    """

    kind: ActionKind
    tool: Label
    action_sha256: Digest
    code: RefusalCode
    reason: Reason
    reserved: Amounts = NOTHING
    beside: Amounts = NOTHING
    of_action: Label | None = None
    scope: Label | None = None
    bound: Terminal | None = None
    counts: bool = False
    ends_run: bool = False


class ActionDispatched(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """The call may cross the boundary from now on."""

    action: Label
    deadline_unix_ms: Count
    lifetime_until_unix_ms: Count | None = None


class OutcomeObserved(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """What was observed of a call.

    Fields:
        output: cut at the envelope's size; output_sha256, output_characters: of the whole.
        late: a definitive outcome stood before. usage_late: the terminal stood before.
        contradicts: it tells of an effect where none was verified: an incident.
        findings: what somebody has to look at, such as processes that outlived the call.
    """

    action: Label
    outcome: Outcome
    measured: Measured = UNMEASURED
    output: Text = ""
    output_sha256: Digest | None = None
    output_characters: Count = 0
    state_sha256: Digest | None = None
    evidence: tuple[EvidenceReceipt, ...] = ()
    completion: EvidenceReceipt | None = None
    error_class: Label | None = None
    abandoned: bool = False
    findings: tuple[Reason, ...] = ()
    late: bool = False
    usage_late: bool = False
    contradicts: bool = False


class Rejected(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A piece of evidence that does not count, and why."""

    sha256: Digest
    reason: Label


class EvidenceValidated(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Which evidence of an action counts from now on."""

    action: Label
    accepted: tuple[Digest, ...]
    rejected: tuple[Rejected, ...]


class StateCommitted(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """An action is a step of the run; the event's state digest is the state after it."""

    action: Label
    step: Positive
    state_before_sha256: Digest


class ReservationSettled(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A reservation is over; `charged` is what it came to."""

    action: Label
    charged: Amounts
    complete: bool
    because: SettledBecause


class FinishRefused(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A finish was not accepted; fault: the verifier failed, which says nothing of the work."""

    action: Label
    reason: Reason
    fault: bool = False


class ChildCreated(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A child run may begin under its own envelope, within the carve."""

    action: Label
    child_run_id: Label
    deadline_unix_ms: Count


class CancelRequested(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """An authorised client wants the run to end."""

    by: Label
    reason: Reason


class Fence(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Why an arrival of the call is impossible from now on."""

    kind: Literal["key_refused", "lifetime_passed"]
    key: Label


class EffectReconciled(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """The effect's own system was asked what became of a call."""

    action: Label
    finding: FindingKind
    reconciler: Label
    reason: Reason = ""
    fence: Fence | None = None
    measured: Measured = UNMEASURED
    output: Text = ""
    state_sha256: Digest | None = None
    evidence: tuple[EvidenceReceipt, ...] = ()
    late: bool = False


class ResumptionStarted(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A new owner verified and folded the journal up to this head."""

    owner: Label
    head_sequence: Count
    head_sha256: Digest


class RunResumed(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """The one successor of a run with a terminal."""

    new_run_id: Label
    new_policy_sha256: Digest
    receipt_sha256: Digest
    by: Label
    hypothesis: Reason | None = None


class OpenEffect(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A dispatch whose effect is unknown: what a reconciliation worker starts from."""

    action: Label
    identity: Digest
    idempotency_key: Label
    tool: Label


class RunReceipt(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """The verdict on a run, bound to itself.

    Fields:
        on_step: the step that decided it, or None where the run ended between steps.
        usage: of the committed steps; uncommitted: what was charged beside them.
        accounting: `incomplete` where a charge stands for usage that nobody measured.
        next_owners: who has to act; resumable: as the strictest of what fired.
    """

    schema: Literal["loopcore/run-receipt/1"] = "loopcore/run-receipt/1"
    run_id: Label
    policy_sha256: Digest
    terminal: Label
    terminal_class: Label
    violations: tuple[Label, ...]
    on_step: int | None
    reason: Reason
    usage: Usage
    uncommitted: Amounts
    accounting: Literal["complete", "incomplete"]
    verified_progress_steps: Count
    final_state_sha256: Digest
    completion_receipt_sha256: Digest | None
    open_effects: tuple[OpenEffect, ...]
    findings: tuple[Reason, ...]
    next_owners: tuple[Label, ...]
    resumable: Label
    ended_at_unix_ms: Count
    receipt_sha256: str = ""


class TerminalCommitted(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """The run is over."""

    receipt: RunReceipt


Payload: TypeAlias = (
    RunCreated
    | LeaseAcquired
    | LeaseReleased
    | ActionReserved
    | ActionRefused
    | ActionDispatched
    | OutcomeObserved
    | EvidenceValidated
    | StateCommitted
    | ReservationSettled
    | FinishRefused
    | ChildCreated
    | CancelRequested
    | EffectReconciled
    | ResumptionStarted
    | RunResumed
    | TerminalCommitted
)

KIND_OF: dict[type[Payload], EventKind] = {
    RunCreated: "run_created",
    LeaseAcquired: "lease_acquired",
    LeaseReleased: "lease_released",
    ActionReserved: "action_reserved",
    ActionRefused: "action_refused",
    ActionDispatched: "action_dispatched",
    OutcomeObserved: "outcome_observed",
    EvidenceValidated: "evidence_validated",
    StateCommitted: "state_committed",
    ReservationSettled: "reservation_settled",
    FinishRefused: "finish_refused",
    ChildCreated: "child_created",
    CancelRequested: "cancel_requested",
    EffectReconciled: "effect_reconciled",
    ResumptionStarted: "resumption_started",
    RunResumed: "run_resumed",
    TerminalCommitted: "terminal_committed",
}
# The kinds that this release writes and reads; `approval_recorded` belongs to another part.
TYPE_OF: dict[str, type[Payload]] = {kind: payload for payload, kind in KIND_OF.items()}

P = TypeVar("P", bound=msgspec.Struct)


def payload_of(event: Event) -> Payload:
    """Return what an event says; raise InvalidEvent where its payload is not of its kind."""
    expected = TYPE_OF.get(event.kind)
    if expected is None:
        raise InvalidEvent(f"nothing here reads a {event.kind}", sequence=event.sequence)
    return payload_as(event, expected)


def payload_as(event: Event, expected: type[P]) -> P:
    """Return what an event says as one type; raise InvalidEvent where it says something else."""
    try:
        return msgspec.convert(event.payload, expected)
    except msgspec.ValidationError as error:
        reason = f"its payload is no {event.kind}: {error}"
        raise InvalidEvent(reason, sequence=event.sequence) from None


def object_of(payload: Payload) -> dict[str, object]:
    """Return a payload as a JSON object."""
    return cast("dict[str, object]", msgspec.to_builtins(payload))
