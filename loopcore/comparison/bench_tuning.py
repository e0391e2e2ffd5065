"""The tuner on the worlds of a sweep: an application's thresholds, on tasks of the larger tier."""

from __future__ import annotations

import msgspec

from loopcore.comparison.outcomes import truth_of, truth_of_generated
from loopcore.comparison.sweep_chunks import Settings
from loopcore.comparison.tuning import tune
from loopcore.comparison.tuning_results import Tuned
from loopcore.comparison.tuning_sources import from_columns

# Tasks of an application that take part in a search: half to choose on, half to report on.
TASKS_MAX = 4_000


def tune_worlds(settings: Settings, ceiling: float) -> tuple[Tuned, ...]:
    """Return for each application the setting of level D that saves most under the ceiling."""
    return tuple(_tune(settings, name, ceiling) for name in settings.applications)


def _tune(settings: Settings, application: str, ceiling: float) -> Tuned:
    from loopcore.worlds.playing import tool_policies

    limits = msgspec.structs.replace(settings.limits, tools=tool_policies(application))
    if settings.columnar:
        from loopcore.worlds.habit_model import generate

        numbers = range(min(settings.columnar, TASKS_MAX))
        made = generate(application, numbers, settings.seed, settings.horizon)
        columns, truth = made.columns, truth_of_generated(application, made)
    else:
        from loopcore.batch.interning import columns as interned
        from loopcore.worlds.playing import trajectory
        from loopcore.worlds.tasks import tasks

        given = tasks(application, min(settings.stepwise, TASKS_MAX), settings.seed)
        runs = [trajectory(task, settings.horizon) for task in given]
        columns = interned([run.observations for run in runs], limits)
        truth = truth_of(application, runs)
    firings = from_columns(columns, truth, limits)
    return tune(application, firings, ceiling, settings.seed)
