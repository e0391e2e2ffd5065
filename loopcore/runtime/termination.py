"""How a run ends: the one receipt, and who has to act next.

Theory of operation: a terminal is committed when nothing is left that could still change what the
receipt says: no reservation unsettled, no dispatch unrecorded, no child running. An effect that
nobody knows does not hold the run up; it is named in the receipt, adds the reconciliation worker to
the owners and counts as `indeterminate_effect` for resumability, whatever terminal won.

Source: spec runtime, sections 2, 4 and 5; spec evaluator, section 4.
"""

from __future__ import annotations

from collections.abc import Sequence

import msgspec

from loopcore.canonical import digest
from loopcore.runtime.drafting import Batch
from loopcore.runtime.payloads import OpenEffect, RunReceipt, TerminalCommitted
from loopcore.runtime.state import Action, State
from loopcore.terminals import FACTS, Resumable, TerminalFact, disposition

OPEN_EFFECT = "indeterminate_effect"
FINDINGS_MAX = 64


def open_effects(state: State) -> tuple[OpenEffect, ...]:
    """Return every dispatch whose effect nobody knows, in the order of their dispatch."""
    return tuple(
        OpenEffect(
            action=action.name,
            identity=action.reserved.identity,
            idempotency_key=action.key,
            tool=action.reserved.tool,
        )
        for action in state.actions.values()
        if action.status == "unresolved"
    )


def add_terminal(
    batch: Batch,
    state: State,
    terminal: str,
    *,
    reason: str,
    violations: Sequence[str] = (),
    on_step: int | None = None,
) -> None:
    """Add the event that ends the run.

    Arguments:
        on_step: the step that decided it, None where the run ends between steps.
    """
    unknown = open_effects(state)
    fired = (*violations, OPEN_EFFECT) if unknown else tuple(violations)
    fact = disposition(terminal, fired)
    own = disposition(terminal, tuple(violations))
    owners = [own.next_owner]
    if fact.next_owner not in owners:
        owners.append(fact.next_owner)
    receipt = RunReceipt(
        run_id=state.run_id,
        policy_sha256=state.policy_sha256 or "",
        terminal=terminal,
        terminal_class=fact.terminal_class,
        violations=tuple(violations),
        on_step=on_step,
        reason=reason[:1_024],
        usage=state.progress.usage(),
        uncommitted=state.uncommitted.plus(state.late),
        accounting="complete" if state.complete else "incomplete",
        verified_progress_steps=state.progress.verified_progress_steps,
        final_state_sha256=state.state_sha256,
        completion_receipt_sha256=state.proof if terminal == "completed" else None,
        open_effects=unknown,
        findings=(*state.findings, *contradictions(state))[:FINDINGS_MAX],
        next_owners=tuple(owners),
        resumable=fact.resumable,
        ended_at_unix_ms=batch.at_unix_ms,
    )
    receipt = msgspec.structs.replace(receipt, receipt_sha256=digest(receipt))
    batch.add(TerminalCommitted(receipt=receipt))


def resumable_now(state: State) -> Resumable:
    """Return whether a run with a terminal may be resumed as it stands, by the terminal table.

    An effect that was reconciled since no longer counts; one that is open always does.
    """
    receipt = state.receipt
    if receipt is None:
        return "yes"
    if any(action.status == "unresolved" for action in state.actions.values()):
        return "after_reconciliation"
    fired = {receipt.terminal, *receipt.violations} - {OPEN_EFFECT}
    facts: list[TerminalFact] = [FACTS[name] for name in fired]
    found = {fact.resumable for fact in facts}
    strictest: Resumable = "yes"
    if "no" in found:
        strictest = "no"
    elif "with_new_hypothesis" in found:
        strictest = "with_new_hypothesis"
    return strictest


def contradictions(state: State) -> tuple[str, ...]:
    """Return where children that were given the same task reported different outputs.

    It is a finding for the parent to look at. Nothing is decided by counting children.
    """
    seen: dict[str, tuple[str, str | None]] = {}
    found: list[str] = []
    for name in state.children:
        action: Action = state.actions[name]
        if action.observed is None or action.outcome != "succeeded":
            continue
        task, output = action.reserved.payload_sha256, action.observed.output_sha256
        first = seen.setdefault(task, (name, output))
        if first[1] != output:
            found.append(f"children of {first[0]} and {name} contradict each other")
    return tuple(found)
