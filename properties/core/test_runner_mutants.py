"""Claim: planted faults of the runner and of its stores break a rule on the seeds that they name.

A sample is judged here; all of them are judged in the tests marked slow.
"""

from __future__ import annotations

import pytest

from loopcore.mutation.planting import source_of
from loopcore.mutation.runner_mutants import (
    CHILD_SECONDS_MAX,
    RunnerMutant,
    judge_runner_mutant,
    load_runner_mutants,
    planted_source,
    play,
)

MUTANTS = load_runner_mutants()
BY_ID = {mutant.id: mutant for mutant in MUTANTS}
SAMPLE = ("call-without-look", "no-effect-without-fence", "epoch-unchecked")


def test_there_are_enough_mutants_of_protocol_and_stores() -> None:
    assert len(MUTANTS) >= 30
    assert {mutant.module.split(".")[0] for mutant in MUTANTS} == {"runtime", "store"}
    rules = {mutant.killer for mutant in MUTANTS}
    assert {f"R{number:02}" for number in range(1, 13)} <= rules


@pytest.mark.parametrize("mutant", MUTANTS, ids=lambda mutant: mutant.id)
def test_the_text_of_a_mutant_stands_once_and_the_mutant_compiles(mutant: RunnerMutant) -> None:
    source = planted_source(mutant)
    assert source != source_of(mutant.module)
    compile(source, mutant.id, "exec")


@pytest.mark.parametrize("name", SAMPLE)
def test_a_sample_of_mutants_dies_by_the_rule_that_is_named(name: str) -> None:
    judged = judge_runner_mutant(BY_ID[name])
    assert judged.broken is None
    assert [(kill.seed, kill.rule) for kill in judged.kills] == [
        (BY_ID[name].seeds[0], BY_ID[name].killer)
    ]


def test_a_mutant_that_cannot_be_made_is_not_called_killed() -> None:
    judged = play("runtime.moves", "this is no Python", [0])
    assert not judged.kills
    assert judged.broken is not None
    assert "cannot be made" in judged.broken


@pytest.mark.slow
def test_every_mutant_dies_on_each_of_its_seeds_and_first_by_the_rule_that_is_named() -> None:
    for mutant in MUTANTS:
        judged = judge_runner_mutant(mutant, wanted=len(mutant.seeds))
        assert judged.broken is None, (mutant.id, judged)
        assert tuple(kill.seed for kill in judged.kills) == mutant.seeds, (mutant.id, judged)
        assert judged.kills[0].rule == mutant.killer, (mutant.id, judged)


@pytest.mark.slow
def test_no_seed_of_a_mutant_breaks_a_rule_of_the_unchanged_runner() -> None:
    seeds = sorted({seed for mutant in MUTANTS for seed in mutant.seeds})
    judged = play(None, None, seeds, seconds=CHILD_SECONDS_MAX)
    assert judged.broken is None
    assert judged.kills == ()
