"""The wire shapes of the naive second model, and the order in which their defects are reported.

Rule: a shape is a function of a value and its path that answers the plain value or raises the
first defect. It accepts what the strict parser of this package produces and plain Python values
alike, by exact type, so that `True` is no integer and a tuple is no array.

Theory of operation: each table below lists its fields in the order of the specification's tables.
For an object the repeated, unknown and missing fields come first, then the values in table order,
depth first; for an array the length comes first, then the elements.

Choices: those of `loopcore.testing.naive`, which are listed there.
Source: spec evaluator, sections 1 and 2.
"""

import hashlib
import json
import re
from collections.abc import Callable
from typing import TypeGuard

from loopcore.testing.naive_json import NESTING_MAX, Members, TextDefect, parse

Record = dict[str, object]
Shape = Callable[[object, str], object]

INTEGER_MAX = 2**53 - 1
STEPS_MAX = 1_000_000
EVIDENCE_MAX = 64
POLICY_ID_MAX = 128
DIGEST_LENGTH = 64
DOCUMENT_BYTES_MAX = 2**30
LINE_BYTES_MAX = 65_536

RELEASES = ("loopcore-reference/1", "loopcore-extended/1")
KINDS = ("model_generation", "tool_call", "verification", "repair", "finish", "wait")


class Defect(Exception):
    """The error object of section 2, on its way to the one place that answers it."""

    def __init__(self, code: str, path: str | None, step: int | None, message: str) -> None:
        super().__init__(message)
        self.wire: Record = {"code": code, "path": path, "step": step, "message": message}


def malformed(path: str, message: str) -> Defect:
    """The error of a value that does not decode; the caller raises it."""
    return Defect("malformed", path, None, f"{path}: {message}")


# --- shapes: each answers the plain value, or raises the first defect at its path ---------------


def is_array(value: object) -> TypeGuard[list[object]]:
    """Whether `value` is exactly a list."""
    return type(value) is list


def is_object(value: object) -> TypeGuard[dict[object, object]]:
    """Whether `value` is exactly a dict, whatever its keys."""
    return type(value) is dict


def whole(low: int = 0, high: int = INTEGER_MAX) -> Shape:
    """The shape of an integer in `low` to `high`."""

    def check(value: object, path: str) -> object:
        if type(value) is not int or not low <= value <= high:
            raise malformed(path, f"an integer from {low} to {high} was expected.")
        return value

    return check


def text(low: int, high: int) -> Shape:
    """The shape of a string of `low` to `high` code points without surrogates."""

    def check(value: object, path: str) -> object:
        if type(value) is not str or not low <= len(value) <= high:
            raise malformed(path, f"a string of {low} to {high} characters was expected.")
        if any("\ud800" <= character <= "\udfff" for character in value):
            raise malformed(path, "the string has an unpaired surrogate.")
        return value

    return check


def one_of(*allowed: str) -> Shape:
    """The shape of a string that is one of `allowed`."""

    def check(value: object, path: str) -> object:
        if type(value) is not str or value not in allowed:
            raise malformed(path, "expected one of " + ", ".join(allowed) + ".")
        return value

    return check


def digest(value: object, path: str) -> object:
    """The shape of a SHA-256 in lowercase hexadecimal."""
    if (
        type(value) is not str
        or len(value) != DIGEST_LENGTH
        or not set(value) <= set("0123456789abcdef")
    ):
        raise malformed(path, "64 lowercase hexadecimal characters were expected.")
    return value


def or_null(shape: Shape) -> Shape:
    """The shape of null, or else of `shape`."""
    return lambda value, path: None if value is None else shape(value, path)


def array(shape: Shape, length_max: int | None) -> Shape:
    """The shape of an array of at most `length_max` elements (None: any number) of `shape`."""

    def check(value: object, path: str) -> object:
        if not is_array(value):
            raise malformed(path, "an array was expected.")
        if length_max is not None and len(value) > length_max:
            raise malformed(path, f"an array of at most {length_max} elements was expected.")
        return [shape(element, f"{path}[{index}]") for index, element in enumerate(value)]

    return check


def _member(path: str, key: str) -> str:
    if re.fullmatch("[A-Za-z_][A-Za-z0-9_]*", key):
        return f"{path}.{key}"
    return f"{path}[{json.dumps(key, ensure_ascii=True)}]"


def record(fields: dict[str, Shape]) -> Shape:
    """The shape of an object that has exactly `fields`, each once."""

    def check(value: object, path: str) -> object:
        pairs: list[tuple[object, object]]
        if isinstance(value, Members):
            pairs = list(value.pairs)
        elif is_object(value):
            pairs = list(value.items())
        else:
            raise malformed(path, "an object was expected.")
        found: Record = {}
        repeated: list[str] = []
        for key, member in pairs:
            if type(key) is not str:
                raise malformed(path, "an object with string keys was expected.")
            if key in found:
                repeated.append(key)
            found[key] = member
        for key in repeated:
            raise malformed(_member(path, key), "the field stands twice.")
        for key in found:
            if key not in fields:
                raise malformed(_member(path, key), "the field is unknown.")
        for key in fields:
            if key not in found:
                raise malformed(_member(path, key), "the field is missing.")
        return {key: shape(found[key], _member(path, key)) for key, shape in fields.items()}

    return check


POLICY = record(
    {
        "schema": one_of("loopcore/policy/1"),
        "policy_id": text(1, POLICY_ID_MAX),
        "evaluator_release": one_of(*RELEASES),
        "run_envelope_sha256": digest,
        "behavior_spec_sha256": digest,
        "initial_state_sha256": digest,
        "started_at_unix_ms": whole(),
        "deadline_unix_ms": whole(),
        "max_steps": whole(1),
        "max_model_calls": whole(),
        "max_tool_calls": whole(),
        "max_repairs": whole(),
        "max_cost_microunits": whole(),
        "max_consecutive_no_progress": whole(1),
        "max_consecutive_repeated_actions": whole(2),
        "max_input_tokens": or_null(whole()),
        "max_output_tokens": or_null(whole()),
        "max_evidence_receipts": or_null(whole()),
        "max_cycle_length": or_null(whole(2, 16)),
        "cycle_repeats": or_null(whole(2, 8)),
    }
)

STEP = record(
    {
        "sequence": whole(),
        "action_kind": one_of(*KINDS),
        "action_sha256": digest,
        "state_before_sha256": digest,
        "state_after_sha256": digest,
        "new_evidence_receipt_sha256": array(digest, EVIDENCE_MAX),
        "outcome": one_of("succeeded", "failed", "indeterminate"),
        "completed_at_unix_ms": whole(),
        "model_calls_delta": whole(),
        "tool_calls_delta": whole(),
        "repairs_delta": whole(),
        "cost_microunits_delta": whole(),
        "input_tokens_delta": whole(),
        "output_tokens_delta": whole(),
        "completion_receipt_sha256": or_null(digest),
    }
)

STEPS = array(STEP, STEPS_MAX)
SCHEMA = one_of("loopcore/trace/1")
REQUEST = record({"policy": POLICY, "steps": STEPS})
TRACE = record({"schema": SCHEMA, "policy": POLICY, "steps": STEPS})
HEADER = record({"schema": SCHEMA, "policy": POLICY})


# --- the canonical form --------------------------------------------------------------------------


def canonical(value: object) -> bytes:
    """The RFC 8785 bytes of a value that has ASCII keys and no floating-point number."""
    text = json.dumps(value, sort_keys=True, separators=(",", ":"), ensure_ascii=False)
    return text.encode("utf-8")


def digest_of(value: object) -> str:
    """The lowercase hexadecimal SHA-256 of the canonical bytes of `value`."""
    return hashlib.sha256(canonical(value)).hexdigest()


# --- the three ways in: values, a document, a stream --------------------------------------------


def decode_values(policy: object, steps: object) -> tuple[Record, list[Record]]:
    """The policy and the steps as plain values; raises Defect."""
    if _is_deeper(policy, NESTING_MAX - 1) or _is_deeper(steps, NESTING_MAX - 1):
        raise malformed("$", f"containers are nested deeper than {NESTING_MAX}.")
    return _parts(REQUEST({"policy": policy, "steps": steps}, "$"))


def decode_document(data: bytes) -> tuple[Record, list[Record]]:
    """The policy and the steps of a trace document; raises Defect."""
    if len(data) > DOCUMENT_BYTES_MAX:
        raise malformed("$", f"the document is longer than {DOCUMENT_BYTES_MAX} bytes.")
    try:
        document = parse(data)
    except TextDefect as defect:
        raise malformed("$", defect.reason) from None
    return _parts(TRACE(document, "$"))


def decode_stream(data: bytes) -> tuple[Record, list[Record]]:
    """The policy and the steps of a stream, its header line and step lines; raises Defect."""
    lines = data.split(b"\n")
    # What stands behind the last line's end is no line, but an empty input has one bad line.
    if len(lines) > 1 and lines[-1] == b"":
        del lines[-1]
    values: list[object] = []
    for number, line in enumerate(lines):
        if len(line) > LINE_BYTES_MAX:
            raise malformed("$", f"line {number + 1} is longer than {LINE_BYTES_MAX} bytes.")
        try:
            # A step stands inside the document and inside its array of steps.
            values.append(parse(line, outer_containers=0 if number == 0 else 2))
        except TextDefect as defect:
            path = "$" if number == 0 or defect.is_limit else f"$.steps[{number - 1}]"
            raise malformed(path, defect.reason) from None
    header = HEADER(values[0], "$")
    return _parts(header, STEPS(values[1:], "$.steps"))


def _parts(document: object, steps: object = None) -> tuple[Record, list[Record]]:
    """The checked policy and steps of a checked document, or of a checked header and its steps."""
    trace = as_record(document)
    found = trace["steps"] if steps is None else steps
    assert is_array(found)
    return as_record(trace["policy"]), [as_record(step) for step in found]


def as_record(value: object) -> Record:
    """`value`, which a record shape has answered, as its type."""
    assert is_object(value)
    return {str(key): member for key, member in value.items()}


def _is_deeper(value: object, levels: int) -> bool:
    """Whether `value` nests more than `levels` containers."""
    if is_object(value):
        inner = list(value.values())
    elif is_array(value):
        inner = value
    else:
        return False
    return levels == 0 or any(_is_deeper(element, levels - 1) for element in inner)
