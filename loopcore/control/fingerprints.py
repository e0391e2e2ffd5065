"""Two values have one fingerprint exactly when the rules of equality below call them equal.

Theory of operation: a value is walked with an explicit stack into a prefix-free byte form, and the
digest of that form is its fingerprint. Equal values have one form: numbers are reduced to sign,
digits without outer zeros and exponent, as text, so no size costs more than its own digits; strings
are their UTF-16 code units; the members of an object are sorted by key. Unequal values have unequal
forms, because every part carries its kind and its length or its end.

Choices: a host float that is not finite has no JSON text; it is equal to itself only. A tuple is
an array. A host value that JSON does not have raises TypeError, a container inside itself
ValueError; no string ever raises.

Source: spec controllers, section 1.
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Iterable
from decimal import MAX_EMAX, MIN_EMIN, Context, Decimal, Inexact
from typing import cast

from loopcore.control.json_text import (
    INTEGER_DIGITS_MAX,
    JsonTextError,
    NumberText,
    parse_json,
)

# Integers below this many bits have fewer decimal digits than Python refuses to write.
_INTEGER_BITS_SMALL = 13_000

_NUMBER = re.compile(r"(-?)([0-9]+)(?:\.([0-9]+))?(?:[eE]([+-]?)0*([0-9]+))?")
# A text whose first character is none of these is not JSON, so the reader need not be asked.
_JSON_STARTS = frozenset(' \t\n\r{["-0123456789tfn')


def action_fingerprint(tool: str | None, arguments: object, volatile: Iterable[str] = ()) -> str:
    """Return the digest of a tool's name and its arguments, 64 hexadecimal digits.

    Arguments:
        tool: the name, or None when there is none.
        arguments: a JSON value, or text, which is parsed when it is JSON.
        volatile: names of object members that are left out at every depth.

    Source: spec controllers, section 1.
    """
    form: list[bytes] = [b"action:"]
    _write(form, tool, frozenset())
    _write(form, read_text(arguments), _keys(volatile))
    return hashlib.sha256(b"".join(form)).hexdigest()


def result_fingerprint(result: object, volatile: Iterable[str] = ()) -> str:
    """Return the digest of a result, 64 hexadecimal digits; arguments as `action_fingerprint`."""
    form: list[bytes] = [b"result:"]
    _write(form, read_text(result), _keys(volatile))
    return hashlib.sha256(b"".join(form)).hexdigest()


def read_text(value: object) -> object:
    """Return the value of a text that is JSON, and any other value as it is."""
    if not isinstance(value, str) or value[:1] not in _JSON_STARTS:
        return value
    try:
        return parse_json(value)
    except JsonTextError:
        return value


def number_form(text: str) -> bytes:
    """Return the one form of every text of this number: sign, digits, exponent.

    Arguments:
        text: a decimal number as JSON, `repr` of a finite float or `str` of a Decimal writes it.
    """
    match = _NUMBER.fullmatch(text)
    if match is None:
        raise ValueError(f"not a decimal number: {text[:60]!r}")
    sign, whole, fraction, exponent_sign, exponent = match.groups()
    fraction = fraction or ""
    significant = (whole + fraction).lstrip("0")
    if not significant:
        return b"0"
    digits = significant.rstrip("0")
    shift = len(significant) - len(digits) - len(fraction)
    power = _shifted((exponent_sign or "") + (exponent or "0"), shift)
    return f"{sign}{digits}e{power}".encode("ascii")


def _shifted(exponent: str, shift: int) -> str:
    """Return exponent + shift in decimal digits, for an exponent of any length."""
    if len(exponent) <= INTEGER_DIGITS_MAX:
        return str(int(exponent) + shift)
    # Decimal adds in linear time and has no limit on digits; one more digit holds the carry.
    exact = Context(prec=len(exponent) + 1, Emax=MAX_EMAX, Emin=MIN_EMIN, traps=[Inexact])
    return str(exact.add(Decimal(exponent), Decimal(shift)))


def _keys(names: Iterable[str]) -> frozenset[bytes]:
    return frozenset(_units(name) for name in names)


def _units(text: str) -> bytes:
    return text.encode("utf-16-be", "surrogatepass")


def _scalar(value: object) -> bytes | None:
    """Return the form of a scalar, None for a container."""
    match value:
        case str():
            units = _units(value)
            return b"s%d:" % len(units) + units
        case None:
            return b"z"
        case bool():
            return b"t" if value else b"f"
        case NumberText():
            return b"n" + number_form(value.text) + b";"
        case int():
            # Decimal writes integers of any size; `str` refuses those of very many digits.
            small = value.bit_length() < _INTEGER_BITS_SMALL
            return b"n" + number_form(int.__repr__(value) if small else str(Decimal(value))) + b";"
        case float():
            # `repr` of a subclass may be something else.
            text, finite = float.__repr__(value), value - value == 0
            return b"n" + (number_form(text) if finite else text.encode()) + b";"
        case Decimal():
            text = str(value)
            return b"n" + (number_form(text) if value.is_finite() else text.encode()) + b";"
        case list() | tuple() | dict():
            return None
        case _:
            raise TypeError(f"a value of type {type(value).__name__} is not JSON")


class _Mark:
    """On the stack: finished form, and the container that ends with it (0 for none)."""

    __slots__ = ("form", "identity")

    def __init__(self, form: bytes, identity: int = 0) -> None:
        self.form = form
        self.identity = identity


def _write(form: list[bytes], root: object, volatile: frozenset[bytes]) -> None:
    """Append the form of a value, of any depth, without recursion."""
    pending: list[object] = [root]
    open_containers: set[int] = set()
    while pending:
        value = pending.pop()
        if isinstance(value, _Mark):
            form.append(value.form)
            open_containers.discard(value.identity)
            continue
        scalar = _scalar(value)
        if scalar is not None:
            form.append(scalar)
            continue
        if id(value) in open_containers:
            raise ValueError("a container that contains itself is not JSON")
        open_containers.add(id(value))
        pending.append(_Mark(b"]", id(value)))
        if isinstance(value, dict):
            form.append(b"{")
            for key, item in _members(cast("dict[object, object]", value), volatile):
                pending.append(item)
                pending.append(_Mark(b"k%d:" % len(key) + key))
        else:
            form.append(b"[")
            pending.extend(reversed(cast("list[object]", value)))


def _members(value: dict[object, object], volatile: frozenset[bytes]) -> list[tuple[bytes, object]]:
    """Return the members that count, last key first; of equal keys the last one."""
    members: dict[bytes, object] = {}
    for key, item in value.items():
        if not isinstance(key, str):
            raise TypeError(f"an object's key of type {type(key).__name__} is not a string")
        members[_units(key)] = item
    kept = [member for member in members.items() if member[0] not in volatile]
    kept.sort(key=lambda member: member[0], reverse=True)
    return kept
