"""Child runs: a tool that is a run of its own, within a budget carved out of its parent's.

Theory of operation: the parent's action holds the carve, the child's policy bounds the child by it,
and the action is settled at what the child came to. The child has its own journal under a derived
name, so a parent that crashed takes it up again, and one that ends cancels it through that journal
and joins it. A child whose journal is empty when it must end is created and cancelled in one append
to the empty head: nobody can start it afterwards.

Choices: a child's cost is its parent's cost. Its calls and tokens are bounded by the carve and held
in the wider budgets, but they are no calls of the parent, whose trace could not show them. A child
that ended with an effect that nobody knows leaves its parent's action indeterminate.

Source: spec runtime, section 2.
"""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

import msgspec

from loopcore.runtime.amounts import Measured
from loopcore.runtime.cancelling import CancelRefused, stillborn
from loopcore.runtime.clocks import Clock, RunClock
from loopcore.runtime.drafting import Stamp
from loopcore.runtime.envelope import FINISH, Rules, ToolRule
from loopcore.runtime.messages import Observation, StartChild
from loopcore.runtime.payloads import Parent, RunCreated, RunReceipt
from loopcore.runtime.policies import child_policy
from loopcore.runtime.state import State
from loopcore.runtime.tools import Planner, Reconciler, Tool, Verifier, json_text, with_output
from loopcore.store.contract import Store
from loopcore.store.journal import EMPTY_HEAD

if TYPE_CHECKING:
    from loopcore.runtime.runner import Runner


@dataclass(frozen=True, slots=True, kw_only=True)
class ChildTool:
    """A tool whose calls are runs; what its planner may do is its own, its budget is carved."""

    rule: ToolRule
    planner: Planner
    tools: Sequence[Tool | ChildTool] = ()
    verifier: Verifier | None = None
    reconciler: Reconciler | None = None
    rules: Rules | None = None


def child_tool(
    name: str,
    planner: Planner,
    *,
    tools: Sequence[Tool | ChildTool] = (),
    verifier: Verifier | None = None,
    reconciler: Reconciler | None = None,
    rules: Rules | None = None,
) -> ChildTool:
    """Return a tool that runs a child for each call; its arguments are the child's task."""
    return ChildTool(
        rule=ToolRule(name=name, child=True),
        planner=planner,
        tools=tools,
        verifier=verifier,
        reconciler=reconciler,
        rules=rules,
    )


async def run_child(
    tool: ChildTool,
    parent: State,
    command: StartChild,
    *,
    store: Store,
    clock: Clock,
    cancel: asyncio.Event,
    threads: bool,
) -> Observation:
    """Return what the parent observes of a child that has ended; it begins or goes on as needed.

    Arguments:
        cancel: set when the child is to end; it then ends by its own protocol and is joined.
    """
    from loopcore.runtime.runner import Runner

    child_run_id = command.child_run_id
    limit = parent.envelope.rules.output_characters_max
    now = RunClock(clock, parent.last_at_unix_ms).now()
    runner = Runner(
        policy=msgspec.structs.replace(
            child_policy(
                parent.policy,
                command.carve,
                name=f"{parent.policy.policy_id}/{command.action}",
                started_at_unix_ms=now.at_unix_ms,
                deadline_unix_ms=command.deadline_unix_ms,
            ),
            initial_state_sha256=parent.state_sha256,
        ),
        planner=tool.planner,
        tools=tool.tools,
        verifier=tool.verifier,
        store=store,
        reconciler=tool.reconciler,
        rules=tool.rules,
        task=command.arguments,
        principal=parent.envelope.principal,
        tenant=parent.envelope.tenant,
        clock=clock,
        threads=threads,
    )
    place = Parent(run_id=parent.run_id, action=command.action)
    if cancel.is_set() and await _end_unborn(runner, parent, child_run_id, place, now):
        return Observation(outcome="failed", error_class="cancelled", measured=FREE)
    run = asyncio.ensure_future(runner.run(child_run_id, parent=place, depth=parent.depth + 1))
    cancelling = asyncio.ensure_future(_pass_on(runner, child_run_id, cancel))
    try:
        receipt = await run
    finally:
        cancelling.cancel()
        if not run.done():
            run.cancel()
        await asyncio.gather(run, cancelling, return_exceptions=True)
    state = await runner.state(child_run_id)
    return with_output(_observation(receipt), _report(receipt, state), limit)


FREE = Measured(cost_microunits=0, input_tokens=0, output_tokens=0)


async def _end_unborn(
    runner: Runner, parent: State, child_run_id: str, place: Parent, now: Stamp
) -> bool:
    """Return whether the child's journal was empty and now holds its cancellation alone."""
    created = RunCreated(
        policy=runner.policy,
        envelope=runner.envelope,
        lineage=child_run_id,
        depth=parent.depth + 1,
        parent=place,
    )
    events = stillborn(created, run_id=child_run_id, reason="its parent ends", now=now)
    return await runner.journals.append_once(child_run_id, EMPTY_HEAD, events)


async def _pass_on(runner: Runner, child_run_id: str, cancel: asyncio.Event) -> None:
    """Cancel the child when its parent says so, however often it takes until it exists."""
    await cancel.wait()
    while True:
        try:
            await runner.request_cancel(child_run_id, reason="its parent ends")
        except CancelRefused:
            state = await runner.state(child_run_id)
            if state.created:
                return
            await asyncio.sleep(0.01)
        else:
            return


def _observation(receipt: RunReceipt) -> Observation:
    """Return what a child's receipt is to its parent's action."""
    cost = receipt.usage.cost_microunits + receipt.uncommitted.cost_microunits
    measured = Measured(cost_microunits=cost, input_tokens=0, output_tokens=0)
    if receipt.open_effects:
        return Observation(
            outcome="indeterminate", measured=measured, error_class="child_effects_open"
        )
    if receipt.terminal == "completed":
        return Observation(outcome="succeeded", measured=measured)
    return Observation(outcome="failed", measured=measured, error_class=receipt.terminal)


def _report(receipt: RunReceipt, state: State) -> str:
    """Return what a parent's planner reads of a child: its terminal and its last claim."""
    claim: str | None = None
    for action in state.actions.values():
        if action.reserved.tool == FINISH and action.outcome == "succeeded":
            claim = action.reserved.arguments
    return json_text({"run_id": receipt.run_id, "terminal": receipt.terminal, "claim": claim})
