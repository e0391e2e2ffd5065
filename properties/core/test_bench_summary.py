"""Sums become the figures that their tasks have, with what is unknown and infinite said so."""

import json
from math import inf

import msgspec
import numpy as np
import pytest

from loopcore.comparison.bench_results import Span
from loopcore.comparison.bench_summary import (
    break_even,
    conclude,
    crossings,
    figure_value,
    paired,
)
from loopcore.comparison.bench_tables import markdown, shown
from loopcore.comparison.bounds import bound, number
from loopcore.comparison.figures import BY_NAME, FIGURES
from loopcore.comparison.intervals import clopper_pearson
from loopcore.comparison.sweep_contestants import Entry, default_entries, pairs
from properties.core.sweep_values import Features, entry, swept, view

TASKS = 60
SHARED = {
    "tasks": [1] * TASKS,
    "in_s": [int(task < 40) for task in range(TASKS)],
    "looped": [int(task >= 50) for task in range(TASKS)],
    "outside": [int(task >= 40) for task in range(TASKS)],
}
B, D = entry("B"), entry("D")
CURVE = tuple(entry("E", rho) for rho in (0.0, 0.5, 1.0))


def own(successes: int, cost: int, false_stops: int = 0) -> Features:
    """Return the features of a level under which the first tasks verify, each at one cost."""
    return {
        "verified": [int(task < successes) for task in range(TASKS)],
        "false_stop": [int(40 - false_stops <= task < 40) for task in range(TASKS)],
        "cost": [cost] * TASKS,
        "steps": [5 + task % 3 for task in range(TASKS)],
        "steps_on_success": [(5 + task % 3) * (task < successes) for task in range(TASKS)],
    }


def test_a_rate_is_exact_and_a_mean_is_the_quotient_of_its_sums() -> None:
    made = view([D], SHARED, [own(36, 100, false_stops=4)])
    false_stops = figure_value(made, D, BY_NAME["false_stop_rate"])
    assert (false_stops.above, false_stops.below, false_stops.value) == (4, 40, 0.1)
    exact = clopper_pearson(4, 40)
    assert false_stops.interval == Span(low=exact.low, high=exact.high)
    steps = figure_value(made, D, BY_NAME["steps_to_success"])
    mean = sum(5 + task % 3 for task in range(36)) / 36
    assert steps.value == mean
    assert steps.interval is not None
    assert number(steps.interval.low) < mean < number(steps.interval.high)
    failed = figure_value(made, D, BY_NAME["steps_on_failed"])
    assert (failed.value, failed.n) == (sum(5 + task % 3 for task in range(36, 60)) / 24, 24)


def test_counts_of_none_and_all_show_their_exact_bounds() -> None:
    made = view([D], SHARED, [own(40, 100)])
    none = figure_value(made, D, BY_NAME["false_stop_rate"])
    assert none.interval == Span(low=0, high=clopper_pearson(0, 40).high)
    every = view([D], SHARED, [own(40, 100, false_stops=40)])
    assert figure_value(every, D, BY_NAME["false_stop_rate"]).interval == Span(
        low=clopper_pearson(40, 40).low, high=1
    )


def test_a_bound_near_none_or_all_is_not_printed_as_none_or_all() -> None:
    tasks = 100_000
    shared = {"tasks": [1] * tasks, "in_s": [1] * tasks, "looped": [1] * tasks}
    result = conclude(swept([D], shared, [{"missed": [1] * tasks}]))
    row = result.tiers[0].families[-1].rows[0]
    assert shown(row, "false_stop_rate") == "0.00 % [0.00 %, 0.004 %] 0/100,000"
    assert shown(row, "missed_loop_rate") == "100.00 % [99.9963 %, 100.00 %] 100,000/100,000"


def test_fewer_than_thirty_units_are_unknown_and_so_printed() -> None:
    result = conclude(swept([D], SHARED, [own(40, 100)]))
    row = result.tiers[0].families[-1].rows[0]
    assert row.figures["missed_loop_rate"].n == 10
    assert row.figures["missed_loop_rate"].small
    assert "unknown: n < 30" in shown(row, "missed_loop_rate")
    assert not row.figures["false_stop_rate"].small
    assert "unknown" not in shown(row, "false_stop_rate")


def test_cost_without_a_success_is_infinite_and_the_document_still_is_json() -> None:
    result = conclude(swept([B, D], SHARED, [own(0, 100), own(40, 100)]))
    row = result.tiers[0].families[-1].rows[0]
    assert row.figures["cost_per_success"].value == "infinite"
    assert row.figures["cost_per_success"].interval == Span(low="infinite", high="infinite")
    assert "infinite" in shown(row, "cost_per_success")
    assert row.figures["steps_to_success"].value is None
    text = msgspec.json.encode(result).decode()

    def refuse(constant: str) -> None:
        raise AssertionError(constant)

    assert json.loads(text, parse_constant=refuse)["complete"] is True
    assert msgspec.json.decode(text, type=type(result)) == result
    assert "| D verify |" in markdown(result)


def test_paired_differences_are_taken_within_each_resample() -> None:
    made = view([B, D], SHARED, [own(40, 200), own(40, 100)])
    found = paired(made, D, B, BY_NAME["cost_per_success"])
    # Twice the cost of the same tasks in every resample: the ratio is certain, the difference not.
    assert found.ratio == 0.5
    assert found.ratio_interval == Span(low=0.5, high=0.5)
    assert found.difference == -150
    assert found.interval is not None
    assert number(found.interval.low) < -150 < number(found.interval.high)
    rate = paired(made, D, B, BY_NAME["false_stop_rate"])
    assert (rate.difference, rate.ratio) == (0, None)


def test_the_difference_of_two_infinite_costs_is_none_and_of_one_infinite() -> None:
    made = view([B, D], SHARED, [own(0, 200), own(0, 100)])
    assert paired(made, D, B, BY_NAME["cost_per_success"]).difference == 0
    made = view([B, D], SHARED, [own(0, 200), own(20, 100)])
    assert paired(made, D, B, BY_NAME["cost_per_success"]).difference == "-infinite"


def test_the_crossing_is_interpolated_between_points_of_the_grid() -> None:
    grid = np.array([0.0, 0.5, 1.0])
    curve = np.array(
        [[4.0, 1.0, 4.0, inf, inf], [3.0, 1.0, 4.0, 1.0, inf], [1.0, 1.0, 3.9, 1, 9.0]]
    )
    level = np.array([2.0, 2.0, 3.0, 2.0, inf])
    assert crossings(grid, curve, level).tolist() == [0.75, 0.0, inf, 0.5, 1.0]


def test_break_even_is_where_the_curve_meets_level_d() -> None:
    # Half of the tasks verify under D, all under E.
    costs = (30, 25, 15)
    made = view([D, *CURVE], SHARED, [own(TASKS // 2, 12), *(own(TASKS, cost) for cost in costs)])
    for one, cost in zip(CURVE, costs, strict=True):
        assert made.value(one, BY_NAME["cost_per_success"]) == cost
    found = break_even(made, "verify")
    assert found is not None
    assert made.value(D, BY_NAME["cost_per_success"]) == 24
    assert found.rho == pytest.approx(0.55)
    assert found.interval is not None
    assert number(found.interval.low) <= 0.55 <= number(found.interval.high)
    assert break_even(made, "trust") is None


def test_every_figure_and_pair_stands_in_the_result() -> None:
    result = conclude(swept([B, D, *CURVE], SHARED, [own(20 + place, 90) for place in range(5)]))
    for family in result.tiers[0].families:
        assert [set(row.figures) for row in family.rows] == [{f.name for f in FIGURES}] * 5
    labels = {one.label for one in default_entries()}
    assert len(labels) == len(default_entries())
    named = {(one.label, two.label) for one, two in pairs(default_entries())}
    assert ("D verify", "C verify") in named
    assert ("E trust rho=0.25", "D trust") in named
    assert ("D verify", "calibrated-cap verify") in named
    assert ("A verify", "A trust") in named
    assert ("D verify", "planner and executor verify") in named


def test_a_form_of_autonomy_has_no_figures_of_an_onset_that_is_not_its_own() -> None:
    form = Entry(name="of its own", gate="verify", kind="form", maker="nowhere:nothing")
    made = view([D, form], SHARED, [own(40, 100), own(30, 90, false_stops=4)])
    for name in ("missed_loop_rate", "cost_after_onset", "delay", "early_stop_rate"):
        found = figure_value(made, form, BY_NAME[name])
        assert (found.value, found.interval, found.below) == (None, None, 0)
        assert paired(made, D, form, BY_NAME[name]).difference is None
    assert figure_value(made, form, BY_NAME["false_stop_rate"]).value == 0.1
    assert figure_value(made, D, BY_NAME["missed_loop_rate"]).below == 10


def test_what_is_no_number_is_not_stored() -> None:
    with pytest.raises(ValueError, match="not a number"):
        bound(float("nan"))
    assert [number(bound(value)) for value in (inf, -inf, 2.5)] == [inf, -inf, 2.5]
