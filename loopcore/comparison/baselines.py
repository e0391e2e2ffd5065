"""A result is kept under a name, and a later one is held against it task by task.

Theory of operation: the weight of a task in a resample depends on seed, application and number
alone (`bootstrap`). So the sums of two sweeps of the same tasks, made by different versions, are
paired resample by resample, and a baseline needs to keep only the resampled sums of the features
that named figures are made of, not a value for every task. A figure is worse when its
difference is beyond the tolerance *and* the paired interval excludes zero.

Timings are compared as multiples of the calibration loop that ran beside each chunk, paired by
chunk; they are worse when their geometric mean has grown beyond the tolerance and its bootstrap
interval over chunks excludes 1.

Source: spec control, section 7.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from math import exp, log
from pathlib import Path
from typing import Literal

import msgspec
import numpy as np

from loopcore import __version__
from loopcore.comparison.bench_results import Span
from loopcore.comparison.bench_summary import View
from loopcore.comparison.bootstrap import bounds, difference, relative
from loopcore.comparison.bounds import Bound, bound
from loopcore.comparison.figures import BY_NAME, OWN, RESAMPLED, SHARED
from loopcore.comparison.intervals import draws, percentiles
from loopcore.comparison.sweep import Sums, Swept, calibrated
from loopcore.comparison.sweep_chunks import TIERS, Settings, Tier
from loopcore.comparison.sweep_contestants import Entry
from loopcore.comparison.sweep_journal import Packed, packed, unpacked
from loopcore.errors import InputError, UsageError
from loopcore.files import write_whole
from loopcore.results import read_result

FOLDER = Path(".loopcore") / "baselines"
NAME_CHARACTERS_MAX = 64
_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]*")

Scale = Literal["absolute", "relative"]
# How much worse each named figure may become: in its own unit, or as a share of what it was.
TOLERANCES: dict[str, tuple[Scale, float]] = {
    "false_stop_rate": ("absolute", 0.005),
    "harm_rate": ("absolute", 0.005),
    "missed_loop_rate": ("absolute", 0.01),
    "success_rate": ("absolute", 0.005),
    "false_completion_rate": ("absolute", 0.005),
    "cost_per_success": ("relative", 0.02),
}
TIMING_TOLERANCE = 0.5
# Fewer chunks than these say nothing about a timing.
TIMED_CHUNKS_MIN = 5
TIMING_RESAMPLES = 2_000
_KEPT = tuple(
    name
    for name in RESAMPLED
    if any(name in (BY_NAME[figure].above, BY_NAME[figure].below) for figure in TOLERANCES)
)


class KeptSums(msgspec.Struct, frozen=True, kw_only=True):
    """The sums of one application in one tier: the shared features, then some of each entry's."""

    tier: Tier
    application: str
    tasks: int
    turns: int
    totals: Packed
    resamples: Packed


class Baseline(msgspec.Struct, frozen=True, kw_only=True):
    """A kept result; `timings` are multiples of the calibration loop a turn, by chunk."""

    schema: Literal["loopcore/baseline/1"] = "loopcore/baseline/1"
    loopcore_version: str
    features: tuple[str, ...]
    settings: Settings
    sums: tuple[KeptSums, ...]
    timings: dict[Tier, dict[str, float]]


@dataclass(frozen=True, slots=True, kw_only=True)
class Finding:
    """One named figure of one contestant, then and now."""

    tier: str
    family: str
    contestant: str
    figure: str
    before: Bound | None
    after: Bound | None
    difference: Bound
    interval: Span
    worse: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class TimingFinding:
    """How the time a turn of a tier has changed, as a factor; None where chunks are too few."""

    tier: str
    chunks: int
    factor: float | None
    interval: Span | None
    worse: bool


def checked_name(name: str) -> str:
    """Return a baseline's name; UsageError when it could not be a file's."""
    if len(name) > NAME_CHARACTERS_MAX or _NAME.fullmatch(name) is None:
        raise UsageError(
            f"a baseline's name is up to {NAME_CHARACTERS_MAX} letters, digits, dots, dashes and "
            f"underscores and begins with a letter or digit, not {name[:NAME_CHARACTERS_MAX]!a}"
        )
    return name


def path_of(name: str) -> Path:
    """Return where the baseline of a name is kept, below the current folder."""
    return FOLDER / f"{checked_name(name)}.json"


def save(name: str, swept: Swept) -> Path:
    """Keep a finished sweep under a name; return its file.

    Errors: UsageError for a name or an unfinished sweep, EnvironmentFault when it cannot be kept.
    """
    path = path_of(name)
    if swept.done < swept.chunks:
        raise UsageError("an interrupted benchmark is not kept as a baseline")
    kept = Baseline(
        loopcore_version=__version__,
        features=(*SHARED, *_KEPT),
        settings=swept.settings,
        sums=tuple(
            KeptSums(
                tier=tier,
                application=application,
                tasks=sums.tasks,
                turns=sums.turns,
                totals=packed(sums.totals[:1, _columns(swept.settings, tier, OWN)]),
                resamples=packed(sums.resamples[:, _columns(swept.settings, tier, RESAMPLED)]),
            )
            for (tier, application), sums in sorted(swept.sums.items())
        ),
        timings={tier: calibrated(swept, tier) for tier in TIERS},
    )
    write_whole(path, msgspec.json.encode(kept) + b"\n")
    return path


def _columns(settings: Settings, tier: Tier, features: Sequence[str]) -> list[int]:
    """Return which columns are kept where each entry has these features."""
    entries = range(len(settings.entries_of(tier)))
    own = [len(SHARED) + entry * len(features) for entry in entries]
    return [
        *range(len(SHARED)),
        *(start + features.index(feature) for start in own for feature in _KEPT),
    ]


def load(name: str) -> Baseline:
    """Return the baseline of a name.

    Errors: UsageError when there is none or the name is no name, InputError when its file is none.
    """
    path = path_of(name)
    if not path.exists():
        there = sorted(file.stem for file in FOLDER.glob("*.json"))
        known = f"there are {', '.join(there)}" if there else f"{FOLDER} holds none"
        raise UsageError(f"there is no baseline {name!r}; {known}")
    found = read_result(path, Baseline)
    if found.features != (*SHARED, *_KEPT):
        raise InputError(
            "malformed", f"{path}: kept by loopcore {found.loopcore_version}, which kept others."
        )
    return found


def check_same_tasks(name: str, baseline: Baseline, settings: Settings) -> None:
    """Raise UsageError when a sweep of these settings would not have the baseline's tasks."""
    for field in ("seed", "applications", "stepwise", "columnar", "resamples"):
        kept, now = getattr(baseline.settings, field), getattr(settings, field)
        if kept != now:
            raise UsageError(
                f"baseline {name!r} cannot be compared task by task: {field} was {kept}, not {now}"
            )


def compare(baseline: Baseline, swept: Swept) -> Iterator[Finding]:
    """Yield every named figure of every contestant that both have, application by application."""
    kept = _restored(baseline)
    for tier in TIERS:
        before_entries = baseline.settings.entries_of(tier)
        after_entries = swept.settings.entries_of(tier)
        old_families = dict(kept.families(tier))
        for family, sums in swept.families(tier):
            if family not in old_families:
                continue
            before = View(before_entries, old_families[family])
            after = View(after_entries, sums)
            for entry in after_entries:
                if entry in before_entries:
                    yield from _findings(tier, family, entry, before, after)


def _restored(baseline: Baseline) -> Swept:
    """Return the baseline as a sweep whose features are 0 but for those that were kept."""
    swept = Swept(settings=baseline.settings, chunks=len(baseline.sums))
    for kept in baseline.sums:
        entries = len(baseline.settings.entries_of(kept.tier))
        totals = np.zeros((1, len(SHARED) + entries * len(OWN)), dtype=np.int64)
        resamples = np.zeros(
            (kept.resamples.rows, len(SHARED) + entries * len(RESAMPLED)), dtype=np.int64
        )
        try:
            totals[:, _columns(baseline.settings, kept.tier, OWN)] = unpacked(kept.totals)
            resamples[:, _columns(baseline.settings, kept.tier, RESAMPLED)] = unpacked(
                kept.resamples
            )
        except ValueError as error:
            raise InputError("malformed", f"the baseline's sums: {error}.") from None
        swept.sums[kept.tier, kept.application] = Sums(
            tasks=kept.tasks, turns=kept.turns, totals=totals, resamples=resamples
        )
    return swept


def _findings(tier: str, family: str, entry: Entry, before: View, after: View) -> Iterator[Finding]:
    for name, (scale, tolerance) in TOLERANCES.items():
        figure = BY_NAME[name]
        old, new = before.value(entry, figure), after.value(entry, figure)
        if old is None or new is None:
            continue
        pair = np.array([new]), np.array([old])
        delta = float(difference(*pair)[0])
        found = bounds(difference(after.values(entry, figure), before.values(entry, figure)))
        if found is None:
            continue
        low, high = found
        # Turned such that more is worse.
        sign = -1 if figure.better == "higher" else 1
        excess = delta if scale == "absolute" else float(relative(*pair)[0]) - 1
        excludes_zero = low > 0 if sign > 0 else high < 0
        yield Finding(
            tier=tier,
            family=family,
            contestant=entry.label,
            figure=name,
            before=bound(old),
            after=bound(new),
            difference=bound(delta),
            interval=Span(low=bound(low), high=bound(high)),
            worse=sign * excess > tolerance and excludes_zero,
        )


def compare_timings(baseline: Baseline, swept: Swept) -> Iterator[TimingFinding]:
    """Yield how the time a turn has changed in each tier, in multiples of the calibration loop."""
    for tier in TIERS:
        before, after = baseline.timings.get(tier, {}), calibrated(swept, tier)
        steps = [log(after[c] / before[c]) for c in after if before.get(c, 0) > 0 < after[c]]
        if len(steps) < TIMED_CHUNKS_MIN:
            yield TimingFinding(
                tier=tier, chunks=len(steps), factor=None, interval=None, worse=False
            )
            continue
        means: list[float] = []
        for number in range(TIMING_RESAMPLES):
            picks = draws(swept.settings.seed, "timing", number, len(steps), len(steps))
            means.append(sum(steps[pick] for pick in picks) / len(steps))
        found = percentiles(means)
        factor = exp(sum(steps) / len(steps))
        yield TimingFinding(
            tier=tier,
            chunks=len(steps),
            factor=factor,
            interval=Span(low=exp(found.low), high=exp(found.high)),
            worse=factor > 1 + TIMING_TOLERANCE and found.low > 0,
        )
