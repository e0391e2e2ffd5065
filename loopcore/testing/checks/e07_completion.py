"""E07: completed means a fresh proof on that very step, success, and nothing above it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from hypothesis import strategies as st
from hypothesis.strategies import DrawFn

from loopcore.testing.building import Move, build_steps, evidence_of, fit_bound, roomy_policy
from loopcore.testing.checks.verdicts import (
    VERDICT,
    compare,
    describe,
    evaluate,
    is_undeclared,
    part,
    shown,
    steps_of,
)
from loopcore.testing.contract import Case, EvaluatorTarget, Judgement, Property
from loopcore.testing.naive_wire import RELEASES, Record
from loopcore.testing.pairs import OUTCOMES
from loopcore.testing.steering import NEUTRAL_KINDS

_FIELDS = (*VERDICT, "completion_receipt_sha256", "final_state_sha256")
_PROOFS = ("fresh", "fresh and last", "old", "old and listed again", "not listed", "none")
_NUMBER = 50
# Bounds that a case may set so that something above the finish fires with it.
_ABOVE = ("deadline_unix_ms", "max_steps")


def _finish(proof: str, outcome: str) -> Move:
    """Return a finish whose proof is what the name says."""
    move = Move(kind="finish", action=_NUMBER, state=_NUMBER, outcome=outcome)
    table = {
        "fresh": replace(move, evidence=(_NUMBER,), proof=_NUMBER),
        "fresh and last": replace(move, evidence=(_NUMBER + 1, _NUMBER), proof=_NUMBER),
        "old": replace(move, evidence=(_NUMBER,), proof=1),
        "old and listed again": replace(move, evidence=(1, _NUMBER), proof=1),
        "not listed": replace(move, evidence=(_NUMBER,), proof=_NUMBER + 2),
        "none": replace(move, evidence=(_NUMBER,)),
    }
    return table[proof]


def _case(release: str, kinds: Sequence[str], proof: str, outcome: str, above: str | None) -> Case:
    policy = roomy_policy(release)
    moves = [
        # The first evidence is also shown by a step that failed: it counts as seen all the same.
        Move(
            kind=kind, action=n, state=n, evidence=(n,), outcome="failed" if n == 1 else "succeeded"
        )
        for n, kind in enumerate(kinds, start=1)
    ]
    steps = build_steps(policy, [*moves, _finish(proof, outcome)])
    if above == "deadline_unix_ms":
        fit_bound(policy, above, int(str(steps[-1]["completed_at_unix_ms"])))
    elif above == "max_steps":
        fit_bound(policy, above, len(steps) - 1)
    return {"policy": policy, "steps": steps}


@st.composite
def _cases(draw: DrawFn) -> Case:
    kinds = draw(st.lists(st.sampled_from(NEUTRAL_KINDS), min_size=1, max_size=4))
    return _case(
        draw(st.sampled_from(RELEASES)),
        kinds,
        draw(st.sampled_from(_PROOFS)),
        draw(st.sampled_from(("succeeded", *OUTCOMES))),
        draw(st.sampled_from((None, None, *_ABOVE))),
    )


def _what_is_missing(steps: list[Record]) -> str | None:
    """Return why the last step's finish proves nothing, or None when it does."""
    last = steps[-1]
    proof = last["completion_receipt_sha256"]
    if last["outcome"] != "succeeded":
        return f"the finish {shown(last['outcome'])}"
    if proof is None:
        return "the finish names no proof"
    if proof not in evidence_of(last):
        return "the proof is not among the step's evidence"
    if any(proof in evidence_of(step) for step in steps[:-1]):
        return "the proof was seen before"
    return None


def _judge(target: EvaluatorTarget, case: Case) -> Judgement:
    steps = steps_of(case)
    if is_undeclared(target, case["policy"]):
        return Judgement(vacuous=True)
    missing = _what_is_missing(steps)
    got = evaluate(target, case["policy"], steps)
    receipt = part(got, "receipt")
    if receipt is not None and receipt.get("terminal") == "completed" and missing is not None:
        return Judgement(finding=f"{missing}, and the run is {describe(got)}", got=got)
    context = f"finish at step {len(steps) - 1}: {missing or 'its proof is fresh'}"
    return compare(
        target, case, fields=_FIELDS, labels=(f"finish:{missing or 'proven'}",), context=context
    )


_GOALS = frozenset(
    f"finish:{name}"
    for name in (
        "proven",
        "the finish failed",
        "the finish indeterminate",
        "the finish names no proof",
        "the proof is not among the step's evidence",
        "the proof was seen before",
    )
)

PROPERTY = Property(
    id="E07",
    name="completion",
    statement=(
        "completed is given exactly for a finish that succeeded and names a proof which is fresh "
        "evidence of that very step, with nothing above it firing; the receipt names that proof."
    ),
    prevents=(
        "An agent says that it is done, shows the receipt of an earlier check or none at all, and "
        "unfinished work is handed on as finished."
    ),
    mutants=(
        "evaluator-finish-without-proof",
        "evaluator-finish-old-proof",
        "evaluator-finish-unlisted-proof",
        "evaluator-finish-failed",
        "evaluator-proof-kept-for-other-terminal",
    ),
    cases=_cases,
    judge=_judge,
    examples=tuple(
        _case(release, ["tool_call", "verification"], proof, outcome, above)
        for release in RELEASES
        for proof in _PROOFS
        for outcome in OUTCOMES
        for above in (None, *_ABOVE)
        if outcome == "succeeded" or above is None
    ),
    goals=lambda target: _GOALS,
)
