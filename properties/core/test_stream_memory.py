"""Claim: a stream costs memory for its distinct evidence and for nothing else.

Peaks are counted by the interpreter, not timed, so the test does not depend on the machine.
"""

from __future__ import annotations

import io
import tracemalloc

import msgspec

from loopcore.canonical import canonical, digest
from loopcore.documents import evaluate_stream
from loopcore.lab import baseline_policy, baseline_steps
from loopcore.models import Step

SHORT, LONG = 1_000, 8_000
# What one evidence digest may cost: its text, and its share of a set that has just grown.
EVIDENCE_BYTES_MAX = 300
# Buffers that come and go with single lines.
SLACK_BYTES = 64_000


class Lines(io.RawIOBase):
    """A stream that is made while it is read, so that it takes no memory itself."""

    def __init__(self, steps: int, *, evidence: bool) -> None:
        policy = msgspec.structs.replace(
            baseline_policy(),
            deadline_unix_ms=2 * baseline_policy().started_at_unix_ms,
            max_steps=steps,
            max_model_calls=steps,
            max_consecutive_no_progress=steps + 1,
            max_cost_microunits=2**50,
        )
        self._header = canonical({"schema": "loopcore/trace/1", "policy": policy})
        self._first = baseline_steps()[0]
        self._steps, self._evidence, self._made = steps, evidence, -1

    def _step(self, index: int) -> Step:
        first = self._first
        return msgspec.structs.replace(
            first,
            sequence=index + 1,
            action_sha256=digest(f"action {index}"),
            state_before_sha256=digest(f"state {index}") if index else first.state_before_sha256,
            state_after_sha256=digest(f"state {index + 1}"),
            new_evidence_receipt_sha256=(digest(f"evidence {index if self._evidence else 0}"),),
        )

    def readline(self, size: int | None = -1, /) -> bytes:
        """Return the next line."""
        self._made += 1
        if self._made == 0:
            return self._header + b"\n"
        return canonical(self._step(self._made - 1)) + b"\n" if self._made <= self._steps else b""


def peak(steps: int, *, evidence: bool) -> int:
    """Return the most memory that one evaluation held, in bytes."""
    lines = Lines(steps, evidence=evidence)
    tracemalloc.start()
    receipt = evaluate_stream(lines)  # type: ignore[arg-type]
    high = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert receipt.usage.steps == steps
    assert receipt.usage.evidence_receipts == (steps if evidence else 1)
    return high


def test_without_new_evidence_memory_does_not_grow() -> None:
    assert peak(LONG, evidence=False) <= peak(SHORT, evidence=False) + SLACK_BYTES


def test_each_distinct_evidence_digest_costs_a_stated_amount() -> None:
    grown = peak(LONG, evidence=True) - peak(SHORT, evidence=True)
    assert grown <= (LONG - SHORT) * EVIDENCE_BYTES_MAX + SLACK_BYTES
