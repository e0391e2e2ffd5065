"""E02: where several outcomes fire on one step, the highest row of the release's table wins."""

from __future__ import annotations

from loopcore.testing import naive
from loopcore.testing.checks.verdicts import (
    VERDICT,
    declared,
    difference,
    evaluate,
    is_undeclared,
    judged,
    part,
    steps_of,
)
from loopcore.testing.contract import Case, EvaluatorTarget, Judgement, Property
from loopcore.testing.naive_wire import RELEASES
from loopcore.testing.pairs import fired_outcomes, pair_label, possible_pairs
from loopcore.testing.steering import fire
from loopcore.testing.strategies import traces, traces_firing


def _judge(target: EvaluatorTarget, case: Case) -> Judgement:
    steps = steps_of(case)
    if is_undeclared(target, case["policy"]) or not steps:
        return Judgement(vacuous=True)
    expected = naive.evaluate(case["policy"], steps)
    receipt = part(expected, "receipt")
    assert receipt is not None
    release = str(receipt["evaluator_release"])
    fired = fired_outcomes(receipt, steps[-1])
    got = evaluate(target, case["policy"], steps)
    labels = [
        pair_label(release, (first, second))
        for place, first in enumerate(fired)
        for second in fired[place + 1 :]
    ]
    context = f"step {len(steps) - 1} reached {' and '.join(fired)}"
    finding = difference(expected, got, VERDICT)
    judgement = judged(finding, expected, got, labels, context)
    if finding is None and len(fired) < 2:  # noqa: PLR2004 a pair takes two
        return Judgement(vacuous=True)
    return judgement


def _goals(target: EvaluatorTarget) -> frozenset[str]:
    return frozenset(
        pair_label(release, pair)
        for release in declared(target)
        for pair in possible_pairs(release)
    )


PROPERTY = Property(
    id="E02",
    name="precedence",
    statement=(
        "When two outcomes fire on one step, the one that stands higher in the release's table is "
        "the terminal and both are listed, for every pair that can fire together."
    ),
    prevents=(
        "A payment that timed out at the deadline is booked as a plain time-out, or a run over its "
        "budget as completed, because the order was an accident of the code."
    ),
    mutants=(
        "terminals-rows-swapped",
        "evaluator-violations-unordered",
        "evaluator-violations-cut-to-winner",
        "evaluator-invalid-finish-hides-indeterminate",
    ),
    cases=lambda: traces_firing() | traces_firing() | traces(),
    judge=_judge,
    examples=tuple(fire(release, pair) for release in RELEASES for pair in possible_pairs(release)),
    goals=_goals,
)
