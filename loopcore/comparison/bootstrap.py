"""A paired bootstrap that streams: every task has its weights, whoever sums them and in what order.

Theory of operation: a resample of n tasks gives each task a count, and for many tasks these counts
are all but independent Poisson draws with mean 1. So the weight of a task in a resample is such a
draw, made from (seed, application, task number, resample) alone by a counter-based generator. It
needs no other task, so a sweep can take tasks in chunks and keep one sum a resample, and each
contestant meets the same weights, which pairs them. All values are integers, and every sum of a
piece stays below 2^53, so sums in binary64 are exact: the bytes are the same for every order of
summation, every number of processes and every linear algebra library.

Choices: every figure is a ratio of two sums, so the varying total of the weights cancels. A 64-bit
draw gives four weights of 16 bits; the distribution is rounded to 1/65,536 such that its mean is
exactly 1 (its variance is 1.0002). Two infinite figures count as equal: a difference of 0, a ratio
of 1. A resample that gives a mean nothing to divide by is left out of that mean's interval.

Source: Chamandy, Muralidharan, Najmi and Naidu, Estimating Uncertainty for Massive Data Streams
(Google, 2012); Hanley and MacGibbon, Computer Methods and Programs in Biomedicine 83 (2006);
Efron and Tibshirani, An Introduction to the Bootstrap (1993), chapter 13; SplitMix64: Steele, Lea
and Flood, OOPSLA 2014; spec control, section 3.
"""

from __future__ import annotations

from collections.abc import Sequence
from hashlib import sha256

import numpy as np

from loopcore.batch.columns import Floats, Int64s
from loopcore.comparison.intervals import CONFIDENCE
from loopcore.errors import UsageError

# How many of 65,536 equal draws give the weight 0, 1, 2 …; Poisson with mean 1, rounded.
POISSON_COUNTS = (24_110, 24_109, 12_055, 4_017, 1_005, 201, 33, 5, 1)
# A 64-bit draw is this many weights, so the number of resamples is a multiple of it.
LANES = 4
# Tasks whose weights stand in memory at once: 8 × resamples × PIECE bytes, 32 MB by default.
PIECE = 2_000
EXACT_MAX = 2**53
_LARGEST_WEIGHT = len(POISSON_COUNTS) - 1
_GOLDEN = np.uint64(0x9E3779B97F4A7C15)
_MIX = ((30, 0xBF58476D1CE4E5B9), (27, 0x94D049BB133111EB))
_LAST_SHIFT = 31


def weights(seed: int, application: str, first: int, tasks: int, resamples: int) -> Floats:
    """Return the weight of each task in each resample, shape (tasks, resamples).

    Arguments: the tasks are those with the numbers first, first + 1 …; resamples is a multiple of
    LANES. Source: SplitMix64 for the draws.
    """
    if resamples < LANES or resamples % LANES or tasks < 1 or first < 0:
        raise UsageError(f"no weights for {tasks} tasks from {first} in {resamples} resamples")
    key = np.uint64(int.from_bytes(sha256(f"bootstrap/{seed}/{application}".encode()).digest()[:8]))
    words = resamples // LANES
    counter = np.arange(first * words, (first + tasks) * words, dtype=np.uint64)
    draws = key + (counter + np.uint64(1)) * _GOLDEN
    for shift, factor in _MIX:
        draws ^= draws >> np.uint64(shift)
        draws *= np.uint64(factor)
    draws ^= draws >> np.uint64(_LAST_SHIFT)
    lanes = draws.astype("<u8", copy=False).view("<u2")
    return np.take(_table(), lanes).reshape(tasks, resamples)


def _table() -> Floats:
    """Return the weight that each 16-bit number stands for, shape (65536,)."""
    return np.repeat(np.arange(len(POISSON_COUNTS), dtype=np.float64), POISSON_COUNTS)


def resampled_sums(
    seed: int,
    application: str,
    first: int,
    values: Int64s,
    *,
    chosen: Sequence[int],
    resamples: int,
) -> Int64s:
    """Return the weighted sum of chosen columns in every resample, shape (resamples, chosen).

    Arguments: values, shape (tasks, columns), none negative, of the tasks from number `first`.
    Errors: UsageError when a sum could pass 2^53 and no longer be exact.
    """
    sums = np.zeros((resamples, len(chosen)), dtype=np.int64)
    for start in range(0, len(values), PIECE):
        piece = values[start : start + PIECE, chosen]
        largest = EXACT_MAX // (PIECE * _LARGEST_WEIGHT)
        if piece.min(initial=0) < 0 or piece.max(initial=0) > largest:
            raise UsageError("a value to resample is negative, or too large for an exact sum")
        # Most contestants have features that are 0 for all of these tasks.
        used = np.flatnonzero(piece.any(axis=0))
        drawn = weights(seed, application, first + start, len(piece), resamples)
        sums[:, used] += (drawn.T @ piece[:, used].astype(np.float64)).astype(np.int64)
    return sums


def ratios(parts: Int64s, wholes: Int64s) -> Floats:
    """Return part ÷ whole, one a resample; something of nothing is infinite, nothing of it NaN."""
    with np.errstate(divide="ignore", invalid="ignore"):
        return parts / wholes


def difference(first: Floats, second: Floats) -> Floats:
    """Return first − second, one a resample; infinite values stay, of two infinite ones it is 0."""
    with np.errstate(invalid="ignore"):
        return np.where(first == second, 0.0, first - second)


def relative(first: Floats, second: Floats) -> Floats:
    """Return first ÷ second, one a resample; of equal ones it is 1, also of 0 and infinity."""
    with np.errstate(divide="ignore", invalid="ignore"):
        return np.where(first == second, 1.0, first / second)


def bounds(values: Floats, confidence: float = CONFIDENCE) -> tuple[float, float] | None:
    """Return the values that leave half the error on each side, infinite values kept.

    The same percentiles as `intervals.percentiles`, without a sort of the whole. A resample in
    which there was nothing to divide by (NaN) has no value; None when that is so in all.
    """
    known = values[~np.isnan(values)]
    if not len(known):
        return None
    cut = int(len(known) * (1 - confidence) / 2)
    ordered = np.partition(known, (cut, len(known) - 1 - cut))
    return float(ordered[cut]), float(ordered[-1 - cut])
