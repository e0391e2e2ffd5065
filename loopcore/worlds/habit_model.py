"""A semi-Markov model of agents' habits, fitted by counting, that makes runs as columns for size.

Theory of operation: the state of a chain is an event with its age and phase (see
`habit_model_events`), so how long an event goes on may depend on how long it has gone on. Per
application and habit three things were counted: how many successes a run has before its last and
at which turn its onset is, what follows each state, and what a turn uses. A run draws its plan
first and then its events; the plan decides when the run closes and when it is stuck. A fitted model
is data that ships with the package.

What is kept is what a controller can tell. What is lost is memory longer than a state's: what an
agent has read, how many operations it still has to wait for. The comparison in
`loopcore.comparison.habit_agreement` says how far the figures agree all the same.

Source: spec control, section 4 (the columnar tier).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import lru_cache
from importlib.resources import files
from typing import TYPE_CHECKING

import msgspec

from loopcore.control.limits import Limits
from loopcore.errors import UsageError
from loopcore.worlds.habit_model_data import SCHEMA, Fitted
from loopcore.worlds.model import Trajectory
from loopcore.worlds.playing import tool_policies
from loopcore.worlds.tasks import DEFAULT_MIXTURE

if TYPE_CHECKING:
    from loopcore.worlds.habit_model_generation import Generated
    from loopcore.worlds.habit_model_tables import Tables

FILE = "habits.json"
HORIZON = 120


class HabitModel:
    """A fitted model with its lookup tables, which are made when an application is first used.

    Fields: fitted: the data.
    """

    def __init__(self, fitted: Fitted) -> None:
        self.fitted = fitted
        self._tables: dict[str, Tables] = {}

    def generate(
        self,
        application: str,
        numbers: range,
        *,
        seed: int,
        turns: int = HORIZON,
        mixture: Mapping[str, float] = DEFAULT_MIXTURE,
    ) -> Generated:
        """Return runs as columns, one for each number, the same for a number in any range.

        Arguments:
            application: one that the model has. numbers: of the runs, from 0.
            seed: of all draws; the habit of a number is that of the task of this number.
            turns: the horizon, at most the model's. mixture: weight of each habit.

        Errors: UsageError for an unknown application or habit, and turns out of range.

        Complexity: linear in the turns of the runs. The columns stand in an order of their own,
        which keeps open runs together; `Generated.numbers` says which run each is.
        """
        from loopcore.worlds.habit_model_generation import generated

        horizon = self.fitted.horizon
        if not 1 <= turns <= horizon:
            raise UsageError(f"turns: expected 1 to {horizon}, got {turns}")
        return generated(self.tables(application), numbers, seed, turns, mixture)

    def tables(self, application: str) -> Tables:
        """Return the lookup tables of an application; UsageError when the model has none."""
        if application not in self.fitted.applications:
            known = ", ".join(self.fitted.applications)
            raise UsageError(f"application: expected one of {known}, got {application!a}")
        if application not in self._tables:
            from loopcore.worlds.habit_model_tables import compiled

            model = self.fitted.applications[application]
            self._tables[application] = compiled(model, application, self.fitted.horizon)
        return self._tables[application]


def fit(trajectories: Sequence[Trajectory], *, seed: int = 0, horizon: int = HORIZON) -> HabitModel:
    """Return the model that was counted over these runs, whose horizon this was.

    Arguments:
        trajectories: runs of any applications; of each habit that is to be generated, some.
        seed: of the tasks, which is kept in the model as a note.
    """
    from loopcore.worlds.habit_model_fitting import application_model

    by_application: dict[str, list[Trajectory]] = {}
    for run in trajectories:
        by_application.setdefault(run.task.application, []).append(run)
    models = {
        name: application_model(runs, Limits(tools=tool_policies(name)))
        for name, runs in by_application.items()
    }
    runs = min((len(c.plans) for m in models.values() for c in m.chains.values()), default=0)
    return HabitModel(
        Fitted(
            schema=SCHEMA,
            seed=seed,
            runs=runs,
            horizon=horizon,
            probe={},
            applications=models,
        )
    )


@lru_cache(maxsize=1)
def load() -> HabitModel:
    """Return the fitted model that ships with the package."""
    data = files("loopcore.worlds").joinpath(FILE).read_bytes()
    return HabitModel(msgspec.json.decode(data, type=Fitted))


def generate(
    application: str,
    numbers: range,
    seed: int,
    turns: int = HORIZON,
    mixture: Mapping[str, float] = DEFAULT_MIXTURE,
) -> Generated:
    """Return runs of the model that ships with the package; see `HabitModel.generate`."""
    return load().generate(application, numbers, seed=seed, turns=turns, mixture=mixture)
