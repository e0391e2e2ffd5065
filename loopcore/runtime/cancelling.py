"""A request to end a run, by a client that holds no lease.

Source: spec runtime, section 5.
"""

from __future__ import annotations

from loopcore.errors import LoopcoreError
from loopcore.runtime.drafting import Batch, Stamp, creation
from loopcore.runtime.folding import fold, fold_all
from loopcore.runtime.payloads import CancelRequested, RunCreated
from loopcore.runtime.state import State
from loopcore.runtime.termination import add_terminal
from loopcore.store.journal import EMPTY_HEAD, Event, chain


class CancelRefused(LoopcoreError):
    """The run may not be cancelled, or not by this client."""

    def __init__(self, run_id: str, reason: str) -> None:
        super().__init__(f"run {run_id} is not cancelled: {reason}")
        self.run_id = run_id
        self.reason = reason


def cancel_request(state: State, *, by: str, reason: str, now: Stamp) -> tuple[Event, ...]:
    """Return the request, to be appended with the epoch of the head; nothing where one stands.

    Raises CancelRefused after a terminal, for a run that does not exist, and for a client whom the
    envelope does not name.
    """
    if not state.created:
        raise CancelRefused(state.run_id or "?", "there is no such run")
    if state.receipt is not None:
        raise CancelRefused(state.run_id, f"it has ended as {state.receipt.terminal}")
    if by not in (state.envelope.principal, *state.envelope.clients):
        raise CancelRefused(state.run_id, f"{by} is not authorised")
    if state.cancel is not None:
        return ()
    batch = Batch(state, now)
    batch.add(CancelRequested(by=by, reason=reason[:1_024]))
    return batch.events()


def stillborn(created: RunCreated, *, run_id: str, reason: str, now: Stamp) -> tuple[Event, ...]:
    """Return the whole journal of a run that is cancelled before it begins.

    Appended to an empty head by compare-and-swap, it ends a child that nobody may start any more.
    """
    state_sha256 = created.policy.initial_state_sha256
    opening = chain(
        EMPTY_HEAD, (creation(created, run_id=run_id, state_sha256=state_sha256, stamp=now),)
    )
    state = fold_all(opening)
    batch = Batch(state, now)
    batch.add(CancelRequested(by=created.envelope.principal, reason=reason))
    requested = batch.events()
    for event in requested:
        fold(state, event)
    ending = Batch(state, now)
    add_terminal(ending, state, "cancelled", reason=reason)
    return (*opening, *requested, *ending.events())
