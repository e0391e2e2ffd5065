"""E18: every terminal and every error code is reached, and each answer is right as a whole."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from itertools import pairwise

from hypothesis import strategies as st
from hypothesis.strategies import DrawFn

from loopcore.testing import naive
from loopcore.testing.building import REFERENCE, number_of
from loopcore.testing.checks.verdicts import (
    RECEIPT_FIELDS,
    compare,
    declared,
    part,
    terminal_label,
)
from loopcore.testing.contract import Case, EvaluatorTarget, Judgement, Property
from loopcore.testing.defective import STEP_CODES, defect_witness
from loopcore.testing.naive import EXTENDED_FIELDS
from loopcore.testing.naive_wire import INTEGER_MAX, RELEASES, Record, as_record
from loopcore.testing.steering import Choices, fire
from loopcore.testing.strategies import (
    defective_traces,
    list_of,
    long_traces,
    terminated_traces,
    traces,
)

_NAME_MAX = 128
_INDEX = re.compile(r"\[\d+\]")
# Values that hardly any field may have, and that every JSON parser keeps as they are.
_ODD_VALUES: tuple[object, ...] = (
    True, False, None, -1, 1.5, INTEGER_MAX + 1, 2**64, "1", "", "x" * 129, [], {}, ["a" * 64],
    "A" * 64, "a" * 63, "a" * 64 + "\n", "g" * 64, ["a"], ["a" * 64] * 65, "loopcore/policy/2",
    "Wait", 0, 1, 17, 9,
)  # fmt: skip


def _spoilt(trace: Record, index: int | None, field: str, value: object, way: str) -> Case:
    """Return the trace with one field of the policy or of a step changed, dropped or added."""
    policy, steps = as_record(trace["policy"]), list_of(trace["steps"])
    record = dict(policy if index is None else steps[index])
    if way == "drop":
        del record[field]
    elif way == "add":
        record["extra"] = value
    elif way == "rename":
        record = {f"{name} " if name == field else name: item for name, item in record.items()}
    else:
        record[field] = value
    if index is None:
        return {"policy": record, "steps": steps}
    return {"policy": policy, "steps": [*steps[:index], record, *steps[index + 1 :]]}


@st.composite
def _misshapen(draw: DrawFn) -> Case:
    """Draw a trace with one or two fields that do not decode, or that contradict each other."""
    case: Record = draw(terminated_traces())
    for _ in range(draw(st.integers(1, 2))):
        policy, steps = as_record(case["policy"]), list_of(case["steps"])
        places = (None, *range(len(steps)))
        index = draw(st.sampled_from(places))
        names = tuple(policy if index is None else steps[index])
        way = draw(st.sampled_from(("change", "change", "change", "drop", "add", "rename")))
        value = draw(st.sampled_from(_ODD_VALUES))
        case = _spoilt(case, index, draw(st.sampled_from(names)), value, way)
    return case


@st.composite
def _contradictory(draw: DrawFn) -> Case:
    """Draw a trace whose policy contradicts itself."""
    trace = draw(terminated_traces() | defective_traces())
    policy = dict(as_record(trace["policy"]))
    if draw(st.booleans()):
        policy["deadline_unix_ms"] = draw(st.sampled_from((policy["started_at_unix_ms"], 0)))
    for field in draw(st.lists(st.sampled_from(EXTENDED_FIELDS), max_size=2, unique=True)):
        policy[field] = draw(st.sampled_from((2, None)))
    return {"policy": policy, "steps": trace["steps"]}


def _cases() -> st.SearchStrategy[Case]:
    return (
        traces() | terminated_traces() | long_traces()
        | defective_traces() | _misshapen() | _contradictory()
    )  # fmt: skip


def _judge(target: EvaluatorTarget, case: Case) -> Judgement:
    expected = naive.evaluate(case["policy"], case["steps"])
    receipt, error = part(expected, "receipt"), part(expected, "error")
    if receipt is not None:
        terminal = str(receipt["terminal"])
        labels = [terminal_label(str(receipt["evaluator_release"]), terminal)]
        context = f"a run to {terminal}"
    else:
        assert error is not None
        labels = [f"code:{error['code']}"]
        context = f"a trace with {error['code']}"
        if error["path"] is not None:
            labels.append(f"path:{_INDEX.sub('[i]', str(error['path']))}")
            context = f"{context} at {error['path']}"
    return compare(target, case, fields=RECEIPT_FIELDS, labels=labels, context=context)


def _paths() -> frozenset[str]:
    """Return the path of every field that must be refused in place."""
    trace = fire(RELEASES[0], ("completed",))
    policy, step = as_record(trace["policy"]), list_of(trace["steps"])[0]
    return frozenset(
        {f"path:$.policy.{name}" for name in policy} | {f"path:$.steps[i].{name}" for name in step}
    )


def _goals(target: EvaluatorTarget) -> frozenset[str]:
    releases = declared(target)
    codes = {"malformed", "invalid_policy", *STEP_CODES}
    if REFERENCE not in releases:
        codes.remove("unsupported_kind")
    terminals = {
        terminal_label(release, terminal)
        for release in releases
        for terminal in naive.precedence(release)
    }
    return frozenset({f"code:{code}" for code in codes} | terminals | _paths())


def _nearly(trace: Record) -> Iterator[Case]:
    """Yield traces that an evaluator gets wrong when it is nearly right."""
    policy, steps = as_record(trace["policy"]), trace["steps"]
    # A missing field is told before a bad value, wherever the two stand.
    spoilt = _spoilt(trace, None, "policy_id", "", "change")
    yield _spoilt(spoilt, None, "max_steps", None, "drop")
    spoilt = _spoilt(trace, 0, "sequence", -1, "change")
    yield _spoilt(spoilt, 0, "outcome", None, "drop")
    # A key that is no identifier stands in brackets in a path.
    yield {"policy": {**policy, "1st": 0}, "steps": steps}
    # A name is counted in code points, neither in bytes nor in halves of pairs.
    for character, length in (("\u00e9", 0), ("\U0001f600", 0), ("\U0001f600", 1)):
        name = character * (_NAME_MAX + length)
        yield {"policy": {**policy, "policy_id": name}, "steps": steps}
    start = policy["started_at_unix_ms"]
    yield {"policy": {**policy, "deadline_unix_ms": start}, "steps": steps}
    # Of two bounds that a release does not enforce the first is told; the other has both.
    for first, second in pairwise(EXTENDED_FIELDS):
        yield {"policy": {**policy, first: 2, second: 2}, "steps": steps}


def _late(release: str) -> Case:
    """Return a run whose last step ends after the deadline, and so the run."""
    trace = fire(release, ("deadline_exceeded",), Choices(prefix=1))
    last = len(list_of(trace["steps"])) - 1
    deadline = number_of(as_record(trace["policy"]), "deadline_unix_ms")
    return _spoilt(trace, last, "completed_at_unix_ms", deadline + 1, "change")


def _examples() -> tuple[Case, ...]:
    found: list[Case] = [defect_witness((code,)) for code in STEP_CODES]
    for release in RELEASES:
        found += [
            fire(release, (terminal,), Choices(prefix=1, tail=2))
            for terminal in naive.precedence(release)[:-1]
        ]
        trace = fire(release, ("completed",))
        empty: Record = {"policy": trace["policy"], "steps": []}
        found.append(empty)
        for field in as_record(trace["policy"]):
            found += [_spoilt(trace, None, field, True, way) for way in ("change", "drop")]
        for field in list_of(trace["steps"])[0]:
            found += [_spoilt(trace, 0, field, True, way) for way in ("change", "drop", "rename")]
        found.append(_spoilt(trace, 0, "sequence", 0, "add"))
        found += [_spoilt(trace, None, field, 2, "change") for field in EXTENDED_FIELDS]
        found += [_spoilt(trace, None, "deadline_unix_ms", 0, "change")]
        found += [*_nearly(trace), _late(release)]
        # A value that does not decode comes before a contradiction, and that before any step.
        twice = _spoilt(trace, None, "deadline_unix_ms", 0, "change")
        found.append(_spoilt(as_record(twice), 0, "outcome", "done", "change"))
        found.append(_spoilt(as_record(twice), 0, "sequence", 9, "change"))
    # Where only the release was spoilt, nothing tells the two releases apart.
    return tuple({json.dumps(case): case for case in found}.values())


PROPERTY = Property(
    id="E18",
    name="reachability",
    statement=(
        "Every terminal of every release and every error code is reached, malformed fields with "
        "their exact path, and each receipt is right in all its fields."
    ),
    prevents=(
        "A branch that no test ever took fails in its first real incident; or a verdict is right "
        "and the usage booked with it wrong."
    ),
    mutants=(
        "evaluator-usage-field-swapped",
        "evaluator-ended-at-of-policy",
        "evaluator-final-state-before",
        "decoding-missing-field-defaulted",
        "defects-values-before-missing",
        "defects-identifier-with-digits",
        "defects-name-in-bytes",
        "defects-deadline-at-start",
        "defects-cycle-repeats-unpaired",
        "terminals-extended-bounds-reordered",
        "defects-invalid-policy-before-malformed",
        "defects-policy-relations-reordered",
    ),
    cases=_cases,
    judge=_judge,
    examples=_examples(),
    goals=_goals,
)
