"""Events on their way to the journal: one batch, one stamp, one append.

Theory of operation: a `Batch` fills in what every event of a run carries (policy, state, principal,
grants, versions) and clamps the stamp, so that a decision only says what happened. The deadline is
tested on the very stamp that is journalled: `Batch.at_unix_ms`.

Source: spec runtime, sections 1 and 5.
"""

from __future__ import annotations

from typing import NamedTuple

import msgspec

from loopcore import __version__
from loopcore.canonical import digest
from loopcore.runtime.envelope import ToolRule
from loopcore.runtime.payloads import KIND_OF, Payload, RunCreated, object_of, payload_of
from loopcore.runtime.state import State
from loopcore.store.journal import GENESIS, ClockSource, Event, chain

PRODUCER = f"loopcore/{__version__}"


class Stamp(msgspec.Struct, frozen=True, kw_only=True):
    """A time as the driver's clock tells it.

    Fields:
        jump_ms: how far the wall clock now stands from where elapsed time puts it.
    """

    at_unix_ms: int
    clock: ClockSource = "simulated"
    jump_ms: int = 0


def clamped(state: State, now: Stamp) -> Stamp:
    """Return the stamp, no earlier than the last one in the journal."""
    if now.at_unix_ms >= state.last_at_unix_ms:
        return now
    return Stamp(at_unix_ms=state.last_at_unix_ms, clock="clamped", jump_ms=now.jump_ms)


class Batch:
    """Events of one append, in order."""

    def __init__(self, state: State, now: Stamp) -> None:
        self._state = state
        self._stamp = clamped(state, now)
        self._state_sha256 = state.state_sha256
        self._drafts: list[Event] = []
        self.at_unix_ms = self._stamp.at_unix_ms

    def __len__(self) -> int:
        return len(self._drafts)

    def add(
        self,
        payload: Payload,
        *,
        rule: ToolRule | None = None,
        key: str | None = None,
        state_sha256: str | None = None,
    ) -> None:
        """Append one event; raises InvalidEvent for a payload that could not be read back.

        Arguments:
            rule: of the tool concerned, for its versions. key: the idempotency key, where one is.
            state_sha256: the state from this event on, where it changes.
        """
        if state_sha256 is not None:
            self._state_sha256 = state_sha256
        state = self._state
        event = draft(
            payload,
            _heading(state),
            self._stamp,
            state_sha256=self._state_sha256,
            rule=rule,
            key=key,
        )
        # A constructor does not validate; what could not be read back must not be appended.
        payload_of(event)
        self._drafts.append(event)

    def events(self) -> tuple[Event, ...]:
        """Return the events, linked to the journal's head."""
        return chain(self._state.head, self._drafts)


class Heading(NamedTuple):
    """What every event of a run carries alike."""

    run_id: str
    policy_sha256: str | None
    principal: str
    tenant: str
    grant_sha256: str | None


def _heading(state: State) -> Heading:
    return Heading(
        run_id=state.run_id,
        policy_sha256=state.policy_sha256,
        principal=state.envelope.principal,
        tenant=state.envelope.tenant,
        grant_sha256=state.grant_sha256,
    )


def draft(
    payload: Payload,
    heading: Heading,
    stamp: Stamp,
    *,
    state_sha256: str | None,
    rule: ToolRule | None = None,
    key: str | None = None,
) -> Event:
    """Return an event that is not linked yet; `chain` sets sequence, link and epoch."""
    return Event(
        run_id=heading.run_id,
        sequence=1,
        previous_event_sha256=GENESIS,
        kind=KIND_OF[type(payload)],
        policy_sha256=heading.policy_sha256,
        state_sha256=state_sha256,
        epoch=0,
        principal=heading.principal,
        tenant=heading.tenant,
        grant_sha256=heading.grant_sha256,
        idempotency_key=key,
        producer_release=PRODUCER,
        model_version=None if rule is None else rule.model_version,
        prompt_version=None if rule is None else rule.prompt_version,
        tool_version=None if rule is None else rule.release,
        at_unix_ms=stamp.at_unix_ms,
        clock=stamp.clock,
        payload=object_of(payload),
    )


def creation(created: RunCreated, *, run_id: str, state_sha256: str, stamp: Stamp) -> Event:
    """Return the event with which a run begins, not linked yet."""
    heading = Heading(
        run_id=run_id,
        policy_sha256=digest(created.policy),
        principal=created.envelope.principal,
        tenant=created.envelope.tenant,
        grant_sha256=digest(created.envelope.grants),
    )
    return draft(created, heading, stamp, state_sha256=state_sha256)
