"""decide(state, local, input): what one worker of a run does next. No clock, no I/O.

Theory of operation: an input is first absorbed into the worker's local memory, then the rows of
`_ORDER` are asked in turn and the first that has something to do decides. A row sees the state that
the journal folds to and what this worker alone knows; it answers with commands, of which an append
is at most one and comes first. Since nothing is lost from local memory before it is journalled, a
refused append is answered by reading, folding and asking again.

A driver is a loop:

    decision = decide(state, local, input)
    for command in decision.commands: carry it out
    local = decision.local, or decision.otherwise where the append was not made

Source: spec runtime, sections 1 to 5.
"""

from __future__ import annotations

from collections.abc import Callable

import msgspec

from loopcore.runtime.drafting import Batch, clamped
from loopcore.runtime.folding import fold, fold_all
from loopcore.runtime.messages import (
    Append,
    Command,
    Decision,
    Done,
    Fenced,
    Input,
    Local,
    Proposed,
    Pump,
    Reconciled,
    Returned,
    ScopeAnswered,
)
from loopcore.runtime.moves import (
    Move,
    admit_proposals,
    ask_planner,
    call_dispatched,
    dispatch_reserved,
    record,
    resume,
    settle_scopes,
    watch_calls,
)
from loopcore.runtime.payloads import LeaseAcquired
from loopcore.runtime.resolving import complete, conclude, reconcile
from loopcore.runtime.state import State
from loopcore.runtime.winding import after_terminal, wind_down

__all__ = ["State", "decide", "fold", "fold_all"]

# The rows, in the order in which they are asked.
_ORDER: tuple[Callable[[State, Local, Pump], Move | None], ...] = (
    resume,
    record,
    settle_scopes,
    wind_down,
    complete,
    call_dispatched,
    watch_calls,
    conclude,
    reconcile,
    dispatch_reserved,
    admit_proposals,
    ask_planner,
)


def decide(state: State, local: Local, received: Input) -> Decision:
    """Return what a worker does next, and its memory afterwards; nothing has changed.

    Arguments:
        state: the fold of everything that this worker has read.
        local: the worker's memory as the last decision left it.
        received: what happened, with the stamp of the driver's clock.
    """
    absorbed = _absorb(state, local, received)
    now = Pump(now=received.now, fresh=isinstance(received, Pump) and received.fresh)
    if not state.created:
        return Decision(commands=(Done(),), local=absorbed, otherwise=absorbed)
    if absorbed.epoch is not None and absorbed.epoch != state.epoch:
        return Decision(commands=(Fenced(epoch=state.epoch),), local=absorbed, otherwise=absorbed)
    if absorbed.epoch is None:
        if state.receipt is not None and absorbed.mode == "run":
            return Decision(commands=(Done(),), local=absorbed, otherwise=absorbed)
        return _take_lease(state, absorbed, now)
    if state.receipt is not None:
        return _decision(state, absorbed, after_terminal(state, absorbed, now))
    for row in _ORDER:
        move = row(state, absorbed, now)
        if move is not None:
            return _decision(state, absorbed, move)
    raise AssertionError("the last row always has an answer")


def _decision(state: State, absorbed: Local, move: Move) -> Decision:
    """Put a move's batch, if it has any, in front of its commands."""
    commands: tuple[Command, ...] = move.commands
    if move.batch is not None and len(move.batch):
        commands = (_append(state, move.batch, state.epoch), *commands)
    return Decision(commands=commands, local=move.local, otherwise=absorbed)


def _append(state: State, batch: Batch, epoch: int) -> Append:
    return Append(
        run_id=state.run_id,
        expected_head=state.head.digest,
        epoch=epoch,
        events=batch.events(),
    )


def _take_lease(state: State, local: Local, now: Pump) -> Decision:
    """Take the run with a higher epoch; what an earlier epoch of this worker knew is void."""
    batch = Batch(state, now.now)
    epoch = state.epoch + 1
    batch.add(LeaseAcquired(owner=local.worker, duration_ms=state.envelope.rules.lease_ms))
    holder = Local(
        worker=local.worker,
        mode=local.mode,
        reconciles=local.reconciles,
        epoch=epoch,
        returned=local.late,
    )
    return Decision(commands=(_append(state, batch, epoch),), local=holder, otherwise=local)


def _absorb(state: State, local: Local, received: Input) -> Local:
    """Return the worker's memory with an input in it."""
    jump = received.now.jump_ms
    if local.stop is None and jump > state.envelope.rules.clock_jump_ms_max and state.created:
        at = clamped(state, received.now).at_unix_ms
        local = msgspec.structs.replace(
            local,
            stop=("awaiting_input", f"the wall clock jumped by {jump} ms"),
            stop_since_unix_ms=at,
        )
    match received:
        case Proposed():
            return msgspec.structs.replace(
                local, proposing=False, proposals=received.proposals, asked_scope=False, scope=None
            )
        case Returned():
            return msgspec.structs.replace(
                local,
                returned=(*local.returned, received),
                calling=local.calling - {received.action},
                aborting=local.aborting - {received.action},
            )
        case Reconciled():
            return msgspec.structs.replace(
                local,
                findings=(*local.findings, received),
                reconciling=local.reconciling - {received.action},
            )
        case ScopeAnswered():
            return msgspec.structs.replace(local, scope=received)
        case Pump():
            return local
