"""One request line in, one answer line out; a request that fails changes nothing.

Theory of operation: `ControllerSession` holds a controller and whether its run has begun. A line is
parsed exactly (numbers keep their decimals), its op is looked up in a table, every field that is
read is checked, and only then is the controller told. Errors are answers too. A server is a loop
around `answer`.

Choices: `observe` before `start`, and `propose` to a controller that decides after, are `bad_op`. A
request without an id is answered with id null. A line that is JSON and no object is `bad_request`.
A negative usage, and an observation that is not after the one before, are invalid fields.

Source: spec controllers, section 7.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Literal, cast

import msgspec

from loopcore import __version__
from loopcore.control.decisions import Decision
from loopcore.control.json_text import JsonTextError, exact_int, parse_json, write_json
from loopcore.control.limits import Limits, decode_limits
from loopcore.control.observations import Observation, Usage
from loopcore.control.variants import declared_needs, named_controller
from loopcore.errors import UsageError

PROTOCOL = "loopcore/controller/1"
# A longer request is refused unread.
LINE_BYTES_MAX = 64 * 1024 * 1024

WireCode = Literal["bad_json", "bad_op", "bad_request"]
Kind = Literal["text", "json", "count", "integer", "flag"]


class FieldRule(msgspec.Struct, frozen=True, kw_only=True):
    """What a field of an observation or of its usage takes.

    Fields:
        kind: text, any JSON, an integer of at least `least`, any integer, or true and false.
        nullable: null is a value. required: missing is an error, not the default.
    """

    kind: Kind
    least: int = 0
    nullable: bool = True
    required: bool = False


OBSERVATION_FIELDS: Mapping[str, FieldRule] = {
    "turn": FieldRule(kind="count", least=1, nullable=False, required=True),
    "action": FieldRule(kind="count", least=1, nullable=False, required=True),
    "tool": FieldRule(kind="text"),
    "arguments": FieldRule(kind="json"),
    "result": FieldRule(kind="json"),
    "action_fingerprint": FieldRule(kind="text"),
    "result_fingerprint": FieldRule(kind="text"),
    "state_fingerprint": FieldRule(kind="text"),
    "progress": FieldRule(kind="integer"),
    "error_class": FieldRule(kind="text"),
    "claims_done": FieldRule(kind="flag", nullable=False),
    "verified": FieldRule(kind="flag"),
}
USAGE_FIELDS: Mapping[str, FieldRule] = {
    name: FieldRule(kind="count") for name in Usage.__struct_fields__
}
_EXPECTED: Mapping[Kind, str] = {
    "text": "a text",
    "json": "a JSON value",
    "count": "an integer of at least",
    "integer": "an integer",
    "flag": "true or false",
}


class WireError(Exception):
    """A request that cannot be honoured: a code of the protocol and a sentence."""

    def __init__(self, code: WireCode, message: str) -> None:
        super().__init__(message)
        self.code: WireCode = code
        self.message = message


class ControllerSession:
    """A controller behind the wire.

    Arguments:
        name: a level or variant (`named_controller`); UsageError when there is none.
        limits: what the limits of a `start` overlay; None for the defaults.
    """

    def __init__(self, name: str, limits: Limits | None = None) -> None:
        self._name = name
        self._base = Limits() if limits is None else limits
        self._controller = named_controller(name)
        self._started = False
        self._operations: Mapping[str, Callable[[dict[str, object]], dict[str, object]]] = {
            "describe": self._describe,
            "start": self._start,
            "propose": self._propose,
            "observe": self._observe,
        }

    def answer(self, line: bytes) -> bytes:
        """Return the one answer to a request line, ending in a newline."""
        request: dict[str, object] = {}
        try:
            request = _request(line)
            operation = request.get("op")
            handler = self._operations.get(operation) if isinstance(operation, str) else None
            if handler is None:
                names = ", ".join(self._operations)
                raise WireError("bad_op", f"op: expected one of {names}")
            body = handler(request)
        except WireError as error:
            body = {"ok": False, "error": {"code": error.code, "message": error.message}}
        return (write_json({"id": request.get("id"), **body}) + "\n").encode("ascii")

    def _describe(self, request: dict[str, object]) -> dict[str, object]:
        return {
            "protocol": PROTOCOL,
            "name": self._name,
            "version": __version__,
            "decides": "after",
            "effect": "stop",
            "needs": list(declared_needs(self._name)),
        }

    def _start(self, request: dict[str, object]) -> dict[str, object]:
        if "limits" not in request:
            raise WireError("bad_request", "limits: missing")
        try:
            limits = decode_limits(request["limits"], self._base)
        except UsageError as error:
            raise WireError("bad_request", str(error)) from error
        self._controller.start(limits)
        self._started = True
        return {"ok": True}

    def _propose(self, request: dict[str, object]) -> dict[str, object]:
        raise WireError("bad_op", "propose: this controller decides after the action")

    def _observe(self, request: dict[str, object]) -> dict[str, object]:
        if not self._started:
            raise WireError("bad_op", "observe: no run was started")
        observation = decode_observation(request.get("observation"))
        try:
            decision = self._controller.observe(observation)
        except UsageError as error:
            raise WireError("bad_request", str(error)) from error
        return decision_fields(decision)


def decision_fields(decision: Decision) -> dict[str, object]:
    """Return a decision as it stands on the wire."""
    return {
        "decision": decision.decision,
        "reason": decision.reason,
        "strategy": decision.strategy,
    }


def decode_observation(value: object) -> Observation:
    """Return the observation that a parsed JSON value holds; unknown fields are ignored.

    Errors: WireError (`bad_request`) naming the field that is missing or has a wrong value.

    Source: spec controllers, section 2.
    """
    given = _object(value, "observation")
    fields = _checked(OBSERVATION_FIELDS, given, "observation")
    if given.get("usage") is not None:
        usage = _checked(USAGE_FIELDS, _object(given["usage"], "observation.usage"), "usage")
        fields["usage"] = msgspec.structs.replace(Usage(), **usage)
    return msgspec.structs.replace(Observation(turn=1, action=1), **fields)


def _request(line: bytes) -> dict[str, object]:
    if len(line) > LINE_BYTES_MAX:
        raise WireError("bad_json", f"a line has at most {LINE_BYTES_MAX} bytes")
    try:
        value = parse_json(line.decode("utf-8"))
    except UnicodeDecodeError as error:
        raise WireError("bad_json", "the line is not UTF-8") from error
    except JsonTextError as error:
        raise WireError("bad_json", f"the line is not JSON: {error}") from error
    return _object(value, "the request")


def _object(value: object, path: str) -> dict[str, object]:
    if not isinstance(value, dict):
        raise WireError("bad_request", f"{path}: expected an object")
    return cast("dict[str, object]", value)


def _checked(
    table: Mapping[str, FieldRule], given: dict[str, object], path: str
) -> dict[str, object]:
    """Return the fields of the table that are given, each with a value that it takes."""
    fields: dict[str, object] = {}
    for name, rule in table.items():
        if name not in given:
            if rule.required:
                raise WireError("bad_request", f"{path}.{name}: missing")
            continue
        value = given[name]
        if value is None and rule.nullable:
            fields[name] = None
            continue
        expected = _EXPECTED[rule.kind] + (f" {rule.least}" if rule.kind == "count" else "")
        match rule.kind:
            case "json":
                fields[name] = value
                continue
            case "text":
                valid = isinstance(value, str)
            case "flag":
                valid = isinstance(value, bool)
            case "count" | "integer":
                value = exact_int(value)
                valid = value is not None and (rule.kind == "integer" or value >= rule.least)
        if not valid:
            raise WireError("bad_request", f"{path}.{name}: expected {expected}")
        fields[name] = value
    return fields
