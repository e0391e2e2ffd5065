"""The baseline to beat: a step cap calibrated on lengths of successful runs alone.

Theory of operation: one success is drawn from each calibration task; the cap is the
⌈(n+1)(1−a)⌉-th smallest of their n lengths. A new success of an exchangeable task is then longer
with a chance of at most a. The guarantee is marginal, over calibration and test together, so the
figures are mean and spread over many splits of the tasks. Where the rank exceeds n there is no
cap. A length is a number of turns, because a step bound counts turns.

Source: split conformal prediction, Vovk, Gammerman and Shafer, Algorithmic Learning in a Random
World (2005); spec control, section 5.
"""

from __future__ import annotations

from collections.abc import Sequence
from fractions import Fraction
from math import ceil, sqrt

import msgspec

from loopcore.comparison.intervals import draws
from loopcore.recordings.model import Run, is_call

SPLITS = 200
ALPHA = Fraction(1, 20)
_DRAW_RANGE = 2**32


class Spread(msgspec.Struct, frozen=True, kw_only=True):
    """Mean, standard deviation and range over splits; n counts the splits that gave a value."""

    mean: float
    deviation: float
    low: float
    high: float
    n: int


class CapResult(msgspec.Struct, frozen=True, kw_only=True):
    """What the calibrated cap does to the part that it was not calibrated on.

    Fields: splits with and without a cap; cap in turns; the share of test successes cut short;
    the share of the test failures' steps that are saved. A split without a cap stops nothing and
    counts so. A spread is None when there is nothing that it could be of.
    """

    alpha: str
    splits: int
    splits_without_cap: int
    calibration_tasks: int
    cap_turns: Spread | None
    false_stop_share: Spread | None
    saved_share: Spread | None


def calibrated_cap(lengths: Sequence[int], alpha: Fraction = ALPHA) -> int | None:
    """Return the ⌈(n+1)(1−a)⌉-th smallest length, None when that rank exceeds n.

    Arguments: the lengths of n successes, one a task. Source: spec control, section 5.
    """
    rank = ceil((len(lengths) + 1) * (1 - alpha))
    return sorted(lengths)[rank - 1] if 1 <= rank <= len(lengths) else None


def saved_by_cap(run: Run, cap: int | None) -> tuple[int, int]:
    """Return how many dispatched actions stand after turn `cap`, and how many there are."""
    turns = [observation.turn for observation in run.observations if is_call(observation)]
    return (0 if cap is None else sum(turn > cap for turn in turns), len(turns))


def spread(values: Sequence[float]) -> Spread | None:
    """Return mean and population standard deviation, None of nothing."""
    if not values:
        return None
    mean = sum(values) / len(values)
    deviation = sqrt(sum((value - mean) ** 2 for value in values) / len(values))
    return Spread(mean=mean, deviation=deviation, low=min(values), high=max(values), n=len(values))


def cap_over_splits(
    runs: Sequence[Run], *, seed: int = 0, splits: int = SPLITS, alpha: Fraction = ALPHA
) -> CapResult:
    """Return what the calibrated cap does on the held-out half of the tasks, over all splits.

    All runs of a task fall on one side. Runs with an unknown outcome take no part.
    """
    tasks: dict[str, list[Run]] = {}
    for run in runs:
        if run.success is not None:
            tasks.setdefault(run.task, []).append(run)
    names = sorted(tasks)
    caps: list[float] = []
    false_stops: list[float] = []
    saved: list[float] = []
    for number in range(splits):
        order = draws(seed, "split", number, len(names), _DRAW_RANGE)
        shuffled = [name for _, name in sorted(zip(order, names, strict=True))]
        half = len(names) // 2
        picks = draws(seed, "pick", number, half, _DRAW_RANGE) if half else []
        lengths = _drawn_lengths([tasks[name] for name in shuffled[:half]], picks)
        cap = calibrated_cap(lengths, alpha)
        held_out = [run for name in shuffled[half:] for run in tasks[name]]
        if cap is not None:
            caps.append(cap)
        successes = [run for run in held_out if run.success]
        if successes:
            false_stops.append(sum(_cut_short(run, cap) for run in successes) / len(successes))
        pairs = [saved_by_cap(run, cap) for run in held_out if not run.success]
        whole = sum(steps for _, steps in pairs)
        if whole:
            saved.append(sum(part for part, _ in pairs) / whole)
    return CapResult(
        alpha=str(alpha),
        splits=splits,
        splits_without_cap=splits - len(caps),
        calibration_tasks=len(names) // 2,
        cap_turns=spread(caps),
        false_stop_share=spread(false_stops),
        saved_share=spread(saved),
    )


def _cut_short(run: Run, cap: int | None) -> bool:
    return cap is not None and run.observations[-1].turn > cap


def _drawn_lengths(groups: Sequence[Sequence[Run]], picks: Sequence[int]) -> list[int]:
    """Return the length in turns of one success drawn from each task that has one."""
    lengths: list[int] = []
    for group, pick in zip(groups, picks, strict=True):
        successes = [run for run in group if run.success]
        if successes:
            chosen = successes[(pick * len(successes)) // _DRAW_RANGE]
            lengths.append(chosen.observations[-1].turn)
    return lengths
