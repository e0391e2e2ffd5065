"""A baseline is held against a later sweep task by task, and only a real loss counts as worse."""

import math
from collections.abc import Sequence
from pathlib import Path

import msgspec
import numpy as np
import pytest

from loopcore.comparison import baselines
from loopcore.comparison.baselines import (
    TIMED_CHUNKS_MIN,
    TOLERANCES,
    Finding,
    check_same_tasks,
    checked_name,
    compare,
    compare_timings,
    load,
    path_of,
    save,
)
from loopcore.comparison.bench_results import Span
from loopcore.comparison.bootstrap import bounds, weights
from loopcore.comparison.bounds import number
from loopcore.comparison.sweep import Swept
from loopcore.errors import InputError, UsageError
from properties.core.sweep_values import RESAMPLES, entry, swept

TASKS = 200
# Every other task verifies when nobody stops it, and every fifth has an onset before the cap.
SHARED = {
    "tasks": [1] * TASKS,
    "in_s": [1 - task % 2 for task in range(TASKS)],
    "looped": [int(task % 5 == 1) for task in range(TASKS)],
    "outside": [task % 2 for task in range(TASKS)],
}


@pytest.fixture(autouse=True)
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)


def made(stopped: Sequence[int], *, extra_cost: int = 0, seconds: Sequence[float] = ()) -> Swept:
    """Return a sweep of one level whose false stops are these tasks of S."""
    verified = [int(SHARED["in_s"][task] and task not in stopped) for task in range(TASKS)]
    features = {
        "verified": verified,
        "false_stop": [int(task in stopped) for task in range(TASKS)],
        "harmed": [int(task in stopped) for task in range(TASKS)],
        "missed": SHARED["looped"],
        "cost": [1_000 + task % 7 + extra_cost for task in range(TASKS)],
    }
    return swept([entry("D")], SHARED, [features], seconds)


def found(before: Swept, after: Swept) -> dict[str, Finding]:
    """Return the findings over all applications, after the baseline has been on disk."""
    save("kept", before)
    findings = [one for one in compare(load("kept"), after) if one.family == "all"]
    return {one.figure: one for one in findings}


def test_a_sweep_against_itself_has_no_difference_and_every_named_figure() -> None:
    same = found(made([0, 4]), made([0, 4]))
    assert set(same) == set(TOLERANCES)
    assert all(one.difference == 0 for one in same.values())
    assert all(one.interval == Span(low=0, high=0) for one in same.values())
    assert not any(one.worse for one in same.values())


def test_more_false_stops_are_worse_and_fewer_are_not() -> None:
    few, many = made([0, 4]), made(range(0, 40, 2))
    lost = found(few, many)
    assert lost["false_stop_rate"].difference == pytest.approx(0.18)
    assert {name for name, one in lost.items() if one.worse} == {
        "false_stop_rate",
        "harm_rate",
        "success_rate",
        "cost_per_success",
    }
    assert not any(one.worse for one in found(many, few).values())


def test_a_difference_within_the_tolerance_is_not_worse_though_it_is_certain() -> None:
    dearer = found(made([0]), made([0], extra_cost=5))["cost_per_success"]
    assert isinstance(dearer.interval.low, float)
    assert dearer.interval.low > 0
    assert not dearer.worse
    assert found(made([0]), made([0], extra_cost=50))["cost_per_success"].worse


def test_a_difference_beyond_the_tolerance_is_not_worse_while_it_is_uncertain() -> None:
    one_more = found(made([0, 4]), made([4, 8, 12]))["false_stop_rate"]
    assert one_more.difference == pytest.approx(0.01)
    assert number(one_more.difference) > TOLERANCES["false_stop_rate"][1]
    assert not one_more.worse


def test_an_infinite_cost_per_success_is_worse_than_a_finite_one() -> None:
    every = range(0, TASKS, 2)
    lost = found(made([0]), made(every))["cost_per_success"]
    assert (lost.after, lost.difference) == ("infinite", "infinite")
    assert lost.worse
    assert not found(made(every), made(every))["cost_per_success"].worse


def test_the_interval_is_that_of_the_difference_within_each_resample() -> None:
    before, after = [0, 4, 8], [0, 4, 12, 20]
    delta = np.array([(task in after) - (task in before) for task in range(TASKS)])
    drawn = weights(0, "stepwise/coding", 0, TASKS, RESAMPLES)
    low, high = bounds((drawn.T @ delta) / (drawn.T @ np.array(SHARED["in_s"]))) or (0, 0)
    interval = found(made(before), made(after))["false_stop_rate"].interval
    assert number(interval.low) == pytest.approx(low)
    assert number(interval.high) == pytest.approx(high)


def test_a_contestant_that_the_baseline_did_not_have_is_not_compared() -> None:
    save("kept", made([0]))
    other = made([0])
    other.settings = msgspec.structs.replace(other.settings, entries=(entry("C"),))
    assert list(compare(load("kept"), other)) == []


@pytest.mark.parametrize(
    ("field", "value"),
    [("seed", 9), ("stepwise", 7), ("columnar", 1), ("applications", ("jobs",)), ("resamples", 8)],
)
def test_other_tasks_are_refused_by_name(field: str, value: object) -> None:
    save("kept", made([0]))
    other = msgspec.structs.replace(made([0]).settings, **{field: value})
    with pytest.raises(UsageError, match=field):
        check_same_tasks("kept", load("kept"), other)


@pytest.mark.parametrize("name", ["", "a/b", "../a", ".hidden", "a b", "x" * 65, "a\n", "é"])
def test_a_name_that_could_leave_the_folder_is_refused(name: str) -> None:
    with pytest.raises(UsageError, match="baseline's name"):
        checked_name(name)


def test_a_baseline_that_is_not_there_is_said_with_those_that_are() -> None:
    with pytest.raises(UsageError, match="holds none"):
        load("kept")
    save("other", made([0]))
    with pytest.raises(UsageError, match="there are other"):
        load("kept")


def test_a_damaged_baseline_is_an_input_error() -> None:
    save("kept", made([0]))
    path = path_of("kept")
    path.write_bytes(path.read_bytes()[:-30])
    with pytest.raises(InputError, match=r"kept\.json"):
        load("kept")
    kept = made([0])
    save("kept", kept)
    damaged = msgspec.json.decode(path.read_bytes())
    damaged["features"] = ["tasks"]
    path.write_bytes(msgspec.json.encode(damaged))
    with pytest.raises(InputError, match="kept others"):
        load("kept")


def test_an_unfinished_sweep_is_not_kept() -> None:
    half = made([0])
    half.chunks = 2
    with pytest.raises(UsageError, match="interrupted"):
        save("kept", half)
    assert not path_of("kept").exists()


def test_timings_are_worse_only_beyond_the_tolerance_and_for_certain() -> None:
    save("kept", made([0], seconds=[1.0] * 8))
    baseline = load("kept")

    def timed(seconds: Sequence[float]) -> baselines.TimingFinding:
        return next(iter(compare_timings(baseline, made([0], seconds=seconds))))

    slower = timed([2.0] * 8)
    assert slower.factor == pytest.approx(2)
    assert slower.worse
    assert not timed([1.4] * 8).worse
    assert not timed([0.5] * 8).worse
    wild = timed([1.0, 1.0, 1.0, 1.0, 1.0, 1.0, 1.0, 200.0])
    assert wild.factor == pytest.approx(math.exp(math.log(200) / 8))
    assert not wild.worse
    few = timed([9.0] * (TIMED_CHUNKS_MIN - 1))
    assert (few.factor, few.worse) == (None, False)
