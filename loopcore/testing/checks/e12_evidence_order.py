"""E12: the order of evidence within a step changes the digests and nothing else."""

from __future__ import annotations

from hypothesis import strategies as st
from hypothesis.strategies import DrawFn

from loopcore.testing.building import (
    EXTENDED,
    Move,
    bounds_of,
    build_steps,
    evidence_of,
    firing_bound,
    fit_bound,
    measure,
    name_digest,
    roomy_policy,
)
from loopcore.testing.checks.verdicts import (
    RECEIPT_FIELDS,
    difference,
    evaluate,
    is_undeclared,
    judged,
    part,
    same,
    steps_of,
)
from loopcore.testing.contract import Case, EvaluatorTarget, Judgement, Property
from loopcore.testing.naive_wire import RELEASES, Record
from loopcore.testing.steering import NEUTRAL_KINDS
from loopcore.testing.strategies import cut, list_of

_DIGESTS = ("steps_sha256", "receipt_sha256")
_UNCHANGED = tuple(name for name in RECEIPT_FIELDS if name not in _DIGESTS)
_POOL = 6
_EVIDENCE_MAX = 4
_STEPS_MAX = 4
_SEEN_BEFORE = 3


@st.composite
def _cases(draw: DrawFn) -> Case:
    """Draw a run whose steps show several pieces of evidence, old and new, in two orders."""
    release = draw(st.sampled_from(RELEASES))
    policy = roomy_policy(release)
    many = st.lists(st.integers(1, _POOL), min_size=1, max_size=_EVIDENCE_MAX, unique=True)
    moves = [
        Move(
            kind=draw(st.sampled_from(NEUTRAL_KINDS)), action=n, state=n, evidence=tuple(draw(many))
        )
        for n in range(1, draw(st.integers(0, _STEPS_MAX)) + 1)
    ]
    if draw(st.booleans()):
        evidence = tuple(draw(st.permutations((1, 2, 50, 51))))
        proof = draw(st.sampled_from((50, 1)))
        moves.append(Move(kind="finish", action=50, state=50, evidence=evidence, proof=proof))
    steps = build_steps(policy, moves)
    if steps:
        fields = [name for name in bounds_of(release) if "evidence" in name or "progress" in name]
        field = draw(st.sampled_from(fields))
        figure = measure(steps)[-1][field]
        fit_bound(policy, field, firing_bound(field, figure) + draw(st.sampled_from((1, 0))))
    trace = cut({"policy": policy, "steps": steps})
    other = [
        {**step, "new_evidence_receipt_sha256": draw(st.permutations(evidence_of(step)))}
        for step in list_of(trace["steps"])
    ]
    return {**trace, "reordered": other}


def _judge(target: EvaluatorTarget, case: Case) -> Judgement:
    steps, other = steps_of(case), list_of(case["reordered"])
    if is_undeclared(target, case["policy"]) or same(steps, other):
        return Judgement(vacuous=True)
    before = evaluate(target, case["policy"], steps)
    after = evaluate(target, case["policy"], other)
    receipt, changed = part(before, "receipt"), part(after, "receipt")
    if receipt is None:
        finding: str | None = "a well formed trace gave no receipt"
    else:
        expected: Record = {"receipt": {**dict.fromkeys(_UNCHANGED), **receipt}}
        finding = difference(expected, after, _UNCHANGED)
        for name in _DIGESTS:
            if finding is None and changed and same(receipt.get(name), changed.get(name)):
                finding = f"{name} did not change with the steps"
    context = "with the evidence of a step in another order"
    return judged(finding, before, after, ("evidence:reordered",), context)


def _example(release: str, reverse: bool) -> Case:
    policy = roomy_policy(release)
    if release == EXTENDED:
        policy["max_evidence_receipts"] = _SEEN_BEFORE
    moves = [
        Move(action=1, state=1, evidence=(1, 2)),
        Move(kind="finish", action=2, state=2, evidence=(3, 1), proof=3),
    ]
    steps = build_steps(policy, moves)
    other = [dict(step) for step in steps]
    for step in other[1 if reverse else 0 :]:
        step["new_evidence_receipt_sha256"] = evidence_of(step)[::-1]
    assert other[1]["completion_receipt_sha256"] == name_digest("evidence", 3)
    return {"policy": policy, "steps": steps, "reordered": other}


PROPERTY = Property(
    id="E12",
    name="evidence-order",
    statement=(
        "The order of evidence within a step changes steps_sha256 and receipt_sha256 and nothing "
        "else."
    ),
    prevents=(
        "A collector that lists the same receipts in another order turns a completed run into an "
        "unproven one."
    ),
    mutants=("evaluator-proof-must-be-first", "evaluator-only-last-evidence-counts"),
    cases=_cases,
    judge=_judge,
    examples=tuple(_example(release, turn) for release in RELEASES for turn in (False, True)),
    goals=lambda target: frozenset({"evidence:reordered"}),
)
