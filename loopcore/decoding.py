"""Strict decoding: bytes or plain values in, typed values or one exact error out.

Theory of operation: two paths that can never disagree. The *fast path* lets msgspec decode, and is
believed only when the text provably hides nothing from it (msgspec keeps the last of duplicate keys
and reads -0 as 0). Whatever the fast path refuses or cannot vouch for, the *slow path* of
`loopcore.defects` reads again from the text and either returns the same value or raises the first
defect with its exact code and path. The slow path alone defines what is an error.

Source: spec evaluator, sections 1 and 2.
"""

from __future__ import annotations

from collections.abc import Iterable

import msgspec

from loopcore.canonical import canonical, digest_bytes
from loopcore.defects import DOCUMENT_BYTES_MAX, check_policy_relations, explain, parse
from loopcore.models import Policy, Receipt, Step, Trace

_DIGEST_BYTES = b"0123456789abcdef"

_POLICY = msgspec.json.Decoder(Policy)
_STEP = msgspec.json.Decoder(Step)
_TRACE = msgspec.json.Decoder(Trace)

_STEP_KEYS = len(Step.__struct_fields__)
_TRACE_KEYS = len(Trace.__struct_fields__) + len(Policy.__struct_fields__)


class DecodedTrace(msgspec.Struct, frozen=True, kw_only=True):
    """A policy and its steps, with the digest of the array of steps."""

    policy: Policy
    steps: tuple[Step, ...]
    steps_sha256: str


def decode_trace(data: bytes) -> DecodedTrace:
    """Return the trace that a whole document spells.

    Raises InputError with code `malformed` or `invalid_policy`. Linear in the document's length.
    """
    decoded = _decode_trace_fast(data)
    return _from_trace(explain(parse(data), Trace, "$")) if decoded is None else decoded


def decode_values(policy: object, steps: object) -> DecodedTrace:
    """Return the trace that plain values (dicts, lists, numbers, text) spell.

    Raises InputError as `decode_trace` does; paths start at `$.policy` and `$.steps`.
    """
    document = {"schema": "loopcore/trace/1", "policy": policy, "steps": steps}
    return _from_trace(explain(document, Trace, "$"))


def _from_trace(trace: Trace, steps: bytes | None = None) -> DecodedTrace:
    """Return a trace whose policy holds together, with the digest of its steps."""
    check_policy_relations(trace.policy, "$.policy")
    steps = canonical(trace.steps) if steps is None else steps
    return DecodedTrace(policy=trace.policy, steps=trace.steps, steps_sha256=digest_bytes(steps))


def decode_receipt(data: bytes) -> Receipt:
    """Return the receipt that a document spells, or raise InputError with code `malformed`."""
    return explain(parse(data), Receipt, "$")


def decode_step_fast(line: bytes) -> tuple[Step, bytes] | None:
    """Return a step and its canonical bytes, or None where only the slow path can tell."""
    try:
        step = _STEP.decode(line)
        encoded = canonical(step)
    except (msgspec.MsgspecError, UnicodeError, RecursionError):
        return None
    if encoded != line and not _hides_nothing(line, _STEP_KEYS):
        return None
    return (step, encoded) if _digests_are_clean(_step_digests([step])) else None


def _decode_trace_fast(data: bytes) -> DecodedTrace | None:
    """Return the trace, or None where only the slow path can tell."""
    if len(data) > DOCUMENT_BYTES_MAX:
        return None
    try:
        trace = _TRACE.decode(data)
        steps = canonical(trace.steps)
        policy = canonical(trace.policy)
    except (msgspec.MsgspecError, UnicodeError, RecursionError):
        return None
    digests = [
        trace.policy.run_envelope_sha256,
        trace.policy.behavior_spec_sha256,
        trace.policy.initial_state_sha256,
    ]
    if not _digests_are_clean(digests + _step_digests(trace.steps)):
        return None
    if data != b'{"policy":%b,"schema":"loopcore/trace/1","steps":%b}' % (policy, steps):
        # A name may hold colons and digits of its own, which the count below must not see.
        name = trace.policy.policy_id
        keys = _TRACE_KEYS + _STEP_KEYS * len(trace.steps)
        if ":" in name or "-0" in name or not _hides_nothing(data, keys):
            return None
    return _from_trace(trace, steps)


def _hides_nothing(data: bytes, keys: int) -> bool:
    """Return whether a text that msgspec took hides no duplicate key and no -0 from it.

    Every field is required and none is unknown, so the text has at least `keys` members, and more
    exactly when a key is repeated. Without escapes a member is a colon outside strings, and no
    string that msgspec let pass holds a colon. All of it is searched at the speed of memory.
    """
    return data.count(b":") == keys and b"\\" not in data and b"-0" not in data


def _step_digests(steps: Iterable[Step]) -> list[str]:
    digests: list[str] = []
    extend = digests.extend
    for step in steps:
        extend((step.action_sha256, step.state_before_sha256, step.state_after_sha256))
        extend(step.new_evidence_receipt_sha256)
        if step.completion_receipt_sha256 is not None:
            digests.append(step.completion_receipt_sha256)
    return digests


def _digests_are_clean(digests: list[str]) -> bool:
    """Return whether texts of the right length are all lowercase hexadecimal."""
    joined = "".join(digests)
    return joined.isascii() and not joined.encode().translate(None, _DIGEST_BYTES)
