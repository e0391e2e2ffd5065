"""A controller behind the wire answers as it does in Python, and bad requests change nothing.

Killers: a failed `start` that ends the old run, a failed `observe` that counts, an id that is
rounded or lost, a decimal argument read as a float, an overlay that forgets the file's limits.
"""

from __future__ import annotations

import json
from typing import cast

import msgspec
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from loopcore import __version__
from loopcore.control.levels import LEVELS, controller
from loopcore.control.limits import LIMIT_FIELDS, Limits, ToolPolicy, decode_limits, read_limits
from loopcore.control.observations import Observation
from loopcore.control.wire import OBSERVATION_FIELDS, USAGE_FIELDS, ControllerSession
from loopcore.errors import UsageError
from loopcore.testing.control_strategies import controller_limits, observation_sequences

START = b'{"id": 0, "op": "start", "limits": {}}'
DEPTH = 20_000


WRONG_VALUES: list[object] = ["x", 0.5, []]
WRONG_KINDS: list[tuple[object, str]] = [
    ({name: wrong}, f"limits.{name}") for name in LIMIT_FIELDS for wrong in WRONG_VALUES
]


def ask(session: ControllerSession, line: bytes | str) -> dict[str, object]:
    """Return the answer to one line."""
    answer = session.answer(line.encode() if isinstance(line, str) else line)
    assert answer.endswith(b"\n")
    assert answer.count(b"\n") == 1
    return cast("dict[str, object]", json.loads(answer))


def request(operation: str, **fields: object) -> bytes:
    """Return a request line."""
    return json.dumps({"id": 1, "op": operation, **fields}).encode()


def code(session: ControllerSession, line: bytes | str) -> object:
    """Return the code of the error that a line is answered with."""
    answer = ask(session, line)
    assert answer["ok"] is False
    assert set(answer) == {"id", "ok", "error"}
    error = cast("dict[str, object]", answer["error"])
    assert isinstance(error["message"], str)
    return error["code"]


def observation(turn: int, **fields: object) -> dict[str, object]:
    """Return an observation of the call that a run repeats."""
    return {"turn": turn, "action": 1, "tool": "t", "arguments": {}, "result": "x", **fields}


def turns_until_stop(session: ControllerSession, first: int = 1, **fields: object) -> int:
    """Return at which turn the same call again and again is stopped."""
    for turn in range(first, first + 200):
        answer = ask(session, request("observe", observation=observation(turn, **fields)))
        if answer["decision"] == "stop":
            return turn
    raise AssertionError("never stopped")


@pytest.mark.parametrize("level", sorted(LEVELS))
def test_describe_says_what_the_controller_is_and_needs(level: str) -> None:
    needs = {"A": [], "B": [], "C": ["call", "arguments"]}.get(
        level, ["call", "arguments", "result", "error", "state", "progress"]
    )
    assert ask(ControllerSession(level), '{"id": "x", "op": "describe"}') == {
        "id": "x",
        "protocol": "loopcore/controller/1",
        "name": level,
        "version": __version__,
        "decides": "after",
        "effect": "stop",
        "needs": needs,
    }


@settings(max_examples=100, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(
    level=st.sampled_from(sorted(LEVELS)), limits=controller_limits(), run=observation_sequences()
)
def test_the_wire_decides_as_the_controller_does(
    level: str, limits: Limits, run: list[Observation]
) -> None:
    ours = controller(level)
    ours.start(limits)
    session = ControllerSession(level)
    assert ask(session, request("start", limits=msgspec.to_builtins(limits)))["ok"] is True
    for seen in run:
        answer = ask(session, request("observe", observation=msgspec.to_builtins(seen)))
        assert answer == {"id": 1, **msgspec.to_builtins(ours.observe(seen))}


@pytest.mark.parametrize(
    ("line", "expected"),
    [
        (b"", "bad_json"),
        (b"\n", "bad_json"),
        (b"{", "bad_json"),
        (b"\xef\xbb\xbf{}", "bad_json"),
        (b'{"id": "\xff"}', "bad_json"),
        (b'{"id": NaN, "op": "describe"}', "bad_json"),
        (b"[]", "bad_request"),
        (b"7", "bad_request"),
        (b"{}", "bad_op"),
        (b'{"id": 1, "op": null}', "bad_op"),
        (b'{"id": 1, "op": "stop"}', "bad_op"),
        (b'{"id": 1, "op": ["start"]}', "bad_op"),
        (b'{"id": 1, "op": "propose", "call": {}}', "bad_op"),
        (b'{"id": 1, "op": "start"}', "bad_request"),
        (b'{"id": 1, "op": "start", "limits": null}', "bad_request"),
        (b'{"id": 1, "op": "start", "limits": {"max_step": 3}}', "bad_request"),
        (b'{"id": 1, "op": "start", "limits": {"max_steps": 3.0}}', "bad_request"),
        (b'{"id": 1, "op": "start", "limits": {"max_steps": true}}', "bad_request"),
        (b'{"id": 1, "op": "start", "limits": {"repeat": 1}}', "bad_request"),
        (b'{"id": 1, "op": "observe"}', "bad_request"),
        (b'{"id": 1, "op": "observe", "observation": []}', "bad_request"),
        (b'{"id": 1, "op": "observe", "observation": {"turn": 9}}', "bad_request"),
        (b'{"id": 1, "op": "observe", "observation": {"turn": 1, "action": 1}}', "bad_request"),
    ],
)
def test_a_request_that_cannot_be_honoured_has_its_code_and_changes_nothing(
    line: bytes, expected: str
) -> None:
    session = ControllerSession("D")
    ask(session, request("start", limits={"repeat": 3}))
    ask(session, request("observe", observation=observation(1)))
    ask(session, request("observe", observation=observation(2)))
    assert code(session, line) == expected
    assert turns_until_stop(session, first=3) == 3


@pytest.mark.parametrize("name", sorted({*OBSERVATION_FIELDS, *USAGE_FIELDS}))
def test_a_field_of_the_wrong_kind_is_refused_and_null_only_where_it_is_a_value(name: str) -> None:
    rule = OBSERVATION_FIELDS.get(name) or USAGE_FIELDS[name]
    wrongs: list[object] = ["1", 1.0, 0.5, True, -(10**30), [], {}, 3, None]
    for wrong in wrongs:
        takes = {
            "text": isinstance(wrong, str),
            "json": True,
            "flag": isinstance(wrong, bool),
            "count": False,
            "integer": isinstance(wrong, int) and not isinstance(wrong, bool),
        }[rule.kind]
        takes = takes or (wrong == 3 and rule.kind == "count")
        takes = takes or (wrong is None and rule.nullable)
        session = ControllerSession("B")
        ask(session, START)
        fields: dict[str, object] = {name: wrong} if name in OBSERVATION_FIELDS else {}
        fields = fields or {"usage": {name: wrong}}
        answer = ask(session, request("observe", observation={**observation(1), **fields}))
        assert ("decision" in answer) is takes, (wrong, answer)


def test_observe_before_start_is_no_operation() -> None:
    session = ControllerSession("D")
    line = request("observe", observation=observation(1))
    assert code(session, line) == "bad_op"
    assert code(session, request("start", limits={"x": 1})) == "bad_request"
    assert code(session, line) == "bad_op"
    ask(session, START)
    assert ask(session, line)["decision"] == "continue"


def test_an_observation_with_its_places_only_is_enough_and_unknown_fields_are_ignored() -> None:
    session = ControllerSession("D")
    ask(session, START)
    bare = {"turn": 1, "action": 1, "colour": [1.5], "usage": {"colour": "red"}}
    assert ask(session, request("observe", observation=bare)) == {
        "id": 1,
        "decision": "continue",
        "reason": None,
        "strategy": None,
    }


def test_start_begins_a_new_run_at_any_time() -> None:
    session = ControllerSession("D")
    for _ in range(3):
        ask(session, START)
        assert turns_until_stop(session) == 4


@pytest.mark.parametrize(
    "text",
    [
        "null",
        "1.50",
        "-0",
        "1e400",
        "123456789012345678901234567890",
        '"\\ud83d"',
        '"\u00e9"',
        "[1.0, {}, []]",
        '{"b": 1, "a": [true]}',
        "7" * 5_000,
    ],
)
def test_an_id_comes_back_exactly(text: str) -> None:
    answer = ControllerSession("A").answer(f'{{"op": "describe", "id": {text}}}'.encode())
    shown = text if text != '"\u00e9"' else '"\\u00e9"'
    assert answer.startswith(f'{{"id": {shown}, "protocol"'.encode())
    error = ControllerSession("A").answer(f'{{"op": "?", "id": {text}}}'.encode())
    assert error.startswith(f'{{"id": {shown}, "ok": false'.encode())


def test_an_id_and_arguments_of_any_depth_are_read() -> None:
    deep = "[" * DEPTH + "]" * DEPTH
    session = ControllerSession("D")
    answer = session.answer(f'{{"id": {deep}, "op": "start", "limits": {{}}}}'.encode())
    assert answer == f'{{"id": {deep}, "ok": true}}\n'.encode()
    for turn in range(1, 5):
        line = (
            f'{{"id": 1, "op": "observe", "observation": {{"turn": {turn}, "action": 1, '
            f'"tool": "t", "result": "x", "arguments": {deep}}}}}'
        )
        assert ask(session, line)["reason"] == ("repeated_action" if turn == 4 else None)


@pytest.mark.parametrize(
    ("arguments", "stop"),
    [
        (["0.10", "0.1", "1e-1", "0.1000"], True),
        (["0.1", "0.1", "0.1", "0.10000000000000000001"], False),
        (["9007199254740993", "9007199254740993.0", "9007199254740993", "9007199254740992"], False),
        (["1e1000000000"] * 4, True),
    ],
)
def test_numbers_on_the_wire_keep_their_exact_decimals(arguments: list[str], stop: bool) -> None:
    session = ControllerSession("D")
    ask(session, START)
    answer: dict[str, object] = {}
    for turn, text in enumerate(arguments, start=1):
        line = (
            f'{{"id": 1, "op": "observe", "observation": {{"turn": {turn}, "action": 1, '
            f'"tool": "t", "result": "x", "arguments": [{text}]}}}}'
        )
        answer = ask(session, line)
        assert "decision" in answer
    assert (answer["decision"] == "stop") is stop


def test_limits_of_a_start_overlay_the_file_by_field_and_the_file_the_defaults() -> None:
    file = read_limits(b'{"repeat": 5, "window": 9, "tools": {"t": {"repeatable": true}}}')
    session = ControllerSession("D", file)
    ask(session, request("start", limits={}))
    assert turns_until_stop(session, progress=0) == 9
    ask(session, request("start", limits={"tools": {"u": {"wait": True}}}))
    assert turns_until_stop(session, progress=0) == 5
    ask(session, request("start", limits={"repeat": None, "tools": {}, "max_steps": 7}))
    assert turns_until_stop(session, progress=0) == 7
    ask(session, request("start", limits={"repeat": None, "window": None, "max_steps": None}))
    # Nothing but the derived horizon is left (and the tool is repeatable again).
    assert turns_until_stop(session, progress=0) == 120


def test_a_horizon_follows_max_steps_of_whichever_layer_until_it_is_given() -> None:
    assert Limits().horizon_turns() == 120
    assert decode_limits({"max_steps": 10}).horizon_turns() == 40
    assert decode_limits({"max_steps": 10}, decode_limits({"max_steps": 7})).horizon_turns() == 40
    assert decode_limits({"max_steps": 10}, decode_limits({"horizon": 9})).horizon_turns() == 9
    assert decode_limits({"max_steps": None}).horizon_turns() == 120
    assert decode_limits({"horizon": None}).horizon_turns() is None


@pytest.mark.parametrize(
    ("value", "path"),
    [
        *WRONG_KINDS,
        ({"cycle_repeats": None}, "limits.cycle_repeats"),
        ({"max_refusals": -1}, "limits.max_refusals"),
        ({"max_steps": 0}, "limits.max_steps"),
        ({"Gate": "trust"}, "limits.Gate"),
        ({"tools": []}, "limits.tools"),
        ({"tools": {"a": None}}, "limits.tools.a"),
        ({"tools": {"a": {"waits": True}}}, "limits.tools.a.waits"),
        ({"tools": {"a": {"wait": 1}}}, "limits.tools.a.wait"),
        ({"tools": {"a": {"max_waits": 0}}}, "limits.tools.a.max_waits"),
        ({"tools": {"a": {"volatile": "pid"}}}, "limits.tools.a.volatile"),
        ({"tools": {"a": {"effect": None}}}, "limits.tools.a.effect"),
        ([], "limits"),
    ],
)
def test_an_invalid_limit_is_refused_with_its_path(value: object, path: str) -> None:
    with pytest.raises(UsageError) as caught:
        decode_limits(value)
    assert str(caught.value).startswith(f"{path}: ")


def test_every_field_of_the_limits_has_a_rule_and_the_documented_default() -> None:
    assert {*LIMIT_FIELDS, "tools"} == set(Limits.__struct_fields__)
    file = read_limits(b'{"tools": {"p": {"wait": true, "max_waits": null}}, "max_refusals": 0}')
    assert file.tools == {"p": ToolPolicy(wait=True)}
    assert file.max_refusals == 0
    with pytest.raises(UsageError, match="not JSON"):
        read_limits(b"{")
