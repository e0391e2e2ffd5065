"""The incremental levels and the naive ones agree on every decision and reason of every run.

Killers: each of these, alone, turns this file red: a streak that a good observation does not reset,
a threshold off by one, a wait that resets a streak, a cycle that ignores states, refusals counted
over good observations, a pending claim that is idle, a duplicate in a turn that counts twice; of
level E a budget off by one, a strategy tried twice running, a detector that remembers what was
before a recovery. Runs drawn at random meet a lone reset rarely, so short runs over small alphabets
are all tried as well.
"""

from __future__ import annotations

from collections import Counter
from itertools import product
from random import Random

import msgspec
import pytest
from hypothesis import HealthCheck, Phase, given, settings

from loopcore.control.decisions import Decision
from loopcore.control.levels import LEVELS, controller
from loopcore.control.limits import Limits, ToolPolicy
from loopcore.control.observations import Observation
from loopcore.control.precedence import PRECEDENCE, turn_decision
from loopcore.control.recovery import TRIED
from loopcore.testing.control_strategies import controller_limits, observation_sequences
from loopcore.testing.naive_controllers import HIGHEST_FIRST, NaiveController
from properties.core.seeded_control_runs import seeded_limits, seeded_run

EXAMPLES = 40
EXAMPLES_SLOW = 1_000
# Sequences from seeds, for level E alone: every detection of them is led through the budgets.
SEEDED = 2_000
SEEDED_SLOW = 20_000


def decisions(level: str, limits: Limits, run: list[Observation]) -> list[Decision]:
    """Return a level's answers to a run."""
    ours = controller(level)
    ours.start(limits)
    return [ours.observe(seen) for seen in run]


def agree(level: str, limits: Limits, run: list[Observation]) -> None:
    """Compare every answer of a level to those of its naive model."""
    naive = NaiveController(level)
    naive.start(limits)
    ours = controller(level)
    ours.start(limits)
    for seen in run:
        assert ours.observe(seen) == naive.observe(seen), (seen.turn, seen.action)


@pytest.mark.parametrize("level", sorted(LEVELS))
@settings(
    max_examples=EXAMPLES,
    deadline=None,
    suppress_health_check=[HealthCheck.too_slow, HealthCheck.data_too_large],
)
@given(limits=controller_limits(), run=observation_sequences())
def test_a_level_answers_every_observation_as_its_naive_model(
    level: str, limits: Limits, run: list[Observation]
) -> None:
    agree(level, limits, run)


@pytest.mark.slow
@pytest.mark.parametrize("level", sorted(LEVELS))
@settings(
    max_examples=EXAMPLES_SLOW,
    deadline=None,
    suppress_health_check=[HealthCheck.too_slow, HealthCheck.data_too_large],
)
@given(limits=controller_limits(), run=observation_sequences())
def test_a_level_and_its_naive_model_agree_at_length(
    level: str, limits: Limits, run: list[Observation]
) -> None:
    agree(level, limits, run)


def seeded_sequences_agree(seeds: range) -> Counter[str]:
    """Compare level E to its naive model on runs from seeds; return what was answered how often."""
    met: Counter[str] = Counter()
    for seed in seeds:
        random = Random(seed)
        limits, run = seeded_limits(random), seeded_run(random)
        naive = NaiveController("E")
        naive.start(limits)
        answers = decisions("E", limits, run)
        assert answers == [naive.observe(seen) for seen in run], f"seed {seed}"
        met.update({f"{each.decision} {each.reason} {each.strategy}" for each in answers})
    return met


def test_level_e_agrees_with_its_naive_model_and_tries_everything_that_there_is() -> None:
    met = seeded_sequences_agree(range(SEEDED))
    for reason, tried in TRIED.items():
        wanted = {f"recover {reason} {strategy}" for strategy in tried}
        assert {*wanted, f"stop {reason} None"} <= set(met), met


@pytest.mark.slow
def test_level_e_agrees_with_its_naive_model_at_length() -> None:
    seeded_sequences_agree(range(SEEDED, SEEDED + SEEDED_SLOW))


@settings(
    max_examples=EXAMPLES,
    deadline=None,
    suppress_health_check=[HealthCheck.too_slow, HealthCheck.data_too_large],
)
@given(limits=controller_limits(), run=observation_sequences())
def test_after_a_turn_whose_decision_is_a_stop_nothing_but_that_stop_is_answered(
    limits: Limits, run: list[Observation]
) -> None:
    answers = decisions("D", limits, run)
    for turn in sorted({seen.turn for seen in run}):
        pairs = list(zip(run, answers, strict=True))
        decision = turn_decision(answer for seen, answer in pairs if seen.turn == turn)
        if decision.decision == "stop":
            assert {answer for seen, answer in pairs if seen.turn > turn} <= {decision}
            return


@pytest.mark.slow
def test_generated_runs_meet_every_answer_of_the_precedence() -> None:
    met: Counter[tuple[str, str | None]] = Counter()

    @settings(
        max_examples=800,
        deadline=None,
        database=None,
        derandomize=True,
        phases=[Phase.generate],
        suppress_health_check=[HealthCheck.too_slow, HealthCheck.data_too_large],
    )
    @given(limits=controller_limits(), run=observation_sequences())
    def meet(limits: Limits, run: list[Observation]) -> None:
        met.update({(each.decision, each.reason) for each in decisions("D", limits, run)})

    meet()
    answers = {(answer.decision, answer.reason) for answer in PRECEDENCE}
    assert answers == set(met), met


def test_both_statements_of_the_precedence_have_one_order() -> None:
    ours = [" ".join(filter(None, (answer.decision, answer.reason))) for answer in PRECEDENCE]
    assert ours == HIGHEST_FIRST


X = Observation(turn=1, action=1, tool="x", action_fingerprint="x", state_fingerprint="s")
Y = msgspec.structs.replace(X, tool="y", action_fingerprint="y")
GOOD_TEXT = Observation(turn=1, action=1, progress=1)
POLL = Observation(turn=1, action=1, tool="poll")
GOOD_POLL = msgspec.structs.replace(POLL, progress=1)
REFUSED = Observation(turn=1, action=1, claims_done=True, verified=False)
REFUSED_GOOD = msgspec.structs.replace(REFUSED, progress=1)
PENDING = Observation(turn=1, action=1, claims_done=True, progress=0)
FAILED = msgspec.structs.replace(X, error_class="e")

# Alphabets with the length to which every run over them is tried, one action a turn.
ALPHABETS: tuple[tuple[tuple[Observation, ...], int], ...] = (
    ((X, GOOD_TEXT, POLL), 6),
    ((X, Y, GOOD_TEXT), 6),
    ((X, GOOD_TEXT, FAILED), 6),
    ((X, POLL, GOOD_POLL), 6),
    ((REFUSED, REFUSED_GOOD, PENDING, POLL), 5),
)
TIGHT = Limits(
    repeat=3,
    window=2,
    error_streak=3,
    cycle_max=3,
    cycle_repeats=2,
    max_waits=3,
    max_refusals=1,
    tools={"poll": ToolPolicy(wait=True)},
)


@pytest.mark.parametrize("level", sorted(LEVELS))
@pytest.mark.parametrize(("alphabet", "length"), ALPHABETS)
def test_every_short_run_over_a_small_alphabet_is_decided_alike(
    level: str, alphabet: tuple[Observation, ...], length: int
) -> None:
    for letters in product(alphabet, repeat=length):
        run = [msgspec.structs.replace(seen, turn=n) for n, seen in enumerate(letters, start=1)]
        naive = NaiveController(level)
        naive.start(TIGHT)
        assert decisions(level, TIGHT, run) == [naive.observe(seen) for seen in run], letters
