"""Thresholds of level D, chosen on one part of the tasks and reported on the other.

Theory of operation: every row of a controller is evaluated on every observation, whatever else
fires. So where a setting stops a run is the earliest turn at which one of its rows fires alone, and
the rows can be measured apart: a few stop times a run give every setting of the product of all
options. On the choosing part each setting has a number of tasks that it stops falsely and a share
of the failed runs' spending that it saves. The setting that saves most among those under the user's
ceiling is then judged on the reporting part, beside the default setting and a step cap calibrated
on the same choosing part. The settings that no other beats in both are the front.

Choices: the ceiling holds for (tasks stopped + 1) ÷ (tasks + 1), so few tasks cannot show that a
low ceiling is kept, and with too few no setting that stops anything is chosen. Of equal settings
the one that stops fewer good tasks wins, then the one with fewer rows, then the first.

Source: spec control, section 5; for the added one, Angelopoulos et al., Conformal Risk Control
(2024).
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from fractions import Fraction
from typing import cast

import numpy as np

from loopcore.batch.columns import Booleans, Int32s, Int64s
from loopcore.comparison.bootstrap import bounds, ratios, resampled_sums
from loopcore.comparison.cap import calibrated_cap
from loopcore.comparison.intervals import (
    UNITS_MIN,
    Interval,
    clopper_pearson,
    draws,
)
from loopcore.comparison.tuning_results import Judged, Setting, Tuned
from loopcore.control.limits import Limits

# What each row can be set to; None turns it off.
OPTIONS: Mapping[str, tuple[int | None, ...]] = {
    "max_steps": (None, 10, 15, 20, 30, 40, 60, 80),
    "repeat": (None, 2, 3, 4, 5, 6, 8, 10),
    "error_streak": (None, 2, 3, 4, 6, 8),
    "cycle_repeats": (None, 2, 3, 4),
    "window": (None, 4, 6, 8, 12, 16, 24),
    "max_waits": (None, 5, 10, 20, 40),
}
ROWS = tuple(OPTIONS)
# The default setting of level D, as a place in each row's options.
DEFAULT = {
    "max_steps": 30,
    "repeat": 4,
    "error_streak": 4,
    "cycle_repeats": 3,
    "window": 12,
    "max_waits": 20,
}
# A turn at which nothing fires.
NEVER = np.iinfo(np.int32).max
ALPHA = Fraction(1, 20)
RESAMPLES = 2_000
FRONT_MAX = 15
# How many of the last rows are judged at once, all of their options.
TOGETHER = 2


@dataclass(frozen=True, slots=True, kw_only=True)
class Firings:
    """What is known of each run, whatever the setting.

    Fields:
        task: shape (runs,), a number for each task. good: whether the run verified.
        length: turns. firing: by row, shape (options, runs): the turn at which the row fires first
            when it is alone, NEVER where it does not.
        spent: shape (turns + 1, runs): what the run had spent after that many turns, constant from
            its end on. unit: of `spent`, for people.
    """

    task: Int32s
    good: Booleans
    length: Int32s
    firing: Mapping[str, Int32s]
    spent: Int64s
    unit: str

    def part(self, chosen: Booleans, order: Int64s | None = None) -> Firings:
        """Return the runs for which `chosen` is true, out of those of `order` where it is given."""
        places = np.flatnonzero(chosen) if order is None else order[chosen]
        return Firings(
            task=self.task[places],
            good=self.good[places],
            length=self.length[places],
            firing={row: turns[:, places] for row, turns in self.firing.items()},
            spent=self.spent[:, places],
            unit=self.unit,
        )


def limits_of(setting: Mapping[str, int | None], base: Limits) -> Limits:
    """Return limits in which only the rows of this setting are on; tools and gate are the base's.

    The horizon, the budgets of usage and the refusals are off.
    """
    cycle = setting.get("cycle_repeats")
    return Limits(
        gate=base.gate,
        tools=base.tools,
        horizon=None,
        max_refusals=None,
        max_steps=setting.get("max_steps"),
        repeat=setting.get("repeat"),
        error_streak=setting.get("error_streak"),
        window=setting.get("window"),
        max_waits=setting.get("max_waits"),
        cycle_max=None if cycle is None else base.cycle_max,
        cycle_repeats=3 if cycle is None else cycle,
    )


def tune(name: str, firings: Firings, ceiling: float, seed: int) -> Tuned:
    """Return the setting of level D that saves most under the ceiling, judged on other tasks.

    Arguments: ceiling, the greatest share of good tasks that may be stopped, from 0 to 1.

    Complexity: settings × runs of the choosing part.
    """
    chosen_tasks = choosing_half(firings.task, seed, name)
    first, second = firings.part(chosen_tasks), firings.part(~chosen_tasks)
    places = list(_settings())
    stopped, saved, good_tasks = _search(first, places)
    fewest_rows = np.array([sum(1 for place in setting if place) for setting in places])
    allowed = (stopped + 1) <= ceiling * (good_tasks + 1)
    allowed &= saved > 0
    best: int | None = None
    if allowed.any():
        order = np.lexsort((fewest_rows, stopped, -saved))
        best = int(order[allowed[order]][0])
    cap_turns = calibrated_cap(_lengths(first), ALPHA)

    def judged(setting: Mapping[str, int | None], turns: Int32s | None = None) -> Setting:
        one, two = (
            judge(part, stop_turns(part, setting) if turns is None else _capped(part, turns), seed)
            for part in (first, second)
        )
        return Setting(limits=dict(setting), choosing=one, reporting=two)

    chosen = None if best is None else judged(_named(places[best]))
    default = judged(DEFAULT)
    cap = None
    if cap_turns is not None:
        cap = judged({"max_steps": cap_turns}, np.array(cap_turns, dtype=np.int32))
    return Tuned(
        name=name,
        seed=seed,
        ceiling=ceiling,
        unit=firings.unit,
        settings=len(places),
        choosing_tasks=len(np.unique(first.task)),
        reporting_tasks=len(np.unique(second.task)),
        chosen=chosen,
        default=default,
        cap_turns=cap_turns,
        cap=cap,
        front=tuple(judged(_named(places[at])) for at in _front(stopped, saved)),
        sentence=_sentence(name, ceiling, chosen, default, cap),
    )


def stop_turns(firings: Firings, setting: Mapping[str, int | None]) -> Int32s:
    """Return the turn at which a setting of the options stops each run, NEVER where it does not."""
    return _earliest(firings, {row: OPTIONS[row].index(value) for row, value in setting.items()})


def judge(firings: Firings, turns: Int32s, seed: int) -> Judged:
    """Return what stopping each run at these turns does; a stop at a run's end does nothing."""
    cut = turns < firings.length
    good_tasks = np.unique(firings.task[firings.good])
    stopped = len(np.unique(firings.task[firings.good & cut]))
    bad = ~firings.good
    tasks, place = np.unique(firings.task[bad], return_inverse=True)
    spent, saved = (
        np.bincount(place, weights=values[bad], minlength=len(tasks)).astype(np.int64)
        for values in (firings.spent[-1], _saved(firings, turns))
    )
    return Judged(
        stopped=stopped,
        tasks=len(good_tasks),
        interval=clopper_pearson(stopped, len(good_tasks)) if len(good_tasks) else None,
        small=len(good_tasks) < UNITS_MIN,
        saved=int(saved.sum()),
        spent=int(spent.sum()),
        share=float(saved.sum() / spent.sum()) if spent.sum() else None,
        share_interval=_share_interval(saved, spent, seed) if spent.sum() else None,
    )


def _capped(firings: Firings, cap: Int32s) -> Int32s:
    """Return the cap as the turn of each run's stop."""
    return np.broadcast_to(cap, firings.length.shape)


def choosing_half(task: Int32s, seed: int, name: str) -> Booleans:
    """Return which runs belong to the choosing half of the tasks, drawn by the seed."""
    names = np.unique(task)
    keys = np.array(draws(seed, f"tuning {name}", 0, len(names), 2**32), dtype=np.int64)
    first = names[np.argsort(keys, kind="stable")][: (len(names) + 1) // 2]
    return np.isin(task, first)


def _settings() -> Iterator[tuple[int, ...]]:
    """Yield every setting as a place in each row's options."""
    shape = tuple(len(options) for options in OPTIONS.values())
    for place in np.ndindex(shape):
        yield tuple(place)


def _named(setting: Sequence[int]) -> dict[str, int | None]:
    return {row: OPTIONS[row][place] for row, place in zip(ROWS, setting, strict=True)}


def _search(firings: Firings, places: Sequence[tuple[int, ...]]) -> tuple[Int64s, Int64s, int]:
    """Return for every setting the good tasks stopped and the spending saved; and the good tasks.

    The settings come in the order of `_settings`: all options of the last rows stand together, and
    are judged at once against the minimum of the rows before.
    """
    by_task = np.argsort(firings.task, kind="stable")
    good = firings.part(firings.good[by_task], by_task)
    bad = firings.part(~firings.good)
    tasks, starts = np.unique(good.task, return_index=True)
    spared = _spared(bad)
    runs = np.arange(len(bad.length))
    good_last, bad_last = _combined(good), _combined(bad)
    together = len(good_last)
    stopped = np.zeros(len(places), dtype=np.int64)
    saved = np.zeros(len(places), dtype=np.int64)
    for start in range(0, len(places), together):
        setting = dict(zip(ROWS[:-TOGETHER], places[start], strict=False))
        cut = np.minimum(good_last, _earliest(good, setting)) < good.length
        if len(tasks):
            stopped[start : start + together] = np.logical_or.reduceat(cut, starts, axis=1).sum(
                axis=1
            )
        turns = np.minimum(bad_last, _earliest(bad, setting))
        np.minimum(turns, len(spared) - 1, out=turns)
        saved[start : start + together] = spared[turns, runs].sum(axis=1)
    return stopped, saved, len(tasks)


def _combined(firings: Firings) -> Int32s:
    """Return where each setting of the last rows stops each run, shape (settings, runs)."""
    turns = np.full((1, len(firings.length)), NEVER, dtype=np.int32)
    for row in ROWS[-TOGETHER:]:
        both = np.minimum(turns[:, None], firings.firing[row][None])
        turns = both.reshape(len(turns) * len(OPTIONS[row]), len(firings.length))
    return turns


def _earliest(firings: Firings, places: Mapping[str, int]) -> Int32s:
    """Return the turn at which the first of these rows fires in each run."""
    turns = np.full(len(firings.length), NEVER, dtype=np.int32)
    for row, place in places.items():
        np.minimum(turns, firings.firing[row][place], out=turns)
    return turns


def _spared(firings: Firings) -> Int64s:
    """Return what each run spends after a turn, shape (turns + 1, runs)."""
    return cast("Int64s", firings.spent[-1] - firings.spent)


def _saved(firings: Firings, turns: Int32s) -> Int64s:
    at = np.minimum(turns, len(firings.spent) - 1)
    return cast("Int64s", firings.spent[-1] - firings.spent[at, np.arange(len(turns))])


def _lengths(firings: Firings) -> list[int]:
    """Return the length of one good run of each task that has one, the first."""
    _, first = np.unique(firings.task[firings.good], return_index=True)
    return [int(length) for length in firings.length[firings.good][first]]


def _front(stopped: Int64s, saved: Int64s) -> list[int]:
    """Return the settings that none beats in both, fewest stops first, thinned to FRONT_MAX."""
    order = np.lexsort((-saved, stopped))
    found: list[int] = []
    best = -1
    for at in order:
        if saved[at] > best:
            found.append(int(at))
            best = int(saved[at])
    if len(found) <= FRONT_MAX:
        return found
    kept = np.unique(np.linspace(0, len(found) - 1, FRONT_MAX).round().astype(int))
    return [found[at] for at in kept]


def _share_interval(saved: Int64s, spent: Int64s, seed: int) -> Interval | None:
    """Return the bootstrap interval, over tasks, of all that is saved ÷ all that is spent."""
    values = np.stack([saved, spent], axis=1)
    sums = resampled_sums(seed, "tuning", 0, values, chosen=(0, 1), resamples=RESAMPLES)
    found = bounds(ratios(sums[:, 0], sums[:, 1]))
    return None if found is None else Interval(low=found[0], high=found[1])


def _sentence(
    name: str,
    ceiling: float,
    chosen: Setting | None,
    default: Setting,
    cap: Setting | None,
) -> str:
    """Return in words what the search found, and whether the step cap is better."""
    if chosen is None:
        return (
            f"{name}: no setting that saves anything is under a ceiling of {ceiling:.1%} false"
            f" stops on the {default.choosing.tasks} good tasks it was to be chosen on."
        )
    got = chosen.reporting
    kept = got.tasks > 0 and got.stopped / got.tasks <= ceiling
    words = [
        f"{name}: the setting chosen under a ceiling of {ceiling:.1%} false stops stops"
        f" {got.stopped} of {got.tasks} other good tasks ({'kept' if kept else 'not kept'}) and"
        f" saves {_percent(got.share)} of what other failed runs spend; level D as shipped stops"
        f" {default.reporting.stopped} and saves {_percent(default.reporting.share)}."
    ]
    if cap is None:
        words.append("There are too few good tasks to calibrate a step cap.")
    else:
        other = cap.reporting
        better = (
            other.stopped <= got.stopped
            and other.share is not None
            and got.share is not None
            and other.share > got.share
        )
        words.append(
            f"The calibrated step cap stops {other.stopped} and saves {_percent(other.share)}"
            f"{': it does better' if better else ''}."
        )
    return " ".join(words)


def _percent(share: float | None) -> str:
    return "nothing" if share is None else f"{share:.1%}"
