"""Every form of autonomy plays the same tasks through the same tools, within the same bounds."""

from __future__ import annotations

from functools import lru_cache

import pytest

from loopcore.control.levels import controller
from loopcore.control.limits import Gate, Limits
from loopcore.worlds.forms import (
    BRANCHES_MAX,
    CHECKPOINT_TURNS,
    FORMS,
    SEARCH_WIDTH,
    fixed_workflow,
    human_checkpoint,
    single_response,
)
from loopcore.worlds.model import APPLICATIONS, HABITS, Played
from loopcore.worlds.playing import play, tool_policies, trajectory
from loopcore.worlds.tasks import tasks

TASKS = 30
ALL_HABITS: tuple[str, ...] = HABITS
EACH_FORM = pytest.mark.parametrize("form", FORMS)


def limits_of(application: str, gate: Gate = "verify") -> Limits:
    return Limits(gate=gate, tools=tool_policies(application))


@lru_cache(maxsize=64)
def played(form: str, application: str) -> tuple[Played, ...]:
    mixture = dict.fromkeys(ALL_HABITS, 1.0)
    return tuple(
        FORMS[form](task, limits_of(application))
        for task in tasks(application, TASKS, 8, mixture=mixture)
    )


def model_calls(run: Played) -> int:
    return sum(seen.usage.model_calls or 0 for seen in run.observations)


@EACH_FORM
@pytest.mark.parametrize("application", APPLICATIONS)
def test_a_run_has_consecutive_turns_within_the_bounds_and_a_true_verdict(
    form: str, application: str
) -> None:
    for run in played(form, application):
        turns = [seen.turn for seen in run.observations]
        assert turns == list(range(1, len(turns) + 1))
        waits = tool_policies(application)
        steps = sum(not waits[seen.tool].wait if seen.tool else True for seen in run.observations)
        assert steps <= 30
        last = run.observations[-1]
        assert run.verified == (run.reason == "completed")
        assert run.verified == (last.claims_done and last.verified is True)
        assert not any(seen.verified for seen in run.observations[:-1])
        if run.task.habit == "impossible_goal":
            assert not run.verified


@EACH_FORM
def test_the_same_task_is_played_the_same_again(form: str) -> None:
    for task in tasks("etl", 5, 8):
        assert FORMS[form](task, limits_of("etl")) == FORMS[form](task, limits_of("etl"))


@EACH_FORM
def test_a_step_bound_ends_every_form(form: str) -> None:
    limits = Limits(max_steps=2, tools=tool_policies("coding"))
    for task in tasks("coding", 10, 8):
        run = FORMS[form](task, limits)
        polls = sum(limits.policy(seen.tool).wait for seen in run.observations)
        assert len(run.observations) - polls <= 2


def test_a_single_response_asks_a_model_once_and_claims_once_at_its_end() -> None:
    for application in APPLICATIONS:
        for run in played("single response", application):
            asked = [seen.turn for seen in run.observations if seen.usage.model_calls]
            assert asked == [1]
            assert not any(seen.claims_done for seen in run.observations[:-1])
            assert all(seen.usage.cost_microunits == 0 for seen in run.observations[1:])


def test_a_workflow_retries_what_a_single_response_does_not() -> None:
    both: dict[str, int] = {}
    for form in (single_response, fixed_workflow):
        runs = [form(task, limits_of("support")) for task in tasks("support", 60, 8)]
        both[form.__name__] = sum(run.verified for run in runs)
    assert both["single_response"] < both["fixed_workflow"]


def test_a_planner_leaves_a_mode_that_holds_the_loop_for_ever() -> None:
    mixture = {"exact_repeater": 1.0}
    some = tasks("coding", 40, 8, mixture=mixture)
    lost = [task for task in some if trajectory(task, 120).onset is not None]
    assert len(lost) > 10
    assert not any(play(task, controller("D"), limits_of("coding"), {}).verified for task in lost)
    planned = [FORMS["planner and executor"](task, limits_of("coding")).verified for task in lost]
    assert sum(planned) > len(lost) / 2


def test_a_search_asks_for_more_while_its_branches_last() -> None:
    spent = 0
    for run in played("bounded search", "research"):
        extra = model_calls(run) - len(run.observations)
        assert extra > 0
        # An ordinary turn may take two model calls, and so may each branch.
        wide = sum((seen.usage.model_calls or 0) >= SEARCH_WIDTH for seen in run.observations)
        assert wide <= BRANCHES_MAX // (SEARCH_WIDTH - 1)
        spent += len(run.observations) > wide == BRANCHES_MAX // (SEARCH_WIDTH - 1)
    assert spent > TASKS / 4


def test_a_person_looks_every_few_turns_and_only_ends_what_cannot_be_done() -> None:
    looked = 0
    for application in APPLICATIONS:
        for run in played("human checkpoint", application):
            assert all(one.turn % CHECKPOINT_TURNS == 0 for one in run.recoveries)
            assert all(one.strategy == "ask_person" for one in run.recoveries)
            looked += len(run.recoveries)
            if run.reason == "none":
                assert run.recoveries[-1].needed
    assert looked > TASKS


def test_under_trust_the_word_of_the_form_ends_the_run() -> None:
    for task in tasks("research", 20, 8):
        for form in (single_response, human_checkpoint):
            run = form(task, limits_of("research", "trust"))
            assert run.rejected == 0
            if any(seen.claims_done for seen in run.observations):
                assert run.reason in ("completed", "step_budget_exhausted")
