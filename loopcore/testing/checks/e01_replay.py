"""E01: the same values in, the same receipt out, wherever and whenever they are evaluated."""

from __future__ import annotations

import json

from hypothesis import strategies as st
from hypothesis.strategies import DrawFn

from loopcore.testing.checks.verdicts import describe, evaluate, is_undeclared, part, same, shown
from loopcore.testing.contract import Answer, Case, EvaluatorTarget, Judgement, Property
from loopcore.testing.naive_wire import RELEASES, Record, as_record
from loopcore.testing.steering import Choices, fire
from loopcore.testing.strategies import defective_traces, list_of, long_traces, traces

_TRACES_MAX = 3
# One case in so many starts another process, which costs more than all its evaluations.
_FRESH_EVERY = 40
_OUTCOMES = (
    "deadline_exceeded",
    "step_budget_exhausted",
    "cost_budget_exhausted",
    "indeterminate_effect",
    "repeated_action",
    "no_progress",
)


@st.composite
def _batches(draw: DrawFn) -> Case:
    """Draw a few traces, well formed or not, and whether another process takes part."""
    one = traces() | long_traces() | defective_traces()
    drawn = draw(st.lists(one, min_size=1, max_size=_TRACES_MAX))
    pure: list[Record] = [{"policy": t["policy"], "steps": t["steps"]} for t in drawn]
    return {"traces": pure, "fresh": draw(st.integers(1, _FRESH_EVERY)) == _FRESH_EVERY}


def _judge(target: EvaluatorTarget, case: Case) -> Judgement:
    batch = [t for t in list_of(case["traces"]) if not is_undeclared(target, t["policy"])]
    if not batch:
        return Judgement(vacuous=True)
    given = json.dumps(batch)
    _forget_changes(target)
    first = _answers(target, batch)
    labels = ["replay:reversed order"]
    if _has_changed(target) or json.dumps(batch) != given:
        words = "it changed the values that it was given, so nobody can replay them"
        return Judgement(finding=words, labels=tuple(labels), expected=json.loads(given))
    finding = _disagreement(first, _answers(target, batch[::-1])[::-1], "in another order")
    if finding is None and case["fresh"] is True:
        labels.append("replay:another process")
        other = target.fresh()
        try:
            finding = _disagreement(first, _answers(other, batch), "in another process")
        finally:
            other.close()
    return Judgement(finding=finding, labels=tuple(labels), expected=first)


def _forget_changes(target: EvaluatorTarget) -> None:
    """Let a target that notes changes of the values given to it begin anew."""
    if hasattr(target, "changed_values"):
        setattr(target, "changed_values", False)  # noqa: B010 only hosted targets note it


def _has_changed(target: EvaluatorTarget) -> bool:
    return getattr(target, "changed_values", False) is True


def _answers(target: EvaluatorTarget, batch: list[Record]) -> list[Answer]:
    return [evaluate(target, trace["policy"], trace["steps"]) for trace in batch]


def _disagreement(first: list[Answer], second: list[Answer], where: str) -> str | None:
    """Return in words which answer is not the one given before, messages apart."""
    for index, (before, after) in enumerate(zip(first, second, strict=True)):
        for name in ("receipt", "error"):
            left, right = part(before, name), part(after, name)
            if (left is None) != (right is None):
                return f"trace {index} gave {describe(before)}, and {where} {describe(after)}"
            if left is None or right is None:
                continue
            for key in sorted(left.keys() | right.keys()):
                if key != "message" and not same(left.get(key), right.get(key)):
                    was, now = shown(left.get(key)), shown(right.get(key))
                    return f"the {name}'s {key} of trace {index} was {was}, and {where} {now}"
    return None


def _example(release: str) -> Case:
    # So many at once that an order by hash seed is not the right one by chance.
    trace = fire(release, _OUTCOMES, Choices(prefix=2))
    return {"traces": [as_record(trace), fire(release, ("completed",))], "fresh": True}


PROPERTY = Property(
    id="E01",
    name="replay",
    statement=(
        "The same policy and steps give the same receipt or error, in another order of evaluation, "
        "another process and under another hash seed, and are left as they were."
    ),
    prevents=(
        "A dispute about why a run was stopped cannot be settled, because the replay stops "
        "elsewhere: a set's order, a clock or a run before it had leaked into the verdict."
    ),
    mutants=("evaluator-seen-kept-between-runs", "evaluator-violations-from-set"),
    cases=_batches,
    judge=_judge,
    examples=tuple(_example(release) for release in RELEASES),
    goals=lambda target: frozenset({"replay:reversed order", "replay:another process"}),
)
