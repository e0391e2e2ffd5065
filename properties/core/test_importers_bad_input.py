"""A bad file of any kind is one problem that names file and place, and never a traceback."""

import json
from collections.abc import Callable
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from loopcore.errors import InputError, UsageError
from loopcore.recordings import observation_log
from loopcore.recordings.load import load, samples
from loopcore.recordings.model import Loaded
from loopcore.recordings.nodes import as_elements, as_fields
from loopcore.recordings.reading import decode_text, parse_json, parse_lines

JSON_SAMPLES = sorted(file for file in samples().rglob("*") if file.suffix in (".json", ".ipynb"))
TRAJECTORY = "mini-swe-agent-1.1/runs/harbour__tide-1/harbour__tide-1.traj.json"


def written(folder: Path, name: str, data: bytes | str) -> Path:
    file = folder / name
    file.write_bytes(data if isinstance(data, bytes) else data.encode())
    return file


def the_problem(loaded: Loaded) -> tuple[str, str]:
    assert not loaded.runs
    assert len(loaded.problems) == 1, loaded.problems
    problem = loaded.problems[0]
    assert problem.source in problem.place
    assert problem.message.startswith(problem.source)
    return problem.code, problem.place


BAD: dict[str, tuple[bytes, str]] = {
    "empty": (b"", "malformed"),
    "blank": (b"  \n", "malformed"),
    "binary": (bytes(range(256)), "malformed"),
    "truncated": ((samples() / "tau2/meters.json").read_bytes()[:700], "malformed"),
    "byte-order mark": (b"\xef\xbb\xbf[]", "malformed"),
    "UTF-16": ('{"simulations": []}'.encode("utf-16"), "malformed"),
    "UTF-16 without a mark": ("[1]".encode("utf-16-le"), "malformed"),
    "deep": (b"[" * 200_000, "malformed"),
    "deep and closed": (b'{"simulations":' + b"[" * 9_000 + b"]" * 9_000 + b"}", "malformed"),
    "not a number": (b'{"simulations": [], "info": NaN}', "malformed"),
    "infinite": (b'[{"traj": [], "reward": -Infinity}]', "malformed"),
    "huge integer": (b'{"simulations": 1' + b"0" * 9_000 + b"}", "malformed"),
    "huge exponent": (b'{"simulations": 1e999999999999}', "malformed"),
    "wrong outline": (b'{"a": 1}', "malformed"),
    "a scalar": (b"7", "malformed"),
    "an empty list": (b"[]", "malformed"),
    "wrong version": (b'{"trajectory_format": "mini-swe-agent-9", "messages": []}', "malformed"),
    "no version": (b'{"messages": [], "info": {}}', "malformed"),
    "wrong notebook": (b'{"nbformat": 3, "cells": []}', "malformed"),
    "empty notebook": (b'{"nbformat": 4, "cells": []}', "malformed"),
}


@pytest.mark.parametrize("name", BAD)
def test_bad_bytes_are_one_problem_that_names_the_file(name: str, tmp_path: Path) -> None:
    data, code = BAD[name]
    assert the_problem(load([written(tmp_path, "log.json", data)]))[0] == code


@pytest.mark.parametrize("kind", ["missing", "folder in a file", "null in the name", "too large"])
def test_a_path_that_cannot_be_read_is_one_problem(kind: str, tmp_path: Path) -> None:
    file = written(tmp_path, "file.json", "{}")
    path = {
        "missing": str(tmp_path / "none.json"),
        "folder in a file": str(file / "log.json"),
        "null in the name": str(tmp_path / "a\0b.json"),
        "too large": str(tmp_path / "large.json"),
    }[kind]
    if kind == "too large":
        with open(path, "wb") as large:
            large.write(b"[")
            large.truncate(100 * 1024 * 1024)
    assert the_problem(load([path]))[0] == "unreadable"


def test_a_hundred_megabytes_of_brackets_under_a_larger_limit_are_still_only_malformed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("loopcore.recordings.reading.FILE_BYTES_MAX", 2**30)
    file = written(tmp_path, "log.json", b"[" * 1_000_000)
    assert the_problem(load([file]))[0] == "malformed"


def test_the_reader_itself_refuses_what_is_nested_too_deeply() -> None:
    with pytest.raises(InputError, match="nested too deeply"):
        parse_json("[" * 100_000, "f")


def test_two_messages_in_one_place_of_a_talk_are_refused(tmp_path: Path) -> None:
    document = json.loads((samples() / "tau2/meters.json").read_text())
    document["simulations"][0]["messages"][1]["turn_idx"] = 0
    problem = load([written(tmp_path, "log.json", json.dumps(document))]).problems[0]
    assert problem.place.endswith("log.json: $.simulations[0].messages[1]")


def test_an_unknown_format_name_is_the_callers_fault() -> None:
    with pytest.raises(UsageError, match="known are tau-bench"):
        load([samples()], format="other")


# Where an importer must complain when this value is put in this place of its sample.
ALTERED: list[tuple[str, tuple[str, ...], object, str]] = [
    ("tau-bench/front-desk.json", ("0", "trial"), "one", "$[0].trial"),
    ("tau-bench/front-desk.json", ("0", "reward"), True, "$[0].reward"),
    ("tau-bench/front-desk.json", ("0", "traj", "0", "role"), 5, "$[0].traj[0].role"),
    ("tau-bench/front-desk.json", ("0", "traj", "0", "role"), "robot", "$[0].traj[0].role"),
    (
        "tau-bench/front-desk.json",
        ("0", "traj", "3", "tool_call_id"),
        "call_9",
        "$[0].traj[3].tool_call_id",
    ),
    (
        "tau-bench/front-desk.json",
        ("0", "traj", "2", "tool_calls", "0", "function", "arguments"),
        {},
        "$[0].traj[2].tool_calls[0].function.arguments",
    ),
    ("tau2/meters.json", ("simulations",), {}, "$.simulations"),
    ("tau2/meters.json", ("info", "agent_info"), None, "$.info.agent_info"),
    (
        "tau2/meters.json",
        ("simulations", "1", "messages", "2", "cost"),
        -1,
        "$.simulations[1].messages[2].cost",
    ),
    (
        "tau2/meters.json",
        ("simulations", "1", "messages", "2", "usage", "prompt_tokens"),
        1.5,
        "$.simulations[1].messages[2].usage.prompt_tokens",
    ),
    (
        "tau2/meters.json",
        ("simulations", "1", "messages", "4", "tool_calls", "0", "id"),
        "l0",
        "$.simulations[1].messages[4].tool_calls[0].id",
    ),
    ("tau2/meters.json", ("simulations", "1", "id"), "s-parallel", "$.simulations[1].id"),
    ("intercode/multi-turn.json", ("0", "summary"), None, "$.0.summary"),
    (
        "intercode/multi-turn.json",
        ("0", "turn_history", "rewards"),
        [1],
        "$.0.turn_history.rewards",
    ),
    (
        "intercode/multi-turn.json",
        ("0", "turn_history", "actions", "1"),
        4,
        "$.0.turn_history.actions[1]",
    ),
    (TRAJECTORY, ("trajectory_format",), "mini-swe-agent-2", "$.trajectory_format"),
    (TRAJECTORY, ("messages", "2", "extra", "actions"), None, "$.messages[2].extra.actions"),
    (TRAJECTORY, ("messages", "2", "extra", "cost"), "NaN", "$.messages[2].extra.cost"),
    (TRAJECTORY, ("messages", "3", "tool_call_id"), "x", "$.messages[3].tool_call_id"),
    ("webshop/shop.ipynb", ("cells", "1", "outputs", "0", "text"), 3, "$.cells[1].outputs[0].text"),
    ("webshop/shop.ipynb", ("nbformat",), 5, "$.nbformat"),
]


def put(document: object, way: tuple[str, ...], value: object) -> None:
    for key in way[:-1]:
        document = step(document, key)
    fields, elements = as_fields(document), as_elements(document)
    if fields is not None:
        fields[way[-1]] = value
    elif elements is not None:
        elements[int(way[-1])] = value


def step(document: object, key: str) -> object:
    fields, elements = as_fields(document), as_elements(document)
    if fields is not None:
        return fields[key]
    assert elements is not None
    return elements[int(key)]


@pytest.mark.parametrize(("name", "way", "value", "place"), ALTERED)
def test_one_altered_value_is_refused_at_its_place(
    name: str, way: tuple[str, ...], value: object, place: str, tmp_path: Path
) -> None:
    document: object = json.loads((samples() / name).read_text())
    put(document, way, value)
    code, where = the_problem(load([written(tmp_path, "log.json", json.dumps(document))]))
    assert code == "malformed"
    assert where.endswith(f"log.json: {place}")


def ways(value: object, way: tuple[str, ...] = ()) -> list[tuple[str, ...]]:
    fields, elements = as_fields(value), as_elements(value)
    found = [way] if way else []
    for key, inner in (fields or {}).items():
        found += ways(inner, (*way, key))
    for number, inner in enumerate(elements or []):
        found += ways(inner, (*way, str(number)))
    return found


DOCUMENTS: dict[str, tuple[object, list[tuple[str, ...]]]] = {}
for _file in JSON_SAMPLES:
    _document: object = json.loads(_file.read_text())
    DOCUMENTS[str(_file.relative_to(samples()))] = (_document, ways(_document))
REPLACEMENTS: list[object] = [None, True, -1, 1.5, 10**30, "", "\ud83d", [], {}, [[]], {"a": {}}]


@given(data=st.data())
def test_no_alteration_of_a_sample_raises_anything(
    data: st.DataObject, tmp_path_factory: pytest.TempPathFactory
) -> None:
    name = data.draw(st.sampled_from(sorted(DOCUMENTS)))
    original, places = DOCUMENTS[name]
    document: object = json.loads(json.dumps(original))
    way = data.draw(st.sampled_from(places))
    if data.draw(st.booleans()):
        put(document, way, data.draw(st.sampled_from(REPLACEMENTS)))
    else:
        holder = document
        for key in way[:-1]:
            holder = step(holder, key)
        fields, elements = as_fields(holder), as_elements(holder)
        if fields is not None:
            del fields[way[-1]]
        elif elements is not None:
            del elements[int(way[-1])]
    folder = tmp_path_factory.mktemp("altered")
    loaded = load([written(folder, "log.json", json.dumps(document))])
    for problem in loaded.problems:
        assert problem.code == "malformed"
        assert problem.place.startswith(str(folder))
    "".join(observation_log.lines(loaded.runs))


@given(st.binary(max_size=200))
def test_no_bytes_raise_anything(data: bytes) -> None:
    readers: list[Callable[[], object]] = [
        lambda: parse_json(decode_text(data, "f"), "f"),
        lambda: parse_lines(data, "f"),
    ]
    for read in readers:
        place: str | None = "f: "
        try:
            read()
        except InputError as error:
            place = error.path
        assert place is not None
        assert place.startswith("f: ")
