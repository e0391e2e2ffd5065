"""Incidents 8.1 to 8.4: cached tokens, running totals, unknown costs and decimal drift.

Cached tokens and unknown costs are tested on importers as well; no recorded format writes running
totals, so 8.2 is tested on the helper that an importer of such a format would use.
"""

import json
from decimal import Decimal
from fractions import Fraction
from itertools import pairwise
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from loopcore.errors import InputError
from loopcore.recordings.accounting import (
    CostLedger,
    Prices,
    UsageMeter,
    amount,
    microunits,
    price_usage,
    total_or_unknown,
)
from loopcore.recordings.load import load, samples
from loopcore.recordings.nodes import Node
from loopcore.recordings.reading import parse_json

PRICES = Prices(fresh=7, read=1, write=9, output=30)
TOKENS = st.integers(0, 10**7)
NOWHERE = Node(None, "log.json")


def at(text: str) -> Node:
    return parse_json(text, "log.json")


# 8.1


def test_incident_8_1_only_the_fresh_rest_of_the_prompt_is_charged_at_the_full_rate() -> None:
    priced = price_usage(2000, 500, 300, 50, PRICES)
    assert priced.fresh_tokens == 1200
    assert priced.cost_microunits == 1200 * 7 + 500 * 1 + 300 * 9 + 50 * 30
    assert priced.warnings == ()


def test_incident_8_1_buckets_that_exceed_the_total_warn_and_never_earn_money() -> None:
    priced = price_usage(700, 500, 300, 50, PRICES)
    assert priced.fresh_tokens == 0
    assert priced.cost_microunits == 500 + 300 * 9 + 50 * 30
    assert priced.warnings == ("cached tokens exceed the prompt's 700 tokens by 100",)


@given(TOKENS, TOKENS, TOKENS, TOKENS)
def test_incident_8_1_every_token_is_charged_once(
    fresh: int, read: int, write: int, output: int
) -> None:
    whole = fresh + read + write
    flat = Prices(fresh=3, read=3, write=3, output=3)
    assert price_usage(whole, read, write, output, flat).cost_microunits == 3 * (whole + output)
    dear = price_usage(whole, read, write, output, PRICES).cost_microunits
    assert dear == 7 * fresh + read + 9 * write + 30 * output


@given(TOKENS, TOKENS, TOKENS)
def test_incident_8_1_no_usage_has_a_negative_cost(total: int, read: int, write: int) -> None:
    priced = price_usage(total, read, write, 0, PRICES)
    assert priced.cost_microunits is not None
    assert priced.cost_microunits >= 0
    assert bool(priced.warnings) == (read + write > total)


def test_incident_8_1_an_importer_never_adds_cached_tokens_to_the_prompt(tmp_path: Path) -> None:
    source = samples() / "mini-swe-agent-1.1/runs/harbour__tide-3/harbour__tide-3.traj.json"
    document = json.loads(source.read_text())
    usage = document["messages"][2]["extra"]["response"]["usage"]
    usage["prompt_tokens_details"]["cached_tokens"] = usage["prompt_tokens"] + 5
    file = tmp_path / "t.json"
    file.write_text(json.dumps(document))
    run = load([file]).runs[0]
    assert run.observations[0].usage.input_tokens == usage["prompt_tokens"]
    assert "by 5" in run.warnings[0]


# 8.2


def metered(kind: str, values: list[int], call: str = "a") -> int:
    meter = UsageMeter()
    for value in values:
        meter.record(call, "delta" if kind == "delta" else "cumulative", value, NOWHERE)
    return meter.total()


def test_incident_8_2_running_totals_replace_and_increments_add() -> None:
    assert metered("cumulative", [1, 5, 25]) == metered("delta", [1, 4, 20]) == 25
    assert metered("cumulative", list(range(1, 101))) == 100


@given(st.lists(st.integers(0, 1000), min_size=1), st.lists(st.integers(0, 1000), min_size=1))
def test_incident_8_2_both_ways_of_writing_give_one_total(a: list[int], b: list[int]) -> None:
    meter = UsageMeter()
    for number in range(max(len(a), len(b))):
        if number < len(a):
            meter.record("a", "cumulative", sum(a[: number + 1]), NOWHERE)
        if number < len(b):
            meter.record("b", "delta", b[number], NOWHERE)
    assert meter.total() == sum(a) + sum(b)


@given(st.lists(st.integers(0, 1000), min_size=2))
def test_incident_8_2_a_running_total_that_falls_is_malformed(values: list[int]) -> None:
    falls = any(later < earlier for earlier, later in pairwise(values))
    if not falls:
        assert metered("cumulative", values) == values[-1]
        return
    with pytest.raises(InputError) as caught:
        metered("cumulative", values)
    assert caught.value.code == "malformed"


def test_incident_8_2_a_call_that_mixes_both_kinds_is_malformed() -> None:
    meter = UsageMeter()
    meter.record("a", "delta", 1, NOWHERE)
    with pytest.raises(InputError, match="mixes"):
        meter.record("a", "cumulative", 2, NOWHERE)


# 8.3


def test_incident_8_3_an_unknown_cost_makes_the_sum_unknown_and_is_never_zero() -> None:
    assert total_or_unknown([1, None, 2]) is None
    assert total_or_unknown([]) == 0
    assert price_usage(None, 0, 0, 10, PRICES).cost_microunits is None
    assert price_usage(10, 0, 0, None, PRICES).cost_microunits is None
    assert price_usage(10, 0, 0, 10, None).cost_microunits is None


@pytest.mark.parametrize("cost", ["absent", None, 0, 0.0])
def test_incident_8_3_tokens_without_a_price_are_unknown(cost: object, tmp_path: Path) -> None:
    document = json.loads((samples() / "tau2/meters.json").read_text())
    for message in document["simulations"][1]["messages"]:
        if message["role"] == "assistant" and message["usage"]:
            message["cost"] = cost
            if cost == "absent":
                del message["cost"]
    file = tmp_path / "t.json"
    file.write_text(json.dumps(document))
    run = next(run for run in load([file]).runs if run.run_id == "s-runaway")
    assert not run.cost_known
    assert {seen.usage.cost_microunits for seen in run.observations[1:]} == {None}


def test_incident_8_3_a_step_that_called_no_model_is_a_true_zero() -> None:
    run = next(run for run in load([samples()]).runs if run.run_id == "s-runaway")
    greeting = run.observations[0].usage
    assert (greeting.model_calls, greeting.cost_microunits) == (0, 0)
    assert run.cost_known


# 8.4


def entered(costs: list[str]) -> list[int]:
    ledger = CostLedger()
    return [ledger.enter(amount(at(cost))) for cost in costs]


@pytest.mark.parametrize(
    ("costs", "cap"), [(["0.1", "0.7"], 800_000), (["0.7"] * 3, 2_100_000), (["0.1"] * 3, 300_000)]
)
def test_incident_8_4_the_cap_is_reached_exactly(costs: list[str], cap: int) -> None:
    assert sum(entered(costs)) == cap


def test_incident_8_4_ten_thousand_small_additions_lose_nothing() -> None:
    assert sum(entered(["0.0000001"] * 10_000)) == 1_000
    assert sum(entered(["0.00000049"] * 10_000)) == 4_900


AMOUNTS = st.decimals(0, 10**6, places=12).map(lambda value: format(value, "f"))


@given(st.lists(AMOUNTS, max_size=40))
def test_incident_8_4_the_entries_add_up_to_the_exact_sum_rounded_once(costs: list[str]) -> None:
    exact = sum((Fraction(cost) for cost in costs), start=Fraction(0)) * 10**6
    assert sum(entered(costs)) == round(exact)
    assert all(share >= 0 for share in entered(costs))


@pytest.mark.parametrize(
    "text",
    [
        *("-1", "-0.000001", '"NaN"', '"Infinity"', '"-inf"', '"sNaN"', '"ten"', '""', "true"),
        *("null", "[]", "{}", "1e13", '"1e-100"', '"1e999999999"'),
    ],
)
def test_incident_8_4_a_bad_amount_is_malformed_at_its_place(text: str) -> None:
    node = at(f'{{"costs": [0, {text}]}}').field("costs").array()[1]
    with pytest.raises(InputError) as caught:
        amount(node)
    assert caught.value.code == "malformed"
    assert caught.value.path == "log.json: $.costs[1]"


@pytest.mark.parametrize("name", ["NaN", "Infinity", "-Infinity"])
def test_incident_8_4_a_constant_that_is_no_json_number_is_malformed_at_its_place(
    name: str,
) -> None:
    with pytest.raises(InputError) as caught:
        at(f'{{"a": 1, "costs": [0, {name}]}}')
    assert caught.value.path == "log.json: $.costs[1]"


def test_incident_8_4_minus_zero_is_zero_and_halves_round_to_even() -> None:
    assert microunits(amount(at("-0.0"))) == 0
    assert [microunits(Decimal(text)) for text in ("0.0000005", "0.0000015")] == [0, 2]
