"""Conformance: a target's answers to the vectors, each agreed, disagreed or not applicable.

Theory of operation: the reference evaluator is asked through its documents and streams. A Python
target is given the document's bytes. A target behind the protocol is asked requests: the policy and
the steps are cut out of the document as they are spelled; a text that is no JSON stands where a
request should. What cannot be put to a target that way is not applicable, with the reason.
"""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Literal, NoReturn

import msgspec

from loopcore.errors import TargetError
from loopcore.mutation.cases import reference_answer
from loopcore.mutation.values import Record, record
from loopcore.mutation.vectors import Vector, load_vectors
from loopcore.testing.targets import BuiltInTarget, PythonTarget, TargetSpec

if TYPE_CHECKING:
    from loopcore.testing.contract import EvaluatorTarget, Json

_HEAD = b'{"schema":"loopcore/trace/1","policy":'
_MIDDLE = b',"steps":'


class VectorResult(msgspec.Struct, frozen=True, kw_only=True):
    """How a target answered one vector; `got` is None where it was not asked."""

    id: str
    verdict: Literal["agreed", "disagreed", "not applicable"]
    expected: Record
    got: Record | None
    reason: str


def run_vectors(
    target: EvaluatorTarget, vectors: tuple[Vector, ...] | None = None
) -> list[VectorResult]:
    """Return how a target stands to each vector (all of the file unless given), in order."""
    return [_judge(target, vector) for vector in (vectors or load_vectors())]


def short(answer: Record, expected: Record) -> Record:
    """Return an answer in the form in which a vector tells it."""
    if "receipt" in answer:
        return {"receipt_sha256": record(answer["receipt"]).get("receipt_sha256")}
    error = record(answer.get("error"))
    return {name: error.get(name) for name in ({"code", "path", "step"} | expected.keys())}


def reference_result(vector: Vector) -> VectorResult:
    """Return how the reference evaluator of this process stands to one vector.

    A vector of plain values is put to both of its doors, the document's and the values'.
    """
    form: Literal["stream", "document"] = "stream" if vector.wire == "stream" else "document"
    result = _result(vector, short(reference_answer(vector.data, form), vector.expected))
    if vector.wire != "values" or result.verdict == "disagreed":
        return result
    document: dict[str, Json] = json.loads(vector.data)
    answer = BuiltInTarget(TargetSpec()).evaluate(document["policy"], document["steps"])
    return _result(vector, short(answer, vector.expected))


def _result(vector: Vector, got: Record) -> VectorResult:
    return VectorResult(
        id=vector.id,
        verdict="agreed" if got == vector.expected else "disagreed",
        expected=vector.expected,
        got=got,
        reason=vector.reason,
    )


def _not_applicable(vector: Vector, reason: str) -> VectorResult:
    return VectorResult(
        id=vector.id, verdict="not applicable", expected=vector.expected, got=None, reason=reason
    )


def _judge(target: EvaluatorTarget, vector: Vector) -> VectorResult:
    if isinstance(target, BuiltInTarget):
        return reference_result(vector)
    if vector.wire == "stream":
        return _not_applicable(vector, "the target has no streams")
    if vector.wire == "bytes" and target.wire == "values":
        return _not_applicable(vector, "the target's JSON parser hides this damage")
    try:
        answer = _ask(target, vector)
    except TargetError as error:
        return _result(vector, {"target": error.kind})
    if answer is None:
        return _not_applicable(vector, "the target protocol has no place for this document")
    return _result(vector, short(answer, vector.expected))


def _ask(target: EvaluatorTarget, vector: Vector) -> Record | None:
    """Return the target's answer, or None where the vector cannot be put to it."""
    data = vector.data
    if vector.wire == "values":
        document: dict[str, Json] = json.loads(data)
        return target.evaluate(document["policy"], document["steps"])
    if isinstance(target, PythonTarget):
        return target.evaluate_line(data)
    if b"\n" in data:
        return None
    if not _is_json(data):
        return target.evaluate_line(data)
    parts = data.removeprefix(_HEAD).removesuffix(b"}").split(_MIDDLE)
    if len(parts) != len((_HEAD, _MIDDLE)) or not all(_is_json(part) for part in parts):
        return None
    # A request may be answered without its id where the line as a whole is refused.
    request = b'"op":"evaluate","policy":%b,"steps":%b}' % (parts[0], parts[1])
    # A number of thousands of digits is JSON, but hides the id from a reader in Python.
    identity = b'{"id":1,' if _is_readable(data) else b"{"
    return target.evaluate_line(identity + request)


def _is_readable(data: bytes) -> bool:
    """Return whether Python reads the numbers of a text that is JSON."""
    try:
        json.loads(data)
    except ValueError:
        return False
    return True


def _is_json(data: bytes) -> bool:
    """Return whether a common JSON parser takes a text."""
    try:
        json.loads(data, parse_int=str, parse_constant=_refuse)
    except (ValueError, RecursionError):
        return False
    return True


def _refuse(name: str) -> NoReturn:
    raise ValueError(name)
