"""An exact interval stays exact, and quick, at the sizes of a sweep."""

from itertools import pairwise
from math import exp, fsum, lgamma, log, log1p

import pytest

from loopcore.comparison.intervals import TRIALS_MAX, clopper_pearson


def at_most(k: int, n: int, share: float) -> float:
    """Return P(X ≤ k) for X binomial(n, share), term by term."""
    whole = lgamma(n + 1)
    return fsum(
        exp(whole - lgamma(i + 1) - lgamma(n - i + 1) + i * log(share) + (n - i) * log1p(-share))
        for i in range(k + 1)
    )


@pytest.mark.parametrize(
    ("k", "n"), [(1, 500), (2, 1_000_000), (7, 20_000), (4_000, 20_000), (31, 90), (2_999, 3_000)]
)
def test_the_binomial_tails_beyond_the_bounds_are_half_the_error_each(k: int, n: int) -> None:
    found = clopper_pearson(k, n)
    assert at_most(k, n, found.high) == pytest.approx(0.025, rel=1e-5)
    assert 1 - at_most(k - 1, n, found.low) == pytest.approx(0.025, rel=1e-5)


def test_counts_of_none_and_all_have_their_exact_bounds_at_any_size() -> None:
    for n in (1, 10, 20_000, 1_000_000, TRIALS_MAX):
        none = clopper_pearson(0, n)
        assert none.low == 0
        assert n * log1p(-none.high) == pytest.approx(log(0.025), rel=1e-9)
        assert clopper_pearson(n, n).high == 1


def test_a_larger_count_never_has_a_lower_bound() -> None:
    bounds = [clopper_pearson(k, 1_200) for k in range(1_201)]
    for lower, higher in pairwise(bounds):
        assert lower.low < higher.low or higher.low == 0
        assert lower.high < higher.high or lower.high == 1


@pytest.mark.parametrize("n", [500, 3_000, 20_000, 120_000])
def test_every_count_has_an_interval_that_holds_its_share_and_mirrors(n: int) -> None:
    for k in [*range(0, n, max(1, n // 150)), n - 1, n, *(n * part // 3 for part in (1, 2))]:
        found, mirror = clopper_pearson(k, n), clopper_pearson(n - k, n)
        assert found.low <= k / n <= found.high
        assert found.low == pytest.approx(1 - mirror.high, abs=1e-12)


@pytest.mark.parametrize("k", [4_026, 4_224, 4_620, 5_478, 9_240, 15_576])
def test_counts_whose_search_overshoots_have_bounds(k: int) -> None:
    found = clopper_pearson(k, 20_000)
    assert 1 - at_most(k - 1, 20_000, found.low) == pytest.approx(0.025, rel=1e-5)


def test_another_confidence_is_honoured() -> None:
    wide, narrow = clopper_pearson(40, 200, 0.99), clopper_pearson(40, 200, 0.5)
    assert at_most(40, 200, wide.high) == pytest.approx(0.005, rel=1e-9)
    assert at_most(40, 200, narrow.high) == pytest.approx(0.25, rel=1e-9)
