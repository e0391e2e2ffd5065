"""Cost of durable events in the SQLite store, as ratios within one run.

    python bench/store_ratios.py            the whole table, about a minute
    python bench/store_ratios.py --short    fewer rounds, and no journal of 100,000 events
    python bench/store_ratios.py --check    exit status 1 when a stated bound does not hold

Theory of operation: what an append costs is mostly the wait for the disk, which differs from one
second to the next on a shared machine. So the pieces take turns, one operation of each after
another, in one folder: one `fdatasync` of a page, the same rows written by bare sqlite3 in the same
kind of transaction, and the store. The ratio is that of the medians; the minima stand beside them.
Times are of the wall clock, since waiting is what is measured; reading is the thread's own time.
"""

from __future__ import annotations

import argparse
import os
import sqlite3
import statistics
import sys
import tempfile
import time
from collections.abc import Callable
from contextlib import closing
from functools import partial
from pathlib import Path

from loopcore.store.journal import EMPTY_HEAD, Event, Head, chain, verify_journal
from loopcore.store.rules import Row, prepare
from loopcore.store.sqlite import SqliteStore

RATIO_MAX = 1.5
GROWTH_MAX = 1.5
ROUNDS, ROUNDS_SHORT = 600, 150
BATCHES = (1, 10, 100, 1000)
BATCH_EVENTS = 3_000
SIZES = (10_000, 30_000, 100_000)
PAGE = b"x" * 4096
RUN = "bench"


def reservation(number: int) -> Event:
    """Return a reservation with its worst case, not linked yet."""
    return Event(
        run_id=RUN,
        sequence=1,
        previous_event_sha256="0" * 64,
        kind="action_reserved",
        policy_sha256="1" * 64,
        state_sha256="2" * 64,
        epoch=0,
        principal="worker-1",
        tenant="bench",
        grant_sha256="3" * 64,
        idempotency_key=f"bench/{number}",
        producer_release="loopcore/bench",
        model_version=None,
        prompt_version=None,
        tool_version="tool/1",
        at_unix_ms=1_700_000_000_000 + number,
        clock="monotonic",
        payload={
            "reservation": f"reservation-{number}",
            "tool": "charge",
            "parameters_sha256": "4" * 64,
            "worst_case": {"cost_microunits": 1_250, "input_tokens": 900, "output_tokens": 150},
        },
    )


class BareTable:
    """The same rows as the store's, written by sqlite3 and nothing else."""

    def __init__(self, path: Path) -> None:
        # The store makes the tables, so that they are the same.
        SqliteStore(path).close()
        self._connection = sqlite3.connect(path, isolation_level=None)
        self._connection.execute("PRAGMA synchronous = FULL")
        self._connection.execute("INSERT INTO runs VALUES (1, ?, 0, '', 0, NULL)", (RUN,))
        self._place = 2**31

    def write(self, row: Row) -> None:
        """Write one event and its head in one transaction."""
        execute = self._connection.execute
        execute("BEGIN IMMEDIATE")
        execute("UPDATE runs SET sequence = ?, digest = ?, epoch = 0", (row.sequence, row.digest))
        execute("INSERT INTO events VALUES (?, ?, ?)", (self._place, row.digest, row.data))
        execute("COMMIT")
        self._place += 1

    def close(self) -> None:
        """Close the file."""
        self._connection.close()


def timed(call: Callable[[], object]) -> float:
    """Return the microseconds that a call takes."""
    began = time.perf_counter_ns()
    call()
    return (time.perf_counter_ns() - began) / 1000


def bench_append(folder: Path, rounds: int) -> bool:
    """Print what one durable event costs beside bare rows and the disk; return the bound holds."""
    times: dict[str, list[float]] = {
        "one fdatasync of a page": [],
        "the same rows by bare sqlite3": [],
        "the store: link, check, append": [],
    }
    synced, bare_rows, stored = times.values()
    head, size = EMPTY_HEAD, 0
    descriptor = os.open(folder / "page", os.O_CREAT | os.O_WRONLY | os.O_APPEND)

    def sync() -> None:
        os.write(descriptor, PAGE)
        os.fdatasync(descriptor)

    with (
        closing(SqliteStore(folder / "store")) as store,
        closing(BareTable(folder / "bare")) as bare,
    ):
        for number in range(rounds):
            draft = reservation(number)
            (row,) = prepare(RUN, head.digest, 0, chain(head, [draft])).rows

            def append(draft: Event = draft, head: Head = head) -> Head:
                return store.append(RUN, head.digest, 0, chain(head, [draft]))

            size = len(row.data)
            synced.append(timed(sync))
            bare_rows.append(timed(partial(bare.write, row)))
            stored.append(timed(append))
            head = Head(sequence=row.sequence, digest=row.digest, epoch=0)
        assert store.head(RUN) == head
    os.close(descriptor)
    floor = statistics.median(bare_rows)
    print(f"one durable event with its reservation, {size} bytes, {rounds} rounds\n")
    print(f"{'':<34}{'us: min':>10}{'median':>9}{'ratio of medians':>18}")
    for piece, rounds_us in times.items():
        middle = statistics.median(rounds_us)
        print(f"{piece:<34}{min(rounds_us):>10.0f}{middle:>9.0f}{middle / floor:>18.2f}")
    ratio = statistics.median(stored) / floor
    print(f"\nstore / bare rows {ratio:.2f} (at most {RATIO_MAX})")
    return ratio <= RATIO_MAX


def bench_batches(folder: Path) -> None:
    """Print how many events a second are appended, by how many stand in one append."""
    print(f"\n{'events an append':>18}{'events a second':>18}")
    for size in BATCHES:
        with closing(SqliteStore(folder / f"batches-{size}")) as store:
            head, count = EMPTY_HEAD, min(BATCH_EVENTS, size * 300)
            began = time.perf_counter()
            for start in range(0, count, size):
                drafts = [reservation(number) for number in range(start, start + size)]
                head = store.append(RUN, head.digest, 0, chain(head, drafts))
            seconds = time.perf_counter() - began
        print(f"{size:>18,}{head.sequence / seconds:>18,.0f}")


def bench_reading(folder: Path, sizes: tuple[int, ...]) -> bool:
    """Print what reading and verifying costs an event; return whether it is linear."""
    print(f"\n{'journal of events':>18}{'us an event: read':>20}{'verified again':>16}")
    costs: list[float] = []
    with closing(SqliteStore(folder / "journal")) as store:
        head = EMPTY_HEAD
        for size in sizes:
            while head.sequence < size:
                drafts = [reservation(head.sequence + number) for number in range(1000)]
                head = store.append(RUN, head.digest, 0, chain(head, drafts))
            began = time.thread_time()
            events = list(store.read(RUN))
            read = time.thread_time() - began
            began = time.thread_time()
            assert verify_journal(events).head == head
            verified = time.thread_time() - began
            costs.append(read / size)
            print(f"{size:>18,}{read / size * 1e6:>20.1f}{verified / size * 1e6:>16.1f}")
    growth = costs[-1] / costs[0]
    print(
        f"\ncost an event at {sizes[-1]:,} / at {sizes[0]:,}: {growth:.2f} (at most {GROWTH_MAX})"
    )
    return growth <= GROWTH_MAX


def main() -> int:
    """Print all tables; return 1 when a bound does not hold and that was asked for."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("--short", action="store_true", help="fewer rounds and smaller journals")
    parser.add_argument("--check", action="store_true", help="exit 1 when a bound is passed")
    parser.add_argument("--folder", help="where to write (default: the system's temporary folder)")
    options = parser.parse_args()
    with tempfile.TemporaryDirectory(dir=options.folder) as name:
        folder = Path(name)
        holds = bench_append(folder, ROUNDS_SHORT if options.short else ROUNDS)
        bench_batches(folder)
        holds = bench_reading(folder, SIZES[:2] if options.short else SIZES) and holds
    print("\nall bounds hold" if holds else "\na bound does not hold")
    return 0 if holds or not options.check else 1


if __name__ == "__main__":
    sys.exit(main())
