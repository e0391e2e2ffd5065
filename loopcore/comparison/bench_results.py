"""What `bench.json` holds: every figure with its counts and interval, and nothing that was timed.

A figure that is infinite is the text "infinite" (a difference also "-infinite"), as JSON has no
number for it; one that nothing can be said about is null.
"""

from __future__ import annotations

from typing import Literal

import msgspec

from loopcore.comparison.bounds import Bound
from loopcore.comparison.discrimination import Discrimination
from loopcore.comparison.sensitivity import Sensitivity
from loopcore.comparison.sweep_contestants import Entry
from loopcore.comparison.tuning_results import Tuned
from loopcore.control.limits import Limits


class Span(msgspec.Struct, frozen=True, kw_only=True):
    """Lower and upper bound of a 95 % interval."""

    low: Bound
    high: Bound


class FigureValue(msgspec.Struct, frozen=True, kw_only=True):
    """One figure: above ÷ below over `n` tasks.

    Fields:
        value: None where there is nothing to divide by. interval: exact for rates, a bootstrap
        over tasks for means. small: fewer than 30 units, so the figure is unknown.
    """

    value: Bound | None
    interval: Span | None
    above: int
    below: int
    n: int
    small: bool


class Row(msgspec.Struct, frozen=True, kw_only=True):
    """All figures of one contestant, by the names of `figures.FIGURES`; rho only for level E."""

    label: str
    name: str
    gate: str
    rho: float | None
    figures: dict[str, FigureValue]


class PairedDifference(msgspec.Struct, frozen=True, kw_only=True):
    """First minus second, and for means first ÷ second, over the same tasks and resamples."""

    first: str
    second: str
    figure: str
    difference: Bound | None
    interval: Span | None
    ratio: Bound | None
    ratio_interval: Span | None


class BreakEven(msgspec.Struct, frozen=True, kw_only=True):
    """The rho from which level E's cost per verified success is below level D's.

    It is interpolated on the grid; "infinite" means that no rho of the grid is enough.
    """

    gate: str
    rho: Bound
    interval: Span | None


class Family(msgspec.Struct, frozen=True, kw_only=True):
    """The tasks of one application, or of all.

    Fields:
        in_s: tasks in S. looped: with an onset before the cap. habits: tasks of each habit.
        calibrated_cap: in turns; None where there is none, and over all, where each has its own.
        sensitivity: of the ranking to each habit's share.
    """

    name: str
    tasks: int
    turns: int
    in_s: int
    looped: int
    habits: dict[str, int]
    rows: tuple[Row, ...]
    differences: tuple[PairedDifference, ...]
    break_even: tuple[BreakEven, ...]
    calibrated_cap: int | None
    sensitivity: Sensitivity


class TierResult(msgspec.Struct, frozen=True, kw_only=True):
    """One tier of worlds: each application, then all of them."""

    name: str
    families: tuple[Family, ...]


class BenchResult(msgspec.Struct, frozen=True, kw_only=True):
    """The outcome of one sweep; the same settings give the same bytes, however it was computed.

    Fields:
        complete: False when chunks are missing, after an interruption.
        horizon, cap: in turns. entries: the contestants in the order of the tables.
        twins: the discrimination of pathologies and their twins, where that was run.
        tuned: thresholds searched under a ceiling on false stops, where that was asked for.
    """

    schema: Literal["loopcore/bench/1"] = "loopcore/bench/1"
    loopcore_version: str
    complete: bool
    chunks: int
    chunks_done: int
    seed: int
    applications: tuple[str, ...]
    stepwise_tasks: int
    columnar_tasks: int
    resamples: int
    confidence: float
    horizon: int
    cap: int
    limits: Limits
    entries: tuple[Entry, ...]
    tiers: tuple[TierResult, ...]
    twins: Discrimination | None = None
    tuned: tuple[Tuned, ...] = ()
