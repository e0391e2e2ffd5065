"""Which outcomes can fire together on one step, derived from the tables.

Theory of operation: evaluation ends at the first step on which anything fires. So before a step no
total exceeds its bound, and a budget can only fire on a step that adds to its total. What a step
may add is fixed by its kind (the usage table), and four outcomes fix the kind or the outcome of the
step itself. A *shape* is one allowed combination of these; two outcomes can fire together exactly
when some shape satisfies the demands of both. All other demands (time, cost, fresh evidence,
repetition, idleness, cycles) concern values that any shape may have, except that a wait takes part
in no streak and no cycle.

Over the outcomes other than `input_exhausted`, which fires on no step, 45 of the 55 pairs of the
reference release are possible, and 89 of the 105 of the extended one.

Choices: the tables are those of the naive model, so that a fault planted in `loopcore.terminals`
cannot move the goal; a test holds that both give the same pairs.

Source: spec evaluator, sections 2 and 4; spec verification, E02.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from itertools import combinations

from loopcore.testing.building import SHORT_NAMES, array_of
from loopcore.testing.naive import DELTAS, precedence
from loopcore.testing.naive_wire import RELEASES, Record

OUTCOMES = ("succeeded", "failed", "indeterminate")

UsageRules = Mapping[str, Sequence[tuple[int, int, int]]]


@dataclass(frozen=True, slots=True, kw_only=True)
class Shape:
    """What the tables fix about a step: its kind, calls and outcome, and whether it is proven."""

    kind: str
    deltas: tuple[int, int, int]
    outcome: str
    proven: bool


# What an outcome demands of the shape of the step on which it fires.
DEMANDS: dict[str, Callable[[Shape], bool]] = {
    "deadline_exceeded": lambda shape: True,
    "step_budget_exhausted": lambda shape: True,
    "model_budget_exhausted": lambda shape: shape.deltas[0] > 0,
    "tool_budget_exhausted": lambda shape: shape.deltas[1] > 0,
    "repair_budget_exhausted": lambda shape: shape.deltas[2] > 0,
    "cost_budget_exhausted": lambda shape: True,
    # Tokens without a model call are a defect.
    "input_token_budget_exhausted": lambda shape: shape.deltas[0] > 0,
    "output_token_budget_exhausted": lambda shape: shape.deltas[0] > 0,
    "evidence_budget_exhausted": lambda shape: True,
    "indeterminate_effect": lambda shape: shape.outcome == "indeterminate",
    "completed": lambda shape: shape.kind == "finish" and shape.proven,
    "invalid_completion": lambda shape: shape.kind == "finish" and not shape.proven,
    # A wait leaves streaks and the cycle window as they were, and there they did not fire.
    "repeated_action": lambda shape: shape.kind != "wait",
    "nonproductive_cycle": lambda shape: shape.kind != "wait",
    "no_progress": lambda shape: shape.kind != "wait",
    "input_exhausted": lambda shape: False,
}

# Outcomes that a shape brings about whether wanted or not.
_IMPLIED = ("indeterminate_effect", "completed", "invalid_completion")


def usage_rules(release: str) -> UsageRules:
    """Return the kinds that a release knows, each with the calls that one step may charge."""
    return {kind: rows for kind, rows in DELTAS.items() if kind != "wait" or release == RELEASES[1]}


def shapes(usage: UsageRules) -> tuple[Shape, ...]:
    """Return every shape that the usage table allows."""
    return tuple(
        Shape(kind=kind, deltas=deltas, outcome=outcome, proven=proven)
        for kind, rows in usage.items()
        for deltas in rows
        for outcome in OUTCOMES
        for proven in (False, True)
        if not proven or (kind == "finish" and outcome == "succeeded")
    )


def shapes_firing(outcomes: Sequence[str], usage: UsageRules) -> tuple[Shape, ...]:
    """Return the shapes on which all outcomes can fire, and no other is bound to."""
    return tuple(
        shape
        for shape in shapes(usage)
        if all(DEMANDS[outcome](shape) for outcome in outcomes)
        and not any(DEMANDS[other](shape) for other in _IMPLIED if other not in outcomes)
    )


def all_pairs(table: Sequence[str]) -> tuple[tuple[str, str], ...]:
    """Return all pairs of outcomes that some step can have, the higher one first."""
    return tuple(combinations([name for name in table if name != "input_exhausted"], 2))


def possible_pairs(
    release: str, *, table: Sequence[str] | None = None, usage: UsageRules | None = None
) -> tuple[tuple[str, str], ...]:
    """Return the pairs of outcomes that can fire on one step, the one that wins first.

    Arguments:
        table, usage: other precedence and usage tables than those of the naive model.
    """
    candidates = shapes(usage_rules(release) if usage is None else usage)
    return tuple(
        (first, second)
        for first, second in all_pairs(precedence(release) if table is None else table)
        if any(DEMANDS[first](shape) and DEMANDS[second](shape) for shape in candidates)
    )


def fired_outcomes(receipt: Record, last_step: Record | None) -> tuple[str, ...]:
    """Return the outcomes that fired according to a receipt, in order, `completed` among them.

    The receipt leaves `completed` out of its violations, but a finish without
    `invalid_completion` is one.
    """
    fired = {str(name) for name in array_of(receipt["violations"])}
    is_finish = last_step is not None and last_step["action_kind"] == "finish"
    if is_finish and "invalid_completion" not in fired:
        fired.add("completed")
    release = str(receipt["evaluator_release"])
    return tuple(name for name in precedence(release) if name in fired)


def pair_label(release: str, pair: tuple[str, str]) -> str:
    """Return the label of a pair, such as `reference:deadline_exceeded>no_progress`."""
    return f"{SHORT_NAMES[release]}:{pair[0]}>{pair[1]}"
