"""What is journalled of an outcome: observation, evidence, settlement and step, in one append.

Theory of operation: the first definitive outcome or reconciliation is the outcome; everything later
is recorded and changes nothing. An indeterminate outcome is settled at once, at the larger of what
was measured and what was reserved, and becomes a step only when it is known what became of it, or
when the run ends on not knowing.

Choices: usage that is missing is charged as reserved and marks the accounting incomplete, unless
nothing was reserved for it and no model was called: then it is a true zero. When the run is bound
to end between steps (a cancel request, a controller's stop), an outcome still becomes a step unless
that step would end the run by itself; the run has ended before it then.

Source: spec runtime, sections 2, 3 and 5.
"""

from __future__ import annotations

import msgspec

from loopcore.canonical import digest
from loopcore.models import Outcome
from loopcore.runtime.amounts import Amounts, Measured
from loopcore.runtime.drafting import Batch
from loopcore.runtime.envelope import FINISH_RULE, ToolRule
from loopcore.runtime.evidence import validated
from loopcore.runtime.folding_actions import taken
from loopcore.runtime.messages import Finding, Observation
from loopcore.runtime.payloads import (
    EffectReconciled,
    EvidenceReceipt,
    FinishRefused,
    OutcomeObserved,
    ReservationSettled,
    SettledBecause,
    StateCommitted,
)
from loopcore.runtime.state import Action, State
from loopcore.runtime.usage import charge, is_complete


def rule_of(state: State, action: Action) -> ToolRule:
    """Return what is declared of an action's tool."""
    return state.rule(action.reserved.tool) or FINISH_RULE


def add_outcome(batch: Batch, state: State, name: str, seen: Observation, *, ends: bool) -> None:
    """Add everything that an observation of a call brings about; nothing where it is no news.

    Arguments:
        ends: the run is bound to end between steps.
    """
    action = state.actions[name]
    rule = rule_of(state, action)
    if rule.effect == "none" and seen.outcome == "indeterminate":
        # Without an effect there is nothing that could not be known: the call did not succeed.
        seen = msgspec.structs.replace(
            seen, outcome="failed", error_class=seen.error_class or "interrupted"
        )
    usage_late = state.receipt is not None
    late = action.outcome is not None or action.status == "dropped"
    if usage_late or late:
        contradicts = action.no_effect and seen.outcome == "succeeded"
        batch.add(
            msgspec.structs.replace(
                as_payload(name, seen), late=late, usage_late=usage_late, contradicts=contradicts
            ),
            rule=rule,
            key=action.key,
        )
        return
    if action.status == "unresolved" and seen.outcome == "indeterminate":
        return
    batch.add(as_payload(name, seen), rule=rule, key=action.key)
    definitive = seen.outcome != "indeterminate"
    state_after = (seen.state_sha256 if definitive else None) or state.state_sha256
    if action.reserved.kind == "finish":
        state_after = state.state_sha256
    pieces = seen.evidence
    if seen.completion is not None:
        pieces = (*(piece for piece in pieces if piece != seen.completion), seen.completion)
    accepted = add_evidence(batch, state, action, pieces, state_after) if definitive else ()
    after = msgspec.structs.replace(
        action,
        outcome=seen.outcome if definitive else None,
        observed=as_payload(name, seen),
        accepted=accepted,
    )
    if after.charged is None:
        after = _settle(
            batch, after, rule, seen.measured, because="outcome" if definitive else "indeterminate"
        )
    if definitive:
        if action.reserved.kind == "finish":
            after = _judge_finish(batch, state, after)
        add_step(batch, state, after, state_after, ends=ends)


def as_payload(name: str, seen: Observation) -> OutcomeObserved:
    """Return what the journal holds of an observation."""
    return OutcomeObserved(
        action=name,
        outcome=seen.outcome,
        measured=seen.measured,
        output=seen.output,
        output_sha256=seen.output_sha256,
        output_characters=seen.output_characters,
        state_sha256=seen.state_sha256,
        evidence=seen.evidence,
        completion=seen.completion,
        error_class=seen.error_class,
        abandoned=seen.abandoned,
        findings=seen.findings,
    )


def add_evidence(
    batch: Batch,
    state: State,
    action: Action,
    pieces: tuple[EvidenceReceipt, ...],
    state_after: str,
) -> tuple[str, ...]:
    """Add the verdict on evidence, where there is any; return what was accepted."""
    if not pieces:
        return ()
    verdict = validated(
        state,
        action.name,
        rule_of(state, action),
        pieces,
        state_after=state_after,
        at_unix_ms=batch.at_unix_ms,
    )
    batch.add(verdict)
    return verdict.accepted


def _settle(
    batch: Batch, action: Action, rule: ToolRule, measured: Measured, *, because: SettledBecause
) -> Action:
    """Add the settlement of a reservation; return the action as settled."""
    reserved = action.reserved.reserved
    complete = is_complete(reserved, measured)
    charged = charge(reserved, measured)
    if because == "indeterminate":
        charged = charged.at_least(reserved)
    batch.add(
        ReservationSettled(action=action.name, charged=charged, complete=complete, because=because),
        rule=rule,
        key=action.key,
    )
    return msgspec.structs.replace(action, charged=charged)


def add_zero(batch: Batch, action: Action, *, because: SettledBecause) -> None:
    """Add the settlement at zero of a reservation whose call never crossed the boundary."""
    batch.add(
        ReservationSettled(action=action.name, charged=Amounts(), complete=True, because=because),
        key=action.key,
    )


def _judge_finish(batch: Batch, state: State, action: Action) -> Action:
    """Add the refusal of a finish without a good receipt while refusals are left."""
    rules, observed = state.envelope.rules, action.observed
    if observed is None:
        return action
    fault = observed.error_class is not None
    completion = observed.completion
    proven = completion is not None and digest(completion) in action.accepted
    if observed.outcome == "succeeded" and proven and not fault:
        return action
    if not fault and state.finish_refusals >= rules.finish_refusals_max:
        return action
    reason = observed.error_class or "the verifier did not accept it"
    if observed.outcome == "succeeded":
        reason = "no receipt" if completion is None else "its receipt does not count"
    batch.add(FinishRefused(action=action.name, reason=reason, fault=fault), key=action.key)
    return msgspec.structs.replace(action, finish_refused=True)


def add_step(batch: Batch, state: State, action: Action, state_after: str, *, ends: bool) -> None:
    """Add the step that a settled action is, unless the run has ended before it."""
    ending = state.ending
    if ending is not None and ending.on_step is not None:
        return
    step = taken(action, state_after=state_after, at_unix_ms=batch.at_unix_ms)
    if (ending is not None or ends) and state.progress.judge(step).terminal is not None:
        return
    batch.add(
        StateCommitted(
            action=action.name,
            step=state.progress.total.steps + 1,
            state_before_sha256=state.state_sha256,
        ),
        rule=rule_of(state, action),
        key=action.key,
        state_sha256=state_after,
    )


def add_finding(batch: Batch, state: State, name: str, found: Finding, *, ends: bool) -> None:
    """Add everything that a reconciler's answer brings about.

    A "verified no effect" without a fence is journalled as still indeterminate, whoever says it.
    """
    action = state.actions[name]
    if not _is_verified(action, found, batch.at_unix_ms):
        found = msgspec.structs.replace(
            found,
            finding="still_indeterminate",
            fence=None,
            reason=f"no fence: {found.reason}"[:1_024],
        )
    late = action.status not in ("dispatched", "unresolved")
    if late and found.finding == "still_indeterminate":
        return
    rule = rule_of(state, action)
    batch.add(finding_payload(name, found, late=late), rule=rule, key=action.key)
    if late or state.receipt is not None or found.finding == "still_indeterminate":
        return
    no_effect = found.finding == "verified_no_effect"
    outcome: Outcome = "failed" if no_effect else "succeeded"
    state_after = found.state_sha256 or state.state_sha256
    accepted = add_evidence(batch, state, action, found.evidence, state_after)
    after = msgspec.structs.replace(action, outcome=outcome, accepted=accepted)
    if after.charged is None:
        after = _settle(batch, after, rule, found.measured, because="outcome")
    add_step(batch, state, after, state_after, ends=ends)


def finding_payload(name: str, found: Finding, *, late: bool = False) -> EffectReconciled:
    """Return what the journal holds of a reconciler's answer."""
    return EffectReconciled(
        action=name,
        finding=found.finding,
        reconciler=found.reconciler,
        reason=found.reason,
        fence=found.fence,
        measured=found.measured,
        output=found.output,
        state_sha256=found.state_sha256,
        evidence=found.evidence,
        late=late,
    )


def _is_verified(action: Action, found: Finding, at_unix_ms: int) -> bool:
    """Return whether an answer that no effect will happen is backed by a fence for this key."""
    if found.finding != "verified_no_effect":
        return True
    if found.fence is None or found.fence.key != action.key:
        return False
    if found.fence.kind == "key_refused":
        return True
    until = None if action.dispatched is None else action.dispatched.lifetime_until_unix_ms
    return until is not None and at_unix_ms >= until


def add_unknown(batch: Batch, state: State, action: Action, *, reason: str, step: bool) -> None:
    """Add that the run ends without knowing what became of a dispatch.

    Arguments:
        step: it becomes a step with the outcome `indeterminate`, which ends the run.
    """
    rule = rule_of(state, action)
    if action.status == "dispatched":
        seen = Observation(outcome="indeterminate", error_class=reason, abandoned=True)
        batch.add(as_payload(action.name, seen), rule=rule, key=action.key)
        action = msgspec.structs.replace(action, observed=as_payload(action.name, seen))
    if action.charged is None:
        action = _settle(batch, action, rule, Measured(), because="indeterminate")
    if step:
        add_step(batch, state, action, state.state_sha256, ends=False)


def add_completion(batch: Batch, state: State, action: Action) -> None:
    """Settle and commit an action whose definitive outcome stands in the journal already."""
    observed, reconciled = action.observed, action.reconciled
    if action.charged is None:
        measured = observed.measured if observed is not None else Measured()
        action = _settle(batch, action, rule_of(state, action), measured, because="outcome")
    after = observed.state_sha256 if observed is not None and reconciled is None else None
    if reconciled is not None:
        after = reconciled.state_sha256
    add_step(batch, state, action, after or state.state_sha256, ends=False)
