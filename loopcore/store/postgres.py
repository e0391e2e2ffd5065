"""The store for many machines: one PostgreSQL schema, one row lock an append.

Theory of operation: a run's row is read with `SELECT … FOR UPDATE`, so that workers contending for
one run wait for each other instead of failing; standing, events and new standing are one
transaction, and `synchronous_commit` is never off. The server's clock is the store's clock. Threads
share one connection under a lock; every process opens a store of its own.

A connection that breaks during an append leaves it unanswered (`AppendUnanswered`), whichever
statement was under way; the next call connects anew. A read that breaks is asked once more.

Choices: read committed, since the row lock is all that an append needs, and serializable
transactions under contention are mostly retries. Schema versions rise under an advisory lock.

Source: spec runtime, section 1; PostgreSQL, "Explicit Locking" and "PostgreSQL Error Codes".
"""

from __future__ import annotations

import re
from collections.abc import Callable, Generator, Iterator, Sequence
from contextlib import contextmanager
from importlib.util import find_spec
from threading import Lock
from typing import TYPE_CHECKING, LiteralString, TypeVar

from loopcore.errors import EnvironmentFault, UsageError
from loopcore.store.contract import (
    AppendUnanswered,
    JournalBroken,
    StoreBusy,
    StoreFull,
    StoreReadOnly,
    StoreUnavailable,
)
from loopcore.store.journal import EMPTY_HEAD, Event, Head
from loopcore.store.rules import (
    NO_EVENTS,
    Batch,
    Row,
    Standing,
    admit,
    prepare,
    read_pages,
    renewed,
)

if TYPE_CHECKING:
    import psycopg

DEFAULT_SCHEMA = "loopcore"
BUSY_SECONDS = 30
CONNECT_SECONDS = 10
# A question whose connection breaks is asked once more.
ASKED_TIMES = 2
# How long sent data may stay without an answer of the other machine before the connection is lost.
SILENCE_MS = 30_000
_SCHEMA_NAME = re.compile(r"[a-z_][a-z0-9_]{0,62}")
_PAGE_EVENTS = 1000
# Any number that nobody else uses; those who migrate wait for each other.
_MIGRATION_LOCK = 0x6C6F6F70

# One entry a schema version, in order; a schema of an older version gets those it lacks.
MIGRATIONS: tuple[tuple[LiteralString, ...], ...] = (
    (
        "CREATE TABLE runs (run_id text PRIMARY KEY, sequence bigint NOT NULL,"
        " digest text NOT NULL, epoch bigint NOT NULL, lease_expires_ms bigint)",
        "CREATE TABLE events (run_id text NOT NULL REFERENCES runs, sequence bigint NOT NULL,"
        " digest text NOT NULL, data bytea NOT NULL, PRIMARY KEY (run_id, sequence))",
    ),
)

_READ_RUN: LiteralString = (
    "SELECT sequence, digest, epoch, lease_expires_ms FROM runs WHERE run_id = %s"
)
_ADD_RUN: LiteralString = (
    "INSERT INTO runs (run_id, sequence, digest, epoch) VALUES (%s, %s, %s, %s)"
    " ON CONFLICT (run_id) DO NOTHING"
)
_SET_RUN: LiteralString = (
    "UPDATE runs SET sequence = %s, digest = %s, epoch = %s, lease_expires_ms = %s"
    " WHERE run_id = %s"
)
_ADD_EVENTS: LiteralString = (
    "INSERT INTO events (run_id, sequence, digest, data)"
    " SELECT %s, * FROM unnest(%s::bigint[], %s::text[], %s::bytea[])"
)
_READ_EVENTS: LiteralString = (
    "SELECT sequence, digest, data FROM events"
    " WHERE run_id = %s AND sequence >= %s ORDER BY sequence LIMIT %s"
)
_CLOCK: LiteralString = "SELECT floor(extract(epoch FROM clock_timestamp()) * 1000)::bigint"

# What the server's error codes mean to a caller; the transaction was rolled back in all of them.
_FAULTS: dict[str, tuple[type[EnvironmentFault], str]] = {
    "53100": (StoreFull, "the server has no room left"),
    "25006": (StoreReadOnly, "the server is read-only"),
    "42501": (StoreReadOnly, "this user may not write there"),
    "55P03": (StoreBusy, "other workers hold the run for too long"),
}

# Errors after which nobody knows whether the transaction was made: those without a code, of the
# connection, of an operator's intervention, and the one that says so.
_NO_STATE = "none"
_UNANSWERED = (_NO_STATE, "08", "57", "40003")
_UNIQUE_VIOLATION = "23505"

T = TypeVar("T")


class PostgresStore:
    """Journals in one schema of a PostgreSQL database; safe for threads, processes and machines.

    Arguments:
        dsn: connection string or address, as libpq takes it.
        schema: made where there is none; lowercase letters, digits and underscores.
        now_ms: the store's clock; None, as everywhere but in tests, is the server's.

    Raises StoreUnavailable when the server cannot be reached, EnvironmentFault without psycopg.
    """

    durable = True

    def __init__(
        self, dsn: str, *, schema: str = DEFAULT_SCHEMA, now_ms: Callable[[], int] | None = None
    ) -> None:
        if _SCHEMA_NAME.fullmatch(schema) is None:
            raise UsageError(f"{schema!r} is no name for a schema")
        if find_spec("psycopg") is None:
            words = "the PostgreSQL store needs the extra: pip install 'loopcore[postgres]'"
            raise EnvironmentFault(words)
        self.dsn = dsn
        self.schema = schema
        self._own_clock = now_ms
        self._lock = Lock()
        self._connection: psycopg.Connection | None = None
        with self._lock:
            self._connected()

    def head(self, run_id: str) -> Head:
        """Return where the journal stands, `EMPTY_HEAD` for a run that has none."""
        return self._asked(lambda connection: self._standing(connection, run_id).head)

    def append(self, run_id: str, expected_head: str, epoch: int, events: Sequence[Event]) -> Head:
        """Return the head after all of the events, which are durable; or none is kept."""
        batch = prepare(run_id, expected_head, epoch, events)
        with self._transaction(run_id) as connection:
            standing = self._locked(connection, run_id, add=True)
            now = 0 if batch.acquires_ms is None else self._clock(connection)
            after = admit(batch, standing, now)
            self._keep(connection, batch, after)
        return after.head

    def read(self, run_id: str, after: int = 0) -> Iterator[Event]:
        """Return the events behind a sequence, verified as they are taken, in constant memory."""
        return read_pages(run_id, after, self._page)

    def runs(self) -> tuple[str, ...]:
        """Return the ids of all runs with an event, in order."""

        def ask(connection: psycopg.Connection) -> list[tuple[str]]:
            return connection.execute("SELECT run_id FROM runs").fetchall()

        return tuple(sorted(run_id for (run_id,) in self._asked(ask)))

    def renew(self, run_id: str, epoch: int, duration_ms: int) -> None:
        """Let the lease of this epoch last this long from now."""
        with self._transaction(run_id) as connection:
            standing = self._locked(connection, run_id, add=False)
            now = self._clock(connection)
            after = renewed(run_id, standing, epoch, duration_ms, now)
            head = after.head
            values = (head.sequence, head.digest, head.epoch, after.lease_expires_ms, run_id)
            connection.execute(_SET_RUN, values)

    def now_ms(self) -> int:
        """Return the store's clock, in milliseconds of Unix time."""
        return self._asked(self._clock)

    def close(self) -> None:
        """Close the connection."""
        with self._lock:
            self._drop()

    def _clock(self, connection: psycopg.Connection) -> int:
        if self._own_clock is not None:
            return self._own_clock()
        row = connection.execute(_CLOCK).fetchone()
        return int(row[0]) if row else 0

    def _standing(
        self, connection: psycopg.Connection, run_id: str, *, lock: bool = False
    ) -> Standing:
        query: LiteralString = _READ_RUN + (" FOR UPDATE" if lock else "")
        row: tuple[int, str, int, int | None] | None = connection.execute(
            query, (run_id,)
        ).fetchone()
        if row is None:
            return NO_EVENTS
        sequence, digest, epoch, expires = row
        head = Head(sequence=sequence, digest=digest, epoch=epoch)
        return Standing(head=head, lease_expires_ms=expires)

    def _locked(self, connection: psycopg.Connection, run_id: str, *, add: bool) -> Standing:
        """Return a run's standing with its row locked; the row is added where there is none."""
        standing = self._standing(connection, run_id, lock=True)
        if standing.head.sequence == 0 and add:
            # Whoever comes second waits here until the first has committed or given up.
            first = EMPTY_HEAD
            values = (run_id, first.sequence, first.digest, first.epoch)
            connection.execute(_ADD_RUN, values)
            standing = self._standing(connection, run_id, lock=True)
        return standing

    def _keep(self, connection: psycopg.Connection, batch: Batch, after: Standing) -> None:
        rows, head, run_id = batch.rows, after.head, batch.run_id
        columns = (
            [row.sequence for row in rows],
            [row.digest for row in rows],
            [row.data for row in rows],
        )
        connection.execute(_ADD_EVENTS, (run_id, *columns))
        values = (head.sequence, head.digest, head.epoch, after.lease_expires_ms, run_id)
        connection.execute(_SET_RUN, values)

    def _page(self, run_id: str, start: int) -> tuple[list[Row], Head]:
        """Return some rows from a sequence on, and a head that is not older than they are."""

        def ask(connection: psycopg.Connection) -> tuple[list[Row], Head]:
            # One snapshot for both, or an append between the two would look like missing events.
            with connection.transaction():
                connection.execute("SET TRANSACTION ISOLATION LEVEL REPEATABLE READ")
                head = self._standing(connection, run_id).head
                found: list[tuple[int, str, bytes]] = connection.execute(
                    _READ_EVENTS, (run_id, start, _PAGE_EVENTS)
                ).fetchall()
            rows = [
                Row(sequence=sequence, digest=digest, data=data) for sequence, digest, data in found
            ]
            return rows, head

        return self._asked(ask)

    def _asked(self, ask: Callable[[psycopg.Connection], T]) -> T:
        """Return what a question without effect gives; it is asked twice where that helps."""
        import psycopg

        words = ""
        with self._lock:
            for _ in range(ASKED_TIMES):
                connection = self._connected()
                try:
                    return ask(connection)
                except (psycopg.OperationalError, psycopg.InterfaceError) as error:
                    self._drop()
                    words = _words(error)
                except psycopg.Error as error:
                    raise self._fault(error) from None
        raise StoreUnavailable(f"cannot use the PostgreSQL store: {words}")

    @contextmanager
    def _transaction(self, run_id: str) -> Generator[psycopg.Connection]:
        """Yield the connection in a write transaction; commit it, or leave nothing of it."""
        import psycopg

        with self._lock:
            connection = self._connected()
            try:
                with connection.transaction():
                    yield connection
            except psycopg.Error as error:
                state = error.sqlstate or _NO_STATE
                if connection.closed or state.startswith(_UNANSWERED):
                    self._drop()
                    raise AppendUnanswered(run_id, _words(error)) from None
                if state == _UNIQUE_VIOLATION:
                    reason = f"an event stands behind the head already ({_words(error)})"
                    raise JournalBroken(run_id, reason=reason) from None
                raise self._fault(error) from None
            except BaseException:
                # An interrupt in the middle of an exchange leaves nobody knowing what comes next.
                if connection.info.transaction_status != psycopg.pq.TransactionStatus.IDLE:
                    self._drop()
                raise

    def _fault(self, error: psycopg.Error) -> EnvironmentFault:
        fault, words = _FAULTS.get(error.sqlstate or "", (StoreUnavailable, _words(error)))
        return fault(f"cannot use the PostgreSQL store: {words}")

    def _drop(self) -> None:
        """Give up the connection; the next call makes another."""
        connection, self._connection = self._connection, None
        if connection is not None:
            connection.close()

    def _connected(self) -> psycopg.Connection:
        """Return the connection, made anew where there is none; the schema is then current."""
        if self._connection is not None and not self._connection.closed:
            return self._connection
        import psycopg

        options = f"-c search_path={self.schema} -c lock_timeout={BUSY_SECONDS * 1000}"
        try:
            connection = psycopg.connect(
                self.dsn,
                autocommit=True,
                connect_timeout=CONNECT_SECONDS,
                tcp_user_timeout=SILENCE_MS,
                options=options,
            )
        except psycopg.Error as error:
            raise StoreUnavailable(f"cannot reach PostgreSQL: {_words(error)}") from None
        try:
            connection.isolation_level = psycopg.IsolationLevel.READ_COMMITTED
            # A server set up to answer before it has written would lose what it answered.
            row = connection.execute("SHOW synchronous_commit").fetchone()
            if row == ("off",):
                connection.execute("SET synchronous_commit = on")
            self._migrate(connection)
        except psycopg.Error as error:
            connection.close()
            raise self._fault(error) from None
        except BaseException:
            connection.close()
            raise
        self._connection = connection
        return connection

    def _migrate(self, connection: psycopg.Connection) -> None:
        """Bring the schema to the version that this code knows, all of it or nothing."""
        if self._version(connection) == len(MIGRATIONS):
            return
        from psycopg import sql

        name = sql.Identifier(self.schema)
        with connection.transaction():
            connection.execute("SELECT pg_advisory_xact_lock(%s)", (_MIGRATION_LOCK,))
            connection.execute(sql.SQL("CREATE SCHEMA IF NOT EXISTS {}").format(name))
            connection.execute("CREATE TABLE IF NOT EXISTS schema_version (version int NOT NULL)")
            version = self._version(connection)
            if version > len(MIGRATIONS):
                raise StoreUnavailable(
                    f"the schema {self.schema} has version {version}, and this loopcore knows "
                    f"{len(MIGRATIONS)}"
                )
            for statements in MIGRATIONS[version:]:
                for statement in statements:
                    connection.execute(statement)
            connection.execute("DELETE FROM schema_version")
            connection.execute("INSERT INTO schema_version VALUES (%s)", (len(MIGRATIONS),))

    def _version(self, connection: psycopg.Connection) -> int:
        """Return the schema's version, 0 where there is none yet."""
        there = connection.execute(
            "SELECT to_regclass(%s)", (f"{self.schema}.schema_version",)
        ).fetchone()
        if there is None or there[0] is None:
            return 0
        row = connection.execute("SELECT max(version) FROM schema_version").fetchone()
        return int(row[0] or 0) if row else 0


def _words(error: BaseException) -> str:
    """Return an error's text in one line."""
    return " ".join(str(error).split()) or type(error).__name__
