"""Operators that replace the steps of a trace by a run of one shape: cycles, polling, budgets.

Theory of operation: the shape's parameters (period, repeats, positions of waits) are varied by the
cases, so that a fault's whole kind is covered and not one example of it.
"""

from __future__ import annotations

from loopcore.mutation.step_operators import STEP_OPERATORS, StepOperator
from loopcore.mutation.values import (
    DataError,
    Parameters,
    Record,
    array,
    named,
    number,
    number_of,
    policy_of,
    steps_of,
    text_of,
)

_WIDE = 1_000
# The longest run that an operator makes.
_STEPS_MAX = 500

# Each bound of the policy with the field of a step that counts towards it.
_COUNTED = {
    "max_model_calls": "model_calls_delta",
    "max_tool_calls": "tool_calls_delta",
    "max_repairs": "repairs_delta",
    "max_cost_microunits": "cost_microunits_delta",
    "max_input_tokens": "input_tokens_delta",
    "max_output_tokens": "output_tokens_delta",
}


def _clear(document: Record) -> None:
    """Leave a trace without steps whose limits are far away."""
    array(document["steps"]).clear()
    policy = policy_of(document)
    for field in (
        "max_steps",
        "max_model_calls",
        "max_tool_calls",
        "max_repairs",
        "max_consecutive_no_progress",
        "max_consecutive_repeated_actions",
    ):
        policy[field] = _WIDE
    policy["deadline_unix_ms"] = number(policy["started_at_unix_ms"]) + _WIDE * _WIDE * _WIDE


def _append(document: Record, **parameters: object) -> Record:
    """Add one step and return it."""
    if len(steps_of(document)) >= _STEPS_MAX:
        raise DataError(f"an operator makes at most {_STEPS_MAX} steps.")
    STEP_OPERATORS["append-steps"](document, parameters)
    return steps_of(document)[-1]


def _cycle(document: Record, parameters: Parameters) -> None:
    """Make the run go round: `length` pairs of action and state, `pairs` of them in all.

    Parameters:
        length, pairs: the period and how many pairs of the cycle there are.
        length_max, repeats: the policy's bounds.
        prefix: unrelated steps before; waits: a wait after every pair (true or false).
        evidence: "fresh" (a new receipt each step) or "none".
        states, actions: "return" (they go round, the default) or "advance" (always new);
            actions may be the "same".
        phases: which phase each pair of one period is, where some are alike; 0, 1, 2 … otherwise.
    """
    _clear(document)
    policy = policy_of(document)
    policy["max_cycle_length"] = number_of(parameters, "length_max")
    policy["cycle_repeats"] = number_of(parameters, "repeats")
    evidence = text_of(parameters, "evidence", "fresh")
    for index in range(number_of(parameters, "prefix", 0)):
        _append(document, action=f"unrelated {index}")
    length = number_of(parameters, "length")
    phases = array(parameters.get("phases", []), "the parameter phases")
    for index in range(number_of(parameters, "pairs")):
        phase = number(phases[index % length]) if phases else index % length
        kind = ("tool_call", "verification", "model_generation")[phase % 3]
        action = {
            "return": f"phase {phase}",
            "advance": f"phase {phase} of {index}",
            "same": "phase",
        }[text_of(parameters, "actions", "return")]
        step = _append(document, kind=kind, action=action, evidence=evidence)
        if text_of(parameters, "states", "return") == "return":
            step["state_after_sha256"] = named(f"phase state {phase}")
        if parameters.get("waits") is True:
            _append(document, kind="wait", action="wait", evidence=evidence, moves=False)


def _poll(document: Record, parameters: Parameters) -> None:
    """Make the run poll: `count` steps with one action that find nothing new.

    `kind` is "wait" (declared polling) or any other kind (the same, undeclared).
    """
    _clear(document)
    policy = policy_of(document)
    for field in ("max_consecutive_repeated_actions", "max_consecutive_no_progress"):
        policy[field] = number_of(parameters, field, _WIDE)
    policy["max_tool_calls"] = number_of(parameters, "max_tool_calls", _WIDE)
    for index in range(number_of(parameters, "count")):
        if parameters.get("waits") is True and index > 0:
            _append(document, kind="wait", action="wait", evidence="none", moves=False)
        _append(
            document,
            kind=text_of(parameters, "kind"),
            action="poll",
            evidence="none",
            moves=False,
            outcome=text_of(parameters, "outcome", "succeeded"),
        )


def _repair(document: Record, parameters: Parameters) -> None:
    """Make the run repair `count` times under `max_repairs`; `by_model` charges a model call."""
    _clear(document)
    policy_of(document)["max_repairs"] = number_of(parameters, "max_repairs")
    for _ in range(number_of(parameters, "count")):
        step = _append(document, kind="repair", outcome=text_of(parameters, "outcome", "failed"))
        step["model_calls_delta"] = int(parameters.get("by_model") is True)


def _bound_total(document: Record, parameters: Parameters) -> None:
    """Set a bound of the policy to the run's own total, `less` below it (0: exact)."""
    bound = text_of(parameters, "bound")
    steps = steps_of(document)
    if bound == "max_steps":
        total = len(steps)
    elif bound == "max_evidence_receipts":
        listed = [array(step["new_evidence_receipt_sha256"]) for step in steps]
        total = len({str(digest) for evidence in listed for digest in evidence})
    elif bound in _COUNTED:
        total = sum(number(step[_COUNTED[bound]]) for step in steps)
    else:
        raise DataError(f"there is no bound {bound}.")
    policy_of(document)[bound] = total - number_of(parameters, "less", 0)


RUN_OPERATORS: dict[str, StepOperator] = {
    "cycle": _cycle,
    "poll": _poll,
    "repair": _repair,
    "bound-total": _bound_total,
}
