"""Each piece of what the evaluator costs a run beside the agent's own work, named separately.

    pytest bench --benchmark-only

A piece is timed on one trace of STEPS productive steps, so a ratio is of one step. The evidence set
and the cycle detection are parts of the decision: the first is what deciding costs more with
evidence than without, the second is the detector alone.
"""

from __future__ import annotations

import hashlib
from typing import TYPE_CHECKING

import msgspec

from loopcore.canonical import canonical, digest_bytes
from loopcore.decoding import decode_trace
from loopcore.evaluator import CycleDetector, Run
from loopcore.models import Policy, Step, Trace
from loopcore.terminals import REFERENCE

if TYPE_CHECKING:
    from bench.conftest import Measure

STEPS = 100
EVIDENCE = 4
CYCLE_LENGTH, CYCLE_REPEATS = 6, 3
UNREACHED = 10**9


def name(text: str) -> str:
    """Return a digest that stands for a text."""
    return hashlib.sha256(text.encode()).hexdigest()


def trace(evidence: int) -> Trace:
    """Return a trace of productive steps under bounds that they do not reach."""
    policy = Policy(
        schema="loopcore/policy/1",
        policy_id="overhead",
        evaluator_release=REFERENCE,
        run_envelope_sha256=name("envelope"),
        behavior_spec_sha256=name("specification"),
        initial_state_sha256=name("state 0"),
        started_at_unix_ms=0,
        deadline_unix_ms=UNREACHED,
        max_steps=UNREACHED,
        max_model_calls=UNREACHED,
        max_tool_calls=UNREACHED,
        max_repairs=UNREACHED,
        max_cost_microunits=UNREACHED,
        max_consecutive_no_progress=UNREACHED,
        max_consecutive_repeated_actions=UNREACHED,
        max_input_tokens=None,
        max_output_tokens=None,
        max_evidence_receipts=None,
        max_cycle_length=None,
        cycle_repeats=None,
    )
    steps = tuple(
        Step(
            sequence=index + 1,
            action_kind="tool_call",
            action_sha256=name(f"action {index}"),
            state_before_sha256=name(f"state {index}"),
            state_after_sha256=name(f"state {index + 1}"),
            new_evidence_receipt_sha256=tuple(
                name(f"evidence {index} {place}") for place in range(evidence)
            ),
            outcome="succeeded",
            completed_at_unix_ms=index,
            model_calls_delta=0,
            tool_calls_delta=1,
            repairs_delta=0,
            cost_microunits_delta=1_250,
            input_tokens_delta=0,
            output_tokens_delta=0,
            completion_receipt_sha256=None,
        )
        for index in range(STEPS)
    )
    return Trace(schema="loopcore/trace/1", policy=policy, steps=steps)


def decided(given: Trace) -> None:
    """Decide a trace, without decoding and without digests."""
    Run(given.policy).decide(given.steps)


def test_validation(measure: Measure) -> None:
    data = canonical(trace(EVIDENCE))
    # In table order and with white space, so that nothing is taken as it is.
    spelled = msgspec.json.format(msgspec.json.encode(trace(EVIDENCE)), indent=1)
    assert decode_trace(spelled) == decode_trace(data)
    measure(lambda: decode_trace(data), STEPS)


def test_canonical_form(measure: Measure) -> None:
    steps = trace(EVIDENCE).steps
    measure(lambda: canonical(steps), STEPS)


def test_digest(measure: Measure) -> None:
    data = canonical(trace(EVIDENCE).steps)
    measure(lambda: digest_bytes(data), STEPS)


def test_evidence_set(measure: Measure) -> None:
    with_evidence, without = trace(EVIDENCE), trace(0)
    measure(lambda: decided(with_evidence), STEPS, less=lambda: decided(without))


def test_cycle_detection(measure: Measure) -> None:
    pairs = [(step.action_sha256, step.state_after_sha256) for step in trace(0).steps]

    def detect() -> None:
        detector = CycleDetector(CYCLE_LENGTH, CYCLE_REPEATS)
        for pair in pairs:
            detector.observe(pair)

    measure(detect, STEPS)


def test_decision_without_evidence_and_cycles(measure: Measure) -> None:
    given = trace(0)
    measure(lambda: decided(given), STEPS)
