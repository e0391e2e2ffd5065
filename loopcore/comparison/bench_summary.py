"""Sums become figures with intervals, paired differences, and level E's break-even.

Theory of operation: a `View` finds, for a contestant and a feature, the sum over tasks and the sums
over every resample. A figure is one quotient of the former and 2,000 of the latter. As all
contestants share the weights of tasks, a difference of two figures is taken within each resample.

Choices: a figure counts as small by the tasks below its line, but cost per verified success by all
tasks, since it is a figure of all of them.

Source: spec control, sections 3 and 4.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import cached_property
from math import inf

import numpy as np

from loopcore import __version__
from loopcore.batch.columns import Floats, Int64s
from loopcore.comparison.bench_results import (
    BenchResult,
    BreakEven,
    Family,
    FigureValue,
    PairedDifference,
    Row,
    Span,
    TierResult,
)
from loopcore.comparison.bootstrap import bounds, difference, ratios, relative
from loopcore.comparison.bounds import Bound, bound
from loopcore.comparison.figures import (
    BY_NAME,
    COMPARED,
    DERIVED,
    FIGURES,
    OF_THE_ONSET,
    OWN,
    RESAMPLED,
    SHARED,
    Figure,
)
from loopcore.comparison.intervals import CONFIDENCE, UNITS_MIN, clopper_pearson
from loopcore.comparison.sensitivity import HabitSums, Sensitivity, sensitivity
from loopcore.comparison.sweep import Sums, Swept
from loopcore.comparison.sweep_calibration import cap_of
from loopcore.comparison.sweep_chunks import TIERS
from loopcore.comparison.sweep_contestants import GATES, Entry, pairs
from loopcore.worlds.model import HABITS

_COST_PER_SUCCESS = BY_NAME["cost_per_success"]


class View:
    """The sums of one family, found by contestant and feature.

    Arguments: entries of the family's tier, in the order in which they were summed.
    """

    def __init__(self, entries: Sequence[Entry], sums: Sums) -> None:
        self.entries = tuple(entries)
        self.sums = sums
        self._places = {entry: place for place, entry in enumerate(entries)}

    @cached_property
    def _features(self) -> dict[str, int]:
        return {name: place for place, name in enumerate(SHARED)}

    def count(self, entry: Entry, feature: str, habit: int | None = None) -> int:
        """Return the sum of a feature over all tasks, or over those of a habit (an index)."""
        if feature in DERIVED:
            whole, part = DERIVED[feature]
            return self.count(entry, whole, habit) - self.count(entry, part, habit)
        row = self.sums.totals[0 if habit is None else 1 + habit]
        if feature in self._features:
            return int(row[self._features[feature]])
        return int(row[len(SHARED) + self._places[entry] * len(OWN) + OWN.index(feature)])

    def draws(self, entry: Entry, feature: str) -> Int64s:
        """Return the sum of a resampled feature in every resample, shape (resamples,)."""
        if feature in DERIVED:
            whole, part = DERIVED[feature]
            return self.draws(entry, whole) - self.draws(entry, part)
        if feature in self._features:
            return self.sums.resamples[:, self._features[feature]]
        start = len(SHARED) + self._places[entry] * len(RESAMPLED)
        return self.sums.resamples[:, start + RESAMPLED.index(feature)]

    def counts(self, entry: Entry, figure: Figure) -> tuple[int, int]:
        """Return what stands above and below a figure's line, 0 below where it has no meaning."""
        if entry.kind == "form" and figure.below in OF_THE_ONSET:
            return 0, 0
        return self.count(entry, figure.above), self.count(entry, figure.below)

    def value(self, entry: Entry, figure: Figure) -> float | None:
        """Return a figure over all tasks, infinite where it can be; None without anything below."""
        above, below = self.counts(entry, figure)
        if below:
            return above / below
        return inf if figure.infinite and above else None

    def values(self, entry: Entry, figure: Figure) -> Floats:
        """Return a figure in every resample, shape (resamples,)."""
        return ratios(self.draws(entry, figure.above), self.draws(entry, figure.below))


def conclude(swept: Swept) -> BenchResult:
    """Return the result of a sweep, of whatever is done of it."""
    settings = swept.settings
    tiers: list[TierResult] = []
    for tier in TIERS:
        entries = settings.entries_of(tier)
        families = tuple(
            family(
                name,
                View(entries, sums),
                cap_of(tier, name, settings.seed, settings.horizon)
                if name in settings.applications
                else None,
            )
            for name, sums in swept.families(tier)
        )
        if families:
            tiers.append(TierResult(name=tier, families=families))
    return BenchResult(
        loopcore_version=__version__,
        complete=swept.done == swept.chunks,
        chunks=swept.chunks,
        chunks_done=swept.done,
        seed=settings.seed,
        applications=settings.applications,
        stepwise_tasks=settings.stepwise,
        columnar_tasks=settings.columnar,
        resamples=settings.resamples,
        confidence=CONFIDENCE,
        horizon=settings.horizon,
        cap=settings.cap,
        limits=settings.limits,
        entries=settings.entries,
        tiers=tuple(tiers),
    )


def family(name: str, view: View, cap: int | None = None) -> Family:
    """Return all figures of one family, whose calibrated cap is `cap`."""
    first = view.entries[0]
    return Family(
        name=name,
        tasks=view.sums.tasks,
        turns=view.sums.turns,
        in_s=view.count(first, "in_s"),
        looped=view.count(first, "looped"),
        habits={habit: view.count(first, "tasks", place) for place, habit in enumerate(HABITS)},
        rows=tuple(_row(view, entry) for entry in view.entries),
        differences=tuple(
            paired(view, first, second, BY_NAME[figure])
            for first, second in pairs(view.entries)
            for figure in COMPARED
        ),
        break_even=tuple(found for gate in GATES if (found := break_even(view, gate)) is not None),
        calibrated_cap=cap,
        sensitivity=mixtures(view),
    )


def mixtures(view: View) -> Sensitivity:
    """Return how the ranking of the contestants under gate `verify` moves with each habit.

    Other forms of autonomy take no part: one that answers once is cheap where it may fail at will.
    """
    ranked = [one for one in view.entries if one.gate == "verify" and one.kind != "form"]
    if not ranked:
        return sensitivity([], {})
    sums: dict[str, HabitSums] = {}
    for place, habit in enumerate(HABITS):
        tasks = view.count(ranked[0], "tasks", place)
        if tasks:
            sums[habit] = HabitSums(
                tasks=tasks,
                cost={entry.label: view.count(entry, "cost", place) for entry in ranked},
                verified={entry.label: view.count(entry, "verified", place) for entry in ranked},
            )
    return sensitivity([entry.label for entry in ranked], sums)


def _row(view: View, entry: Entry) -> Row:
    return Row(
        label=entry.label,
        name=entry.name,
        gate=entry.gate,
        rho=entry.rho,
        figures={figure.name: figure_value(view, entry, figure) for figure in FIGURES},
    )


def figure_value(view: View, entry: Entry, figure: Figure) -> FigureValue:
    """Return a figure of one contestant with its interval."""
    above, below = view.counts(entry, figure)
    units = view.count(entry, "tasks") if figure.infinite else below
    value = view.value(entry, figure)
    interval: Span | None = None
    if figure.kind == "rate" and below:
        exact = clopper_pearson(above, below)
        interval = Span(low=exact.low, high=exact.high)
    elif figure.kind == "mean" and value is not None:
        interval = _span(view.values(entry, figure))
    return FigureValue(
        value=None if value is None else bound(value),
        interval=interval,
        above=above,
        below=below,
        n=units,
        small=units < UNITS_MIN,
    )


def _span(values: Floats) -> Span | None:
    found = bounds(values)
    return None if found is None else Span(low=bound(found[0]), high=bound(found[1]))


def paired(view: View, first: Entry, second: Entry, figure: Figure) -> PairedDifference:
    """Return the paired difference of two contestants of one family."""
    one, two = view.value(first, figure), view.value(second, figure)
    delta: Bound | None = None
    ratio: Bound | None = None
    interval: Span | None = None
    ratio_interval: Span | None = None
    if one is not None and two is not None:
        first_values, second_values = view.values(first, figure), view.values(second, figure)
        delta = bound(_alone(difference, one, two))
        interval = _span(difference(first_values, second_values))
        if figure.kind == "mean":
            ratio = bound(_alone(relative, one, two))
            ratio_interval = _span(relative(first_values, second_values))
    return PairedDifference(
        first=first.label,
        second=second.label,
        figure=figure.name,
        difference=delta,
        interval=interval,
        ratio=ratio,
        ratio_interval=ratio_interval,
    )


def _alone(rule: Callable[[Floats, Floats], Floats], one: float, two: float) -> float:
    """Return what a rule of resamples says of two single numbers."""
    return float(rule(np.array([one]), np.array([two]))[0])


def break_even(view: View, gate: str) -> BreakEven | None:
    """Return the rho* of a gate with its interval; None where a curve, level D or costs lack."""
    curve = sorted(
        (entry for entry in view.entries if entry.rho is not None and entry.gate == gate),
        key=lambda entry: entry.rho or 0.0,
    )
    level_d = next((e for e in view.entries if e.name == "D" and e.gate == gate), None)
    if not curve or level_d is None:
        return None
    grid = np.array([entry.rho or 0.0 for entry in curve])

    points = [view.value(entry, _COST_PER_SUCCESS) for entry in (*curve, level_d)]
    costs = [point for point in points if point is not None]
    if len(costs) < len(points):
        return None
    values = np.stack([view.values(entry, _COST_PER_SUCCESS) for entry in curve])
    found = crossings(grid, np.array(costs[:-1])[:, None], np.array(costs[-1:]))
    resampled = crossings(grid, values, view.values(level_d, _COST_PER_SUCCESS))
    return BreakEven(gate=gate, rho=bound(float(found[0])), interval=_span(resampled))


def crossings(grid: Floats, curve: Floats, level: Floats) -> Floats:
    """Return where each curve first falls below its level, interpolated, shape (samples,).

    Arguments: grid, shape (points,), ascending; curve, shape (points, samples); level, shape
    (samples,). A curve that begins below its level crosses at the first point, one that never falls
    below at infinity. Where a value is infinite the crossing is at the point that is below.
    """
    above = difference(curve, np.broadcast_to(level, curve.shape))
    below = above < 0
    place = below.argmax(axis=0)
    samples = np.arange(curve.shape[1])
    before = np.maximum(place - 1, 0)
    high, low = above[before, samples], above[place, samples]
    with np.errstate(invalid="ignore", divide="ignore"):
        share = np.where(np.isfinite(high) & np.isfinite(low), high / (high - low), 1.0)
    found = grid[before] + np.nan_to_num(share, nan=1.0) * (grid[place] - grid[before])
    found = np.where(below.any(axis=0), found, np.inf)
    return np.where(np.isnan(above).any(axis=0), np.nan, found)
