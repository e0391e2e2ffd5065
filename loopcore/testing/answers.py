"""The shape of answers: what every answer of a target has, whatever the target is.

Theory of operation: an answer is an object with the id of its request and exactly one of `receipt`
and `error`, each an object. What stands in them is for the properties to judge. Anything else is a
`TargetError`, of kind `order` where the id is that of another request, else of kind `answer`.

Source: spec evaluator, section 7.
"""

from __future__ import annotations

import json
import re
from typing import TYPE_CHECKING, NoReturn, cast

from loopcore.errors import TargetError, UsageError

if TYPE_CHECKING:
    from loopcore.testing.contract import Answer

SHOWN_CHARACTERS_MAX = 100
NO_OBJECT = "no JSON object with each key once"
# What every target is asked first, in either protocol.
DESCRIBE = b'{"id":1,"op":"describe"}'
# No id of the wire is longer, its sign included.
_ID_CHARACTERS_MAX = 17
# An id in bytes that are nested too deep to be read.
_ID = re.compile(rb'"id"\s*:\s*(-?[0-9]{1,16})(?![0-9.eE])')


def parsed(data: bytes) -> object:
    """Return the value of a target's JSON text, or None where it is none.

    A text in which a key stands twice is none: readers do not agree on what it says.
    """
    try:
        # Bytes would be taken in UTF-16 and UTF-32 as well, and with a byte-order mark.
        return cast("object", json.loads(data.decode("utf-8"), object_pairs_hook=_single))
    except (ValueError, RecursionError):
        return None


def _single(pairs: list[tuple[str, object]]) -> dict[str, object]:
    """Return the members of an object; raise ValueError where a key stands twice."""
    members = dict(pairs)
    if len(members) != len(pairs):
        raise ValueError("a key stands twice")
    return members


def _short_integer(digits: str) -> object:
    return int(digits) if len(digits) <= _ID_CHARACTERS_MAX else digits


def _requested_ids(asked: bytes) -> list[object]:
    """Return what may be the id of any bytes that were sent; they may repeat keys on purpose.

    What is nested too deep for this reader need not be too deep for the target's.
    """
    try:
        # Python converts no number of thousands of digits; no id has so many.
        value = cast("object", json.loads(asked.decode("utf-8"), parse_int=_short_integer))
        request = as_object(value)
    except ValueError:
        return []
    except RecursionError:
        return [int(digits) for digits in _ID.findall(asked)]
    return [] if request is None else [request.get("id")]


def as_object(value: object) -> dict[str, object] | None:
    """Return a JSON object, or None for any other value."""
    return cast("dict[str, object]", value) if isinstance(value, dict) else None


def description(data: bytes, protocol: str) -> dict[str, object]:
    """Return a target's answer to `DESCRIBE`; raise UsageError where it speaks no such protocol."""
    facts = as_object(parsed(data))
    if facts is None or facts.get("id") != 1:
        raise UsageError("the target does not answer describe with an object and its id")
    if facts.get("protocol") != protocol:
        raise UsageError(f"the target speaks {cut(facts.get('protocol'))}, not {protocol}")
    return facts


def hosted_result(reply: dict[str, object], asked: bytes) -> object:
    """Return what a hosted Python target gave; raise TargetError where it gave nothing."""
    crash = as_object(reply.get("crash"))
    if crash is not None:
        message = f"it raised {crash.get('error')}\n{crash.get('traceback')}"
        raise TargetError("crash", message.rstrip(), request=asked.decode())
    if "result" not in reply:
        said = reply.get("misfit", reply.get("refused", "it gave no result"))
        raise TargetError("answer", str(said), request=asked.decode())
    return reply["result"]


def checked_answer(data: bytes, asked: bytes, number: int | None = None) -> Answer:
    """Return an answer line without its id; raise TargetError when it does not fit the request.

    Arguments:
        number: the id of the request, or None for bytes that may have one of their own.
    """
    value = as_object(parsed(data))
    if value is None:
        refuse(f"its answer is {NO_OBJECT}: {cut(data.decode('utf-8', 'replace'))}", asked)
    identity = value.pop("id", False)
    if number is None:
        own = [each for each in _requested_ids(asked) if _is_integer(each)]
        fits = identity is None or (_is_integer(identity) and identity in own)
    else:
        fits = _is_integer(identity) and identity == number
    if not fits:
        message = f"its answer has the id {cut(identity)}, which is not that of the request"
        raise TargetError("order", message, request=asked.decode("utf-8", "backslashreplace"))
    return one_of(value, asked)


def one_of(value: dict[str, object], asked: bytes) -> Answer:
    """Return an answer that has exactly one of receipt and error; raise TargetError otherwise."""
    present = [name for name in ("receipt", "error") if name in value]
    if len(present) != 1 or as_object(value[present[0]]) is None:
        refuse(f"its answer has not exactly one of receipt and error: {cut(value)}", asked)
    return {present[0]: value[present[0]]}


def _is_integer(value: object) -> bool:
    return isinstance(value, int) and not isinstance(value, bool)


def refuse(message: str, asked: bytes) -> NoReturn:
    """Raise the TargetError of a malformed answer to a request."""
    raise TargetError("answer", message, request=asked.decode("utf-8", "backslashreplace"))


def cut(value: object) -> str:
    """Return the beginning of a value as JSON."""
    return json.dumps(value, default=repr)[:SHOWN_CHARACTERS_MAX]
