"""Runner: wraps a loop so that limits, effects, stops and restarts hold under every fault.

    runner = Runner(policy=policy, planner=planner, tools=[pay], verifier=check, store=store)
    receipt = await runner.run("order-17")

Theory of operation: the planner proposes, the runner reserves, dispatches, records and decides;
everything that it knows is in the journal that the store keeps. Run the same line again after a
crash and the run goes on where its journal ends: calls that are settled are not repeated, a call of
which nobody knows is asked about before anything else. A run with a terminal answers with its
receipt at once; going on after one is another verb and needs another policy (`resume_under`).

Choices: the envelope (tools, grants, rules) is fixed when a run is created. A runner whose tools
are declared otherwise than in the journal refuses to touch the run.

Source: spec runtime, sections 1 to 5.
"""

from __future__ import annotations

import asyncio
import os
import secrets
import socket
from collections.abc import Awaitable, Sequence

from loopcore.errors import UsageError
from loopcore.models import Policy
from loopcore.runtime.calling import Boundary
from loopcore.runtime.cancelling import CancelRefused, cancel_request
from loopcore.runtime.children import ChildTool, run_child
from loopcore.runtime.clocks import Clock, RunClock, SystemClock
from loopcore.runtime.continuation import continued, permission, successor
from loopcore.runtime.drafting import Stamp, creation
from loopcore.runtime.driving import LOOK_MS, Drive
from loopcore.runtime.envelope import (
    Control,
    Envelope,
    Grant,
    Rules,
    ScopeUse,
    ToolRule,
    sealed,
)
from loopcore.runtime.folding import fold_all
from loopcore.runtime.journals import Journals, read_chain
from loopcore.runtime.messages import Local, Observation, Returned, StartChild
from loopcore.runtime.payloads import Parent, RunCreated, RunReceipt
from loopcore.runtime.scopes import Scope
from loopcore.runtime.scoping import ScopeBook
from loopcore.runtime.state import State
from loopcore.runtime.tools import Planner, Reconciler, Tool, Verifier
from loopcore.store.contract import Store
from loopcore.store.journal import EMPTY_HEAD, chain

# How often an append to a journal that others write to is decided afresh.
TRIES_MAX = 100


class Runner:
    """One loop, ready to run under any number of run ids.

    Arguments:
        policy: the bounds; its `run_envelope_sha256` is filled in here.
        planner: proposes, given a `View`. tools: what it may call. verifier: judges a finish.
        store: keeps the journals. reconciler: asks an effect's own system what became of a call.
        grants: authority; None grants every tool without bounds.
        control: a controller level beside the policy. scopes: budgets wider than a run.
        worker: a name of this process; None makes one. threads: False promises that functions
            which are not `async` never block.
    """

    def __init__(  # noqa: PLR0913 everything outside the run is a parameter
        self,
        *,
        policy: Policy,
        planner: Planner,
        tools: Sequence[Tool | ChildTool] = (),
        verifier: Verifier | None = None,
        store: Store,
        reconciler: Reconciler | None = None,
        grants: Sequence[Grant] | None = None,
        rules: Rules | None = None,
        task: str = "",
        control: Control | None = None,
        scopes: Sequence[Scope] = (),
        principal: str = "local",
        tenant: str = "local",
        clients: Sequence[str] = (),
        verifier_rule: ToolRule | None = None,
        clock: Clock | None = None,
        worker: str | None = None,
        threads: bool = True,
    ) -> None:
        declared = [tool.rule for tool in tools]
        if verifier_rule is not None:
            declared.append(verifier_rule)
        granted = [Grant(tool=tool.rule.name) for tool in tools] if grants is None else grants
        self.envelope = Envelope(
            task=task,
            principal=principal,
            tenant=tenant,
            clients=tuple(clients),
            tools=tuple(declared),
            grants=tuple(granted),
            rules=rules or Rules(),
            control=control,
            scopes=tuple(ScopeUse(scope_id=item.scope_id, kind=item.kind) for item in scopes),
        )
        self.policy = sealed(policy, self.envelope)
        self.worker = worker or f"{socket.gethostname()}-{os.getpid()}-{secrets.token_hex(4)}"
        self._planner = planner
        self._scopes = tuple(scopes)
        self._clock: Clock = clock or SystemClock()
        self._threads = threads
        self.journals = Journals(store)
        self._reconciles = reconciler is not None
        calls = {tool.rule.name: tool for tool in tools if isinstance(tool, Tool)}
        self._children = {tool.rule.name: tool for tool in tools if isinstance(tool, ChildTool)}
        self._boundary = Boundary(calls, verifier, reconciler, threads=threads)
        self._drives: dict[str, Drive] = {}

    async def run(self, run_id: str, *, parent: Parent | None = None, depth: int = 0) -> RunReceipt:
        """Return the receipt of the run, which has ended; it begins or goes on as needed.

        Arguments:
            run_id: printable ASCII without spaces, at most 128 characters.
            parent, depth: of a child run.

        Raises UsageError where the journal has another policy or envelope; PlannerFault, RunTaken
        and EnvironmentFault leave the run without a terminal, to be run again.
        """
        created = RunCreated(
            policy=self.policy, envelope=self.envelope, lineage=run_id, depth=depth, parent=parent
        )
        state = await self._load(run_id)
        if not state.created:
            await ScopeBook(self.journals).open(self._scopes, self._now(state))
        for _ in range(TRIES_MAX):
            if state.created:
                break
            draft = creation(
                created,
                run_id=run_id,
                state_sha256=self.policy.initial_state_sha256,
                stamp=_no_earlier(self._now(state), self.policy.started_at_unix_ms),
            )
            await self.journals.append_once(run_id, EMPTY_HEAD, chain(EMPTY_HEAD, (draft,)))
            state = await self._load(run_id)
        return await self._drive(state, Local(worker=self.worker, reconciles=self._reconciles))

    async def resume(self, run_id: str) -> RunReceipt:
        """Return the receipt of a run that exists, carried on after a crash under its own policy.

        Raises UsageError where there is no such run; otherwise as `run`.
        """
        state = await self._load(run_id)
        if not state.created:
            raise UsageError(f"run {run_id}: there is no such run")
        return await self._drive(state, Local(worker=self.worker, reconciles=self._reconciles))

    async def resume_under(
        self, run_id: str, new_run_id: str, *, hypothesis: str | None = None
    ) -> RunReceipt:
        """Return the receipt of a new run that goes on, under this policy, from a terminal.

        Arguments:
            hypothesis: the new hypothesis or evidence, where the terminal needs one.

        Raises ResumptionRefused where the terminal or the policy does not permit it.
        """
        old = await self._load(run_id, check=False)
        policy = continued(old, self.policy)
        for _ in range(TRIES_MAX):
            if old.resumed is not None and old.resumed.new_run_id == new_run_id:
                break
            events = permission(
                old,
                new_run_id=new_run_id,
                policy=policy,
                hypothesis=hypothesis,
                by=self.worker,
                now=self._now(old),
            )
            if not await self.journals.append_once(run_id, old.head, events, epoch=old.epoch + 1):
                # Somebody wrote, or still holds the lease of the old run.
                await asyncio.sleep(LOOK_MS / 1_000)
            old = await self._load(run_id, check=False)
        opening = successor(old, policy=policy, envelope=self.envelope, now=self._now(old))
        state = old
        for _ in range(TRIES_MAX):
            await self.journals.append_once(new_run_id, EMPTY_HEAD, opening)
            state = await self._load(new_run_id)
            if state.created:
                break
        return await self._drive(state, Local(worker=self.worker, reconciles=self._reconciles))

    async def request_cancel(self, run_id: str, *, by: str | None = None, reason: str = "") -> None:
        """Have a cancel request stand in the journal of a run that has not ended.

        Arguments:
            by: the client; None for the run's principal.

        Raises CancelRefused after a terminal, or where the client is not authorised.
        """
        for _ in range(TRIES_MAX):
            state = await self._load(run_id, check=False)
            if not state.created:
                raise CancelRefused(run_id, "there is no such run")
            client = state.envelope.principal if by is None else by
            events = cancel_request(state, by=client, reason=reason, now=self._now(state))
            if not events or await self.journals.append_once(run_id, state.head, events):
                break
        drive = self._drives.get(run_id)
        if drive is not None:
            drive.poke()

    async def reconcile(self, run_id: str) -> tuple[str, ...]:
        """Return the actions whose effects are still unknown after asking about each once more.

        For a run with a terminal; one without is reconciled by `run`.

        Raises UsageError where the run has no terminal, or the runner has no reconciler.
        """
        if not self._reconciles:
            raise UsageError("reconcile: the runner was given no reconciler")
        state = await self._load(run_id, check=False)
        if state.receipt is None:
            raise UsageError(f"run {run_id}: it has no terminal; running it reconciles it")
        drive = self._new_drive(state, Local(worker=self.worker, reconciles=True, mode="reconcile"))
        ended = await drive.run()
        return tuple(
            action.name for action in ended.actions.values() if action.status == "unresolved"
        )

    async def record_late(self, run_id: str, action: str, seen: Observation) -> None:
        """Have what a call brought after the terminal stand in the journal, charged and no more.

        Raises UsageError where the run has no terminal, or no such action.
        """
        state = await self._load(run_id, check=False)
        if state.receipt is None or action not in state.actions:
            raise UsageError(f"run {run_id}: no terminal stands before an outcome of {action}")
        late = Returned(action=action, observation=seen, now=self._now(state))
        local = Local(worker=self.worker, mode="reconcile", late=(late,))
        await self._new_drive(state, local).run()

    async def state(self, run_id: str) -> State:
        """Return the fold of the run's journal, and of the journals that it continues."""
        return await self._load(run_id, check=False)

    def _now(self, state: State) -> Stamp:
        return RunClock(self._clock, state.last_at_unix_ms).now()

    async def _load(self, run_id: str, *, check: bool = True) -> State:
        """Verify and fold a run's journals; with `check`, refuse a run of another runner."""
        state = State()
        for events in await read_chain(self.journals, run_id):
            fold_all(events, state)
        if not check or not state.created:
            return state
        if state.envelope != self.envelope:
            raise UsageError(f"run {run_id}: it was created with other tools, grants or rules")
        return state

    def _new_drive(self, state: State, local: Local) -> Drive:
        def start(
            parent: State, command: StartChild, cancel: asyncio.Event
        ) -> Awaitable[Observation]:
            return run_child(
                self._children[command.tool],
                parent,
                command,
                store=self.journals.store,
                clock=self._clock,
                cancel=cancel,
                threads=self._threads,
            )

        return Drive(
            self.journals,
            state,
            local,
            clock=self._clock,
            boundary=self._boundary,
            planner=self._planner,
            start_child=start,
            threads=self._threads,
        )

    async def _drive(self, state: State, local: Local) -> RunReceipt:
        if state.receipt is not None and state.lease_released:
            return state.receipt
        drive = self._new_drive(state, local)
        self._drives[state.run_id] = drive
        try:
            ended = await drive.run()
        finally:
            del self._drives[state.run_id]
        if ended.receipt is None:
            raise AssertionError("a run that is done has a receipt")
        return ended.receipt


def _no_earlier(stamp: Stamp, at_unix_ms: int) -> Stamp:
    """Return a stamp no earlier than a time; a policy may begin after its run is created."""
    if stamp.at_unix_ms >= at_unix_ms:
        return stamp
    return Stamp(at_unix_ms=at_unix_ms, clock="clamped")
