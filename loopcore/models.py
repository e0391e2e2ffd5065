"""The values on the wire: Policy, Step, Trace, Receipt. Frozen, closed, and in table order.

The order of the fields below is the normative table order: it decides which of several defects of
one object is reported. Bounds of a single field are stated here once; relations between fields are
rows of `POLICY_RELATIONS` in `loopcore.decoding`. A constructor does not validate, only decoding
does, so build values from documents through `loopcore.decoding`.

Source: spec evaluator, sections 1 and 5.
"""

from __future__ import annotations

from typing import Annotated, Literal

import msgspec

from loopcore.canonical import INTEGER_MAX

STEPS_MAX = 1_000_000
EVIDENCE_PER_STEP_MAX = 64
DIGEST_LENGTH = 64

# A pattern would accept a trailing newline and cost more than all other checks together, so the
# alphabet of digests is tested for a whole document at once (`loopcore.decoding`).
Digest = Annotated[str, msgspec.Meta(min_length=DIGEST_LENGTH, max_length=DIGEST_LENGTH)]
Count = Annotated[int, msgspec.Meta(ge=0, le=INTEGER_MAX)]
Positive = Annotated[int, msgspec.Meta(ge=1, le=INTEGER_MAX)]
RepeatLimit = Annotated[int, msgspec.Meta(ge=2, le=INTEGER_MAX)]
CycleLength = Annotated[int, msgspec.Meta(ge=2, le=16)]
CycleRepeats = Annotated[int, msgspec.Meta(ge=2, le=8)]

Release = Literal["loopcore-reference/1", "loopcore-extended/1"]
ActionKind = Literal["model_generation", "tool_call", "verification", "repair", "finish", "wait"]
Outcome = Literal["succeeded", "failed", "indeterminate"]
Terminal = Literal[
    "deadline_exceeded",
    "step_budget_exhausted",
    "model_budget_exhausted",
    "tool_budget_exhausted",
    "repair_budget_exhausted",
    "cost_budget_exhausted",
    "input_token_budget_exhausted",
    "output_token_budget_exhausted",
    "evidence_budget_exhausted",
    "indeterminate_effect",
    "completed",
    "invalid_completion",
    "repeated_action",
    "nonproductive_cycle",
    "no_progress",
    "input_exhausted",
]


class Policy(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """The immutable contract of a run; its digest names it, so another bound is another policy."""

    schema: Literal["loopcore/policy/1"]
    policy_id: Annotated[str, msgspec.Meta(min_length=1, max_length=128)]
    evaluator_release: Release
    run_envelope_sha256: Digest
    behavior_spec_sha256: Digest
    initial_state_sha256: Digest
    started_at_unix_ms: Count
    deadline_unix_ms: Count
    max_steps: Positive
    max_model_calls: Count
    max_tool_calls: Count
    max_repairs: Count
    max_cost_microunits: Count
    max_consecutive_no_progress: Positive
    max_consecutive_repeated_actions: RepeatLimit
    max_input_tokens: Count | None
    max_output_tokens: Count | None
    max_evidence_receipts: Count | None
    max_cycle_length: CycleLength | None
    cycle_repeats: CycleRepeats | None


class Step(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """One finished action: what it was, what it changed, what it proved and what it consumed."""

    sequence: Count
    action_kind: ActionKind
    action_sha256: Digest
    state_before_sha256: Digest
    state_after_sha256: Digest
    new_evidence_receipt_sha256: Annotated[
        tuple[Digest, ...], msgspec.Meta(max_length=EVIDENCE_PER_STEP_MAX)
    ]
    outcome: Outcome
    completed_at_unix_ms: Count
    model_calls_delta: Count
    tool_calls_delta: Count
    repairs_delta: Count
    cost_microunits_delta: Count
    input_tokens_delta: Count
    output_tokens_delta: Count
    completion_receipt_sha256: Digest | None


class Trace(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A policy and the steps that were taken under it."""

    schema: Literal["loopcore/trace/1"]
    policy: Policy
    steps: Annotated[tuple[Step, ...], msgspec.Meta(max_length=STEPS_MAX)]


class TraceHeader(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """The first line of a stream: a trace without its steps."""

    schema: Literal["loopcore/trace/1"]
    policy: Policy


class Usage(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Totals of a run; each fresh evidence digest is counted once."""

    steps: Count
    model_calls: Count
    tool_calls: Count
    repairs: Count
    cost_microunits: Count
    input_tokens: Count
    output_tokens: Count
    evidence_receipts: Count


class Receipt(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """The verdict on a trace, bound to the digests of its policy and steps and to itself."""

    schema: Literal["loopcore/receipt/1"]
    evaluator_release: Release
    policy_sha256: Digest
    steps_sha256: Digest
    terminal: Terminal
    terminal_sequence: Count | None
    violations: tuple[Terminal, ...]
    usage: Usage
    verified_progress_steps: Count
    final_state_sha256: Digest
    completion_receipt_sha256: Digest | None
    started_at_unix_ms: Count
    ended_at_unix_ms: Count
    receipt_sha256: Digest
