"""Claim: the mutants of the control room are good data, and each dies by the property it names.

A sample is judged here; all of them are judged in the test marked slow, each that must die by the
property that it names alone. `loopcore mutate` asks all properties of each.
"""

from __future__ import annotations

import pytest

from loopcore.mutation.control_judging import CONTROL_PROPERTIES
from loopcore.mutation.implementation import check_judges, judge_mutant
from loopcore.mutation.judging import CONTROL_JUDGES, load_witnesses
from loopcore.mutation.mutants import CONTROL_MODULES, load_control_mutants, mutated_source
from loopcore.mutation.nursery import Nursery
from loopcore.mutation.planting import source_of
from properties.core.mutant_kills import check_each_ends_as_it_says

MUTANTS = load_control_mutants()
BY_ID = {mutant.id: mutant for mutant in MUTANTS}
# One for each property.
SAMPLE = (
    "levels-steps-strict",
    "detectors-cycle-ignores-good",
    "detectors-repetition-repeatable-stopped",
    "gates-deadline-like-a-sum",
    "gates-refusals-ge",
    "recovery-nested-never-taken",
    "levels-sums-kept-between-runs",
    "detectors-cycle-history-unbounded",
    "fingerprints-keys-unsorted",
    "detectors-text-resets-repetition",
)


def test_there_are_mutants_of_every_control_module_and_for_every_property() -> None:
    assert len(MUTANTS) >= 30
    assert {mutant.module for mutant in MUTANTS} == set(CONTROL_MODULES)
    assert {mutant.killer for mutant in MUTANTS} == set(CONTROL_JUDGES)
    assert {BY_ID[name].killer for name in SAMPLE} == set(CONTROL_JUDGES)


@pytest.mark.parametrize("mutant", MUTANTS, ids=lambda mutant: mutant.id)
def test_the_text_of_a_mutant_stands_once_and_the_mutant_compiles(mutant: object) -> None:
    known = next(each for each in MUTANTS if each is mutant)
    source = mutated_source(known)
    assert source != source_of(known.module)
    compile(source, known.id, "exec")
    assert known.equivalent is None or len(known.equivalent) >= 60


def test_every_property_has_a_corpus_and_the_judges_are_the_catalogue() -> None:
    assert tuple(CONTROL_PROPERTIES) == CONTROL_JUDGES
    assert [name for name in CONTROL_JUDGES if not load_witnesses(name)] == []


@pytest.mark.slow
def test_every_judge_lets_the_unchanged_controllers_pass() -> None:
    check_judges(CONTROL_JUDGES)


@pytest.mark.parametrize("name", SAMPLE)
def test_a_sample_of_mutants_is_killed_by_the_judge_that_is_named(
    name: str, mutant_nursery: Nursery
) -> None:
    killer = BY_ID[name].killer or ""
    result = judge_mutant(BY_ID[name], [killer], nursery=mutant_nursery)
    assert (result.verdict, result.killed_by) == ("killed", (killer,))


@pytest.mark.slow
def test_every_mutant_dies_by_the_judge_that_is_named_but_the_equivalent_ones() -> None:
    check_each_ends_as_it_says(MUTANTS, CONTROL_JUDGES)
