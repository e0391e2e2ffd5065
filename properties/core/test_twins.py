"""A pair of twins is a kind: generated streams of one shape that differ from the onset on."""

from __future__ import annotations

from itertools import pairwise

import pytest

from loopcore.control.observations import Observation
from loopcore.worlds.twins import TWINS, Pair, default_setting, setting
from loopcore.worlds.twins_model import GAP_MAX, largest_threshold

SEEDS = (0, 1, 2, 3)
PAIRS = pytest.mark.parametrize("pair", TWINS, ids=lambda pair: pair.name)
# Legitimate work that nothing measures, or whose first success is late on purpose.
UNMEASURED = "unmeasured"
WITHOUT_MEASURE = ("one control pressed again", "no success for longer than the window")


def is_good(observation: Observation) -> bool:
    return observation.progress is not None and observation.progress > 0


def test_there_are_at_least_fourteen_kinds_and_no_two_share_a_name_or_a_maker() -> None:
    assert len(TWINS) >= 14
    assert len({pair.name for pair in TWINS}) == len(TWINS)
    assert len({pair.make for pair in TWINS}) == len(TWINS)


@PAIRS
def test_both_streams_have_the_same_turns_and_differ_only_from_the_onset_on(pair: Pair) -> None:
    for seed in SEEDS:
        streams = pair.streams(setting(seed))
        both = list(zip(streams.pathology, streams.twin, strict=True))
        assert [one.turn for one, _ in both] == list(range(1, len(both) + 1))
        assert [other.turn for _, other in both] == list(range(1, len(both) + 1))
        assert all(one == other for one, other in both[: streams.onset - 1])
        assert streams.pathology != streams.twin
        assert all(one.usage == other.usage for one, other in both)


@PAIRS
def test_the_pathology_achieves_nothing_after_its_onset_and_no_stream_shows_its_end(
    pair: Pair,
) -> None:
    for seed in SEEDS:
        streams = pair.streams(setting(seed))
        assert not any(map(is_good, streams.pathology[streams.onset - 1 :]))
        for observation in (*streams.pathology, *streams.twin):
            assert observation.verified is not True


@PAIRS
def test_a_measured_twin_reaches_a_new_best_at_least_every_few_turns(pair: Pair) -> None:
    if UNMEASURED in pair.name or pair.name in WITHOUT_MEASURE:
        twin = pair.streams(setting(0)).twin
        assert any(seen.progress is None or seen.progress <= 0 for seen in twin)
        return
    for seed in SEEDS:
        streams = pair.streams(setting(seed))
        bests = [seen.turn for seen in streams.twin if is_good(seen)]
        places = [0, *bests, len(streams.twin) + 1]
        # Some kinds can only be better every second turn.
        gaps = [after - before for before, after in pairwise(places)]
        assert max(gaps) <= GAP_MAX + 1


@PAIRS
def test_a_seed_gives_the_same_streams_again_and_another_seed_gives_others(pair: Pair) -> None:
    assert pair.streams(setting(5)) == pair.streams(setting(5))
    assert pair.streams(default_setting(5)) != pair.streams(default_setting(6))


def test_settings_vary_every_threshold_and_show_two_of_the_largest() -> None:
    settings = [setting(seed) for seed in range(60)]
    names = ("repeat", "window", "error_streak", "cycle_max", "cycle_repeats", "max_waits")
    for name in names:
        assert len({getattr(one.limits, name) for one in settings}) > 1
    assert len({one.lead for one in settings}) > 1
    for one in settings:
        assert one.turns > 2 * largest_threshold(one.limits)
        assert one.limits.max_steps is None
        assert one.limits.horizon is None


def test_policies_are_those_of_tools_that_occur() -> None:
    with_policies = 0
    for pair in TWINS:
        streams = pair.streams(setting(1))
        tools = {seen.tool for seen in (*streams.pathology, *streams.twin)}
        assert set(streams.limits.tools) <= tools
        with_policies += bool(streams.limits.tools)
    assert with_policies >= 3
