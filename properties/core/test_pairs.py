"""Claim: exactly the derived pairs of outcomes can fire together on one step.

For a possible pair a constructed trace shows it, and the naive model confirms it. For an impossible
one the tables leave no shape of a step, and no trace of a bounded search shows it either.
"""

from itertools import product

import pytest

from loopcore.terminals import PRECEDENCE, USAGE_RULES
from loopcore.testing import naive
from loopcore.testing.building import BOUND_OF, EXTENDED, REFERENCE, roomy_policy
from loopcore.testing.naive_wire import RELEASES, Record, as_record
from loopcore.testing.pairs import (
    DEMANDS,
    OUTCOMES,
    all_pairs,
    fired_outcomes,
    possible_pairs,
    shapes,
    usage_rules,
)
from loopcore.testing.steering import Choices, fire
from loopcore.testing.strategies import list_of

COUNTS = {REFERENCE: (45, 55), EXTENDED: (89, 105)}
FINISHES = ("completed", "invalid_completion")
CALLS = ("model_budget_exhausted", "tool_budget_exhausted", "repair_budget_exhausted")
TOKENS = ("input_token_budget_exhausted", "output_token_budget_exhausted")
# Why a pair cannot be: each argument names the pairs that it excludes.
ARGUMENTS: dict[str, set[frozenset[str]]] = {
    "no kind charges a model call and a tool call": {frozenset(CALLS[:2])},
    "no kind charges a tool call and a repair": {frozenset(CALLS[1:])},
    "a finish is either proven or not": {frozenset(FINISHES)},
    "an indeterminate finish is never proven": {frozenset(("completed", "indeterminate_effect"))},
    "a finish charges nothing": {frozenset(pair) for pair in product(FINISHES, CALLS)},
    "tokens need a model call, which a tool call is not": {
        frozenset((token, "tool_budget_exhausted")) for token in TOKENS
    },
    "tokens need a model call, which a finish is not": {
        frozenset(pair) for pair in product(FINISHES, TOKENS)
    },
}


def fired_at_the_end(trace: Record) -> tuple[str, ...]:
    """Return what fires on the last step of a trace, nothing where it has an error."""
    answer = naive.evaluate(trace["policy"], trace["steps"])
    if "error" in answer:
        return ()
    return fired_outcomes(as_record(answer["receipt"]), list_of(trace["steps"])[-1])


@pytest.mark.parametrize("release", RELEASES)
def test_the_pairs_are_as_many_as_the_specification_says(release: str) -> None:
    assert (len(possible_pairs(release)), len(all_pairs(naive.precedence(release)))) == COUNTS[
        release
    ]


@pytest.mark.parametrize("release", RELEASES)
def test_the_tables_of_the_evaluator_give_the_same_pairs(release: str) -> None:
    table = {str(name): rows for name, rows in PRECEDENCE.items()}[release]
    usage = {str(name): dict(rows) for name, rows in USAGE_RULES.items()}[release]
    charges = {str(kind): rows for kind, rows in usage.items()}
    assert possible_pairs(release, table=table, usage=charges) == possible_pairs(release)


@pytest.mark.parametrize("release", RELEASES)
def test_every_possible_pair_has_a_witness_that_the_naive_model_confirms(release: str) -> None:
    for pair in possible_pairs(release):
        assert fired_at_the_end(fire(release, pair)) == pair


@pytest.mark.parametrize("release", RELEASES)
def test_every_choice_that_steering_leaves_open_keeps_the_pair(release: str) -> None:
    for pair in possible_pairs(release):
        for prefix, tail, shape, room, waits in product((0, 2), (1, 3), (0, 3), (0, 1), (0, 1)):
            choices = Choices(prefix=prefix, tail=tail, shape=shape, room=room, waits=waits)
            assert fired_at_the_end(fire(release, pair, choices)) == pair, (pair, choices)


@pytest.mark.parametrize("release", RELEASES)
def test_every_impossible_pair_has_its_argument(release: str) -> None:
    impossible = set(all_pairs(naive.precedence(release))) - set(possible_pairs(release))
    argued = {pair for pairs in ARGUMENTS.values() for pair in pairs}
    names = set(naive.precedence(release))
    assert {frozenset(pair) for pair in impossible} == {pair for pair in argued if pair <= names}


@pytest.mark.parametrize("release", RELEASES)
def test_an_impossible_pair_cannot_be_steered(release: str) -> None:
    for pair in set(all_pairs(naive.precedence(release))) - set(possible_pairs(release)):
        with pytest.raises(ValueError, match="cannot fire on one step"):
            fire(release, pair)


def step_of(release: str, shape: int, *, evidence: bool, spent: bool, moved: bool) -> Record:
    """Return a trace of one step of a shape under a policy where everything runs out at once."""
    kinds = shapes(usage_rules(release))
    chosen = kinds[shape]
    policy = roomy_policy(release)
    trace = fire(release, ("deadline_exceeded",))
    step = list_of(trace["steps"])[0]
    fresh = "e" * 64
    step.update(
        action_kind=chosen.kind,
        outcome=chosen.outcome,
        new_evidence_receipt_sha256=[fresh] if evidence or chosen.proven else [],
        completion_receipt_sha256=fresh if chosen.proven else None,
        cost_microunits_delta=int(spent),
        input_tokens_delta=int(spent and chosen.deltas[0] > 0),
        output_tokens_delta=int(spent and chosen.deltas[0] > 0),
    )
    step["model_calls_delta"], step["tool_calls_delta"], step["repairs_delta"] = chosen.deltas
    if not moved:
        step["state_after_sha256"] = step["state_before_sha256"]
    policy["max_consecutive_no_progress"] = 1
    policy["deadline_unix_ms"] = step["completed_at_unix_ms"]
    for rule, field in BOUND_OF.items():
        is_budget = rule in naive.BOUNDS and rule != "step_budget_exhausted"
        if is_budget and (release == EXTENDED or field not in naive.EXTENDED_FIELDS):
            policy[field] = 0
    return {"policy": policy, "steps": [step]}


@pytest.mark.parametrize("release", RELEASES)
def test_no_step_of_any_shape_shows_a_pair_that_was_not_derived(release: str) -> None:
    """The bounded search: all shapes, with every budget at its end, in all other respects too."""
    allowed = {frozenset(pair) for pair in possible_pairs(release)}
    met: set[frozenset[str]] = set()
    count, both = len(shapes(usage_rules(release))), (False, True)
    for shape, evidence, spent, moved in product(range(count), both, both, both):
        trace = step_of(release, shape, evidence=evidence, spent=spent, moved=moved)
        fired = fired_at_the_end(trace)
        assert fired
        met |= {frozenset((one, other)) for one in fired for other in fired if one != other}
    assert met <= allowed
    # One step shows all of them but those that need a second step or an earlier one.
    needs_more = {"step_budget_exhausted", "repeated_action", "nonproductive_cycle"}
    assert {pair for pair in allowed if not pair & needs_more} <= met


def test_every_outcome_has_its_demand() -> None:
    assert set(DEMANDS) == set(naive.precedence(EXTENDED))
    assert set(OUTCOMES) == {"succeeded", "failed", "indeterminate"}
