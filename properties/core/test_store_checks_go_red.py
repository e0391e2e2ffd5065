"""Claim: every check of stores finds what it is there to find, and passes a right store."""

from __future__ import annotations

import json
import re
from pathlib import Path

import pytest

from loopcore.testing.checks_store import STORE_CATALOGUE
from loopcore.testing.store_builtin import memory
from loopcore.testing.store_contract import StoreProperty, StoreTarget
from loopcore.testing.store_serving import Make
from loopcore.testing.store_targets import LocalStoreTarget
from properties.core.first_finding import first_finding
from properties.core.own_store import OwnStore
from properties.core.wrong_stores import WRONG

CASES_MAX = 200
PASSES = 10
BY_ID = {each.id: each for each in STORE_CATALOGUE}
CHECKS = Path(__file__).parent.parent.parent / "loopcore" / "testing" / "checks_store"
NAMES = [getattr(make, "__name__", "") for make, _ in WRONG]


def finding(examined: StoreProperty, target: StoreTarget, cases: int) -> str | None:
    """Return the first finding among explicit and drawn cases, or None."""
    found = first_finding(
        lambda case: examined.judge(target, case), examined.examples, examined.cases(), cases
    )
    return None if found is None else found.words


@pytest.mark.parametrize(("make", "killer"), WRONG, ids=NAMES)
def test_a_wrong_store_is_found_by_its_property(make: Make, killer: str, tmp_path: Path) -> None:
    target = LocalStoreTarget("wrong", make, str(tmp_path))
    assert BY_ID[killer].lack(target) is None
    assert finding(BY_ID[killer], target, CASES_MAX) is not None


def test_every_property_has_a_wrong_store_to_find() -> None:
    assert {killer for _, killer in WRONG} == set(BY_ID)


@pytest.mark.parametrize("examined", STORE_CATALOGUE, ids=list(BY_ID))
def test_a_right_store_passes(examined: StoreProperty, tmp_path: Path) -> None:
    # A fork copies what is kept in this process's memory, so a crash leaves nothing there.
    if examined.id != "S11":
        target = LocalStoreTarget("own", OwnStore, str(tmp_path))
        assert finding(examined, target, PASSES) is None


@pytest.mark.parametrize("examined", STORE_CATALOGUE, ids=list(BY_ID))
def test_explicit_cases_alone_meet_every_goal_of_its_own(
    examined: StoreProperty, tmp_path: Path
) -> None:
    target = LocalStoreTarget("own", OwnStore, str(tmp_path))
    met = {label for case in examined.examples for label in examined.judge(target, case).labels}
    assert examined.goals(target) <= met


def test_a_store_that_is_not_durable_is_not_judged_by_what_outlives_it() -> None:
    target = LocalStoreTarget("memory", memory)
    lacking = {each.id for each in STORE_CATALOGUE if each.lack(target) is not None}
    assert lacking == {"S10", "S11"}


def test_the_catalogue_is_complete_and_each_check_is_a_file_of_its_name() -> None:
    assert list(BY_ID) == [f"S{number:02}" for number in range(1, len(BY_ID) + 1)]
    files = {path.stem for path in CHECKS.glob("s[0-9]*.py")}
    assert files == {f"{each.id.lower()}_{each.name.replace('-', '_')}" for each in STORE_CATALOGUE}
    assert all(re.fullmatch(r"[a-z]+(-[a-z]+)*", each.name) for each in STORE_CATALOGUE)


def test_cases_are_plain_json() -> None:
    for each in STORE_CATALOGUE:
        spelled = [json.dumps(case, sort_keys=True, allow_nan=False) for case in each.examples]
        assert [json.loads(text) for text in spelled] == list(each.examples), each.id
