"""Claim: the hand-written mutants are good data, each dies, and a mutant that does not is told.

A sample is judged here; all of them are judged in the tests marked slow, each that must die by the
judge that it names alone. `loopcore mutate` makes the whole kill matrix.
"""

import sys
import tracemalloc
from pathlib import Path
from typing import cast

import msgspec
import pytest

from loopcore.evaluator import CycleDetector
from loopcore.mutation.engine import is_clean, make_plan, run
from loopcore.mutation.implementation import (
    Progress,
    UnsoundJudgeError,
    check_judges,
    judge_mutant,
    judge_mutants,
    judge_source,
)
from loopcore.mutation.judging import JUDGES, PROPERTIES, load_witnesses
from loopcore.mutation.mutants import (
    Mutant,
    checked,
    load_control_mutants,
    load_mutants,
    mutated_source,
)
from loopcore.mutation.nursery import Nursery
from loopcore.mutation.planting import PlantingError, check_planted, plant, source_of
from loopcore.mutation.tables import generate_mutants
from loopcore.mutation.values import DataError
from loopcore.suite import suite_folder
from loopcore.testing.checks import CATALOGUE
from loopcore.testing.checks_controller import CONTROLLER_CATALOGUE
from properties.core.mutant_kills import check_each_ends_as_it_says

MUTANTS = load_mutants()
BY_ID = {mutant.id: mutant for mutant in MUTANTS}
SAMPLE = (
    "evaluator-deadline-strict",
    "evaluator-duplicate-evidence-unchecked",
    "evaluator-cycle-off-by-one",
    "decoding-duplicate-key-last-wins",
    "receipts-digest-only",
    "documents-blank-lines-skipped",
)
CORPUS_BYTES_MAX = 2 * 10**6
CASES_MAX = 120
# Harmless, and nobody says so: what the engine must not let pass.
UNMARKED = Mutant(
    id="planted-equivalent",
    module="evaluator",
    text="_UNBOUNDED = INTEGER_MAX + 1",
    replacement="_UNBOUNDED = INTEGER_MAX + 2",
    killer="E06",
    reason="no total ever comes near",
)


def test_there_are_enough_mutants_of_every_decision_module() -> None:
    assert len(MUTANTS) >= 85
    modules = {mutant.module for mutant in MUTANTS}
    assert modules >= {
        "evaluator",
        "terminals",
        "decoding",
        "defects",
        "canonical",
        "receipts",
        "documents",
    }


@pytest.mark.parametrize("mutant", MUTANTS, ids=lambda mutant: mutant.id)
def test_the_text_of_a_mutant_stands_once_and_the_mutant_compiles(mutant: Mutant) -> None:
    source = mutated_source(mutant)
    assert source != source_of(mutant.module)
    compile(source, mutant.id, "exec")
    assert mutant.killer in JUDGES


def named_pairs() -> list[tuple[str, str]]:
    """Each property with every mutant that it names as one that shows it can fail."""
    catalogues = [(each.id, each.mutants) for each in CATALOGUE]
    catalogues += [(each.id, each.mutants) for each in CONTROLLER_CATALOGUE]
    return [(name, mutant) for name, mutants in catalogues for mutant in mutants]


def test_every_mutant_that_a_property_names_exists_and_is_not_equivalent() -> None:
    known = {each.id: each for each in (*MUTANTS, *load_control_mutants())}
    for name, mutant in named_pairs():
        assert mutant in known, (name, mutant)
        assert known[mutant].equivalent is None, (name, mutant)


@pytest.mark.slow
def test_every_mutant_that_a_property_names_is_in_its_column_of_the_kill_matrix() -> None:
    known = {each.id: each for each in (*MUTANTS, *load_control_mutants())}
    missing: list[tuple[str, str, tuple[str, ...]]] = []
    with Nursery() as nursery:
        for name, mutant in named_pairs():
            result = judge_mutant(known[mutant], [name], nursery=nursery)
            # What ends the process of the evaluator is told by totality, whatever met it.
            if name not in result.killed_by and result.killed_by != ("E15",):
                missing.append((name, mutant, result.killed_by))
    assert missing == []


def test_an_equivalent_mutant_carries_its_argument() -> None:
    short = [
        each.id for each in MUTANTS if each.equivalent is not None and len(each.equivalent) < 60
    ]
    assert not short


def test_a_text_that_does_not_stand_once_is_refused() -> None:
    item = msgspec.to_builtins(MUTANTS[0])
    with pytest.raises(DataError, match="stands 0 times"):
        checked([item | {"text": "no such text"}])
    with pytest.raises(DataError, match="and once is due"):
        checked([item | {"text": "policy"}])


def test_an_unknown_killer_is_refused() -> None:
    item = msgspec.to_builtins(MUTANTS[0])
    with pytest.raises(DataError, match="killer"):
        checked([item | {"killer": "E6"}])


def test_the_saved_corpora_are_small_and_every_property_has_one() -> None:
    folder = suite_folder("mutations") / "witnesses"
    assert sum(file.stat().st_size for file in folder.iterdir()) < CORPUS_BYTES_MAX
    assert {file.stem for file in folder.iterdir()} == set(PROPERTIES)
    for name in PROPERTIES:
        assert 0 < len(load_witnesses(name)) <= CASES_MAX


def test_a_module_that_is_in_use_cannot_be_planted() -> None:
    with pytest.raises(PlantingError, match="imported before"):
        plant("evaluator", source_of("evaluator"))
    with pytest.raises(PlantingError, match="the original"):
        check_planted("evaluator")


def test_every_judge_lets_the_unchanged_evaluator_pass() -> None:
    check_judges(JUDGES)


def test_an_unsound_judge_is_told() -> None:
    with pytest.raises(UnsoundJudgeError, match="E99"):
        check_judges(["E99"])


@pytest.mark.parametrize("name", SAMPLE)
def test_a_sample_of_mutants_is_killed_by_the_judge_that_is_named(
    name: str, mutant_nursery: Nursery
) -> None:
    killer = BY_ID[name].killer or ""
    result = judge_mutant(BY_ID[name], [killer], nursery=mutant_nursery)
    assert (result.verdict, result.killed_by) == ("killed", (killer,))


@pytest.mark.slow
def test_a_mutant_that_hangs_is_killed_by_totality_in_bounded_time() -> None:
    hanging = msgspec.structs.replace(
        UNMARKED,
        text="        found = False\n",
        replacement="        while True:\n            pass\n",
    )
    result = judge_mutant(hanging, ["E17"], seconds=15.0)
    assert (result.verdict, result.killed_by) == ("killed", ("E15",))


def test_a_mutant_that_cannot_be_made_is_broken_and_not_killed() -> None:
    broken = msgspec.structs.replace(UNMARKED, replacement="_UNBOUNDED = no_such_name")
    result = judge_mutant(broken, ["vectors"])
    assert result.verdict == "broken"
    assert "no_such_name" in result.reason


@pytest.mark.slow
def test_a_mutant_that_is_equivalent_and_not_marked_survives_and_spoils_the_result(
    tmp_path: Path,
) -> None:
    plan = make_plan(only=["baseline", UNMARKED.id], extra=[UNMARKED])
    result = run(tmp_path, plan)
    assert [each.verdict for each in result.mutants] == ["survived"]
    assert not is_clean(result)
    marked = msgspec.structs.replace(UNMARKED, equivalent="no total comes near the bound")
    again = run(tmp_path, make_plan(only=["baseline", UNMARKED.id], extra=[marked]))
    assert [each.verdict for each in again.mutants] == ["equivalent"]
    assert is_clean(again)


def test_a_run_that_goes_on_judges_nothing_twice(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "progress.jsonl"
    mutant = BY_ID["receipts-digest-only"]
    (first,) = judge_mutants([mutant], ["receipts"], Progress(path, ["receipts"]))
    with path.open("ab") as file:
        file.write(b'{"key": "cut by an interrupt')
    monkeypatch.setattr(sys, "executable", "/nonexistent/python")
    (second,) = judge_mutants([mutant], ["receipts"], Progress(path, ["receipts"]))
    assert first == second
    assert Progress(path, ["receipts", "vectors"]).find(mutant) is None


def test_the_sources_on_the_disk_are_left_alone() -> None:
    before = source_of("receipts")
    mutant = BY_ID["receipts-digest-only"]
    judge_source(mutant.module, mutated_source(mutant), ["receipts"])
    assert source_of("receipts") == before


def test_generated_mutants_cover_every_row_of_the_tables() -> None:
    generated = generate_mutants()
    assert len({each.id for each in generated}) == len(generated) >= 90
    for each in generated:
        compile(mutated_source(each), each.id, "exec")


def _detector_growth(source: str) -> int:
    """Return by how many bytes a cycle detector grows over twenty thousand different pairs."""
    namespace: dict[str, object] = {"__name__": "planted"}
    exec(compile(source, "evaluator", "exec"), namespace)
    made = cast("type[CycleDetector]", namespace["CycleDetector"])(4, 2)
    tracemalloc.start()
    try:
        for number in range(1_000):
            made.observe((f"{number:064x}", "state"))
        before, _ = tracemalloc.get_traced_memory()
        for number in range(1_000, 21_000):
            made.observe((f"{number:064x}", "state"))
        return tracemalloc.get_traced_memory()[0] - before
    finally:
        tracemalloc.stop()


def test_the_cycle_detector_keeps_no_more_than_its_window_and_the_mutant_does() -> None:
    growth_max = 100_000
    assert _detector_growth(source_of("evaluator")) < growth_max
    unbounded = mutated_source(BY_ID["evaluator-cycle-window-unbounded"])
    assert _detector_growth(unbounded) > growth_max


@pytest.mark.slow
def test_every_mutant_dies_by_the_judge_that_is_named_but_the_equivalent_ones() -> None:
    # The controllers' mutants have a test of their own.
    check_each_ends_as_it_says(MUTANTS, JUDGES)


@pytest.mark.slow
def test_every_mutant_of_a_table_dies_but_the_equivalent_ones(tmp_path: Path) -> None:
    mutants = generate_mutants()
    result = run(tmp_path, make_plan(only=[each.id for each in mutants]))
    assert is_clean(result)
    assert len(result.mutants) == len(mutants)
