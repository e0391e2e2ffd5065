"""The journal of a run: hash-linked events, and what may be said of a sequence of them.

Theory of operation: an event's digest is over its canonical bytes, and each event carries the
digest of the one before it, so that a head (sequence, digest, epoch) names a whole history. One
function, `follow`, says whether an event continues a head; linking, verification and every store
rest on it. Events count from 1; the head of an empty journal is sequence 0 with `GENESIS`.

A journal cannot witness its own end: a copy with its tail cut off is as well linked as the whole.
Only an anchor, a head that was noted elsewhere, tells them apart, so without one the best verdict
is *cannot tell*.

Choices: the epoch of an event is the one in force after it: `lease_acquired` has the epoch before
it plus 1, every other event the epoch before it. Policy, state and grant digests may be null, since
a budget that is wider than a run has a journal without policy and state. Payloads hold no floating
point numbers and only ASCII keys, for which our canonical bytes are RFC 8785. A constructor does
not validate; `encode_event` does.

Source: spec runtime, section 1; RFC 8785.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Annotated, Literal, cast, get_args

import msgspec

from loopcore.canonical import INTEGER_MAX, canonical, digest_bytes
from loopcore.errors import LoopcoreError
from loopcore.models import Count, Digest, Positive

EventKind = Literal[
    "run_created",
    "lease_acquired",
    "lease_released",
    "action_reserved",
    "action_refused",
    "action_dispatched",
    "outcome_observed",
    "evidence_validated",
    "state_committed",
    "reservation_settled",
    "finish_refused",
    "approval_recorded",
    "child_created",
    "cancel_requested",
    "effect_reconciled",
    "resumption_started",
    "run_resumed",
    "terminal_committed",
]
KINDS: tuple[EventKind, ...] = get_args(EventKind)

# Where a stamp comes from: the wall clock, the last stamp plus monotonic time that passed since,
# the last stamp itself because the clock stood before it, a store's clock, or a simulated one.
ClockSource = Literal["wall", "monotonic", "clamped", "store", "simulated"]

GENESIS = "0" * 64
EVENT_BYTES_MAX = 2**20
PAYLOAD_DEPTH_MAX = 32
RUN_ID_CHARACTERS_MAX = 128
LEASE_MS_MAX = 24 * 60 * 60 * 1000
# The member of a `lease_acquired` payload that says how long the lease lasts.
LEASE_DURATION = "duration_ms"

# Printable ASCII without a space, so that every store keeps and orders it alike; `$` would let a
# line end pass.
RunId = Annotated[
    str, msgspec.Meta(min_length=1, max_length=RUN_ID_CHARACTERS_MAX, pattern=r"\A[!-~]+\Z")
]
Name = Annotated[str, msgspec.Meta(min_length=1, max_length=256)]


class InvalidEvent(LoopcoreError):
    """Events are at fault: one is not well formed, or does not continue the head it is put on.

    Arguments:
        reason: what is wrong, in words; sequence: the event that is wrong, where it has a number.
    """

    def __init__(self, reason: str, *, sequence: int | None = None) -> None:
        where = "" if sequence is None else f"event {sequence}: "
        super().__init__(f"{where}{reason}")
        self.reason = reason
        self.sequence = sequence


class Event(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """One thing that happened in a run, bound to everything before it.

    Fields:
        epoch: of the lease under which it was appended, 0 before the first.
        state_sha256: of the canonical state after it; payload: a canonical JSON object.
    """

    schema: Literal["loopcore/event/1"] = "loopcore/event/1"
    run_id: RunId
    sequence: Positive
    previous_event_sha256: Digest
    kind: EventKind
    policy_sha256: Digest | None
    state_sha256: Digest | None
    epoch: Count
    principal: Name
    tenant: Name
    grant_sha256: Digest | None
    idempotency_key: Name | None
    producer_release: Name
    model_version: Name | None
    prompt_version: Name | None
    tool_version: Name | None
    at_unix_ms: Count
    clock: ClockSource
    payload: dict[str, object]


class Head(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Where a journal stands: its last event's sequence and digest, and the epoch in force."""

    sequence: Count
    digest: Digest
    epoch: Count


class Anchor(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A head of one run, noted outside its journal."""

    run_id: RunId
    sequence: Count
    digest: Digest


class JournalVerdict(msgspec.Struct, frozen=True, kw_only=True):
    """What a sequence of events is.

    Fields:
        verdict: `valid` only against an anchor; linked, without one, is `cannot tell`.
        reason: in words; sequence: the first place that is wrong, for `invalid` alone.
        head: of the part that is linked; complete_through: up to where nothing can be missing.
    """

    verdict: Literal["valid", "invalid", "cannot tell"]
    reason: str
    sequence: int | None
    head: Head
    complete_through: int


EMPTY_HEAD = Head(sequence=0, digest=GENESIS, epoch=0)

_DECODER = msgspec.json.Decoder(Event, strict=True)
_HEXADECIMALS = b"0123456789abcdef"
# Types of decoded values with which nothing can be wrong.
_ALWAYS_RIGHT = frozenset({str, bool, type(None)})


def encode_event(event: Event) -> bytes:
    """Return the canonical bytes of an event that is well formed; raise InvalidEvent otherwise."""
    try:
        data = canonical(event)
    except (msgspec.MsgspecError, UnicodeEncodeError, TypeError, RecursionError) as error:
        words = " ".join(str(error).split())
        raise InvalidEvent(f"it is no JSON ({words})", sequence=event.sequence) from None
    decode_event(data)
    return data


def decode_event(data: bytes) -> Event:
    """Return the event that canonical bytes hold; raise InvalidEvent for any other bytes."""
    if len(data) > EVENT_BYTES_MAX:
        raise InvalidEvent(f"it has {len(data)} bytes, more than {EVENT_BYTES_MAX}")
    try:
        event = _DECODER.decode(data)
        again = canonical(event)
    except (msgspec.MsgspecError, UnicodeError, RecursionError) as error:
        raise InvalidEvent(" ".join(str(error).split())) from None
    # The decoder takes the last of repeated keys and any spelling; the digest knows one spelling.
    if again != data:
        raise InvalidEvent("it is not in canonical form", sequence=event.sequence)
    digests = (
        event.previous_event_sha256,
        event.policy_sha256 or "",
        event.state_sha256 or "",
        event.grant_sha256 or "",
    )
    if "".join(digests).encode().translate(None, _HEXADECIMALS):
        raise InvalidEvent("a digest is not in lowercase hexadecimals", sequence=event.sequence)
    wrong = _wrong_payload(event.payload)
    if wrong is not None:
        raise InvalidEvent(wrong, sequence=event.sequence)
    return event


def _wrong_payload(payload: dict[str, object]) -> str | None:
    """Return why a decoded payload has no canonical form, or None."""
    waiting: list[tuple[object, int]] = [(payload, 1)]
    while waiting:
        value, depth = waiting.pop()
        if isinstance(value, float):
            return f"its payload has the number {value}, which is no integer"
        if isinstance(value, int) and abs(value) > INTEGER_MAX:
            return f"its payload has an integer beyond {INTEGER_MAX}"
        if not isinstance(value, dict | list):
            continue
        if depth > PAYLOAD_DEPTH_MAX:
            return f"its payload is deeper than {PAYLOAD_DEPTH_MAX}"
        if isinstance(value, dict):
            members = cast("dict[str, object]", value)
            if not "".join(members).isascii():
                return "its payload has a key that is not ASCII"
            inner: Iterable[object] = members.values()
        else:
            inner = cast("list[object]", value)
        waiting += [(item, depth + 1) for item in inner if type(item) not in _ALWAYS_RIGHT]
    return None


def event_digest(event: Event) -> str:
    """Return the digest that names an event and everything before it."""
    return digest_bytes(canonical(event))


def follow(run_id: str, head: Head, event: Event, *, data: bytes | None = None) -> Head:
    """Return the head after an event; raise InvalidEvent where it does not continue the head.

    Arguments:
        data: the event's canonical bytes, where they are at hand.
    """
    expected = head.sequence + 1
    if event.run_id != run_id:
        reason = f"it belongs to the run {event.run_id}, not to {run_id}"
    elif event.sequence != expected:
        reason = f"it has the sequence {event.sequence} where {expected} should stand"
    elif event.previous_event_sha256 != head.digest:
        reason = "it is not linked to the event before it"
    elif event.epoch != epoch_after(head.epoch, event.kind):
        reason = f"it is a {event.kind} with the epoch {event.epoch} after the epoch {head.epoch}"
    else:
        digest = event_digest(event) if data is None else digest_bytes(data)
        return Head(sequence=expected, digest=digest, epoch=event.epoch)
    raise InvalidEvent(reason, sequence=expected)


def epoch_after(epoch: int, kind: str) -> int:
    """Return the epoch in force after an event of a kind."""
    return epoch + 1 if kind == "lease_acquired" else epoch


def chain(head: Head, drafts: Sequence[Event]) -> tuple[Event, ...]:
    """Return the drafts as events that continue a head, in order.

    Only sequence, link and epoch are set anew; whatever stood there is a placeholder.
    """
    linked: list[Event] = []
    for draft in drafts:
        if linked:
            head = follow(linked[-1].run_id, head, linked[-1])
        event = msgspec.structs.replace(
            draft,
            sequence=head.sequence + 1,
            previous_event_sha256=head.digest,
            epoch=epoch_after(head.epoch, draft.kind),
        )
        linked.append(event)
    return tuple(linked)


def lease_duration_ms(event: Event) -> int:
    """Return how long the lease of a `lease_acquired` lasts; raise InvalidEvent without one."""
    duration = event.payload.get(LEASE_DURATION)
    if isinstance(duration, bool) or not isinstance(duration, int):
        raise InvalidEvent(f"its payload has no integer {LEASE_DURATION}", sequence=event.sequence)
    return checked_duration_ms(duration)


def checked_duration_ms(duration_ms: int) -> int:
    """Return the duration of a lease; raise InvalidEvent outside the limits."""
    if not 1 <= duration_ms <= LEASE_MS_MAX:
        raise InvalidEvent(f"a lease lasts 1 to {LEASE_MS_MAX} ms, not {duration_ms}")
    return duration_ms


def verify_journal(events: Iterable[Event], anchor: Anchor | None = None) -> JournalVerdict:
    """Return whether events are one whole journal from its beginning, as far as that can be told.

    Arguments:
        events: in the order in which they were kept; anchor: a head noted outside the journal.

    With an anchor, *valid* means that the anchored event is in its place, so that nothing up to it
    is missing; what is linked behind it could have been longer. Linear time, constant memory.
    """
    head = EMPTY_HEAD
    anchored = anchor is not None and anchor.sequence == 0 and anchor.digest == GENESIS
    run_id = None if anchor is None else anchor.run_id
    for event in events:
        run_id = event.run_id if run_id is None else run_id
        try:
            decode_event(canonical(event))
            head = follow(run_id, head, event)
        except (InvalidEvent, UnicodeError) as error:
            reason = error.reason if isinstance(error, InvalidEvent) else str(error)
            return _invalid(reason, head)
        if anchor is not None and head.sequence == anchor.sequence:
            if head.digest != anchor.digest:
                return _invalid("it is not the event that the anchor names", head, at=head.sequence)
            anchored = True
    if anchor is None:
        reason = f"{head.sequence} events are linked; without an anchor nobody can tell if all are"
        return _verdict("cannot tell", reason, head, complete_through=0)
    if not anchored:
        reason = f"the anchor names event {anchor.sequence}, and {head.sequence} are here"
        return _invalid(f"the tail is missing: {reason}", head)
    further = head.sequence - anchor.sequence
    reason = f"the anchored event {anchor.sequence} is in its place, and {further} follow it"
    return _verdict("valid", reason, head, complete_through=anchor.sequence)


def _invalid(reason: str, head: Head, at: int | None = None) -> JournalVerdict:
    place = head.sequence + 1 if at is None else at
    return JournalVerdict(
        verdict="invalid", reason=reason, sequence=place, head=head, complete_through=0
    )


def _verdict(
    verdict: Literal["valid", "cannot tell"], reason: str, head: Head, *, complete_through: int
) -> JournalVerdict:
    return JournalVerdict(
        verdict=verdict,
        reason=reason,
        sequence=None,
        head=head,
        complete_through=complete_through,
    )
