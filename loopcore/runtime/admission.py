"""Which proposals are reserved, which are refused, and which wait.

Theory of operation: each proposal is first checked against the envelope and the journal, which no
budget can change (`_checked`), then the ones that pass are admitted in order while the total of
what was charged, what is reserved and what this batch already took stays within every bound.

- Something is admitted: it is reserved, and the rest is refused uncharged in the same append.
- Nothing is admitted for want of budget: it waits while anything is outstanding, because a
  settlement may make room; with nothing outstanding it is refused together with the terminal.
- Nothing is admitted for other reasons: it is answered, and such answers in a row are bounded.

Choices: a batch of which nothing is admitted waits as one action does. A repeated proposal of a
call that succeeded is answered from the journal (`duplicate`); one whose effect is open waits for
its reconciliation. A child that asks for more than the remainder is answered, it ends nothing.

Source: spec runtime, section 2.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import msgspec

from loopcore.canonical import digest
from loopcore.models import Terminal
from loopcore.runtime.amounts import BOUNDS, NOTHING, Amounts, exceeded
from loopcore.runtime.envelope import FINISH, FINISH_RULE, ToolRule, arguments_object
from loopcore.runtime.invocations import Known, Standing, batch_member, idempotency_key, identify
from loopcore.runtime.messages import Act, Finish, Proposal
from loopcore.runtime.payloads import (
    TEXT_CHARACTERS_MAX,
    ActionRefused,
    ActionReserved,
    RefusalCode,
)
from loopcore.runtime.state import State

# How a proposal is answered whose invocation the journal knows; None where it may be reserved.
# One that is open here is open in the same batch: its twin is what was asked for.
ANSWERS: dict[Standing, RefusalCode | None] = {
    "new": None,
    "retry": None,
    "open": "duplicate",
    "duplicate": "duplicate",
    "key_conflict": "key_conflict",
    "incident": "incident",
}


class Admitted(NamedTuple):
    """An action that may be reserved, with its key and what is declared of its tool."""

    reserved: ActionReserved
    key: str
    rule: ToolRule


class Admission(NamedTuple):
    """The answer to a batch; `waits`: nothing may be appended for it now."""

    admitted: tuple[Admitted, ...] = ()
    refused: tuple[ActionRefused, ...] = ()
    rest: tuple[Proposal, ...] = ()
    waits: bool = False
    terminal: Terminal | None = None


class ScopeLimit(NamedTuple):
    """What the wider budgets granted of a batch, and which of them refused the next action."""

    granted: frozenset[str]
    refused_by: str | None
    bound: str | None


def admit(
    state: State, proposals: Sequence[Proposal], at_unix_ms: int, scope: ScopeLimit | None = None
) -> Admission:
    """Return what becomes of proposals at this time; nothing has changed.

    Arguments:
        scope: the answer of the wider budgets, where the run has any and they were asked.
    """
    acts = [item for item in proposals if isinstance(item, Act)]
    others = tuple(item for item in proposals if not isinstance(item, Act))
    if not acts:
        return _admit_finish(state, others, at_unix_ms)
    checked = _checked(state, acts)
    ready, answered = checked.ready, list(checked.answered)
    admitted, over = _within_budget(state, ready, at_unix_ms, scope)
    rest = (*checked.waiting, *others)
    if over and not admitted:
        if state.open:
            return Admission(rest=tuple(proposals), waits=True)
        first = msgspec.structs.replace(over[0], ends_run=True)
        return Admission(refused=(first, *over[1:], *answered), rest=others, terminal=first.bound)
    refused = [*over, *answered]
    if refused and not admitted:
        refused[0] = msgspec.structs.replace(refused[0], counts=True)
    return Admission(
        admitted=tuple(admitted),
        refused=tuple(refused),
        rest=rest,
        waits=not admitted and not refused,
    )


class _Checked(NamedTuple):
    ready: list[Admitted]
    answered: list[ActionRefused]
    waiting: list[Proposal]


def _checked(state: State, acts: Sequence[Act]) -> _Checked:
    """Sort proposals by what envelope and journal say of them."""
    checked = _Checked([], [], [])
    batch: dict[str, Known] = {}
    children = 0
    for place, act in enumerate(acts):
        rule = state.rule(act.tool)
        if place >= state.envelope.rules.batch_max:
            checked.answered.append(_answer(act, rule, "batch_too_large", "too many at once"))
            continue
        refusal = _unauthorised(state, act, rule)
        if refusal is not None or rule is None:
            checked.answered.append(refusal or _answer(act, rule, "unknown_tool", act.tool))
            continue
        found = identify(state, batch, act, rule)
        if found.standing == "open" and found.identity not in batch:
            checked.waiting.append(act)
            continue
        code = ANSWERS[found.standing]
        if code is not None:
            checked.answered.append(_answer(act, rule, code, code, of_action=found.of_action))
            continue
        refusal = _child_refusal(state, act, rule, children)
        if refusal is not None:
            checked.answered.append(refusal)
            continue
        children += rule.child
        name = f"a{len(state.actions) + len(checked.ready) + 1}"
        reserved = ActionReserved(
            action=name,
            kind=rule.kind,
            tool=act.tool,
            arguments=act.arguments,
            action_sha256=action_digest(state, rule, found.payload_sha256, retry=found.retry),
            identity=found.identity,
            payload_sha256=found.payload_sha256,
            logical=found.logical,
            occurrence=found.occurrence,
            attempt=found.attempt,
            retry=found.retry,
            reserved=_worst(act, rule),
            carve=act.carve,
        )
        batch[found.identity] = batch_member(reserved)
        key = idempotency_key(found.identity, found.attempt)
        checked.ready.append(Admitted(reserved, key, rule))
    return checked


def _worst(act: Act, rule: ToolRule) -> Amounts:
    worst = rule.worst()
    if act.carve is None:
        return worst
    return worst.plus(Amounts(cost_microunits=act.carve.cost_microunits))


def action_digest(state: State, rule: ToolRule, payload_sha256: str, *, retry: int) -> str:
    """Return the digest of the semantic action.

    The state that it is taken on is part of it: the same call on another state is another action.
    So is the number of infrastructure failures before it, which are no repetition.

    Source: spec evaluator, section 1 (`action_sha256`); spec runtime, section 2 (Choices).
    """
    return digest(
        [
            "loopcore/action/1",
            rule.kind,
            rule.name,
            payload_sha256,
            state.state_sha256,
            state.policy.evaluator_release,
            retry,
        ]
    )


def _unauthorised(state: State, act: Act, rule: ToolRule | None) -> ActionRefused | None:
    """Return the refusal of a call that the envelope does not permit, or None."""
    if rule is None or act.tool == FINISH:
        return _answer(act, rule, "unknown_tool", f"there is no tool {act.tool[:128]!a}")
    too_long = len(act.arguments) > TEXT_CHARACTERS_MAX
    arguments = None if too_long else arguments_object(act.arguments)
    if arguments is None:
        return _answer(act, rule, "bad_parameters", "the arguments are no JSON object")
    if rule.parameters is not None:
        strange = sorted(set(arguments) - set(rule.parameters))
        if strange:
            return _answer(act, rule, "bad_parameters", f"no parameter {strange[0][:128]!a}")
    for grant in state.envelope.grants:
        if grant.tool == act.tool and grant.covers(arguments):
            return None
    return _answer(act, rule, "missing_authority", "no grant covers this call")


def _child_refusal(state: State, act: Act, rule: ToolRule, in_batch: int) -> ActionRefused | None:
    """Return the refusal of a child run that has no place in this run, or None."""
    rules = state.envelope.rules
    if not rule.child:
        if act.carve is not None:
            return _answer(act, rule, "carve", "only a child run has a budget of its own")
        return None
    if state.depth + 1 > rules.depth_max:
        return _answer(act, rule, "too_deep", f"depth {state.depth + 1}")
    if len(state.children) + in_batch + 1 > rules.children_max:
        return _answer(act, rule, "too_many_children", f"{len(state.children)} already")
    if act.carve is None or act.carve.steps < 1:
        return _answer(act, rule, "carve", "a child run needs a budget with at least one step")
    used = state.charged.plus(state.outstanding).plus(rule.worst())
    for bound in BOUNDS:
        limit: int | None = getattr(state.policy, bound.field)
        left = None if limit is None else limit - used.value(bound.member)
        if left is not None and act.carve.value(bound.member) > left:
            return _answer(act, rule, "carve", f"{bound.member}: {max(0, left)} are left")
    return None


def _within_budget(
    state: State, ready: Sequence[Admitted], at_unix_ms: int, scope: ScopeLimit | None
) -> tuple[list[Admitted], list[ActionRefused]]:
    """Admit in order up to the first action for which some budget has no room."""
    total = state.charged.plus(state.outstanding)
    # What stands beside the trace, so that a refusal can be judged from the trace.
    aside = state.uncommitted.plus(state.late)
    if state.envelope.rules.batch == "whole" and scope is None:
        whole = NOTHING
        for item in ready:
            whole = whole.plus(item.reserved.reserved)
        over = exceeded(state.policy, total.plus(whole), at_unix_ms)
        if over:
            return [], [
                _over(item, over[0], beside=aside.plus(whole.minus(item.reserved.reserved)))
                for item in ready
            ]
    admitted: list[Admitted] = []
    for place, item in enumerate(ready):
        after = total.plus(item.reserved.reserved)
        over = exceeded(state.policy, after, at_unix_ms)
        if over:
            return admitted, [_over(late, over[0], beside=aside) for late in ready[place:]]
        if scope is not None and item.reserved.action not in scope.granted:
            if scope.refused_by is None:
                break
            refused = [
                msgspec.structs.replace(
                    _over(late, _as_terminal(scope.bound), beside=aside), scope=scope.refused_by
                )
                for late in ready[place:]
            ]
            return admitted, refused
        admitted.append(item)
        total = after
    return admitted, []


def _as_terminal(name: str | None) -> Terminal:
    for bound in BOUNDS:
        if bound.terminal == name:
            return bound.terminal
    return "deadline_exceeded"


def _over(item: Admitted, bound: Terminal, *, beside: Amounts) -> ActionRefused:
    reserved = item.reserved
    return ActionRefused(
        kind=reserved.kind,
        tool=reserved.tool,
        action_sha256=reserved.action_sha256,
        code="budget",
        reason=bound,
        reserved=reserved.reserved,
        beside=beside,
        bound=bound,
    )


def _answer(
    act: Act, rule: ToolRule | None, code: RefusalCode, reason: str, of_action: str | None = None
) -> ActionRefused:
    return ActionRefused(
        kind="tool_call" if rule is None else rule.kind,
        tool=act.tool[:256] or "?",
        action_sha256=digest(["loopcore/refused/1", act.tool, act.arguments, act.key]),
        code=code,
        reason=reason[:1_024],
        of_action=of_action,
    )


def _long_claim(rule: ToolRule) -> ActionRefused:
    return ActionRefused(
        kind="finish",
        tool=FINISH,
        action_sha256=digest(["loopcore/refused/1", rule.name]),
        code="bad_parameters",
        reason=f"a claim has at most {TEXT_CHARACTERS_MAX} characters",
        counts=True,
    )


def _admit_finish(state: State, others: tuple[Proposal, ...], at_unix_ms: int) -> Admission:
    """Admit a finish when nothing is reserved, unresolved or open; until then it waits."""
    finish = next((item for item in others if isinstance(item, Finish)), None)
    if finish is None or state.open:
        return Admission(rest=others, waits=True)
    rule = state.rule(FINISH) or FINISH_RULE
    if len(finish.claim) > TEXT_CHARACTERS_MAX:
        return Admission(refused=(_long_claim(rule),))
    payload = digest(["loopcore/claim/1", finish.claim])
    name = f"a{len(state.actions) + 1}"
    identity = digest(["loopcore/finish/1", state.lineage, name])
    reserved = ActionReserved(
        action=name,
        kind="finish",
        tool=FINISH,
        arguments=finish.claim,
        action_sha256=action_digest(state, rule, payload, retry=0),
        identity=identity,
        payload_sha256=payload,
        logical=identity,
        occurrence=1,
        attempt=1,
        retry=0,
        reserved=rule.worst(),
    )
    item = Admitted(reserved, idempotency_key(identity, 1), rule)
    over = exceeded(state.policy, state.charged.plus(reserved.reserved), at_unix_ms)
    if over:
        refused = _over(item, over[0], beside=state.uncommitted.plus(state.late))
        ending = msgspec.structs.replace(refused, ends_run=True)
        return Admission(refused=(ending,), terminal=over[0])
    return Admission(admitted=(item,))
