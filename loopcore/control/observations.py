"""What a controller sees of one dispatched action, and nothing else.

An observation never holds ground truth. A field that cannot be known is None, which is a value of
its own: it is neither a match nor a mismatch, neither progress nor its lack.

Source: spec control, section 1; spec controllers, section 2.
"""

from __future__ import annotations

from typing import TypeAlias

import msgspec

# A JSON value, or text. Numbers may be `int`, `float` or `decimal.Decimal`; a reader that must keep
# exact digits gives Decimal. A `str` at the top level is text and is parsed when it is JSON.
Json: TypeAlias = "str | int | float | bool | list[Json] | dict[str, Json] | object | None"


class Usage(msgspec.Struct, frozen=True, kw_only=True):
    """What one action consumed. A None adds nothing to a sum; it is not a measured zero."""

    model_calls: int | None = None
    tool_calls: int | None = None
    input_tokens: int | None = None
    output_tokens: int | None = None
    cost_microunits: int | None = None
    latency_ms: int | None = None


class Observation(msgspec.Struct, frozen=True, kw_only=True):
    """One dispatched action, or one turn that dispatched nothing (then `tool` is None).

    Fields:
        turn: from 1, increasing, may skip; action: index within its turn, from 1.
        tool: name of the tool or route. arguments, result: JSON value or text.
        action_fingerprint, result_fingerprint: 64 hexadecimal digits, or None when unknown.
        state_fingerprint: of the state after the action, or None when nobody can know it.
        progress: verified improvement in this turn, the same on each observation of the turn.
        error_class: short name of the error's kind.
        claims_done: the agent says that it is done; verified: the verifier's answer to that.
        usage: stands on the first observation of its turn.
    """

    turn: int
    action: int
    tool: str | None = None
    arguments: Json = None
    result: Json = None
    action_fingerprint: str | None = None
    result_fingerprint: str | None = None
    state_fingerprint: str | None = None
    progress: int | None = None
    error_class: str | None = None
    claims_done: bool = False
    verified: bool | None = None
    usage: Usage = Usage()
