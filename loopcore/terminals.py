"""Terminals, precedence, usage rules and error codes: the normative tables, as data.

Theory of operation: after each step every *signal* is tested on its own, and each signal that fired
names a terminal. Which of them wins is not a matter of code but of a row's place in the table of
the policy's release. A new order is a new release name; an old table is never edited.

The documentation of these tables (`README.md`, reference section) is generated from them.

Source: spec evaluator, sections 2 to 4.
"""

from __future__ import annotations

from typing import Literal

import msgspec

from loopcore.models import ActionKind, Release, Terminal

REFERENCE: Release = "loopcore-reference/1"
EXTENDED: Release = "loopcore-extended/1"

# One row a line, highest first. `completed` and `invalid_completion` are the two outcomes of one
# row of the specification (finish validation) and never fire together.
PRECEDENCE: dict[Release, tuple[Terminal, ...]] = {
    REFERENCE: (
        "deadline_exceeded",
        "step_budget_exhausted",
        "model_budget_exhausted",
        "tool_budget_exhausted",
        "repair_budget_exhausted",
        "cost_budget_exhausted",
        "indeterminate_effect",
        "completed",
        "invalid_completion",
        "repeated_action",
        "no_progress",
        "input_exhausted",
    ),
    EXTENDED: (
        "deadline_exceeded",
        "step_budget_exhausted",
        "model_budget_exhausted",
        "tool_budget_exhausted",
        "repair_budget_exhausted",
        "cost_budget_exhausted",
        "input_token_budget_exhausted",
        "output_token_budget_exhausted",
        "evidence_budget_exhausted",
        "indeterminate_effect",
        "completed",
        "invalid_completion",
        "repeated_action",
        "nonproductive_cycle",
        "no_progress",
        "input_exhausted",
    ),
}

# The kinds that a release knows, each with the (model calls, tool calls, repairs) that one step of
# that kind may charge.
_USAGE_REFERENCE: dict[ActionKind, tuple[tuple[int, int, int], ...]] = {
    "model_generation": ((1, 0, 0),),
    "tool_call": ((0, 1, 0),),
    "verification": ((0, 0, 0),),
    "repair": ((0, 0, 1), (1, 0, 1)),
    "finish": ((0, 0, 0),),
}
USAGE_RULES: dict[Release, dict[ActionKind, tuple[tuple[int, int, int], ...]]] = {
    REFERENCE: _USAGE_REFERENCE,
    EXTENDED: {**_USAGE_REFERENCE, "wait": ((0, 1, 0),)},
}

# Bounds that only the extended release enforces, in table order.
EXTENDED_BOUNDS: tuple[str, ...] = (
    "max_input_tokens",
    "max_output_tokens",
    "max_evidence_receipts",
    "max_cycle_length",
    "cycle_repeats",
)

TerminalClass = Literal["success", "pause", "failure", "cancelled"]
Resumable = Literal["no", "after_reconciliation", "with_new_hypothesis", "yes"]


class TerminalFact(msgspec.Struct, frozen=True):
    """What a terminal means to whoever has to act on it."""

    terminal: str
    terminal_class: TerminalClass
    next_owner: str
    resumable: Resumable


_BUDGET_OWNER = "product policy, user or scheduler"
_DIAGNOSIS = "diagnosis or escalation"

TERMINALS: tuple[TerminalFact, ...] = (
    TerminalFact("completed", "success", "downstream consumer", "no"),
    TerminalFact("deadline_exceeded", "pause", _BUDGET_OWNER, "yes"),
    TerminalFact("step_budget_exhausted", "pause", _BUDGET_OWNER, "yes"),
    TerminalFact("model_budget_exhausted", "pause", _BUDGET_OWNER, "yes"),
    TerminalFact("tool_budget_exhausted", "pause", _BUDGET_OWNER, "yes"),
    TerminalFact("repair_budget_exhausted", "pause", _BUDGET_OWNER, "yes"),
    TerminalFact("cost_budget_exhausted", "pause", _BUDGET_OWNER, "yes"),
    TerminalFact("input_token_budget_exhausted", "pause", _BUDGET_OWNER, "yes"),
    TerminalFact("output_token_budget_exhausted", "pause", _BUDGET_OWNER, "yes"),
    TerminalFact("evidence_budget_exhausted", "pause", _BUDGET_OWNER, "yes"),
    TerminalFact("no_progress", "pause", _DIAGNOSIS, "with_new_hypothesis"),
    TerminalFact("nonproductive_cycle", "pause", _DIAGNOSIS, "with_new_hypothesis"),
    TerminalFact("repeated_action", "failure", "planner defect or adversarial-input review", "no"),
    TerminalFact("indeterminate_effect", "pause", "reconciliation worker", "after_reconciliation"),
    TerminalFact(
        "invalid_completion", "failure", "behaviour evaluator or model-output review", "no"
    ),
    TerminalFact("input_exhausted", "failure", "orchestrator or data-source diagnosis", "yes"),
    # Terminals that only a live runner or a controller can give.
    TerminalFact("cancelled", "cancelled", "the user", "no"),
    TerminalFact("awaiting_input", "pause", "the user", "yes"),
    TerminalFact("tool_failure", "pause", "the tool's owner", "yes"),
    TerminalFact("stalled_verifier", "pause", "the verifier's owner", "yes"),
)

FACTS: dict[str, TerminalFact] = {fact.terminal: fact for fact in TERMINALS}

# From the strictest to the laxest. Reconciliation comes first of all: while an effect is
# unresolved, nothing else about the run can be decided.
_STRICTNESS: tuple[Resumable, ...] = ("after_reconciliation", "no", "with_new_hypothesis", "yes")


def disposition(terminal: str, violations: tuple[str, ...]) -> TerminalFact:
    """Return class of the winner, with owner and resumability the strictest over all violations.

    A payment that timed out at the deadline is still unresolved: whatever terminal won, the run
    resumes only after reconciliation when `indeterminate_effect` is among the violations.

    Source: spec evaluator, section 4.
    """
    facts = [FACTS[terminal], *(FACTS[name] for name in violations)]
    strictest = min(facts, key=lambda fact: _STRICTNESS.index(fact.resumable))
    return TerminalFact(
        terminal, FACTS[terminal].terminal_class, strictest.next_owner, strictest.resumable
    )


# Codes of a trace that is not well formed, in the order in which a step is checked.
STEP_ERRORS: tuple[tuple[str, str], ...] = (
    ("post_terminal_step", "a terminal was already reached by an earlier step"),
    ("sequence_gap", "sequence is not the step's index plus 1"),
    ("time_regression", "completed_at is before the previous step's, or before the start"),
    ("state_chain_broken", "state_before is not the previous state_after, or the initial state"),
    ("duplicate_evidence", "a digest stands twice in this step's evidence"),
    ("unsupported_kind", "the policy's release does not have this kind of action"),
    ("usage_mismatch", "deltas do not fit the kind, or there are tokens without a model call"),
    ("unexpected_completion_receipt", "only a finish may carry a completion receipt"),
    ("usage_overflow", "a running total exceeds 2^53-1"),
)
DOCUMENT_ERRORS: tuple[tuple[str, str], ...] = (
    ("malformed", "the document does not decode"),
    ("invalid_policy", "the fields of the policy contradict each other"),
    ("unreadable", "the file cannot be read"),
)
ERROR_CODES: dict[str, str] = dict(DOCUMENT_ERRORS + STEP_ERRORS)
