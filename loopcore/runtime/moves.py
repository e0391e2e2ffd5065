"""The moves of a run that goes on: resume, record, call, dispatch, admit, ask the planner.

Theory of operation: each function is a row of `loopcore.runtime.protocol`: it returns what to do,
or None where it has nothing to do and the next row is asked. A row that only changes local memory
returns a move without commands, and the driver pumps again.

Source: spec runtime, sections 2 and 4.
"""

from __future__ import annotations

from typing import NamedTuple

import msgspec

from loopcore.runtime.admission import Admission, Admitted, ScopeLimit, admit
from loopcore.runtime.amounts import Amounts
from loopcore.runtime.drafting import Batch, clamped
from loopcore.runtime.messages import (
    Abort,
    Ask,
    Call,
    Command,
    Local,
    Observation,
    Propose,
    Pump,
    Read,
    ReserveScope,
    SettleScopes,
    StartChild,
    Wait,
)
from loopcore.runtime.names import child_run_id
from loopcore.runtime.payloads import (
    ActionDispatched,
    ChildCreated,
    ResumptionStarted,
)
from loopcore.runtime.settlement import add_finding, add_outcome, add_zero, rule_of
from loopcore.runtime.state import Action, State
from loopcore.runtime.termination import add_terminal

PLANNER_IS_DONE = "the planner proposes nothing"


class Move(NamedTuple):
    """What a row decided: the worker's memory afterwards, a batch to append, and commands."""

    local: Local
    batch: Batch | None = None
    commands: tuple[Command, ...] = ()


def resume(state: State, local: Local, pump: Pump) -> Move | None:
    """A new owner first settles at zero every inherited reservation that was never called."""
    if not state.resumption_due:
        return None
    batch = Batch(state, pump.now)
    batch.add(
        ResumptionStarted(
            owner=local.worker,
            head_sequence=state.head.sequence,
            head_sha256=state.head.digest,
        )
    )
    for action in state.open.values():
        if action.status == "reserved":
            add_zero(batch, action, because="never_called")
    return Move(msgspec.structs.replace(local, scopes_due=True), batch)


def record(state: State, local: Local, pump: Pump) -> Move | None:
    """Journal what came back, one outcome or finding at a time."""
    if not local.returned and not local.findings:
        return None
    batch = Batch(state, pump.now)
    ends = local.stop is not None
    # A planner that had nothing to propose while calls ran is asked again after each of them.
    proposals = None if local.proposals == () else local.proposals
    if local.returned:
        first = local.returned[0]
        add_outcome(batch, state, first.action, first.observation, ends=ends)
        after = msgspec.structs.replace(local, returned=local.returned[1:])
    else:
        found = local.findings[0]
        add_finding(batch, state, found.action, found.finding, ends=ends)
        answered = local.answered
        if found.finding.finding == "still_indeterminate":
            answered |= {found.action}
        after = msgspec.structs.replace(local, findings=local.findings[1:], answered=answered)
    # What the wider budgets said holds for the total of then.
    after = msgspec.structs.replace(
        after, proposals=proposals, scopes_due=True, asked_scope=False, scope=None
    )
    return Move(after, batch)


def settle_scopes(state: State, local: Local, pump: Pump) -> Move | None:
    """Tell the wider budgets what was settled."""
    if not local.scopes_due or not state.envelope.scopes:
        return None
    return Move(
        msgspec.structs.replace(local, scopes_due=False),
        commands=(SettleScopes(scopes=scope_ids(state)),),
    )


def scope_ids(state: State) -> tuple[str, ...]:
    """Return the wider budgets of a run, in the order in which they are reserved."""
    return tuple(scope.scope_id for scope in state.envelope.scopes)


def call_dispatched(state: State, local: Local, pump: Pump) -> Move | None:
    """Call what this worker dispatched, after it has read the journal once more."""
    if not local.uncalled:
        return None
    if not pump.fresh:
        return Move(local, commands=(Read(),))
    batch = Batch(state, pump.now)
    commands: list[Command] = []
    late: set[str] = set()
    for name in sorted(local.uncalled, key=_order):
        action = state.actions[name]
        overdue = batch.at_unix_ms >= _deadline(action)
        if overdue and action.child_run_id is None:
            add_zero(batch, action, because="not_called")
            late.add(name)
        else:
            # A child whose time is over has to end by its own journal all the same.
            commands.append(crossing(action, cancel=overdue))
    if len(batch):
        return Move(
            msgspec.structs.replace(local, uncalled=local.uncalled - late, scopes_due=True), batch
        )
    after = msgspec.structs.replace(
        local, uncalled=frozenset(), calling=local.calling | local.uncalled
    )
    return Move(after, commands=tuple(commands))


def _order(name: str) -> tuple[int, str]:
    return (len(name), name)


def _deadline_of(state: State, name: str) -> int:
    return _deadline(state.actions[name])


def _deadline(action: Action) -> int:
    return 0 if action.dispatched is None else action.dispatched.deadline_unix_ms


def crossing(action: Action, *, cancel: bool) -> Command:
    """Return the command that lets a dispatched action cross the boundary."""
    reserved, dispatched = action.reserved, action.dispatched
    if action.child_run_id is not None and reserved.carve is not None:
        return StartChild(
            action=action.name,
            child_run_id=action.child_run_id,
            tool=reserved.tool,
            arguments=reserved.arguments,
            carve=reserved.carve,
            deadline_unix_ms=_deadline(action),
            cancel=cancel,
        )
    return Call(
        action=action.name,
        tool=reserved.tool,
        arguments=reserved.arguments,
        idempotency_key=action.key,
        identity=reserved.identity,
        deadline_unix_ms=_deadline(action),
        lifetime_until_unix_ms=None if dispatched is None else dispatched.lifetime_until_unix_ms,
    )


def watch_calls(state: State, local: Local, pump: Pump) -> Move | None:
    """Ask calls to stop at their deadline, and stop waiting for those that do not."""
    if not local.calling:
        return None
    batch = Batch(state, pump.now)
    grace = state.envelope.rules.shutdown_ms
    overdue = [name for name in local.calling if batch.at_unix_ms >= _deadline_of(state, name)]
    fresh = sorted(set(overdue) - local.aborting, key=_order)
    if fresh:
        after = msgspec.structs.replace(local, aborting=local.aborting | set(fresh))
        return Move(after, commands=tuple(Abort(action=name) for name in fresh))
    for name in sorted(overdue, key=_order):
        if batch.at_unix_ms >= _deadline_of(state, name) + grace:
            return abandon(state, local, batch, name)
    return None


def abandon(state: State, local: Local, batch: Batch, name: str) -> Move | None:
    """Stop waiting for a call; a child is never abandoned, since its journal can be ended."""
    if state.actions[name].child_run_id is not None:
        return None
    seen = Observation(outcome="indeterminate", error_class="abandoned", abandoned=True)
    add_outcome(batch, state, name, seen, ends=local.stop is not None)
    after = msgspec.structs.replace(
        local,
        calling=local.calling - {name},
        aborting=local.aborting - {name},
        scopes_due=True,
    )
    return Move(after, batch)


def dispatch_reserved(state: State, local: Local, pump: Pump) -> Move | None:
    """Dispatch what is reserved, as far as calls may run in parallel."""
    waiting = [action for action in state.open.values() if action.status == "reserved"]
    free = _free_slots(state)
    if not waiting or free < 1:
        return None
    batch = Batch(state, pump.now)
    chosen = waiting[:free]
    for action in chosen:
        add_dispatch(batch, state, Admitted(action.reserved, action.key, rule_of(state, action)))
    names = {action.name for action in chosen}
    return Move(msgspec.structs.replace(local, uncalled=local.uncalled | names), batch)


def _free_slots(state: State) -> int:
    running = sum(1 for action in state.open.values() if action.status == "dispatched")
    return state.envelope.rules.parallel_max - running


def add_dispatch(batch: Batch, state: State, item: Admitted) -> None:
    """Add the event that must be durable before the call crosses the boundary."""
    rule, policy = item.rule, state.policy
    deadline = policy.deadline_unix_ms
    if rule.child:
        deadline = max(0, deadline - state.envelope.rules.child_margin_ms)
    if rule.timeout_ms is not None:
        deadline = min(deadline, batch.at_unix_ms + rule.timeout_ms)
    lifetime = None if rule.lifetime_ms is None else batch.at_unix_ms + rule.lifetime_ms
    name = item.reserved.action
    batch.add(
        ActionDispatched(action=name, deadline_unix_ms=deadline, lifetime_until_unix_ms=lifetime),
        rule=rule,
        key=item.key,
    )
    if rule.child:
        batch.add(
            ChildCreated(
                action=name,
                child_run_id=child_run_id(state.run_id, name),
                deadline_unix_ms=deadline,
            ),
            key=item.key,
        )


def admit_proposals(state: State, local: Local, pump: Pump) -> Move | None:
    """Reserve what the budgets have room for, and answer the rest."""
    if not local.proposals:
        return None
    if all(isinstance(item, Ask) for item in local.proposals) and state.is_idle:
        question = local.proposals[0]
        text = question.question if isinstance(question, Ask) else ""
        return _stop(state, local, pump, "awaiting_input", text)
    batch = Batch(state, pump.now)
    admission = admit(state, local.proposals, batch.at_unix_ms)
    if state.envelope.scopes and admission.admitted:
        if local.scope is None:
            return None if local.asked_scope else _ask_scopes(state, local, admission)
        answer = local.scope
        limit = ScopeLimit(frozenset(answer.granted), answer.refused_by, answer.bound)
        admission = admit(state, local.proposals, batch.at_unix_ms, limit)
    if admission.waits:
        return None
    return _carry_out(state, local, batch, admission)


def _ask_scopes(state: State, local: Local, admission: Admission) -> Move:
    wanted = tuple((item.reserved.action, _scope_worst(item)) for item in admission.admitted)
    return Move(
        msgspec.structs.replace(local, asked_scope=True),
        commands=(ReserveScope(scopes=scope_ids(state), actions=wanted),),
    )


def _scope_worst(item: Admitted) -> Amounts:
    carve = item.reserved.carve
    if carve is None:
        return item.reserved.reserved
    # A child's whole carve is held in the wider budget, its own trace then needs nothing there.
    cost = item.rule.worst()
    return cost.plus(carve)


def _carry_out(state: State, local: Local, batch: Batch, admission: Admission) -> Move:
    for refused in admission.refused:
        batch.add(refused, rule=state.rule(refused.tool))
    if admission.terminal is not None:
        add_terminal(
            batch,
            state,
            admission.terminal,
            reason=f"refused: {admission.refused[0].tool}",
            violations=(admission.terminal,),
        )
        return Move(msgspec.structs.replace(local, proposals=None), batch)
    for item in admission.admitted:
        batch.add(item.reserved, rule=item.rule, key=item.key)
    chosen = admission.admitted[: max(0, _free_slots(state))]
    for item in chosen:
        add_dispatch(batch, state, item)
    after = msgspec.structs.replace(
        local,
        proposals=admission.rest or None,
        uncalled=local.uncalled | {item.reserved.action for item in chosen},
        asked_scope=False,
        scope=None,
        scopes_due=local.scopes_due or local.scope is not None,
    )
    return Move(after, batch)


def _stop(state: State, local: Local, pump: Pump, terminal: str, reason: str) -> Move:
    """Bind this worker to end the run between steps."""
    at = clamped(state, pump.now).at_unix_ms
    return Move(
        msgspec.structs.replace(
            local, stop=(terminal, reason), stop_since_unix_ms=at, proposals=None
        )
    )


def ask_planner(state: State, local: Local, pump: Pump) -> Move:
    """Ask the planner when it is its turn, else wait; the last row always has an answer."""
    rules = state.envelope.rules
    at = clamped(state, pump.now).at_unix_ms
    idle = state.is_idle
    if idle and local.proposals == ():
        return _stop(state, local, pump, "input_exhausted", PLANNER_IS_DONE)
    if idle and not local.proposals and at >= state.policy.deadline_unix_ms:
        return _stop(state, local, pump, "deadline_exceeded", "between steps")
    turn = idle or (rules.planning == "after_each" and _free_slots(state) > 0)
    if turn and local.proposals is None and not local.proposing:
        return Move(msgspec.structs.replace(local, proposing=True), commands=(Propose(),))
    return Move(local, commands=(Wait(until_unix_ms=_next_time(state, local)),))


def _next_time(state: State, local: Local) -> int | None:
    """Return when something is due without anything coming in, or None."""
    rules = state.envelope.rules
    times = [state.policy.deadline_unix_ms] if local.proposing or local.proposals else []
    for name in local.calling:
        grace = rules.shutdown_ms if name in local.aborting else 0
        times.append(_deadline_of(state, name) + grace)
    for action in state.open.values():
        if action.status == "unresolved" or action.name not in local.calling:
            times.append(state.policy.deadline_unix_ms)
        if action.answers and action.name not in local.reconciling:
            times.append(action.asked_at_unix_ms + rules.reconcile_after_ms)
    ahead = [time for time in times if time > state.last_at_unix_ms]
    return min(ahead, default=None)
