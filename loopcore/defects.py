"""The slow path of decoding: find the first defect of a document, in the normative order.

Theory of operation: `parse` settles what concerns the text as a whole (path `$`) and keeps what a
common parser throws away: repeated keys and the spelling of numbers. `explain` then walks the
parsed value beside the type that is expected of it. For an object: duplicate field, unknown field,
missing field, then the values in table order, depth first; for an array its length, then its
elements. The types are read off `loopcore.models`, so a bound is stated once.

Source: spec evaluator, sections 1 and 2; RFC 8259.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Sequence
from functools import cache
from typing import NoReturn, TypeVar, cast

import msgspec
from msgspec import inspect

from loopcore.errors import InputError
from loopcore.models import DIGEST_LENGTH, Policy
from loopcore.terminals import EXTENDED_BOUNDS, REFERENCE

T = TypeVar("T", bound=msgspec.Struct)

DOCUMENT_BYTES_MAX = 2**30
NESTING_MAX = 16

_IDENTIFIER = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")
_INTEGER = re.compile(r"0|[1-9][0-9]*")
_INTEGER_DIGITS_MAX = 16
_DIGEST = re.compile(r"[0-9a-f]{64}")
# How much of an offending value is shown to a person.
_SHOWN_MAX = 60
# How much of a path is shown to a person; keys in it may be as long as the document.
_PLACE_SHOWN_MAX = 200
_CONSTANTS = ("NaN", "Infinity")
_NESTING_TOKEN = re.compile(r'"(?:[^"\\]|\\.)*"|[\[\]{}]|NaN|Infinity', re.DOTALL)
_AFTER_WHITE_SPACE = re.compile(r"[^ \t\n\r]")
_SURROGATE = re.compile(r"[\ud800-\udfff]")


class Members(list[tuple[str, object]]):
    """An object's members in document order, repeated keys included."""


class Number(str):
    """A number as it is spelled in the text."""

    __slots__ = ()


def malformed(path: str, message: str) -> InputError:
    """Return the error of a document that does not decode."""
    place = path if len(path) <= _PLACE_SHOWN_MAX else f"{path[:_PLACE_SHOWN_MAX]}…"
    return InputError("malformed", f"{place}: {message}.", path=path)


def parse(
    data: bytes, *, path: str = "$", outer_nesting: int = 0, nesting_max: int = NESTING_MAX
) -> object:
    """Return the value that a text spells, with nothing resolved that the text leaves open.

    Objects come back as `Members`, numbers as `Number`; arrays, text, booleans and null as usual.

    Arguments:
        path: where a defect of the text as a whole is reported.
        outer_nesting: containers around this text, where it is part of a larger document.
        nesting_max: how deep containers may nest.

    Raises InputError with code `malformed`; at `$` where a limit is passed.
    """
    depth_max = nesting_max - outer_nesting
    text = _decode_text(data, path)
    value, end = _scan(text, path, depth_max)
    _check_nesting(value, depth_max)
    rest = _AFTER_WHITE_SPACE.search(text, end)
    if rest is not None:
        raise malformed(path, f"more text follows the document at character {rest.start()}")
    return value


def parse_first(data: bytes) -> object:
    """Return the first value that a text spells, whatever follows it; raise as `parse` does."""
    value, _ = _scan(_decode_text(data, "$"), "$", NESTING_MAX)
    return value


def _decode_text(data: bytes, path: str) -> str:
    if len(data) > DOCUMENT_BYTES_MAX:
        raise malformed("$", f"the document is longer than {DOCUMENT_BYTES_MAX} bytes")
    try:
        text = data.decode("utf-8")
    except UnicodeDecodeError as error:
        raise malformed(path, f"not UTF-8 at byte {error.start}") from None
    if text.startswith("\ufeff"):
        raise malformed(path, "the document begins with a byte-order mark")
    return text


def _scan(text: str, path: str, depth_max: int) -> tuple[object, int]:
    """Return the value at the beginning of a text, and where it ends.

    A text is read from left to right, so nesting too deep comes before what is broken after it. In
    a whole document both are reported at `$`, so only a line of a stream has to tell them apart.
    """
    first = _AFTER_WHITE_SPACE.search(text)
    if first is None:
        raise malformed(path, "the document is empty")
    try:
        value: object
        value, end = _SCANNER.raw_decode(text, first.start())
    except RecursionError:
        raise _too_deep() from None
    except json.JSONDecodeError as error:
        if depth_max < NESTING_MAX and _nesting(text[: error.pos]) > depth_max:
            raise _too_deep() from None
        raise malformed(path, f"not JSON: {error.msg} at character {error.pos}") from None
    except _NotANumber as error:
        if depth_max < NESTING_MAX and _nesting(text) > depth_max:
            raise _too_deep() from None
        raise malformed(path, f"not JSON: {error}") from None
    return value, end


class _NotANumber(Exception):
    """A constant that Python's scanner takes and JSON does not have."""


def _refuse_constant(name: str) -> NoReturn:
    raise _NotANumber(f"{name} is not a number")


_SCANNER = json.JSONDecoder(
    object_pairs_hook=Members,
    parse_int=Number,
    parse_float=Number,
    parse_constant=_refuse_constant,
)


def _too_deep() -> InputError:
    return malformed("$", f"nesting is deeper than {NESTING_MAX}")


def _nesting(text: str) -> int:
    """Return how deep containers nest in a text, before the first constant that is no JSON."""
    depth = deepest = 0
    for match in _NESTING_TOKEN.finditer(text):
        token = match.group()
        if token in _CONSTANTS:
            break
        depth += (token in ("[", "{")) - (token in ("]", "}"))
        deepest = max(deepest, depth)
    return deepest


def check_nesting(value: object) -> None:
    """Raise InputError at `$` where containers nest deeper than in any document."""
    _check_nesting(value, NESTING_MAX)


def _check_nesting(value: object, depth_max: int) -> None:
    """Raise where containers nest deeper than `depth_max`; breadth first, so without recursion."""
    level: list[object] = [value] if _is_container(value) else []
    depth = 0
    while level:
        depth += 1
        if depth > depth_max:
            raise _too_deep()
        level = [child for item in level for child in _children(item) if _is_container(child)]


def _is_container(value: object) -> bool:
    return isinstance(value, list | tuple | dict)


def _children(container: object) -> list[object]:
    members = _members(container)
    return [child for _, child in members] if members is not None else _elements(container) or []


def _members(value: object) -> list[tuple[object, object]] | None:
    """Return the members of an object, or None for anything else."""
    if isinstance(value, Members):
        return [(key, member) for key, member in value]
    if isinstance(value, dict):
        return list(cast("dict[object, object]", value).items())
    return None


def _elements(value: object) -> list[object] | None:
    """Return the elements of an array, or None for anything else."""
    if isinstance(value, list | tuple) and not isinstance(value, Members):
        return list(cast("Sequence[object]", value))
    return None


def explain(value: object, expected: type[T], path: str) -> T:
    """Return the typed value, or raise InputError with the first defect.

    Arguments:
        value: what `parse` returned, or plain values (dicts, lists, tuples, numbers, text).
        expected: one of the structs of `loopcore.models`.
        path: JSON path of the value.
    """
    _check_nesting(value, NESTING_MAX)
    return msgspec.convert(_check(value, _type_info(expected), path), expected)


@cache
def _type_info(expected: type[msgspec.Struct]) -> inspect.Type:
    return inspect.type_info(expected)


def _check(value: object, info: inspect.Type, path: str) -> object:
    """Return the value in plain form, or raise the first defect in it."""
    if isinstance(info, inspect.UnionType):
        (bounded,) = (kind for kind in info.types if not isinstance(kind, inspect.NoneType))
        return None if value is None else _check(value, bounded, path)
    if isinstance(info, inspect.StructType):
        return _check_object(value, info, path)
    if isinstance(info, inspect.VarTupleType):
        return _check_array(value, info, path)
    if isinstance(info, inspect.IntType):
        return _check_integer(value, info, path)
    if isinstance(info, inspect.LiteralType):
        return _check_literal(value, info, path)
    if isinstance(info, inspect.StrType):
        return _check_text(value, info, path)
    raise AssertionError(f"no check for {info}")


def _check_object(value: object, info: inspect.StructType, path: str) -> dict[str, object]:
    members = _members(value)
    if members is None:
        raise malformed(path, f"expected an object, got {_describe(value)}")
    found: dict[object, object] = {}
    for key, member in members:
        if key in found:
            raise malformed(_field_path(path, key), "this field stands twice")
        found[key] = member
    names = {field.name for field in info.fields}
    for key in found:
        if key not in names:
            raise malformed(_field_path(path, key), "unknown field")
    for field in info.fields:
        if field.name not in found:
            raise malformed(_field_path(path, field.name), "this field is missing")
    return {
        field.name: _check(found[field.name], field.type, _field_path(path, field.name))
        for field in info.fields
    }


def _check_array(value: object, info: inspect.VarTupleType, path: str) -> list[object]:
    elements = _elements(value)
    if elements is None:
        raise malformed(path, f"expected an array, got {_describe(value)}")
    if info.max_length is not None and len(elements) > info.max_length:
        raise malformed(path, f"expected at most {info.max_length} elements, got {len(elements)}")
    return [
        _check(element, info.item_type, f"{path}[{index}]")
        for index, element in enumerate(elements)
    ]


def _check_integer(value: object, info: inspect.IntType, path: str) -> int:
    if isinstance(value, Number):
        if _INTEGER.fullmatch(value) is None:
            raise malformed(path, f"expected an integer, got {_shorten(value)}")
        # A number with more digits is out of range whatever they are, and not worth converting.
        number = int(value) if len(value) <= _INTEGER_DIGITS_MAX else 10**_INTEGER_DIGITS_MAX
    elif type(value) is int:
        number = value
    else:
        raise malformed(path, f"expected an integer, got {_describe(value)}")
    low, high = info.ge or 0, info.le
    if number < low or (high is not None and number > high):
        raise malformed(path, f"expected an integer from {low} to {high}, got {_describe(value)}")
    return number


def _check_literal(value: object, info: inspect.LiteralType, path: str) -> str:
    allowed = [str(name) for name in info.values]
    if not _is_text(value) or value not in allowed:
        # The type lists its values sorted; people find them so as well.
        names = " or ".join(f'"{name}"' for name in allowed)
        raise malformed(path, f"expected {names}, got {_describe(value)}")
    return str(value)


def _check_text(value: object, info: inspect.StrType, path: str) -> str:
    if not _is_text(value):
        raise malformed(path, f"expected text, got {_describe(value)}")
    text = str(value)
    if info.min_length == DIGEST_LENGTH == info.max_length:
        if _DIGEST.fullmatch(text) is None:
            wanted = f"a digest of {DIGEST_LENGTH} lowercase hexadecimal characters"
            raise malformed(path, f"expected {wanted}, got {_describe(value)}")
        return text
    low, high = info.min_length or 0, info.max_length
    if len(text) < low or (high is not None and len(text) > high):
        raise malformed(path, f"expected {low} to {high} characters, got {len(text)}")
    if _SURROGATE.search(text) is not None:
        raise malformed(path, "the text has an unpaired surrogate")
    return text


def _is_text(value: object) -> bool:
    return isinstance(value, str) and not isinstance(value, Number)


def _field_path(path: str, key: object) -> str:
    name = key if isinstance(key, str) else repr(key)
    return f"{path}.{name}" if _IDENTIFIER.fullmatch(name) else f"{path}[{json.dumps(name)}]"


def _describe(value: object) -> str:
    """Return a short ASCII description of a value for a person."""
    if value is None:
        return "null"
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, Number):
        return _shorten(value)
    if isinstance(value, str):
        return _shorten(json.dumps(value))
    if isinstance(value, Members | dict):
        return "an object"
    if isinstance(value, list | tuple):
        return "an array"
    return _shorten(str(value)) if isinstance(value, float) else f"a {type(value).__name__}"


def _shorten(text: str) -> str:
    return text if len(text) <= _SHOWN_MAX else f"{text[:_SHOWN_MAX]}… ({len(text)} characters)"


# Relations between the fields of a policy, in the order in which they are tested.
POLICY_RELATIONS: tuple[tuple[str, str, Callable[[Policy], bool]], ...] = (
    (
        "deadline_unix_ms",
        "the deadline must be after the start",
        lambda policy: policy.deadline_unix_ms > policy.started_at_unix_ms,
    ),
    *(
        (
            field,
            f"must be null under {REFERENCE}, which does not enforce it",
            lambda policy, field=field: (
                policy.evaluator_release != REFERENCE or getattr(policy, field) is None
            ),
        )
        for field in EXTENDED_BOUNDS
    ),
    (
        "cycle_repeats",
        "must be null exactly when max_cycle_length is null",
        lambda policy: (policy.cycle_repeats is None) == (policy.max_cycle_length is None),
    ),
)


def check_policy_relations(policy: Policy, path: str) -> None:
    """Raise InputError `invalid_policy` at the first field that contradicts another."""
    for field, message, holds in POLICY_RELATIONS:
        if not holds(policy):
            place = f"{path}.{field}"
            raise InputError("invalid_policy", f"{place}: {message}.", path=place)
