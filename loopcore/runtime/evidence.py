"""Which evidence counts: trusted issuer, right release, this run, fresh, and not seen before.

Theory of operation: one row a reason, tested in order; the first that applies rejects the piece.
Rejected evidence is journalled with its reason and is no part of the step.

Choices: without a list of issuers a tool may attest its own calls and nothing else. Evidence that
names a state counts only for that state.

Source: spec runtime, section 2, step 5.
"""

from __future__ import annotations

from collections.abc import Sequence

from loopcore.canonical import digest
from loopcore.models import EVIDENCE_PER_STEP_MAX
from loopcore.runtime.envelope import ToolRule
from loopcore.runtime.payloads import EvidenceReceipt, EvidenceValidated, Rejected
from loopcore.runtime.state import State


def validated(
    state: State,
    action: str,
    rule: ToolRule,
    evidence: Sequence[EvidenceReceipt],
    *,
    state_after: str,
    at_unix_ms: int,
) -> EvidenceValidated:
    """Return which pieces of evidence of an action count from now on."""
    accepted: list[str] = []
    rejected: list[Rejected] = []
    for piece in evidence:
        name = digest(piece)
        reason = _reason(state, rule, piece, state_after, at_unix_ms)
        if reason is None and (name in state.evidence_seen or name in accepted):
            reason = "seen before"
        if reason is None and len(accepted) >= EVIDENCE_PER_STEP_MAX:
            reason = "too much evidence in one step"
        if reason is None:
            accepted.append(name)
        else:
            rejected.append(Rejected(sha256=name, reason=reason))
    return EvidenceValidated(action=action, accepted=tuple(accepted), rejected=tuple(rejected))


def _reason(
    state: State, rule: ToolRule, piece: EvidenceReceipt, state_after: str, at_unix_ms: int
) -> str | None:
    """Return why a piece does not count, or None."""
    rules = state.envelope.rules
    trusted = (rule.name,) if rules.evidence_issuers is None else rules.evidence_issuers
    if piece.issuer not in trusted:
        return "issuer is not trusted"
    if piece.release != rule.release:
        return "another release"
    if piece.scope != state.lineage:
        return "made for another run"
    age = rules.evidence_age_ms_max
    if age is not None and piece.issued_at_unix_ms < at_unix_ms - age:
        return "too old"
    if piece.state_sha256 is not None and piece.state_sha256 != state_after:
        return "taken on another state"
    return None
