"""Documents as people keep them: a trace in one file, a stream of steps, a batch of traces.

Theory of operation: a stream gives the same answer as the document that it spells, in memory that
grows only with distinct evidence. The document's order of defects decides: a line that is not JSON
or passes a limit comes first of all, then the header, then the number of steps, then the first step
with a bad value, then the policy's relations, then the first step that is not well formed. So a
stream is read to its end even after a defect, and the highest defect met is raised there.

Nothing but InputError leaves this module for any bytes or any path.

Source: spec evaluator, sections 1, 2 and 6.
"""

from __future__ import annotations

import io
from collections.abc import Generator, Iterator
from contextlib import contextmanager
from typing import BinaryIO

from loopcore.canonical import canonical
from loopcore.decoding import decode_step_fast, decode_trace
from loopcore.defects import (
    DOCUMENT_BYTES_MAX,
    Members,
    check_policy_relations,
    explain,
    malformed,
    parse,
    parse_first,
)
from loopcore.errors import InputError
from loopcore.evaluator import Run, evaluate, start
from loopcore.models import STEPS_MAX, Receipt, Step, TraceHeader

STREAM_LINE_BYTES_MAX = 2**16
_PIECE_BYTES = 2**20
# A step of a stream lies inside the array and the object of the document that the stream spells.
_STEP_OUTER_NESTING = 2


def evaluate_trace(data: bytes) -> Receipt:
    """Return the receipt of a trace document; linear in its length.

    Raises InputError with any code but `unreadable`.
    """
    trace = decode_trace(data)
    return evaluate(trace.policy, trace.steps, steps_sha256=trace.steps_sha256)


def evaluate_stream(source: BinaryIO) -> Receipt:
    """Return the receipt of a stream: a header line, then one step a line.

    Memory grows with the run's distinct evidence and nothing else. Raises InputError as
    `evaluate_trace` does; a step line that is not JSON has path `$.steps[i]`.
    """
    return _finish_stream(_read_line(source) or b"", source)


def evaluate_source(source: BinaryIO) -> Receipt:
    """Return the receipt of what standard input spells: a document or a stream.

    It is a stream exactly when its first document has no `steps`.
    """
    line = source.readline(STREAM_LINE_BYTES_MAX + 1)
    try:
        header = parse(line)
    except InputError:
        # The first document does not end with the first line, so all of it is needed to tell.
        data = line + _read_all(source, DOCUMENT_BYTES_MAX + 1 - len(line))
        first = parse_first(data)
        if _has_steps(first):
            return evaluate_trace(data)
        return evaluate_stream(io.BytesIO(data))
    if _has_steps(header):
        return evaluate_trace(line + _read_all(source, DOCUMENT_BYTES_MAX + 1 - len(line)))
    return _finish_stream(line.removesuffix(b"\n"), source)


def evaluate_batch(source: BinaryIO) -> Iterator[Receipt | InputError]:
    """Yield for each line, in order, the receipt of its trace or the error that it spells."""
    while line := source.readline(DOCUMENT_BYTES_MAX + 2):
        if not line.endswith(b"\n") and len(line) > DOCUMENT_BYTES_MAX:
            # The rest of an endless line belongs to the same defect.
            while rest := source.readline(DOCUMENT_BYTES_MAX):
                if rest.endswith(b"\n"):
                    break
        try:
            yield evaluate_trace(line.removesuffix(b"\n"))
        except InputError as error:
            yield error


def evaluate_file(path: str, standard_input: BinaryIO) -> Receipt:
    """Return the receipt of a `.json` trace, a `.jsonl` stream, or `-` for standard input.

    A path with another ending (a pipe, say) is read as standard input is. Raises InputError.
    """
    with open_source(path, standard_input) as source:
        if path.endswith(".jsonl"):
            return evaluate_stream(source)
        if path.endswith(".json"):
            return evaluate_trace(_read_all(source, DOCUMENT_BYTES_MAX + 1))
        return evaluate_source(source)


@contextmanager
def open_source(path: str, standard_input: BinaryIO) -> Generator[BinaryIO]:
    """Yield a file open for reading, or standard input for `-`.

    Raises InputError `unreadable` when the file cannot be opened, and when reading it fails later.
    """
    try:
        if path == "-":
            yield standard_input
        else:
            with open(path, "rb") as source:
                yield source
    except (OSError, ValueError) as error:
        # A path with a NUL byte is a ValueError, which has no other text than its own.
        reason = error.strerror if isinstance(error, OSError) else str(error)
        shown = path.encode("utf-8", "backslashreplace").decode()
        raise InputError("unreadable", f"{shown}: {reason}.") from None


def read_file(path: str, standard_input: BinaryIO) -> bytes:
    """Return the bytes of a file or of standard input, one more than a document may have at most.

    Raises InputError `unreadable`.
    """
    with open_source(path, standard_input) as source:
        return _read_all(source, DOCUMENT_BYTES_MAX + 1)


def _read_all(source: BinaryIO, size: int) -> bytes:
    """Return up to `size` bytes; a pipe may give them in pieces."""
    pieces: list[bytes] = []
    while size > 0 and (piece := source.read(min(size, _PIECE_BYTES))):
        pieces.append(piece)
        size -= len(piece)
    return b"".join(pieces)


def _has_steps(value: object) -> bool:
    return isinstance(value, Members) and any(key == "steps" for key, _ in value)


def _read_line(source: BinaryIO) -> bytes | None:
    """Return the next line of a stream without its end, or None after the last one."""
    line = source.readline(STREAM_LINE_BYTES_MAX + 1)
    if not line:
        return None
    if line.endswith(b"\n"):
        return line[:-1]
    if len(line) > STREAM_LINE_BYTES_MAX:
        raise malformed("$", f"a line is longer than {STREAM_LINE_BYTES_MAX} bytes")
    return line


def _finish_stream(header: bytes, source: BinaryIO) -> Receipt:
    """Evaluate a stream whose header line was read already."""
    stream = _Stream(header)
    index = 0
    while (line := _read_line(source)) is not None:
        if index == STEPS_MAX:
            raise stream.refusal_of_more(line)
        stream.take(line, index)
        index += 1
    return stream.finish()


class _Stream:
    """A stream being read: the run so far, or the highest defects met so far."""

    def __init__(self, header: bytes) -> None:
        value = parse(header)
        self.document_defect: InputError | None = None
        self._header_defect: InputError | None = None
        self._step_defect: InputError | None = None
        self._run: Run | None = None
        try:
            decoded = explain(value, TraceHeader, "$")
        except InputError as error:
            self.document_defect = self._header_defect = error
            return
        try:
            check_policy_relations(decoded.policy, "$.policy")
            self._run = start(decoded.policy)
        except InputError as error:
            self._step_defect = error

    def take(self, line: bytes, index: int) -> None:
        """Take in a step line; raise InputError at once when it is no JSON or passes a limit."""
        decoded = decode_step_fast(line)
        if decoded is None:
            place = f"$.steps[{index}]"
            value = parse(line, path=place, outer_nesting=_STEP_OUTER_NESTING)
            if self.document_defect is not None:
                return
            try:
                step = explain(value, Step, place)
            except InputError as error:
                self.document_defect = error
                return
            decoded = (step, canonical(step))
        if self._run is None or self._step_defect is not None or self.document_defect is not None:
            return
        try:
            self._run.advance(*decoded)
        except InputError as error:
            self._step_defect = error

    def refusal_of_more(self, line: bytes) -> InputError:
        """Return the highest defect of a document that has this step line more than it may.

        The length of an array is tested before its elements, and the header before both.
        """
        parse(line, path=f"$.steps[{STEPS_MAX}]", outer_nesting=_STEP_OUTER_NESTING)
        return self._header_defect or malformed(
            "$.steps", f"expected at most {STEPS_MAX} elements, got more"
        )

    def finish(self) -> Receipt:
        """Return the receipt, or raise the highest defect of the document that was spelled."""
        defect = self.document_defect or self._step_defect
        if defect is not None or self._run is None:
            raise defect or AssertionError("a stream without a run has a defect")
        return self._run.finish()
