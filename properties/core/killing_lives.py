"""Processes that run the payment example and are killed at a stated moment, started fast.

Theory of operation: a nursery is one process without threads that has imported everything; it forks
a life for each line that it reads, waits for it, and answers with how it ended. A life opens store
and service by itself, runs the agent, and sends itself SIGKILL at the moment that it was given: it
gets no chance to write, release or close anything. Nothing here decides whether that was well.

The store's clock runs an hour ahead in each later life, so that a dead owner's lease is over.
"""

from __future__ import annotations

import asyncio
import os
import signal
import subprocess
import sys
import time
import traceback
from collections.abc import Iterator, Sequence
from contextlib import closing
from importlib import import_module
from importlib.util import find_spec
from pathlib import Path
from types import TracebackType
from typing import Literal

import msgspec

from loopcore.errors import EnvironmentFault
from loopcore.runtime.clocks import SystemClock
from loopcore.runtime.driving import RunTaken
from loopcore.runtime.payment_example import payment_runner
from loopcore.runtime.payment_example_service import Moment, PaymentService
from loopcore.runtime.scopes import Scope
from loopcore.store.contract import Store
from loopcore.store.journal import Event, Head
from loopcore.store.sqlite import SqliteStore

HOUR_MS = 3_600_000
LIFE_SECONDS_MAX = 120
COMPLETED, OTHER_TERMINAL, FAULT, TAKEN = 0, 3, 4, 5

AtAppend = Literal["before append", "within append", "after append"]
Dies = AtAppend | Moment
AT_APPENDS: tuple[Dies, ...] = ("before append", "after append")
AT_CALLS: tuple[Dies, ...] = (
    "pay called",
    "pay crossed",
    "pay done",
    "question called",
    "key refused",
    "question answered",
)


class Life(msgspec.Struct, frozen=True, kw_only=True):
    """One process on one run.

    Fields:
        journals: path of a SQLite store, or the schema of a PostgreSQL store where dsn is given.
        service: path of the service's file. number: which life of the run it is.
        dies, at: at which moment, and which one of its kind, counted from 0; None never.
        wall_ms: how much later than this machine's the life's wall clock is.
        taken_max: how often the run may be lost to another process. scope_calls: a shared budget.
    """

    journals: str
    service: str
    run_id: str
    dsn: str | None = None
    number: int = 0
    seed: int = 0
    lossy: bool = True
    orders: int = 2
    at_once: int = 1
    pause_ms: int = 0
    lease_ms: int = 30_000
    calls_max: int | None = None
    scope_calls: int | None = None
    dies: Dies | None = None
    at: int = 0
    wall_ms: int = 0
    taken_max: int = 0


class Death:
    """Counts the moments of one kind and ends the process, as `kill -9` does, at one of them."""

    def __init__(self, dies: Dies | None, at: int) -> None:
        self.dies = dies
        self._left = at

    def comes(self, moment: Dies) -> None:
        """End the process if this is the moment."""
        if moment != self.dies:
            return
        if self._left == 0:
            os.kill(os.getpid(), signal.SIGKILL)
        self._left -= 1


class KillingStore:
    """A store whose process is killed right before or right after one of its appends."""

    durable = True

    def __init__(self, store: Store, death: Death) -> None:
        self.store = store
        self._death = death

    def head(self, run_id: str) -> Head:
        """Return the head."""
        return self.store.head(run_id)

    def append(self, run_id: str, expected_head: str, epoch: int, events: Sequence[Event]) -> Head:
        """Append, or be killed."""
        self._death.comes("before append")
        head = self.store.append(run_id, expected_head, epoch, events)
        self._death.comes("after append")
        return head

    def read(self, run_id: str, after: int = 0) -> Iterator[Event]:
        """Read."""
        return self.store.read(run_id, after)

    def runs(self) -> tuple[str, ...]:
        """Return the runs."""
        return self.store.runs()

    def renew(self, run_id: str, epoch: int, duration_ms: int) -> None:
        """Renew."""
        self.store.renew(run_id, epoch, duration_ms)

    def now_ms(self) -> int:
        """Return the clock."""
        return self.store.now_ms()

    def close(self) -> None:
        """Close."""
        self.store.close()


class SuddenSqliteStore(SqliteStore):
    """A SQLite store that can be killed with its events written and its transaction open."""

    def watch(self, death: Death) -> None:
        """Tell of each transaction with events that is about to be committed."""
        wrote: list[bool] = []

        def on_statement(statement: str) -> None:
            if statement.startswith("INSERT INTO events"):
                wrote.append(True)
            elif statement.startswith("COMMIT") and wrote:
                wrote.clear()
                death.comes("within append")

        self._connection.set_trace_callback(on_statement)


class ShiftedClock(SystemClock):
    """This machine's clocks with the wall clock set to another time."""

    def __init__(self, by_ms: int) -> None:
        self._by_ms = by_ms

    def wall_ms(self) -> int:
        """Return the wall clock as it is set."""
        return super().wall_ms() + self._by_ms


def opened(life: Life, death: Death) -> Store:
    """Return the life's own store."""

    def now_ms() -> int:
        return time.time_ns() // 1_000_000 + life.number * HOUR_MS

    if life.dsn is not None:
        from loopcore.store.postgres import PostgresStore

        return KillingStore(PostgresStore(life.dsn, schema=life.journals, now_ms=now_ms), death)
    store = SuddenSqliteStore(life.journals, now_ms=now_ms)
    store.watch(death)
    return KillingStore(store, death)


def live(life: Life) -> int:
    """Run the agent to the end; return how it ended, unless the process is killed before."""
    death = Death(life.dies, life.at)
    scope_id = f"{life.run_id.partition('.')[0]}.scope"
    shared = Scope(scope_id=scope_id, kind="thread", tool_calls=life.scope_calls)
    with (
        closing(opened(life, death)) as store,
        closing(
            PaymentService(Path(life.service), seed=life.seed, lossy=life.lossy, watch=death.comes)
        ) as service,
    ):
        runner = payment_runner(
            store,
            service,
            orders=life.orders,
            at_once=life.at_once,
            pause_ms=life.pause_ms,
            calls_max=life.calls_max,
            lease_ms=life.lease_ms,
            scopes=[] if life.scope_calls is None else [shared],
            clock=ShiftedClock(life.wall_ms),
        )
        for _ in range(life.taken_max + 1):
            try:
                receipt = asyncio.run(runner.run(life.run_id))
            except RunTaken:
                continue
            return COMPLETED if receipt.terminal == "completed" else OTHER_TERMINAL
    return TAKEN


def _forked(life: Life) -> int:
    """Return the process id of a new process that lives this life."""
    child = os.fork()
    if child:
        return child
    status = 1
    try:
        # One that hangs is ended by another signal, which no test takes for its own.
        signal.alarm(LIFE_SECONDS_MAX)
        status = live(life)
    except EnvironmentFault:
        traceback.print_exc()
        status = FAULT
    except BaseException:  # noqa: BLE001 a life that fails must not go on as the nursery
        traceback.print_exc()
    finally:
        sys.stderr.flush()
        os._exit(status)


def main() -> None:
    """Start the lives of each line that is read side by side; say how each ended."""
    if find_spec("psycopg") is not None:
        # A life that imported its driver by itself would take ten times as long.
        import_module("psycopg")
    for line in sys.stdin.buffer:
        children = [_forked(life) for life in msgspec.json.decode(line, type=list[Life])]
        ends = [os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) for child in children]
        sys.stdout.buffer.write(msgspec.json.encode(ends) + b"\n")
        sys.stdout.buffer.flush()


class Nursery:
    """The process that starts lives, as tests use it."""

    def __init__(self) -> None:
        self._process = subprocess.Popen(
            [sys.executable, "-m", __name__],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            cwd=Path(__file__).resolve().parents[2],
        )

    def __enter__(self) -> Nursery:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self._process.communicate(timeout=LIFE_SECONDS_MAX)

    def live(self, *lives: Life) -> list[int]:
        """Return how each of these lives ended, side by side: its status, or minus its signal."""
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        self._process.stdin.write(msgspec.json.encode(lives) + b"\n")
        self._process.stdin.flush()
        answer = self._process.stdout.readline()
        assert answer, "the nursery has ended"
        return msgspec.json.decode(answer, type=list[int])


if __name__ == "__main__":
    main()
