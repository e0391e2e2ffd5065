"""Operators on the text of a document: damage that a JSON parser may hide, and harmless spelling.

Theory of operation: bytes in, bytes out. Where an operator needs a place in the text it looks for
the key's first occurrence, which in our own compact texts is always a member and never a value.
"""

from __future__ import annotations

import json
from collections.abc import Callable

from loopcore.mutation.values import DataError, Parameters, number_of, text_of

TextOperator = Callable[[bytes, Parameters], bytes]

_BYTE_BITS = 8
_PRINTABLE_MAX = 0x7E


def _flip_bit(data: bytes, parameters: Parameters) -> bytes:
    """Flip one bit of the byte right after the first occurrence of `after`."""
    needle = text_of(parameters, "after", "").encode()
    place = _find(data, needle) + len(needle) + number_of(parameters, "offset", 0)
    bit = number_of(parameters, "bit", 0)
    if not (0 <= place < len(data) and 0 <= bit < _BYTE_BITS):
        raise DataError(f"there is no bit {bit} of byte {place}.")
    return data[:place] + bytes([data[place] ^ (1 << bit)]) + data[place + 1 :]


def _truncate(data: bytes, parameters: Parameters) -> bytes:
    """Cut `bytes` bytes off the end, or keep the first `keep`."""
    if "keep" in parameters:
        return data[: number_of(parameters, "keep")]
    return data[: len(data) - number_of(parameters, "bytes")]


def _duplicate_key(data: bytes, parameters: Parameters) -> bytes:
    """Let a member stand twice; the first of the two has `value` where that is given (as text)."""
    key, start, end = _member(data, text_of(parameters, "key"))
    value = text_of(parameters, "value", data[start:end].decode()).encode()
    place = _find(data, key)
    return data[:place] + key + value + b"," + data[place:]


def _spell_value(data: bytes, parameters: Parameters) -> bytes:
    """Let a member's value be spelled as `text` says, whatever that is."""
    _, start, end = _member(data, text_of(parameters, "key"))
    return data[:start] + text_of(parameters, "text").encode() + data[end:]


def _escape_first(data: bytes, parameters: Parameters) -> bytes:
    """Spell the first character of a member's text value, or of its key, as an escape."""
    key, start, _ = _member(data, text_of(parameters, "key"))
    place = _find(data, key) + 1 if parameters.get("of") == "key" else start + 1
    return data[:place] + b"\\u%04x" % data[place] + data[place + 1 :]


def _find(data: bytes, needle: bytes) -> int:
    place = data.find(needle)
    if place < 0:
        raise DataError(f"the text holds no {needle.decode(errors='replace')}.")
    return place


def _member(data: bytes, name: str) -> tuple[bytes, int, int]:
    """Return a member's key with its colon, and where its value begins and ends."""
    key = b'"%b":' % name.encode()
    start = _find(data, key) + len(key)
    whole = data.decode()
    offset = len(data[:start].decode())
    _, end = json.JSONDecoder().raw_decode(whole, offset)
    return key, start, len(whole[:end].encode())


def _prepend(data: bytes, parameters: Parameters) -> bytes:
    """Put bytes, given as hexadecimals, before the text."""
    return bytes.fromhex(text_of(parameters, "hex")) + data


def _append(data: bytes, parameters: Parameters) -> bytes:
    """Put bytes, given as hexadecimals, after the text."""
    return data + bytes.fromhex(text_of(parameters, "hex"))


def _recode(data: bytes, parameters: Parameters) -> bytes:
    """Encode the text in another encoding."""
    return data.decode().encode(text_of(parameters, "encoding"))


def _white_space(data: bytes, parameters: Parameters) -> bytes:
    """Put the four kinds of white space between all tokens; keep the value as it is."""
    del parameters
    return b" \t\r\n" + json.dumps(json.loads(data), indent="\t").encode() + b"\r\n"


def _escape_all(data: bytes, parameters: Parameters) -> bytes:
    """Spell every character of every key and text as an escape; keep the value as it is."""
    del parameters
    inside, out, skip = False, bytearray(), False
    for byte in data:
        if byte == ord('"') and not skip:
            inside = not inside
            out.append(byte)
        elif byte == ord("\\") or skip or not inside or byte > _PRINTABLE_MAX:
            skip = byte == ord("\\") and not skip
            out.append(byte)
        else:
            out += b"\\u%04x" % byte
    return bytes(out)


def _blank_line(data: bytes, parameters: Parameters) -> bytes:
    """Put an empty line after line `line` (0-based) of a stream."""
    lines = data.split(b"\n")
    lines.insert(number_of(parameters, "line") + 1, b"")
    return b"\n".join(lines)


def _drop_last_line_end(data: bytes, parameters: Parameters) -> bytes:
    """Let the last line of a stream end without a line feed; keep the value as it is."""
    del parameters
    return data.removesuffix(b"\n")


TEXT_OPERATORS: dict[str, TextOperator] = {
    "flip-bit": _flip_bit,
    "truncate": _truncate,
    "duplicate-key": _duplicate_key,
    "spell-value": _spell_value,
    "escape-first": _escape_first,
    "prepend-bytes": _prepend,
    "append-bytes": _append,
    "recode": _recode,
    "white-space": _white_space,
    "escape-all": _escape_all,
    "blank-line": _blank_line,
    "drop-last-line-end": _drop_last_line_end,
}
