"""Claim: a torn tail costs no whole record, and every flipped bit of a journal's file is found.

Incident 13.1: a log was cut in the middle of its last record, also in the middle of a character.
"""

from __future__ import annotations

import os
import resource
from collections.abc import Callable, Iterator
from functools import partial
from io import BytesIO
from pathlib import Path

import pytest

from loopcore.store.contract import JournalBroken, StoreFull, StoreUnavailable
from loopcore.store.journal import Anchor, InvalidEvent, event_digest, verify_journal
from loopcore.store.journal_file import (
    append_event,
    export_journal,
    line_of,
    read_journal_file,
    scan,
)
from properties.core.journal_values import RUN, journal

EVENTS = journal(5)
LINES = [line_of(event) for event in EVENTS]
WHOLE = b"".join(LINES[:4])
LAST = LINES[3]
BEFORE = b"".join(LINES[:3])
ANCHOR = Anchor(run_id=RUN, sequence=4, digest=event_digest(EVENTS[3]))


@pytest.fixture
def file_size_limit() -> Iterator[Callable[[int], None]]:
    """Yield what sets the size that a file of this process may have; taken back at the end."""
    soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    yield lambda size: resource.setrlimit(resource.RLIMIT_FSIZE, (size, hard))
    resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))


def test_a_file_that_grows_event_by_event_is_the_exported_one(tmp_path: Path) -> None:
    for event in EVENTS:
        assert append_event(tmp_path / "grown", event) is None
    export_journal(tmp_path / "exported", EVENTS)
    grown = (tmp_path / "grown").read_bytes()
    assert grown == (tmp_path / "exported").read_bytes() == b"".join(LINES)
    assert read_journal_file(tmp_path / "grown").events == EVENTS


def test_a_record_cut_at_any_byte_costs_itself_alone_and_is_reported_once(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    # What is told here does not depend on when the disk has it.
    def at_once(number: int) -> None:
        del number

    monkeypatch.setattr(os, "fsync", at_once)
    assert "é😀".encode() in LAST
    for kept in range(1, len(LAST)):
        folder = tmp_path / str(kept)
        folder.mkdir()
        path = folder / "journal"
        path.write_bytes(BEFORE + LAST[:kept])
        found = read_journal_file(path)
        assert found.events == EVENTS[:3]
        assert found.torn is not None
        assert (found.torn.size, found.torn.standing) == (kept, "found")
        # Only the line end was missing, or more was.
        repaired = kept == len(LAST) - 1
        torn = append_event(path, EVENTS[4 if repaired else 3])
        assert torn is not None
        assert torn.standing == ("repaired" if repaired else "separated")
        after = read_journal_file(path)
        assert after.torn is None
        assert after.events == (EVENTS if repaired else EVENTS[:4])
        assert verify_journal(after.events, ANCHOR).verdict == "valid"
        if torn.kept_in is not None:
            assert torn.kept_in.read_bytes() == LAST[:kept]


def test_a_record_cut_off_whole_is_told_by_the_anchor_alone(tmp_path: Path) -> None:
    (tmp_path / "journal").write_bytes(BEFORE)
    found = read_journal_file(tmp_path / "journal")
    assert found.torn is None
    assert verify_journal(found.events).verdict == "cannot tell"
    assert verify_journal(found.events, ANCHOR).verdict == "invalid"


def test_a_torn_tail_is_separated_although_the_new_event_does_not_fit(tmp_path: Path) -> None:
    path = tmp_path / "journal"
    path.write_bytes(WHOLE[:-10])
    with pytest.raises(InvalidEvent):
        append_event(path, EVENTS[4])
    assert path.read_bytes() == BEFORE
    assert len(list(tmp_path.glob("journal.torn-*"))) == 1


def test_every_flipped_bit_of_the_file_is_found() -> None:
    path = Path("journal")
    for place in range(len(BEFORE)):
        for bit in range(8):
            changed = bytearray(BEFORE)
            changed[place] ^= 1 << bit
            try:
                found, _ = scan(path, BytesIO(changed))
            except JournalBroken:
                continue
            # Without the last line end, what is behind the line before it is a torn tail.
            assert place == len(BEFORE) - 1
            assert found.torn is not None
    assert scan(path, BytesIO(BEFORE))[0].events == EVENTS[:3]


def test_a_bad_line_with_its_end_is_fatal_to_the_next_append(tmp_path: Path) -> None:
    path = tmp_path / "journal"
    damaged = WHOLE.replace(b'"number":0', b'"number":7')
    path.write_bytes(damaged)
    with pytest.raises(JournalBroken, match="line 3"):
        append_event(path, EVENTS[4])
    assert path.read_bytes() == damaged


def test_an_append_that_finds_no_room_leaves_the_file_as_it_was(
    tmp_path: Path, file_size_limit: Callable[[int], None]
) -> None:
    path = tmp_path / "journal"
    path.write_bytes(WHOLE)
    file_size_limit(len(WHOLE) + 100)
    with pytest.raises(StoreFull, match=r"cannot use the journal .*journal: File too large"):
        append_event(path, EVENTS[4])
    assert path.read_bytes() == WHOLE
    file_size_limit(resource.RLIM_INFINITY)
    assert append_event(path, EVENTS[4]) is None


def test_a_folder_that_is_not_there_is_one_clear_sentence(tmp_path: Path) -> None:
    path = tmp_path / "nowhere" / "journal"
    for call in (partial(read_journal_file, path), partial(append_event, path, EVENTS[0])):
        with pytest.raises(StoreUnavailable, match=r"cannot use the journal .*: No such file"):
            call()
