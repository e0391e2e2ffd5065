"""Claim: generated mutants are made of the code as it stands, and what is said of them is checked.

A sample is judged here, a sixth of them in the test marked slow, and all of them by
`loopcore mutate --generated`.
"""

from __future__ import annotations

import ast
from pathlib import Path

import msgspec
import pytest

from loopcore.mutation import generated
from loopcore.mutation.bodies import mutated, mutations
from loopcore.mutation.engine import is_clean, make_plan, run
from loopcore.mutation.generated import (
    ARGUMENT_CHARACTERS_MIN,
    BODY_MODULES,
    body_mutants,
    checked_data,
    generate_mutants,
)
from loopcore.mutation.implementation import judge_mutant, order_of_judges
from loopcore.mutation.judging import CONTROL_COLUMNS, JUDGES
from loopcore.mutation.mutants import mutated_source
from loopcore.mutation.nursery import Nursery
from loopcore.mutation.values import DataError

SOURCE = '''
def told(value: int, other: "str | None" = None) -> bool:
    """A docstring."""
    for step in range(value):
        if step > 2 and other is not None:
            break
        value += 1
    text = f"{value + 1}"
    return not min(value, 3) == 3


TABLE = ((lambda value: value >= 1),)
LIMIT = 5
'''
BODIES = body_mutants()
KILLED = [each for each in BODIES if each.equivalent is None]
SAMPLE = tuple(KILLED[:: len(KILLED) // 8])


def changes(source: str) -> set[str]:
    """What is changed in a source, in words."""
    return {each.change for each in mutations(source)}


def test_every_operator_makes_its_mutants() -> None:
    assert changes(SOURCE) >= {
        "step > 2 → step >= 2",
        "step > 2 → step <= 2",
        "2 → 3",
        "2 → 1",
        "step > 2 and other is not None → step > 2 or other is not None",
        "step > 2 and other is not None → not (step > 2 and other is not None)",
        "other is not None → other is None",
        "break → continue",
        "value += 1 → value -= 1",
        "without value += 1",
        "not min(value, 3) == 3 → min(value, 3) == 3",
        "min(value, 3) → max(value, 3)",
        "return not min(value, 3) == 3 → return None",
        "value >= 1 → value > 1",
    }


def test_annotations_texts_for_people_and_tables_are_left_alone() -> None:
    lines = {each.line for each in mutations(SOURCE)}
    assert 'text = f"{value + 1}"' in lines
    assert not [each for each in mutations(SOURCE) if "value + 1" in each.change[:9]]
    assert not any("docstring" in each or "LIMIT" in each for each in lines)


def test_each_mutation_changes_one_node_and_can_be_compiled() -> None:
    whole = ast.unparse(ast.parse(SOURCE))
    sources = [mutated(SOURCE, each) for each in mutations(SOURCE)]
    assert all(compile(source, "mutant", "exec") for source in sources)
    # Two mutations of one line may come to one text, but none to the text that was there.
    assert whole + "\n" not in sources
    for source in sources:
        old, new = whole.splitlines(), source.splitlines()
        assert abs(len(old) - len(new)) <= 1
        assert len(old) != len(new) or sum(a != b for a, b in zip(old, new, strict=True)) == 1


def test_a_mutation_keeps_its_name_while_other_lines_are_edited() -> None:
    edited = SOURCE.replace("LIMIT = 5", "LIMIT = 6").replace("range(value)", "range(0, value)")
    kept = {each.name("m") for each in mutations(SOURCE) if "step > 2" in each.line}
    assert kept <= {each.name("m") for each in mutations(edited)}
    gone = SOURCE.replace("step > 2", "step > 3")
    assert not kept & {each.name("m") for each in mutations(gone)}


def test_every_decision_module_has_mutants_and_no_two_have_one_id() -> None:
    assert len(BODIES) >= 1_000
    assert {each.module for each in BODIES} == set(BODY_MODULES)
    assert len({each.id for each in generate_mutants()}) == len(generate_mutants())


def test_an_entry_about_a_line_that_is_gone_is_an_error(monkeypatch: pytest.MonkeyPatch) -> None:
    def other_source(module: str) -> str:
        return f"def told() -> str:\n    return {module!r}\n"

    monkeypatch.setattr(generated, "source_of", other_source)
    with pytest.raises(DataError, match="the entry is stale"):
        body_mutants()
    stale = {"left_out": [{"module": "m", "function": "gone", "reason": "r"}], "mutations": []}
    monkeypatch.setattr(generated, "load_generated", lambda: checked_data(stale))
    with pytest.raises(DataError, match="no function gone"):
        body_mutants()


def test_an_entry_needs_an_argument_that_is_one_or_a_killer_and_stands_once() -> None:
    entry: dict[str, object] = {"module": "m", "function": "f", "line": "x", "changes": ["a → b"]}

    def read(*entries: dict[str, object]) -> None:
        checked_data({"left_out": [], "mutations": list(entries)})

    argued = {**entry, "equivalent": "no answer can differ " * 3}
    read(argued)
    read({**entry, "killer": "E06"})
    with pytest.raises(DataError, match="too short"):
        read({**entry, "equivalent": "no"})
    with pytest.raises(DataError, match="one of them"):
        read({**argued, "killer": "E06"})
    with pytest.raises(DataError, match="stands twice"):
        read(argued, argued)


def test_every_argument_says_something() -> None:
    told = [each.equivalent for each in BODIES if each.equivalent is not None]
    assert min(map(len, told)) >= ARGUMENT_CHARACTERS_MIN


@pytest.mark.parametrize("mutant", SAMPLE, ids=lambda mutant: mutant.id)
def test_a_sample_of_bodies_is_killed(mutant: object, mutant_nursery: Nursery) -> None:
    known = next(each for each in SAMPLE if each is mutant)
    judges = CONTROL_COLUMNS if known.is_control else JUDGES
    result = judge_mutant(known, judges, nursery=mutant_nursery)
    assert (result.verdict, len(result.killed_by)) == ("killed", 1)


def test_quick_judges_are_asked_first_where_the_first_kill_is_all() -> None:
    control = next(each for each in BODIES if each.is_control)
    assert order_of_judges(control, CONTROL_COLUMNS)[0] == "agreement"
    assert order_of_judges(control, CONTROL_COLUMNS)[-1] == "C08"
    named = msgspec.structs.replace(control, killer="C09")
    assert order_of_judges(named, CONTROL_COLUMNS)[0] == "C09"


def test_what_no_judge_kills_and_nobody_argues_for_is_searched_by_the_properties() -> None:
    mutant = next(each for each in BODIES if "post_terminal_step" in each.reason)
    # A judge without say leaves the mutant alive; E04 then finds it by a search of its own.
    result = judge_mutant(mutant, ["receipts", "E04"])
    assert result.verdict == "killed"
    assert "post_terminal_step" in mutated_source(mutant) or mutant.body is not None


@pytest.mark.slow
def test_a_refuted_argument_spoils_the_result(tmp_path: Path) -> None:
    mutant = msgspec.structs.replace(KILLED[0], id="planted-argument", equivalent="it is said so")
    result = run(tmp_path, make_plan(only=[mutant.id], extra=[mutant]))
    assert [each.refuted for each in result.mutants] == ["it is said so"]
    assert not is_clean(result)


@pytest.mark.slow
def test_every_sixth_generated_mutant_dies_but_those_that_are_argued_for(tmp_path: Path) -> None:
    chosen = [each.id for each in generate_mutants()[::6]]
    result = run(tmp_path, make_plan(only=chosen))
    assert is_clean(result)
    assert len(result.mutants) == len(chosen)
    assert {each.verdict for each in result.mutants} == {"killed", "equivalent"}
