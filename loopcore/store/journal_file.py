"""A journal as a file of lines: for export, for backup, and for a log that is written line by line.

Theory of operation: a line is `{"event":…,"sha256":"…"}` in canonical form, so that every bit of a
file is either checked or refused. A line counts when its line end is there. What stands behind the
last line end is a *torn tail*, which a crash or a full disk leaves: it is no damage to the records
before it, but nothing may be appended to it, or two records fuse into one that is lost. So it is
dealt with before the next append: repaired where only the line end is missing, otherwise moved to a
file of its own beside the journal; either way it is reported. A bad line *with* its end was written
whole and changed afterwards, and stays fatal.

Choices: one event an append, since a torn batch could not be told from a whole shorter one. Locks
are advisory, and the file's whole history is verified before every append.

Source: spec runtime, section 1; incident 13.1.
"""

from __future__ import annotations

import errno
import fcntl
import os
from collections.abc import Generator, Iterable
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import BinaryIO, Literal

from loopcore.canonical import digest_bytes
from loopcore.errors import EnvironmentFault
from loopcore.files import write_whole
from loopcore.store.contract import JournalBroken, StoreFull, StoreReadOnly, StoreUnavailable
from loopcore.store.journal import (
    EMPTY_HEAD,
    EVENT_BYTES_MAX,
    Event,
    Head,
    InvalidEvent,
    decode_event,
    encode_event,
    follow,
)

_BEFORE, _BETWEEN, _BEHIND = b'{"event":', b',"sha256":"', b'"}'
_DIGEST_BYTES = 64
_FRAME_BYTES = len(_BEFORE) + len(_BETWEEN) + _DIGEST_BYTES + len(_BEHIND)
LINE_BYTES_MAX = EVENT_BYTES_MAX + _FRAME_BYTES + 1
_NAME_DIGITS = 12
_NO_ROOM = (errno.ENOSPC, errno.EDQUOT, errno.EFBIG)
_NO_WRITING = (errno.EACCES, errno.EPERM, errno.EROFS)


@dataclass(frozen=True, slots=True, kw_only=True)
class TornTail:
    """What a file had behind its last line end.

    Fields:
        size: in bytes; standing: `found` by a reader, which changes nothing; by a writer
            `repaired`, and then the event counts, or `separated` into the file `kept_in`.
    """

    size: int
    standing: Literal["found", "repaired", "separated"]
    kept_in: Path | None = None

    def __str__(self) -> str:
        kept = "" if self.kept_in is None else f" into {self.kept_in}"
        return f"torn tail of {self.size} bytes, {self.standing}{kept}"


@dataclass(frozen=True, slots=True, kw_only=True)
class JournalFile:
    """The events of a file, which are linked from the first, their head, and a torn tail."""

    events: tuple[Event, ...]
    head: Head
    torn: TornTail | None


def line_of(event: Event) -> bytes:
    """Return an event as a line with its end; raise InvalidEvent where it is not well formed."""
    data = encode_event(event)
    return _BEFORE + data + _BETWEEN + digest_bytes(data).encode() + _BEHIND + b"\n"


def event_of(line: bytes) -> tuple[Event, bytes]:
    """Return the event of a line without its end, and its canonical bytes; raise InvalidEvent."""
    start, stop = len(_BEFORE), len(line) - (_FRAME_BYTES - len(_BEFORE))
    data = line[start:stop] if stop > start else b""
    if line != _BEFORE + data + _BETWEEN + digest_bytes(data).encode() + _BEHIND:
        raise InvalidEvent("the line is not an event with its digest")
    return decode_event(data), data


def export_journal(path: Path, events: Iterable[Event]) -> Head:
    """Put a whole journal in place as a file, or leave what was there; return its head.

    Raises InvalidEvent where the events are not one journal from its beginning.
    """
    head, lines = EMPTY_HEAD, list[bytes]()
    for event in events:
        head = follow(event.run_id, head, event)
        lines.append(line_of(event))
    write_whole(path, b"".join(lines))
    return head


def read_journal_file(path: Path) -> JournalFile:
    """Return what a file holds, which is verified and not changed.

    Raises JournalBroken with the event's place for a bad line that has its end, and
    StoreUnavailable where the file cannot be read.
    """
    with _faults(path), path.open("rb") as file:
        return scan(path, file)[0]


def append_event(path: Path, event: Event) -> TornTail | None:
    """Append one event, durably; return the torn tail that had to be dealt with first, if any.

    Arguments:
        path: the file, made where there is none; event: linked to its head.

    Raises InvalidEvent where the event does not continue the file, with the tail dealt with all the
    same; JournalBroken; StoreFull, StoreReadOnly or StoreUnavailable, and then the file holds what
    it held before.
    """
    line = line_of(event)
    with _faults(path), path.open("a+b") as file:
        # Released when the file is closed, whatever happens.
        fcntl.flock(file, fcntl.LOCK_EX)
        journal, whole = scan(path, file)
        torn = None
        if journal.torn is not None:
            journal, whole, torn = _mend(path, file, journal, whole)
        run_id = journal.events[0].run_id if journal.events else event.run_id
        follow(run_id, journal.head, event)
        _write(file, line, whole)
        if not journal.events:
            _keep_name(path)
    return torn


def scan(path: Path, file: BinaryIO) -> tuple[JournalFile, int]:
    """Return what an open file holds, and the size of its whole lines.

    Raises JournalBroken, naming the path, for a bad line that has its end.
    """
    file.seek(0)
    head, events, whole, torn = EMPTY_HEAD, list[Event](), 0, None
    while line := file.readline(LINE_BYTES_MAX):
        if not line.endswith(b"\n") and len(line) < LINE_BYTES_MAX:
            torn = TornTail(size=len(line), standing="found")
            break
        run_id = events[0].run_id if events else str(path)
        try:
            event, data = event_of(line[:-1])
            head = follow(event.run_id if not events else run_id, head, event, data=data)
        except InvalidEvent as error:
            reason = f"{path}, line {head.sequence + 1}: {error.reason}"
            raise JournalBroken(run_id, sequence=head.sequence + 1, reason=reason) from None
        events.append(event)
        whole += len(line)
    return JournalFile(events=tuple(events), head=head, torn=torn), whole


def _mend(
    path: Path, file: BinaryIO, journal: JournalFile, whole: int
) -> tuple[JournalFile, int, TornTail]:
    """Make a file end with a line end; return what it holds then, and what was done."""
    file.seek(whole)
    tail = file.read(LINE_BYTES_MAX)
    run_id = journal.events[0].run_id if journal.events else None
    try:
        event, data = event_of(tail)
        head = follow(run_id or event.run_id, journal.head, event, data=data)
    except InvalidEvent:
        name = f"{path.name}.torn-{digest_bytes(tail)[:_NAME_DIGITS]}"
        kept_in = path.with_name(name)
        write_whole(kept_in, tail)
        os.ftruncate(file.fileno(), whole)
        os.fsync(file.fileno())
        return journal, whole, TornTail(size=len(tail), standing="separated", kept_in=kept_in)
    _write(file, b"\n", whole + len(tail))
    torn = TornTail(size=len(tail), standing="repaired")
    mended = JournalFile(events=(*journal.events, event), head=head, torn=None)
    return mended, whole + len(tail) + 1, torn


def _write(file: BinaryIO, data: bytes, size: int) -> None:
    """Write at the end of a file of this size and wait for the disk; or leave it at this size."""
    number = file.fileno()
    try:
        # Past the file object, whose buffer would be written again when it is closed.
        written = 0
        while written < len(data):
            written += os.write(number, data[written:])
        os.fsync(number)
    except OSError:
        os.ftruncate(number, size)
        raise


def _keep_name(path: Path) -> None:
    """Wait until the folder's entry of a new file is on the disk."""
    folder = os.open(path.parent, os.O_RDONLY)
    try:
        os.fsync(folder)
    finally:
        os.close(folder)


@contextmanager
def _faults(path: Path) -> Generator[None]:
    """Turn the system's errors into the contract's, in one sentence with the path."""
    try:
        yield
    except OSError as error:
        fault: type[EnvironmentFault] = StoreUnavailable
        if error.errno in _NO_ROOM:
            fault = StoreFull
        elif error.errno in _NO_WRITING:
            fault = StoreReadOnly
        message = f"cannot use the journal {path}: {error.strerror or error}"
        raise fault(message) from None
