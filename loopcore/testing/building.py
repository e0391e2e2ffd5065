"""Traces as plain JSON, built from moves, with their bounds fitted afterwards.

Theory of operation: a *move* says what a step does; `append_step` adds the sequence, the time and
the chain of states, so a trace is well formed by construction. Bounds come last: `measure` tells
what each bound is compared with after each step, and `firing_bound` turns such a figure into the
bound at which the rule fires exactly there. So a trace is steered instead of searched for.

`measure` steers and judges nothing: whether a rule really fires is the naive model's to say.

Source: spec evaluator, sections 1 to 4.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal, cast

from loopcore.testing.naive import BOUNDS, DELTAS, EXTENDED_FIELDS, TOTALS
from loopcore.testing.naive_wire import INTEGER_MAX, RELEASES, Record

REFERENCE, EXTENDED = RELEASES
SHORT_NAMES = {REFERENCE: "reference", EXTENDED: "extended"}

START_MS = 1_000

Role = Literal["action", "state", "evidence", "other"]
_MARKS: dict[Role, str] = {"action": "a", "state": "b", "evidence": "e", "other": "0"}

# Rules that fire when a figure reaches its bound; the rules of BOUNDS fire above theirs.
REACHED = {
    "deadline_exceeded": "deadline_unix_ms",
    "repeated_action": "max_consecutive_repeated_actions",
    "no_progress": "max_consecutive_no_progress",
}
# Each rule that has one bound, and that bound.
BOUND_OF: dict[str, str] = {**{rule: bound for rule, (_, bound) in BOUNDS.items()}, **REACHED}
BOUND_FIELDS: tuple[str, ...] = tuple(BOUND_OF.values())

# The smallest value that each bound may have, where that is not 0.
_LEAST = {
    "max_steps": 1,
    "max_consecutive_no_progress": 1,
    "max_consecutive_repeated_actions": 2,
}
# A bound that no generated run comes near, and round for a reader of a counterexample.
ROOMY = 1_000_000_000


@dataclass(frozen=True, slots=True, kw_only=True)
class Move:
    """What one step does; numbers stand for digests, `state` None leaves the state as it is."""

    kind: str = "model_generation"
    deltas: tuple[int, int, int] | None = None
    action: int = 0
    state: int | None = None
    evidence: tuple[int, ...] = ()
    outcome: str = "succeeded"
    elapsed_ms: int = 1
    cost: int = 0
    input_tokens: int = 0
    output_tokens: int = 0
    proof: int | None = None


def name_digest(role: Role, number: int) -> str:
    """Return the digest that stands for a number in a role, told apart from all others."""
    return f"{_MARKS[role]}{number:063x}"


def number_of(record: Record, field: str) -> int:
    """Return a field that is known to hold an integer."""
    value = record[field]
    assert isinstance(value, int)
    return value


def text_of(record: Record, field: str) -> str:
    """Return a field that is known to hold text."""
    value = record[field]
    assert isinstance(value, str)
    return value


def array_of(value: object) -> list[object]:
    """Return the elements of an array; a copy."""
    assert isinstance(value, list)
    return list(cast("list[object]", value))


def object_of(value: object) -> Record | None:
    """Return a JSON object under its type, or None for any other value."""
    return cast("Record", value) if isinstance(value, dict) else None


def evidence_of(step: Record) -> list[str]:
    """Return a step's evidence."""
    return [str(digest) for digest in array_of(step["new_evidence_receipt_sha256"])]


def roomy_policy(release: str) -> Record:
    """Return a policy under which no bound comes near."""
    return {
        "schema": "loopcore/policy/1",
        "policy_id": "p",
        "evaluator_release": release,
        "run_envelope_sha256": name_digest("other", 1),
        "behavior_spec_sha256": name_digest("other", 2),
        "initial_state_sha256": name_digest("state", 0),
        "started_at_unix_ms": START_MS,
        "deadline_unix_ms": ROOMY,
        "max_steps": ROOMY,
        "max_model_calls": ROOMY,
        "max_tool_calls": ROOMY,
        "max_repairs": ROOMY,
        "max_cost_microunits": INTEGER_MAX,
        "max_consecutive_no_progress": ROOMY,
        "max_consecutive_repeated_actions": ROOMY,
        **dict.fromkeys(EXTENDED_FIELDS),
    }


def append_step(policy: Record, steps: list[Record], move: Move) -> Record:
    """Return the step that a move makes after `steps`, which are left alone."""
    if steps:
        state, time = text_of(steps[-1], "state_after_sha256"), steps[-1]["completed_at_unix_ms"]
    else:
        state, time = text_of(policy, "initial_state_sha256"), policy["started_at_unix_ms"]
    assert isinstance(time, int)
    model, tool, repairs = DELTAS[move.kind][0] if move.deltas is None else move.deltas

    def within(amount: int, field: str) -> int:
        # A total above the largest integer is a defect, and defects have a place of their own.
        return max(0, min(amount, INTEGER_MAX - sum(number_of(step, field) for step in steps)))

    return {
        "sequence": len(steps) + 1,
        "action_kind": move.kind,
        "action_sha256": name_digest("action", move.action),
        "state_before_sha256": state,
        "state_after_sha256": state if move.state is None else name_digest("state", move.state),
        "new_evidence_receipt_sha256": [name_digest("evidence", n) for n in move.evidence],
        "outcome": move.outcome,
        "completed_at_unix_ms": time + move.elapsed_ms,
        "model_calls_delta": model,
        "tool_calls_delta": tool,
        "repairs_delta": repairs,
        "cost_microunits_delta": within(move.cost, "cost_microunits_delta"),
        "input_tokens_delta": within(move.input_tokens, "input_tokens_delta") if model else 0,
        "output_tokens_delta": within(move.output_tokens, "output_tokens_delta") if model else 0,
        "completion_receipt_sha256": (
            None if move.proof is None else name_digest("evidence", move.proof)
        ),
    }


def build_steps(policy: Record, moves: list[Move]) -> list[Record]:
    """Return the steps that moves make, one after the other."""
    steps: list[Record] = []
    for move in moves:
        steps.append(append_step(policy, steps, move))
    return steps


def interrupted_streaks(release: str) -> Record:
    """Return a run with an action twice, another one twice, and progress once within idle steps.

    Of both streaks three in a row would end it, and no three are in a row.
    """
    policy = roomy_policy(release)
    policy["max_consecutive_repeated_actions"] = policy["max_consecutive_no_progress"] = 3
    moves = [
        Move(action=action, state=place, evidence=(place,) if action != before else ())
        for place, (before, action) in enumerate(((1, 1), (1, 1), (1, 2), (2, 2)), start=1)
    ]
    return {"policy": policy, "steps": build_steps(policy, moves)}


def measure(steps: list[Record]) -> list[dict[str, int]]:
    """Return, after each step, the figure that each bound is compared with."""
    figures: list[dict[str, int]] = []
    totals = dict.fromkeys(TOTALS, 0)
    seen: set[str] = set()
    idle = same = 0
    last_action: str | None = None
    for index, step in enumerate(steps):
        known = len(seen)
        seen.update(evidence_of(step))
        for total, field in TOTALS.items():
            totals[total] += number_of(step, field)
        if step["action_kind"] != "wait":
            moved = step["state_before_sha256"] != step["state_after_sha256"]
            progress = moved and step["outcome"] == "succeeded" and len(seen) > known
            idle = 0 if progress else idle + 1
            action = text_of(step, "action_sha256")
            same = same + 1 if action == last_action else 1
            last_action = action
        used = {"steps": index + 1, "evidence_receipts": len(seen), **totals}
        figures.append(
            {
                **{bound: used[total] for total, bound in BOUNDS.values()},
                "deadline_unix_ms": number_of(step, "completed_at_unix_ms"),
                "max_consecutive_repeated_actions": same,
                "max_consecutive_no_progress": idle,
            }
        )
    return figures


def firing_bound(field: str, figure: int) -> int:
    """Return the largest bound at which the field's rule fires on a figure."""
    return figure if field in REACHED.values() else figure - 1


def least_bound(field: str) -> int:
    """Return the smallest value that a bound may have under a policy made here."""
    return START_MS + 1 if field == "deadline_unix_ms" else _LEAST.get(field, 0)


def bounds_of(release: str) -> tuple[str, ...]:
    """Return the fields of a release that bound one figure each."""
    return tuple(
        field for field in BOUND_FIELDS if release == EXTENDED or field not in EXTENDED_FIELDS
    )


def fit_bound(policy: Record, field: str, bound: int) -> None:
    """Set a bound of the policy in place, moved to the range that the field allows."""
    policy[field] = min(max(bound, least_bound(field)), INTEGER_MAX)
