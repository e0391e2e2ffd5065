"""A state machine that grows a run step by step against the naive model, recomputed each time.

Rule: after every step the incremental evaluator must answer exactly as the naive model does for all
steps so far, and a refused step must change nothing. The model has no state but the steps.

To hold an evaluator of one's own to it, give a factory: `factory(policy)` returns an object with
`advance(step)`, which returns `{"error": …}` for a step that it refuses and anything else for one
that it takes, and `finish()`, which may be called after any step and answers `{"receipt": …}`.

    TestMine = evaluator_machine(my_factory).TestCase

Source: spec verification, section 2, E16; spec evaluator, sections 2 to 5.
"""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import replace
from typing import ClassVar, Protocol, TypeAlias

from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule

from loopcore.canonical import canonical
from loopcore.decoding import decode_values
from loopcore.defects import explain
from loopcore.errors import InputError
from loopcore.evaluator import start
from loopcore.models import Step
from loopcore.testing import naive
from loopcore.testing.building import (
    EXTENDED,
    Move,
    append_step,
    fit_bound,
    object_of,
    roomy_policy,
)
from loopcore.testing.contract import Answer
from loopcore.testing.defective import STEP_CODES, spoil
from loopcore.testing.naive_wire import RELEASES, Record, as_record
from loopcore.testing.steering import NEUTRAL_KINDS

# Longer runs cost quadratic time and show nothing new.
STEPS_MAX = 16
# Each bound of a machine's policy, and the values near which a short run comes.
_SMALL_BOUNDS: dict[str, tuple[int, ...]] = {
    "max_steps": (STEPS_MAX, 5, 8),
    "max_model_calls": (STEPS_MAX, 1, 3),
    "max_tool_calls": (STEPS_MAX, 1, 3),
    "max_repairs": (STEPS_MAX, 0, 2),
    "max_cost_microunits": (10**9, 2),
    "max_consecutive_no_progress": (STEPS_MAX, 2, 4),
    "max_consecutive_repeated_actions": (STEPS_MAX, 2, 4),
}
_SMALL_EXTENDED: dict[str, tuple[int | None, ...]] = {
    "max_input_tokens": (None, 2),
    "max_output_tokens": (None, 2),
    "max_evidence_receipts": (None, 2, 6),
}
# The outcome that ends a run at once is drawn less often than the others.
_OUTCOMES = ("succeeded", "failed", "succeeded", "failed", "indeterminate")
# Defects of one step alone; a foreign kind is what the rule `wait` offers.
_OWN_DEFECTS = tuple(
    code
    for code in STEP_CODES
    if code not in ("post_terminal_step", "usage_overflow", "unsupported_kind")
)


class Incremental(Protocol):
    """An evaluator that takes one step at a time."""

    def advance(self, step: Record) -> object:
        """Take one more step; return `{"error": …}` when it is refused, and change nothing."""
        ...

    def finish(self) -> Answer:
        """Return the answer for the steps taken so far."""
        ...


Factory: TypeAlias = "Callable[[Record], Incremental]"


class ReferenceRun:
    """The reference evaluator under the machine's interface."""

    def __init__(self, policy: Record) -> None:
        self._run = start(decode_values(policy, []).policy)
        self._steps = 0

    def advance(self, step: Record) -> Answer | None:
        """Take one more step, or return the error that refuses it."""
        try:
            self._run.advance(explain(step, Step, f"$.steps[{self._steps}]"))
        except InputError as error:
            return {"error": error.as_dict()}
        self._steps += 1
        return None

    def finish(self) -> Answer:
        """Return the receipt of the steps taken so far."""
        return {"receipt": as_record(json.loads(canonical(self._run.finish())))}


class EvaluatorMachine(RuleBasedStateMachine):
    """A run in progress: the evaluator's, and the steps from which the model recomputes it."""

    factory: ClassVar[Factory] = ReferenceRun

    policy: Record
    steps: list[Record]
    moves: list[Move]
    run: Incremental
    expected: Answer

    @initialize(release=st.sampled_from(RELEASES), data=st.data())
    def begin(self, release: str, data: st.DataObject) -> None:
        """Begin a run under a policy with some small bounds."""
        self.policy = roomy_policy(release)
        for field, values in _SMALL_BOUNDS.items():
            fit_bound(self.policy, field, data.draw(st.sampled_from(values), label=field))
        if release == EXTENDED:
            for field, choices in _SMALL_EXTENDED.items():
                self.policy[field] = data.draw(st.sampled_from(choices), label=field)
            if data.draw(st.booleans(), label="cycles"):
                self.policy["max_cycle_length"], self.policy["cycle_repeats"] = 3, 2
        self.steps, self.moves = [], []
        self.run = type(self).factory(self.policy)
        self.expected = naive.evaluate(self.policy, [])

    # --- the model ---

    @property
    def _ended(self) -> bool:
        receipt = as_record(self.expected["receipt"])
        return receipt["terminal_sequence"] is not None

    def is_open(self) -> bool:
        """Whether the run may go on."""
        return hasattr(self, "run") and not self._ended and len(self.steps) < STEPS_MAX

    def _take(self, move: Move) -> None:
        step = append_step(self.policy, self.steps, move)
        after = naive.evaluate(self.policy, [*self.steps, step])
        got = self.run.advance(step)
        if "error" in after:
            # A wait under the reference release is a defect like any other.
            _same_error(got, after)
            return
        assert not (isinstance(got, dict) and "error" in got), f"{step} was refused: {got}"
        self.steps.append(step)
        self.moves.append(move)
        self.expected = after

    def _refuse(self, step: Record) -> None:
        _same_error(self.run.advance(step), naive.evaluate(self.policy, [*self.steps, step]))

    # --- rules ---

    @precondition(is_open)
    @rule(kind=st.sampled_from(NEUTRAL_KINDS), cost=st.sampled_from((0, 1)))
    def progress(self, kind: str, cost: int) -> None:
        """Change the state with fresh evidence."""
        number = len(self.moves) + 1
        move = Move(kind=kind, action=number, state=number, evidence=(number,), cost=cost)
        self._take(replace(move, input_tokens=cost, output_tokens=cost))

    @precondition(is_open)
    @rule(evidence=st.sampled_from(((), (1,), (99,))), outcome=st.sampled_from(_OUTCOMES))
    def idle(self, evidence: tuple[int, ...], outcome: str) -> None:
        """Take a step without progress: nothing new, or nothing that succeeded."""
        number = len(self.moves) + 1
        move = Move(kind="tool_call", action=number, evidence=evidence, outcome=outcome)
        self._take(move)

    @precondition(lambda self: self.is_open() and self.moves)
    @rule(back=st.integers(1, 3), fresh=st.booleans(), kind=st.sampled_from(NEUTRAL_KINDS))
    def again(self, back: int, fresh: bool, kind: str) -> None:
        """Do again what was done one to three steps ago, perhaps under another kind."""
        origin = self.moves[-min(back, len(self.moves))]
        evidence = (200 + len(self.moves),) if fresh else ()
        self._take(Move(kind=kind, action=origin.action, state=origin.state, evidence=evidence))

    @precondition(is_open)
    @rule(elapsed=st.sampled_from((0, 1, 10**6)), own=st.booleans())
    def wait(self, elapsed: int, own: bool) -> None:
        """Wait, which the reference release refuses."""
        action = 500 if own or not self.moves else self.moves[-1].action
        self._take(Move(kind="wait", action=action, elapsed_ms=elapsed))

    @precondition(is_open)
    @rule(proof=st.sampled_from((300, 1, None)), outcome=st.sampled_from(_OUTCOMES))
    def finish(self, proof: int | None, outcome: str) -> None:
        """Finish with a fresh proof, an old one or none."""
        evidence = () if proof is None else (proof,)
        move = Move(kind="finish", action=400, state=400, evidence=evidence, outcome=outcome)
        self._take(replace(move, proof=proof))

    @precondition(is_open)
    @rule(field=st.sampled_from(("cost", "tokens", "time")))
    def overspend(self, field: str) -> None:
        """Spend at once more than most policies allow."""
        number = len(self.moves) + 1
        move = Move(action=number, state=number, evidence=(number,))
        amounts: dict[str, Move] = {
            "cost": replace(move, cost=10**9 + 1),
            "tokens": replace(move, input_tokens=5, output_tokens=5),
            "time": replace(move, elapsed_ms=10**9),
        }
        self._take(amounts[field])

    @precondition(is_open)
    @rule(code=st.sampled_from(_OWN_DEFECTS), variant=st.integers(0, 7))
    def defect(self, code: str, variant: int) -> None:
        """Offer a step that is not well formed; the run stands as before."""
        number = len(self.moves) + 1
        step = append_step(self.policy, self.steps, Move(action=number, state=number))
        self._refuse(spoil([*self.steps, step], len(self.steps), [code], variant)[-1])

    @precondition(lambda self: hasattr(self, "run") and self._ended)
    @rule(kind=st.sampled_from(NEUTRAL_KINDS))
    def late(self, kind: str) -> None:
        """Offer a step after the terminal."""
        self._refuse(append_step(self.policy, self.steps, Move(kind=kind, action=600)))

    @precondition(lambda self: not self.is_open())
    @rule()
    def rest(self) -> None:
        """Do nothing: a closed run needs a rule that is always allowed."""

    @invariant()
    def answers_as_the_model(self) -> None:
        """The receipt so far is the model's, whole."""
        if hasattr(self, "run"):
            got = self.run.finish()
            assert got == self.expected, f"expected {self.expected}, got {got}"


def _same_error(got: object, expected: Answer) -> None:
    """Raise AssertionError where a refusal is not the one that is due; messages are for people."""
    due = dict(as_record(expected["error"]))
    found = dict(object_of((object_of(got) or {}).get("error")) or {})
    assert found, f"expected the error {due}, got {got}"
    due.pop("message")
    found.pop("message", None)
    assert {**dict.fromkeys(due), **found} == due, f"expected the error {due}, got {found}"


def evaluator_machine(factory: Factory) -> type[EvaluatorMachine]:
    """Return the machine for the evaluators that a factory makes."""
    return type("EvaluatorMachine", (EvaluatorMachine,), {"factory": staticmethod(factory)})
