"""Claim: every check finds the wrong evaluators that it is there to find, and passes right ones."""

from dataclasses import replace

import pytest

from loopcore.testing import naive
from loopcore.testing.building import object_of
from loopcore.testing.checks import CATALOGUE
from loopcore.testing.contract import EvaluatorTarget, Property
from loopcore.testing.examining import examine
from loopcore.testing.profiles import PROFILES
from loopcore.testing.targets import load_target
from properties.core.first_finding import first_finding
from properties.core.wrong_evaluators import Wrong, wrong_evaluators

CASES_MAX = 400
PASSES = 30
BY_ID = {each.id: each for each in CATALOGUE}
WRONG = wrong_evaluators()


def cases_until_found(
    examined: Property, target: EvaluatorTarget, cases: int, *, examples: bool = True
) -> int | None:
    """Return after how many cases the property found something, or None."""
    found = first_finding(
        lambda case: examined.judge(target, case),
        examined.examples if examples else (),
        examined.cases(),
        cases,
    )
    return None if found is None else found.cases


@pytest.mark.parametrize("wrong", WRONG, ids=[wrong.name for wrong in WRONG])
def test_a_wrong_evaluator_is_found_by_its_property(wrong: Wrong) -> None:
    examined = BY_ID[wrong.killer]
    assert cases_until_found(examined, wrong, CASES_MAX) is not None


@pytest.mark.slow
@pytest.mark.parametrize("wrong", WRONG, ids=[wrong.name for wrong in WRONG])
def test_the_quick_profile_is_enough_to_find_a_wrong_evaluator(wrong: Wrong) -> None:
    outcome = examine(BY_ID[wrong.killer], wrong, PROFILES["quick"], 0)
    assert outcome.verdict == "broken", outcome.reason


def test_every_property_has_a_wrong_evaluator_to_find() -> None:
    assert {wrong.killer for wrong in WRONG} == set(BY_ID)


def test_no_two_wrong_evaluators_have_one_name() -> None:
    assert len({wrong.name for wrong in WRONG}) == len(WRONG)


@pytest.mark.parametrize("examined", CATALOGUE, ids=[each.id for each in CATALOGUE])
def test_the_built_in_evaluator_passes(examined: Property) -> None:
    assert cases_until_found(examined, load_target(), PASSES) is None


@pytest.mark.parametrize("examined", CATALOGUE, ids=[each.id for each in CATALOGUE])
def test_the_naive_model_passes_as_a_target(examined: Property) -> None:
    right = Wrong(name="right", killer=examined.id)
    assert cases_until_found(examined, right, PASSES) is None


@pytest.mark.parametrize("examined", CATALOGUE, ids=[each.id for each in CATALOGUE])
def test_a_target_with_one_release_is_not_blamed_for_the_other(examined: Property) -> None:
    def refusing(policy: object, steps: object) -> dict[str, object]:
        if (object_of(policy) or {}).get("evaluator_release") == naive.EXTENDED:
            path = "$.policy.evaluator_release"
            return {"error": {"code": "malformed", "path": path, "step": None}}
        return naive.evaluate(policy, steps)

    if "extended" in examined.needs or examined.id == "E15":
        assert "extended" in examined.needs or examined.name == "totality"
        return
    only = Wrong(name="reference only", killer=examined.id, answering=refusing)
    only = replace(only, releases=(naive.REFERENCE,))
    assert cases_until_found(examined, only, PASSES) is None
