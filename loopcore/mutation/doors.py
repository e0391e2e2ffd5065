"""The judge of the doors: every other way into the evaluator comes to the answer of a document.

Theory of operation: properties and vectors go in through documents, plain values, streams and
request lines. A program that embeds the evaluator also takes single steps, asks for a receipt of
decoded values, replays one, and reads what standard input holds. Over the valid bases each of
these is compared with the naive model; limits that no small input reaches are lowered meanwhile.
"""

from __future__ import annotations

import io
import json
from collections.abc import Iterator
from typing import cast

import msgspec

from loopcore import decoding, defects
from loopcore.canonical import canonical
from loopcore.decoding import DecodedTrace, decode_trace
from loopcore.documents import evaluate_source, evaluate_trace
from loopcore.errors import InputError
from loopcore.evaluator import evaluate, start
from loopcore.models import Receipt
from loopcore.mutation.cases import load_bases
from loopcore.mutation.operators import compact
from loopcore.mutation.values import Record, policy_of, record, steps_of
from loopcore.receipts import verify_receipt
from loopcore.serving import answer
from loopcore.testing import naive
from loopcore.testing.contract import Json
from loopcore.testing.targets import BuiltInTarget, TargetSpec

_DEEP = 20
_LIMIT = "DOCUMENT_BYTES_MAX"


def door_findings() -> Iterator[str | None]:
    """Yield for every door and base what is wrong, or None."""
    for name, base in load_bases().items():
        due = naive.evaluate(base["policy"], base["steps"])
        if "receipt" not in due:
            continue
        receipt = record(due["receipt"])
        data = compact(base)
        trace = decode_trace(data)
        for finding in (
            _of_values(trace, receipt),
            _of_steps(trace, receipt),
            _of_replay(trace, receipt),
            *_of_sources(base, data),
        ):
            yield None if finding is None else f"base {name}: {finding}"
    yield from _of_size(compact(load_bases()["one"]))
    yield from _of_nesting()


def _of_values(trace: DecodedTrace, due: Record) -> str | None:
    got: object = json.loads(canonical(evaluate(trace.policy, trace.steps)))
    return None if got == due else "evaluate gives another receipt without the digest of the steps"


def _of_steps(trace: DecodedTrace, due: Record) -> str | None:
    """Return what is wrong with a run that takes one step at a time, or None."""
    run = start(trace.policy)
    if run.violations:
        return f"a new run has violations already: {', '.join(run.violations)}"
    for step in trace.steps:
        said = run.advance(step)
        if said != run.terminal:
            return f"advance says {said}, and the run says {run.terminal}"
    if (run.terminal or "input_exhausted") != due["terminal"]:
        return f"the run ends with {run.terminal}"
    return None


def _of_replay(trace: DecodedTrace, due: Record) -> str | None:
    """Return what is wrong with the replay of a right and of a changed receipt, or None."""
    receipt = msgspec.convert(due, Receipt)
    same = verify_receipt(trace.policy, trace.steps, receipt)
    if same.differing or not same.self_consistent:
        return f"a right receipt differs in {same.differing}"
    changed = msgspec.structs.replace(receipt, ended_at_unix_ms=receipt.ended_at_unix_ms + 1)
    other = verify_receipt(trace.policy, trace.steps, changed)
    if other.differing != ("ended_at_unix_ms",) or other.self_consistent:
        return f"a receipt with another end differs in {other.differing}"
    return None


def _of_sources(base: Record, data: bytes) -> Iterator[str | None]:
    """Yield what is wrong with a text that standard input may hold, or None."""
    header = {"schema": base["schema"], "policy": base["policy"]}
    lines = b"".join(compact(step) + b"\n" for step in steps_of(base))
    stream = compact(header) + b"\n" + lines
    broken = json.dumps(header, indent=1).encode() + b"\n" + lines
    spread = json.dumps(base, indent=1).encode()
    for text, is_stream in ((data, False), (spread, False), (stream, True), (broken, True)):
        due = naive.evaluate_stream(text) if is_stream else naive.evaluate_bytes(text)
        wanted = _short(due)
        try:
            got = _short({"receipt": msgspec.to_builtins(evaluate_source(io.BytesIO(text)))})
        except InputError as error:
            got = _short({"error": error.as_dict()})
        yield None if got == wanted else f"standard input gives {got}, and {wanted} is due"


def _short(given: Record) -> object:
    if "receipt" in given:
        return record(given["receipt"])["receipt_sha256"]
    error = record(given["error"])
    return error["code"], error.get("path"), error.get("step")


def _of_size(data: bytes) -> Iterator[str | None]:
    """Yield whether a document of just the longest length is taken, and one byte more refused."""
    # An escape sends a text to the slow path, which has a test of its own.
    for text in (canonical(json.loads(data)), data.replace(b'"schema"', b'"\\u0073chema"', 1)):
        for room, is_taken in ((0, True), (-1, False)):
            yield _size_finding(text, len(text) + room, is_taken=is_taken)


def _size_finding(text: bytes, size: int, *, is_taken: bool) -> str | None:
    own = defects.DOCUMENT_BYTES_MAX
    try:
        # A document of a gigabyte takes too long, so the limit is lowered where it is read.
        for module in (decoding, defects):
            setattr(module, _LIMIT, size)
        evaluate_trace(text)
    except InputError as error:
        refused = error.code == "malformed" and error.path == "$"
        return None if refused and not is_taken else f"a text of {len(text)} bytes: {error}"
    finally:
        for module in (decoding, defects):
            setattr(module, _LIMIT, own)
    return None if is_taken else f"{len(text)} bytes are taken where {size} are the limit"


def _of_nesting() -> Iterator[str | None]:
    """Yield whether values, and members that no request has, are refused where they are deep."""
    deep: Json = 0
    for _ in range(_DEEP):
        deep = [deep]
    base = load_bases()["one"]
    target = BuiltInTarget(TargetSpec())
    steps = cast("Json", steps_of(base))
    policy = cast("Json", policy_of(base))
    for values in ((deep, steps), (policy, deep), (policy, [deep])):
        got, due = _short(target.evaluate(*values)), _short(naive.evaluate(*values))
        yield None if got == due else f"deep values give {got}, and {due} is due"
    line = b'{"id":1,"op":"describe","more":%b}' % json.dumps(deep).encode()
    said = record(json.loads(answer(line)))
    fits = "error" in said and _short(said) == ("malformed", "$", None)
    yield None if fits else f"a deep request gives {said}"
