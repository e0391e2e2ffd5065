"""Claim: the ranking under a mixture is that of the habits' own means, weighted by the mixture."""

from __future__ import annotations

from fractions import Fraction

import pytest

from loopcore.comparison.bounds import number
from loopcore.comparison.sensitivity import SHARES, HabitSums, sensitivity

NAMES = ("A", "D")
SUMS = {
    "productive": HabitSums(tasks=60, cost={"A": 600, "D": 600}, verified={"A": 60, "D": 54}),
    "exact_repeater": HabitSums(tasks=40, cost={"A": 4_000, "D": 800}, verified={"A": 4, "D": 4}),
    "rare": HabitSums(tasks=3, cost={"A": 1, "D": 9}, verified={"A": 3, "D": 0}),
}


def test_each_point_is_the_weighted_mean_of_the_habits() -> None:
    result = sensitivity(NAMES, SUMS)
    habit = next(one for one in result.habits if one.habit == "exact_repeater")
    assert [point.share for point in habit.points] == sorted({*SHARES, 0.4})
    for point in habit.points:
        share = Fraction(point.share).limit_denominator(1000)
        for name in NAMES:
            good, bad = SUMS["productive"], SUMS["exact_repeater"]
            cost = (1 - share) * Fraction(good.cost[name], 60) + share * Fraction(
                bad.cost[name], 40
            )
            verified = (1 - share) * Fraction(good.verified[name], 60) + share * Fraction(
                bad.verified[name], 40
            )
            assert number(point.cost_per_success[name]) == pytest.approx(float(cost / verified))


def test_the_ranking_turns_where_the_habit_that_a_level_is_for_becomes_rare() -> None:
    result = sensitivity(NAMES, SUMS)
    habit = next(one for one in result.habits if one.habit == "exact_repeater")
    assert habit.changes
    assert habit.points[0].best == ("A",)
    assert habit.points[-1].best == ("D",)
    assert [point.own for point in habit.points].count(True) == 1
    assert "depends on the mixture" in result.sentence


def test_a_habit_of_few_tasks_is_left_out_and_named() -> None:
    result = sensitivity(NAMES, SUMS)
    assert result.left_out == ("rare",)
    assert all(one.habit != "rare" for one in result.habits)


def test_a_mixture_without_a_success_costs_infinitely_much() -> None:
    sums = {
        "one": HabitSums(tasks=50, cost={"A": 5}, verified={"A": 5}),
        "two": HabitSums(tasks=50, cost={"A": 5}, verified={"A": 0}),
    }
    result = sensitivity(
        ["A"], {**sums, "one": HabitSums(tasks=50, cost={"A": 5}, verified={"A": 0})}
    )
    assert all(
        point.cost_per_success == {"A": "infinite"} for one in result.habits for point in one.points
    )


def test_one_best_contestant_everywhere_is_said_so() -> None:
    assert "in every mixture" in sensitivity(["D"], SUMS).sentence
    assert "No habit" in sensitivity(["D"], {}).sentence
