"""Traces as columns: row i holds step i of every trace, digests are small integers within a trace.

Theory of operation: the evaluator asks of digests only whether they are equal, so each trace
numbers its actions, its states and its evidence. Everything that decides is kept exactly; what
cannot matter is cut: a call's delta above 1 fits no kind, a sequence above 2^31 is no step's. Times
are counted from the policy's start. Arrays are as narrow as their values allow.

Evidence is ragged: most steps have little, some have much. Its entries are sorted by step, then by
place within the step, then by trace; `evidence_starts` says where each (step, place) begins. So
each place of a step is one slice in which no trace stands twice.

`columns_of` takes decoded traces: `malformed` and `invalid_policy` are the decoder's to find, and
a trace that has them never becomes columns.

Source: spec evaluator, sections 1 and 2; spec control, section 6.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import TypeAlias, cast

import numpy as np

from loopcore.batch.columns import UNKNOWN, Booleans, Int8s, Int16s, Int32s, Int64s
from loopcore.canonical import INTEGER_MAX
from loopcore.models import ActionKind, Outcome, Policy, Step
from loopcore.terminals import EXTENDED

# Integers of any width: the type that a checker sees, whatever the array holds.
Integers: TypeAlias = "Int16s | Int32s | Int64s"

KINDS: tuple[ActionKind, ...] = (
    "model_generation",
    "tool_call",
    "verification",
    "repair",
    "finish",
    "wait",
)
OUTCOMES: tuple[Outcome, ...] = ("succeeded", "failed", "indeterminate")
# A delta that fits no kind.
DELTA_CUT = 2
# A sequence that is no step's.
SEQUENCE_CUT = 2**31 - 1
# A completion receipt that no step's evidence names.
UNNAMED = -2

# Bounds that are totals; a null one is the largest total that there can be.
BOUNDS = (
    "max_steps",
    "max_model_calls",
    "max_tool_calls",
    "max_repairs",
    "max_cost_microunits",
    "max_input_tokens",
    "max_output_tokens",
    "max_evidence_receipts",
    "max_consecutive_repeated_actions",
    "max_consecutive_no_progress",
)


@dataclass(frozen=True, slots=True, kw_only=True)
class TraceColumns:
    """Steps of many traces, each array of shape (steps, traces) unless said otherwise.

    Fields:
        lengths: shape (traces,), steps of each trace; what follows them is never looked at.
        sequence: as it stands, cut at SEQUENCE_CUT. kind, outcome: index into KINDS, OUTCOMES.
        action: number of the action's digest. before, after: numbers of states, 0 the initial one.
        elapsed_ms: completed_at − started_at. proof: number of the completion receipt among the
            trace's evidence, UNNAMED when it is not there, UNKNOWN for null.
        model_calls, tool_calls, repairs: deltas, cut at DELTA_CUT. cost, input_tokens,
            output_tokens: deltas.
        evidence_trace, evidence: shape (entries,), the trace and the number of each entry.
        evidence_starts: shape (steps, places + 1), where each place of a step begins.
    """

    lengths: Int32s
    sequence: Integers
    kind: Int8s
    action: Integers
    before: Integers
    after: Integers
    outcome: Int8s
    elapsed_ms: Integers
    model_calls: Int8s
    tool_calls: Int8s
    repairs: Int8s
    cost: Integers
    input_tokens: Integers
    output_tokens: Integers
    proof: Integers
    evidence_trace: Int32s
    evidence: Integers
    evidence_starts: Int64s

    @property
    def steps(self) -> int:
        """The number of rows: steps of the longest trace."""
        return int(self.kind.shape[0])

    @property
    def traces(self) -> int:
        """The number of columns."""
        return int(self.kind.shape[1])


@dataclass(frozen=True, slots=True, kw_only=True)
class PolicyColumns:
    """The policies of the traces, each array of shape (traces,) unless said otherwise.

    Fields:
        extended: the release. deadline_ms: from the start.
        bounds: shape (BOUNDS, traces), INTEGER_MAX for null.
        cycle_length, cycle_repeats: 0 for null.
    """

    extended: Booleans
    deadline_ms: Int64s
    bounds: Int64s
    cycle_length: Int64s
    cycle_repeats: Int64s

    def bound(self, name: str) -> Int64s:
        """Return one of the BOUNDS."""
        return cast("Int64s", self.bounds[BOUNDS.index(name)])


def policies_of(policies: Sequence[Policy]) -> PolicyColumns:
    """Return the columns of decoded policies."""
    rows = [
        [
            policy.deadline_unix_ms - policy.started_at_unix_ms,
            policy.max_cycle_length or 0,
            policy.cycle_repeats or 0,
            *_bounds(policy),
        ]
        for policy in policies
    ]
    table = np.array(rows, np.int64).reshape(len(policies), 3 + len(BOUNDS)).T
    return PolicyColumns(
        extended=np.array([each.evaluator_release == EXTENDED for each in policies], np.bool_),
        deadline_ms=table[0].copy(),
        cycle_length=table[1].copy(),
        cycle_repeats=table[2].copy(),
        bounds=table[3:].copy(),
    )


def _bounds(policy: Policy) -> list[int]:
    values: list[int | None] = [getattr(policy, name) for name in BOUNDS]
    return [INTEGER_MAX if value is None else value for value in values]


def columns_of(
    traces: Sequence[tuple[Policy, Sequence[Step]]],
) -> tuple[TraceColumns, PolicyColumns]:
    """Return the columns of decoded traces, and of their policies."""
    steps_max = max((len(steps) for _, steps in traces), default=0)
    lengths = np.array([len(steps) for _, steps in traces], np.int32)
    table: Int64s = np.zeros((_VALUES, steps_max, len(traces)), np.int64)
    entries: list[tuple[int, int, int, int]] = []
    for number, (policy, steps) in enumerate(traces):
        states: dict[str, int] = {policy.initial_state_sha256: 0}
        actions: dict[str, int] = {}
        evidence = _evidence(steps)
        rows = [_values(policy, step, states, actions, evidence) for step in steps]
        table[:, : len(rows), number] = np.array(rows, np.int64).reshape(len(rows), _VALUES).T
        entries += [
            (index, place, number, evidence[digest])
            for index, step in enumerate(steps)
            for place, digest in enumerate(step.new_evidence_receipt_sha256)
        ]
    entries.sort()
    places = 1 + max((place for _, place, _, _ in entries), default=-1)
    ragged = np.array(entries, np.int64).reshape(len(entries), 4).T
    starts = np.searchsorted(ragged[0] * (places + 1) + ragged[1], _marks(steps_max, places))
    small = np.int8
    made = TraceColumns(
        lengths=lengths,
        sequence=narrow(table[0]),
        kind=table[1].astype(small),
        action=narrow(table[2]),
        before=narrow(table[3]),
        after=narrow(table[4]),
        outcome=table[5].astype(small),
        elapsed_ms=narrow(table[6]),
        model_calls=table[7].astype(small),
        tool_calls=table[8].astype(small),
        repairs=table[9].astype(small),
        cost=narrow(table[10]),
        input_tokens=narrow(table[11]),
        output_tokens=narrow(table[12]),
        proof=narrow(table[13]),
        evidence_trace=ragged[2].astype(np.int32),
        evidence=narrow(ragged[3]),
        evidence_starts=starts.astype(np.int64),
    )
    return made, policies_of([policy for policy, _ in traces])


_VALUES = 14


def _values(
    policy: Policy,
    step: Step,
    states: dict[str, int],
    actions: dict[str, int],
    evidence: dict[str, int],
) -> tuple[int, ...]:
    proof = step.completion_receipt_sha256
    return (
        min(step.sequence, SEQUENCE_CUT),
        KINDS.index(step.action_kind),
        actions.setdefault(step.action_sha256, len(actions)),
        states.setdefault(step.state_before_sha256, len(states)),
        states.setdefault(step.state_after_sha256, len(states)),
        OUTCOMES.index(step.outcome),
        step.completed_at_unix_ms - policy.started_at_unix_ms,
        min(step.model_calls_delta, DELTA_CUT),
        min(step.tool_calls_delta, DELTA_CUT),
        min(step.repairs_delta, DELTA_CUT),
        step.cost_microunits_delta,
        step.input_tokens_delta,
        step.output_tokens_delta,
        UNKNOWN if proof is None else evidence.get(proof, UNNAMED),
    )


def _evidence(steps: Iterable[Step]) -> dict[str, int]:
    """Return a number for every digest of evidence; sorted, so that no number tells its age."""
    digests = {digest for step in steps for digest in step.new_evidence_receipt_sha256}
    return {digest: number for number, digest in enumerate(sorted(digests))}


def _marks(steps: int, places: int) -> Int64s:
    """Return (steps, places + 1) what the sort keys of a step's places begin with."""
    return np.arange(steps)[:, None] * (places + 1) + np.arange(places + 1)


def narrow(values: Int64s) -> Integers:
    """Return the values in the narrowest of 2, 4 and 8 bytes, its extremes left free."""
    low, high = int(values.min(initial=0)), int(values.max(initial=0))
    for kind in (np.int16, np.int32):
        if np.iinfo(kind).min < low and high < np.iinfo(kind).max:
            return cast("Int32s", values.astype(kind))
    return values
