"""The trace that a journal tells, and whether runner and evaluator agree on it.

Theory of operation: `project` reads the events by themselves, without the fold that the runner
decides on: which actions were committed, what was observed or found out about each, what each was
settled at. `agreement` gives that trace to the reference evaluator and compares. So the runner's
own counters and rules are checked by a second statement of them, on every journal.

- A run that ended on a committed step has the evaluator's terminal, violations and usage.
- A run that ended between steps projects to `input_exhausted` with equal usage; where a refusal
  ended it, one further step with the refused action's worst case gives the runner's terminal.

Choices: of a chain of resumed runs the journals are given one after the other, and the trace is
that of the whole chain under the last policy; a finish of an earlier run that another terminal
overtook is a verification there, since it ended nothing. What a batch that is refused whole, or
usage that was reported too late for a step, holds beside the refused action counts with it. A
refusal by a budget wider than the run says nothing about the run's own policy.

Source: spec runtime, section 8.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

import msgspec

from loopcore.canonical import digest
from loopcore.errors import InputError
from loopcore.evaluator import evaluate
from loopcore.models import Outcome, Policy, Receipt, Step, Trace
from loopcore.runtime.amounts import NOTHING, Amounts, exceeded
from loopcore.runtime.payloads import (
    ActionRefused,
    ActionReserved,
    EffectReconciled,
    EvidenceReceipt,
    EvidenceValidated,
    FinishRefused,
    OutcomeObserved,
    ReservationSettled,
    RunCreated,
    RunReceipt,
    StateCommitted,
    TerminalCommitted,
    payload_of,
)
from loopcore.store.journal import Event, InvalidEvent


class Agreement(msgspec.Struct, frozen=True, kw_only=True):
    """Whether the evaluator says of a journal's trace what the runner said of the run.

    Fields:
        reason: in words. trace, receipt: what the evaluator was given, and its answer.
        further: its answer with the refused action as one further step, where a refusal ended it.
    """

    agrees: bool
    reason: str
    trace: Trace | None = None
    receipt: Receipt | None = None
    further: Receipt | None = None


class _Facts:
    """What the events say of one action."""

    __slots__ = ("charged", "completion", "evidence", "found", "outcome", "refused", "reserved")

    def __init__(self, reserved: ActionReserved) -> None:
        self.reserved = reserved
        self.outcome: Outcome = "indeterminate"
        self.found: Outcome | None = None
        self.charged = Amounts()
        self.evidence: tuple[str, ...] = ()
        self.completion: EvidenceReceipt | None = None
        self.refused = False


class _Reading:
    """A journal read for its trace."""

    def __init__(self) -> None:
        self.policy: Policy | None = None
        self.facts: dict[str, _Facts] = {}
        self.steps: list[Step] = []
        self.committed: list[str] = []
        self.receipt: RunReceipt | None = None
        self.refusal: tuple[ActionRefused, int] | None = None

    def take(self, event: Event) -> None:
        """Read one more event."""
        payload = payload_of(event)
        match payload:
            case RunCreated():
                self._begin(payload)
            case ActionReserved():
                self.facts[payload.action] = _Facts(payload)
            case ActionRefused() if payload.ends_run:
                self.refusal = (payload, event.at_unix_ms)
            case OutcomeObserved() if not payload.late and not payload.usage_late:
                facts = self.facts[payload.action]
                facts.outcome, facts.completion = payload.outcome, payload.completion
            case EffectReconciled() if payload.finding != "still_indeterminate":
                self._reconciled(payload)
            case EvidenceValidated():
                self.facts[payload.action].evidence = payload.accepted
            case ReservationSettled():
                self.facts[payload.action].charged = payload.charged
            case FinishRefused():
                self.facts[payload.action].refused = True
            case StateCommitted():
                self.steps.append(_step(self.facts[payload.action], payload, event))
                self.committed.append(payload.action)
            case TerminalCommitted():
                self.receipt = payload.receipt
            case _:
                pass

    def _begin(self, payload: RunCreated) -> None:
        """Take up a policy; what was found out since the last terminal now counts.

        A finish of an earlier run that another terminal overtook ended nothing.
        """
        self.policy, self.receipt, self.refusal = payload.policy, None, None
        for facts in self.facts.values():
            facts.outcome = facts.found or facts.outcome
        for place, name in enumerate(self.committed):
            step, found = self.steps[place], self.facts[name].found
            if found is not None and step.outcome == "indeterminate":
                step = msgspec.structs.replace(step, outcome=found)
            if step.action_kind == "finish":
                step = msgspec.structs.replace(
                    step, action_kind="verification", completion_receipt_sha256=None
                )
            self.steps[place] = step

    def _reconciled(self, payload: EffectReconciled) -> None:
        facts = self.facts[payload.action]
        if payload.late:
            return
        outcome: Outcome = "succeeded" if payload.finding == "verified_success" else "failed"
        if self.receipt is None:
            facts.outcome = outcome
        facts.found = outcome


def _step(facts: _Facts, committed: StateCommitted, event: Event) -> Step:
    """Return the step that an action is at the moment when it is committed."""
    charged, refused = facts.charged, facts.refused
    proof = None if facts.completion is None or refused else digest(facts.completion)
    return Step(
        sequence=committed.step,
        action_kind="verification" if refused else facts.reserved.kind,
        action_sha256=facts.reserved.action_sha256,
        state_before_sha256=committed.state_before_sha256,
        state_after_sha256=event.state_sha256 or "",
        new_evidence_receipt_sha256=facts.evidence,
        outcome="failed" if refused else facts.outcome,
        completed_at_unix_ms=event.at_unix_ms,
        model_calls_delta=charged.model_calls,
        tool_calls_delta=charged.tool_calls,
        repairs_delta=charged.repairs,
        cost_microunits_delta=charged.cost_microunits,
        input_tokens_delta=charged.input_tokens,
        output_tokens_delta=charged.output_tokens,
        completion_receipt_sha256=proof,
    )


def _read(journal: Iterable[Event]) -> _Reading:
    reading = _Reading()
    for event in journal:
        reading.take(event)
    return reading


def project(journal: Iterable[Event]) -> Trace:
    """Return the trace of a run, or of a chain of resumed runs given one after the other.

    Raises InvalidEvent for events that are no journal of a run. Linear in the events.
    """
    reading = _read(journal)
    if reading.policy is None:
        raise InvalidEvent("no run_created is among the events")
    return Trace(schema="loopcore/trace/1", policy=reading.policy, steps=tuple(reading.steps))


def agreement(journal: Iterable[Event]) -> Agreement:
    """Return whether the evaluator agrees with the run's terminal and usage.

    A run without a terminal agrees when its trace has none either, or reached it on the last step.
    """
    try:
        reading = _read(journal)
    except (InvalidEvent, KeyError) as error:
        return Agreement(agrees=False, reason=f"the journal does not project: {error}")
    if reading.policy is None:
        return Agreement(agrees=False, reason="the journal has no run")
    trace = Trace(schema="loopcore/trace/1", policy=reading.policy, steps=tuple(reading.steps))
    try:
        receipt = evaluate(trace.policy, trace.steps)
    except InputError as error:
        return Agreement(agrees=False, reason=error.message, trace=trace)
    further, wrong = None, None
    if reading.receipt is not None and reading.receipt.on_step is not None:
        wrong = _compare_on_step(receipt, reading.receipt)
    elif reading.receipt is not None:
        wrong = _compare_between(receipt, reading.receipt)
        refusal = reading.refusal
        if wrong is None and refusal is not None and refusal[0].scope is None:
            further, terminal = _further(trace.policy, trace.steps, receipt, *refusal)
            if terminal != reading.receipt.terminal:
                wrong = f"the refused action gives {terminal}"
    if wrong is not None and reading.receipt is not None:
        wrong = f"the runner says {reading.receipt.terminal}: {wrong}"
    return Agreement(
        agrees=wrong is None,
        reason=wrong or "runner and evaluator agree",
        trace=trace,
        receipt=receipt,
        further=further,
    )


def _compare_on_step(receipt: Receipt, run: RunReceipt) -> str | None:
    if (receipt.terminal, receipt.terminal_sequence) != (run.terminal, run.on_step):
        return f"the evaluator says {receipt.terminal} at step {receipt.terminal_sequence}"
    if receipt.violations != run.violations:
        return f"the evaluator's violations are {receipt.violations}"
    if receipt.completion_receipt_sha256 != run.completion_receipt_sha256:
        return "the evaluator names another completion receipt"
    return _compare_totals(receipt, run)


def _compare_between(receipt: Receipt, run: RunReceipt) -> str | None:
    if receipt.terminal != "input_exhausted":
        return f"the evaluator says {receipt.terminal}, where the run ended between steps"
    return _compare_totals(receipt, run)


def _compare_totals(receipt: Receipt, run: RunReceipt) -> str | None:
    if receipt.usage != run.usage:
        return f"the evaluator's usage is {receipt.usage}"
    if receipt.verified_progress_steps != run.verified_progress_steps:
        return f"the evaluator counts {receipt.verified_progress_steps} steps of progress"
    if receipt.final_state_sha256 != run.final_state_sha256:
        return "the evaluator's final state is another"
    return None


def _further(
    policy: Policy, steps: Sequence[Step], receipt: Receipt, refused: ActionRefused, at: int
) -> tuple[Receipt | None, str]:
    """Return the evaluator's answer with a refused action as one further, failed step.

    What stood beside the action has no step of its own, so there the bounds are summed instead.
    """
    worst = refused.reserved
    if refused.beside != NOTHING:
        total = _total(receipt).plus(worst).plus(refused.beside)
        return None, next(iter(exceeded(policy, total, at)), "input_exhausted")
    step = Step(
        sequence=len(steps) + 1,
        action_kind=refused.kind,
        action_sha256=refused.action_sha256,
        state_before_sha256=receipt.final_state_sha256,
        state_after_sha256=receipt.final_state_sha256,
        new_evidence_receipt_sha256=(),
        outcome="failed",
        completed_at_unix_ms=at,
        model_calls_delta=worst.model_calls,
        tool_calls_delta=worst.tool_calls,
        repairs_delta=worst.repairs,
        cost_microunits_delta=worst.cost_microunits,
        input_tokens_delta=worst.input_tokens,
        output_tokens_delta=worst.output_tokens,
        completion_receipt_sha256=None,
    )
    try:
        further = evaluate(policy, (*steps, step))
    except InputError as error:
        return None, f"no step at all ({error.code})"
    return further, further.terminal


def _total(receipt: Receipt) -> Amounts:
    usage = receipt.usage
    return Amounts(
        steps=usage.steps,
        model_calls=usage.model_calls,
        tool_calls=usage.tool_calls,
        repairs=usage.repairs,
        cost_microunits=usage.cost_microunits,
        input_tokens=usage.input_tokens,
        output_tokens=usage.output_tokens,
    )
