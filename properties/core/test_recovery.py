"""Level E recovers from detections alone, within nested budgets, and begins detecting anew.

Killers: a budget that is spent by proposing, twice in a turn, or not at all; a stop by a budget or
the gate that becomes a recovery; a recovery that outranks such a stop in its turn; a detector that
remembers what was before a recovery; sums, steps or refusals that a recovery forgets; the same
strategy twice running while another has budget.
"""

from __future__ import annotations

from itertools import pairwise, product

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from loopcore.control.decisions import Decision
from loopcore.control.levels import controller
from loopcore.control.limits import Limits, ToolPolicy
from loopcore.control.observations import Observation, Usage
from loopcore.control.precedence import (
    DECISIONS,
    PRECEDENCE,
    RANKS,
    Answer,
    rank_of,
    turn_decision,
)
from loopcore.control.recovery import BUDGETS, STRATEGIES, TOTAL, TRIED, Recoveries
from properties.core.seeded_control_runs import TURNS_MAX

DETECTIONS = ("repeated_action", "tool_failure", "nonproductive_cycle", "no_progress")
NULL = Limits(max_replans=None, max_tool_retries=None, max_critiques=None, max_recoveries=None)
OPEN = Limits(max_steps=None, horizon=None, max_refusals=None)
SAME = Observation(turn=1, action=1, tool="edit", action_fingerprint="f", state_fingerprint="s")

rounds = st.lists(st.sampled_from(DETECTIONS), max_size=TURNS_MAX)
budgets = st.none() | st.integers(0, 5)
bounded = st.builds(
    Limits,
    max_replans=budgets,
    max_tool_retries=budgets,
    max_critiques=budgets,
    max_recoveries=budgets,
)


def changed(limits: Limits = OPEN, /, **fields: object) -> Limits:
    """Return limits with some fields replaced."""
    return msgspec.structs.replace(limits, **fields)


def in_turns(seen: list[Observation]) -> list[Observation]:
    """Return the observations with one turn each."""
    return [msgspec.structs.replace(each, turn=turn) for turn, each in enumerate(seen, start=1)]


def answers(run: list[Observation], limits: Limits, level: str = "E") -> list[Decision]:
    """Return a level's answers to a run."""
    ours = controller(level)
    ours.start(limits)
    return [ours.observe(seen) for seen in run]


def words(said: list[Decision]) -> list[str]:
    """Return decisions as short texts: what, and by which strategy or why."""
    return [f"{each.decision} {each.strategy or each.reason or ''}".strip() for each in said]


def stop_of(reason: str) -> int:
    """Return the rank of a detection."""
    return next(rank for rank, each in enumerate(PRECEDENCE) if each.reason == reason)


def recovered(reasons: list[str], limits: Limits) -> list[Decision]:
    """Return what is answered to one detection after another, each recovery taking effect."""
    recoveries = Recoveries(limits)
    said: list[Decision] = []
    for reason in reasons:
        said.append(recoveries.answer(stop_of(reason)))
        if said[-1].decision == "recover":
            recoveries.begin(said[-1])
    return said


def test_every_detection_has_different_strategies_in_an_order_and_each_is_tried_somewhere() -> None:
    assert tuple(TRIED) == DETECTIONS
    assert {each.reason for each in PRECEDENCE if each.source == "detector"} == set(TRIED)
    assert all(len(set(tried)) == len(tried) > 1 for tried in TRIED.values())
    assert {strategy for tried in TRIED.values() for strategy in tried} == set(STRATEGIES)
    assert set(BUDGETS.values()) == {"max_replans", "max_tool_retries", "max_critiques", None}
    assert {name for name, budget in BUDGETS.items() if budget == "max_tool_retries"} == {
        "other_arguments",
        "fallback_tool",
    }
    assert {name for name, budget in BUDGETS.items() if budget is None} == {"ask_person"}
    assert BUDGETS["critique"] == "max_critiques"
    assert TOTAL == "max_recoveries"
    # Doing the same again is not on the list under any name.
    assert STRATEGIES == (
        "replan",
        "other_arguments",
        "fallback_tool",
        "smaller_context",
        "drop_satisfied",
        "critique",
        "ask_person",
    )


@given(rounds, bounded)
def test_no_budget_is_ever_exceeded_and_none_is_left_unused_by_a_stop(
    reasons: list[str], limits: Limits
) -> None:
    begun: list[str] = []
    for reason, said in zip(reasons, recovered(reasons, limits), strict=True):
        spent = {
            name: sum(BUDGETS[strategy] == name for strategy in begun)
            for name in ("max_replans", "max_tool_retries", "max_critiques")
        }
        spent[TOTAL] = len(begun)
        open_budgets = {
            name
            for name, count in spent.items()
            if (bound := _bound(limits, name)) is None or count < bound
        }
        assert said.reason == reason
        if said.strategy is not None:
            assert TOTAL in open_budgets
            assert BUDGETS[said.strategy] in open_budgets | {None}
            begun.append(said.strategy)
        else:
            # Only the total, or all the strategies of the reason, can have nothing left.
            affordable = [s for s in TRIED[reason] if BUDGETS[s] in open_budgets | {None}]
            assert said == Decision(decision="stop", reason=reason)
            assert TOTAL not in open_budgets or not affordable


def _bound(limits: Limits, name: str) -> int | None:
    bound: int | None = getattr(limits, name)
    return bound


@given(rounds, bounded)
def test_no_strategy_is_tried_twice_running_for_a_reason_while_another_has_budget(
    reasons: list[str], limits: Limits
) -> None:
    said = recovered(reasons, limits)
    for reason in DETECTIONS:
        own = [place for place, each in enumerate(said) if each.reason == reason]
        for earlier, later in pairwise(own):
            if said[later].strategy is None or said[later].strategy != said[earlier].strategy:
                continue
            begun = [each.strategy for each in said[:later] if each.strategy is not None]
            for other in set(TRIED[reason]) - {said[later].strategy}:
                budget = BUDGETS[other]
                assert budget is not None
                bound = _bound(limits, budget)
                assert bound is not None
                assert sum(BUDGETS[strategy] == budget for strategy in begun) >= bound


def test_without_budgets_every_reason_goes_round_its_strategies_for_ever() -> None:
    for reason in DETECTIONS:
        said = recovered([reason] * 9, NULL)
        assert tuple(each.strategy for each in said) == (TRIED[reason] * 3)[:9]


def test_what_is_no_detection_is_answered_as_it_is() -> None:
    recoveries = Recoveries(NULL)
    for rank, row in enumerate(PRECEDENCE):
        said = recoveries.answer(rank)
        if row.source == "detector":
            assert said.decision == "recover"
            assert rank_of(said) == rank
        else:
            assert said == DECISIONS[rank]
    with pytest.raises(ValueError, match="not a recovery"):
        recoveries.begin(DECISIONS[0])


def test_a_run_of_one_call_is_told_something_else_each_time_and_then_stopped() -> None:
    said = words(answers(in_turns([SAME] * 14), changed(repeat=2, cycle_max=None)))
    told = ["drop_satisfied", "other_arguments", "replan", "ask_person"]
    expected = [each for strategy in told for each in ("continue", f"recover {strategy}")]
    expected += ["continue", *["stop repeated_action"] * 5]
    assert said == expected


@pytest.mark.parametrize(
    ("limits", "recoveries"),
    [
        ({}, 4),
        ({"max_recoveries": 0}, 0),
        ({"max_recoveries": 1}, 1),
        ({"max_recoveries": None}, 5),
        ({"max_recoveries": None, "max_replans": 0}, 5),
        ({"max_replans": 0, "max_tool_retries": 0}, 4),
        ({"max_recoveries": None, "max_steps": 6}, 2),
        ({"max_recoveries": None, "horizon": 5}, 2),
        ({"max_recoveries": None, "max_model_calls": 7}, 3),
    ],
)
def test_recoveries_end_by_their_budgets_or_by_those_of_the_run(
    limits: dict[str, object], recoveries: int
) -> None:
    run = [msgspec.structs.replace(SAME, usage=Usage(model_calls=1))] * 11
    said = words(answers(in_turns(run), changed(repeat=2, cycle_max=None, **limits)))
    assert sum(each.startswith("recover") for each in said) == recoveries
    assert said[-1].startswith("stop") == (recoveries < 5)


TIGHT = changed(repeat=2, window=3, error_streak=2, cycle_max=3, cycle_repeats=2, max_waits=2)
POLL = Observation(turn=1, action=1, tool="poll", progress=0)
PHASES = [msgspec.structs.replace(SAME, action_fingerprint=name) for name in "ab"]
ROWS: dict[str, list[Observation]] = {
    "repeated_action": [SAME] * 2,
    "tool_failure": [
        msgspec.structs.replace(SAME, action_fingerprint=str(n), error_class="auth")
        for n in range(2)
    ],
    "nonproductive_cycle": PHASES * 2,
    "no_progress": [Observation(turn=1, action=1, progress=0)] * 3,
}


@pytest.mark.parametrize("reason", DETECTIONS)
def test_after_a_recovery_a_detector_needs_its_whole_threshold_again(reason: str) -> None:
    once = ROWS[reason]
    said = answers(in_turns(once * 3), TIGHT)
    places = [place for place, each in enumerate(said) if each.decision == "recover"]
    assert places == [len(once) * n - 1 for n in (1, 2, 3)]
    assert {each.reason for each in said if each.decision == "recover"} == {reason}


def test_a_poll_is_counted_anew_after_a_recovery() -> None:
    limits = changed(TIGHT, tools={"poll": ToolPolicy(wait=True)})
    said = words(answers(in_turns([POLL] * 6), limits))
    assert [place for place, each in enumerate(said) if each != "continue"] == [1, 3, 5]
    assert said[1] == "recover critique"


@pytest.mark.parametrize(
    ("seen", "limits", "due"),
    [
        (Observation(turn=1, action=2, claims_done=True, verified=True), {}, "completed"),
        (Observation(turn=1, action=2, usage=Usage(latency_ms=9)), {"max_latency_ms": 9}, "dead"),
        (Observation(turn=1, action=2, usage=Usage(tool_calls=2)), {"max_tool_calls": 1}, "tool_"),
        (Observation(turn=1, action=2, claims_done=True), {"error_streak": 1}, "stalled"),
        (
            Observation(turn=1, action=2, claims_done=True, verified=False),
            {"max_refusals": 0},
            "invalid",
        ),
    ],
)
@pytest.mark.parametrize("first", [True, False])
def test_a_stop_by_finish_budget_or_gate_in_the_turn_of_a_recovery_ends_the_run(
    seen: Observation, limits: dict[str, object], due: str, first: bool
) -> None:
    repeated = msgspec.structs.replace(SAME, turn=2)
    ending = msgspec.structs.replace(seen, turn=2)
    pair = [ending, repeated] if first else [repeated, ending]
    turn = [msgspec.structs.replace(each, action=n) for n, each in enumerate(pair, start=1)]
    after = msgspec.structs.replace(SAME, turn=3)
    said = answers([SAME, *turn, after], changed(repeat=2, **limits))
    decision = turn_decision(said[1:3])
    assert decision.decision == "stop"
    assert (decision.reason or "").startswith(due)
    assert said[3] == decision
    if not first:
        # The recovery was answered to its own observation all the same, and came to nothing.
        assert said[1].decision == "recover"


def test_of_two_detections_in_one_turn_the_higher_decides_and_alone_is_begun() -> None:
    failed = msgspec.structs.replace(SAME, error_class="auth")
    # Row e fires on the text with an error, row r on the call that stands before and after it.
    text = Observation(turn=2, action=1, error_class="auth")
    pair = [failed, text, msgspec.structs.replace(SAME, turn=2, action=2)]
    limits = changed(error_streak=2, repeat=2, window=None, cycle_max=None)
    again = [
        msgspec.structs.replace(seen, turn=turn)
        for turn, seen in enumerate([failed, SAME, failed, text], start=3)
    ]
    assert words(answers([*pair, *again], limits)) == [
        "continue",
        "recover other_arguments",
        "recover drop_satisfied",
        "continue",
        "recover other_arguments",
        "continue",
        # Still the first strategy of a failure, which was proposed and never begun.
        "recover other_arguments",
    ]


def test_the_decision_of_a_turn_is_the_highest_reason_whether_it_recovers_or_stops() -> None:
    for high, low in product(PRECEDENCE[:4] + PRECEDENCE[8:12], PRECEDENCE[10:]):
        if RANKS[high.decision, high.reason] >= RANKS[low.decision, low.reason]:
            continue
        for one, other in product(_forms(high), _forms(low)):
            assert turn_decision([one, other]) == turn_decision([other, one]) == one


def _forms(row: Answer) -> list[Decision]:
    """Return a row as a decision, and as a recovery where it is a detection."""
    plain = Decision(decision=row.decision, reason=row.reason)
    if row.source != "detector":
        return [plain]
    return [plain, Decision(decision="recover", reason=row.reason, strategy="replan")]


def test_a_turn_draws_on_the_budgets_once_however_often_it_detects() -> None:
    one = msgspec.structs.replace(SAME, progress=0)
    limits = changed(repeat=None, window=1, cycle_max=None, max_recoveries=2)
    run = [
        msgspec.structs.replace(one, turn=turn, action=action)
        for turn, action in product(range(1, 4), range(1, 6))
    ]
    said = words(answers(run, limits))
    assert said[:5] == ["recover critique"] * 5
    assert said[5:10] == ["recover smaller_context"] * 5
    assert set(said[10:]) == {"stop no_progress"}


def test_sums_steps_and_refusals_go_on_over_a_recovery() -> None:
    refused = Observation(turn=1, action=1, claims_done=True, verified=False)
    limits = changed(window=2, max_refusals=4)
    said = words(answers(in_turns([refused] * 6), limits))
    # The first refusal is like no other. After the recovery the next is still the same answer.
    assert said == [
        "reject_finish invalid_completion",
        "reject_finish invalid_completion",
        "recover critique",
        "reject_finish invalid_completion",
        "stop invalid_completion",
        "stop invalid_completion",
    ]
    stepped = words(answers(in_turns([SAME] * 9), changed(repeat=2, max_steps=5)))
    assert stepped[4:] == ["stop step_budget_exhausted"] * 5


def test_a_run_that_is_begun_again_has_all_its_budgets_and_one_observed_again_the_same_ones() -> (
    None
):
    ours = controller("E")
    run = in_turns([SAME] * 9)
    limits = changed(repeat=2, cycle_max=None)
    ours.start(limits)
    first = [ours.observe(seen) for seen in run]
    ours.start(limits)
    assert [ours.observe(seen) for seen in run[:5]] == first[:5]
    assert [ours.observe(seen) for seen in run[5:]] == first[5:]


@given(rounds)
def test_without_recoveries_level_e_is_level_d(reasons: list[str]) -> None:
    run = in_turns([seen for reason in reasons for seen in ROWS[reason]])
    none = changed(TIGHT, max_recoveries=0)
    assert answers(run, none) == answers(run, TIGHT, "D")
    # Without any nested budget there is still a person to ask.
    alone = changed(TIGHT, max_replans=0, max_tool_retries=0, max_critiques=0)
    tried = {each.strategy for each in answers(run, alone) if each.decision == "recover"}
    assert tried <= {"ask_person"}
