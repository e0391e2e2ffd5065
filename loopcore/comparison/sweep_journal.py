"""A chunk's sums travel and rest as one line of JSON; finished lines outlive an interruption.

Theory of operation: a worker answers a chunk with a line, which the parent merges and appends to a
journal, so that what crosses a process border and what is read after an interruption is the same
text. The first line names the settings by their digest. A journal of other settings is begun anew;
a last line that was torn by a crash is dropped and said so; the chunks of all others are not run
again. Arrays stand column by column in the smallest integers that hold them, compressed.
"""

from __future__ import annotations

import base64
import os
import zlib
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import msgspec
import numpy as np

from loopcore.batch.columns import Int64s
from loopcore.errors import EnvironmentFault, InputError

FORMAT = "loopcore/sweep-journal/1"
_COMPRESSION = 6
_WIDTHS = (1, 2, 4, 8)
# A line holds a few megabytes; one beyond this is not ours.
LINE_BYTES_MAX = 256 * 2**20


class Packed(msgspec.Struct, frozen=True, kw_only=True):
    """A matrix of integers: for each column its least value and the bytes of what lies above it."""

    rows: int
    least: tuple[int, ...]
    widths: tuple[int, ...]
    data: str


class Head(msgspec.Struct, frozen=True, kw_only=True):
    """The first line of a journal."""

    format: str
    settings_sha256: str


class Line(msgspec.Struct, frozen=True, kw_only=True):
    """The sums of one chunk.

    Fields:
        chunk: its identity. tasks, turns: how many were simulated.
        totals: shape (1 + habits, columns), all tasks first, then those of each habit.
        resamples: shape (resamples, resampled columns).
        seconds, calibration_seconds: processor time of the chunk and of the calibration loop that
            ran beside it; they are no part of the result.
    """

    chunk: str
    tasks: int
    turns: int
    totals: Packed
    resamples: Packed
    seconds: float
    calibration_seconds: float


def packed(matrix: Int64s) -> Packed:
    """Return a matrix of integers, shape (rows, columns), as text."""
    least = matrix.min(axis=0) if len(matrix) else np.zeros(matrix.shape[1], dtype=np.int64)
    parts: list[bytes] = []
    widths: list[int] = []
    for column, low in zip(matrix.T, least, strict=True):
        above = (column - low).astype(np.uint64)
        width = next(w for w in _WIDTHS if int(above.max(initial=0)) < 1 << (8 * w))
        widths.append(width)
        parts.append(above.astype(f"<u{width}").tobytes())
    return Packed(
        rows=matrix.shape[0],
        least=tuple(int(low) for low in least),
        widths=tuple(widths),
        data=base64.b64encode(zlib.compress(b"".join(parts), _COMPRESSION)).decode(),
    )


def unpacked(pack: Packed) -> Int64s:
    """Return the matrix; raise InputError where the text is not what `packed` writes."""
    try:
        data = zlib.decompress(base64.b64decode(pack.data, validate=True))
    except (ValueError, zlib.error) as error:
        raise InputError("malformed", f"packed integers: {error}.") from None
    if len(data) != pack.rows * sum(pack.widths) or len(pack.least) != len(pack.widths):
        raise InputError("malformed", "packed integers: their number is not the one stated.")
    matrix = np.empty((pack.rows, len(pack.widths)), dtype=np.int64)
    at = 0
    for place, (width, low) in enumerate(zip(pack.widths, pack.least, strict=True)):
        above = np.frombuffer(data, dtype=f"<u{width}", count=pack.rows, offset=at)
        matrix[:, place] = above.astype(np.int64) + low
        at += width * pack.rows
    return matrix


@dataclass(slots=True, kw_only=True)
class Journal:
    """The finished chunks of one sweep in a file.

    Arguments: path; settings_sha256, the digest of what the sweep consists of.
    `note` says in a sentence what was found in the file and not used, or is None.
    """

    path: Path
    settings_sha256: str
    note: str | None = None
    _good_bytes: int = 0

    def finished(self) -> Iterator[Line]:
        """Yield the line of every chunk that is finished; afterwards the file takes more."""
        self.note = None
        self._good_bytes = 0
        head = msgspec.json.encode(Head(format=FORMAT, settings_sha256=self.settings_sha256))
        if self.path.is_file():
            with self.path.open("rb") as file:
                if file.readline(len(head) + 1) == head + b"\n":
                    self._good_bytes = len(head) + 1
                    yield from self._lines(file)
                else:
                    self.note = f"{self.path} is of other settings or another program: begun anew"
        self._prepare(head)

    def _lines(self, file: Iterator[bytes]) -> Iterator[Line]:
        for text in file:
            try:
                if not text.endswith(b"\n") or len(text) > LINE_BYTES_MAX:
                    raise InputError("malformed", "torn")
                line = read_line(text)
            except InputError:
                self.note = f"{self.path} ends in a torn line, whose chunk is run again"
                return
            yield line
            self._good_bytes += len(text)

    def _prepare(self, head: bytes) -> None:
        """Cut what is torn, or begin the file."""
        try:
            self.path.parent.mkdir(parents=True, exist_ok=True)
            with self.path.open("ab") as file:
                file.truncate(self._good_bytes)
                if self._good_bytes == 0:
                    file.write(head + b"\n")
        except OSError as error:
            raise self._fault(error) from None

    def append(self, text: bytes) -> None:
        """Add the line of a finished chunk; it is on the disk after the call."""
        try:
            with self.path.open("ab") as file:
                file.write(text + b"\n")
                file.flush()
                os.fsync(file.fileno())
        except OSError as error:
            raise self._fault(error) from None

    def remove(self) -> None:
        """Take the file away, once its result is written."""
        self.path.unlink(missing_ok=True)

    def _fault(self, error: OSError) -> EnvironmentFault:
        return EnvironmentFault(f"cannot write {self.path}: {error.strerror or error}")


def write_line(line: Line) -> bytes:
    """Return a chunk's line, without its end."""
    return msgspec.json.encode(line)


def read_line(text: bytes) -> Line:
    """Return the sums in a line; raise InputError where it is none."""
    try:
        return msgspec.json.decode(text, type=Line)
    except (msgspec.MsgspecError, UnicodeError, RecursionError) as error:
        raise InputError("malformed", f"a line of the journal: {error}.") from None
