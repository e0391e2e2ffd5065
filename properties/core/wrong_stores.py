"""Wrong stores: one fault each, and the property that must find it."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from pathlib import Path

import msgspec

from loopcore.store.contract import (
    AppendRefused,
    InvalidEvent,
    LeaseNotHeld,
    StaleEpoch,
    StaleHead,
)
from loopcore.store.journal import Event, Head, encode_event, event_digest
from loopcore.store.memory import wall_clock_ms
from loopcore.store.rules import Batch, Row, Standing, prepare
from loopcore.store.sqlite import SqliteStore
from loopcore.testing.store_serving import Make
from properties.core.own_store import OwnStore, epoch_of, lease_of


class NoCompareAndSwap(OwnStore):
    """Takes any head for the current one."""

    def admitted(self, batch: Batch, standing: Standing) -> Standing:
        try:
            return super().admitted(batch, standing)
        except StaleHead:
            last = batch.rows[-1]
            head = Head(sequence=last.sequence, digest=last.digest, epoch=batch.epoch)
            return Standing(head=head, lease_expires_ms=standing.lease_expires_ms)


class EpochUnchecked(OwnStore):
    """Takes any epoch for the current one."""

    def admitted(self, batch: Batch, standing: Standing) -> Standing:
        before = batch.epoch - (batch.acquires_ms is not None)
        return super().admitted(batch, epoch_of(standing, before))


class NewerEpochAccepted(OwnStore):
    """Refuses older epochs alone."""

    def admitted(self, batch: Batch, standing: Standing) -> Standing:
        before = batch.epoch - (batch.acquires_ms is not None)
        newer = max(before, standing.head.epoch)
        return super().admitted(batch, epoch_of(standing, newer))


class EpochOfTheFirstEventAlone(OwnStore):
    """Looks at the epoch of single events alone."""

    def admitted(self, batch: Batch, standing: Standing) -> Standing:
        several = len(batch.rows) > 1 and batch.acquires_ms is None
        return super().admitted(batch, epoch_of(standing, batch.epoch) if several else standing)


class LeaseIgnored(OwnStore):
    """Gives a lease that somebody holds."""

    def admitted(self, batch: Batch, standing: Standing) -> Standing:
        return super().admitted(batch, lease_of(standing, None))


class LeaseOneLate(OwnStore):
    """Holds a lease a millisecond too long."""

    def admitted(self, batch: Batch, standing: Standing) -> Standing:
        expires = standing.lease_expires_ms
        return super().admitted(batch, lease_of(standing, expires and expires + 1))


class LeaseOneEarly(OwnStore):
    """Gives a lease a millisecond too early."""

    def admitted(self, batch: Batch, standing: Standing) -> Standing:
        expires = standing.lease_expires_ms
        return super().admitted(batch, lease_of(standing, expires and expires - 1))


class ClockOfItsOwn(OwnStore):
    """Goes by the clock of the machine."""

    def __init__(self, location: str, now_ms: Callable[[], int]) -> None:
        del now_ms
        super().__init__(location, wall_clock_ms)


class ReleaseIgnored(OwnStore):
    """Waits for the end of a released lease."""

    def batch(self, run_id: str, head: str, epoch: int, events: Sequence[Event]) -> Batch:
        return replace(super().batch(run_id, head, epoch, events), releases=False)


class RenewalForgotten(OwnStore):
    """Says that it has renewed a lease."""

    def renewed(self, run_id: str, standing: Standing, epoch: int, duration_ms: int) -> Standing:
        super().renewed(run_id, standing, epoch, duration_ms)
        return standing


class RenewalByAnybody(OwnStore):
    """Renews the lease for any epoch."""

    def renewed(self, run_id: str, standing: Standing, epoch: int, duration_ms: int) -> Standing:
        current = standing.head.epoch
        return super().renewed(run_id, standing, min(epoch, current) and current, duration_ms)


class RenewalAfterRelease(OwnStore):
    """Renews a lease that nobody holds."""

    def renewed(self, run_id: str, standing: Standing, epoch: int, duration_ms: int) -> Standing:
        try:
            return super().renewed(run_id, standing, epoch, duration_ms)
        except LeaseNotHeld:
            return lease_of(standing, self.now_ms() + duration_ms)


class HalfBatch(OwnStore):
    """Keeps the events before a faulty one."""

    def append(self, run_id: str, expected_head: str, epoch: int, events: Sequence[Event]) -> Head:
        head = Head(sequence=0, digest=expected_head, epoch=epoch)
        if any(event.kind == "lease_acquired" for event in events) or not events:
            return super().append(run_id, expected_head, epoch, events)
        for event in events:
            head = super().append(run_id, head.digest, epoch, [event])
        return head


class LinksUnchecked(OwnStore):
    """Keeps events that are not linked."""

    def batch(self, run_id: str, head: str, epoch: int, events: Sequence[Event]) -> Batch:
        try:
            return super().batch(run_id, head, epoch, events)
        except InvalidEvent as error:
            if error.reason != "it is not linked to the event before it":
                raise
            rows = [
                Row(sequence=each.sequence, digest=event_digest(each), data=encode_event(each))
                for each in events
            ]
            return Batch(
                run_id=run_id,
                expected_head=head,
                epoch=epoch,
                rows=tuple(rows),
                acquires_ms=None,
                releases=False,
            )


class LastEventLost(OwnStore):
    """Reads one event too few."""

    def events(self, run_id: str, after: int) -> list[Event]:
        return super().events(run_id, after)[:-1]


class Reordered(OwnStore):
    """Reads the events in another order."""

    def events(self, run_id: str, after: int) -> list[Event]:
        return sorted(super().events(run_id, after), key=lambda event: event.kind)


class InclusiveRead(OwnStore):
    """Reads the event before, too."""

    def events(self, run_id: str, after: int) -> list[Event]:
        return super().events(run_id, max(after - 1, 0))


class SecondPageLost(OwnStore):
    """Reads a thousand events at most."""

    def events(self, run_id: str, after: int) -> list[Event]:
        return super().events(run_id, after)[:1000]


class CutAtZeroByte(OwnStore):
    """Cuts texts at a zero byte."""

    def events(self, run_id: str, after: int) -> list[Event]:
        def cut(value: object) -> object:
            return value.partition("\0")[0] if isinstance(value, str) else value

        return [
            msgspec.structs.replace(
                event, payload={key: cut(value) for key, value in event.payload.items()}
            )
            for event in super().events(run_id, after)
        ]


class EmptyForMissing(OwnStore):
    """Gives a value where none was."""

    def events(self, run_id: str, after: int) -> list[Event]:
        return [
            msgspec.structs.replace(event, tool_version=event.tool_version or "-")
            for event in super().events(run_id, after)
        ]


class CaseFolded(OwnStore):
    """Takes ids for equal that differ in case."""

    def named(self, run_id: str) -> str:
        return run_id.lower()


class RunsOfOneHandle(OwnStore):
    """Lists the runs alone whose lease is held."""

    def runs(self) -> tuple[str, ...]:
        held = [name for name, kept in self.disk.runs.items() if kept.standing.lease_expires_ms]
        return tuple(sorted(held))


class HeadKeptInMemory(OwnStore):
    """Goes by the head that this handle knows."""

    def __init__(self, location: str, now_ms: Callable[[], int]) -> None:
        super().__init__(location, now_ms)
        self.known: dict[str, Standing] = {}

    def admitted(self, batch: Batch, standing: Standing) -> Standing:
        known = self.known.setdefault(batch.run_id, standing)
        self.known[batch.run_id] = super().admitted(batch, known)
        return self.known[batch.run_id]


class TestThenWrite(OwnStore):
    """Tests and writes without a lock around both."""

    __test__ = False

    def append(self, run_id: str, expected_head: str, epoch: int, events: Sequence[Event]) -> Head:
        batch = self.batch(run_id, expected_head, epoch, events)
        after = self.admitted(batch, self.run(run_id).standing)
        time.sleep(0.001)
        kept = self.run(run_id)
        kept.rows = [*kept.rows, *batch.rows]
        kept.standing = after
        self.disk.runs[self.named(run_id)] = kept
        return after.head


class LastAppendLostAtClosing(OwnStore):
    """Loses what was not flushed."""

    def __init__(self, location: str, now_ms: Callable[[], int]) -> None:
        super().__init__(location, now_ms)
        self.last: Callable[[], None] = lambda: None

    def keep(self, batch: Batch) -> Head:
        kept, standing, rows = self.run(batch.run_id), self.run(batch.run_id).standing, 0
        rows = len(kept.rows)
        head = super().keep(batch)

        def forget() -> None:
            again = self.run(batch.run_id)
            again.standing, again.rows = standing, again.rows[:rows]

        self.last = forget
        return head

    def close(self) -> None:
        self.last()


class LeaseForgottenAtClosing(OwnStore):
    """Keeps leases in memory alone."""

    def close(self) -> None:
        for kept in self.disk.runs.values():
            kept.standing = lease_of(kept.standing, None)


class AnsweredBeforeWritten(SqliteStore):
    """Writes behind the caller's back, when the next call comes."""

    def __init__(self, location: str, now_ms: Callable[[], int]) -> None:
        super().__init__(Path(location) / "wrong.sqlite", now_ms=now_ms)
        self.waiting: list[tuple[str, str, int, Sequence[Event]]] = []

    def append(self, run_id: str, expected_head: str, epoch: int, events: Sequence[Event]) -> Head:
        self.write()
        found = super().head(run_id)
        batch = prepare(run_id, expected_head, epoch, events)
        self.waiting.append((run_id, expected_head, epoch, events))
        if batch.acquires_ms is not None or found.digest != expected_head:
            self.write()
            return super().head(run_id)
        last = batch.rows[-1]
        return Head(sequence=last.sequence, digest=last.digest, epoch=epoch)

    def write(self) -> None:
        """Write what waits."""
        waiting, self.waiting = self.waiting, []
        for each in waiting:
            super().append(*each)

    def head(self, run_id: str) -> Head:
        self.write()
        return super().head(run_id)

    def read(self, run_id: str, after: int = 0) -> Iterator[Event]:
        self.write()
        return super().read(run_id, after)

    def close(self) -> None:
        self.write()
        super().close()


class OneTransactionAnEvent(SqliteStore):
    """Tests the whole batch, and then writes its events one by one."""

    def __init__(self, location: str, now_ms: Callable[[], int]) -> None:
        super().__init__(Path(location) / "wrong.sqlite", now_ms=now_ms)

    def append(self, run_id: str, expected_head: str, epoch: int, events: Sequence[Event]) -> Head:
        if any(event.kind == "lease_acquired" for event in events):
            return super().append(run_id, expected_head, epoch, events)
        prepare(run_id, expected_head, epoch, events)
        head = Head(sequence=0, digest=expected_head, epoch=epoch)
        for event in events:
            head = super().append(run_id, head.digest, epoch, [event])
        return head


class ClosedByTerminal(OwnStore):
    """Takes a run with a terminal for closed."""

    def admitted(self, batch: Batch, standing: Standing) -> Standing:
        kept = self.run(batch.run_id)
        if any(b'"kind":"terminal_committed"' in row.data for row in kept.rows):
            raise StaleEpoch(batch.run_id, epoch=batch.epoch, current=standing.head.epoch)
        return super().admitted(batch, standing)


class RefusalProlongsLease(OwnStore):
    """Counts a lease that it has refused."""

    def keep(self, batch: Batch) -> Head:
        try:
            return super().keep(batch)
        except AppendRefused:
            kept = self.run(batch.run_id)
            if batch.acquires_ms is not None:
                kept.standing = lease_of(kept.standing, self.now_ms() + batch.acquires_ms)
            raise


# Each wrong store, and the property that finds it.
WRONG: tuple[tuple[Make, str], ...] = (
    (NoCompareAndSwap, "S01"),
    (EpochUnchecked, "S02"),
    (NewerEpochAccepted, "S02"),
    (EpochOfTheFirstEventAlone, "S02"),
    (LeaseIgnored, "S03"),
    (LeaseOneLate, "S03"),
    (LeaseOneEarly, "S03"),
    (ClockOfItsOwn, "S03"),
    (ReleaseIgnored, "S03"),
    (RenewalForgotten, "S03"),
    (RenewalByAnybody, "S03"),
    (RenewalAfterRelease, "S03"),
    (HalfBatch, "S04"),
    (LinksUnchecked, "S04"),
    (CutAtZeroByte, "S05"),
    (EmptyForMissing, "S05"),
    (LastEventLost, "S06"),
    (Reordered, "S06"),
    (InclusiveRead, "S06"),
    (SecondPageLost, "S06"),
    (CaseFolded, "S07"),
    (RunsOfOneHandle, "S07"),
    (HeadKeptInMemory, "S08"),
    (TestThenWrite, "S09"),
    (LastAppendLostAtClosing, "S10"),
    (LeaseForgottenAtClosing, "S10"),
    (AnsweredBeforeWritten, "S11"),
    (OneTransactionAnEvent, "S11"),
    (RefusalProlongsLease, "S12"),
    (ClosedByTerminal, "S13"),
)
