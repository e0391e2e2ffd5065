"""The default store: one SQLite file, durable when an append returns, no server.

Theory of operation: write-ahead log with `synchronous=FULL`, and one `BEGIN IMMEDIATE` an append,
so that a run's standing is read, tested and replaced under SQLite's own write lock. A crash or a
full disk leaves whole transactions alone; SQLite drops what is half written. Threads share one
connection under a lock; processes open stores of their own, and a store does not survive a fork.

An event's place is one integer, the run's number times 2^31 plus the sequence, so that an append
touches one table page and the run's row.

Choices: a failing disk at COMMIT leaves the append unanswered, since the log may have it; a full
disk does not, since the log then lacks the end of the transaction.

Source: spec runtime, section 1; SQLite, "Write-Ahead Logging" and "Result and Error Codes".
"""

from __future__ import annotations

import sqlite3
import time
from collections.abc import Callable, Generator, Iterator, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from threading import Lock

from loopcore.errors import EnvironmentFault
from loopcore.store.contract import (
    AppendUnanswered,
    JournalBroken,
    StoreBusy,
    StoreFull,
    StoreReadOnly,
    StoreUnavailable,
)
from loopcore.store.journal import EMPTY_HEAD, Event, Head
from loopcore.store.memory import wall_clock_ms
from loopcore.store.rules import (
    NO_EVENTS,
    Row,
    Standing,
    admit,
    prepare,
    read_pages,
    renewed,
)

BUSY_SECONDS = 30.0
# "loop" in ASCII: tells our files from other people's.
APPLICATION_ID = 0x6C6F6F70
EVENTS_PER_RUN_MAX = 2**31 - 1
_PLACES = EVENTS_PER_RUN_MAX + 1
_PAGE_EVENTS = 1000
_RETRY_SECONDS = 0.005

# One entry a schema version, in order; a file of an older version gets those it lacks.
MIGRATIONS: tuple[tuple[str, ...], ...] = (
    (
        "CREATE TABLE runs (number INTEGER PRIMARY KEY, run_id TEXT NOT NULL UNIQUE,"
        " sequence INTEGER NOT NULL, digest TEXT NOT NULL, epoch INTEGER NOT NULL,"
        " lease_expires_ms INTEGER) STRICT",
        "CREATE TABLE events (place INTEGER PRIMARY KEY, digest TEXT NOT NULL,"
        " data BLOB NOT NULL) STRICT",
    ),
)

_READ_RUN = "SELECT number, sequence, digest, epoch, lease_expires_ms FROM runs WHERE run_id = ?"
_ADD_RUN = (
    "INSERT INTO runs (run_id, sequence, digest, epoch, lease_expires_ms) VALUES (?, ?, ?, ?, ?)"
)
_SET_RUN = (
    "UPDATE runs SET sequence = ?, digest = ?, epoch = ?, lease_expires_ms = ? WHERE number = ?"
)
_ADD_EVENT = "INSERT INTO events (place, digest, data) VALUES (?, ?, ?)"
_READ_EVENTS = (
    "SELECT place, digest, data FROM events WHERE place BETWEEN ? AND ? ORDER BY place LIMIT ?"
)

# What SQLite's error codes mean to a caller, by the beginning of their names.
_FAULTS: tuple[tuple[str, type[EnvironmentFault], str], ...] = (
    ("SQLITE_FULL", StoreFull, "there is no room left"),
    ("SQLITE_IOERR_SHMSIZE", StoreFull, "there is no room left for the index of its log"),
    ("SQLITE_READONLY", StoreReadOnly, "it may not be written"),
    (
        "SQLITE_CANTOPEN",
        StoreUnavailable,
        "it cannot be opened; is its folder there, and writable?",
    ),
    ("SQLITE_PERM", StoreUnavailable, "its permissions forbid it"),
    ("SQLITE_BUSY", StoreBusy, "another process holds it for too long"),
    ("SQLITE_LOCKED", StoreBusy, "another process holds it for too long"),
    ("SQLITE_NOTADB", StoreUnavailable, "it is no SQLite file"),
)
# A constraint is met where an event stands behind the head already.
_DAMAGED = ("SQLITE_CORRUPT", "SQLITE_NOTADB", "SQLITE_CONSTRAINT")


class SqliteStore:
    """Journals in one file; safe for any number of threads and processes.

    Arguments:
        path: the file, made where there is none; its folder must be there and allow writing.
        now_ms: the store's clock; busy_seconds: how long to wait for other processes.
        pages_max: a limit to the file's size, in pages of 4,096 bytes; None for none.

    Raises StoreUnavailable, StoreReadOnly, StoreFull or StoreBusy in one sentence with the path.
    """

    durable = True

    def __init__(
        self,
        path: Path | str,
        *,
        now_ms: Callable[[], int] = wall_clock_ms,
        busy_seconds: float = BUSY_SECONDS,
        pages_max: int | None = None,
    ) -> None:
        self._path = Path(path)
        self._clock = now_ms
        self._lock = Lock()
        with self._faults():
            # Transactions are our own (`isolation_level`), and so is the lock between threads.
            self._connection = sqlite3.connect(
                self._path, timeout=busy_seconds, isolation_level=None, check_same_thread=False
            )
        # A damaged text must come back as it is, to be told apart from what was written.
        self._connection.text_factory = _text
        try:
            with self._faults():
                self._prepare(busy_seconds, pages_max)
        except BaseException:
            self._connection.close()
            raise

    def head(self, run_id: str) -> Head:
        """Return where the journal stands, `EMPTY_HEAD` for a run that has none."""
        with self._lock, self._faults(run_id):
            return self._standing(run_id)[1].head

    def append(self, run_id: str, expected_head: str, epoch: int, events: Sequence[Event]) -> Head:
        """Return the head after all of the events, which are on the disk; or none is kept."""
        batch = prepare(run_id, expected_head, epoch, events)
        with self._lock, self._transaction(run_id) as connection:
            number, standing = self._standing(run_id)
            after = admit(batch, standing, self._clock())
            head = after.head
            if head.sequence > EVENTS_PER_RUN_MAX:
                raise StoreFull(f"{self._path}: run {run_id} has no room for another event")
            values = (head.sequence, head.digest, head.epoch, after.lease_expires_ms)
            if number is None:
                number = connection.execute(_ADD_RUN, (run_id, *values)).lastrowid or 0
            else:
                connection.execute(_SET_RUN, (*values, number))
            start = number * _PLACES
            for row in batch.rows:
                connection.execute(_ADD_EVENT, (start + row.sequence, row.digest, row.data))
        return head

    def read(self, run_id: str, after: int = 0) -> Iterator[Event]:
        """Return the events behind a sequence, verified as they are taken, in constant memory."""
        return read_pages(run_id, after, self._page)

    def runs(self) -> tuple[str, ...]:
        """Return the ids of all runs with an event, in order."""
        with self._lock, self._faults():
            found: list[tuple[str]] = self._connection.execute("SELECT run_id FROM runs").fetchall()
        return tuple(sorted(run_id for (run_id,) in found))

    def renew(self, run_id: str, epoch: int, duration_ms: int) -> None:
        """Let the lease of this epoch last this long from now."""
        with self._lock, self._transaction(run_id) as connection:
            number, standing = self._standing(run_id)
            after = renewed(run_id, standing, epoch, duration_ms, self._clock())
            head = after.head
            values = (head.sequence, head.digest, head.epoch, after.lease_expires_ms)
            connection.execute(_SET_RUN, (*values, number))

    def now_ms(self) -> int:
        """Return the store's clock, in milliseconds of Unix time."""
        return self._clock()

    def close(self) -> None:
        """Close the file."""
        with self._lock:
            self._connection.close()

    def _standing(self, run_id: str) -> tuple[int | None, Standing]:
        """Return a run's number, None where it has no event, and its standing."""
        row: tuple[int, int, str, int, int | None] | None = self._connection.execute(
            _READ_RUN, (run_id,)
        ).fetchone()
        if row is None:
            return None, NO_EVENTS
        number, sequence, digest, epoch, expires = row
        head = Head(sequence=sequence, digest=digest, epoch=epoch)
        return number, Standing(head=head, lease_expires_ms=expires)

    def _page(self, run_id: str, start: int) -> tuple[list[Row], Head]:
        """Return some rows from a sequence on, and the head, both at one moment."""
        with self._lock, self._faults(run_id):
            self._connection.execute("BEGIN")
            try:
                number, standing = self._standing(run_id)
                if number is None:
                    return [], EMPTY_HEAD
                first = number * _PLACES
                found: list[tuple[int, str, bytes]] = self._connection.execute(
                    _READ_EVENTS, (first + start, first + EVENTS_PER_RUN_MAX, _PAGE_EVENTS)
                ).fetchall()
            finally:
                self._connection.execute("COMMIT")
        rows = [
            Row(sequence=place - first, digest=digest, data=data) for place, digest, data in found
        ]
        return rows, standing.head

    @contextmanager
    def _transaction(self, run_id: str) -> Generator[sqlite3.Connection]:
        """Yield the connection in a write transaction; commit it, or leave nothing of it."""
        connection = self._connection
        committing = False
        with self._faults(run_id):
            try:
                connection.execute("BEGIN IMMEDIATE")
                yield connection
                committing = True
                connection.execute("COMMIT")
            except BaseException as error:
                with suppress(sqlite3.Error):
                    connection.execute("ROLLBACK")
                if committing and _code(error).startswith("SQLITE_IOERR"):
                    raise AppendUnanswered(run_id, f"{self._path}: {error}") from None
                raise

    @contextmanager
    def _faults(self, run_id: str | None = None) -> Generator[None]:
        """Turn SQLite's errors into the contract's, in one sentence with the path."""
        try:
            yield
        except sqlite3.Error as error:
            name = _code(error)
            if run_id is not None and name.startswith(_DAMAGED):
                reason = f"{self._path} holds what an append would not have written ({error})"
                raise JournalBroken(run_id, reason=reason) from None
            for beginning, fault, words in _FAULTS:
                if name.startswith(beginning):
                    raise fault(f"cannot use the store {self._path}: {words}") from None
            raise StoreUnavailable(f"cannot use the store {self._path}: {error}") from None

    def _prepare(self, busy_seconds: float, pages_max: int | None) -> None:
        """Make the connection durable and the schema current."""
        deadline = time.monotonic() + busy_seconds
        while not self._has_log(deadline):
            time.sleep(_RETRY_SECONDS)
        self._connection.execute("PRAGMA synchronous = FULL")
        if pages_max is not None:
            self._connection.execute(f"PRAGMA max_page_count = {pages_max:d}")
        if self._version() != len(MIGRATIONS):
            self._migrate()

    def _has_log(self, deadline: float) -> bool:
        """Switch to the write-ahead log; return False where another process is in the way."""
        try:
            (mode,) = self._connection.execute("PRAGMA journal_mode = WAL").fetchone()
        except sqlite3.OperationalError as error:
            # The wait for other processes does not cover this one statement.
            if _code(error).startswith("SQLITE_BUSY") and time.monotonic() < deadline:
                return False
            raise
        if mode != "wal":
            message = f"cannot use the store {self._path}: its folder allows no write-ahead log"
            raise StoreUnavailable(message)
        return True

    def _version(self) -> int:
        (version,) = self._connection.execute("PRAGMA user_version").fetchone()
        return int(version)

    def _migrate(self) -> None:
        """Bring the schema to the version that this code knows, all of it or nothing."""
        connection = self._connection
        connection.execute("BEGIN IMMEDIATE")
        try:
            version = self._version()
            (application,) = connection.execute("PRAGMA application_id").fetchone()
            (tables,) = connection.execute("SELECT count(*) FROM sqlite_schema").fetchone()
            if application != APPLICATION_ID and (tables or version):
                message = f"cannot use the store {self._path}: it is another program's file"
                raise StoreUnavailable(message)
            if version > len(MIGRATIONS):
                raise StoreUnavailable(
                    f"cannot use the store {self._path}: its schema is version {version}, and this "
                    f"loopcore knows {len(MIGRATIONS)}"
                )
            for statements in MIGRATIONS[version:]:
                for statement in statements:
                    connection.execute(statement)
            connection.execute(f"PRAGMA application_id = {APPLICATION_ID}")
            connection.execute(f"PRAGMA user_version = {len(MIGRATIONS)}")
            connection.execute("COMMIT")
        except BaseException:
            with suppress(sqlite3.Error):
                connection.execute("ROLLBACK")
            raise


def _text(data: bytes) -> str:
    """Return a column's text, whatever its bytes are."""
    return data.decode("utf-8", "backslashreplace")


def _code(error: BaseException) -> str:
    """Return the name of SQLite's error code, empty where there is none."""
    name: object = getattr(error, "sqlite_errorname", "")
    return name if isinstance(name, str) else ""
