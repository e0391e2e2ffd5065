"""Every answer that a level can give stands in one table, highest first.

Theory of operation: rows give ranks, places in the table, and the lowest rank wins. The answer to
an observation is its own. The decision of a turn is the highest of its observations' answers and
takes effect when the turn is over, so whoever runs a loop keeps the answers of a turn and asks
`turn_decision` at its end.

Source: spec controllers, sections 2 and 5.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Literal

import msgspec

from loopcore.control.decisions import Decision, DecisionKind

Source = Literal["finish", "budget", "gate", "detector", "none"]


class Answer(msgspec.Struct, frozen=True):
    """One row of the precedence: an answer and the part of a level that gives it."""

    decision: DecisionKind
    reason: str | None
    source: Source


# Highest first. Figures group stops by their source.
PRECEDENCE: tuple[Answer, ...] = (
    Answer("stop", "completed", "finish"),
    Answer("stop", "deadline_exceeded", "budget"),
    Answer("stop", "step_budget_exhausted", "budget"),
    Answer("stop", "model_budget_exhausted", "budget"),
    Answer("stop", "tool_budget_exhausted", "budget"),
    Answer("stop", "cost_budget_exhausted", "budget"),
    Answer("stop", "input_token_budget_exhausted", "budget"),
    Answer("stop", "output_token_budget_exhausted", "budget"),
    Answer("stop", "stalled_verifier", "gate"),
    Answer("stop", "invalid_completion", "gate"),
    Answer("stop", "repeated_action", "detector"),
    Answer("stop", "tool_failure", "detector"),
    Answer("stop", "nonproductive_cycle", "detector"),
    Answer("stop", "no_progress", "detector"),
    Answer("reject_finish", "invalid_completion", "gate"),
    Answer("continue", None, "none"),
)

RANKS: Mapping[tuple[DecisionKind, str | None], int] = {
    (answer.decision, answer.reason): rank for rank, answer in enumerate(PRECEDENCE)
}
DECISIONS = tuple(Decision(decision=answer.decision, reason=answer.reason) for answer in PRECEDENCE)
COMPLETED = RANKS["stop", "completed"]
DEADLINE = RANKS["stop", "deadline_exceeded"]
STEPS = RANKS["stop", "step_budget_exhausted"]
STALLED = RANKS["stop", "stalled_verifier"]
INVALID = RANKS["stop", "invalid_completion"]
REJECT = RANKS["reject_finish", "invalid_completion"]
CONTINUE = RANKS["continue", None]


def rank_of(decision: Decision) -> int:
    """Return the place of a level's answer; a recovery stands where its reason's stop does.

    Source: spec controllers, section 5.
    """
    kind = "stop" if decision.decision == "recover" else decision.decision
    return RANKS[kind, decision.reason]


def turn_decision(decisions: Iterable[Decision]) -> Decision:
    """Return the decision of a turn: the highest of its observations' answers.

    Arguments:
        decisions: answers of a level, A to E, to the observations of one turn, in any order.
    """
    return min(decisions, key=rank_of, default=DECISIONS[CONTINUE])
