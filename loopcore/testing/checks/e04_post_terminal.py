"""E04: nothing follows a terminal, and the error that says so still tells the verdict."""

from __future__ import annotations

from hypothesis import strategies as st
from hypothesis.strategies import DrawFn

from loopcore.testing import naive
from loopcore.testing.building import Move, name_digest, number_of
from loopcore.testing.checks.verdicts import (
    compare,
    declared,
    is_undeclared,
    part,
    steps_of,
    terminal_label,
)
from loopcore.testing.contract import Case, EvaluatorTarget, Judgement, Property
from loopcore.testing.naive_wire import RELEASES, Record, as_record
from loopcore.testing.steering import fire
from loopcore.testing.strategies import extend, list_of, terminated_traces, traces

_LATE_STEPS = ("productive", "finish", "repeat", "gap", "earlier", "broken chain")


def _late(trace: Record, way: str) -> Record:
    """Return the trace with one more step, in order or with a defect of its own."""
    policy, steps = as_record(trace["policy"]), list_of(trace["steps"])
    number = 700
    move = Move(action=number, state=number, evidence=(number,))
    if way == "finish":
        move = Move(kind="finish", action=number, state=number, evidence=(number,), proof=number)
    longer = extend(policy, steps, [move])
    late = longer[-1]
    if way == "repeat":
        late.update(steps[-1])
    elif way == "gap":
        late["sequence"] = number
    elif way == "earlier":
        late["completed_at_unix_ms"] = number_of(late, "completed_at_unix_ms") - number
    elif way == "broken chain":
        late["state_before_sha256"] = name_digest("state", number)
    return {"policy": policy, "steps": longer, "after": len(steps)}


@st.composite
def _late_traces(draw: DrawFn) -> Case:
    trace = draw(terminated_traces() | traces())
    if not list_of(trace["steps"]):
        trace = fire(str(as_record(trace["policy"])["evaluator_release"]), ("completed",))
    late = _late(trace, draw(st.sampled_from(_LATE_STEPS)))
    if draw(st.booleans()):
        after = late["after"]
        late = {**_late(late, draw(st.sampled_from(_LATE_STEPS))), "after": after}
    return late


def _judge(target: EvaluatorTarget, case: Case) -> Judgement:
    steps, after = steps_of(case), case["after"]
    assert isinstance(after, int)
    if is_undeclared(target, case["policy"]):
        return Judgement(vacuous=True)
    receipt = part(naive.evaluate(case["policy"], steps[:after]), "receipt")
    if receipt is None or receipt["terminal_sequence"] is None:
        return Judgement(vacuous=True)
    terminal, release = str(receipt["terminal"]), str(receipt["evaluator_release"])
    return compare(
        target,
        case,
        labels=(terminal_label(release, terminal),),
        context=f"step {after} follows {terminal}, which was reached at sequence {after}",
    )


def _goals(target: EvaluatorTarget) -> frozenset[str]:
    return frozenset(
        terminal_label(release, terminal)
        for release in declared(target)
        for terminal in naive.precedence(release)
        if terminal != "input_exhausted"
    )


PROPERTY = Property(
    id="E04",
    name="post-terminal",
    statement=(
        "A step after the terminal is the error post_terminal_step at that step, whatever else is "
        "wrong with it, and the error still tells the terminal and its sequence."
    ),
    prevents=(
        "A loop goes on spending after it was told to stop, and its log is accepted as if the late "
        "steps had never been taken; or the refusal loses the verdict."
    ),
    mutants=(
        "evaluator-post-terminal-ignored",
        "evaluator-post-terminal-checked-late",
        "evaluator-post-terminal-without-verdict",
    ),
    cases=_late_traces,
    judge=_judge,
    examples=tuple(
        _late(fire(release, (terminal,)), way)
        for release in RELEASES
        for terminal in naive.precedence(release)[:-1]
        for way in ("productive", "gap")
    ),
    goals=_goals,
)
