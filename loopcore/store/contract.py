"""What every store of journals promises, and the errors by which it refuses.

Theory of operation: a store keeps journals by run id and knows nothing of actions or budgets. It
guards three things: the head (compare-and-swap), the epoch (a fencing token) and the lease (who may
raise the epoch, on the store's own clock). An append is all or nothing, and durable when it
returns.

A refused append (`AppendRefused`) changed nothing. An unanswered one (`AppendUnanswered`) was made
or not, and the next append that is answered settles which. In both cases the caller reads, folds
and decides again, and never sends the same events on another head.

Choices: `epoch` of an append is the epoch that its last event has. A batch raises it by one with
one `lease_acquired`, which stands first, or second after a journal's opening `run_created`. What a
terminal forbids is the protocol's business, not the store's.

Source: spec runtime, section 1.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Protocol

from loopcore.errors import EnvironmentFault, LoopcoreError
from loopcore.store.journal import EMPTY_HEAD, GENESIS, Event, Head, InvalidEvent

__all__ = [
    "EMPTY_HEAD",
    "GENESIS",
    "AppendRefused",
    "AppendUnanswered",
    "Event",
    "Head",
    "InvalidEvent",
    "JournalBroken",
    "LeaseHeld",
    "LeaseNotHeld",
    "StaleEpoch",
    "StaleHead",
    "Store",
    "StoreBusy",
    "StoreFull",
    "StoreReadOnly",
    "StoreUnavailable",
]

EVENTS_PER_APPEND_MAX = 10_000


class AppendRefused(LoopcoreError):
    """The store changed nothing, since the caller's view of the run is out of date."""

    def __init__(self, run_id: str, message: str) -> None:
        super().__init__(f"run {run_id}: {message}")
        self.run_id = run_id


class StaleHead(AppendRefused):
    """The journal does not stand where the caller took it to stand."""

    def __init__(self, run_id: str, *, expected: str, found: Head) -> None:
        message = f"the head is event {found.sequence} ({found.digest[:12]}), not {expected[:12]}"
        super().__init__(run_id, message)
        self.expected = expected
        self.found = found


class StaleEpoch(AppendRefused):
    """The epoch is not the one in force: another worker took the lease."""

    def __init__(self, run_id: str, *, epoch: int, current: int) -> None:
        super().__init__(run_id, f"the epoch is {current}, not {epoch}")
        self.epoch = epoch
        self.current = current


class LeaseHeld(AppendRefused):
    """The lease is neither released nor expired on the store's clock."""

    def __init__(self, run_id: str, *, epoch: int, expires_at_ms: int, now_ms: int) -> None:
        left = expires_at_ms - now_ms
        super().__init__(run_id, f"the lease of epoch {epoch} lasts for another {left} ms")
        self.epoch = epoch
        self.expires_at_ms = expires_at_ms
        self.now_ms = now_ms


class LeaseNotHeld(AppendRefused):
    """There is no lease to renew: none was taken, or it was released."""

    def __init__(self, run_id: str, *, epoch: int) -> None:
        super().__init__(run_id, f"no lease of epoch {epoch} is held")
        self.epoch = epoch


class JournalBroken(LoopcoreError):
    """What the store holds is not what was appended; `sequence` is the place, where it is known."""

    def __init__(self, run_id: str, *, reason: str, sequence: int | None = None) -> None:
        place = "" if sequence is None else f" at event {sequence}"
        super().__init__(f"the journal of run {run_id} is broken{place}: {reason}")
        self.run_id = run_id
        self.sequence = sequence
        self.reason = reason


class AppendUnanswered(EnvironmentFault):
    """The store went away before it answered: all of the events are in the journal, or none is."""

    def __init__(self, run_id: str, message: str) -> None:
        super().__init__(f"run {run_id}: the append was not answered: {message}")
        self.run_id = run_id


class StoreFull(EnvironmentFault):
    """There is no room for the append; nothing was changed."""


class StoreReadOnly(EnvironmentFault):
    """The store may not be written; nothing was changed."""


class StoreBusy(EnvironmentFault):
    """Others held the store for longer than the time limit; nothing was changed."""


class StoreUnavailable(EnvironmentFault):
    """The store cannot be reached or is none; nothing was changed."""


class Store(Protocol):
    """A keeper of journals; every method may be called from several threads at once."""

    def head(self, run_id: str) -> Head:
        """Return where the journal stands, `EMPTY_HEAD` for a run that has none."""
        ...

    def append(self, run_id: str, expected_head: str, epoch: int, events: Sequence[Event]) -> Head:
        """Return the head after all of the events, which are durable; or none of them is kept.

        Arguments:
            expected_head: digest of the head that the events continue, `GENESIS` for an empty one.
            epoch: of the last event; one more than the current one with `lease_acquired`.
            events: at least one, linked by `loopcore.store.journal.chain`.

        Raises StaleHead, StaleEpoch or LeaseHeld, tested in the order epoch, head, lease, when
        the caller's view is out of date; InvalidEvent for events that continue no head;
        AppendUnanswered; StoreFull, StoreReadOnly, StoreBusy, StoreUnavailable.
        """
        ...

    def read(self, run_id: str, after: int = 0) -> Iterator[Event]:
        """Yield the events behind a sequence, in order and as they were appended.

        Holds what was appended before the call, and may hold more. Raises JournalBroken at the
        first event that does not verify, or at the end where events are missing.
        """
        ...

    def runs(self) -> tuple[str, ...]:
        """Return the ids of all runs with an event, in the order of their characters."""
        ...

    def renew(self, run_id: str, epoch: int, duration_ms: int) -> None:
        """Let the lease of this epoch last this long from now on the store's clock.

        An expired lease can be renewed until a higher epoch exists. Raises StaleEpoch, or
        LeaseNotHeld where it was released.
        """
        ...

    def now_ms(self) -> int:
        """Return the store's clock, in milliseconds of Unix time."""
        ...

    def close(self) -> None:
        """Give back what the store holds; it is not used again."""
        ...
