"""E06: exactly at its bound a budget passes and one over stops; a deadline stops on itself."""

from __future__ import annotations

from collections.abc import Sequence

from hypothesis import strategies as st
from hypothesis.strategies import DrawFn

from loopcore.testing import naive
from loopcore.testing.building import (
    BOUND_OF,
    EXTENDED,
    REACHED,
    Move,
    bounds_of,
    build_steps,
    interrupted_streaks,
    measure,
    number_of,
    roomy_policy,
)
from loopcore.testing.checks.verdicts import VERDICT, compare, declared, is_undeclared, steps_of
from loopcore.testing.contract import Case, EvaluatorTarget, Judgement, Property
from loopcore.testing.naive_wire import INTEGER_MAX, RELEASES, as_record
from loopcore.testing.steering import Choices, fire
from loopcore.testing.strategies import list_of

_FIELDS = (*VERDICT, "usage", "ended_at_unix_ms", "verified_progress_steps")
_RULE_OF = {field: rule for rule, field in BOUND_OF.items()}
_FURTHEST = 2
_STREAKS = ("max_consecutive_no_progress", "max_consecutive_repeated_actions")
# Rules of the totals to which one step may add any amount.
_AMOUNTS = (
    "cost_budget_exhausted",
    "input_token_budget_exhausted",
    "output_token_budget_exhausted",
)
# In whole units of currency the sum of the first two is above the third.
_COSTS = (100_000, 200_000, 300_000, 700_000, 1_100_000, 1, 2**51)


def _at_boundary(release: str, rule: str, choices: Choices, further: int) -> Case:
    """Return a trace whose last step lies `further` inside the bound at which the rule fires."""
    trace = fire(release, (rule,), choices)
    policy, field = as_record(trace["policy"]), BOUND_OF[rule]
    policy[field] = min(number_of(policy, field) + further, INTEGER_MAX)
    return {"policy": policy, "steps": trace["steps"], "field": field}


def _spend(trace: Case, costs: Sequence[int], further: int) -> Case:
    """Return a cost boundary whose last steps cost the given amounts."""
    policy, steps = as_record(trace["policy"]), list_of(trace["steps"])
    for step, cost in zip(reversed(steps), costs, strict=False):
        step["cost_microunits_delta"] = cost
    spent = sum(number_of(step, "cost_microunits_delta") for step in steps)
    policy["max_cost_microunits"] = spent - 1 + further
    return {"policy": policy, "steps": steps, "field": "max_cost_microunits"}


@st.composite
def _cases(draw: DrawFn) -> Case:
    release = draw(st.sampled_from(RELEASES))
    rules = [rule for rule, field in BOUND_OF.items() if field in bounds_of(release)]
    rule = draw(st.sampled_from((*rules, "cost_budget_exhausted")))
    choices = Choices(
        prefix=draw(st.integers(0, 4)),
        tail=draw(st.integers(1, 3)),
        shape=draw(st.integers(0, 5)),
        kinds=draw(st.integers(0, 3)),
        delta=draw(st.sampled_from((1, 2, 1_000, 2**52))),
        waits=draw(st.sampled_from((0, 0, 1, 2))),
    )
    further = draw(st.integers(0, _FURTHEST))
    case = _at_boundary(release, rule, choices, further)
    if rule == "cost_budget_exhausted":
        length = len(list_of(case["steps"]))
        costs = st.lists(st.sampled_from(_COSTS), min_size=1, max_size=min(3, length))
        case = _spend(case, draw(costs), further)
    elif rule == "deadline_exceeded" and draw(st.booleans()):
        case = _later(case, 1)
    return case


def _later(case: Case, milliseconds: int) -> Case:
    """Return a case whose last step is completed so much later."""
    steps = list_of(case["steps"])
    at = number_of(steps[-1], "completed_at_unix_ms") + milliseconds
    return {**case, "steps": [*steps[:-1], {**steps[-1], "completed_at_unix_ms": at}]}


def _judge(target: EvaluatorTarget, case: Case) -> Judgement:
    policy, steps, field = as_record(case["policy"]), steps_of(case), str(case["field"])
    if is_undeclared(target, policy):
        return Judgement(vacuous=True)
    bound, figure = number_of(policy, field), measure(steps)[-1][field]
    distance = bound - figure
    fires = distance <= 0 if field in REACHED.values() else distance < 0
    label = f"boundary:{field} {distance:+d}"
    # The relation is stated here as well, so that the oracle cannot be wrong unnoticed.
    expected = naive.evaluate(policy, steps)
    receipt = as_record(expected.get("receipt", {}))
    assert receipt["terminal"] == (_RULE_OF[field] if fires else "input_exhausted"), expected
    context = f"{field} is {bound} and step {len(steps) - 1} brings the figure to {figure}"
    return compare(target, case, fields=_FIELDS, labels=(label,), context=context)


def _distances(field: str) -> tuple[int, ...]:
    """Return the distances from the bound to the figure that must be met."""
    return (0, 1) if field in _STREAKS else (-1, 0, 1)


def _share_tokens(field: str, further: int) -> Case:
    """Return a boundary of tokens that two steps spend together, and neither alone."""
    policy = roomy_policy(EXTENDED)
    moves = [
        Move(action=n, state=n, evidence=(n,), input_tokens=2, output_tokens=3) for n in (1, 2)
    ]
    steps = build_steps(policy, moves)
    policy[field] = measure(steps)[-1][field] - 1 + further
    return {"policy": policy, "steps": steps, "field": field}


def _examples() -> tuple[Case, ...]:
    found: list[Case] = []
    for release in RELEASES:
        for rule, field in BOUND_OF.items():
            if field in bounds_of(release):
                found += [
                    _at_boundary(release, rule, Choices(prefix=1, tail=2, waits=waits), further)
                    for further in range(_FURTHEST + 1)
                    for waits in ((0, 1, 2) if field in _STREAKS and release == EXTENDED else (0,))
                ]
        found.append(_later(_at_boundary(release, "deadline_exceeded", Choices(), 0), 1))
        cost = _at_boundary(release, "cost_budget_exhausted", Choices(prefix=2), 0)
        found.append(_spend(cost, [100_000, 200_000], 1))
        found += [{**interrupted_streaks(release), "field": field} for field in _STREAKS]
        # The largest total that there is passes a bound that is as large.
        largest = [rule for rule in _AMOUNTS if BOUND_OF[rule] in bounds_of(release)]
        found += [_at_boundary(release, rule, Choices(delta=INTEGER_MAX), 1) for rule in largest]
    for field in ("max_input_tokens", "max_output_tokens"):
        found += [_share_tokens(field, further) for further in (0, 1)]
    return tuple(found)


def _goals(target: EvaluatorTarget) -> frozenset[str]:
    return frozenset(
        f"boundary:{field} {distance:+d}"
        for release in declared(target)
        for field in bounds_of(release)
        for distance in _distances(field)
    )


PROPERTY = Property(
    id="E06",
    name="boundaries",
    statement=(
        "A total equal to its budget passes and one over stops; one millisecond before the "
        "deadline passes and the deadline itself stops; n - 1 repeats or idle steps pass and the "
        "n-th stops."
    ),
    prevents=(
        "A run may make one call more than was paid for, or loses the last call that it was "
        "promised; money summed as fractions stops a run that is exactly on budget."
    ),
    mutants=(
        "evaluator-deadline-strict",
        "evaluator-steps-ge",
        "evaluator-model-ge",
        "evaluator-tool-ge",
        "evaluator-repairs-ge",
        "evaluator-cost-ge",
        "evaluator-input-tokens-ge",
        "evaluator-output-tokens-ge",
        "evaluator-evidence-ge",
        "evaluator-repeat-strict",
        "evaluator-idle-strict",
        "evaluator-cost-in-units",
        "evaluator-tool-delta-ignored",
        "evaluator-overflow-inclusive",
        "evaluator-input-tokens-not-kept",
        "evaluator-same-not-reset",
        "evaluator-wait-resets-streak",
        "evaluator-wait-forgets-last-action",
    ),
    cases=_cases,
    judge=_judge,
    examples=_examples(),
    goals=_goals,
)
