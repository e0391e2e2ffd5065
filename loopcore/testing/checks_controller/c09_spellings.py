"""C09: key order, number spelling and white space between tokens do not hide a repetition."""

from __future__ import annotations

import json
from typing import cast

from hypothesis import strategies as st
from hypothesis.strategies import DrawFn

from loopcore.testing.checks_controller.generating import ALL_OFF
from loopcore.testing.checks_controller.playing import (
    Fields,
    Stop,
    go_on,
    is_detection,
    limits_for,
    stop_in,
    told,
)
from loopcore.testing.contract import Case, Json, Judgement
from loopcore.testing.controller_contract import ControllerProperty, ControllerTarget

# A guard with a threshold of its own is met as well.
_RUN_LENGTH = 12
_SPACES = ("", " ", "\n", "\t ")
# Equal numbers, each with spellings that survive a reader of binary floating point.
_NUMBERS: tuple[tuple[str, ...], ...] = (
    ("0", "-0", "0.0", "0e5"),
    ("1", "1.0", "1e0", "10e-1", "0.1E+1"),
    ("100", "1e2", "1E+2", "100.00", "0.1e3"),
    ("-25", "-25.0", "-2.5e1", "-250E-1"),
    ("0.5", "5e-1", "0.50"),
)
_KEYS = ("path", "line", "é", "a b")
_DEPTH_MAX = 3

# A value is drawn as a tree whose leaves are texts, or places in the table of numbers.
_leaves = st.integers(0, len(_NUMBERS) - 1) | st.sampled_from(("", "x", "1.0", '{"a":1}'))


def _trees() -> st.SearchStrategy[object]:
    return st.dictionaries(
        st.sampled_from(_KEYS),
        st.recursive(
            _leaves,
            lambda inner: (
                st.lists(inner, max_size=3)
                | st.dictionaries(st.sampled_from(_KEYS), inner, max_size=3)
            ),
            max_leaves=5,
        ),
        min_size=1,
        max_size=len(_KEYS),
    )


@st.composite
def _cases(draw: DrawFn) -> Case:
    """Draw one call, and what is varied in the spelling of its arguments and its result."""
    seeds = draw(st.lists(st.integers(0, 255), min_size=1, max_size=_RUN_LENGTH))
    return {
        "arguments": draw(_trees()),
        "result": draw(_trees()),
        "spellings": seeds,
        "as text": draw(st.booleans()),
        "state": draw(st.sampled_from((None, "s"))),
        "repeat": draw(st.integers(2, 4)),
    }


def spelled(tree: object, seed: int) -> str:
    """Return one of the JSON texts of a value; seed 0 is the plain one."""
    space = _SPACES[seed % len(_SPACES)]
    if isinstance(tree, dict):
        members = sorted(cast("dict[str, object]", tree).items(), reverse=seed % 2 == 1)
        shift = seed // 2 % (len(members) or 1)
        inner = [
            f"{json.dumps(key)}{space}:{space}{spelled(item, seed)}"
            for key, item in members[shift:] + members[:shift]
        ]
        return "{" + space + f"{space},{space}".join(inner) + space + "}"
    if isinstance(tree, list):
        items = [spelled(item, seed) for item in cast("list[object]", tree)]
        return "[" + space + f"{space},{space}".join(items) + space + "]"
    if isinstance(tree, int):
        texts = _NUMBERS[tree]
        return texts[seed % len(texts)]
    return json.dumps(tree)


def _run(case: Case, seeds: list[int]) -> list[bytes]:
    """Return the raw observations of a run in which one call is repeated in these spellings."""
    run: list[bytes] = []
    for turn in range(1, _RUN_LENGTH + 1):
        seed = seeds[(turn - 1) % len(seeds)]
        parts = [f'"turn":{turn},"action":1,"tool":"edit"']
        for name in ("arguments", "result"):
            raw = spelled(case[name], seed)
            parts.append(f'"{name}":{json.dumps(raw) if case["as text"] else raw}')
        if case["state"] is not None:
            parts.append(f'"state_fingerprint":{json.dumps(case["state"])}')
        run.append(("{" + ",".join(parts) + "}").encode())
    return run


def _judge(target: ControllerTarget, case: Case) -> Judgement:
    limits = limits_for(target, {**ALL_OFF, "repeat": case["repeat"], "max_recoveries": 0})
    seeds = cast("list[int]", case["spellings"])
    places: list[Fields] = [{"turn": turn} for turn in range(1, _RUN_LENGTH + 1)]
    stops: list[Stop | None] = []
    for spellings in ([0], [0, *seeds]):
        target.start(cast("Json", limits))
        stops.append(stop_in(places, go_on(target, _run(case, spellings))))
    plain, varied = stops
    if plain is None or not is_detection(plain):
        return Judgement(vacuous=True)
    if varied is None or varied.turn != plain.turn:
        finding = (
            f"one call in one spelling is stopped in turn {plain.turn}, and in other spellings "
            + ("never" if varied is None else f"in turn {varied.turn}")
        )
        return Judgement(finding=finding, expected=told(plain), got=told(varied))
    return Judgement(labels=("spelled:as text" if case["as text"] else "spelled:as a value",))


def _example(*, as_text: bool, tree: object) -> Case:
    return {
        "arguments": tree,
        "result": tree,
        "spellings": [1, 2, 3, 7],
        "as text": as_text,
        "state": None,
        "repeat": 4,
    }


_TREES: tuple[object, ...] = (
    {"path": 1, "line": 2, "é": "x"},
    {"path": [0, {"line": 3, "path": 4}]},
)
PROPERTY = ControllerProperty(
    id="C09",
    name="spellings",
    statement=(
        "A repeated call whose arguments and result are spelled with another order of keys, other "
        "spellings of equal numbers or other white space is stopped as if it were spelled alike."
    ),
    prevents=(
        "A model that writes the same call with its keys in another order each time is never seen "
        "to repeat itself."
    ),
    mutants=(
        "fingerprints-keys-unsorted",
        "fingerprints-number-as-written",
        "fingerprints-minus-zero",
    ),
    inputs=frozenset({"call", "arguments"}),
    cases=_cases,
    judge=_judge,
    examples=tuple(
        _example(as_text=as_text, tree=tree) for as_text in (True, False) for tree in _TREES
    ),
    goals=lambda target: frozenset({"spelled:as text", "spelled:as a value"}),
)
