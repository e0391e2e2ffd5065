"""A store in this process's memory: nothing is durable, everything else is as the contract says.

Theory of operation: a lock around a dictionary. Events are kept as their canonical bytes, as in
every other store, so that what comes back is a value of its own and equal to the byte.

Source: spec runtime, section 1.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from threading import Lock

from loopcore.store.journal import EMPTY_HEAD, Event, Head
from loopcore.store.rules import (
    NO_EVENTS,
    Row,
    Standing,
    admit,
    prepare,
    read_pages,
    renewed,
)


def wall_clock_ms() -> int:
    """Return the wall clock of this machine, in milliseconds of Unix time."""
    return time.time_ns() // 1_000_000


@dataclass(slots=True)
class _Run:
    standing: Standing = NO_EVENTS
    rows: list[Row] = field(default_factory=list[Row])


class MemoryStore:
    """Journals that live as long as this object; safe for any number of threads.

    Arguments:
        now_ms: the store's clock.
    """

    durable = False

    def __init__(self, now_ms: Callable[[], int] = wall_clock_ms) -> None:
        self._clock = now_ms
        self._lock = Lock()
        self._runs: dict[str, _Run] = {}

    def head(self, run_id: str) -> Head:
        """Return where the journal stands, `EMPTY_HEAD` for a run that has none."""
        with self._lock:
            return self._runs[run_id].standing.head if run_id in self._runs else EMPTY_HEAD

    def append(self, run_id: str, expected_head: str, epoch: int, events: Sequence[Event]) -> Head:
        """Return the head after all of the events; or none of them is kept."""
        batch = prepare(run_id, expected_head, epoch, events)
        with self._lock:
            run = self._runs.get(run_id, _Run())
            run.standing = admit(batch, run.standing, self._clock())
            run.rows += batch.rows
            self._runs[run_id] = run
            return run.standing.head

    def read(self, run_id: str, after: int = 0) -> Iterator[Event]:
        """Return the events behind a sequence, verified one by one as they are taken."""
        with self._lock:
            run = self._runs.get(run_id, _Run())
            rows, kept = tuple(run.rows), run.standing.head

        def page(run_id: str, start: int) -> tuple[list[Row], Head]:
            del run_id
            return list(rows[start - 1 :]), kept

        return read_pages(run_id, after, page)

    def runs(self) -> tuple[str, ...]:
        """Return the ids of all runs with an event, in order."""
        with self._lock:
            return tuple(sorted(self._runs))

    def renew(self, run_id: str, epoch: int, duration_ms: int) -> None:
        """Let the lease of this epoch last this long from now."""
        with self._lock:
            run = self._runs.get(run_id, _Run())
            run.standing = renewed(run_id, run.standing, epoch, duration_ms, self._clock())

    def now_ms(self) -> int:
        """Return the store's clock, in milliseconds of Unix time."""
        return self._clock()

    def close(self) -> None:
        """Do nothing; there is nothing to give back."""
