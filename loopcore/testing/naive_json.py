"""Strict JSON text, read by a recursive descent that mirrors the grammar of RFC 8259.

Rule: nothing the grammar spells is lost before somebody has judged it. An object therefore keeps
its members as pairs, repetitions and order included; an integer token becomes an `int`; any other
number becomes a `Spelling`, so that `1.0`, `-0` and `1e2` are left for the value checks to refuse
at their own path. Text outside the grammar, or deeper than the limit, is a `TextDefect`.

Theory of operation: one function a production, each taking the position where it starts and
returning the value with the position behind it. The depth limit bounds the recursion, so no input
can exhaust the stack. Nothing of the standard `json` module is used: it accepts NaN, drops
repeated keys and turns numbers into floats.

Choices: text is read from left to right and the first defect met is reported, except that bytes
which are not UTF-8 are found before any of it is read. Two adjacent escapes that form a surrogate
pair are one character; a surrogate that stays alone is kept for the value checks to refuse.
Source: RFC 8259; spec evaluator, section 1.
"""

import re
from dataclasses import dataclass

NESTING_MAX = 16
INTEGER_DIGITS_MAX = 16

_SPACE = re.compile(r"[ \t\n\r]*")
_PLAIN = re.compile(r'[^"\\\x00-\x1f]*')
_HEX4 = re.compile(r"[0-9a-fA-F]{4}")
_NUMBER = re.compile(r"-?(?:0|[1-9][0-9]*)(?:\.[0-9]+)?(?:[eE][+-]?[0-9]+)?")
_INTEGER = re.compile(r"0|[1-9][0-9]*")
_SURROGATE_PAIR = re.compile("[\ud800-\udbff][\udc00-\udfff]")
_SHORT_ESCAPES = {
    '"': '"',
    "\\": "\\",
    "/": "/",
    "b": "\b",
    "f": "\f",
    "n": "\n",
    "r": "\r",
    "t": "\t",
}
_WORDS: tuple[tuple[str, object], ...] = (("true", True), ("false", False), ("null", None))


class TextDefect(Exception):
    """The bytes are no JSON text; `is_limit` says that the nesting limit is what they broke."""

    def __init__(self, reason: str, *, is_limit: bool = False) -> None:
        super().__init__(reason)
        self.reason = reason
        self.is_limit = is_limit


@dataclass(frozen=True, slots=True, kw_only=True)
class Members:
    """A JSON object as written: its pairs in document order, repetitions included."""

    pairs: tuple[tuple[str, object], ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Spelling:
    """A JSON number that is not an integer token of at most sixteen digits."""

    token: str


def parse(data: bytes, *, outer_containers: int = 0) -> object:
    """The one JSON value that `data` spells, as Members, list, str, int, Spelling, bool or None.

    `outer_containers` counts the containers that already surround this text, as for a line of a
    stream. Raises TextDefect. Source: RFC 8259; spec evaluator, section 1.
    """
    try:
        text = data.decode("utf-8", "strict")
    except UnicodeDecodeError as error:
        raise TextDefect(f"The text is not UTF-8 at byte {error.start}.") from None
    value, position = _value(text, _skip(text, 0), outer_containers)
    position = _skip(text, position)
    if position != len(text):
        raise TextDefect(f"Something follows the document at character {position}.")
    return value


def _skip(text: str, position: int) -> int:
    match = _SPACE.match(text, position)
    return match.end() if match else position


def _value(text: str, position: int, depth: int) -> tuple[object, int]:
    """The value that starts at `position`, inside `depth` containers."""
    if text.startswith("{", position):
        return _object(text, position, _one_deeper(depth))
    if text.startswith("[", position):
        return _array(text, position, _one_deeper(depth))
    if text.startswith('"', position):
        return _string(text, position)
    for word, meaning in _WORDS:
        if text.startswith(word, position):
            return meaning, position + len(word)
    match = _NUMBER.match(text, position)
    if match is None:
        raise TextDefect(f"A JSON value was expected at character {position}.")
    token = match.group()
    # The length is tested first, because Python refuses to convert very long digit strings.
    if len(token) <= INTEGER_DIGITS_MAX and _INTEGER.fullmatch(token):
        return int(token), match.end()
    return Spelling(token=token), match.end()


def _one_deeper(depth: int) -> int:
    if depth + 1 > NESTING_MAX:
        raise TextDefect(f"Containers are nested deeper than {NESTING_MAX}.", is_limit=True)
    return depth + 1


def _expect(text: str, position: int, character: str) -> int:
    if not text.startswith(character, position):
        raise TextDefect(f"{character!r} was expected at character {position}.")
    return position + 1


def _array(text: str, position: int, depth: int) -> tuple[list[object], int]:
    elements: list[object] = []
    position = _skip(text, position + 1)
    if text.startswith("]", position):
        return elements, position + 1
    while True:
        element, position = _value(text, position, depth)
        elements.append(element)
        position = _skip(text, position)
        if text.startswith("]", position):
            return elements, position + 1
        position = _skip(text, _expect(text, position, ","))


def _object(text: str, position: int, depth: int) -> tuple[Members, int]:
    pairs: list[tuple[str, object]] = []
    position = _skip(text, position + 1)
    if text.startswith("}", position):
        return Members(pairs=()), position + 1
    while True:
        key, position = _string(text, position)
        position = _skip(text, _expect(text, _skip(text, position), ":"))
        value, position = _value(text, position, depth)
        pairs.append((key, value))
        position = _skip(text, position)
        if text.startswith("}", position):
            return Members(pairs=tuple(pairs)), position + 1
        position = _skip(text, _expect(text, position, ","))


def _string(text: str, position: int) -> tuple[str, int]:
    position = _expect(text, position, '"')
    pieces: list[str] = []
    while True:
        match = _PLAIN.match(text, position)
        end = match.end() if match else position
        pieces.append(text[position:end])
        if text.startswith('"', end):
            joined = "".join(pieces)
            return _SURROGATE_PAIR.sub(_join_pair, joined), end + 1
        if not text.startswith("\\", end):
            raise TextDefect(f"A string is cut or holds a control character at character {end}.")
        character, position = _escape(text, end + 1)
        pieces.append(character)


def _escape(text: str, position: int) -> tuple[str, int]:
    letter = text[position : position + 1]
    if letter in _SHORT_ESCAPES:
        return _SHORT_ESCAPES[letter], position + 1
    digits = _HEX4.match(text, position + 1)
    if letter != "u" or digits is None:
        raise TextDefect(f"An escape is not one of JSON's at character {position}.")
    return chr(int(digits.group(), 16)), digits.end()


def _join_pair(match: re.Match[str]) -> str:
    high, low = ord(match.group()[0]), ord(match.group()[1])
    return chr(0x10000 + ((high - 0xD800) << 10) + (low - 0xDC00))
