"""Behind the terminal: a successor is permitted once, and only as the terminal table says.

Theory of operation: the terminal table is asked here by itself, with what the ledger knows of open
effects, and compared with what the runner permits. A permitted successor goes on with everything
that was counted, charged and done before it, which its ledger takes over too.

Source: spec runtime, section 4; spec evaluator, section 4 (terminal table); spec verification,
section 2 (R10).
"""

from __future__ import annotations

import msgspec

from loopcore.models import Policy
from loopcore.runtime.continuation import ResumptionRefused, permission, successor
from loopcore.runtime.drafting import Stamp
from loopcore.store.contract import AppendRefused
from loopcore.store.journal import EMPTY_HEAD
from loopcore.terminals import FACTS
from loopcore.testing.simulation.ledger import Ledger
from loopcore.testing.simulation.tape import Broken
from loopcore.testing.simulation.world import Run, World

_LOOSER = (
    "max_steps",
    "max_model_calls",
    "max_tool_calls",
    "max_cost_microunits",
    "max_consecutive_no_progress",
    "max_consecutive_repeated_actions",
    "max_input_tokens",
    "max_output_tokens",
)
_MORE = 3
_CLIENT = "client"


def loosened(policy: Policy, now_ms: int) -> Policy:
    """Return a policy under which no bound of the old one stands any more."""
    changes: dict[str, int] = {}
    for field in _LOOSER:
        value: int | None = getattr(policy, field)
        if value is not None:
            changes[field] = (value + 1) * _MORE
    return msgspec.structs.replace(
        policy,
        policy_id="looser",
        deadline_unix_ms=max(now_ms, policy.deadline_unix_ms) + 1_000,
        max_cycle_length=None,
        cycle_repeats=None,
        **changes,
    )


def go_on(world: World, old_run_id: str, new_run_id: str) -> bool:
    """Return whether a run with a terminal has a successor now, as the terminal table permits.

    Raises Broken where the table says otherwise.
    """
    old = world.runs[old_run_id]
    now = Stamp(at_unix_ms=max(world.now_ms, old.state.last_at_unix_ms))
    policy = loosened(old.state.policy, now.at_unix_ms)
    hypothesis = "another approach" if world.draws.chance(0.5) else None
    due = _is_permitted(old, hypothesis)
    try:
        events = permission(
            old.state,
            new_run_id=new_run_id,
            policy=policy,
            hypothesis=hypothesis,
            by=_CLIENT,
            now=now,
        )
    except ResumptionRefused as refused:
        if due:
            raise Broken("R10", f"the table permits what is refused: {refused}") from refused
        return False
    if not due:
        raise Broken("R10", f"a run may go on that ended as {old.ledger.terminal}")
    head = old.state.head
    try:
        world.store.append(old_run_id, head.digest, head.epoch + 1, events)
    except AppendRefused:
        return False
    world.accept(old_run_id, events, _CLIENT)
    _refuse_another(old, policy, now)
    opening = successor(old.state, policy=policy, envelope=old.state.envelope, now=now)
    ledger = Ledger(world.effects, before=old.ledger)
    world.runs[new_run_id] = Run(new_run_id, ledger, old.state.copy(), before=old)
    world.store.append(new_run_id, EMPTY_HEAD.digest, 0, opening)
    world.accept(new_run_id, opening, _CLIENT)
    return True


def _is_permitted(old: Run, hypothesis: str | None) -> bool:
    """Return what the terminal table says, as the ledger knows the run."""
    receipt = old.state.receipt
    if receipt is None or old.ledger.unknown():
        return False
    fired = {receipt.terminal, *receipt.violations} - {"indeterminate_effect"}
    found = {FACTS[name].resumable for name in fired}
    if "no" in found or (receipt.terminal == "cancelled"):
        return False
    return "with_new_hypothesis" not in found or hypothesis is not None


def _refuse_another(old: Run, policy: Policy, now: Stamp) -> None:
    """Raise Broken where the same terminal permits a second successor."""
    try:
        permission(
            old.state, new_run_id="rival", policy=policy, hypothesis="h", by=_CLIENT, now=now
        )
    except ResumptionRefused:
        return
    raise Broken("R10", "a terminal has two successors")
