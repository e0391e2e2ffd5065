"""The target protocol, answered by the reference evaluator: one JSON line in, one out, in order.

Theory of operation: a line is read once by the strict parser, so duplicate keys and the spelling of
numbers inside `policy` and `steps` are judged as in a document. A line that is not a request gets
an answer like any other, and nothing is remembered between lines.

Source: spec evaluator, section 7.
"""

from __future__ import annotations

import json
import re

from loopcore import __version__
from loopcore.canonical import canonical
from loopcore.decoding import decode_values
from loopcore.defects import Members, Number, check_nesting, malformed, parse
from loopcore.errors import InputError
from loopcore.evaluator import evaluate
from loopcore.terminals import PRECEDENCE

PROTOCOL = "loopcore/target/1"
_ID = re.compile(r"0|-?[1-9][0-9]*")
# A request that nests too deep for a document still has its id echoed, if it can be read at all.
_NESTING_MAX = 2**20
_REQUEST_FIELDS = ("id", "op", "policy", "steps")


def answer(line: bytes) -> bytes:
    """Return the answer to one request line, without its line end; never raises for any bytes."""
    identity = "null"
    try:
        request = parse(line, nesting_max=_NESTING_MAX)
        if not isinstance(request, Members):
            raise malformed("$", "a request is an object")
        identity = _identity([value for key, value in request if key == "id"])
        check_nesting(request)
        fields = _fields(request)
        body = canonical(_serve(fields))
    except InputError as error:
        body = canonical({"error": error.as_dict()})
    # The id is echoed as it was spelled, whatever its size.
    return b'{"id":%b,%b' % (identity.encode(), body[1:])


def _fields(request: Members) -> dict[str, object]:
    """Return the members that the protocol knows; others are ignored, even when repeated."""
    fields: dict[str, object] = {}
    for key, value in request:
        if key in _REQUEST_FIELDS:
            if key in fields:
                raise malformed(f"$.{key}", "this field stands twice")
            fields[key] = value
    return fields


def _identity(values: list[object]) -> str:
    """Return the id as it was spelled, or null unless there is one and it is an integer."""
    match values:
        case [Number() as value] if _ID.fullmatch(value) is not None:
            return str(value)
        case _:
            return "null"


def _serve(fields: dict[str, object]) -> dict[str, object]:
    operation = fields.get("op")
    if operation == "describe":
        return {
            "protocol": PROTOCOL,
            "name": "loopcore reference evaluator",
            "version": __version__,
            "releases": list(PRECEDENCE),
            "wire": "bytes",
        }
    if operation != "evaluate":
        shown = json.dumps(operation) if isinstance(operation, str) else "no text"
        raise malformed("$.op", f"expected describe or evaluate, got {shown[:60]}")
    for name in ("policy", "steps"):
        if name not in fields:
            raise malformed(f"$.{name}", "this field is missing")
    trace = decode_values(fields["policy"], fields["steps"])
    return {"receipt": evaluate(trace.policy, trace.steps, steps_sha256=trace.steps_sha256)}
