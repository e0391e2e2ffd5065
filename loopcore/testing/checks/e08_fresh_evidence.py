"""E08: evidence counts once, and reused evidence is no progress."""

from __future__ import annotations

from hypothesis import strategies as st
from hypothesis.strategies import DrawFn

from loopcore.testing.building import EXTENDED, Move, build_steps, evidence_of, roomy_policy
from loopcore.testing.checks.verdicts import VERDICT, compare, steps_of
from loopcore.testing.contract import Case, EvaluatorTarget, Judgement, Property
from loopcore.testing.naive_wire import RELEASES
from loopcore.testing.pairs import OUTCOMES
from loopcore.testing.steering import NEUTRAL_KINDS
from loopcore.testing.strategies import cut

_FIELDS = (*VERDICT, "usage", "verified_progress_steps")
_DIGESTS = 4
_STEPS_MAX = 7


@st.composite
def _cases(draw: DrawFn) -> Case:
    """Draw a run over very few pieces of evidence, whatever became of the steps that show them."""
    release = draw(st.sampled_from(RELEASES))
    kinds = NEUTRAL_KINDS if release != EXTENDED else (*NEUTRAL_KINDS, "wait")
    some = st.lists(st.integers(1, _DIGESTS), max_size=3, unique=True)
    moves: list[Move] = []
    for number in range(1, draw(st.integers(2, _STEPS_MAX)) + 1):
        moves.append(
            Move(
                kind=draw(st.sampled_from(kinds)),
                action=number,
                state=draw(st.sampled_from((number, number, None))),
                evidence=tuple(draw(some)),
                outcome=draw(st.sampled_from(("succeeded", "succeeded", *OUTCOMES[:2]))),
            )
        )
    policy = roomy_policy(release)
    policy["max_consecutive_no_progress"] = draw(st.sampled_from((10**9, 1, 2, 3)))
    if release == EXTENDED:
        policy["max_evidence_receipts"] = draw(st.sampled_from((None, 0, 1, 2, 3)))
    return cut({"policy": policy, "steps": build_steps(policy, moves)})


def _judge(target: EvaluatorTarget, case: Case) -> Judgement:
    seen: set[str] = set()
    reused: list[int] = []
    for index, step in enumerate(steps_of(case)):
        own = evidence_of(step)
        if seen & set(own):
            reused.append(index)
        seen.update(own)
    context = f"{len(seen)} distinct pieces of evidence"
    if reused:
        context += f", shown again by step {reused[0]}"
    judgement = compare(target, case, fields=_FIELDS, labels=("evidence:reused",), context=context)
    if judgement.finding is None and not reused:
        return Judgement(vacuous=True)
    return judgement


def _example(release: str, outcome: str, idle: int) -> Case:
    policy = roomy_policy(release)
    policy["max_consecutive_no_progress"] = idle
    moves = [
        Move(action=1, state=1, evidence=(1, 2), outcome=outcome),
        Move(kind="tool_call", action=2, state=2, evidence=(1,)),
        Move(kind="tool_call", action=3, state=3, evidence=(2, 1)),
    ]
    return cut({"policy": policy, "steps": build_steps(policy, moves)})


PROPERTY = Property(
    id="E08",
    name="fresh-evidence",
    statement=(
        "Evidence that any earlier step showed, whatever its outcome, is not fresh: it is not "
        "counted again and makes no step verified progress."
    ),
    prevents=(
        "An agent that shows the same receipt again and again looks busy for ever, and the limit "
        "on idle steps never ends its run."
    ),
    mutants=(
        "evaluator-freshness-forgotten",
        "evaluator-evidence-counted-twice",
        "evaluator-failed-evidence-unseen",
        "evaluator-progress-without-state-change",
        "evaluator-progress-of-failed-step",
    ),
    cases=_cases,
    judge=_judge,
    examples=tuple(
        _example(release, outcome, idle)
        for release in RELEASES
        for outcome in ("succeeded", "failed")
        for idle in (2, 3)
    ),
    goals=lambda target: frozenset({"evidence:reused"}),
)
