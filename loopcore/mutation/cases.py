"""Trace and receipt cases: a base, operators, and the exact verdict that was worked out for them.

Theory of operation: `mutations/bases.json` holds valid traces, `mutations/traces.json` the cases.
A case of form `document` or `stream` is evaluated; one of form `receipt` takes the receipt of the
unchanged base, changes the trace and the receipt apart from one another, and replays. The receipt
of a base comes from the naive model, so a fault of the evaluator cannot hide in both sides.

Verdicts are authored from the specification. Only `receipt_sha256` was filled in, by the naive
model, once it agreed with the rest.
"""

from __future__ import annotations

import io
import json
from functools import cache
from pathlib import Path
from typing import cast

import msgspec

from loopcore.decoding import decode_receipt
from loopcore.documents import evaluate_stream, evaluate_trace
from loopcore.errors import InputError
from loopcore.files import write_whole
from loopcore.models import Receipt
from loopcore.mutation.operators import Form, OperatorCall, apply, compact
from loopcore.mutation.values import DataError, Record, array, record, text, text_of
from loopcore.receipts import compare_receipts
from loopcore.results import TraceCaseResult
from loopcore.suite import suite_folder
from loopcore.testing import naive

_FILLED_IN = "receipt_sha256"
_FORMS: dict[str, Form] = {"document": "document", "stream": "stream", "receipt": "receipt"}


class TraceCase(msgspec.Struct, frozen=True, kw_only=True):
    """One case.

    Fields:
        base: a name in `bases.json`; operators: applied to its trace; receipt_operators: applied to
            the receipt of the unchanged base (form `receipt` only).
        expected: the verdict: terminal, terminal_sequence, violations, receipt_sha256; or the
            error's code, path and step; or `differing` and `self_consistent` of a replay.
        reason: why, in words; incident: number of the public incident of this kind, or None.
    """

    id: str
    base: str
    form: Form
    operators: tuple[OperatorCall, ...]
    receipt_operators: tuple[OperatorCall, ...]
    expected: Record
    reason: str
    incident: str | None


def read_data(name: str) -> object:
    """Return the value of a JSON file of `mutations`; raise DataError naming the file."""
    path = suite_folder("mutations") / name
    return read_json(path)


def read_json(path: Path) -> object:
    """Return the value of a JSON file; raise DataError naming the file."""
    try:
        return cast("object", json.loads(path.read_bytes()))
    except OSError as error:
        raise DataError(f"{path}: {error.strerror}.") from None
    except ValueError as error:
        raise DataError(f"{path}: {error}.") from None


@cache
def load_bases() -> dict[str, Record]:
    """Return the valid traces that all cases begin from, by name."""
    bases = record(read_data("bases.json"), "bases.json")
    return {name: record(record(base)["trace"]) for name, base in bases.items()}


@cache
def load_trace_cases() -> tuple[TraceCase, ...]:
    """Return all cases; raise DataError for a bad one or an id that stands twice."""
    cases = tuple(_case(record(item)) for item in array(read_data("traces.json"), "traces.json"))
    if len({case.id for case in cases}) != len(cases):
        raise DataError("traces.json: an id stands twice.")
    return cases


def _case(item: Record) -> TraceCase:
    form = text_of(item, "form")
    base = text_of(item, "base")
    if form not in _FORMS or base not in load_bases():
        raise DataError(f"traces.json: {item.get('id')} has an unknown form or base.")
    incident = item.get("incident")
    return TraceCase(
        id=text_of(item, "id"),
        base=base,
        form=_FORMS[form],
        operators=_calls(item.get("operators")),
        receipt_operators=_calls(item.get("receipt_operators", [])),
        expected=record(item.get("expected"), "expected"),
        reason=text_of(item, "reason"),
        incident=None if incident is None else text(incident),
    )


def _calls(value: object) -> tuple[OperatorCall, ...]:
    calls = (array(call) for call in array(value, "operators"))
    return tuple((text(name), record(parameters)) for name, parameters in calls)


def case_bytes(case: TraceCase) -> bytes:
    """Return the text of the changed trace."""
    form: Form = "stream" if case.form == "stream" else "document"
    return apply(load_bases()[case.base], case.operators, form)[0]


def case_receipt(case: TraceCase) -> bytes:
    """Return the text of the changed receipt, made from the naive receipt of the unchanged base."""
    base = load_bases()[case.base]
    receipt = record(naive.evaluate(base["policy"], base["steps"]).get("receipt"))
    return apply(receipt, case.receipt_operators)[0]


def reference_answer(data: bytes, form: Form) -> Record:
    """Return the reference evaluator's answer to a document or a stream, as on the wire."""
    try:
        receipt: Receipt
        receipt = evaluate_stream(io.BytesIO(data)) if form == "stream" else evaluate_trace(data)
    except InputError as error:
        return {"error": error.as_dict()}
    return {"receipt": record(msgspec.json.decode(msgspec.json.encode(receipt)))}


def reference_replay(trace: bytes, receipt: bytes) -> Record:
    """Return what `loopcore replay` finds: differing fields and self-consistency, or an error."""
    try:
        decoded = decode_receipt(receipt)
        comparison = compare_receipts(evaluate_trace(trace), decoded)
    except InputError as error:
        return {"error": error.as_dict()}
    return {
        "differing": list(comparison.differing),
        "self_consistent": comparison.self_consistent,
    }


def verdict(answer: Record, expected: Record) -> Record:
    """Return those parts of an answer that the expected verdict speaks of."""
    if "error" in answer:
        return {key: value for key, value in record(answer["error"]).items() if key != "message"}
    body = record(answer["receipt"]) if "receipt" in answer else answer
    names = expected if "code" not in expected else ("terminal", "terminal_sequence", "violations")
    return {name: body.get(name) for name in names}


def naive_answer(case: TraceCase) -> Record:
    """Return the naive model's answer to a case of form document or stream."""
    data = case_bytes(case)
    return naive.evaluate_stream(data) if case.form == "stream" else naive.evaluate_bytes(data)


def judge_trace_case(case: TraceCase) -> TraceCaseResult:
    """Return whether the reference evaluator gives a case exactly its verdict."""
    data = case_bytes(case)
    if case.form == "receipt":
        answer = reference_replay(data, case_receipt(case))
    else:
        answer = reference_answer(data, case.form)
    got = verdict(answer, case.expected)
    return TraceCaseResult(
        id=case.id,
        operator=operator_names(case),
        expected=compact(case.expected).decode(),
        got=compact(got).decode(),
        agreed=got == case.expected,
    )


def operator_names(case: TraceCase) -> str:
    """Return the names of a case's operators, in order, joined by a plus sign."""
    names = [name for name, _ in (*case.operators, *case.receipt_operators)]
    return " + ".join(names) or "none"


def main() -> None:
    """Write `traces.json` again with every `receipt_sha256` as the naive model gives it.

    Only where terminal, sequence and violations are those that were authored; else it stays away.
    """
    lines: list[bytes] = []
    for item, case in zip(array(read_data("traces.json")), load_trace_cases(), strict=True):
        authored = {name: value for name, value in case.expected.items() if name != _FILLED_IN}
        if case.form != "receipt" and "receipt" in (answer := naive_answer(case)):
            agreed = verdict(answer, authored) == authored
            digest = record(answer["receipt"])[_FILLED_IN]
            record(item)["expected"] = authored | ({_FILLED_IN: digest} if agreed else {})
        lines.append(json.dumps(item).encode())
    path = suite_folder("mutations") / "traces.json"
    write_whole(path, b"[\n" + b",\n".join(lines) + b"\n]\n")


if __name__ == "__main__":
    main()
