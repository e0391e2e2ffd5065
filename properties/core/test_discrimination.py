"""Discrimination counts pairs told apart within reach; reach is computed from the inputs."""

from __future__ import annotations

from collections.abc import Callable
from functools import lru_cache

import msgspec
import pytest

from loopcore.comparison.discrimination import (
    INPUTS,
    ContestantScore,
    Judged,
    default_contestants,
    discriminate,
    first_act,
    is_within_reach,
    judged,
    markdown,
    project,
    shortest_cycle,
    threshold,
)
from loopcore.control.decisions import Controller, Decision
from loopcore.control.limits import Limits, ToolPolicy
from loopcore.control.observations import Observation
from loopcore.errors import UsageError
from loopcore.worlds.twins import TWINS, setting

ALL = tuple(INPUTS)
# Where level D is wrong on some variant: what nothing measures, what is longer than it looks for.
LOST_BY_D = {
    "one call, new results, unmeasured",
    "new words, one answer, unmeasured",
    "long round of calls, unmeasured",
    "retry after a time-out",
    "no success for longer than the window",
}


class Scripted:
    """Says what a function of the observation says."""

    def __init__(self, says: Callable[[Observation], Decision]) -> None:
        self._says = says

    def start(self, limits: Limits) -> None:
        """Begin a new run."""

    def observe(self, observation: Observation) -> Decision:
        return self._says(observation)


def scripted(
    says: Callable[[Observation], Decision], needs: tuple[str, ...] = ALL, count: int | None = None
) -> Judged:
    def make() -> Controller:
        return Scripted(says)

    return Judged(name="scripted", make=make, needs=needs, count=count)


@lru_cache(maxsize=1)
def scores() -> dict[str, ContestantScore]:
    result = discriminate(default_contestants(), variants=5)
    return {one.contestant: one for one in result.contestants}


def test_level_d_loses_exactly_the_kinds_that_its_inputs_or_windows_cannot_judge() -> None:
    level = scores()["D"]
    lost = {one.pair for one in level.pairs if one.both_right < one.within_reach}
    assert lost == LOST_BY_D
    assert level.right == len(TWINS) - len(LOST_BY_D)
    assert level.beyond == 0


def test_level_d_stops_the_slow_start_and_misses_what_nothing_measures() -> None:
    by_name = {one.pair: one for one in scores()["D"].pairs}
    slow = by_name["no success for longer than the window"]
    assert (slow.pathology_right, slow.twin_right) == (slow.variants, 0)
    blind = by_name["new words, one answer, unmeasured"]
    assert (blind.missed, blind.twin_right) == (blind.variants, blind.variants)


def test_level_e_is_judged_by_what_it_detects() -> None:
    def sides(score: ContestantScore) -> list[tuple[int, int]]:
        return [(pair.pathology_right, pair.twin_right) for pair in score.pairs]

    assert sides(scores()["E"]) == sides(scores()["D"])


def test_no_contestant_passes_the_ceiling_that_its_inputs_allow() -> None:
    for one in scores().values():
        assert one.sides_right <= one.ceiling
        for pair in one.pairs:
            beyond = pair.variants - pair.within_reach
            assert pair.pathology_right + pair.twin_right <= 2 * pair.within_reach + beyond
            assert pair.both_right <= pair.within_reach


def test_a_contestant_that_declares_nothing_is_blind_to_all_but_the_verifier() -> None:
    for name in ("A", "B", "step-cap-30"):
        within = [one.pair for one in scores()[name].pairs if one.within_reach]
        assert within == ["claims without an answer"]


def test_reach_grows_with_every_declared_input() -> None:
    def reach(needs: tuple[str, ...]) -> int:
        return sum(is_within_reach(pair.streams(setting(3)), needs) for pair in TWINS)

    reached = [reach(ALL[:size]) for size in range(len(ALL) + 1)]
    assert reached == sorted(reached)
    assert reached[0] < reached[2] < reached[3] < reached[-1] == len(TWINS)
    assert scores()["total-3"].within_reach < scores()["total-3-result"].within_reach


def test_an_undeclared_input_is_not_shown() -> None:
    seen = Observation(
        turn=1,
        action=1,
        tool="t",
        arguments={},
        result="r",
        action_fingerprint="a",
        result_fingerprint="b",
        state_fingerprint="s",
        progress=1,
        error_class="e",
        claims_done=True,
        verified=False,
    )
    assert project(seen, ALL) == seen
    assert project(seen, ()) == Observation(turn=1, action=1, claims_done=True, verified=False)
    assert project(seen, ("arguments",)) == msgspec.structs.replace(
        project(seen, ()), arguments={}, action_fingerprint="a"
    )
    peeking = scripted(
        lambda shown: Decision(
            decision="stop" if shown.progress == 0 else "continue", reason="no_progress"
        ),
        needs=("call",),
    )
    assert discriminate([peeking], variants=2).contestants[0].sides_right == 2 * len(TWINS)


def test_who_always_or_never_stops_tells_no_pair_apart() -> None:
    always = scripted(lambda _: Decision(decision="stop", reason="no_progress"))
    never = scripted(lambda _: Decision(decision="continue"))
    warner = scripted(lambda _: Decision(decision="warn", reason="no_progress"))
    for one in (always, never, warner):
        score = discriminate([one], variants=3).contestants[0]
        assert score.both_right == 0
        assert score.within_reach == len(TWINS)
    score = discriminate([always], variants=3).contestants[0]
    assert sum(pair.early for pair in score.pairs) > 0
    assert sum(pair.twin_stopped for pair in score.pairs) == 3 * len(TWINS)


@pytest.mark.parametrize(("extra", "verdict"), [(-1, "early"), (0, "right"), (1, "late")])
def test_a_detection_counts_from_the_onset_to_two_thresholds_after_it(
    extra: int, verdict: str
) -> None:
    pair = TWINS[1]
    streams = pair.streams(setting(2))
    assert streams.onset > 1
    last = streams.onset + 2 * (streams.limits.repeat or 0)
    turn = streams.onset - 1 if verdict == "early" else last + extra
    stopper = scripted(
        lambda seen: Decision(
            decision="stop" if seen.turn == turn else "continue", reason="repeated_action"
        )
    )
    score = discriminate([stopper], variants=1, seed=2, pairs=[pair]).contestants[0].pairs[0]
    assert (score.early, score.late) == (verdict == "early", verdict == "late")
    assert score.pathology_right == (verdict == "right")


def test_a_budget_stop_is_no_detection_on_either_side() -> None:
    score = discriminate([judged("step-cap-2")], variants=3).contestants[0]
    assert all(pair.budget == pair.variants for pair in score.pairs)
    assert all(pair.twin_right == pair.variants for pair in score.pairs)


def test_the_threshold_is_that_of_the_row_that_fired() -> None:
    limits = Limits(
        repeat=5, window=9, max_waits=7, tools={"poll": ToolPolicy(wait=True, max_waits=3)}
    )

    def calls(names: str, tool: str = "t") -> list[Observation]:
        return [
            Observation(
                turn=turn, action=1, tool=tool, action_fingerprint=name, result_fingerprint=name
            )
            for turn, name in enumerate(names, start=1)
        ]

    level = judged("D")
    assert threshold(level, "repeated_action", calls("aaaaa"), limits) == 5
    assert threshold(judged("total-3"), "repeated_action", calls("aaa"), limits) == 3
    assert threshold(level, "no_progress", calls("abcdefghi"), limits) == 9
    assert threshold(level, "no_progress", calls("aaa", "poll"), limits) == 3
    assert threshold(level, "tool_failure", calls("abcd"), limits) == 4
    assert threshold(level, "invalid_completion", calls("abcd"), limits) == 4
    assert threshold(level, "nonproductive_cycle", calls("xababab"), limits) == 6
    assert threshold(level, "nonproductive_cycle", calls("abcabcabc"), limits) == 9
    assert threshold(level, "a reason of its own", calls("a"), limits) == 18
    assert shortest_cycle(calls("abababc"), limits) is None


def test_the_first_act_of_a_stream_without_one_is_none() -> None:
    assert first_act(judged("A"), [Observation(turn=1, action=1)], Limits()).act == "none"


def test_a_contestant_that_nobody_knows_is_refused() -> None:
    with pytest.raises(UsageError, match="total-K"):
        judged("total-one")


def test_the_same_seed_gives_the_same_table_and_the_text_names_every_pair() -> None:
    result = discriminate([judged("D"), judged("total-3")], variants=2, seed=7)
    assert result == discriminate([judged("D"), judged("total-3")], variants=2, seed=7)
    text = markdown(result)
    assert all(pair.name in text for pair in TWINS)
    assert "(beyond)" in text
