"""Which invocation a proposal is: identity, occurrence, attempt and idempotency key.

Theory of operation: an identity is the run's lineage, the logical action and its occurrence; a key
is an identity and an attempt, so a retry after a verified "no effect" has a new key and the same
identity. The logical action is the planner's own key where it gives one, else tool and canonical
arguments. Ids of calls that change with every turn play no part. What an identity already came to
decides what may happen to a proposal of it, and that is a table of five lines in `standing`.

Source: spec runtime, sections 2 and 3.
"""

from __future__ import annotations

from typing import Literal, NamedTuple

from loopcore.canonical import digest
from loopcore.control.fingerprints import action_fingerprint
from loopcore.control.limits import Effect
from loopcore.runtime.envelope import ToolRule
from loopcore.runtime.messages import Act
from loopcore.runtime.payloads import ActionReserved
from loopcore.runtime.state import Action, Invocation, State

Standing = Literal["new", "retry", "open", "duplicate", "key_conflict", "incident"]


class Known(NamedTuple):
    """An identity as the journal, or an earlier member of the same batch, knows it."""

    payload_sha256: str
    attempts: int
    retries: int
    incident: bool
    action: str
    is_open: bool
    succeeded: bool


class Identified(NamedTuple):
    """A proposal with its identity and what may happen to it."""

    identity: str
    payload_sha256: str
    logical: str
    occurrence: int
    attempt: int
    retry: int
    standing: Standing
    of_action: str | None


def idempotency_key(identity: str, attempt: int) -> str:
    """Return the key that one attempt of an invocation carries across the boundary."""
    return digest(["loopcore/key/1", identity, attempt])


def identify(state: State, batch: dict[str, Known], act: Act, rule: ToolRule) -> Identified:
    """Return which invocation a proposal is.

    Arguments:
        batch: identities of earlier members of the same batch, by identity.
    """
    payload = action_fingerprint(act.tool, act.arguments)
    name = digest(["key", act.key] if act.key is not None else ["call", payload])
    occurrence = act.occurrence or 1
    while True:
        identity = digest(["loopcore/invocation/1", state.lineage, name, occurrence])
        known = batch.get(identity) or _known(state, identity)
        counts_by_itself = act.occurrence is None and act.key is None and rule.effect != "unsafe"
        if known is None or not counts_by_itself or not _is_passed(known, rule.effect):
            break
        occurrence = max(occurrence + 1, state.occurrences.get(name, 0))
    standing = _standing(known, payload)
    return Identified(
        identity=identity,
        payload_sha256=payload,
        logical=name,
        occurrence=occurrence,
        attempt=1 if known is None else known.attempts + 1,
        retry=0 if known is None else known.retries,
        standing=standing,
        of_action=None if known is None else known.action,
    )


def _is_passed(known: Known, effect: Effect) -> bool:
    """Return whether a repeatable call is wanted anew rather than this occurrence of it."""
    return known.succeeded or (effect == "none" and known.is_open)


def _known(state: State, identity: str) -> Known | None:
    invocation = state.invocations.get(identity)
    if invocation is None:
        return None
    return as_known(invocation, state.actions[invocation.last_action])


def as_known(invocation: Invocation, last: Action) -> Known:
    """Return an invocation of the journal with what its last attempt came to."""
    return Known(
        payload_sha256=invocation.payload_sha256,
        attempts=invocation.attempts,
        retries=invocation.retries,
        incident=invocation.incident,
        action=last.name,
        is_open=last.is_open,
        succeeded=last.outcome == "succeeded",
    )


def batch_member(reserved: ActionReserved) -> Known:
    """Return how a later member of a batch sees this one."""
    return Known(
        payload_sha256=reserved.payload_sha256,
        attempts=reserved.attempt,
        retries=reserved.retry,
        incident=False,
        action=reserved.action,
        is_open=True,
        succeeded=False,
    )


def _standing(known: Known | None, payload_sha256: str) -> Standing:
    if known is None:
        return "new"
    if known.payload_sha256 != payload_sha256:
        return "key_conflict"
    if known.incident:
        return "incident"
    if known.is_open:
        return "open"
    return "duplicate" if known.succeeded else "retry"
