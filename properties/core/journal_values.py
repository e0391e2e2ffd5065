"""Small journals for tests."""

from __future__ import annotations

from loopcore.store.contract import Store
from loopcore.store.journal import EMPTY_HEAD, GENESIS, Event, EventKind, Head, chain

RUN = "run-1"


def draft(kind: EventKind = "state_committed", *, run: str = RUN, **payload: object) -> Event:
    """Return an event that is not linked yet."""
    return Event(
        run_id=run,
        sequence=1,
        previous_event_sha256=GENESIS,
        kind=kind,
        policy_sha256="1" * 64,
        state_sha256=None,
        epoch=0,
        principal="worker",
        tenant="tenant",
        grant_sha256="3" * 64,
        idempotency_key=None,
        producer_release="test/1",
        model_version=None,
        prompt_version=None,
        tool_version=None,
        at_unix_ms=1_700_000_000_000,
        clock="simulated",
        payload=payload,
    )


def journal(count: int, *, run: str = RUN) -> tuple[Event, ...]:
    """Return a run's first events, the lease among them."""
    drafts = [draft("run_created", run=run), draft("lease_acquired", run=run, duration_ms=1000)]
    more = [draft(run=run, number=number, text="é😀") for number in range(count - 2)]
    return chain(EMPTY_HEAD, (drafts + more)[:count])


def begin(store: Store, *, run: str = RUN) -> Head:
    """Return the head of a run that was opened with its lease."""
    return store.append(run, GENESIS, 1, journal(2, run=run))


def add(store: Store, head: Head, count: int = 1, *, run: str = RUN) -> Head:
    """Return the head after so many more events, in one append."""
    drafts = [draft(run=run, number=number, text="é😀") for number in range(count)]
    return store.append(run, head.digest, head.epoch, chain(head, drafts))
