"""The streaming bootstrap is exact in its sums, blind to their order, and right in its spread."""

from math import inf, nan
from typing import TypeAlias

import numpy as np
import pytest

from loopcore.comparison import bootstrap
from loopcore.comparison.bootstrap import (
    LANES,
    POISSON_COUNTS,
    bounds,
    difference,
    ratios,
    relative,
    resampled_sums,
    weights,
)
from loopcore.comparison.intervals import percentiles
from loopcore.errors import UsageError

RESAMPLES = 400
Integers: TypeAlias = "np.ndarray[tuple[int, ...], np.dtype[np.int64]]"


def sums_of(seed: int, application: str, first: int, given: Integers, resamples: int) -> Integers:
    """Return the sums of all columns."""
    every = range(given.shape[1])
    return resampled_sums(seed, application, first, given, chosen=every, resamples=resamples)


def values(tasks: int, columns: int = 4) -> Integers:
    """Return integers as a sweep has them: counts, and costs of many digits."""
    draws = np.random.default_rng(7)
    scale = 10 ** np.arange(columns)
    return (draws.gamma(2.0, 1.0, (tasks, columns)) * scale).astype(np.int64)


def test_the_table_of_weights_is_a_poisson_distribution_with_mean_one() -> None:
    counts = np.array(POISSON_COUNTS)
    weight = np.arange(len(counts))
    assert counts.sum() == 2**16
    assert (counts * weight).sum() == 2**16
    assert (counts * weight**2).sum() / 2**16 == pytest.approx(2, abs=3e-4)
    poisson = np.exp(-1) / np.array([1, 1, 2, 6, 24, 120, 720, 5040, 40320])
    assert np.abs(counts / 2**16 - poisson).max() < 3e-5


def test_drawn_weights_have_mean_and_variance_one_and_no_correlation() -> None:
    drawn = weights(3, "coding", 0, 2_000, 200)
    assert drawn.mean() == pytest.approx(1, abs=0.01)
    assert drawn.var() == pytest.approx(1, abs=0.02)
    assert np.corrcoef(drawn[:-1].ravel(), drawn[1:].ravel())[0, 1] == pytest.approx(0, abs=0.01)
    assert np.corrcoef(drawn[:, :-1].ravel(), drawn[:, 1:].ravel())[0, 1] == pytest.approx(
        0, abs=0.01
    )


def test_the_weights_of_a_task_do_not_depend_on_the_tasks_beside_it() -> None:
    whole = weights(5, "etl", 0, 100, RESAMPLES)
    for first, tasks in ((0, 1), (17, 5), (99, 1)):
        alone = weights(5, "etl", first, tasks, RESAMPLES)
        assert np.array_equal(alone, whole[first : first + tasks])


def test_other_seeds_and_applications_have_other_weights() -> None:
    one = weights(5, "etl", 0, 50, RESAMPLES)
    assert not np.array_equal(one, weights(6, "etl", 0, 50, RESAMPLES))
    assert not np.array_equal(one, weights(5, "jobs", 0, 50, RESAMPLES))


def test_sums_are_those_of_exact_integers(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(bootstrap, "PIECE", 64)
    given = values(150, 12)
    found = sums_of(1, "jobs", 40, given, 8)
    drawn = weights(1, "jobs", 40, 150, 8)
    for resample in range(8):
        for column in range(12):
            exact = sum(
                int(weight) * int(value)
                for weight, value in zip(drawn[:, resample], given[:, column], strict=True)
            )
            assert int(found[resample, column]) == exact


@pytest.mark.parametrize("piece", [1, 7, 50, 1_000])
def test_pieces_and_parts_add_up_to_the_same_sums(
    piece: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    given = values(150)
    whole = sums_of(1, "coding", 0, given, RESAMPLES)
    monkeypatch.setattr(bootstrap, "PIECE", piece)
    parts = [
        sums_of(1, "coding", first, given[first:last], RESAMPLES)
        for first, last in ((90, 150), (0, 31), (31, 90))
    ]
    assert np.array_equal(sum(parts), whole)


def test_its_interval_is_that_of_the_plain_bootstrap_over_tasks() -> None:
    draws = np.random.default_rng(11)
    tasks = 300
    cost = draws.integers(50, 5_000, tasks)
    success = draws.random(tasks) < 0.6
    given = np.stack([cost, success.astype(np.int64)], axis=1)
    sums = sums_of(2, "coding", 0, given, 20_000)
    streamed = bounds(ratios(sums[:, 0], sums[:, 1]))
    picks = draws.integers(0, tasks, (20_000, tasks))
    plain = bounds(cost[picks].sum(axis=1) / success[picks].sum(axis=1))
    assert streamed is not None
    assert plain is not None
    assert streamed[0] == pytest.approx(plain[0], rel=0.02)
    assert streamed[1] == pytest.approx(plain[1], rel=0.02)


def test_chosen_columns_are_summed_in_the_order_in_which_they_are_chosen() -> None:
    given = values(120, 5)
    whole = sums_of(0, "coding", 0, given, RESAMPLES)
    found = resampled_sums(0, "coding", 0, given, chosen=[3, 0, 4], resamples=RESAMPLES)
    assert np.array_equal(found, whole[:, [3, 0, 4]])


def test_two_contestants_meet_the_same_resamples() -> None:
    given = values(200, 2)
    given[:, 1] = given[:, 0] + 3
    sums = sums_of(0, "coding", 0, given, RESAMPLES)
    drawn = weights(0, "coding", 0, 200, RESAMPLES).sum(axis=0)
    assert np.array_equal(sums[:, 1] - sums[:, 0], 3 * drawn)


def test_what_cannot_be_summed_exactly_is_refused() -> None:
    for bad in (-1, 2**53):
        with pytest.raises(UsageError):
            sums_of(0, "coding", 0, np.array([[bad]]), LANES)
    with pytest.raises(UsageError):
        weights(0, "coding", 0, 1, LANES + 1)


def test_infinite_values_are_kept_and_two_of_them_are_equal() -> None:
    found = ratios(np.array([3, 0, 4]), np.array([0, 0, 2]))
    assert found[0] == inf
    assert np.isnan(found[1])
    assert found[2] == 2
    one, two = np.array([inf, inf, 1.0, 5.0]), np.array([inf, 1.0, inf, 2.0])
    assert difference(one, two).tolist() == [0, inf, -inf, 3]
    assert relative(one, two).tolist() == [1, inf, 0, 2.5]
    assert relative(np.zeros(1), np.zeros(1)).tolist() == [1]
    many = np.array([1.0] * 900 + [inf] * 100)
    assert bounds(many) == (1, inf)


def test_resamples_without_a_value_are_left_out_of_the_bounds() -> None:
    assert bounds(np.array([nan, nan])) is None
    assert bounds(np.array([nan, 2.0, 1.0])) == (1, 2)


def test_bounds_are_the_percentiles_of_the_audit() -> None:
    drawn = np.random.default_rng(0).normal(size=2_000)
    expected = percentiles(drawn.tolist())
    assert bounds(drawn) == (expected.low, expected.high)
