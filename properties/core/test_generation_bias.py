"""Claim: the strategies generate every terminal, code, pair and boundary, each often enough.

The shares below are floors for a fixed seed, about half of the rarest that was met.
`python -m loopcore.testing.bias` prints the whole table.
"""

import pytest

from loopcore.testing import naive
from loopcore.testing.bias import Bias, bias, bias_table, draw_many
from loopcore.testing.building import REACHED, SHORT_NAMES, bounds_of
from loopcore.testing.defective import STEP_CODES
from loopcore.testing.naive_wire import RELEASES, as_record
from loopcore.testing.pairs import fired_outcomes, pair_label, possible_pairs
from loopcore.testing.strategies import (
    list_of,
    receipts,
    terminated_traces,
    traces,
    traces_firing,
)

TRACES = 2_500
SEED = 1
TERMINAL_SHARE = 0.003
CODE_SHARE = 0.03
PAIR_SHARE = 0.0008
DISTANCE_SHARE = 0.002
LATE_SHARE = 0.05


@pytest.fixture(scope="module")
def shares() -> Bias:
    return bias(TRACES, SEED)


def rare(found: dict[str, float], due: set[str], share: float) -> dict[str, float]:
    """Return what is due and has too small a share."""
    return {name: found.get(name, 0.0) for name in due if found.get(name, 0.0) < share}


@pytest.mark.slow
def test_every_terminal_is_generated(shares: Bias) -> None:
    due = {f"{SHORT_NAMES[r]}:{name}" for r in RELEASES for name in naive.precedence(r)}
    assert not rare(shares["terminals"], due, TERMINAL_SHARE)


@pytest.mark.slow
def test_every_step_code_is_generated(shares: Bias) -> None:
    assert not rare(shares["codes"], set(STEP_CODES), CODE_SHARE)


@pytest.mark.slow
def test_every_possible_pair_is_generated(shares: Bias) -> None:
    due = {pair_label(r, pair) for r in RELEASES for pair in possible_pairs(r)}
    assert not rare(shares["pairs"], due, PAIR_SHARE)


@pytest.mark.slow
def test_every_bound_is_met_from_both_sides(shares: Bias) -> None:
    due = {f"{field}:{n:+d}" for r in RELEASES for field in bounds_of(r) for n in (0, 1)}
    assert not rare(shares["distances"], due, DISTANCE_SHARE)
    assert set(REACHED.values()) <= {name.partition(":")[0] for name in due}


@pytest.mark.slow
def test_traces_that_go_on_after_their_terminal_are_generated(shares: Bias) -> None:
    assert shares["late"]["late"] >= LATE_SHARE


@pytest.mark.slow
def test_the_table_names_all_that_was_met(shares: Bias) -> None:
    table = bias_table(shares)
    assert all(name in table for found in shares.values() for name in found)


def test_generated_traces_are_well_formed() -> None:
    for trace in draw_many(traces(), 300, SEED):
        assert "receipt" in naive.evaluate(trace["policy"], trace["steps"])


@pytest.mark.parametrize("release", RELEASES)
def test_a_steered_trace_ends_as_it_was_steered(release: str) -> None:
    for terminal in naive.precedence(release):
        for trace in draw_many(terminated_traces(terminal, release), 8, SEED):
            receipt = as_record(naive.evaluate(trace["policy"], trace["steps"])["receipt"])
            assert receipt["terminal"] == terminal


def test_a_trace_that_fires_a_pair_fires_it_on_its_last_step() -> None:
    pair = ("indeterminate_effect", "no_progress")
    for trace in draw_many(traces_firing(pair), 20, SEED):
        receipt = as_record(naive.evaluate(trace["policy"], trace["steps"])["receipt"])
        assert fired_outcomes(receipt, list_of(trace["steps"])[-1]) == pair


def test_a_generated_receipt_verifies() -> None:
    for value in draw_many(receipts(), 40, SEED):
        assert naive.verify_receipt(value["policy"], value["steps"], value["receipt"]) == []
