"""Claim: on every trace over a small alphabet the reference gives the naive model's answer, whole.

The alphabet has 24 letters that between them reach every rule and every step code. Bounds grow with
the length, so that long traces are not all cut by an early terminal. A cycle needs four steps, so
the shorter scope does not reach `nonproductive_cycle`; the longer one does.
"""

from collections.abc import Callable, Iterator
from dataclasses import dataclass

import msgspec
import pytest

from loopcore.errors import InputError
from loopcore.evaluator import evaluate
from loopcore.models import Policy, Step
from loopcore.testing import naive
from loopcore.testing.building import (
    EXTENDED,
    START_MS,
    Move,
    append_step,
    array_of,
    roomy_policy,
)
from loopcore.testing.defective import STEP_CODES
from loopcore.testing.naive_wire import INTEGER_MAX, RELEASES, Record, as_record

DEADLINE_MS = START_MS + 1_000


@dataclass(frozen=True, slots=True)
class Letter:
    """A move, and how the step that it makes is then spoilt."""

    name: str
    move: Move
    spoil: Callable[[Record], Record] = dict


def _with(**changes: object) -> Callable[[Record], Record]:
    return lambda step: {**step, **changes}


ONE = Move(action=1, state=1, evidence=(1,))
TOOL = Move(kind="tool_call", action=2, state=2)
CHECK = Move(kind="verification", action=1, state=1)
FINISH = Move(kind="finish", action=3, state=3, evidence=(3,), proof=3)
ALPHABET: tuple[Letter, ...] = (
    Letter("model", ONE),
    Letter("model with tokens", Move(state=2, evidence=(2,), input_tokens=1, output_tokens=1)),
    Letter("tool with old evidence", Move(kind="tool_call", action=2, state=2, evidence=(1,))),
    Letter("tool with cost", Move(kind="tool_call", action=2, state=1, cost=1)),
    Letter("same action, other kind", CHECK),
    Letter("verification", Move(kind="verification", action=2, state=2, evidence=(4,))),
    Letter("local repair", Move(kind="repair", action=4, state=1)),
    Letter("repair by a model", Move(kind="repair", deltas=(1, 0, 1), state=2, evidence=(5,))),
    Letter("wait", Move(kind="wait", action=1)),
    Letter("proven finish", FINISH),
    Letter("finish without proof", Move(kind="finish", action=1, evidence=(3,))),
    Letter("finish with listed proof", Move(kind="finish", action=3, evidence=(1, 2), proof=1)),
    Letter("indeterminate finish", FINISH, _with(outcome="indeterminate")),
    Letter("failed tool", TOOL, _with(outcome="failed")),
    Letter("indeterminate tool", TOOL, _with(outcome="indeterminate")),
    Letter("deadline", CHECK, _with(completed_at_unix_ms=DEADLINE_MS)),
    Letter("gap", ONE, _with(sequence=9)),
    Letter("regression", ONE, _with(completed_at_unix_ms=START_MS - 1)),
    Letter("broken chain", ONE, _with(state_before_sha256="9" * 64)),
    Letter("duplicate", Move(action=1, state=1, evidence=(6, 6))),
    Letter("mismatch", CHECK, _with(repairs_delta=1)),
    Letter("tokens alone", CHECK, _with(input_tokens_delta=1)),
    Letter("stray receipt", CHECK, _with(completion_receipt_sha256="9" * 64)),
    Letter("overflow", CHECK, _with(cost_microunits_delta=INTEGER_MAX)),
)  # fmt: skip
LETTERS = 24


def bounded_policy(release: str, length: int) -> Record:
    """Return a policy whose bounds are met within `length` steps."""
    policy = roomy_policy(release) | {
        "deadline_unix_ms": DEADLINE_MS,
        "max_steps": length - 1,
        "max_model_calls": length - 2,
        "max_tool_calls": length - 2,
        "max_repairs": length - 2,
        "max_cost_microunits": 1,
        "max_consecutive_no_progress": length - 1,
        "max_consecutive_repeated_actions": length - 1,
    }
    if release == EXTENDED:
        policy |= {
            "max_input_tokens": 1,
            "max_output_tokens": 1,
            "max_evidence_receipts": length - 1,
            "max_cycle_length": 2,
            "cycle_repeats": 2,
        }
    return policy


def grow(policy: Record, length: int, steps: list[Record]) -> Iterator[list[Record]]:
    """Yield every trace of at most `length` steps that begins with `steps`."""
    yield steps
    if len(steps) < length:
        for letter in ALPHABET:
            step = letter.spoil(append_step(policy, steps, letter.move))
            yield from grow(policy, length, [*steps, step])


def compare_all(release: str, length: int) -> tuple[int, set[str]]:
    """Return how many traces agree, and all terminals and codes met; raise at the first other."""
    policy = bounded_policy(release, length)
    typed_policy = msgspec.convert(policy, Policy)
    count = 0
    met: set[str] = set()
    for steps in grow(policy, length, []):
        count += 1
        expected = naive.evaluate(policy, steps)
        typed = msgspec.convert(steps, tuple[Step, ...])
        if "receipt" in expected:
            receipt = as_record(expected["receipt"])
            met.update(
                str(name) for name in (receipt["terminal"], *array_of(receipt["violations"]))
            )
            got = msgspec.json.decode(msgspec.json.encode(evaluate(typed_policy, typed)))
            assert got == receipt, steps
            continue
        due = as_record(expected["error"])
        met.add(str(due["code"]))
        with pytest.raises(InputError) as caught:
            evaluate(typed_policy, typed)
        refusal = caught.value.as_dict()
        for name in ("code", "path", "step", "terminal", "terminal_sequence"):
            assert refusal.get(name) == due.get(name), steps
    return count, met


def every_verdict(release: str) -> set[str]:
    """Return all terminals and step codes of a release."""
    codes = set(STEP_CODES) - ({"unsupported_kind"} if release == EXTENDED else set())
    return codes | set(naive.precedence(release))


def test_the_alphabet_has_as_many_letters_as_the_claim() -> None:
    assert len(ALPHABET) == len({letter.name for letter in ALPHABET}) == LETTERS


@pytest.mark.parametrize("release", RELEASES)
def test_reference_and_model_agree_on_every_trace_of_up_to_three_steps(release: str) -> None:
    count, met = compare_all(release, 3)
    assert count == 14_425
    assert every_verdict(release) - met == (
        {"nonproductive_cycle"} if release == EXTENDED else set()
    )


@pytest.mark.slow
@pytest.mark.parametrize("release", RELEASES)
def test_reference_and_model_agree_on_every_trace_of_up_to_four_steps(release: str) -> None:
    count, met = compare_all(release, 4)
    assert count == 346_201
    assert every_verdict(release) == met
