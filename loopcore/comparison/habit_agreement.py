"""Whether the habit model's figures agree with those of the worlds that it was fitted to.

Theory of operation: fresh tasks of a world, which the model has not counted, and runs of the model
under the same mixture are judged by the same vectorised stop times, and each figure of each level
is compared: rates by exact intervals, means by normal ones. Two figures agree where their intervals
overlap. The model cannot know a figure better than the runs that were counted tell it, so its
intervals are those of as many runs, however many it makes. Among many comparisons a few must fail
by chance, and the figures of one application hang together, so the table says how many failed and
by how much each differs; nothing is left out.

Source: spec control, sections 3 and 4 (the columnar tier).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import msgspec
import numpy as np

from loopcore.batch.columns import Booleans, Columns, Int32s, Int64s
from loopcore.batch.interning import columns
from loopcore.batch.stop_times import REASONS, stop_times
from loopcore.comparison.intervals import Interval, clopper_pearson
from loopcore.comparison.tables import table
from loopcore.control.limits import Gate, Limits
from loopcore.worlds.habit_model import HORIZON, HabitModel
from loopcore.worlds.model import APPLICATIONS
from loopcore.worlds.playing import tool_policies, trajectory
from loopcore.worlds.tasks import DEFAULT_MIXTURE, tasks

LEVELS = ("A", "B", "C", "D")
RATES = ("verified", "false stops", "missed loops")
MEANS = ("steps", "cost")
# The normal quantile of a two-sided interval of 95 %.
_NORMAL = 1.959964
_STOPPING = ("budget", "gate", "detector")


class Figure(msgspec.Struct, frozen=True, kw_only=True):
    """One figure of one tier: a rate of `n`, or a mean over `n` runs."""

    value: float
    n: int
    interval: Interval


class Comparison(msgspec.Struct, frozen=True, kw_only=True):
    """One figure of one level in both tiers; None where there is nothing to count."""

    application: str
    level: str
    figure: str
    stepwise: Figure | None
    columnar: Figure | None

    @property
    def agrees(self) -> bool | None:
        """Whether the intervals overlap; None where one is missing."""
        if self.stepwise is None or self.columnar is None:
            return None
        one, other = self.stepwise.interval, self.columnar.interval
        return one.low <= other.high and other.low <= one.high


class Agreement(msgspec.Struct, frozen=True, kw_only=True):
    """All comparisons, with the settings that repeat them."""

    gate: Gate
    seed: int
    stepwise_tasks: int
    columnar_runs: int
    comparisons: tuple[Comparison, ...]

    @property
    def compared(self) -> int:
        """How many figures exist in both tiers."""
        return sum(one.agrees is not None for one in self.comparisons)

    @property
    def agreeing(self) -> int:
        """How many of these agree."""
        return sum(one.agrees is True for one in self.comparisons)


@dataclass(frozen=True, slots=True, kw_only=True)
class _Runs:
    """Columns and truth of one tier; `share` of the runs count towards intervals."""

    columns: Columns
    onset: Int32s
    verified_turn: Int32s
    share: float = 1.0


def agreement(
    model: HabitModel,
    *,
    applications: Sequence[str] = APPLICATIONS,
    stepwise_tasks: int = 500,
    columnar_runs: int = 20_000,
    seed: int = 0,
    gate: Gate = "verify",
    mixture: Mapping[str, float] = DEFAULT_MIXTURE,
) -> Agreement:
    """Return how the model's figures compare with those of the worlds, level by level.

    Arguments:
        seed: of the tasks; another than the model was fitted with.
    """
    comparisons: list[Comparison] = []
    for application in applications:
        limits = Limits(gate=gate, tools=tool_policies(application))
        world = _stepwise(application, stepwise_tasks, seed, limits, mixture)
        made = model.generate(
            application, range(columnar_runs), seed=seed, turns=HORIZON, mixture=mixture
        )
        counted = model.fitted.runs * len(model.fitted.applications[application].chains)
        drawn = _Runs(
            columns=made.columns,
            onset=made.onset,
            verified_turn=made.verified_turn,
            share=min(1.0, counted / columnar_runs),
        )
        for level in LEVELS:
            one, other = _figures(world, limits, level), _figures(drawn, limits, level)
            comparisons += [
                Comparison(
                    application=application,
                    level=level,
                    figure=name,
                    stepwise=one[name],
                    columnar=other[name],
                )
                for name in (*RATES, *MEANS)
            ]
    return Agreement(
        gate=gate,
        seed=seed,
        stepwise_tasks=stepwise_tasks,
        columnar_runs=columnar_runs,
        comparisons=tuple(comparisons),
    )


def markdown(result: Agreement) -> str:
    """Return the comparison as a Markdown table with a sentence above it."""
    heads = ("application", "level", "figure", "step-wise", "columnar", "agree")
    words = {True: "yes", False: "**no**", None: "nothing to count"}
    rows = [
        (
            one.application,
            one.level,
            one.figure,
            _shown(one.figure, one.stepwise),
            _shown(one.figure, one.columnar),
            words[one.agrees],
        )
        for one in result.comparisons
    ]
    sentence = (
        f"Gate {result.gate}: {result.agreeing} of {result.compared} figures agree within their "
        f"95 % intervals ({result.stepwise_tasks} step-wise tasks and {result.columnar_runs:,} "
        f"columnar runs an application, seed {result.seed})."
    )
    return f"{sentence}\n\n{table(heads, rows)}\n"


def _stepwise(
    application: str, count: int, seed: int, limits: Limits, mixture: Mapping[str, float]
) -> _Runs:
    """Return fresh tasks of a world as columns."""
    runs = [trajectory(task, HORIZON) for task in tasks(application, count, seed, mixture=mixture)]
    return _Runs(
        columns=columns([run.observations for run in runs], limits),
        onset=np.array([run.onset or 0 for run in runs], np.int32),
        verified_turn=np.array([run.verified_turn or 0 for run in runs], np.int32),
    )


def _figures(runs: _Runs, limits: Limits, level: str) -> dict[str, Figure | None]:
    """Return the figures of one level on the runs of one tier."""
    stops = stop_times(runs.columns, limits, level)
    completed = stops.reason == REASONS.index("completed")
    in_s = runs.verified_turn > 0
    stopped = np.zeros_like(completed)
    for cause in _STOPPING:
        stopped |= stops.is_cause(cause)
    cap = limits.max_steps or HORIZON
    looped = (runs.onset > 0) & (runs.onset < cap)
    caught = stops.is_cause("detector") & (stops.turn >= runs.onset) & (stops.turn < cap)
    rows = np.arange(1, runs.columns.turns + 1)[:, None] <= stops.turn[None, :]
    cost = np.where(rows, runs.columns.cost_microunits, 0).sum(axis=0, dtype=np.int64)
    everyone = np.ones_like(completed)
    return {
        "verified": _rate(completed, everyone, runs.share),
        "false stops": _rate(stopped, in_s, runs.share),
        "missed loops": _rate(~caught, looped, runs.share),
        "steps": _mean(stops.turn, runs.share),
        "cost": _mean(cost, runs.share),
    }


def _rate(hits: Booleans, among: Booleans, share: float) -> Figure | None:
    """Return a rate with the interval of so large a share of its runs."""
    n = int(among.sum())
    if not n:
        return None
    k = int((hits & among).sum())
    counted = max(1, round(n * share))
    return Figure(value=k / n, n=n, interval=clopper_pearson(round(counted * k / n), counted))


def _mean(values: Int32s | Int64s, share: float) -> Figure:
    """Return a mean with the interval of so large a share of its runs."""
    mean, n = float(values.mean()), len(values)
    error = _NORMAL * float(values.std(ddof=1)) / (n * share) ** 0.5 if n > 1 else float("inf")
    return Figure(value=mean, n=n, interval=Interval(low=mean - error, high=mean + error))


def _shown(name: str, figure: Figure | None) -> str:
    if figure is None:
        return "–"
    low, value, high = figure.interval.low, figure.value, figure.interval.high
    if name in RATES:
        return f"{100 * value:.1f} % [{100 * low:.1f}, {100 * high:.1f}]"
    digits = 1 if name == "steps" else 0
    return f"{value:,.{digits}f} [{low:,.{digits}f}, {high:,.{digits}f}]"
