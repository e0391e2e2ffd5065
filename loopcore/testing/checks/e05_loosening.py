"""E05: a looser bound never stops a run earlier."""

from __future__ import annotations

from hypothesis import strategies as st
from hypothesis.strategies import DrawFn

from loopcore.testing.building import BOUND_OF, EXTENDED, Move, bounds_of, number_of
from loopcore.testing.checks.verdicts import (
    declared,
    describe,
    evaluate,
    is_undeclared,
    part,
    steps_of,
)
from loopcore.testing.contract import Case, EvaluatorTarget, Judgement, Property
from loopcore.testing.naive import EXTENDED_FIELDS
from loopcore.testing.naive_wire import INTEGER_MAX, RELEASES, Record, as_record
from loopcore.testing.steering import Choices, fire
from loopcore.testing.strategies import extend, list_of, long_traces, traces_firing

_CYCLE_FIELDS = ("max_cycle_length", "cycle_repeats")
_AMOUNTS = (1, 2, 1_000, INTEGER_MAX)
_CYCLE_REPEATS_MAX = 8
_CYCLE_LENGTH_MIN = 2


def _ways(policy: Record) -> list[str]:
    """Return the names of all loosenings that the policy allows."""
    fields = bounds_of(str(policy["evaluator_release"]))
    ways = [field for field in fields if policy[field] is not None]
    ways += [f"{field} to null" for field in ways if field in EXTENDED_FIELDS]
    if policy["max_cycle_length"] is not None:
        ways.append("max_cycle_length to null")
        if number_of(policy, "max_cycle_length") > _CYCLE_LENGTH_MIN:
            ways.append("max_cycle_length")
        if number_of(policy, "cycle_repeats") < _CYCLE_REPEATS_MAX:
            ways.append("cycle_repeats")
    return ways


def _loosened(policy: Record, way: str, amount: int) -> Record:
    """Return the fields that a loosening changes, with their new values."""
    field, _, to_null = way.partition(" to ")
    if to_null:
        return {**dict.fromkeys(_CYCLE_FIELDS if field in _CYCLE_FIELDS else (field,))}
    value = number_of(policy, field)
    if field == "max_cycle_length":
        return {field: max(_CYCLE_LENGTH_MIN, value - amount)}
    if field == "cycle_repeats":
        return {field: min(_CYCLE_REPEATS_MAX, value + amount)}
    return {field: min(INTEGER_MAX, value + amount)}


def _case(trace: Record, way: str, amount: int) -> Case:
    policy = as_record(trace["policy"])
    return {
        "policy": policy,
        "steps": trace["steps"],
        "way": way,
        "loosened": _loosened(policy, way, amount),
    }


@st.composite
def _cases(draw: DrawFn) -> Case:
    trace = draw(traces_firing() | long_traces())
    policy, steps = as_record(trace["policy"]), list_of(trace["steps"])
    if draw(st.booleans()):
        steps = extend(policy, steps, [Move(action=n, state=n) for n in (601, 602)])
    way = draw(st.sampled_from(_ways(policy)))
    return _case({"policy": policy, "steps": steps}, way, draw(st.sampled_from(_AMOUNTS)))


def _stop(answer: object, length: int) -> int | None:
    """Return the sequence of the step that an answer says the run stopped at.

    A run that did not stop has the sequence after its last one; None is an answer that says
    neither.
    """
    receipt, error = part(answer, "receipt"), part(answer, "error")
    if receipt is not None:
        sequence = receipt.get("terminal_sequence")
        if receipt.get("terminal") == "input_exhausted" and sequence is None:
            return length + 1
        return sequence if type(sequence) is int else None
    if error is not None and error.get("code") == "post_terminal_step":
        step = error.get("step")
        return step if type(step) is int else None
    return None


def _judge(target: EvaluatorTarget, case: Case) -> Judgement:
    steps, policy = steps_of(case), as_record(case["policy"])
    if is_undeclared(target, policy):
        return Judgement(vacuous=True)
    loose_policy = {**policy, **as_record(case["loosened"])}
    tight = evaluate(target, policy, steps)
    loose = evaluate(target, loose_policy, steps)
    label = f"loosened:{case['way']}"
    before, after = _stop(tight, len(steps)), _stop(loose, len(steps))
    for name, stop, answer in (("the bounds", before, tight), ("looser bounds", after, loose)):
        if stop is None:
            finding = f"well formed steps under {name} gave {describe(answer)}"
            return Judgement(finding=finding, got=answer)
    assert before is not None
    assert after is not None
    if after < before:
        finding = (
            f"with {case['way']} loosened the run stopped at sequence {after} ({describe(loose)}), "
            f"before it at {before} ({describe(tight)})"
        )
        return Judgement(finding=finding, expected=tight, got=loose)
    return Judgement(labels=(label,))


def _examples() -> tuple[Case, ...]:
    found: list[Case] = []
    for release in RELEASES:
        for rule, field in BOUND_OF.items():
            if field not in bounds_of(release):
                continue
            trace = fire(release, (rule,), Choices(prefix=1))
            ways = [field, f"{field} to null"] if field in EXTENDED_FIELDS else [field]
            found += [_case(trace, way, 1) for way in ways]
    cycle = fire(EXTENDED, ("nonproductive_cycle",), Choices(cycle_length=3))
    found += [_case(cycle, way, 1) for way in _ways(as_record(cycle["policy"])) if "cycle" in way]
    return tuple(found)


def _goals(target: EvaluatorTarget) -> frozenset[str]:
    goals: set[str] = set()
    for release in declared(target):
        goals.update(f"loosened:{field}" for field in bounds_of(release))
        if release == EXTENDED:
            nulls = (*EXTENDED_FIELDS[:3], "max_cycle_length")
            goals.update(f"loosened:{field} to null" for field in nulls)
            goals.update(f"loosened:{field}" for field in _CYCLE_FIELDS)
    return frozenset(goals)


PROPERTY = Property(
    id="E05",
    name="loosening",
    statement=(
        "A later deadline, a larger bound, null, a smaller max_cycle_length or a larger "
        "cycle_repeats never gives a terminal at an earlier step; at the same step its name may "
        "change."
    ),
    prevents=(
        "An operator raises a limit because a run was stopped too early, and it now stops even "
        "earlier: null was read as zero, or a bound was compared the wrong way round."
    ),
    mutants=("evaluator-null-bound-is-zero", "evaluator-bound-inverted"),
    cases=_cases,
    judge=_judge,
    examples=_examples(),
    goals=_goals,
)
