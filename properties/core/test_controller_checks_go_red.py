"""Claim: every check of controllers finds what it is there to find, and passes right ones."""

from __future__ import annotations

import json
import re
from dataclasses import replace
from pathlib import Path

import pytest

from loopcore.mutation.control_judging import BROKEN, TARGETS
from loopcore.mutation.mutants import load_control_mutants
from loopcore.testing.checks_controller import CONTROLLER_CATALOGUE
from loopcore.testing.contract import Case
from loopcore.testing.controller_contract import INPUTS, ControllerProperty, ControllerTarget
from loopcore.testing.controller_targets import open_controller
from loopcore.testing.targets import TargetSpec
from properties.core.first_finding import first_finding
from properties.core.wrong_controllers import RECOVERING, WRONG, WrongController

CASES_MAX = 400
PASSES = 20
# Measuring memory is slow, and its explicit cases show all there is to see.
EXAMPLES_ONLY = ("C08",)
BY_ID = {each.id: each for each in CONTROLLER_CATALOGUE}
CHECKS = Path(__file__).parent.parent.parent / "loopcore" / "testing" / "checks_controller"
LEVELS = ("A", "B", "C", "D", "E")
# What is said of our levels: where a property is not applicable, why.
NOT_APPLICABLE: dict[tuple[str, str], str] = {
    ("C01", "A"): "no step bound",
    **{("C02", name): "does not declare that it needs progress" for name in "ABC"},
    **{("C03", name): "does not declare that it needs call, arguments" for name in "AB"},
    ("C04", "A"): "the last to stop",
    **{("C05", name): "never recovers" for name in "ABCD"},
    **{("C09", name): "does not declare that it needs call, arguments" for name in "AB"},
}
PAIRS = [(each, name) for each in CONTROLLER_CATALOGUE for name in LEVELS]


def level(name: str) -> ControllerTarget:
    """Return a level or variant of this process."""
    return open_controller(TargetSpec(name=name, kind="controller"))


def quick_examples(examined: ControllerProperty) -> list[Case]:
    """Return the explicit cases that take no longer than the others."""
    return [case for case in examined.examples if case.get("long") is not True]


def finding(examined: ControllerProperty, target: ControllerTarget, cases: int) -> str | None:
    """Return the first finding among explicit and drawn cases, or None."""
    found = first_finding(
        lambda case: examined.judge(target, case),
        quick_examples(examined),
        None if examined.id in EXAMPLES_ONLY else examined.cases(),
        cases,
    )
    return None if found is None else found.words


@pytest.mark.parametrize("wrong", WRONG, ids=[wrong.fault for wrong in WRONG])
def test_a_wrong_controller_is_found_by_its_property(wrong: WrongController) -> None:
    examined = BY_ID[wrong.killer]
    assert examined.lack(wrong) is None
    assert finding(examined, wrong, CASES_MAX) is not None


def test_every_property_has_a_wrong_controller_to_find() -> None:
    assert {wrong.killer for wrong in WRONG} == set(BY_ID)


@pytest.mark.slow
@pytest.mark.parametrize(("examined", "name"), PAIRS, ids=[f"{p.id}-{name}" for p, name in PAIRS])
def test_each_level_holds_each_property_or_is_not_judged_by_it(
    examined: ControllerProperty, name: str
) -> None:
    lack = examined.lack(level(name))
    reason = NOT_APPLICABLE.get((examined.id, name))
    if reason is not None:
        assert lack is not None
        assert reason in lack
        return
    assert lack is None
    assert finding(examined, level(name), PASSES) is None


@pytest.mark.slow
def test_exactly_the_named_pairs_of_guards_and_properties_are_broken() -> None:
    broken: set[tuple[str, str]] = set()
    for examined in CONTROLLER_CATALOGUE:
        for name in TARGETS:
            applicable = examined.lack(level(name)) is None
            if applicable and finding(examined, level(name), 20) is not None:
                broken.add((examined.id, name))
    assert broken == BROKEN


@pytest.mark.parametrize("examined", CONTROLLER_CATALOGUE, ids=[p.id for p in CONTROLLER_CATALOGUE])
def test_a_right_controller_that_recovers_passes(examined: ControllerProperty) -> None:
    assert examined.lack(RECOVERING) is None
    # What it answers after a recovery is its own affair, where the property asks for a stop.
    if examined.id not in ("C03", "C09"):
        assert finding(examined, RECOVERING, PASSES) is None


@pytest.mark.parametrize("examined", CONTROLLER_CATALOGUE, ids=[p.id for p in CONTROLLER_CATALOGUE])
def test_a_controller_is_not_judged_on_what_it_does_not_declare(
    examined: ControllerProperty,
) -> None:
    lack = examined.lack(WrongController(fault="", killer="", level="A"))
    assert (lack is not None and "does not declare" in lack) == bool(examined.inputs)


@pytest.mark.parametrize("examined", CONTROLLER_CATALOGUE, ids=[p.id for p in CONTROLLER_CATALOGUE])
def test_a_warning_is_never_a_stop(examined: ControllerProperty) -> None:
    warning = replace(RECOVERING, effect="warn")
    assert (examined.lack(warning) is not None) == examined.judges_stops


@pytest.mark.slow
def test_explicit_cases_alone_meet_every_goal_of_every_level() -> None:
    for examined in CONTROLLER_CATALOGUE:
        for name in LEVELS:
            target = level(name)
            if examined.lack(target) is None:
                met = {
                    label
                    for case in examined.examples
                    if name == "D" or case.get("long") is not True
                    for label in examined.judge(target, case).labels
                }
                missing = examined.goals(target) - met - ({"run:long"} if name != "D" else set())
                assert not missing, (examined.id, name, missing)


def test_the_catalogue_is_complete_and_each_check_is_a_file_of_its_name() -> None:
    assert list(BY_ID) == [f"C{number:02}" for number in range(1, 11)]
    files = {path.stem for path in CHECKS.glob("c[0-9]*.py")}
    assert files == {
        f"{each.id.lower()}_{each.name.replace('-', '_')}" for each in CONTROLLER_CATALOGUE
    }
    assert all(re.fullmatch(r"[a-z]+(-[a-z]+)*", each.name) for each in CONTROLLER_CATALOGUE)
    assert all(each.inputs <= set(INPUTS) for each in CONTROLLER_CATALOGUE)


def test_every_mutant_that_a_property_names_is_its_own() -> None:
    killers = {mutant.id: mutant.killer for mutant in load_control_mutants()}
    for each in CONTROLLER_CATALOGUE:
        assert {killers.get(name) for name in each.mutants} <= {each.id}
        assert each.mutants


def test_cases_are_plain_json() -> None:
    for each in CONTROLLER_CATALOGUE:
        spelled = [json.dumps(case, sort_keys=True, allow_nan=False) for case in each.examples]
        assert [json.loads(text) for text in spelled] == list(each.examples), each.id
