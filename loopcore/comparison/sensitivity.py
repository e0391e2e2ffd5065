"""How the ranking of contestants moves as the share of one habit moves.

Theory of operation: the sums of a sweep stand apart for each habit, so a mixture is a weighted mean
of what each habit costs and verifies a task. For every habit its share is moved over a grid, the
other habits keep their proportions, and the contestants are ranked by cost per verified success. No
single mixture is the truth: what the table shows is which statement holds for all of them.

Choices: a habit with fewer than 30 tasks is left out, as its means are unknown. The grid holds the
habit's own share of the sweep, so that each row can be compared with it. Equal costs share a rank.

Source: spec control, section 4.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from math import inf

import msgspec

from loopcore.comparison.bounds import Bound, bound
from loopcore.comparison.intervals import UNITS_MIN

# Shares to which each habit is moved.
SHARES = (0.0, 0.1, 0.25, 0.5, 0.75)


class HabitSums(msgspec.Struct, frozen=True, kw_only=True):
    """What one habit's tasks came to: their number and, by contestant, cost and successes."""

    tasks: int
    cost: dict[str, int]
    verified: dict[str, int]


class Point(msgspec.Struct, frozen=True, kw_only=True):
    """One mixture: the habit's share, each contestant's cost per success and its rank from 1."""

    share: float
    own: bool
    cost_per_success: dict[str, Bound]
    rank: dict[str, int]
    best: tuple[str, ...]


class HabitSensitivity(msgspec.Struct, frozen=True, kw_only=True):
    """All mixtures of one habit; `changes` says whether the best contestant is not always one."""

    habit: str
    tasks: int
    points: tuple[Point, ...]
    changes: bool


class Sensitivity(msgspec.Struct, frozen=True, kw_only=True):
    """The ranking under all mixtures of one family.

    Fields:
        left_out: habits with too few tasks. sentence: what holds under all mixtures, in words.
    """

    contestants: tuple[str, ...]
    habits: tuple[HabitSensitivity, ...]
    left_out: tuple[str, ...]
    sentence: str


def sensitivity(contestants: Sequence[str], sums: Mapping[str, HabitSums]) -> Sensitivity:
    """Return how the ranking of these contestants moves with each habit's share.

    Arguments: sums by habit, each with the cost and the successes of every contestant.
    """
    known = {habit: one for habit, one in sums.items() if one.tasks >= UNITS_MIN}
    whole = sum(one.tasks for one in known.values())
    habits: list[HabitSensitivity] = []
    for habit, one in known.items():
        rest = whole - one.tasks
        if not rest:
            continue
        own = one.tasks / whole
        points = tuple(
            _point(contestants, known, habit, share, own=share == own)
            for share in sorted({*SHARES, own})
        )
        habits.append(
            HabitSensitivity(
                habit=habit,
                tasks=one.tasks,
                points=points,
                changes=len({point.best for point in points}) > 1,
            )
        )
    left_out = tuple(habit for habit in sums if habit not in known)
    return Sensitivity(
        contestants=tuple(contestants),
        habits=tuple(habits),
        left_out=left_out,
        sentence=_sentence(habits),
    )


def _point(
    contestants: Sequence[str],
    sums: Mapping[str, HabitSums],
    habit: str,
    share: float,
    *,
    own: bool,
) -> Point:
    """Return the ranking where a habit has this share and the others keep their proportions."""
    rest = sum(one.tasks for name, one in sums.items() if name != habit)
    weights = {
        name: share / one.tasks if name == habit else (1 - share) / rest
        for name, one in sums.items()
    }
    costs = {name: _cost(name, sums, weights) for name in contestants}
    ranks = {name: 1 + sum(other < costs[name] for other in costs.values()) for name in contestants}
    return Point(
        share=share,
        own=own,
        cost_per_success={name: bound(cost) for name, cost in costs.items()},
        rank=ranks,
        best=tuple(name for name in contestants if ranks[name] == 1),
    )


def _cost(name: str, sums: Mapping[str, HabitSums], weights: Mapping[str, float]) -> float:
    """Return a contestant's cost per verified success under these weights of a task."""
    cost = sum(weights[habit] * one.cost[name] for habit, one in sums.items())
    verified = sum(weights[habit] * one.verified[name] for habit, one in sums.items())
    return cost / verified if verified else inf


def _sentence(habits: Sequence[HabitSensitivity]) -> str:
    """Return which contestants are best in some mixture, and which habits decide it."""
    best = dict.fromkeys(" and ".join(point.best) for one in habits for point in one.points)
    if not best:
        return "No habit has enough tasks for a mixture to be moved."
    if len(best) == 1:
        return f"{next(iter(best))} costs least per verified success in every mixture."
    deciding = ", ".join(one.habit for one in habits if one.changes)
    return (
        "Which contestant costs least per verified success depends on the mixture:"
        f" {', '.join(best)} each do somewhere; it changes with the share of {deciding}."
    )
