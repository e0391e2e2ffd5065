"""The intervals are exact: they agree with published tables and with rational arithmetic."""

from fractions import Fraction
from math import comb, inf

import pytest
from hypothesis import given
from hypothesis import strategies as st

from loopcore.comparison.cap import calibrated_cap
from loopcore.comparison.intervals import Resampling, clopper_pearson, draws, percentiles, rate
from loopcore.errors import UsageError

# k, n, lower and upper bound in per cent at 95 %. Source: the rule of 3.69/n for 0 of n, and the
# exact tables of Clopper and Pearson as printed in standard statistical tables.
TABLE = [
    (0, 10, 0.00, 30.85),
    (1, 10, 0.25, 44.50),
    (2, 10, 2.52, 55.61),
    (5, 10, 18.71, 81.29),
    (10, 10, 69.15, 100.00),
    (0, 1, 0.00, 97.50),
    (1, 1, 2.50, 100.00),
    (0, 20, 0.00, 16.84),
    (1, 20, 0.13, 24.87),
    (10, 20, 27.20, 72.80),
    (0, 100, 0.00, 3.62),
    (5, 100, 1.64, 11.28),
    (50, 100, 39.83, 60.17),
]


@pytest.mark.parametrize(("k", "n", "low", "high"), TABLE)
def test_the_bounds_are_those_of_the_table(k: int, n: int, low: float, high: float) -> None:
    found = clopper_pearson(k, n)
    assert (round(100 * found.low, 2), round(100 * found.high, 2)) == (low, high)


def tail(n: int, share: Fraction, counts: range) -> Fraction:
    """Return P(X in counts) for X binomial(n, share), exactly."""
    return sum((comb(n, i) * share**i * (1 - share) ** (n - i) for i in counts), start=Fraction(0))


@given(st.integers(1, 60).flatmap(lambda n: st.tuples(st.integers(0, n), st.just(n))))
def test_each_bound_leaves_exactly_half_the_error_in_its_tail(counts: tuple[int, int]) -> None:
    k, n = counts
    found = clopper_pearson(k, n)
    if k:
        assert float(tail(n, Fraction(found.low), range(k, n + 1))) == pytest.approx(0.025, 1e-9)
    else:
        assert found.low == 0
    if k < n:
        assert float(tail(n, Fraction(found.high), range(k + 1))) == pytest.approx(0.025, 1e-9)
    else:
        assert found.high == 1


@given(st.integers(1, 2000).flatmap(lambda n: st.tuples(st.integers(0, n), st.just(n))))
def test_the_interval_holds_the_share_and_mirrors(counts: tuple[int, int]) -> None:
    k, n = counts
    found, mirror = clopper_pearson(k, n), clopper_pearson(n - k, n)
    assert 0 <= found.low <= k / n <= found.high <= 1
    assert found.low == pytest.approx(1 - mirror.high, abs=1e-9)


@pytest.mark.parametrize(("k", "n"), [(-1, 3), (4, 3), (0, 0), (1, 10**30)])
def test_counts_that_are_no_counts_are_refused(k: int, n: int) -> None:
    with pytest.raises(UsageError):
        clopper_pearson(k, n)


def test_a_rate_stands_on_tasks_and_says_when_they_are_few() -> None:
    runs = [("a", True), ("a", False), ("b", False), ("c", False)]
    found = rate(runs)
    assert (found.hits, found.n, found.tasks_hit, found.tasks) == (1, 4, 1, 3)
    assert found.interval == clopper_pearson(1, 3)
    assert found.small
    assert not rate([(str(i), False) for i in range(30)]).small
    assert rate([]).interval is None


def test_draws_are_a_function_of_their_counter_and_even() -> None:
    first = draws(1, "x", 7, 50, 10)
    assert first == draws(1, "x", 7, 50, 10)
    assert first != draws(1, "x", 8, 50, 10)
    assert first != draws(2, "x", 7, 50, 10)
    many = draws(0, "even", 0, 60_000, 6)
    assert set(many) == set(range(6))
    assert all(abs(many.count(face) - 10_000) < 500 for face in range(6))


def test_a_resample_draws_whole_tasks() -> None:
    one = Resampling(1, resamples=50)
    assert one.sums([7]) == [7] * 50
    two = Resampling(2, resamples=4_000)
    assert set(two.sums([1, 10])) == {2, 11, 20}


def test_the_bootstrap_agrees_with_the_enumeration_of_all_resamples() -> None:
    parts, wholes = [0, 3, 1], [4, 4, 2]
    every = sorted(
        (parts[a] + parts[b] + parts[c]) / (wholes[a] + wholes[b] + wholes[c])
        for a in range(3)
        for b in range(3)
        for c in range(3)
    )
    found = Resampling(3, resamples=8_000).share(parts, wholes)
    assert (found.low, found.high) == (every[0], every[-1])


def test_a_difference_is_paired() -> None:
    resampling = Resampling(20, resamples=400)
    saved = [number % 5 for number in range(20)]
    steps = [5] * 20
    same = resampling.difference(saved, saved, steps)
    assert (same.low, same.high) == (0, 0)
    more = [number + 1 for number in saved]
    shifted = resampling.difference(more, saved, steps)
    assert shifted.low == pytest.approx(0.2)
    assert shifted.high == pytest.approx(0.2)


def test_infinite_ratios_are_kept() -> None:
    assert percentiles([1.0] * 9 + [inf] * 31).high == inf
    assert Resampling(1, resamples=40).share([1], [0]).low == inf


@given(st.lists(st.integers(1, 50), max_size=60))
def test_the_cap_is_the_smallest_length_that_covers_enough(lengths: list[int]) -> None:
    cap = calibrated_cap(lengths)
    needed = -(-95 * (len(lengths) + 1) // 100)
    if cap is None:
        assert needed > len(lengths)
    else:
        assert sum(length <= cap for length in lengths) >= needed
        assert sum(length < cap for length in lengths) < needed


def test_five_per_cent_needs_nineteen_tasks() -> None:
    assert calibrated_cap([3] * 18) is None
    assert calibrated_cap([3] * 19) == 3
