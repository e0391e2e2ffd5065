"""What a target's answer says, how it differs from the answer that is due, and that in words.

Rule: nothing here raises for any answer whatever. Values are compared as JSON, so that `true` is
not 1 and 1.0 is not 1.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import cast

from loopcore.testing import naive
from loopcore.testing.building import SHORT_NAMES, object_of
from loopcore.testing.contract import Answer, Case, EvaluatorTarget, Json, Judgement
from loopcore.testing.naive_wire import Record
from loopcore.testing.strategies import list_of

VERDICT = ("terminal", "terminal_sequence", "violations")
RECEIPT_FIELDS = (
    "schema", "evaluator_release", "policy_sha256", "steps_sha256", "terminal",
    "terminal_sequence", "violations", "usage", "verified_progress_steps", "final_state_sha256",
    "completion_receipt_sha256", "started_at_unix_ms", "ended_at_unix_ms", "receipt_sha256",
)  # fmt: skip
_ERROR_FIELDS = ("code", "path", "step")
_LATE_FIELDS = ("terminal", "terminal_sequence")
_ABSENT = "nothing"
_SHOWN_MAX = 200


def evaluate(target: EvaluatorTarget, policy: object, steps: object) -> Answer:
    """Return the target's answer to a trace of plain values."""
    return target.evaluate(as_json(policy), as_json(steps))


def as_json(value: object) -> Json:
    """Return a value of a case under its type; cases hold nothing but JSON."""
    return cast("Json", value)


def part(answer: object, name: str) -> Record | None:
    """Return the receipt or the error of an answer, or None where it has none."""
    record = object_of(answer)
    return None if record is None else object_of(record.get(name))


def same(left: object, right: object) -> bool:
    """Whether two values are one JSON value."""
    return spell(left) == spell(right)


def spell(value: object) -> str:
    """Return a value as JSON text with sorted keys, or as Python shows what is no JSON."""
    try:
        return json.dumps(value, sort_keys=True)
    except (TypeError, ValueError, RecursionError):
        return repr(value)


def shown(value: object) -> str:
    """Return a value as short text for people; a text stands without quotes."""
    text = value if isinstance(value, str) else spell(value)
    return text if len(text) <= _SHOWN_MAX else text[:_SHOWN_MAX] + "…"


def describe(answer: object) -> str:
    """Return in words what an answer says."""
    receipt, error = part(answer, "receipt"), part(answer, "error")
    if error is not None:
        place = f"step {shown(error.get('step'))}"
        if error.get("step") is None:
            place = shown(error.get("path"))
        return f"the error {shown(error.get('code', _ABSENT))} at {place}"
    if receipt is None:
        return f"no answer that can be read ({shown(answer)})"
    terminal = shown(receipt.get("terminal", _ABSENT))
    sequence = receipt.get("terminal_sequence")
    return terminal if sequence is None else f"{terminal} at sequence {shown(sequence)}"


def difference(expected: Answer, got: object, fields: Sequence[str] = VERDICT) -> str | None:
    """Return in words how an answer differs from the one that is due, or None.

    Arguments:
        fields: the fields of a receipt that count; of an error it is always code, path and step,
            and the verdict that a step after the terminal must still tell.
    """
    receipt, error = part(expected, "receipt"), part(expected, "error")
    got_receipt, got_error = part(got, "receipt"), part(got, "error")
    if receipt is not None and got_receipt is not None and got_error is None:
        return _first_difference(receipt, got_receipt, fields, "the receipt's ")
    if error is not None and got_error is not None and got_receipt is None:
        late = _LATE_FIELDS if "terminal" in error else ()
        if same(error["code"], got_error.get("code")):
            return _first_difference(error, got_error, (*_ERROR_FIELDS, *late), "the error's ")
    return f"expected {describe(expected)}, got {describe(got)}"


def _first_difference(
    expected: Record, got: Record, fields: Sequence[str], owner: str
) -> str | None:
    for name in fields:
        # A step error may leave its path out, and the other way round, since it is null.
        missing = None if owner == "the error's " else _ABSENT
        found = got.get(name, missing)
        if not same(expected[name], found):
            prefix = "" if name == "terminal" else f"{owner}{name}: "
            return f"{prefix}expected {shown(expected[name])}, got {shown(found)}"
    return None


def is_undeclared(target: EvaluatorTarget, policy: object) -> bool:
    """Whether the policy asks for a release that exists and that the target does not have."""
    release = (object_of(policy) or {}).get("evaluator_release")
    return release in SHORT_NAMES and release not in target.releases


def compare(
    target: EvaluatorTarget,
    case: Case,
    *,
    fields: Sequence[str] = VERDICT,
    labels: Sequence[str] = (),
    context: str = "",
) -> Judgement:
    """Return the judgement on a trace by the naive model's answer to it.

    Arguments:
        context: what the case is about, put before the finding.
    """
    if is_undeclared(target, case["policy"]):
        return Judgement(vacuous=True)
    expected = naive.evaluate(case["policy"], case["steps"])
    got = evaluate(target, case["policy"], case["steps"])
    return judged(difference(expected, got, fields), expected, got, labels, context)


def judged(
    finding: str | None,
    expected: object,
    got: object,
    labels: Sequence[str] = (),
    context: str = "",
) -> Judgement:
    """Return a judgement; without a finding it keeps only its labels."""
    if finding is None:
        return Judgement(labels=tuple(labels))
    text = f"{context}; {finding}" if context else finding
    return Judgement(finding=text, labels=tuple(labels), expected=expected, got=got)


def steps_of(case: Case) -> list[Record]:
    """Return the steps of a case that holds a trace."""
    return list_of(case["steps"])


def declared(target: EvaluatorTarget) -> tuple[str, ...]:
    """Return the releases that the target declares and that exist."""
    return tuple(release for release in SHORT_NAMES if release in target.releases)


def terminal_label(release: str, terminal: str) -> str:
    """Return the label of a terminal, such as `terminal:reference completed`."""
    return f"terminal:{SHORT_NAMES[release]} {terminal}"
