"""Claim: the tuner's setting is the best of all that keep the ceiling, found without playing it.

The rows are measured apart; that their earliest firing is where the whole level stops is tested
against the level itself. The search is compared with a plain loop over every setting.
"""

from __future__ import annotations

import itertools
import random
from dataclasses import replace

import msgspec
import numpy as np
import pytest

from loopcore.batch.columns import Int32s
from loopcore.batch.interning import columns
from loopcore.batch.stop_times import stop_times
from loopcore.comparison import tuning
from loopcore.comparison.outcomes import Truth
from loopcore.comparison.tuning import (
    DEFAULT,
    NEVER,
    OPTIONS,
    Firings,
    judge,
    limits_of,
    stop_turns,
    tune,
)
from loopcore.comparison.tuning_sources import from_columns, from_runs
from loopcore.control.limits import Limits
from loopcore.control.observations import Observation
from loopcore.recordings.load import load, samples
from properties.core.random_runs import POLICIES, random_run

RUNS = 400
SETTINGS = 60


def random_firings(seed: int, runs: int, tasks: int) -> Firings:
    """Return firings that no run has, for the search alone."""
    draw = np.random.default_rng(seed)
    length = draw.integers(1, 60, runs).astype(np.int32)
    firing: dict[str, Int32s] = {}
    for row, options in OPTIONS.items():
        turns = draw.integers(1, 90, (len(options), runs)).astype(np.int32)
        turns[0] = NEVER
        firing[row] = turns
    spent = np.zeros((61, runs), dtype=np.int64)
    np.cumsum(draw.integers(0, 9, (60, runs)), axis=0, out=spent[1:])
    at_end = spent[length, np.arange(runs)]
    spent = np.minimum(spent, at_end)
    return Firings(
        task=draw.integers(0, tasks, runs).astype(np.int32),
        good=draw.random(runs) < 0.5,
        length=length,
        firing=firing,
        spent=spent,
        unit="cost",
    )


def simulated(seed: int) -> tuple[Firings, list[list[Observation]]]:
    """Return the firings of random runs, and the runs."""
    draw = random.Random(seed)
    runs = [run for run in (one_a_turn(random_run(draw)) for _ in range(RUNS)) if run]
    limits = Limits(tools=POLICIES)
    made = columns(runs, limits)
    none = np.zeros(len(runs), dtype=np.int32)
    truth = Truth(application="coding", habit=none.astype(np.int8), onset=none, verified_turn=none)
    return from_columns(made, truth, limits), runs


def one_a_turn(run: list[Observation]) -> list[Observation]:
    """Return the run with turns from 1 without a gap."""
    return [msgspec.structs.replace(seen, turn=turn, action=1) for turn, seen in enumerate(run, 1)]


def test_the_earliest_row_that_fires_alone_is_where_the_whole_level_stops() -> None:
    firings, runs = simulated(1)
    limits = Limits(tools=POLICIES)
    made = columns(runs, limits)
    draw = random.Random(2)
    fired = 0
    for _ in range(SETTINGS):
        setting = {row: draw.choice(options) for row, options in OPTIONS.items()}
        stops = stop_times(made, limits_of(setting, limits), "D")
        cut = (stops.reason > 0) & ~stops.is_cause("finish")
        expected = np.where(cut, stops.turn, NEVER)
        assert np.array_equal(stop_turns(firings, setting), expected), setting
        fired += int(cut.sum())
    assert fired > RUNS


@pytest.mark.parametrize("seed", [1, 2])
def test_no_setting_under_the_ceiling_saves_more_than_the_chosen_one(
    seed: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    few = {row: options[:3] for row, options in OPTIONS.items()}
    monkeypatch.setattr(tuning, "OPTIONS", few)
    monkeypatch.setattr(tuning, "DEFAULT", {row: options[1] for row, options in few.items()})
    whole = random_firings(seed, 300, 120)
    firings = replace(whole, firing={row: turns[:3] for row, turns in whole.firing.items()})
    ceiling = 0.9
    tuned = tune("set", firings, ceiling, seed=7)
    assert tuned.chosen is not None
    assert tuned.settings == 3 ** len(few)
    first = firings.part(half(firings, 7))
    saved: list[int] = []
    for values in itertools.product(*few.values()):
        setting = dict(zip(few, values, strict=True))
        turns = stop_turns(first, setting)
        stopped = set(first.task[first.good & (turns < first.length)])
        if len(stopped) + 1 <= ceiling * (len(set(first.task[first.good])) + 1):
            after = np.minimum(turns, len(first.spent) - 1)
            spared = first.spent[-1] - first.spent[after, np.arange(len(turns))]
            saved.append(int(spared[~first.good].sum()))
    assert tuned.chosen.choosing.saved == max(saved)
    assert tuned.chosen.choosing.stopped + 1 <= ceiling * (tuned.chosen.choosing.tasks + 1)
    best = -1
    for one in tuned.front:
        assert one.choosing.saved > best
        best = one.choosing.saved


def half(firings: Firings, seed: int) -> np.ndarray[tuple[int, ...], np.dtype[np.bool_]]:
    """Return which runs are of the choosing part, found from the counts of a tuning's result."""
    return tuning.choosing_half(firings.task, seed, "set")


def test_no_task_is_in_both_parts_and_other_seeds_part_otherwise() -> None:
    firings = random_firings(3, 500, 100)
    first = half(firings, 1)
    assert not set(firings.task[first]) & set(firings.task[~first])
    assert not np.array_equal(first, half(firings, 2))


def test_a_stop_at_the_end_of_a_run_is_no_false_stop_and_saves_nothing() -> None:
    firings = random_firings(4, 50, 50)
    assert judge(firings, firings.length, 0).stopped == 0
    assert judge(firings, firings.length, 0).saved == 0
    before = judge(firings, firings.length - 1, 0)
    assert before.stopped == before.tasks > 0
    assert before.saved > 0


def test_too_few_good_tasks_for_a_ceiling_choose_no_setting_and_say_so() -> None:
    firings = random_firings(5, 40, 20)
    tuned = tune("few", firings, 0.01, seed=0)
    assert tuned.chosen is None
    assert "no setting" in tuned.sentence


def test_recorded_runs_are_tuned_on_the_actions_that_they_dispatched() -> None:
    for name, runs in load([samples()]).sets():
        known = [run for run in runs if run.success is not None]
        firings = from_runs(known)
        assert firings.unit == "dispatched actions"
        tuned = tune(name, firings, 0.5, seed=0)
        assert tuned.default.limits == DEFAULT
        assert tuned == tune(name, firings, 0.5, seed=0)


def test_a_set_without_runs_of_known_outcome_is_tuned_to_nothing() -> None:
    tuned = tune("none", from_runs([]), 0.5, seed=0)
    assert tuned.chosen is None
    assert tuned.default.reporting.share is None
