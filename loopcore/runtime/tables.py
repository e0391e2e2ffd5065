"""The runner's own tables: what follows a terminal, and which terminal ends which bounded count.

Source: spec runtime, section 2; spec evaluator, section 4 (terminals that a live runner adds).
"""

from __future__ import annotations

# The kinds that are accepted after `terminal_committed`; an outcome only with `usage_late`.
AFTER_TERMINAL: frozenset[str] = frozenset(
    {
        "lease_acquired",
        "lease_released",
        "effect_reconciled",
        "outcome_observed",
        "run_created",
        "run_resumed",
    }
)

# The error class of failures that say nothing of the action: rate limits, 5xx, refused connections.
INFRASTRUCTURE = "infrastructure"

# How a run ends whose planner goes on proposing what is refused. A budget is not here: it ends
# the run by its own terminal.
REFUSAL_TERMINALS: dict[str, str] = {
    "missing_authority": "awaiting_input",
    "unknown_tool": "tool_failure",
    "bad_parameters": "tool_failure",
    "key_conflict": "tool_failure",
    "batch_too_large": "tool_failure",
    "duplicate": "no_progress",
    "incident": "indeterminate_effect",
    "too_many_children": "awaiting_input",
    "too_deep": "awaiting_input",
    "carve": "awaiting_input",
}
RETRIES_TERMINAL = "tool_failure"
VERIFIER_TERMINAL = "stalled_verifier"
