"""Claim: the catalogue is complete, in order, and the page that describes it is up to date."""

import json
import re
from pathlib import Path
from typing import cast

from loopcore.testing.catalogue import page
from loopcore.testing.checks import CATALOGUE
from loopcore.testing.targets import load_target

PROPERTIES = Path(__file__).parent.parent
MUTANTS = PROPERTIES.parent / "mutations" / "evaluator.json"


def test_the_page_is_what_the_catalogue_makes() -> None:
    assert (PROPERTIES / "README.md").read_text(encoding="utf-8") == page()


def test_the_catalogue_has_all_evaluator_properties_in_order() -> None:
    assert [each.id for each in CATALOGUE] == [f"E{number:02}" for number in range(1, 19)]


def test_names_are_words_joined_by_hyphens_and_unlike_each_other() -> None:
    names = [each.name for each in CATALOGUE]
    assert len(set(names)) == len(names)
    assert all(re.fullmatch(r"[a-z]+(-[a-z]+)*", name) for name in names)


def test_every_check_is_one_file_named_after_its_property() -> None:
    files = {path.stem for path in (PROPERTIES.parent / "loopcore/testing/checks").glob("e*.py")}
    assert files == {f"{each.id.lower()}_{each.name.replace('-', '_')}" for each in CATALOGUE}


def test_every_mutant_that_a_property_names_is_in_the_corpus() -> None:
    corpus = cast("list[dict[str, object]]", json.loads(MUTANTS.read_text(encoding="utf-8")))
    known = {mutant["id"] for mutant in corpus}
    named = {name for each in CATALOGUE for name in each.mutants}
    assert named <= known, named - known


def test_cases_are_plain_json_and_examples_all_differ() -> None:
    for each in CATALOGUE:
        spelled = [json.dumps(case, sort_keys=True, allow_nan=False) for case in each.examples]
        assert [json.loads(text) for text in spelled] == list(each.examples), each.id
        assert len(set(spelled)) == len(spelled), each.id


def test_explicit_cases_alone_meet_every_goal() -> None:
    target = load_target()
    for each in CATALOGUE:
        met = {label for case in each.examples for label in each.judge(target, case).labels}
        assert each.goals(target) <= met, (each.id, each.goals(target) - met)
