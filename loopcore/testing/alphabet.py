"""A small alphabet of steps: 24 letters that between them reach every rule and every step code.

Theory of operation: a letter is a move and how the step that it makes is then spoilt. Bounds grow
with the length of the traces, so that long ones are not all cut by an early terminal. A cycle needs
four steps, so traces of up to three reach every verdict but `nonproductive_cycle`, and traces of up
to four reach all.

Source: spec verification, section 4.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass

from loopcore.testing.building import EXTENDED, START_MS, Move, append_step, roomy_policy
from loopcore.testing.defective import STEP_CODES
from loopcore.testing.naive import precedence
from loopcore.testing.naive_wire import INTEGER_MAX, Record

DEADLINE_MS = START_MS + 1_000


@dataclass(frozen=True, slots=True, kw_only=True)
class Letter:
    """A move, and how the step that it makes is then spoilt."""

    name: str
    move: Move
    spoil: Callable[[Record], Record] = dict


def _with(**changes: object) -> Callable[[Record], Record]:
    return lambda step: {**step, **changes}


_ONE = Move(action=1, state=1, evidence=(1,))
_TOKENS = Move(state=2, evidence=(2,), input_tokens=1, output_tokens=1)
_TOOL = Move(kind="tool_call", action=2, state=2)
_CHECK = Move(kind="verification", action=1, state=1)
_FINISH = Move(kind="finish", action=3, state=3, evidence=(3,), proof=3)
_LISTED = Move(kind="finish", action=3, evidence=(1, 2), proof=1)
ALPHABET: tuple[Letter, ...] = (
    Letter(name="model", move=_ONE),
    Letter(name="model with tokens", move=_TOKENS),
    Letter(
        name="tool with old evidence",
        move=Move(kind="tool_call", action=2, state=2, evidence=(1,)),
    ),
    Letter(name="tool with cost", move=Move(kind="tool_call", action=2, state=1, cost=1)),
    Letter(name="same action, other kind", move=_CHECK),
    Letter(name="verification", move=Move(kind="verification", action=2, state=2, evidence=(4,))),
    Letter(name="local repair", move=Move(kind="repair", action=4, state=1)),
    Letter(
        name="repair by a model",
        move=Move(kind="repair", deltas=(1, 0, 1), state=2, evidence=(5,)),
    ),
    Letter(name="wait", move=Move(kind="wait", action=1)),
    Letter(name="proven finish", move=_FINISH),
    Letter(name="finish without proof", move=Move(kind="finish", action=1, evidence=(3,))),
    Letter(name="finish with listed proof", move=_LISTED),
    Letter(name="indeterminate finish", move=_FINISH, spoil=_with(outcome="indeterminate")),
    Letter(name="failed tool", move=_TOOL, spoil=_with(outcome="failed")),
    Letter(name="indeterminate tool", move=_TOOL, spoil=_with(outcome="indeterminate")),
    Letter(name="deadline", move=_CHECK, spoil=_with(completed_at_unix_ms=DEADLINE_MS)),
    Letter(name="gap", move=_ONE, spoil=_with(sequence=9)),
    Letter(name="regression", move=_ONE, spoil=_with(completed_at_unix_ms=START_MS - 1)),
    Letter(name="broken chain", move=_ONE, spoil=_with(state_before_sha256="9" * 64)),
    Letter(name="duplicate", move=Move(action=1, state=1, evidence=(6, 6))),
    Letter(name="mismatch", move=_CHECK, spoil=_with(repairs_delta=1)),
    Letter(name="tokens alone", move=_CHECK, spoil=_with(input_tokens_delta=1)),
    Letter(name="stray receipt", move=_CHECK, spoil=_with(completion_receipt_sha256="9" * 64)),
    Letter(name="overflow", move=_CHECK, spoil=_with(cost_microunits_delta=INTEGER_MAX)),
)


def traces_up_to(length: int) -> int:
    """Return how many traces of at most so many letters there are, the empty one too."""
    return sum(len(ALPHABET) ** steps for steps in range(length + 1))


def bounded_policy(release: str, length: int) -> Record:
    """Return a policy whose bounds are met within `length` steps, at least 3."""
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


def append_letter(policy: Record, steps: list[Record], letter: Letter) -> Record:
    """Return the step that a letter makes after `steps`, which are left alone."""
    return letter.spoil(append_step(policy, steps, letter.move))


def grow(policy: Record, length: int, steps: list[Record]) -> Iterator[list[Record]]:
    """Yield every trace of at most `length` steps that begins with `steps`."""
    yield steps
    if len(steps) < length:
        for letter in ALPHABET:
            yield from grow(policy, length, [*steps, append_letter(policy, steps, letter)])


def every_verdict(release: str) -> set[str]:
    """Return all terminals and step codes of a release."""
    codes = set(STEP_CODES) - ({"unsupported_kind"} if release == EXTENDED else set())
    return codes | set(precedence(release))
