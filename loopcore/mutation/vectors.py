"""Conformance vectors: input bytes and the expected answer, for evaluators in any language.

Theory of operation: the file is made from data alone. The trace cases give hand-worked verdicts;
systematic damage to every field, cuts and flipped bits of a small trace, pairs of rules on one
step, and nesting near its limit get theirs from the naive model. `wire` is the lowest level at
which the damage can be seen:

- `values`: it survives any JSON parser, so the input may be parsed first;
- `bytes`: a parser may hide or refuse it, so the document's bytes must be read;
- `stream`: the input is a `.jsonl` stream.

The first line is a header with the count and the SHA-256 of everything after that line.
`python -m loopcore.mutation.vectors` writes the file again, byte for byte.
"""

from __future__ import annotations

import base64
import json
from collections.abc import Iterator
from functools import cache
from hashlib import sha256
from itertools import combinations
from typing import Literal

import msgspec

from loopcore.files import write_whole
from loopcore.mutation.cases import case_bytes, load_bases, load_trace_cases, operator_names
from loopcore.mutation.operators import Form, OperatorCall, apply, compact
from loopcore.mutation.values import (
    DataError,
    Record,
    is_array,
    is_record,
    number,
    policy_of,
    record,
    steps_of,
)
from loopcore.suite import suite_folder
from loopcore.testing import naive

SCHEMA = "loopcore/vectors/1"
FILE = "vectors/loopcore-vectors-1.jsonl"
VERSION = 1
# A case with a longer input stays out, so that the file stays small.
_INPUT_BYTES_MAX = 9_000
_CUTS = 24
_FLIPS = 64
_SAFE_INTEGER_MAX = 2**53

Wire = Literal["bytes", "values", "stream"]


class Vector(msgspec.Struct, frozen=True, kw_only=True):
    """One vector, as it stands on its line.

    Fields:
        expected: `receipt_sha256`, or `code`, `path` and `step` (and the terminal already reached).
        operator: how the input was made; reason: why the answer is right, in words.
    """

    id: str
    wire: Wire
    input_base64: str
    expected: Record
    operator: str
    reason: str
    incident: str | None

    @property
    def data(self) -> bytes:
        """The input."""
        return base64.b64decode(self.input_base64)


def _expected(data: bytes, form: Form) -> Record:
    """Return the naive model's answer in the short form of a vector."""
    answer = naive.evaluate_stream(data) if form == "stream" else naive.evaluate_bytes(data)
    if "receipt" in answer:
        return {"receipt_sha256": record(answer["receipt"])["receipt_sha256"]}
    return {key: value for key, value in record(answer["error"]).items() if key != "message"}


def _wire(data: bytes, document: Record | None, form: Form, expected: Record) -> Wire:
    if form == "stream":
        return "stream"
    framed = document is not None and list(document) == ["schema", "policy", "steps"]
    if document is None or not framed or expected.get("path") == "$":
        return "bytes"
    plain = document["schema"] == "loopcore/trace/1" and not _is_fragile(document)
    return "values" if plain and json.loads(data) == document else "bytes"


def _is_fragile(value: object) -> bool:
    """Return whether some JSON parser would change a value: fractions, huge numbers, surrogates."""
    if is_record(value):
        return any(_is_fragile(item) for pair in value.items() for item in pair)
    if is_array(value):
        return any(_is_fragile(item) for item in value)
    if isinstance(value, str):
        return not value.isascii() and any("\ud800" <= mark <= "\udfff" for mark in value)
    return isinstance(value, float) or (type(value) is int and abs(value) > _SAFE_INTEGER_MAX)


def _vector(
    name: str,
    base: str,
    calls: tuple[OperatorCall, ...],
    reason: str,
    form: Form = "document",
) -> Vector:
    data, document = apply(load_bases()[base], calls, form)
    expected = _expected(data, form)
    return Vector(
        id=name,
        wire=_wire(data, document, form, expected),
        input_base64=base64.b64encode(data).decode(),
        expected=expected,
        operator=" + ".join(call for call, _ in calls) or "none",
        reason=reason,
        incident=None,
    )


def _of_cases() -> Iterator[Vector]:
    """Yield the hand-worked trace cases whose input is small."""
    for case in load_trace_cases():
        if case.form == "receipt":
            continue
        data = case_bytes(case)
        if len(data) > _INPUT_BYTES_MAX:
            continue
        told = case.expected
        short = {"receipt_sha256": told["receipt_sha256"]} if "receipt_sha256" in told else told
        document = apply(load_bases()[case.base], case.operators)[1]
        yield Vector(
            id=case.id,
            wire=_wire(data, document, case.form, short),
            input_base64=base64.b64encode(data).decode(),
            expected=short,
            operator=operator_names(case),
            reason=case.reason,
            incident=case.incident,
        )


# Values that are put in the place of every field, with what is wrong about each.
_WRONG_VALUES: tuple[tuple[str, object, str], ...] = (
    ("null", None, "null where a value is due, unless the field may be null"),
    ("true", True, "a boolean is no integer and no text"),
    ("text", "1", "text is no integer, and this text is no digest and no known name"),
    ("minus-one", -1, "there are no negative integers"),
    ("too-large", 2**53, "2^53 is out of range"),
    ("array", [], "an empty array, which only evidence and steps may be"),
)


def _of_fields() -> Iterator[Vector]:
    """Yield damage to every field of a small trace: missing, twice, and of every wrong type."""
    base = load_bases()["one"]
    in_policy: list[object] = ["policy"]
    in_step: list[object] = ["steps", 0]
    places: list[tuple[list[object], str]] = [([], name) for name in base]
    places += [(in_policy, name) for name in policy_of(base)]
    places += [(in_step, name) for name in steps_of(base)[0]]
    for parent, name in places:
        path: list[object] = [*parent, name]
        label = "one." + ".".join(str(part) for part in path)
        missing: Record = {"path": path}
        yield _vector(f"{label}.missing", "one", (("remove", missing),), "a required field")
        key: Record = {"key": name}
        twice = (("duplicate-key", key),)
        yield _vector(f"{label}.twice", "one", twice, "the key's first place in the text repeats")
        for what, value, reason in _WRONG_VALUES:
            calls: tuple[OperatorCall, ...] = (("set", {"path": path, "value": value}),)
            yield _vector(f"{label}.{what}", "one", calls, reason)


def _of_texts() -> Iterator[Vector]:
    """Yield a small trace cut at evenly spread places, and with single bits flipped."""
    forms: tuple[Form, ...] = ("document", "stream")
    for form in forms:
        size = len(apply(load_bases()["one"], (), form)[0])
        for index in range(_CUTS):
            keep: Record = {"keep": index * size // _CUTS}
            cut = (("truncate", keep),)
            yield _vector(f"one.{form}.cut-{index}", "one", cut, "cut in the middle", form)
        for index in range(_FLIPS):
            # A stride that is prime to the size of the text, so that all parts of it are met.
            place: Record = {"offset": index * 7_919 % size, "bit": index % 8}
            flip = (("flip-bit", place),)
            yield _vector(f"one.{form}.flip-{index}", "one", flip, "one bit differs", form)


def _rule(name: str, field: str, value: object) -> tuple[str, OperatorCall]:
    return name, ("set-policy", {"field": field, "value": value})


# One change for each rule that can be made to fire on the first step of the base `one`, under the
# extended release.
_RULES: tuple[tuple[str, OperatorCall], ...] = (
    ("deadline", ("deadline-to-step", {"step": 0})),
    _rule("model-calls", "max_model_calls", 0),
    _rule("cost", "max_cost_microunits", 99),
    _rule("input-tokens", "max_input_tokens", 999),
    _rule("output-tokens", "max_output_tokens", 199),
    _rule("evidence", "max_evidence_receipts", 0),
    ("indeterminate", ("set-step", {"step": 0, "field": "outcome", "value": "indeterminate"})),
    ("idle", ("stall", {"step": 0})),
)


def _of_pairs() -> Iterator[Vector]:
    """Yield every pair and triple of rules that fire on one step."""
    extended: OperatorCall = (
        "set-policy",
        {"field": "evaluator_release", "value": "loopcore-extended/1"},
    )
    idle_at_once: OperatorCall = (
        "set-policy",
        {"field": "max_consecutive_no_progress", "value": 1},
    )
    for size in (1, 2, 3):
        for rules in combinations(_RULES, size):
            name = "rules." + "+".join(rule for rule, _ in rules)
            calls = (extended, idle_at_once, *(call for _, call in rules))
            yield _vector(name, "one", calls, "the first rule of the table wins, all are listed")


# What stands where a step line of a stream should, or a member of a document: a name, the text, and
# what is wrong about it. A step line lies in two containers, so fourteen more are the limit.
_NESTED: tuple[tuple[str, str, str], ...] = (
    ("14-cut", "[" * 14, "as deep as it may be, and cut: a line that is no JSON"),
    ("15-cut", "[" * 15, "the limit of nesting is passed before the text is cut"),
    ("15-objects-cut", '{"a":' * 15, "the limit is passed by objects before the text is cut"),
    ("15-closed-cut", "[" * 15 + "]" * 15 + "x", "the limit is passed, then the text is broken"),
    ("cut-then-15", "x" + "[" * 15, "the text is broken before the limit is passed"),
    ("pairs-cut", "[" + "[]," * 20 + "x", "many containers beside each other are not deep"),
    ("text-cut", '["' + "[" * 20 + '",x', "brackets in a text are no containers"),
    ("14-constant", "[" * 14 + "NaN" + "]" * 14, "a constant that is no JSON, at the limit"),
    ("15-constant", "[" * 15 + "NaN" + "]" * 15, "the limit is passed before the constant"),
    ("constant-15", "[NaN," + "[" * 14 + "]" * 15, "the constant stands before the limit"),
    ("constant-pairs", "[" + "[]," * 20 + "NaN]", "a constant after many flat containers"),
    ("14", "[" * 14 + "]" * 14, "as deep as it may be, and no step"),
    ("15", "[" * 15 + "]" * 15, "the limit of nesting is passed"),
)


def _of_nesting() -> Iterator[Vector]:
    """Yield streams and documents at the limit of nesting, broken before or after it."""
    base = load_bases()["one"]
    forms: tuple[Form, ...] = ("stream", "document")
    for form in forms:
        for name, text, reason in _NESTED:
            if form == "stream":
                header = {"schema": base["schema"], "policy": base["policy"]}
                data = compact(header) + b"\n" + text.encode() + b"\n"
            else:
                data = b'{"schema":"loopcore/trace/1","policy":0,"steps":[%b]}' % text.encode()
            yield Vector(
                id=f"nested.{form}.{name}",
                wire="stream" if form == "stream" else "bytes",
                input_base64=base64.b64encode(data).decode(),
                expected=_expected(data, form),
                operator="nesting",
                reason=reason,
                incident=None,
            )


def generate() -> tuple[Vector, ...]:
    """Return all vectors, in the order of the file; raise DataError when an id stands twice."""
    vectors = (*_of_cases(), *_of_fields(), *_of_texts(), *_of_pairs(), *_of_nesting())
    if len({vector.id for vector in vectors}) != len(vectors):
        raise DataError("an id of a vector stands twice.")
    return vectors


def spelled() -> bytes:
    """Return the whole text of the file."""
    vectors = generate()
    body = b"".join(compact(msgspec.to_builtins(vector)) + b"\n" for vector in vectors)
    header = {
        "schema": SCHEMA,
        "version": VERSION,
        "count": len(vectors),
        "sha256": sha256(body).hexdigest(),
    }
    return compact(header) + b"\n" + body


@cache
def load_vectors() -> tuple[Vector, ...]:
    """Return the vectors of the file; raise DataError when it is not what its header says."""
    path = suite_folder("mutations") / FILE
    head, _, body = path.read_bytes().partition(b"\n")
    header = record(json.loads(head), "the header of the vectors")
    if header.get("schema") != SCHEMA or header.get("sha256") != sha256(body).hexdigest():
        raise DataError(f"{path}: the header does not fit the vectors after it.")
    decoder = msgspec.json.Decoder(Vector)
    vectors = tuple(decoder.decode(line) for line in body.splitlines())
    if len(vectors) != number(header.get("count")):
        raise DataError(f"{path}: {header.get('count')} vectors are due, {len(vectors)} stand.")
    return vectors


def main() -> None:
    """Write the file again."""
    write_whole(suite_folder("mutations") / FILE, spelled())


if __name__ == "__main__":
    main()
