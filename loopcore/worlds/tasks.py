"""Tasks are numbered; the habit of a number is drawn from the mixture, so lists extend each other.

Theory of operation: a task's habit is where its first draw falls on the mixture laid out in the
order of `HABITS`. The same number of the same seed is therefore the same task in every list that
holds it, and a small change of the mixture changes few tasks.

Source: spec control, section 4.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from types import MappingProxyType

from loopcore.errors import UsageError
from loopcore.worlds.draws import Draws
from loopcore.worlds.model import APPLICATIONS, HABITS, Task
from loopcore.worlds.purposes import HABIT, PLAN_TURN

TASKS_MAX = 10_000_000

# The share of each habit. No single mixture is the truth: the report moves every share.
DEFAULT_MIXTURE: Mapping[str, float] = MappingProxyType(
    {
        "productive": 0.16,
        "slow_starter": 0.08,
        "legitimate_poller": 0.09,
        "legitimate_edit_test": 0.12,
        "flaky_tool": 0.07,
        "exact_repeater": 0.08,
        "alternator": 0.06,
        "reworder": 0.07,
        "same_error_retrier": 0.06,
        "premature_finisher": 0.06,
        "metric_gamer": 0.05,
        "impossible_goal": 0.05,
        "lost_response": 0.05,
    }
)


def tasks(
    application: str,
    count: int,
    seed: int,
    first: int = 0,
    mixture: Mapping[str, float] = DEFAULT_MIXTURE,
) -> list[Task]:
    """Return the tasks number `first` to `first + count - 1` of an application.

    Arguments:
        application: one of `APPLICATIONS`; count: of tasks; seed: of all draws.
        mixture: weight of each habit, at least 0; a habit that is not named has none.

    Errors: UsageError for an unknown application or habit, a count out of range, and weights that
        are negative, not finite or all 0.
    """
    if application not in APPLICATIONS:
        raise UsageError(
            f"application: expected one of {', '.join(APPLICATIONS)}, got {application!a}"
        )
    if count < 0 or first < 0 or count > TASKS_MAX:
        raise UsageError(f"tasks: expected 0 to {TASKS_MAX} from number 0 on, got {count}")
    bounds = habit_bounds(mixture)
    return [
        Task(
            application=application,
            number=number,
            seed=seed,
            habit=_habit(Draws(seed, application, number).uniform(PLAN_TURN, HABIT), bounds),
        )
        for number in range(first, first + count)
    ]


def habit_bounds(mixture: Mapping[str, float]) -> tuple[tuple[float, str], ...]:
    """Return where each habit with a share ends in [0, 1]; the last ends at 1 exactly.

    Errors: UsageError as in `tasks`.
    """
    for habit, weight in mixture.items():
        if habit not in HABITS:
            raise UsageError(f"mixture: expected habits of {', '.join(HABITS)}, got {habit!a}")
        if not math.isfinite(weight) or weight < 0:
            raise UsageError(f"mixture: {habit}: expected a weight of at least 0, got {weight}")
    total = math.fsum(mixture.values())
    if not total > 0:
        raise UsageError("mixture: expected a habit with a weight above 0, got none")
    named = [(habit, mixture[habit]) for habit in HABITS if mixture.get(habit, 0.0) > 0]
    ends: list[tuple[float, str]] = []
    reached = 0.0
    for habit, weight in named:
        reached += weight / total
        ends.append((reached, habit))
    ends[-1] = (1.0, named[-1][0])
    return tuple(ends)


def _habit(place: float, bounds: tuple[tuple[float, str], ...]) -> str:
    for end, habit in bounds:
        if place < end:
            return habit
    return bounds[-1][1]
