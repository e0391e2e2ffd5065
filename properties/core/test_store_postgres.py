"""Claim: the PostgreSQL store loses and doubles nothing when server or connection fails."""

from __future__ import annotations

import os
import socket
from collections.abc import Iterator
from contextlib import closing, suppress
from threading import Thread

import psycopg
import pytest
from psycopg.conninfo import conninfo_to_dict, make_conninfo

from loopcore.errors import UsageError
from loopcore.store import postgres
from loopcore.store.contract import (
    AppendUnanswered,
    JournalBroken,
    StoreReadOnly,
    StoreUnavailable,
)
from loopcore.store.journal import EMPTY_HEAD, GENESIS, Head
from loopcore.store.postgres import PostgresStore
from loopcore.testing.store_postgres import PassingPostgresStore
from properties.core.journal_values import RUN, add, begin, journal

pytestmark = pytest.mark.postgres
SCHEMA = f"loopcore_test_{os.getpid()}"
_PIECE_BYTES = 2**16
# The whole statement: a transaction may begin with the words READ COMMITTED.
COMMIT = b"COMMIT\0"


def dsn() -> str:
    """Return where the server is."""
    return os.environ["LOOPCORE_POSTGRES_DSN"]


@pytest.fixture
def store() -> Iterator[PostgresStore]:
    """Yield a store whose schema is its own."""
    found = PassingPostgresStore(dsn(), schema=SCHEMA)
    yield found
    found.destroy()


def execute(statement: str, *values: object) -> list[tuple[object, ...]]:
    """Do something behind the store's back."""
    with psycopg.connect(dsn(), autocommit=True, options=f"-c search_path={SCHEMA}") as connection:
        cursor = connection.execute(statement.encode(), values)
        return cursor.fetchall() if cursor.description else []


def end_connections() -> None:
    """End what every other client is connected by, as a restart of the server does."""
    execute(
        "SELECT pg_terminate_backend(pid) FROM pg_stat_activity"
        " WHERE pid <> pg_backend_pid() AND backend_type = 'client backend'"
    )


class Way:
    """A way to the server that can lose the answer to a commit."""

    def __init__(self) -> None:
        parts = conninfo_to_dict(dsn())
        self._server = (str(parts.get("host", "127.0.0.1")), int(str(parts.get("port", 5432))))
        self._listener = socket.create_server(("127.0.0.1", 0))
        self.dsn = make_conninfo(
            dsn(), host="127.0.0.1", port=self._listener.getsockname()[1], sslmode="disable"
        )
        self.lose_commits = False
        self._there: list[socket.socket] = []
        Thread(target=self._accept, daemon=True).start()

    def close(self) -> None:
        """End the way and all that is on it."""
        self._listener.close()
        for each in self._there:
            each.close()

    def _accept(self) -> None:
        while True:
            try:
                client, _ = self._listener.accept()
            except OSError:
                return
            server = socket.create_connection(self._server)
            self._there += [client, server]
            cut: list[bool] = []
            Thread(target=self._forth, args=(client, server, cut), daemon=True).start()
            Thread(target=self._back, args=(server, client, cut), daemon=True).start()

    def _forth(self, client: socket.socket, server: socket.socket, cut: list[bool]) -> None:
        with suppress(OSError):
            for piece in pieces(client):
                if self.lose_commits and COMMIT in piece:
                    cut.append(True)
                server.sendall(piece)

    def _back(self, server: socket.socket, client: socket.socket, cut: list[bool]) -> None:
        with suppress(OSError):
            for piece in pieces(server):
                if cut:
                    break
                client.sendall(piece)
            client.shutdown(socket.SHUT_RDWR)


def pieces(source: socket.socket) -> Iterator[bytes]:
    """Yield what arrives until the other side is gone."""
    while True:
        try:
            piece = source.recv(_PIECE_BYTES)
        except OSError:
            return
        if not piece:
            return
        yield piece


def test_an_append_over_a_lost_connection_is_unanswered_and_the_next_one_connects_anew(
    store: PostgresStore,
) -> None:
    head = add(store, begin(store))
    end_connections()
    with pytest.raises(AppendUnanswered, match="the append was not answered"):
        add(store, head)
    assert store.head(RUN) == head
    assert add(store, head).sequence == head.sequence + 1


def test_a_read_over_a_lost_connection_is_asked_once_more(store: PostgresStore) -> None:
    head = begin(store)
    end_connections()
    assert store.head(RUN) == head
    end_connections()
    assert len(list(store.read(RUN))) == 2
    end_connections()
    assert store.runs() == (RUN,)


def test_an_append_whose_answer_is_lost_is_unanswered_although_it_was_made(
    store: PostgresStore,
) -> None:
    head = begin(store)
    with closing(Way()) as way, closing(PostgresStore(way.dsn, schema=SCHEMA)) as far:
        assert far.head(RUN) == head
        way.lose_commits = True
        with pytest.raises(AppendUnanswered):
            add(far, head)
        way.lose_commits = False
        made = far.head(RUN)
        assert made.sequence == head.sequence + 1
        assert list(far.read(RUN)) == list(store.read(RUN))
        assert add(far, made).sequence == made.sequence + 1


def test_a_server_that_cannot_be_reached_is_one_clear_sentence() -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
    with pytest.raises(StoreUnavailable, match=r"^cannot reach PostgreSQL: .*refused"):
        PostgresStore(f"host=127.0.0.1 port={port} user=nobody dbname=none")
    with pytest.raises(UsageError, match="no name for a schema"):
        PostgresStore(dsn(), schema='"; DROP TABLE runs; --')


def test_a_read_only_server_refuses_and_changes_nothing(store: PostgresStore) -> None:
    head = begin(store)
    # A role's setting stands for a standby server here.
    execute("ALTER ROLE CURRENT_USER SET default_transaction_read_only = on")
    try:
        with closing(PostgresStore(dsn(), schema=SCHEMA)) as reader:
            assert reader.head(RUN) == head
            with pytest.raises(StoreReadOnly, match="the server is read-only"):
                add(reader, head)
            assert reader.head(RUN) == head
    finally:
        writing = make_conninfo(dsn(), options="-c default_transaction_read_only=off")
        with psycopg.connect(writing, autocommit=True) as connection:
            connection.execute("ALTER ROLE CURRENT_USER RESET ALL")


def test_a_commit_is_waited_for_whatever_the_servers_default(store: PostgresStore) -> None:
    execute("ALTER ROLE CURRENT_USER SET synchronous_commit = off")
    asked: list[tuple[object, ...]] = []
    try:
        with closing(Seen(dsn(), schema=SCHEMA)) as seen:
            asked = seen.asked("SHOW synchronous_commit")
    finally:
        execute("ALTER ROLE CURRENT_USER RESET ALL")
    assert asked == [("on",)]
    del store


class Seen(PostgresStore):
    """A store whose connection can be asked how it is set."""

    def asked(self, statement: str) -> list[tuple[object, ...]]:
        """Return what the server says on the store's own connection."""
        return self._asked(lambda connection: connection.execute(statement.encode()).fetchall())


def test_a_flipped_bit_in_any_byte_of_a_stored_event_is_found(
    store: PostgresStore,
) -> None:
    add(store, begin(store))
    ((data, digest),) = execute("SELECT data, digest FROM events WHERE sequence = 3")
    assert isinstance(data, bytes)
    assert isinstance(digest, str)
    # All bits of a byte are tried on SQLite, whose rows are read by the same code.
    options = f"-c search_path={SCHEMA} -c synchronous_commit=off"
    with psycopg.connect(dsn(), autocommit=True, options=options) as connection:
        for place in range(len(data)):
            flipped = bytes((data[place] ^ 1 << place % 8,))
            wrong = data[:place] + flipped + data[place + 1 :]
            connection.execute("UPDATE events SET data = %s WHERE sequence = 3", (wrong,))
            with pytest.raises(JournalBroken):
                list(store.read(RUN, 2))
    execute("UPDATE events SET data = %s, digest = %s WHERE sequence = 3", data, "f" * 64)
    with pytest.raises(JournalBroken):
        list(store.read(RUN))
    execute("UPDATE events SET digest = %s WHERE sequence = 3", digest)
    assert len(list(store.read(RUN))) == 3


@pytest.mark.parametrize(
    "statement",
    [
        "DELETE FROM events WHERE sequence = 5",
        "DELETE FROM events WHERE sequence = 1",
        "DELETE FROM events WHERE sequence = 3",
        "UPDATE runs SET sequence = sequence + 1",
        "UPDATE runs SET epoch = epoch + 1",
        f"UPDATE runs SET digest = '{GENESIS}'",
    ],
)
def test_rows_that_were_taken_out_or_changed_are_found(
    store: PostgresStore, statement: str
) -> None:
    add(store, begin(store), 3)
    execute(statement)
    with pytest.raises(JournalBroken):
        list(store.read(RUN))


def test_an_event_behind_the_head_is_found_by_the_next_append(store: PostgresStore) -> None:
    head = begin(store)
    add(store, head)
    execute("UPDATE runs SET sequence = %s, digest = %s", head.sequence, head.digest)
    with pytest.raises(JournalBroken, match="an event stands behind the head already"):
        add(store, head)


def test_an_older_schema_is_brought_up_to_date_whole_or_not_at_all(
    store: PostgresStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    head = begin(store)
    added = ("ALTER TABLE runs ADD COLUMN note text", "UPDATE runs SET note = 'old'")
    before = postgres.MIGRATIONS
    monkeypatch.setattr(postgres, "MIGRATIONS", (*before, (added[0], "NONSENSE")))
    with pytest.raises(StoreUnavailable, match="syntax error"):
        PostgresStore(dsn(), schema=SCHEMA)
    monkeypatch.setattr(postgres, "MIGRATIONS", (*before, added))
    with closing(PostgresStore(dsn(), schema=SCHEMA)) as newer:
        assert add(newer, head).sequence == head.sequence + 1
    assert execute("SELECT note FROM runs") == [("old",)]
    monkeypatch.setattr(postgres, "MIGRATIONS", before)
    with pytest.raises(StoreUnavailable, match="has version 2, and this loopcore knows 1"):
        PostgresStore(dsn(), schema=SCHEMA)


def test_stores_that_are_opened_at_once_make_one_schema(store: PostgresStore) -> None:
    assert isinstance(store, PassingPostgresStore)
    store.destroy()
    heads: list[Head] = []

    def open_one() -> None:
        with closing(PostgresStore(dsn(), schema=SCHEMA)) as one:
            heads.append(one.head(RUN))

    threads = [Thread(target=open_one) for _ in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert heads == [EMPTY_HEAD] * 8


def test_the_store_reads_what_follows_a_place(store: PostgresStore) -> None:
    many = journal(2500)
    store.append(RUN, GENESIS, 1, many)
    for after in (0, 1, 999, 1000, 1001, 2499, 2500, 9999):
        assert tuple(store.read(RUN, after)) == many[after:]
    assert abs(store.now_ms() - postgres_now()) < 60_000


def postgres_now() -> int:
    """Return the server's clock."""
    ((now,),) = execute("SELECT (extract(epoch FROM now()) * 1000)::bigint")
    assert isinstance(now, int)
    return now
