"""E16: step by step gives, on every prefix, what one call of a separate implementation gives."""

from __future__ import annotations

from loopcore.testing import naive
from loopcore.testing.building import interrupted_streaks
from loopcore.testing.checks.verdicts import (
    RECEIPT_FIELDS,
    as_json,
    difference,
    is_undeclared,
    judged,
    steps_of,
)
from loopcore.testing.contract import Case, EvaluatorTarget, Judgement, Property
from loopcore.testing.defective import STEP_CODES, defect_witness
from loopcore.testing.naive_wire import RELEASES
from loopcore.testing.steering import Choices, fire
from loopcore.testing.strategies import defective_traces, long_traces, traces


def _judge(target: EvaluatorTarget, case: Case) -> Judgement:
    policy, steps = case["policy"], steps_of(case)
    if is_undeclared(target, policy):
        return Judgement(vacuous=True)
    answers = target.advance(as_json(policy), as_json(steps))
    if len(answers) != len(steps) + 1:
        finding = f"{len(steps)} steps have {len(steps) + 1} prefixes, got {len(answers)} answers"
        return judged(finding, None, answers)
    labels = {"incremental:receipts"}
    for length, got in enumerate(answers):
        expected = naive.evaluate(policy, steps[:length])
        differing = difference(expected, got, RECEIPT_FIELDS)
        if differing is not None:
            return judged(differing, expected, got, (), f"after {length} of {len(steps)} steps")
        if "error" in expected:
            labels.add("incremental:errors")
    return Judgement(labels=tuple(sorted(labels)))


PROPERTY = Property(
    id="E16",
    name="incremental",
    statement=(
        "An evaluator that takes one step at a time answers, after every prefix, exactly as one "
        "call with all its steps: receipts whole, and a refused step changes nothing."
    ),
    prevents=(
        "The guard inside the running loop and the audit after it disagree, because a counter was "
        "kept where the other one recounts."
    ),
    mutants=(
        "evaluator-idle-not-reset",
        "evaluator-same-not-reset",
        "evaluator-refused-step-counted",
        "evaluator-digest-separator-lost",
        "evaluator-verified-progress-miscounted",
    ),
    needs=frozenset({"incremental"}),
    cases=lambda: traces() | long_traces() | defective_traces(),
    judge=_judge,
    examples=(
        *(
            fire(release, (terminal,), Choices(prefix=2, tail=2))
            for release in RELEASES
            for terminal in naive.precedence(release)[:-1]
        ),
        *(interrupted_streaks(release) for release in RELEASES),
        *(defect_witness((code,)) for code in STEP_CODES),
    ),
    goals=lambda target: frozenset({"incremental:receipts", "incremental:errors"}),
)
