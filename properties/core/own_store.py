"""A right store in steps, in this process's memory, for wrong stores to change one of them."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from threading import Lock

import msgspec

from loopcore.store.journal import Event, Head, decode_event
from loopcore.store.rules import NO_EVENTS, Batch, Row, Standing, admit, prepare, renewed


@dataclass(slots=True)
class Kept:
    """What is kept of a run."""

    standing: Standing = NO_EVENTS
    rows: list[Row] = field(default_factory=list[Row])


@dataclass(slots=True)
class Disk:
    """What outlives a handle."""

    runs: dict[str, Kept] = field(default_factory=dict[str, Kept])
    lock: Lock = field(default_factory=Lock)


DISKS: dict[str, Disk] = {}


class OwnStore:
    """A right store, in steps that a wrong one can change."""

    durable = True

    def __init__(self, location: str, now_ms: Callable[[], int]) -> None:
        self.disk = DISKS.setdefault(f"{type(self).__name__} {location}", Disk())
        self.now_ms = now_ms

    def named(self, run_id: str) -> str:
        """Return the name under which a run is kept."""
        return run_id

    def run(self, run_id: str) -> Kept:
        """Return what is kept of a run."""
        return self.disk.runs.get(self.named(run_id), Kept())

    def head(self, run_id: str) -> Head:
        return self.run(run_id).standing.head

    def batch(self, run_id: str, head: str, epoch: int, events: Sequence[Event]) -> Batch:
        """Return the events as they will be kept."""
        return prepare(run_id, head, epoch, events)

    def admitted(self, batch: Batch, standing: Standing) -> Standing:
        """Return the standing after a batch."""
        return admit(batch, standing, self.now_ms())

    def append(self, run_id: str, expected_head: str, epoch: int, events: Sequence[Event]) -> Head:
        batch = self.batch(run_id, expected_head, epoch, events)
        with self.disk.lock:
            return self.keep(batch)

    def keep(self, batch: Batch) -> Head:
        """Admit a batch and keep it."""
        kept = self.run(batch.run_id)
        kept.standing = self.admitted(batch, kept.standing)
        kept.rows = [*kept.rows, *batch.rows]
        self.disk.runs[self.named(batch.run_id)] = kept
        return kept.standing.head

    def events(self, run_id: str, after: int) -> list[Event]:
        """Return the events behind a sequence."""
        return [decode_event(row.data) for row in self.run(run_id).rows[after:]]

    def read(self, run_id: str, after: int = 0) -> Iterator[Event]:
        return iter(self.events(run_id, after))

    def runs(self) -> tuple[str, ...]:
        return tuple(sorted(self.disk.runs))

    def renew(self, run_id: str, epoch: int, duration_ms: int) -> None:
        with self.disk.lock:
            kept = self.run(run_id)
            kept.standing = self.renewed(run_id, kept.standing, epoch, duration_ms)

    def renewed(self, run_id: str, standing: Standing, epoch: int, duration_ms: int) -> Standing:
        """Return the standing after a renewal."""
        return renewed(run_id, standing, epoch, duration_ms, self.now_ms())

    def close(self) -> None:
        """Do nothing."""


def lease_of(standing: Standing, expires: int | None) -> Standing:
    """Return a standing with another end of its lease."""
    return Standing(head=standing.head, lease_expires_ms=expires)


def epoch_of(standing: Standing, epoch: int) -> Standing:
    """Return a standing with another epoch."""
    head = msgspec.structs.replace(standing.head, epoch=epoch)
    return Standing(head=head, lease_expires_ms=standing.lease_expires_ms)
