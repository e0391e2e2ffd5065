"""Traces with one or two defects on one step, everything before it being in order.

Theory of operation: a well formed run that nothing ends is drawn, then one step is spoilt. The
steps after it are left as they were: evaluation never comes to them.

Choices: a step overflows a total only with a step before it, and follows a terminal likewise, so
these two defects stand at index 1 at the earliest.

Source: spec evaluator, section 2.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from loopcore.testing.building import (
    EXTENDED,
    REFERENCE,
    Move,
    array_of,
    build_steps,
    evidence_of,
    name_digest,
    number_of,
    roomy_policy,
)
from loopcore.testing.naive import DELTAS
from loopcore.testing.naive_wire import INTEGER_MAX, Record, as_record

# The step codes, in the order in which a step is checked.
STEP_CODES = (
    "post_terminal_step",
    "sequence_gap",
    "time_regression",
    "state_chain_broken",
    "duplicate_evidence",
    "unsupported_kind",
    "usage_mismatch",
    "unexpected_completion_receipt",
    "usage_overflow",
)
_NEEDS_STEP_BEFORE = ("post_terminal_step", "usage_overflow")


@dataclass(frozen=True, slots=True, kw_only=True)
class Spot:
    """Where a defect goes, and which of its variants it is."""

    steps: list[Record]
    index: int
    variant: int

    @property
    def step(self) -> Record:
        """The step to be spoilt."""
        return self.steps[self.index]


def _choose(values: Sequence[int], variant: int) -> int:
    return values[variant % len(values)]


def _follow_terminal(spot: Spot) -> None:
    spot.steps[spot.index - 1]["outcome"] = "indeterminate"


def _leave_gap(spot: Spot) -> None:
    due = spot.index + 1
    wrong = (due + 1, due - 1, 0 if due > 1 else 2, INTEGER_MAX)
    spot.step["sequence"] = _choose(wrong, spot.variant)


def _go_back_in_time(spot: Spot) -> None:
    now, elapsed = number_of(spot.step, "completed_at_unix_ms"), 1
    spot.step["completed_at_unix_ms"] = _choose((now - elapsed - 1, 0), spot.variant)


def _break_chain(spot: Spot) -> None:
    strangers = (name_digest("state", 999), name_digest("action", 0))
    spot.step["state_before_sha256"] = strangers[spot.variant % len(strangers)]


def _duplicate_evidence(spot: Spot) -> None:
    own = evidence_of(spot.step) or [name_digest("evidence", 900)]
    apart = [name_digest("evidence", 901)] if spot.variant % 2 else []
    spot.step["new_evidence_receipt_sha256"] = [*own, *apart, own[0]]


def _wait_unsupported(spot: Spot) -> None:
    spot.step["action_kind"] = "wait"
    _set_deltas(spot.step, DELTAS["wait"][0])


def _mismatch_usage(spot: Spot) -> None:
    """Charge what the step's kind does not charge, or tokens without a model call."""
    kind = str(spot.step["action_kind"])
    wrong = [
        deltas
        for deltas in ((0, 0, 0), (1, 0, 0), (0, 1, 0), (0, 0, 1), (1, 0, 1), (1, 1, 0), (2, 0, 0))
        if deltas not in DELTAS[kind]
    ]
    place = spot.variant % (len(wrong) + 2)
    if place < len(wrong):
        _set_deltas(spot.step, wrong[place])
    elif number_of(spot.step, "model_calls_delta"):
        _set_deltas(spot.step, (0, 1, 1))
    else:
        field = ("input_tokens_delta", "output_tokens_delta")[place - len(wrong)]
        spot.step[field] = 1


def _carry_receipt(spot: Spot) -> None:
    own = evidence_of(spot.step)
    spot.step["completion_receipt_sha256"] = own[0] if own else name_digest("evidence", 902)


def _overflow(spot: Spot) -> None:
    """Take a total one above the largest integer, with the step before holding the first part."""
    fields = ["cost_microunits_delta"]
    before = spot.steps[spot.index - 1]
    if number_of(spot.step, "model_calls_delta") and number_of(before, "model_calls_delta"):
        fields += ["input_tokens_delta", "output_tokens_delta"]
    field = fields[spot.variant % len(fields)]
    before[field] = 1
    earlier = sum(number_of(step, field) for step in spot.steps[: spot.index])
    spot.step[field] = INTEGER_MAX + 1 - earlier if spot.variant % 2 == 0 else INTEGER_MAX


def _set_deltas(step: Record, deltas: tuple[int, int, int]) -> None:
    step["model_calls_delta"], step["tool_calls_delta"], step["repairs_delta"] = deltas
    if not deltas[0]:
        step["input_tokens_delta"] = step["output_tokens_delta"] = 0


# Each defect, in an order in which a later one leaves the earlier ones standing.
_DEFECTS: dict[str, Callable[[Spot], None]] = {
    "unsupported_kind": _wait_unsupported,
    "usage_mismatch": _mismatch_usage,
    "usage_overflow": _overflow,
    "unexpected_completion_receipt": _carry_receipt,
    "duplicate_evidence": _duplicate_evidence,
    "state_chain_broken": _break_chain,
    "time_regression": _go_back_in_time,
    "sequence_gap": _leave_gap,
    "post_terminal_step": _follow_terminal,
}


def release_for(codes: Sequence[str], release: str) -> str:
    """Return the release under which the defects can be made; only the reference lacks a kind."""
    return REFERENCE if "unsupported_kind" in codes else release


def index_for(codes: Sequence[str], index: int) -> int:
    """Return the index at which the defects can stand, at least `index`."""
    return max(index, int(any(code in _NEEDS_STEP_BEFORE for code in codes)))


def spoil(steps: list[Record], index: int, codes: Sequence[str], variant: int = 0) -> list[Record]:
    """Return the steps with all the defects on the step at `index`; the originals are left alone.

    Arguments:
        steps: a run that nothing ends under a roomy policy, without a finish.
        index: what `index_for` returned for the codes; codes: of `STEP_CODES`.
    """
    spoilt = [dict(step) for step in steps]
    for code, apply in _DEFECTS.items():
        if code in codes:
            apply(Spot(steps=spoilt, index=index, variant=variant))
    return spoilt


def plain_run(release: str, length: int, kind: str = "model_generation") -> Record:
    """Return a productive run that nothing ends."""
    policy = roomy_policy(release)
    moves = [
        Move(kind=kind, action=number, state=number, evidence=(number,))
        for number in range(1, length + 1)
    ]
    return {"policy": policy, "steps": build_steps(policy, moves)}


def defect_witness(codes: Sequence[str], at: int = 0) -> Record:
    """Return a smallest trace that has the given defects on one step, not before index `at`."""
    run = plain_run(release_for(codes, EXTENDED), 2)
    steps = [as_record(step) for step in array_of(run["steps"])]
    index = index_for(codes, at)
    return {"policy": run["policy"], "steps": spoil(steps, index, codes), "codes": list(codes)}
