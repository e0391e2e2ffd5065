"""E03: a run that is not at its terminal yet has none."""

from __future__ import annotations

from loopcore.testing import naive
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
from loopcore.testing.naive_wire import RELEASES
from loopcore.testing.steering import Choices, fire
from loopcore.testing.strategies import traces

_FIELDS = (
    *VERDICT,
    "completion_receipt_sha256",
    "final_state_sha256",
    "ended_at_unix_ms",
)


def _judge(target: EvaluatorTarget, case: Case) -> Judgement:
    policy, steps = case["policy"], steps_of(case)
    if is_undeclared(target, policy):
        return Judgement(vacuous=True)
    whole = part(naive.evaluate(policy, steps), "receipt")
    assert whole is not None
    ended = whole["terminal_sequence"] is not None
    for length in range(len(steps) + (0 if ended else 1)):
        expected = naive.evaluate(policy, steps[:length])
        got = evaluate(target, policy, steps[:length])
        finding = difference(expected, got, _FIELDS)
        if finding is not None:
            context = f"the first {length} of {len(steps)} steps reach no terminal"
            return judged(finding, expected, got, (), context)
    labels = ["prefix:empty"]
    if len(steps) > 1:
        labels.append("prefix:all but the last step")
    return Judgement(labels=tuple(labels))


PROPERTY = Property(
    id="E03",
    name="prefixes",
    statement=(
        "Every proper prefix of a run to its terminal, the empty one too, is input_exhausted."
    ),
    prevents=(
        "A run is stopped one step early although its limit was not reached, or an evaluator fails "
        "on a run that has no steps yet."
    ),
    mutants=("evaluator-time-strict", "evaluator-steps-ge", "evaluator-idle-starts-at-one"),
    cases=traces,
    judge=_judge,
    examples=tuple(
        fire(release, ("no_progress", "repeated_action")[::-1], Choices(prefix=2, tail=3))
        for release in RELEASES
    ),
    goals=lambda target: frozenset({"prefix:empty", "prefix:all but the last step"}),
)
