"""E15: whatever comes in, a receipt or a typed error goes out."""

from __future__ import annotations

import json
from typing import cast

from hypothesis import strategies as st
from hypothesis.strategies import DrawFn, SearchStrategy

from loopcore.errors import UsageError
from loopcore.testing.checks.verdicts import evaluate, judged, part, shown, spell
from loopcore.testing.children import ANSWER_MEMORY_BYTES_MAX, TargetChild
from loopcore.testing.contract import Case, EvaluatorTarget, Judgement, Property
from loopcore.testing.damage import as_base64, damaged_texts, document, from_base64
from loopcore.testing.defective import STEP_CODES
from loopcore.testing.naive import RECEIPT
from loopcore.testing.naive_wire import INTEGER_MAX, RELEASES, Defect, Record, as_record
from loopcore.testing.steering import fire
from loopcore.testing.strategies import defective_traces, list_of, traces

_ODD: tuple[object, ...] = cast("tuple[object, ...]", (None, True, 0, "", [], {}, [[]], [None]))
_DOCUMENT_CODES = ("malformed", "invalid_policy")
_LEAVES_MAX = 8
_LINE_BYTES_MAX = 200
_DEEP = 100_000
# Too deep for some readers of JSON, and not for others.
_DEEP_FOR_SOME = 2_000
_EVIDENCE = "new_evidence_receipt_sha256"
_TOO_MANY = [f"{number:064x}" for number in range(65)]
_LONG = 70_000


def _anything() -> SearchStrategy[object]:
    """Draw any JSON value; floats are not numbers of the wire, but they are sent."""
    leaves = (
        st.none()
        | st.booleans()
        | st.integers(-1, 2**64)
        | st.floats(allow_nan=False, allow_infinity=False)
        | st.text(max_size=4)
    )
    return st.recursive(
        leaves,
        lambda inner: (
            st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=3), inner, max_size=3)
        ),
        max_leaves=_LEAVES_MAX,
    )


@st.composite
def _odd_values(draw: DrawFn) -> Case:
    """Draw a trace in which something, or everything, is any JSON value."""
    trace = draw(traces() | defective_traces())
    policy, steps = as_record(trace["policy"]), list_of(trace["steps"])
    where = draw(st.sampled_from(("policy", "steps", "policy field", "step", "step field")))
    odd = draw(_anything())
    if where == "policy":
        return {"policy": odd, "steps": steps}
    if where == "policy field":
        return {"policy": {**policy, draw(st.sampled_from(tuple(policy))): odd}, "steps": steps}
    if where == "steps" or not steps:
        return {"policy": policy, "steps": odd}
    index = draw(st.integers(0, len(steps) - 1))
    if where == "step":
        return {"policy": policy, "steps": [*steps[:index], odd, *steps[index + 1 :]]}
    field = draw(st.sampled_from(tuple(steps[index])))
    spoilt = {**steps[index], field: odd}
    return {"policy": policy, "steps": [*steps[:index], spoilt, *steps[index + 1 :]]}


@st.composite
def _lines(draw: DrawFn) -> Case:
    """Draw bytes without a line end: noise, JSON that is no request, damaged requests."""
    way = draw(st.sampled_from(("bytes", "json", "damaged", "request")))
    if way == "bytes":
        data = draw(st.binary(max_size=_LINE_BYTES_MAX))
    elif way == "json":
        data = json.dumps(draw(_anything())).encode()
    else:
        value = draw(damaged_texts(traces()))
        policy, steps = from_base64(value["policy_text"]), from_base64(value["steps_text"])
        data = document(policy, steps)
        if way == "request":
            number = draw(
                st.sampled_from((b"1", b"-1", b'"1"', b"null", b"1.5", b"%d" % INTEGER_MAX))
            )
            data = b'{"id":%b,"op":"evaluate","policy":%b,"steps":%b}' % (number, policy, steps)
    return {"line": as_base64(data.replace(b"\n", b" "))}


def _judge(target: EvaluatorTarget, case: Case) -> Judgement:
    child: object = getattr(target, "child", None)
    if isinstance(child, TargetChild):
        child.forget_peak()
    judgement = _judge_answer(target, case)
    if isinstance(child, TargetChild) and judgement.finding is None:
        held = child.peak_bytes()
        if held is not None and held > ANSWER_MEMORY_BYTES_MAX:
            finding = f"it held {held:,} bytes while it answered"
            return Judgement(finding=finding, expected=ANSWER_MEMORY_BYTES_MAX, got=held)
    return judgement


def _judge_answer(target: EvaluatorTarget, case: Case) -> Judgement:
    if "line" in case:
        data = from_base64(case["line"])
        if _asks_for_description(data):
            return Judgement(vacuous=True)
        try:
            got = target.evaluate_line(data)
        except UsageError:
            # A target in Python that takes values only has no door for bytes.
            return Judgement(vacuous=True)
        return judged(_misfit(got), None, got, ("input:bytes",))
    got = evaluate(target, case["policy"], case["steps"])
    return judged(_misfit(got), None, got, ("input:values",))


def _asks_for_description(data: bytes) -> bool:
    """Return whether a line may be read as a request that is answered by no receipt or error."""
    try:
        members = cast("object", json.loads(data.decode("utf-8"), object_pairs_hook=list))
    except (ValueError, RecursionError):
        return False
    return isinstance(members, list) and ("op", "describe") in members


def _misfit(answer: object) -> str | None:
    """Return in words why an answer is neither a receipt nor a typed error, or None."""
    receipt, error = part(answer, "receipt"), part(answer, "error")
    if (receipt is None) == (error is None):
        return f"the answer is neither a receipt nor an error: {shown(answer)}"
    if receipt is not None:
        try:
            RECEIPT(json.loads(spell(receipt)), "$.receipt")
        except Defect as defect:
            return f"the receipt is not one: {shown(defect.wire['message'])}"
        except ValueError:
            return f"the receipt is no JSON: {shown(receipt)}"
        return None
    assert error is not None
    code, path, step = error.get("code"), error.get("path"), error.get("step")
    if code in _DOCUMENT_CODES:
        fits = isinstance(path, str) and path.startswith("$") and step is None
        return None if fits else f"the error {shown(code)} needs a path and no step: {shown(error)}"
    if code in STEP_CODES:
        fits = type(step) is int and path is None
        return None if fits else f"the error {shown(code)} needs a step and no path: {shown(error)}"
    return f"the error has no code that there is: {shown(error)}"


def _line(data: bytes) -> Case:
    return {"line": as_base64(data)}


def _examples() -> tuple[Case, ...]:
    trace: Record = fire(RELEASES[0], ("completed",))
    texts = [json.dumps(trace[name]).encode() for name in ("policy", "steps")]
    request = b'{"id":1,"op":"evaluate","policy":%b,"steps":%b}'
    odd: list[Case] = [{"policy": value, "steps": value} for value in _ODD]
    for name in ("policy", "steps"):
        deep: object = 0
        for _ in range(20):
            deep = [deep]
        odd.append({**trace, name: deep})
    crowded = [{**as_record(step), _EVIDENCE: _TOO_MANY} for step in list_of(trace["steps"])]
    shouted = [{**as_record(step), "outcome": "SUCCEEDED"} for step in list_of(trace["steps"])]
    endless = json.dumps({**as_record(trace["policy"]), "max_tool_calls": 0}).encode()
    endless = endless.replace(b'"max_tool_calls": 0', b'"max_tool_calls": ' + b"9" * _LONG)
    return (
        *odd,
        {**trace, "steps": crowded},
        {**trace, "steps": shouted},
        {"policy": trace["policy"], "steps": []},
        _line(b""),
        _line(b" "),
        _line(b"\x00"),
        _line(b"\xff\xfe"),
        _line(b"null"),
        _line(b"[]"),
        _line(b"{}"),
        _line(b'{"id":1}'),
        _line(b'{"op":"describe"}'),
        _line(b'{"id":1,"op":"describ"}'),
        _line(b'{"id":1,"op":"evaluate"}'),
        _line(b"[" * _DEEP),
        _line(b'{"a":' * _DEEP),
        _line(b"9" * _LONG),
        _line(b'"' + b"\\ud800" * 10 + b'"'),
        _line(request % (texts[0], b"[" * _DEEP)),
        _line(request % (texts[0], b"[" * _DEEP_FOR_SOME + b"]" * _DEEP_FOR_SOME)),
        _line(request % (texts[0], texts[1][:-9])),
        _line(request % (endless, texts[1])),
        _line(document(texts[0], texts[1])),
    )


PROPERTY = Property(
    id="E15",
    name="totality",
    statement=(
        "Any values and any bytes give a receipt or a typed error, in bounded time and memory, and "
        "the next request is answered."
    ),
    prevents=(
        "One strange log line brings down the service that judges all runs, and loops go on "
        "without anybody who could stop them."
    ),
    mutants=(
        "evaluator-empty-trace-crash",
        "defects-recursion-uncaught",
        "serving-unknown-op-crash",
        "decoding-non-object-policy-crash",
    ),
    cases=lambda: _odd_values() | _lines(),
    judge=_judge,
    examples=_examples(),
    goals=lambda target: (
        frozenset({"input:values", "input:bytes"})
        if target.wire == "bytes"
        else frozenset({"input:values"})
    ),
)
