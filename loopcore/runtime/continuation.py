"""A run with a terminal goes on under a new policy, once, and only as its terminal permits.

Theory of operation: permission is an event in the old journal (`run_resumed`), appended by
compare-and-swap and at most once; the new run's first event names it. The new run's state is the
fold of both journals, so counters, streaks, detector memory, identities and open charges are all
there. The new policy bounds the whole chain: it keeps the old start and may only be looser, so no
step of the old run would have ended it earlier.

Choices: a bound that is stricter than the old one is refused, because what it would have done to
the old steps is no longer the run's choice. From `no_progress` and `nonproductive_cycle` the
new hypothesis or evidence is named *and* the bound that fired is looser.

Source: spec runtime, section 4; spec evaluator, section 4 (terminal table) and E05.
"""

from __future__ import annotations

import msgspec

from loopcore.canonical import INTEGER_MAX, digest
from loopcore.errors import LoopcoreError
from loopcore.models import Policy
from loopcore.runtime.amounts import exceeded
from loopcore.runtime.drafting import Batch, Stamp, creation
from loopcore.runtime.envelope import Envelope
from loopcore.runtime.payloads import (
    LeaseAcquired,
    LeaseReleased,
    Resumes,
    RunCreated,
    RunResumed,
)
from loopcore.runtime.state import State
from loopcore.runtime.termination import resumable_now
from loopcore.store.journal import EMPTY_HEAD, Event, chain

# The bounds of a policy that a larger number loosens.
_LOOSER_WHEN_LARGER = (
    "deadline_unix_ms",
    "max_steps",
    "max_model_calls",
    "max_tool_calls",
    "max_repairs",
    "max_cost_microunits",
    "max_consecutive_no_progress",
    "max_consecutive_repeated_actions",
    "max_input_tokens",
    "max_output_tokens",
    "max_evidence_receipts",
    "cycle_repeats",
)


class ResumptionRefused(LoopcoreError):
    """The terminal, or the new policy, does not permit that the run goes on."""

    def __init__(self, run_id: str, reason: str) -> None:
        super().__init__(f"run {run_id} may not be resumed: {reason}")
        self.run_id = run_id
        self.reason = reason


def continued(old: State, policy: Policy) -> Policy:
    """Return the policy with the start of the chain that it goes on with."""
    return msgspec.structs.replace(
        policy,
        initial_state_sha256=old.policy.initial_state_sha256,
        started_at_unix_ms=old.policy.started_at_unix_ms,
    )


def check_resumable(old: State, policy: Policy, *, hypothesis: str | None, now: Stamp) -> None:
    """Raise ResumptionRefused where the terminal table or the new policy forbids going on."""
    receipt = old.receipt
    if receipt is None:
        raise ResumptionRefused(old.run_id, "it has no terminal, so its own policy continues")
    permitted = resumable_now(old)
    if permitted == "no":
        raise ResumptionRefused(old.run_id, f"{receipt.terminal} is final")
    if permitted == "after_reconciliation":
        raise ResumptionRefused(old.run_id, "an effect has yet to be reconciled")
    if permitted == "with_new_hypothesis" and not hypothesis:
        raise ResumptionRefused(old.run_id, "no new hypothesis or evidence is named")
    if digest(policy) == old.policy_sha256:
        raise ResumptionRefused(old.run_id, "the policy is the old one")
    if policy.evaluator_release != old.policy.evaluator_release:
        raise ResumptionRefused(old.run_id, "the precedence is another release's")
    for field in _LOOSER_WHEN_LARGER:
        if _limit(policy, field) < _limit(old.policy, field):
            raise ResumptionRefused(old.run_id, f"{field} is stricter than before")
    if _cycle_length(policy) > _cycle_length(old.policy):
        raise ResumptionRefused(old.run_id, "max_cycle_length is stricter than before")
    still = _still_fires(old, policy, max(now.at_unix_ms, old.last_at_unix_ms))
    if still is not None:
        raise ResumptionRefused(old.run_id, f"{still} would end it again at once")


def _limit(policy: Policy, field: str) -> int:
    value: int | None = getattr(policy, field)
    return INTEGER_MAX + 1 if value is None else value


def _cycle_length(policy: Policy) -> int:
    return policy.max_cycle_length or 0


def _still_fires(old: State, policy: Policy, at_unix_ms: int) -> str | None:
    """Return a rule that the old counters break under the new policy as well, or None."""
    progress = old.progress
    over = exceeded(policy, old.charged, at_unix_ms)
    if over:
        return over[0]
    if progress.same >= policy.max_consecutive_repeated_actions:
        return "repeated_action"
    if progress.idle >= policy.max_consecutive_no_progress:
        return "no_progress"
    fired = old.receipt.violations if old.receipt is not None else ()
    same_cycles = (policy.max_cycle_length, policy.cycle_repeats) == (
        old.policy.max_cycle_length,
        old.policy.cycle_repeats,
    )
    return "nonproductive_cycle" if "nonproductive_cycle" in fired and same_cycles else None


def permission(
    old: State, *, new_run_id: str, policy: Policy, hypothesis: str | None, by: str, now: Stamp
) -> tuple[Event, ...]:
    """Return the append to the old journal that permits exactly one successor.

    Raises ResumptionRefused as `check_resumable`, and where another successor is permitted already.
    """
    check_resumable(old, policy, hypothesis=hypothesis, now=now)
    if old.resumed is not None:
        raise ResumptionRefused(old.run_id, f"{old.resumed.new_run_id} continues it already")
    receipt_sha256 = "" if old.receipt is None else old.receipt.receipt_sha256
    batch = Batch(old, now)
    batch.add(LeaseAcquired(owner=by, duration_ms=old.envelope.rules.lease_ms))
    batch.add(
        RunResumed(
            new_run_id=new_run_id,
            new_policy_sha256=digest(policy),
            receipt_sha256=receipt_sha256,
            by=by,
            hypothesis=hypothesis,
        )
    )
    batch.add(LeaseReleased(owner=by))
    return batch.events()


def successor(old: State, *, policy: Policy, envelope: Envelope, now: Stamp) -> tuple[Event, ...]:
    """Return the opening of the run that an old journal permits.

    Raises ResumptionRefused where it permits none, or one under another policy.
    """
    permit, receipt = old.resumed, old.receipt
    if permit is None or receipt is None or old.resumed_sha256 is None:
        raise ResumptionRefused(old.run_id, "nothing in its journal permits it")
    if permit.new_policy_sha256 != digest(policy):
        raise ResumptionRefused(old.run_id, f"{permit.new_run_id} continues it already")
    created = RunCreated(
        policy=policy,
        envelope=envelope,
        lineage=old.lineage,
        depth=old.depth,
        parent=old.parent,
        resumes=Resumes(
            run_id=old.run_id,
            receipt_sha256=receipt.receipt_sha256,
            run_resumed_sha256=old.resumed_sha256,
        ),
    )
    stamp = Stamp(at_unix_ms=max(now.at_unix_ms, old.last_at_unix_ms), clock=now.clock)
    draft = creation(created, run_id=permit.new_run_id, state_sha256=old.state_sha256, stamp=stamp)
    return chain(EMPTY_HEAD, (draft,))
