"""A policy with its bounds said by name, and everything else filled in.

Source: spec evaluator, section 1.
"""

from __future__ import annotations

import time
from collections.abc import Mapping

import msgspec

from loopcore.canonical import INTEGER_MAX, digest
from loopcore.errors import UsageError
from loopcore.models import Policy, Release
from loopcore.runtime.amounts import BOUNDS, Amounts
from loopcore.terminals import REFERENCE

HOUR_MS = 3_600_000
EMPTY_STATE = digest({})


def run_policy(
    name: str,
    *,
    duration_ms: int = HOUR_MS,
    started_at_unix_ms: int | None = None,
    release: Release = REFERENCE,
    initial_state_sha256: str = EMPTY_STATE,
    behavior_spec_sha256: str = EMPTY_STATE,
    bounds: Mapping[str, int | None] | None = None,
    **more: int | None,
) -> Policy:
    """Return a policy under which a run may begin.

    Arguments:
        name: for people. duration_ms: from start to deadline.
        started_at_unix_ms: None for this machine's wall clock.
        bounds, more: any `max_…` field, `cycle_repeats`, by name; what is not given is 30 steps, as
            many calls of either kind, 10 repairs, no limit on cost, 5 idle and 3 repeated steps.

    Raises UsageError for a bound that a policy does not have.
    """
    start = time.time_ns() // 1_000_000 if started_at_unix_ms is None else started_at_unix_ms
    fields: dict[str, int | None] = {
        "max_steps": 30,
        "max_model_calls": 30,
        "max_tool_calls": 30,
        "max_repairs": 10,
        "max_cost_microunits": INTEGER_MAX,
        "max_consecutive_no_progress": 5,
        "max_consecutive_repeated_actions": 3,
        "max_input_tokens": None,
        "max_output_tokens": None,
        "max_evidence_receipts": None,
        "max_cycle_length": None,
        "cycle_repeats": None,
    }
    given = {**(bounds or {}), **more}
    unknown = sorted(set(given) - set(fields))
    if unknown:
        raise UsageError(f"policy: there is no bound {unknown[0]}")
    document: dict[str, object] = {
        "schema": "loopcore/policy/1",
        "policy_id": name,
        "evaluator_release": release,
        "run_envelope_sha256": EMPTY_STATE,
        "behavior_spec_sha256": behavior_spec_sha256,
        "initial_state_sha256": initial_state_sha256,
        "started_at_unix_ms": start,
        "deadline_unix_ms": start + duration_ms,
        **fields,
        **given,
    }
    try:
        return msgspec.convert(document, Policy)
    except msgspec.ValidationError as error:
        raise UsageError(f"policy: {error}") from None


def child_policy(
    parent: Policy, carve: Amounts, *, name: str, started_at_unix_ms: int, deadline_unix_ms: int
) -> Policy:
    """Return the policy of a child run: its parent's, with the carve as its budgets.

    A budget that the parent does not have is not bounded for the child either.
    """
    changes: dict[str, int] = {}
    for bound in BOUNDS:
        if getattr(parent, bound.field) is not None:
            changes[bound.field] = carve.value(bound.member)
    return msgspec.structs.replace(
        parent,
        policy_id=name[:128],
        started_at_unix_ms=started_at_unix_ms,
        deadline_unix_ms=max(deadline_unix_ms, started_at_unix_ms + 1),
        **changes,
    )
