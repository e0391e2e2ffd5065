"""The lab (MP-24): a valid baseline and eleven cases, each ending at its terminal step.

Theory of operation: the baseline is model generation, tool call, verification, finish; each step
changes the state and adds evidence, and the finish introduces and names its own completion receipt.
A case is that baseline with one thing changed, cut after the step that reaches its terminal.

Source: spec evaluator, section 8; the published lab of the same name, whose source is not public,
so that its digests are other values than ours.
"""

from __future__ import annotations

from collections.abc import Callable

import msgspec

from loopcore.canonical import digest
from loopcore.evaluator import evaluate
from loopcore.models import ActionKind, Policy, Receipt, Step, Terminal
from loopcore.terminals import REFERENCE

_STARTED_AT = 1_700_000_000_000
_STEP_MS = 1_000
_COST_A_STEP = 100


class LabCase(msgspec.Struct, frozen=True, kw_only=True):
    """One case of the lab: a policy, its steps and the terminal that must come of them."""

    name: str
    expected: Terminal
    policy: Policy
    steps: tuple[Step, ...]


class LabRow(msgspec.Struct, frozen=True, kw_only=True):
    """What one case gave."""

    name: str
    expected: Terminal
    terminal: Terminal
    terminal_sequence: int | None
    receipt_sha256: str

    @property
    def passed(self) -> bool:
        """Whether the terminal is the expected one."""
        return self.terminal == self.expected


class LabReport(msgspec.Struct, frozen=True, kw_only=True):
    """The lab's report; `report_sha256` in the tests is the digest of this value."""

    schema: str
    evaluator_release: str
    policy_sha256: str
    steps_sha256: str
    receipt_sha256: str
    cases: tuple[LabRow, ...]
    passed: int
    total: int


def _name(text: str) -> str:
    """Return the digest that stands for something named by a text."""
    return digest({"schema": "loopcore/lab-name/1", "name": text})


def baseline_policy() -> Policy:
    """Return the policy under which the baseline completes with room to spare."""
    return Policy(
        schema="loopcore/policy/1",
        policy_id="mp-24-replayable-model-loop",
        evaluator_release=REFERENCE,
        run_envelope_sha256=_name("run envelope"),
        behavior_spec_sha256=_name("behaviour specification"),
        initial_state_sha256=_name("state 0"),
        started_at_unix_ms=_STARTED_AT,
        deadline_unix_ms=_STARTED_AT + 60 * _STEP_MS,
        max_steps=8,
        max_model_calls=4,
        max_tool_calls=4,
        max_repairs=2,
        max_cost_microunits=10_000,
        max_consecutive_no_progress=2,
        max_consecutive_repeated_actions=2,
        max_input_tokens=None,
        max_output_tokens=None,
        max_evidence_receipts=None,
        max_cycle_length=None,
        cycle_repeats=None,
    )


def _step(sequence: int, kind: ActionKind) -> Step:
    """Return a step that succeeds, changes the state and adds one receipt."""
    proof = _name(f"evidence {sequence}")
    is_model = kind == "model_generation"
    return Step(
        sequence=sequence,
        action_kind=kind,
        action_sha256=_name(f"action {sequence}"),
        state_before_sha256=_name(f"state {sequence - 1}"),
        state_after_sha256=_name(f"state {sequence}"),
        new_evidence_receipt_sha256=(proof,),
        outcome="succeeded",
        completed_at_unix_ms=_STARTED_AT + sequence * _STEP_MS,
        model_calls_delta=int(is_model),
        tool_calls_delta=int(kind == "tool_call"),
        repairs_delta=int(kind == "repair"),
        cost_microunits_delta=_COST_A_STEP,
        input_tokens_delta=1_000 if is_model else 0,
        output_tokens_delta=200 if is_model else 0,
        completion_receipt_sha256=proof if kind == "finish" else None,
    )


_BASELINE_KINDS: tuple[ActionKind, ...] = (
    "model_generation",
    "tool_call",
    "verification",
    "finish",
)


def baseline_steps() -> tuple[Step, ...]:
    """Return the four steps of the baseline."""
    return tuple(_step(number, kind) for number, kind in enumerate(_BASELINE_KINDS, start=1))


def cases() -> tuple[LabCase, ...]:
    """Return the eleven cases, in the order of the published lab."""
    policy, steps = baseline_policy(), baseline_steps()
    change = msgspec.structs.replace
    first, second = steps[0], steps[1]
    idle = change(first, state_after_sha256=first.state_before_sha256)
    idle_again = change(
        second,
        state_before_sha256=idle.state_after_sha256,
        state_after_sha256=idle.state_after_sha256,
    )
    return (
        _case("valid completion", "completed", policy, steps),
        _case("consecutive no progress", "no_progress", policy, (idle, idle_again)),
        _case(
            "repeated action",
            "repeated_action",
            policy,
            (first, change(second, action_sha256=first.action_sha256)),
        ),
        _case(
            "finish without proof",
            "invalid_completion",
            policy,
            (*steps[:3], change(steps[3], completion_receipt_sha256=None)),
        ),
        _case(
            "model-call budget",
            "model_budget_exhausted",
            change(policy, max_model_calls=0),
            (first,),
        ),
        _case(
            "tool-call budget", "tool_budget_exhausted", change(policy, max_tool_calls=0), steps[:2]
        ),
        _case(
            "repair budget",
            "repair_budget_exhausted",
            change(policy, max_repairs=0),
            (_step(1, "repair"),),
        ),
        _case(
            "cost budget",
            "cost_budget_exhausted",
            change(policy, max_cost_microunits=2 * _COST_A_STEP),
            steps[:3],
        ),
        _case(
            "deadline",
            "deadline_exceeded",
            change(policy, deadline_unix_ms=second.completed_at_unix_ms),
            steps[:2],
        ),
        _case(
            "indeterminate effect",
            "indeterminate_effect",
            policy,
            (first, change(second, outcome="indeterminate")),
        ),
        _case("input exhaustion", "input_exhausted", policy, steps[:3]),
    )


def _case(name: str, expected: Terminal, policy: Policy, steps: tuple[Step, ...]) -> LabCase:
    return LabCase(name=name, expected=expected, policy=policy, steps=steps)


def run_lab(judge: Callable[[Policy, tuple[Step, ...]], Receipt] = evaluate) -> LabReport:
    """Return the report of all cases under an evaluator (ours unless another is given)."""
    rows: list[LabRow] = []
    for case in cases():
        receipt = judge(case.policy, case.steps)
        rows.append(
            LabRow(
                name=case.name,
                expected=case.expected,
                terminal=receipt.terminal,
                terminal_sequence=receipt.terminal_sequence,
                receipt_sha256=receipt.receipt_sha256,
            )
        )
    baseline = judge(baseline_policy(), baseline_steps())
    return LabReport(
        schema="loopcore/lab-report/1",
        evaluator_release=baseline.evaluator_release,
        policy_sha256=baseline.policy_sha256,
        steps_sha256=baseline.steps_sha256,
        receipt_sha256=baseline.receipt_sha256,
        cases=tuple(rows),
        passed=sum(row.passed for row in rows),
        total=len(rows),
    )
