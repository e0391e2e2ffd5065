"""A budget wider than a run: one journal of reservations that many runs share. Pure.

Theory of operation: a run reserves here, by compare-and-swap, before it reserves in its own
journal, and settles here after it settled there. A crash in between leaves an entry that the run's
next owner finds: settled in the run, it is settled here too; unknown to the run, it is released. An
entry is named after the run's lineage and the action, so asking twice reserves once.

Choices: a child's whole carve is held here while it runs, and what it came to afterwards; the child
itself is admitted against its carve alone and never asks here.

Source: spec runtime, section 2.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Literal

import msgspec

from loopcore.models import Count, Terminal
from loopcore.runtime.amounts import BOUNDS, NOTHING, Amounts
from loopcore.runtime.drafting import PRODUCER, Stamp
from loopcore.runtime.payloads import Label, payload_as
from loopcore.store.journal import EMPTY_HEAD, Event, EventKind, Head, InvalidEvent, chain, follow


class Scope(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """What all runs of a thread or of a tree may use together; None is not bounded."""

    scope_id: Label
    kind: Literal["thread", "tree"]
    steps: Count | None = None
    model_calls: Count | None = None
    tool_calls: Count | None = None
    repairs: Count | None = None
    cost_microunits: Count | None = None
    input_tokens: Count | None = None
    output_tokens: Count | None = None


class ScopeOpened(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """The budget begins."""

    scope: Scope


class ScopeReserved(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """An action of a run holds its worst case."""

    lineage: Label
    action: Label
    reserved: Amounts


class ScopeSettled(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A reservation is over."""

    lineage: Label
    action: Label
    charged: Amounts


ScopePayload = ScopeOpened | ScopeReserved | ScopeSettled
_KINDS: dict[type[ScopePayload], EventKind] = {
    ScopeOpened: "run_created",
    ScopeReserved: "action_reserved",
    ScopeSettled: "reservation_settled",
}


class ScopeState:
    """A wider budget, folded."""

    __slots__ = ("charged", "head", "last_at_unix_ms", "open", "reserved", "scope")

    def __init__(self) -> None:
        self.scope: Scope | None = None
        self.head: Head = EMPTY_HEAD
        self.last_at_unix_ms = 0
        self.charged = NOTHING
        self.reserved = NOTHING
        self.open: dict[tuple[str, str], Amounts] = {}

    def refusal(self, more: Amounts) -> Terminal | None:
        """Return the terminal of the first budget without room for a reservation, or None."""
        if self.scope is None:
            return "step_budget_exhausted"
        total = self.charged.plus(self.reserved).plus(more)
        for bound in BOUNDS:
            limit: int | None = getattr(self.scope, bound.member)
            if limit is not None and total.value(bound.member) > limit:
                return bound.terminal
        return None


def fold_scope(state: ScopeState, events: Iterable[Event], scope_id: str) -> ScopeState:
    """Return the state after events; the same object. Raises InvalidEvent for a broken journal."""
    for event in events:
        state.head = follow(scope_id, state.head, event)
        state.last_at_unix_ms = event.at_unix_ms
        if event.kind == "run_created":
            state.scope = payload_as(event, ScopeOpened).scope
        elif event.kind == "action_reserved":
            reserved = payload_as(event, ScopeReserved)
            entry = (reserved.lineage, reserved.action)
            if entry in state.open or state.refusal(reserved.reserved) is not None:
                raise InvalidEvent("it is reserved twice, or over", sequence=event.sequence)
            state.open[entry] = reserved.reserved
            state.reserved = state.reserved.plus(reserved.reserved)
        elif event.kind == "reservation_settled":
            settled = payload_as(event, ScopeSettled)
            held = state.open.pop((settled.lineage, settled.action), None)
            if held is None:
                raise InvalidEvent("it settles what is not reserved", sequence=event.sequence)
            state.reserved = state.reserved.minus(held)
            state.charged = state.charged.plus(settled.charged)
        else:
            raise InvalidEvent(f"a wider budget has no {event.kind}", sequence=event.sequence)
    return state


def scope_event(state: ScopeState, scope_id: str, payload: ScopePayload, now: Stamp) -> Event:
    """Return one event, linked to the head of the budget's journal."""
    draft = Event(
        run_id=scope_id,
        sequence=1,
        previous_event_sha256=state.head.digest,
        kind=_KINDS[type(payload)],
        policy_sha256=None,
        state_sha256=None,
        epoch=0,
        principal="local",
        tenant="local",
        grant_sha256=None,
        idempotency_key=None,
        producer_release=PRODUCER,
        model_version=None,
        prompt_version=None,
        tool_version=None,
        at_unix_ms=max(now.at_unix_ms, state.last_at_unix_ms),
        clock=now.clock if now.at_unix_ms >= state.last_at_unix_ms else "clamped",
        payload=msgspec.to_builtins(payload),
    )
    (event,) = chain(state.head, [draft])
    return event
