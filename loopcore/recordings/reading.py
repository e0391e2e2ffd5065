"""A file becomes a decoded JSON value or one clear error, whatever bytes it holds.

Theory of operation: bytes are read under a size limit, must be UTF-8 without a byte-order mark, and
are decoded with exact decimals (a float would change a price). Everything that can go wrong on the
way is one `InputError`: `unreadable` when the bytes cannot be had, `malformed` when they are not
the JSON that they should be. A log of JSON lines may end in a torn record, which is a finding; a
line that was finished with a newline and does not decode is an error.

Source: spec control, section 5; incidents 13.1 and 13.5.
"""

from __future__ import annotations

import json
import os
import stat
from dataclasses import dataclass
from decimal import Decimal
from pathlib import Path

from loopcore.errors import InputError
from loopcore.recordings.nodes import Node, malformed

FILE_BYTES_MAX = 64 * 1024 * 1024
LINES_MAX = 2_000_000
DIGITS_MAX = 4_000
EXPONENT_MAX = 100_000
_BYTE_ORDER_MARKS = (
    (b"\xef\xbb\xbf", "a UTF-8 byte-order mark"),
    (b"\xff\xfe", "a UTF-16 byte-order mark"),
    (b"\xfe\xff", "a UTF-16 byte-order mark"),
)


class _NotFinite:
    """Stands for NaN and the infinities until their place in the document is known."""


class _TooLong(ValueError):
    """A number with more digits or a larger exponent than the reader takes."""


def _unreadable(file: str, message: str) -> InputError:
    return InputError("unreadable", f"{file}: {message}", path=file)


def read_bytes(path: str | os.PathLike[str], *, bytes_max: int = FILE_BYTES_MAX) -> bytes:
    """Return the bytes of a regular file of at most `bytes_max` bytes.

    Errors: InputError `unreadable` for a missing file, a folder, a device or pipe, a file that may
    not be read, or one that is larger than the limit; `malformed` for an empty one.
    """
    file = os.fspath(path)
    try:
        status = os.stat(file)
        if stat.S_ISDIR(status.st_mode):
            raise _unreadable(file, "is a folder, not a file")
        if not stat.S_ISREG(status.st_mode):
            raise _unreadable(file, "is not a regular file")
        if status.st_size > bytes_max:
            raise _unreadable(file, f"is {status.st_size} bytes long; at most {bytes_max} are read")
        data = Path(file).read_bytes()
    except (OSError, ValueError) as error:
        reason = error.strerror if isinstance(error, OSError) and error.strerror else str(error)
        raise _unreadable(file, f"cannot be read ({reason})") from None
    if not data:
        raise malformed(file, "$", "the file is empty")
    return data


def decode_text(data: bytes, file: str) -> str:
    """Return the text of UTF-8 bytes without a byte-order mark."""
    for mark, name in _BYTE_ORDER_MARKS:
        if data.startswith(mark):
            raise malformed(file, "byte 0", f"starts with {name}; plain UTF-8 was expected")
    try:
        return data.decode("utf-8")
    except UnicodeDecodeError as error:
        raise malformed(file, f"byte {error.start}", "is not UTF-8 text") from None


def _decimal(text: str) -> Decimal:
    number = Decimal(text)
    exponent = number.as_tuple().exponent
    too_wide = isinstance(exponent, int) and abs(exponent) > EXPONENT_MAX
    if len(text) > DIGITS_MAX or too_wide:
        raise _TooLong(f"a number is longer than {DIGITS_MAX} digits")
    return number


def parse_json(text: str, file: str, *, root: str = "$") -> Node:
    """Return the decoded document; numbers with a point or an exponent are exact decimals.

    Errors: InputError `malformed` naming line and column of a syntax error, the JSON place of a
    NaN or infinity, or the limit on depth or digits that was passed.
    """
    constants: list[str] = []

    def constant(name: str) -> object:
        constants.append(name)
        return _NotFinite()

    try:
        value: object = json.loads(text, parse_float=_decimal, parse_constant=constant)
    except json.JSONDecodeError as error:
        place = f"line {error.lineno} column {error.colno}" if root == "$" else root
        raise malformed(file, place, f"is not JSON ({error.msg})") from None
    except RecursionError:
        raise malformed(file, root, "is nested too deeply") from None
    except (ValueError, ArithmeticError) as error:
        raise malformed(file, root, str(error).split(";")[0]) from None
    node = Node(value, file, None, root)
    if constants:
        _reject_not_finite(node, constants[0])
    return node


def _reject_not_finite(root: Node, name: str) -> None:
    """Raise a complaint about the first NaN or infinity, in the order of the document."""
    pending = [root]
    while pending:
        node = pending.pop()
        if isinstance(node.value, _NotFinite):
            node.reject(f"{name} is not a JSON number")
        if node.fields() is not None:
            pending.extend(reversed([child for _, child in node.entries()]))
        elif node.elements() is not None:
            pending.extend(reversed(node.array()))


def read_json(path: str | os.PathLike[str]) -> Node:
    """Return the decoded document of a JSON file."""
    file = os.fspath(path)
    return parse_json(decode_text(read_bytes(path), file), file)


@dataclass(frozen=True, slots=True, kw_only=True)
class Lines:
    """The records of a log and what had to be left out of it."""

    records: tuple[Node, ...]
    findings: tuple[str, ...]


def parse_lines(data: bytes, file: str) -> Lines:
    """Return every finished record; a torn last one is a finding, a bad finished one an error.

    The cut is made on bytes, before decoding, so that a record torn inside a character is still
    only a torn record. Bytes after the last newline are a record when they decode to an object,
    because a writer may leave the last newline out; otherwise they are the torn tail.

    Errors: InputError `malformed` naming the line of a finished record that does not decode.
    """
    *finished, tail = data.split(b"\n")
    if len(finished) > LINES_MAX:
        raise malformed(file, "$", f"has more than {LINES_MAX} lines")
    records: list[Node] = []
    for number, line in enumerate(finished, start=1):
        if not line.strip():
            continue
        place = f"line {number}"
        try:
            text = line.decode("utf-8")
        except UnicodeDecodeError:
            raise malformed(file, place, "is not UTF-8 text") from None
        records.append(parse_json(text, file, root=place))
    findings: list[str] = []
    if tail.strip():
        place = f"line {len(finished) + 1}"
        try:
            node = parse_json(tail.decode("utf-8"), file, root=place)
            node.mapping()
            records.append(node)
        except (UnicodeDecodeError, InputError):
            findings.append(f"torn tail: {len(tail)} bytes after the last newline were left out")
    return Lines(records=tuple(records), findings=tuple(findings))


def separate_tail(data: bytes) -> bytes:
    """Return a log that can be appended to: its torn tail, when it has one, is cut off.

    A complete last record that only lacks its newline is kept and gets the newline.
    """
    head, newline, tail = data.rpartition(b"\n")
    if not tail.strip():
        return head + newline
    lines = parse_lines(tail, "tail")
    return head + newline + (tail + b"\n" if lines.records else b"")
