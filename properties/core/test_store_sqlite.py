"""Claim: the SQLite store holds what was appended, whatever the disk and others do to it."""

from __future__ import annotations

import os
import resource
import sqlite3
import subprocess
import sys
import tempfile
from collections.abc import Generator, Iterator
from contextlib import closing, contextmanager
from pathlib import Path

import pytest

from loopcore.errors import EnvironmentFault
from loopcore.store import sqlite
from loopcore.store.contract import (
    AppendUnanswered,
    JournalBroken,
    StaleHead,
    StoreBusy,
    StoreFull,
    StoreReadOnly,
    StoreUnavailable,
)
from loopcore.store.journal import GENESIS, Head, verify_journal
from loopcore.store.sqlite import SqliteStore
from properties.core.journal_values import RUN, add, begin, journal

NOBODY = 65534
PAGES_FEW = 12
EVENTS_MANY = 400


def changed(path: Path, statement: str, *values: object) -> None:
    """Change a file behind the store's back."""
    with closing(sqlite3.connect(path)) as connection, connection:
        connection.execute(statement, values)


def until_refused(store: SqliteStore, head: Head) -> tuple[Head, EnvironmentFault]:
    """Append five events at a time until the store refuses; return the last head, and why."""
    for _ in range(EVENTS_MANY):
        try:
            head = add(store, head, 5)
        except EnvironmentFault as error:
            return head, error
    raise AssertionError("the store has room for everything")


def reading(path: Path) -> JournalBroken | None:
    """Return how reading the run fails, or None when it does not."""
    with closing(SqliteStore(path)) as store:
        try:
            list(store.read(RUN))
        except JournalBroken as error:
            return error
    return None


def flipped(data: bytes) -> Iterator[bytes]:
    """Yield the bytes with each of their bits changed in turn."""
    for place in range(len(data)):
        for bit in range(8):
            yield data[:place] + bytes((data[place] ^ 1 << bit,)) + data[place + 1 :]


def test_every_flipped_bit_of_a_stored_event_and_of_its_digest_is_found(tmp_path: Path) -> None:
    path = tmp_path / "store"
    with closing(SqliteStore(path)) as store:
        add(store, begin(store))
        with closing(sqlite3.connect(path, isolation_level=None)) as other:
            # One process is used for all, and nothing here depends on the disk.
            other.execute("PRAGMA synchronous = OFF")
            rows = other.execute("SELECT place, digest, data FROM events").fetchall()
            for place, digest, data in rows[-2:]:
                set_both = "UPDATE events SET digest = CAST(? AS TEXT), data = ? WHERE place = ?"
                for wrong in flipped(data):
                    other.execute(set_both, (digest, wrong, place))
                    with pytest.raises(JournalBroken):
                        list(store.read(RUN))
                for wrong in flipped(digest.encode()):
                    other.execute(set_both, (wrong, data, place))
                    with pytest.raises(JournalBroken):
                        list(store.read(RUN))
                other.execute(set_both, (digest, data, place))
        assert len(list(store.read(RUN))) == 3


@pytest.mark.parametrize(
    "statement",
    [
        "DELETE FROM events WHERE place = (SELECT max(place) FROM events)",
        "DELETE FROM events WHERE place = (SELECT min(place) FROM events)",
        "DELETE FROM events WHERE place = (SELECT min(place) + 1 FROM events)",
        "DELETE FROM events",
        "UPDATE runs SET sequence = sequence - 1",
        "UPDATE runs SET sequence = sequence + 1",
        "UPDATE runs SET epoch = epoch + 1",
        f"UPDATE runs SET digest = '{GENESIS}'",
        "UPDATE events SET place = place + 100 WHERE place = (SELECT max(place) FROM events)",
    ],
)
def test_rows_that_were_taken_out_or_moved_are_found(tmp_path: Path, statement: str) -> None:
    with closing(SqliteStore(tmp_path / "store")) as store:
        add(store, begin(store), 3)
    changed(tmp_path / "store", statement)
    assert reading(tmp_path / "store") is not None


def test_reading_behind_a_damaged_event_is_refused_as_well(tmp_path: Path) -> None:
    with closing(SqliteStore(tmp_path / "store")) as store:
        add(store, begin(store), 3)
    place = "WHERE place = (SELECT max(place) - 2 FROM events)"
    changed(tmp_path / "store", f"UPDATE events SET digest = '{GENESIS}' {place}")
    with closing(SqliteStore(tmp_path / "store")) as store:
        with pytest.raises(JournalBroken, match="at event 3: its digest is not the one"):
            list(store.read(RUN, 3))
        assert len(list(store.read(RUN, 4))) == 1


def test_an_event_that_stands_behind_the_head_already_is_found_by_the_next_append(
    tmp_path: Path,
) -> None:
    with closing(SqliteStore(tmp_path / "store")) as store:
        head = begin(store)
        add(store, head)
        put_back = "UPDATE runs SET sequence = ?, digest = ?"
        changed(tmp_path / "store", put_back, head.sequence, head.digest)
        with pytest.raises(JournalBroken, match="holds what an append would not have written"):
            add(store, head)


def test_every_prefix_on_the_disk_verifies(tmp_path: Path) -> None:
    path = tmp_path / "store"
    with closing(SqliteStore(path)) as store:
        head = begin(store)
        for count in (1, 3, 2):
            head = add(store, head, count)
            copy = tmp_path / f"copy-{head.sequence}"
            copy.mkdir()
            # As a crash now would leave it: the file and its log, without the log's index.
            for name in ("store", "store-wal"):
                (copy / name).write_bytes((tmp_path / name).read_bytes())
            with closing(SqliteStore(copy / "store")) as found:
                events = list(found.read(RUN))
                assert found.head(RUN) == head
            assert verify_journal(events).head == head


def test_a_log_cut_at_any_page_leaves_whole_appends(tmp_path: Path) -> None:
    path = tmp_path / "store"
    sizes = {0, 2}
    with closing(SqliteStore(path)) as store:
        head = begin(store)
        for count in (3, 4):
            head = add(store, head, count)
            sizes.add(head.sequence)
        main, log = path.read_bytes(), (tmp_path / "store-wal").read_bytes()
    seen: set[int] = set()
    # A frame is a page with its header of 24 bytes; half of one is cut as well.
    for size in range(32, len(log) + 1, (4096 + 24) // 2):
        copy = tmp_path / f"cut-{size}"
        copy.mkdir()
        (copy / "store").write_bytes(main)
        (copy / "store-wal").write_bytes(log[:size])
        with closing(SqliteStore(copy / "store")) as found:
            seen.add(len(list(found.read(RUN))))
    assert seen == sizes


def test_a_store_without_room_says_so_and_holds_whole_appends_alone(tmp_path: Path) -> None:
    with closing(SqliteStore(tmp_path / "store", pages_max=PAGES_FEW)) as store:
        head = begin(store)
        head, error = until_refused(store, head)
        assert isinstance(error, StoreFull)
        assert str(error) == f"cannot use the store {tmp_path}/store: there is no room left"
        assert store.head(RUN) == head
        assert len(list(store.read(RUN))) == head.sequence
    with closing(SqliteStore(tmp_path / "store")) as store:
        assert add(store, head).sequence == head.sequence + 1


def test_a_file_that_may_not_grow_leaves_whole_appends_alone(tmp_path: Path) -> None:
    soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    with closing(SqliteStore(tmp_path / "store")) as store:
        head = begin(store)
        size = (tmp_path / "store-wal").stat().st_size
        resource.setrlimit(resource.RLIMIT_FSIZE, (size + 5000, hard))
        try:
            head, error = until_refused(store, head)
        finally:
            resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))
    # The system says "too large" here, which is no "full", so nobody knows what the log has.
    assert isinstance(error, AppendUnanswered)
    with closing(SqliteStore(tmp_path / "store")) as store:
        found = store.head(RUN)
        assert found.sequence in (head.sequence, head.sequence + 5)
        assert len(list(store.read(RUN))) == found.sequence
        add(store, found)


@contextmanager
def unprivileged() -> Generator[Path]:
    """Yield a folder of a user who is not root, as which this process acts meanwhile."""
    with tempfile.TemporaryDirectory() as name:
        os.chmod(name, 0o755)
        folder = Path(name) / "folder"
        folder.mkdir()
        root = os.geteuid() == 0
        if root:
            os.chown(folder, NOBODY, NOBODY)
            os.seteuid(NOBODY)
        try:
            yield folder
        finally:
            folder.chmod(0o755)
            if root:
                os.seteuid(0)


def test_a_folder_that_may_not_be_written_is_one_clear_sentence() -> None:
    with unprivileged() as folder:
        with closing(SqliteStore(folder / "store")) as store:
            head = begin(store)
        folder.chmod(0o555)
        for path in (folder / "store", folder / "new"):
            with pytest.raises(
                (StoreReadOnly, StoreUnavailable),
                match=r"^cannot use the store .*folder/(store|new): ",
            ):
                SqliteStore(path)
        folder.chmod(0o755)
        (folder / "store").chmod(0o444)
        store = SqliteStore(folder / "store")
        with pytest.raises(StoreReadOnly, match="it may not be written"):
            add(store, head)
        store.close()
        (folder / "store").chmod(0o644)
        with closing(SqliteStore(folder / "store")) as store:
            assert store.head(RUN) == head


def test_another_programs_file_is_refused_and_left_alone(tmp_path: Path) -> None:
    changed(tmp_path / "other", "CREATE TABLE theirs (x)")
    (tmp_path / "text").write_bytes(b"not a database, but long enough to be looked at" * 30)
    (tmp_path / "folder").mkdir()
    for name, words in (
        ("other", "another program's file"),
        ("text", "no SQLite file"),
        ("folder", "cannot be opened"),
        ("nowhere/store", "is its folder there"),
    ):
        with pytest.raises(StoreUnavailable, match=words):
            SqliteStore(tmp_path / name)


def test_a_newer_schema_is_refused(tmp_path: Path) -> None:
    SqliteStore(tmp_path / "store").close()
    changed(tmp_path / "store", "PRAGMA user_version = 99")
    with pytest.raises(StoreUnavailable, match="its schema is version 99"):
        SqliteStore(tmp_path / "store")


def test_an_older_schema_is_brought_up_to_date_whole_or_not_at_all(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with closing(SqliteStore(tmp_path / "store")) as store:
        head = begin(store)
    added = ("ALTER TABLE runs ADD COLUMN note TEXT", "UPDATE runs SET note = 'old'")
    monkeypatch.setattr(sqlite, "MIGRATIONS", (*sqlite.MIGRATIONS, (added[0], "NONSENSE")))
    with pytest.raises(StoreUnavailable, match="syntax error"):
        SqliteStore(tmp_path / "store")
    monkeypatch.setattr(sqlite, "MIGRATIONS", (*sqlite.MIGRATIONS[:-1], added))
    with closing(SqliteStore(tmp_path / "store")) as store:
        assert add(store, head).sequence == head.sequence + 1
    changed(tmp_path / "store", "UPDATE runs SET note = 'new' WHERE note = 'old'")


def test_a_store_that_another_process_holds_is_busy_and_unchanged(tmp_path: Path) -> None:
    with closing(SqliteStore(tmp_path / "store", busy_seconds=0.01)) as store:
        head = begin(store)
        with closing(sqlite3.connect(tmp_path / "store", isolation_level=None)) as other:
            other.execute("BEGIN IMMEDIATE")
            with pytest.raises(StoreBusy, match="another process holds it"):
                add(store, head)
            other.execute("ROLLBACK")
        assert add(store, head).sequence == head.sequence + 1


class Seen(SqliteStore):
    """A store whose connection can be asked how it is set."""

    def set_to(self, pragma: str) -> object:
        """Return the value of a setting on the store's own connection."""
        row: tuple[object] = self._connection.execute(f"PRAGMA {pragma}").fetchone()
        return row[0]


def test_the_log_is_written_ahead_and_waited_for(tmp_path: Path) -> None:
    with closing(Seen(tmp_path / "store")) as store:
        assert store.set_to("journal_mode") == "wal"
        # 2 is FULL: every commit waits for the disk.
        assert store.set_to("synchronous") == 2


def test_two_processes_that_open_a_new_store_at_once_both_have_it(tmp_path: Path) -> None:
    program = (
        "import sys\n"
        "from loopcore.store.sqlite import SqliteStore\n"
        "for number in range(10):\n"
        "    sys.stdout.write('.'); sys.stdout.flush(); sys.stdin.readline()\n"
        "    store = SqliteStore(f'{sys.argv[1]}/store-{number}')\n"
        "    assert store.runs() == ()\n"
    )
    children = [
        subprocess.Popen(
            [sys.executable, "-c", program, str(tmp_path)],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
        )
        for _ in range(2)
    ]
    for _ in range(10):
        for child in children:
            assert child.stdout is not None
            assert child.stdout.read(1) == b"."
        for child in children:
            assert child.stdin is not None
            child.stdin.write(b"\n")
            child.stdin.flush()
    assert [child.wait(60) for child in children] == [0, 0]
    for child in children:
        for pipe in (child.stdin, child.stdout):
            assert pipe is not None
            pipe.close()


def test_of_two_who_append_on_one_head_the_second_is_refused_and_may_read(tmp_path: Path) -> None:
    with (
        closing(SqliteStore(tmp_path / "store")) as one,
        closing(SqliteStore(tmp_path / "store")) as two,
    ):
        head = begin(one)
        new = add(one, head)
        with pytest.raises(StaleHead) as refused:
            add(two, head)
        assert refused.value.found == new
        assert list(two.read(RUN)) == list(one.read(RUN))
        assert add(two, new).sequence == new.sequence + 1


def test_the_store_reads_what_follows_a_place(tmp_path: Path) -> None:
    many = journal(2500)
    with closing(SqliteStore(tmp_path / "store")) as store:
        store.append(RUN, GENESIS, 1, many)
        for after in (0, 1, 999, 1000, 1001, 2499, 2500, 9999):
            assert tuple(store.read(RUN, after)) == many[after:]
