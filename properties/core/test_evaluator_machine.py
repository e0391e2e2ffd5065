"""Claim: the reference run answers as the naive model after every step, and faults in it show."""

from __future__ import annotations

from collections.abc import Callable

import pytest
from hypothesis import Phase, settings
from hypothesis.stateful import run_state_machine_as_test

from loopcore.testing import naive
from loopcore.testing.bias import NO_HEALTH_CHECKS
from loopcore.testing.contract import Answer
from loopcore.testing.machines import EvaluatorMachine, Factory, ReferenceRun, evaluator_machine
from loopcore.testing.naive_wire import Record, as_record

EXAMPLES = 120
STEPS = 25
SETTINGS = settings(
    max_examples=EXAMPLES,
    stateful_step_count=STEPS,
    deadline=None,
    database=None,
    derandomize=True,
    phases=[Phase.generate],
    suppress_health_check=NO_HEALTH_CHECKS,
    print_blob=False,
)


class RecountingRun:
    """A run that keeps its steps and asks the naive model; faults are planted in it."""

    def __init__(self, policy: Record) -> None:
        self.policy = policy
        self.steps: list[Record] = []

    def advance(self, step: Record) -> Answer | None:
        answer = naive.evaluate(self.policy, [*self.steps, step])
        if "error" in answer:
            return answer
        self.steps.append(step)
        return None

    def finish(self) -> Answer:
        return naive.evaluate(self.policy, self.steps)


class KeepsRefusedSteps(RecountingRun):
    """A refused step stays."""

    def advance(self, step: Record) -> Answer | None:
        answer = super().advance(step)
        if answer is not None:
            self.steps.append(step)
        return answer


class TakesLateSteps(RecountingRun):
    """A step after the terminal is swallowed."""

    def advance(self, step: Record) -> Answer | None:
        answer = super().advance(step)
        error = {} if answer is None else as_record(answer["error"])
        return None if error.get("code") == "post_terminal_step" else answer


class ForgetsEvidence(ReferenceRun):
    """What happened two steps ago is not looked at."""

    def finish(self) -> Answer:
        receipt = as_record(super().finish()["receipt"])
        usage = as_record(receipt["usage"])
        return {"receipt": {**receipt, "usage": {**usage, "evidence_receipts": 0}}}


def run_machine(factory: Factory) -> None:
    run_state_machine_as_test(evaluator_machine(factory), settings=SETTINGS)


def test_the_reference_run_answers_as_the_model() -> None:
    run_state_machine_as_test(EvaluatorMachine, settings=SETTINGS)


def test_an_evaluator_of_ones_own_is_put_in_by_a_factory() -> None:
    run_machine(RecountingRun)


@pytest.mark.parametrize("factory", [KeepsRefusedSteps, TakesLateSteps, ForgetsEvidence])
def test_a_planted_fault_is_found(factory: Callable[[Record], ReferenceRun]) -> None:
    with pytest.raises(AssertionError):
        run_machine(factory)
