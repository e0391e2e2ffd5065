"""What makes a store refuse an append, as one pure function that every store of ours calls.

Theory of operation: a store reads a run's standing (head and lease) under its own lock, asks
`admit`, and writes what it returns in the same transaction. So the stores differ in how they keep
bytes and in nothing else.

Choices: the epoch is tested before the head. Both are usually wrong together, and "another worker
took over" is the more useful answer of the two.

Source: spec runtime, section 1.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence

import msgspec

from loopcore.canonical import digest_bytes
from loopcore.store.contract import (
    EVENTS_PER_APPEND_MAX,
    JournalBroken,
    LeaseHeld,
    LeaseNotHeld,
    StaleEpoch,
    StaleHead,
)
from loopcore.store.journal import (
    EMPTY_HEAD,
    Event,
    Head,
    InvalidEvent,
    checked_duration_ms,
    decode_event,
    encode_event,
    follow,
    lease_duration_ms,
)

# How many events may stand before a `lease_acquired`: the opening `run_created` alone.
_OPENING = ("run_created",)
_OTHER_DIGEST = "its digest is not the one that was kept beside it"


class Standing(msgspec.Struct, frozen=True, kw_only=True, gc=False):
    """What a store keeps of a run besides its events.

    Fields:
        lease_expires_ms: on the store's clock; None when no lease is held.
    """

    head: Head
    lease_expires_ms: int | None = None


class Row(msgspec.Struct, frozen=True, kw_only=True, gc=False):
    """One event as a store keeps it: its canonical bytes, and their digest beside them."""

    sequence: int
    digest: str
    data: bytes


NO_EVENTS = Standing(head=EMPTY_HEAD)


class Batch(msgspec.Struct, frozen=True, kw_only=True):
    """An append that is well formed in itself, ready to be held against a run's standing.

    Fields:
        acquires_ms: how long a lease is taken for, or None; releases: it ends the lease.
    """

    run_id: str
    expected_head: str
    epoch: int
    rows: tuple[Row, ...]
    acquires_ms: int | None
    releases: bool


def admit(batch: Batch, standing: Standing, now_ms: int) -> Standing:
    """Return the standing after a batch; raise StaleEpoch, StaleHead or LeaseHeld.

    Raises InvalidEvent where the sequence does not go on from the head.

    Arguments:
        now_ms: the store's clock; it matters only where a lease is taken.
    """
    head, run_id = standing.head, batch.run_id
    if batch.epoch != head.epoch + (0 if batch.acquires_ms is None else 1):
        raise StaleEpoch(run_id, epoch=batch.epoch, current=head.epoch)
    if batch.expected_head != head.digest:
        raise StaleHead(run_id, expected=batch.expected_head, found=head)
    if batch.rows[0].sequence != head.sequence + 1:
        reason = f"it has the sequence {batch.rows[0].sequence} behind event {head.sequence}"
        raise InvalidEvent(reason, sequence=head.sequence + 1)
    expires = standing.lease_expires_ms
    if batch.acquires_ms is not None:
        if expires is not None and now_ms < expires:
            raise LeaseHeld(run_id, epoch=head.epoch, expires_at_ms=expires, now_ms=now_ms)
        expires = now_ms + batch.acquires_ms
    last = batch.rows[-1]
    return Standing(
        head=Head(sequence=last.sequence, digest=last.digest, epoch=batch.epoch),
        lease_expires_ms=None if batch.releases else expires,
    )


def prepare(run_id: str, expected_head: str, epoch: int, events: Sequence[Event]) -> Batch:
    """Return events as a batch; needs no lock, since it asks nothing about the run.

    Raises InvalidEvent where the events are not well formed, not linked to the expected head and
    each other, or not of this epoch.
    """
    if not 1 <= len(events) <= EVENTS_PER_APPEND_MAX:
        raise InvalidEvent(f"an append has 1 to {EVENTS_PER_APPEND_MAX} events, not {len(events)}")
    taken = [place for place, event in enumerate(events) if event.kind == "lease_acquired"]
    opening = tuple(event.kind for event in events[: taken[0]]) if taken else ()
    first = events[0].sequence
    if len(taken) > 1 or opening not in ((), _OPENING) or (opening and first != 1):
        raise InvalidEvent("a lease_acquired opens its batch, or follows the first run_created")
    head = Head(sequence=first - 1, digest=expected_head, epoch=epoch - len(taken))
    rows: list[Row] = []
    for event in events:
        data = encode_event(event)
        head = follow(run_id, head, event, data=data)
        rows.append(Row(sequence=head.sequence, digest=head.digest, data=data))
    return Batch(
        run_id=run_id,
        expected_head=expected_head,
        epoch=epoch,
        rows=tuple(rows),
        acquires_ms=lease_duration_ms(events[taken[0]]) if taken else None,
        releases=any(event.kind == "lease_released" for event in events),
    )


def renewed(run_id: str, standing: Standing, epoch: int, duration_ms: int, now_ms: int) -> Standing:
    """Return the standing with its lease renewed; raise StaleEpoch, LeaseNotHeld, InvalidEvent."""
    checked_duration_ms(duration_ms)
    if epoch != standing.head.epoch:
        raise StaleEpoch(run_id, epoch=epoch, current=standing.head.epoch)
    if standing.lease_expires_ms is None:
        raise LeaseNotHeld(run_id, epoch=epoch)
    return Standing(head=standing.head, lease_expires_ms=now_ms + duration_ms)


def verified(run_id: str, head: Head, row: Row) -> tuple[Head, Event]:
    """Return the head after a stored row, and its event; raise JournalBroken where it is damaged.

    Arguments:
        head: of the events before it.
    """
    try:
        event = decode_event(row.data)
        after = follow(run_id, head, event, data=row.data)
    except InvalidEvent as error:
        raise JournalBroken(run_id, sequence=head.sequence + 1, reason=error.reason) from None
    if (row.sequence, row.digest) != (after.sequence, after.digest):
        raise JournalBroken(run_id, sequence=after.sequence, reason=_OTHER_DIGEST)
    return after, event


def head_at(run_id: str, row: Row) -> Head:
    """Return the head that a stored row is; raise JournalBroken where the row is damaged."""
    try:
        event = decode_event(row.data)
    except InvalidEvent as error:
        raise JournalBroken(run_id, sequence=row.sequence, reason=error.reason) from None
    if (event.run_id, event.sequence, digest_bytes(row.data)) != (run_id, row.sequence, row.digest):
        raise JournalBroken(run_id, sequence=row.sequence, reason=_OTHER_DIGEST)
    return Head(sequence=row.sequence, digest=row.digest, epoch=event.epoch)


def read_pages(
    run_id: str, after: int, page: Callable[[str, int], tuple[list[Row], Head]]
) -> Iterator[Event]:
    """Yield a run's events behind a sequence, each verified before it is yielded.

    Arguments:
        page: returns some rows from a sequence on, and the head that was kept at that moment.

    Raises JournalBroken at the first row that does not verify, or where rows are missing.
    """
    rows, kept = page(run_id, max(after, 1))
    if after >= kept.sequence:
        return
    head = EMPTY_HEAD
    if after:
        if not rows:
            raise JournalBroken(run_id, sequence=after, reason="the event is missing")
        head, rows = head_at(run_id, rows[0]), rows[1:]
    while head.sequence < kept.sequence:
        for row in rows:
            head, event = verified(run_id, head, row)
            yield event
        rows, kept = page(run_id, head.sequence + 1)
        if not rows:
            break
    check_end(run_id, head, kept)


def check_end(run_id: str, head: Head, kept: Head) -> None:
    """Raise JournalBroken where the events end at another head than the one kept beside them."""
    if head != kept:
        reason = f"the events end at {head.sequence}, and the head kept beside them is another"
        raise JournalBroken(run_id, sequence=min(head.sequence, kept.sequence) + 1, reason=reason)
