"""E11: every defect of a trace is found at its exact step, and the first in order is told."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import combinations, product

from loopcore.testing.building import REFERENCE, Move, array_of, build_steps, roomy_policy
from loopcore.testing.checks.verdicts import compare, declared, steps_of
from loopcore.testing.contract import Case, EvaluatorTarget, Judgement, Property
from loopcore.testing.defective import STEP_CODES, defect_witness, index_for
from loopcore.testing.naive import DELTAS
from loopcore.testing.naive_wire import INTEGER_MAX, RELEASES, as_record
from loopcore.testing.strategies import defective_traces


def _judge(target: EvaluatorTarget, case: Case) -> Judgement:
    names = [str(code) for code in array_of(case["codes"])]
    context = f"a step of {len(steps_of(case))} has {' and '.join(names)}"
    label = "defect:" + ">".join(names)
    return compare(target, case, labels=(label, f"code:{names[0]}"), context=context)


def _both_ways() -> tuple[tuple[str, ...], ...]:
    return (*((code,) for code in STEP_CODES), *combinations(STEP_CODES, 2))


def _goals(target: EvaluatorTarget) -> frozenset[str]:
    """Return every code, and every two codes in the order in which they are due."""
    return frozenset(
        "defect:" + ">".join(codes)
        for codes in _both_ways()
        if "unsupported_kind" not in codes or REFERENCE in declared(target)
    )


def _charge(release: str) -> Iterator[Case]:
    """Yield every kind with every charge: a mismatch, or a charge that only overflows its total.

    The overflow is told after the mismatch, so a charge that fits is not taken for one.
    """
    first = Move(action=1, state=1, evidence=(1,), cost=1)
    for kind, deltas in product(DELTAS, product((0, 1), (0, 1), (0, 1))):
        if kind == "wait" and release == REFERENCE:
            continue
        policy = roomy_policy(release)
        # Two steps may end in the same millisecond.
        second = Move(kind=kind, deltas=deltas, action=2, elapsed_ms=0)
        steps = build_steps(policy, [first, second])
        code = "usage_mismatch"
        if deltas in DELTAS[kind]:
            code = "usage_overflow"
            steps[-1]["cost_microunits_delta"] = INTEGER_MAX
        yield {"policy": policy, "steps": steps, "codes": [code]}


def _tokens(release: str) -> Iterator[Case]:
    """Yield every charge without a model call, right for its kind, beside a token."""
    first = Move(action=1, state=1, evidence=(1,), cost=1)
    for kind, charges in DELTAS.items():
        if kind == "wait" and release == REFERENCE:
            continue
        for deltas in charges:
            for field in ("input_tokens_delta", "output_tokens_delta"):
                if not deltas[0]:
                    policy = roomy_policy(release)
                    steps = build_steps(policy, [first, Move(kind=kind, deltas=deltas, action=2)])
                    steps[-1][field] = 1
                    yield {"policy": policy, "steps": steps, "codes": ["usage_mismatch"]}


def _overflows(release: str) -> Iterator[Case]:
    """Yield for each total a step that takes it alone just over the largest integer."""
    for field in ("cost_microunits_delta", "input_tokens_delta", "output_tokens_delta"):
        policy = roomy_policy(release)
        moves = [Move(kind="model_generation", deltas=(1, 0, 0), action=n, state=n) for n in (1, 2)]
        steps = build_steps(policy, moves)
        steps[0][field], steps[1][field] = INTEGER_MAX, 1
        yield {"policy": policy, "steps": steps, "codes": ["usage_overflow"]}


def _examples() -> tuple[Case, ...]:
    found: list[Case] = [defect_witness(codes) for codes in _both_ways()]
    # The first step is compared with the policy, later ones with the step before.
    found += [defect_witness((code,), 1) for code in STEP_CODES if not index_for((code,), 0)]
    for case in list(found):
        if "unsupported_kind" not in array_of(case["codes"]):
            policy = {**as_record(case["policy"]), "evaluator_release": REFERENCE}
            found.append({**case, "policy": policy})
    for release in RELEASES:
        found += _charge(release)
        found += _tokens(release)
        found += _overflows(release)
    return tuple(found)


PROPERTY = Property(
    id="E11",
    name="defects",
    statement=(
        "Every gap, regression, broken chain, duplicate, foreign kind, mismatched charge, stray "
        "receipt, overflow and late step is an error with its code at its exact step; of two on "
        "one step the first in order is told."
    ),
    prevents=(
        "A log that was cut, spliced or padded is judged as if it were the run: steps taken out of "
        "it hide what was spent, and a wrong index sends people to the wrong step."
    ),
    mutants=(
        "evaluator-sequence-unchecked",
        "evaluator-first-time-unchecked",
        "evaluator-first-state-unchecked",
        "evaluator-time-strict",
        "evaluator-duplicate-evidence-unchecked",
        "evaluator-unsupported-kind-accepted",
        "terminals-finish-with-model-call",
        "terminals-wait-free",
        "evaluator-tokens-without-model-call",
        "evaluator-repair-by-model-refused",
        "evaluator-stray-receipt-accepted",
        "evaluator-overflow-unchecked",
        "evaluator-checks-reordered",
    ),
    cases=defective_traces,
    judge=_judge,
    examples=_examples(),
    goals=_goals,
)
