"""Every rate comes with an exact interval, every ratio with a bootstrap over whole tasks.

Theory of operation: the Clopper–Pearson bounds are the shares at which the binomial tail beyond
the count is exactly half the error. That tail is an incomplete beta function, taken from its
continued fraction, and the share is found by Newton's rule on its logarithm inside a bracket, so a
million trials cost no more than milliseconds. Runs of one task are not independent, so resampling
draws whole tasks. The draws come from SHAKE-256 over (seed, resample): any draw can be made again
alone, and two contestants resampled with one seed see the same tasks.

Source: Clopper and Pearson, Biometrika 26 (1934); NIST Digital Library of Mathematical Functions,
8.17.5 and 8.17.22; Efron and Tibshirani, An Introduction to the Bootstrap (1993), chapters 8 and
13; spec control, section 3.
"""

from __future__ import annotations

import sys
from array import array
from collections.abc import Sequence
from functools import lru_cache
from hashlib import shake_256
from math import exp, expm1, inf, lgamma, log, log1p, sqrt

import msgspec

from loopcore.errors import UsageError

CONFIDENCE = 0.95
RESAMPLES = 2_000
# Below this many independent units a rate is reported as unknown, beside its exact interval.
UNITS_MIN = 30
# The fraction takes about the square root of the trials in terms, so more are refused.
TRIALS_MAX = 1_000_000_000
_FRACTION_TERMS_MAX = 1_000_000
_FRACTION_CLOSE = 2.0**-52
_NEWTON_STEPS_MAX = 200
_DRAW_BYTES = 4


class Interval(msgspec.Struct, frozen=True, kw_only=True):
    """Lower and upper bound; an upper bound may be infinite."""

    low: float
    high: float


class Rate(msgspec.Struct, frozen=True, kw_only=True):
    """A count of hits with its exact interval; `small` marks fewer than 30 units: unknown.

    Fields: hits and n count runs and are given beside; tasks_hit and tasks count tasks, of which
    one is hit when any of its runs is. The interval is on tasks. It is None when there is none.
    """

    hits: int
    n: int
    tasks_hit: int
    tasks: int
    interval: Interval | None
    small: bool


@lru_cache(maxsize=65_536)
def clopper_pearson(k: int, n: int, confidence: float = CONFIDENCE) -> Interval:
    """Return the exact interval of a share of which k of n trials were hits.

    Arguments: 0 ≤ k ≤ n, 1 ≤ n ≤ TRIALS_MAX; confidence in (0, 1), two-sided.
    Errors: UsageError for counts that are no counts. Complexity: the square root of n.
    Source: Clopper and Pearson (1934).
    """
    if not 0 <= k <= n or not 1 <= n <= TRIALS_MAX or not 0 < confidence < 1:
        raise UsageError(f"no exact interval for {k} of {n} at confidence {confidence}")
    error = (1 - confidence) / 2
    # The bound of none is not the complement of that of all, whose last digits it would lose.
    high = -expm1(log(error) / n) if k == 0 else 1 - _least_share(n - k, n, error)
    return Interval(low=_least_share(k, n, error), high=high)


def _least_share(k: int, n: int, error: float) -> float:
    """Return the share at which k or more of n trials are hits with chance `error`; 0 for k = 0."""
    if k == 0:
        return 0.0
    if k == n:
        return exp(log(error) / n)
    if k == 1:
        return -expm1(log1p(-error) / n)
    first, second = k, n - k + 1
    whole = lgamma(n + 1) - lgamma(first) - lgamma(second)
    low, high = 0.0, 1.0
    mean = first / (n + 1)
    # About two deviations below the mean, where the usual error lies; any start would do.
    share = mean / (1 + 2 * sqrt((1 - mean) / first))
    for _ in range(_NEWTON_STEPS_MAX):
        value, slope = _log_tail(first, second, share, whole)
        if value > log(error):
            high = share
        else:
            low = share
        # Far above the mean the slope may be too small for a float; halving then leads nearer.
        following = share - (value - log(error)) / slope if slope > 0 else low
        if not low < following < high:
            following = (low + high) / 2
        if abs(following - share) <= _FRACTION_CLOSE * share:
            break
        share = following
    return share


def _log_tail(first: int, second: int, share: float, whole: float) -> tuple[float, float]:
    """Return the logarithm of the incomplete beta function I(first, second) and its slope.

    Arguments: share in (0, 1); whole, the logarithm of the reciprocal of the beta function.
    """
    density = whole + first * log(share) + second * log1p(-share)
    if share * (first + second + 2) < first + 1:
        part = _fraction(first, second, share) / first
        return density + log(part), 1 / (part * share * (1 - share))
    other = exp(density) * _fraction(second, first, 1 - share) / second
    return log1p(-other), exp(density) / ((1 - other) * share * (1 - share))


def _fraction(first: int, second: int, share: float) -> float:
    """Return the continued fraction of the incomplete beta function, by Lentz's rule.

    Source: DLMF 8.17.22 and 3.10(iii).
    """
    upper, lower = 1.0, 1 / (1 - (first + second) * share / (first + 1))
    result = lower
    for term in range(1, _FRACTION_TERMS_MAX):
        even = first + 2 * term
        factor = term * (second - term) * share / ((even - 1) * even)
        lower = 1 / (1 + factor * lower)
        upper = 1 + factor / upper
        result *= lower * upper
        factor = -(first + term) * (first + second + term) * share / (even * (even + 1))
        lower = 1 / (1 + factor * lower)
        upper = 1 + factor / upper
        change = lower * upper
        result *= change
        if abs(change - 1) <= _FRACTION_CLOSE:
            break
    return result


def rate(hits: Sequence[tuple[str, bool]]) -> Rate:
    """Return the rate of hits among runs, each given as its task and whether it was hit.

    The exact interval is on tasks, which are independent; runs of one task are not.
    """
    tasks: dict[str, bool] = {}
    for task, hit in hits:
        tasks[task] = tasks.get(task, False) or hit
    tasks_hit = sum(tasks.values())
    return Rate(
        hits=sum(hit for _, hit in hits),
        n=len(hits),
        tasks_hit=tasks_hit,
        tasks=len(tasks),
        interval=clopper_pearson(tasks_hit, len(tasks)) if tasks else None,
        small=len(tasks) < UNITS_MIN,
    )


def draws(seed: int, stream: str, number: int, size: int, below: int) -> list[int]:
    """Return `size` integers in [0, below), the same for the same arguments on every machine.

    Arguments: stream and number name the counter; below ≤ 2^32. The map of 32 bits to [0, below)
    is uneven by less than below / 2^32.
    """
    key = f"{seed}/{stream}/{number}".encode()
    words = array("I", shake_256(key).digest(_DRAW_BYTES * size))
    if sys.byteorder == "big":
        words.byteswap()
    return [(word * below) >> 32 for word in words]


class Resampling:
    """The same resamples of one set's tasks for every contestant, so that differences are paired.

    Arguments: the number of tasks, at least 1; seed; resamples.
    """

    def __init__(self, tasks: int, *, seed: int = 0, resamples: int = RESAMPLES) -> None:
        if tasks < 1 or resamples < 1:
            raise UsageError("resampling needs at least one task and one resample")
        self.tasks = tasks
        self._picks = [draws(seed, "resample", i, tasks, tasks) for i in range(resamples)]

    def sums(self, values: Sequence[int]) -> list[int]:
        """Return the sum of the drawn tasks' values, one a resample."""
        if len(values) != self.tasks:
            raise UsageError(f"{len(values)} values for {self.tasks} tasks")
        if not any(values):
            return [0] * len(self._picks)
        value = list(values).__getitem__
        return [sum(map(value, picks)) for picks in self._picks]

    def share(self, parts: Sequence[int], wholes: Sequence[int]) -> Interval:
        """Return the percentile interval of Σ parts ÷ Σ wholes over resampled tasks."""
        return percentiles(_ratios(self.sums(parts), self.sums(wholes)))

    def difference(
        self, first: Sequence[int], second: Sequence[int], wholes: Sequence[int]
    ) -> Interval:
        """Return the interval of the first share minus the second over the same resamples."""
        delta = [a - b for a, b in zip(first, second, strict=True)]
        return self.share(delta, wholes)


def _ratios(parts: Sequence[int], wholes: Sequence[int]) -> list[float]:
    """Return part ÷ whole; nothing of nothing is 0, something of nothing infinite."""
    return [
        part / whole if whole else (inf if part else 0.0)
        for part, whole in zip(parts, wholes, strict=True)
    ]


def percentiles(values: Sequence[float], confidence: float = CONFIDENCE) -> Interval:
    """Return the values that leave half the error on each side, infinite values kept."""
    ordered = sorted(values)
    cut = int(len(ordered) * (1 - confidence) / 2)
    return Interval(low=ordered[cut], high=ordered[-1 - cut])
