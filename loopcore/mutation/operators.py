"""Named, composable operators: a list of [name, parameters] turns a valid document into another.

Theory of operation: *value* operators work on the document as plain JSON, *text* operators on its
bytes. A list runs from left to right; at the first text operator the value is written down, after
which value operators are refused. So a case is a base, a list and a verdict, all of them data, and
the same list serves the trace cases, the conformance vectors and the generated tests.
"""

from __future__ import annotations

import copy
import json
import unicodedata
from collections.abc import Callable, Sequence
from typing import Literal

from loopcore.mutation.run_operators import RUN_OPERATORS
from loopcore.mutation.step_operators import STEP_OPERATORS
from loopcore.mutation.text_operators import TEXT_OPERATORS
from loopcore.mutation.values import (
    DataError,
    Parameters,
    Record,
    array,
    is_array,
    is_record,
    number_of,
    policy_of,
    record,
    steps_of,
    text,
    text_of,
)
from loopcore.testing.naive_wire import digest_of

Form = Literal["document", "stream", "receipt"]
ValueOperator = Callable[[Record, Parameters], None]
OperatorCall = tuple[str, Parameters]


def _parent(document: Record, parameters: Parameters) -> tuple[Record | list[object], object]:
    """Return the container that a `path` leads into, and the last key or index of the path."""
    path = array(parameters.get("path"), "the parameter path")
    place: object = document
    for key in path[:-1]:
        inside = place[key] if is_array(place) and isinstance(key, int) else None
        place = record(place)[text(key)] if inside is None else inside
    return place if is_array(place) else record(place), path[-1]


def _set(document: Record, parameters: Parameters) -> None:
    """Put a value at a path of the document, whatever stood there."""
    place, key = _parent(document, parameters)
    value = copy.deepcopy(parameters["value"])
    if isinstance(place, list) and isinstance(key, int):
        place[key] = value
    else:
        record(place)[text(key)] = value


def _remove(document: Record, parameters: Parameters) -> None:
    """Take the member at a path out of the document."""
    place, key = _parent(document, parameters)
    del record(place)[text(key)]


def _reorder_keys(document: Record, parameters: Parameters) -> None:
    """Turn the order of all keys round, at every depth; the value stays the same."""
    del parameters
    turned = record(_turned(document))
    document.clear()
    document.update(turned)


def _turned(value: object) -> object:
    if is_record(value):
        members = list(value.items())
        return {key: _turned(member) for key, member in reversed(members)}
    if is_array(value):
        return [_turned(element) for element in value]
    return value


def _nest(document: Record, parameters: Parameters) -> None:
    """Put `depth` arrays, one in another, at a path; the document itself is the first container."""
    value: object = []
    for _ in range(number_of(parameters, "depth") - 1):
        value = [value]
    _set(document, {"path": parameters["path"], "value": value})


def _normalise_name(document: Record, parameters: Parameters) -> None:
    """Spell the policy's name, given as `name`, in a Unicode normal form."""
    form = text_of(parameters, "form")
    if form not in ("NFC", "NFD"):
        raise DataError(f"there is no normal form {form} here.")
    name = text_of(parameters, "name")
    policy_of(document)["policy_id"] = unicodedata.normalize(
        "NFC" if form == "NFC" else "NFD", name
    )


def _re_digest(document: Record, parameters: Parameters) -> None:
    """Give a receipt that was tampered with the digest of its new content."""
    del parameters
    body = {key: value for key, value in document.items() if key != "receipt_sha256"}
    document["receipt_sha256"] = digest_of(body)


VALUE_OPERATORS: dict[str, ValueOperator] = {
    **STEP_OPERATORS,
    **RUN_OPERATORS,
    "re-digest": _re_digest,
    "set": _set,
    "remove": _remove,
    "reorder-keys": _reorder_keys,
    "nest": _nest,
    "unicode-normal-form": _normalise_name,
}


def compact(value: object) -> bytes:
    """Return a value as JSON text without white space, keys in the order in which they stand.

    Unpaired surrogates come out as escapes, since they have no bytes of their own.
    """
    written = json.dumps(value, ensure_ascii=False, separators=(",", ":"))
    try:
        return written.encode()
    except UnicodeEncodeError:
        return json.dumps(value, separators=(",", ":")).encode()


def write(document: Record, form: Form) -> bytes:
    """Return the text of a document: one JSON text, or the lines of a stream."""
    if form != "stream":
        return compact(document)
    header = {key: value for key, value in document.items() if key != "steps"}
    lines = [header, *steps_of(document)]
    return b"".join(compact(line) + b"\n" for line in lines)


def apply(
    base: Record, calls: Sequence[OperatorCall], form: Form = "document"
) -> tuple[bytes, Record | None]:
    """Return the text after all operators, and its value where no text operator took part.

    Arguments:
        base: a valid document, which is left as it is.
        calls: names with parameters, from left to right.

    Raises DataError for an unknown name, bad parameters, or a value operator after a text operator.
    """
    document = copy.deepcopy(base)
    data: bytes | None = None
    for name, parameters in calls:
        if name in TEXT_OPERATORS:
            data = TEXT_OPERATORS[name](write(document, form) if data is None else data, parameters)
        elif name not in VALUE_OPERATORS:
            raise DataError(f"there is no operator {name}.")
        elif data is not None:
            raise DataError(f"the operator {name} works on values, so it comes before all others.")
        else:
            try:
                VALUE_OPERATORS[name](document, parameters)
            except (KeyError, IndexError) as error:
                raise DataError(f"the operator {name} lacks {error}.") from None
    return (write(document, form), document) if data is None else (data, None)
