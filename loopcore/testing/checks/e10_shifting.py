"""E10: times are compared with each other only; shifting all of them changes no verdict."""

from __future__ import annotations

from hypothesis import strategies as st
from hypothesis.strategies import DrawFn

from loopcore.testing.building import START_MS, number_of
from loopcore.testing.checks.verdicts import (
    VERDICT,
    difference,
    evaluate,
    is_undeclared,
    judged,
    part,
    steps_of,
)
from loopcore.testing.contract import Case, EvaluatorTarget, Judgement, Property
from loopcore.testing.naive_wire import INTEGER_MAX, RELEASES, Record, as_record
from loopcore.testing.steering import Choices, fire
from loopcore.testing.strategies import (
    defective_traces,
    list_of,
    long_traces,
    traces,
    traces_firing,
)

_FIELDS = (
    *VERDICT,
    "usage",
    "verified_progress_steps",
    "final_state_sha256",
    "completion_receipt_sha256",
    "started_at_unix_ms",
    "ended_at_unix_ms",
)
_TIMES = ("started_at_unix_ms", "deadline_unix_ms", "completed_at_unix_ms", "ended_at_unix_ms")
# To the beginning of time, across 2^31 and 2^32 milliseconds and seconds, and to the end of time.
_PLACES = {
    "the beginning": 0,
    "2^31": 2**31 - 1,
    "2^32": 2**32 - 1,
    "today": 1_700_000_000_000,
    "2^41": 2**41 - 1,
    "the end": INTEGER_MAX,
}
# The deadline itself comes to lie on the beginning of a second.
_FULL_SECOND = "a full second"
_EVERYWHERE = (_FULL_SECOND, *_PLACES)
_SECOND_MS = 1_000


def _shifted(record: Record, amount: int) -> Record:
    return {
        name: value + amount if name in _TIMES and isinstance(value, int) else value
        for name, value in record.items()
    }


def _amount(policy: Record, steps: list[Record], place: str) -> int:
    """Return by how much times move so that they lie at a place and none leaves the range."""
    times = [number_of(step, "completed_at_unix_ms") for step in steps]
    latest = max([*times, number_of(policy, "deadline_unix_ms")])
    earliest = min([*times, number_of(policy, "started_at_unix_ms")])
    if place == _FULL_SECOND:
        return -number_of(policy, "deadline_unix_ms") % _SECOND_MS
    return min(max(_PLACES[place] - START_MS, -earliest), INTEGER_MAX - latest)


@st.composite
def _cases(draw: DrawFn) -> Case:
    trace = draw(traces() | traces_firing() | long_traces() | defective_traces())
    policy, steps = as_record(trace["policy"]), list_of(trace["steps"])
    amount = _amount(policy, steps, draw(st.sampled_from((_FULL_SECOND, *_EVERYWHERE))))
    return {"policy": policy, "steps": steps, "amount": amount}


def _judge(target: EvaluatorTarget, case: Case) -> Judgement:
    amount, policy = case["amount"], as_record(case["policy"])
    assert isinstance(amount, int)
    if is_undeclared(target, policy) or amount == 0:
        return Judgement(vacuous=True)
    before = evaluate(target, policy, case["steps"])
    later = [_shifted(step, amount) for step in steps_of(case)]
    after = evaluate(target, _shifted(policy, amount), later)
    receipt, error = part(before, "receipt"), part(before, "error")
    expected: Record = before
    if receipt is not None:
        expected = {"receipt": _shifted({**dict.fromkeys(_FIELDS), **receipt}, amount)}
    elif error is not None:
        expected = {"error": {**dict.fromkeys(("code", "path", "step")), **error}}
    finding = difference(expected, after, _FIELDS)
    label = "shifted:later" if amount > 0 else "shifted:earlier"
    return judged(finding, expected, after, (label,), f"with all times shifted by {amount} ms")


def _example(release: str, outcome: str, place: str) -> Case:
    trace = fire(release, (outcome,), Choices(prefix=2))
    policy, steps = as_record(trace["policy"]), list_of(trace["steps"])
    return {"policy": policy, "steps": steps, "amount": _amount(policy, steps, place)}


PROPERTY = Property(
    id="E10",
    name="shifting",
    statement=(
        "Shifting start, deadline and all completion times alike changes no terminal or error."
    ),
    prevents=(
        "A run that was replayed a year later, or under a clock that counts seconds in 32 bits, "
        "stops elsewhere: the verdict had looked at the date instead of at the time that passed."
    ),
    mutants=("evaluator-deadline-in-seconds", "evaluator-deadline-32-bit"),
    cases=_cases,
    judge=_judge,
    examples=tuple(
        _example(release, outcome, place)
        for release in RELEASES
        for outcome in ("deadline_exceeded", "cost_budget_exhausted")
        for place in _EVERYWHERE
    ),
    goals=lambda target: frozenset({"shifted:later", "shifted:earlier"}),
)
