"""A world's truth is true: what it says of onset and verification is what continuations show.

Mutants that this claim must notice: a mode that an answer ends, an onset that is set one turn late
or after the work is done, a draw that depends on the habit before its onset, a task list that
changes with its length, a trajectory that depends on the process.
"""

from __future__ import annotations

import hashlib
import os
import subprocess
import sys
from collections import defaultdict
from collections.abc import Sequence
from functools import lru_cache

import msgspec
import pytest

from loopcore.control.observations import Observation
from loopcore.control.variants import variant
from loopcore.errors import UsageError
from loopcore.worlds.model import APPLICATIONS, HABITS, Task, Trajectory
from loopcore.worlds.playing import HORIZON, continuations, trajectory
from loopcore.worlds.tasks import DEFAULT_MIXTURE, tasks

SEED = 20
# Tasks of each application, every habit as often, and of those with the default mixture.
COUNT = 156
COUNT_DEFAULT = 150
EVEN: dict[str, float] = dict.fromkeys(HABITS, 1.0)
GOOD = HABITS[: HABITS.index("exact_repeater")]
BAD = HABITS[HABITS.index("exact_repeater") :]
# Habits that are good work until their mode begins, so that nothing tells them apart before.
LATENT = ("exact_repeater", "alternator", "reworder", "same_error_retrier", "metric_gamer")


@lru_cache(maxsize=1)
def runs() -> dict[tuple[str, str], list[Trajectory]]:
    """Return trajectories by application and habit."""
    found: dict[tuple[str, str], list[Trajectory]] = defaultdict(list)
    for application in APPLICATIONS:
        for task in tasks(application, COUNT, SEED, mixture=EVEN):
            found[application, task.habit].append(trajectory(task, HORIZON))
    return found


def every() -> list[Trajectory]:
    """Return all of them."""
    return [run for group in runs().values() for run in group]


def digest(trajectories: Sequence[Trajectory]) -> str:
    """Return a digest of trajectories, byte by byte."""
    return hashlib.sha256(msgspec.json.encode(list(trajectories))).hexdigest()


def test_a_run_has_one_observation_a_turn_and_ends_verified_or_at_the_horizon() -> None:
    for run in every():
        assert [seen.turn for seen in run.observations] == list(range(1, len(run.observations) + 1))
        assert {seen.action for seen in run.observations} == {1}
        verified = [seen.turn for seen in run.observations if seen.verified]
        if run.verified_turn is None:
            assert verified == []
            assert len(run.observations) == HORIZON
        else:
            assert verified == [run.verified_turn]
            assert run.verified_turn == len(run.observations)
            assert run.observations[-1].claims_done


def test_the_verifier_answers_claims_and_nothing_else() -> None:
    answers = {(seen.claims_done, seen.verified) for run in every() for seen in run.observations}
    assert answers == {(False, None), (True, None), (True, False), (True, True)}


def test_no_run_that_verifies_has_an_onset_and_none_verifies_after_one() -> None:
    assert not [run for run in every() if run.onset is not None and run.verified_turn is not None]


@pytest.mark.parametrize("application", APPLICATIONS)
def test_no_fresh_continuation_from_an_onset_verifies(application: str) -> None:
    for habit in BAD:
        run = next(run for run in runs()[application, habit] if run.onset is not None)
        assert run.onset is not None
        assert not any(continuations(run.task, run.onset, 20)), run.task


@pytest.mark.slow
def test_no_fresh_continuation_from_any_onset_of_a_thousand_tasks_verifies() -> None:
    found = 0
    for application in APPLICATIONS:
        for task in tasks(application, 500, SEED):
            run = trajectory(task, HORIZON)
            if run.onset is not None:
                found += 1
                assert not any(continuations(task, run.onset, 20)), task
    assert found > 800


def test_fresh_continuations_of_good_work_do_verify() -> None:
    for application in APPLICATIONS:
        for habit in GOOD:
            run = runs()[application, habit][0]
            assert all(continuations(run.task, 3, 5)), run.task


def test_good_habits_have_no_onset_and_nearly_always_succeed() -> None:
    for application in APPLICATIONS:
        for habit in GOOD:
            group = runs()[application, habit]
            assert not [run for run in group if run.onset is not None]
            assert sum(run.verified_turn is not None for run in group) >= 0.9 * len(group)


def test_every_bad_habit_has_an_onset_in_some_runs_and_succeeds_in_milder_ones() -> None:
    for habit in BAD:
        group = [run for application in APPLICATIONS for run in runs()[application, habit]]
        milder = sum(run.verified_turn is not None for run in group)
        stuck = sum(run.onset is not None for run in group)
        assert stuck >= 0.2 * len(group), habit
        if habit == "impossible_goal":
            assert milder == 0
            assert {run.onset for run in group} == {1}
        else:
            assert milder >= 0.1 * len(group), habit


@pytest.mark.parametrize("application", APPLICATIONS)
def test_more_than_half_of_the_tasks_of_the_default_mixture_verify(application: str) -> None:
    group = [trajectory(task, HORIZON) for task in tasks(application, COUNT_DEFAULT, SEED)]
    assert 0.5 < sum(run.verified_turn is not None for run in group) / len(group) < 0.8
    assert sum(run.onset is not None for run in group) / len(group) > 0.2


@pytest.mark.parametrize("habit", LATENT)
def test_before_its_onset_an_agent_is_observed_as_a_productive_one(habit: str) -> None:
    for application in APPLICATIONS:
        for run in runs()[application, habit][:6]:
            honest = msgspec.structs.replace(run.task, habit="productive")
            before = len(run.observations) if run.onset is None else run.onset - 1
            assert run.observations[:before] == trajectory(honest, HORIZON).observations[:before]
            if run.onset is not None:
                after = slice(before, before + 30)
                honestly = trajectory(honest, HORIZON).observations[after]
                assert run.observations[after] != honestly


def test_no_observation_names_the_habit_or_the_truth() -> None:
    told = {field.name for field in msgspec.structs.fields(Observation)}
    assert not told & {"habit", "onset", "number", "seed"}
    for run in every():
        text = msgspec.json.encode(run.observations).decode()
        assert not [word for word in (*HABITS, "onset", "impossible", "frozen") if word in text]


def test_a_task_has_one_trajectory_in_every_process_and_in_any_order() -> None:
    few = [task for application in APPLICATIONS for task in tasks(application, 8, SEED)]
    here = digest([trajectory(task, HORIZON) for task in reversed(few)][::-1])
    script = (
        "import hashlib, msgspec\n"
        "from loopcore.worlds.model import APPLICATIONS\n"
        "from loopcore.worlds.playing import trajectory\n"
        "from loopcore.worlds.tasks import tasks\n"
        f"few = [task for name in APPLICATIONS for task in tasks(name, 8, {SEED})]\n"
        f"runs = [trajectory(task, {HORIZON}) for task in few]\n"
        "print(hashlib.sha256(msgspec.json.encode(runs)).hexdigest())"
    )
    for hash_seed in ("1", "2"):
        environment = {**os.environ, "PYTHONHASHSEED": hash_seed}
        output = subprocess.run(
            [sys.executable, "-c", script],
            check=True,
            capture_output=True,
            text=True,
            env=environment,
        ).stdout
        assert output.strip() == here


def test_a_shorter_horizon_gives_a_prefix() -> None:
    for run in every()[::40]:
        short = trajectory(run.task, 7)
        assert short.observations == run.observations[:7]
        assert short.onset == (run.onset if run.onset is not None and run.onset <= 7 else None)


def test_lists_of_tasks_extend_each_other_and_follow_the_mixture() -> None:
    whole = tasks("etl", 20_000, 1)
    assert tasks("etl", 51, 1, first=30) == whole[30:81]
    for habit, share in DEFAULT_MIXTURE.items():
        found = sum(task.habit == habit for task in whole) / len(whole)
        assert abs(found - share) < 0.01, habit
    only = tasks("etl", 20, 1, mixture={"reworder": 2.0})
    assert {task.habit for task in only} == {"reworder"}


def test_the_worlds_are_read_without_numpy() -> None:
    script = "import sys, loopcore.worlds.playing; print('numpy' in sys.modules)"
    output = subprocess.run([sys.executable, "-c", script], check=True, capture_output=True)
    assert output.stdout.strip() == b"False"


@pytest.mark.parametrize(
    ("mixture", "message"),
    [
        ({"sleepy": 1.0}, "expected habits of"),
        ({"productive": -0.1}, "at least 0"),
        ({"productive": float("nan")}, "at least 0"),
        ({"productive": 0.0}, "a weight above 0"),
        ({}, "a weight above 0"),
    ],
)
def test_a_mixture_that_is_none_is_refused(mixture: dict[str, float], message: str) -> None:
    with pytest.raises(UsageError, match=message):
        tasks("jobs", 1, 1, mixture=mixture)


def test_an_unknown_application_and_a_count_out_of_range_are_refused() -> None:
    with pytest.raises(UsageError, match="expected one of coding, browser"):
        tasks("games", 1, 1)
    with pytest.raises(UsageError, match="expected 0 to"):
        tasks("jobs", -1, 1)
    task = Task(application="games", number=0, seed=0, habit="productive")
    with pytest.raises(UsageError, match="expected one of coding, browser"):
        trajectory(task, 5)
    with pytest.raises(UsageError, match="at least 1 turn"):
        trajectory(msgspec.structs.replace(task, application="jobs"), 0)


def test_good_work_holds_what_trips_naive_guards() -> None:
    good = [run for run in every() if run.verified_turn is not None]
    stopped = dict.fromkeys(("consecutive-3", "total-3", "total-3-result"), 0)
    for name in stopped:
        for run in good:
            guard = variant(name)
            decisions = [guard.observe(seen).reason for seen in run.observations]
            stopped[name] += decisions[-1] == "repeated_action"
    assert stopped["total-3"] > 0.6 * len(good)
    assert stopped["total-3-result"] > 0.2 * len(good)
    assert 0.2 * len(good) < stopped["consecutive-3"] < 0.7 * len(good)
    assert sum(any(seen.error_class for seen in run.observations) for run in good) > len(good) / 4
