"""An observation of a world says what a controller would compute, and its state says enough.

Mutants that this claim must notice: a fingerprint of other arguments, a volatile name that stays
in it, a state that leaves out what a later answer depends on, progress for regained ground.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from typing import cast

import pytest

from loopcore.control.fingerprints import action_fingerprint, result_fingerprint
from loopcore.control.limits import ToolPolicy
from loopcore.errors import UsageError
from loopcore.worlds.calls import FINISH
from loopcore.worlds.model import APPLICATIONS, Trajectory
from loopcore.worlds.playing import HORIZON, tool_policies, trajectory
from loopcore.worlds.tasks import DEFAULT_MIXTURE, tasks
from loopcore.worlds.world import UNAVAILABLE

SEED = 31
COUNT = 60
# In these the state of what the tools work on can be known.
STATEFUL = ("coding", "browser", "support", "etl")
NAMES = {"model_calls", "tool_calls", "input_tokens", "output_tokens"} | {
    "cost_microunits",
    "latency_ms",
}


def runs(application: str, mixture: Mapping[str, float] = DEFAULT_MIXTURE) -> list[Trajectory]:
    """Return some trajectories of an application."""
    return [trajectory(task, HORIZON) for task in tasks(application, COUNT, SEED, mixture=mixture)]


@pytest.mark.parametrize("application", APPLICATIONS)
def test_fingerprints_are_those_that_a_controller_would_compute(application: str) -> None:
    policies = tool_policies(application)
    checked = set[tuple[str | None, str | None, str | None]]()
    for run in runs(application):
        for seen in run.observations:
            key = (seen.tool, seen.action_fingerprint, seen.result_fingerprint)
            if seen.tool is None:
                assert key == (None, None, None)
                assert seen.arguments is None
                assert seen.result is None
                continue
            if key in checked:
                continue
            checked.add(key)
            volatile = policies[seen.tool].volatile
            assert seen.action_fingerprint == action_fingerprint(
                seen.tool, seen.arguments, volatile
            )
            if seen.result is None:
                assert seen.result_fingerprint is None
            else:
                assert seen.result_fingerprint == result_fingerprint(seen.result, volatile)
    assert len(checked) > 20


def test_a_reference_that_is_renumbered_leaves_the_fingerprint_as_it_is() -> None:
    references: dict[str, set[object]] = {}
    for run in runs("browser"):
        for seen in run.observations:
            if seen.tool == "fill":
                assert seen.action_fingerprint is not None
                held = references.setdefault(seen.action_fingerprint, set())
                held.add(cast("dict[str, object]", seen.arguments)["ref"])
    assert max(len(held) for held in references.values()) > 2


@pytest.mark.parametrize("application", STATEFUL)
def test_one_state_and_one_action_have_one_answer_and_one_next_state(application: str) -> None:
    repeated = 0
    policies = tool_policies(application)
    for run in runs(application) + runs(application, {"alternator": 1.0}):
        answers: dict[tuple[str, str], tuple[str | None, str | None]] = {}
        for before, seen in zip(run.observations, run.observations[1:], strict=False):
            state, action = before.state_fingerprint, seen.action_fingerprint
            if state is None or action is None or seen.tool is None or seen.tool == FINISH:
                continue
            lost = seen.error_class in (UNAVAILABLE, "response_lost")
            if policies[seen.tool].wait or lost:
                continue
            answer = (seen.result_fingerprint, seen.state_fingerprint)
            repeated += (state, action) in answers
            assert answers.setdefault((state, action), answer) == answer, (run.task, seen.turn)
    assert repeated > 100


@pytest.mark.parametrize("application", APPLICATIONS)
def test_states_are_known_where_they_can_be_and_never_of_polls_and_outages(
    application: str,
) -> None:
    policies = tool_policies(application)
    for run in runs(application):
        for seen in run.observations:
            policy = policies[seen.tool] if seen.tool is not None else ToolPolicy()
            hidden = policy.wait or seen.error_class == UNAVAILABLE
            known = application in STATEFUL and not hidden
            assert (seen.state_fingerprint is not None) == known


@pytest.mark.parametrize("application", APPLICATIONS)
def test_progress_ends_with_the_onset_of_a_mode_and_stays_rare(application: str) -> None:
    known: Counter[int | None] = Counter()
    for run in runs(application):
        known.update(seen.progress for seen in run.observations)
        assert sum(seen.progress == 1 for seen in run.observations) <= 60
        if run.onset is None or run.task.habit in ("impossible_goal", "lost_response"):
            continue
        # A measure that could not be taken before the onset is taken after it.
        late = [seen.progress for seen in run.observations[run.onset + 2 :]]
        assert 1 not in late
    assert set(known) <= {None, -1, 0, 1}
    assert 0.005 < known[None] / known.total() < 0.05


@pytest.mark.parametrize("application", APPLICATIONS)
def test_usage_is_whole_and_counts_what_the_turn_did(application: str) -> None:
    for run in runs(application):
        for seen in run.observations:
            usage = seen.usage
            values = {name: getattr(usage, name) for name in NAMES}
            assert all(type(value) is int and value >= 0 for value in values.values())
            assert usage.tool_calls == (seen.tool is not None)
            assert usage.model_calls in (1, 2)


def test_each_application_has_a_wait_a_repeatable_and_an_unsafe_tool() -> None:
    for application in APPLICATIONS:
        policies = tool_policies(application).values()
        assert sum(policy.wait for policy in policies) == 1
        assert sum(policy.repeatable for policy in policies) == 1
        assert sum(policy.effect == "unsafe" for policy in policies) >= 1
    assert any(policy.volatile for policy in tool_policies("browser").values())
    with pytest.raises(UsageError, match="expected one of coding, browser"):
        tool_policies("games")
