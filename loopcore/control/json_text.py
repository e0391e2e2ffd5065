"""JSON text is read (and written) to the letter of RFC 8259: exact numbers, any depth.

Theory of operation: the C reader of the standard library does the work where it is sound. It gives
up on deep nesting, and it cannot join a surrogate written as an escape to one that stands raw in
the text; for these a second reader with an explicit stack takes over. Numbers that `int` does not
hold exactly (fractions, exponents, minus zero) or cannot read quickly (thousands of digits) stay
text, as `NumberText`, so nothing is rounded and 10^(10^9) is never written out.

Source: RFC 8259; spec controllers, section 1.
"""

from __future__ import annotations

import json
import re
from decimal import Decimal
from typing import NoReturn, cast

import msgspec

# Python refuses to read integers of more than 4,300 digits by default; longer ones stay text.
INTEGER_DIGITS_MAX = 4_000

_SURROGATE = re.compile("[\ud800-\udfff]")
_SPACE = re.compile(r"[ \t\n\r]*")
_NUMBER = re.compile(r"-?(?:0|[1-9][0-9]*)(\.[0-9]+)?([eE][+-]?[0-9]+)?")
_INTEGER = re.compile(r"-?(?:0|[1-9][0-9]*)")
_STRING = re.compile(
    r'"[^"\\\x00-\x1f]*(?:\\(?:["\\/bfnrt]|u[0-9a-fA-F]{4})[^"\\\x00-\x1f]*)*"',
)
_LITERALS: tuple[tuple[str, bool | None], ...] = (("true", True), ("false", False), ("null", None))


class JsonTextError(ValueError):
    """The text is not JSON."""


class NumberText(msgspec.Struct, frozen=True):
    """A JSON number as it was written."""

    text: str


def parse_json(text: str) -> object:
    """Return the value of a JSON text; of equal keys in an object the last counts.

    Arguments:
        text: any string, lone surrogates included.

    Result: None, bool, int, `NumberText`, str, list or dict, nested to any depth. Strings hold a
    surrogate pair as its character.

    Errors: JsonTextError when the text is not JSON by RFC 8259 (NaN, a byte-order mark, …).
    """
    if _SURROGATE.search(text) is not None:
        return JsonReader(joined(text)).read()
    try:
        return _DECODER.decode(text)
    except RecursionError:
        return JsonReader(text).read()
    except JsonTextError:
        raise
    except ValueError as error:
        raise JsonTextError(str(error)) from error


def joined(text: str) -> str:
    """Return the text with each surrogate pair as its character; unpaired ones stay."""
    return text.encode("utf-16-be", "surrogatepass").decode("utf-16-be", "surrogatepass")


def write_json(value: object) -> str:
    """Return one line of ASCII that holds this parsed value, its numbers as they were written.

    Arguments:
        value: what `parse_json` returns; nesting costs no recursion.
    """
    parts: list[str] = []
    pending: list[object] = [value]
    while pending:
        item = pending.pop()
        if isinstance(item, _Written | NumberText):
            parts.append(item.text)
        elif isinstance(item, dict):
            members = cast("dict[str, object]", item)
            pending.append(_Written("}"))
            for index, key in reversed(list(enumerate(members))):
                separator = ", " if index else ""
                pending += [members[key], _Written(f"{separator}{json.dumps(key)}: ")]
            parts.append("{")
        elif isinstance(item, list):
            items = cast("list[object]", item)
            pending.append(_Written("]"))
            for index, member in reversed(list(enumerate(items))):
                pending += [member, _Written(", " if index else "")]
            parts.append("[")
        else:
            parts.append(json.dumps(item, allow_nan=False))
    return "".join(parts)


class _Written(msgspec.Struct, frozen=True):
    """Finished text among the values still to be written."""

    text: str


def exact_int(value: object) -> int | None:
    """Return the integer that a parsed value is, or None: neither true nor 1.0 is one."""
    if isinstance(value, NumberText):
        if _INTEGER.fullmatch(value.text) is None:
            return None
        return int(Decimal(value.text))
    return value if isinstance(value, int) and not isinstance(value, bool) else None


def _integer(text: str) -> int | NumberText:
    if len(text) > INTEGER_DIGITS_MAX or text == "-0":
        return NumberText(text)
    return int(text)


def _refuse_constant(text: str) -> NoReturn:
    raise JsonTextError(f"{text} is not JSON")


_DECODER = json.JSONDecoder(
    parse_float=NumberText, parse_int=_integer, parse_constant=_refuse_constant
)


class JsonReader:
    """Reads one text with a stack of its own, so depth costs memory and not the call stack."""

    def __init__(self, text: str) -> None:
        self._text = text
        self._position = 0

    def read(self) -> object:
        """Return the value; raise JsonTextError when the text is not exactly one JSON value."""
        containers: list[list[object] | dict[str, object]] = []
        keys: list[str] = []
        while True:
            value, opened = self._open_or_scalar()
            if opened is not None:
                containers.append(opened)
                if not self._take("]" if isinstance(opened, list) else "}"):
                    if isinstance(opened, dict):
                        keys.append(self._key())
                    continue
                value = containers.pop()
            while True:
                if not containers:
                    return self._finish(value)
                container = containers[-1]
                if isinstance(container, list):
                    container.append(value)
                    if self._take(","):
                        break
                    self._need("]")
                else:
                    # Reinsertion keeps the order of keys that of their last occurrence.
                    key = keys.pop()
                    container.pop(key, None)
                    container[key] = value
                    if self._take(","):
                        keys.append(self._key())
                        break
                    self._need("}")
                value = containers.pop()

    def _finish(self, value: object) -> object:
        self._skip_space()
        if self._position != len(self._text):
            self._fail("the end")
        return value

    def _open_or_scalar(self) -> tuple[object, list[object] | dict[str, object] | None]:
        if self._take("["):
            return None, []
        if self._take("{"):
            return None, {}
        for literal, value in _LITERALS:
            if self._text.startswith(literal, self._position):
                self._position += len(literal)
                return value, None
        if self._text.startswith('"', self._position):
            return self._string(), None
        match = _NUMBER.match(self._text, self._position)
        if match is None:
            self._fail("a value")
        self._position = match.end()
        whole = match[1] is None and match[2] is None
        return (_integer(match[0]) if whole else NumberText(match[0])), None

    def _string(self) -> str:
        match = _STRING.match(self._text, self._position)
        if match is None:
            self._fail("a string")
        self._position = match.end()
        value: object = json.loads(match[0])
        assert isinstance(value, str)
        return joined(value) if _SURROGATE.search(value) is not None else value

    def _key(self) -> str:
        self._skip_space()
        key = self._string()
        self._need(":")
        return key

    def _skip_space(self) -> None:
        match = _SPACE.match(self._text, self._position)
        if match is not None:
            self._position = match.end()

    def _take(self, character: str) -> bool:
        self._skip_space()
        if not self._text.startswith(character, self._position):
            return False
        self._position += 1
        return True

    def _need(self, character: str) -> None:
        if not self._take(character):
            self._fail(repr(character))

    def _fail(self, expected: str) -> NoReturn:
        raise JsonTextError(f"expected {expected} at character {self._position}")
