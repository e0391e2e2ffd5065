"""The asyncio driver of one run: carries out what the protocol decides, and decides nothing.

Theory of operation: one loop owns state and local memory. Calls, questions and the planner run as
tasks of one `TaskGroup` and answer into one inbox; the loop takes an answer, asks `decide`, carries
out its commands and asks again until it is told to wait. So everything that happens to a run
happens in one place, in an order that the journal shows.

A call that does not stop when it is asked to is left behind: its task is no child of the group, and
what it still brings is dropped. Other writers (a cancel request, another owner) are noticed at each
append and, while waiting, by looking at the head now and then.

Source: spec runtime, sections 1 to 5.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Coroutine, Sequence
from typing import cast

import msgspec

from loopcore.errors import EnvironmentFault, LoopcoreError
from loopcore.runtime.calling import Boundary
from loopcore.runtime.clocks import Clock, RunClock
from loopcore.runtime.drafting import Batch, Stamp
from loopcore.runtime.folding import fold, fold_all
from loopcore.runtime.invoking import invoke
from loopcore.runtime.journals import Journals, read_chain
from loopcore.runtime.messages import (
    Abort,
    Act,
    Append,
    Ask,
    Call,
    Command,
    Done,
    Fenced,
    Finding,
    Finish,
    Input,
    Local,
    Observation,
    Proposal,
    Propose,
    Proposed,
    Pump,
    Read,
    Reconcile,
    Reconciled,
    ReserveScope,
    Returned,
    SettleScopes,
    StartChild,
    Wait,
)
from loopcore.runtime.payloads import LeaseReleased
from loopcore.runtime.protocol import decide
from loopcore.runtime.scoping import ScopeBook
from loopcore.runtime.state import State
from loopcore.runtime.tools import Planner, plain_text
from loopcore.runtime.views import View
from loopcore.store.contract import LeaseHeld
from loopcore.store.journal import Event

# How often a waiting run looks whether somebody else wrote to its journal.
LOOK_MS = 250

# An answer to the loop: made when it is taken up, with the stamp of that moment.
Answer = Callable[[Stamp], Input]
ChildStarter = Callable[[State, StartChild, asyncio.Event], Awaitable[Observation]]


class RunTaken(LoopcoreError):
    """Another worker holds the run with a higher epoch; this one changed nothing since."""

    def __init__(self, run_id: str, epoch: int) -> None:
        super().__init__(f"run {run_id}: another worker holds it, with the epoch {epoch}")
        self.run_id = run_id
        self.epoch = epoch


class PlannerFault(LoopcoreError):
    """The planner raised, or proposed what is no proposal; the run has no terminal and resumes."""


class Drive:
    """One worker on one run.

    Arguments:
        state: the fold of the run's journal. local: a new worker's memory.
        boundary, planner, start_child: what lies outside.
    """

    def __init__(
        self,
        journals: Journals,
        state: State,
        local: Local,
        *,
        clock: Clock,
        boundary: Boundary,
        planner: Planner,
        start_child: ChildStarter,
        threads: bool,
    ) -> None:
        self.state = state
        self.local = local
        self._journals = journals
        self._clock = RunClock(clock, state.last_at_unix_ms)
        self._boundary = boundary
        self._planner = planner
        self._start_child = start_child
        self._threads = threads
        self._inbox: asyncio.Queue[Answer] = asyncio.Queue()
        self._fresh = False
        self._planned = len(state.results)
        self._calls: dict[str, asyncio.Task[Observation]] = {}
        self._left_behind: set[asyncio.Task[Observation]] = set()
        self._renewed_ms = 0
        self._scopes = ScopeBook(journals)
        self._owned: set[asyncio.Task[None]] = set()
        self._child_cancels: dict[str, asyncio.Event] = {}

    def poke(self) -> None:
        """Let a waiting run look at its journal at once."""
        self._inbox.put_nowait(lambda now: Pump(now=now))

    async def run(self) -> State:
        """Return the state when there is nothing more to do.

        Raises RunTaken, PlannerFault, EnvironmentFault; the run then resumes from its journal.
        """
        try:
            async with asyncio.TaskGroup() as group:
                try:
                    await self._loop(group)
                finally:
                    await self._leave()
                    for task in self._owned:
                        task.cancel()
        except BaseExceptionGroup as several:
            raise several.exceptions[0] from None
        return self.state

    async def _loop(self, group: asyncio.TaskGroup) -> None:
        received: Input = Pump(now=self._clock.now())
        while True:
            decision = decide(self.state, self.local, received)
            made = True
            for command in decision.commands:
                made = await self._carry_out(command, group)
                if not made:
                    break
            self.local = decision.local if made else decision.otherwise
            last = decision.commands[-1] if decision.commands else None
            if isinstance(last, Done):
                return
            if isinstance(last, Fenced):
                raise RunTaken(self.state.run_id, last.epoch)
            if made and isinstance(last, Wait):
                received = await self._next(last.until_unix_ms)
            else:
                fresh, self._fresh = self._fresh, False
                received = Pump(now=self._clock.now(), fresh=fresh)

    async def _carry_out(self, command: Command, group: asyncio.TaskGroup) -> bool:
        """Return whether a command was carried out; only an append can fail to be."""
        match command:
            case Append():
                return await self._append(command)
            case Read():
                await self._read()
                self._fresh = True
            case Call():
                self._start(command.action, self._call(command))
            case StartChild():
                self._start(command.action, self._child(command))
            case Abort():
                self._abort(command.action)
            case Reconcile():
                self._own(group, self._ask(command))
            case Propose():
                self._own(group, self._plan())
            case ReserveScope():
                await self._reserve(command)
            case SettleScopes():
                await self._scopes.settle(self.state, command.scopes, self._clock.now())
            case Wait() | Done() | Fenced():
                pass
        return True

    async def _append(self, command: Append) -> bool:
        """Return whether the events are appended and folded.

        They are folded first: what does not fold must never reach the journal. Where the append
        is not made the state is folded anew, from the journal alone. Taking the lease is tried
        again and again while another worker holds it, so there it is the other way round.
        """
        takes_lease = command.events[0].kind == "lease_acquired"
        if not takes_lease:
            self._fold(command.events)
        answer = await self._journals.append(command)
        if answer is True:
            if takes_lease:
                self._fold(command.events)
            return True
        if isinstance(answer, LeaseHeld):
            left = max(1, answer.expires_at_ms - answer.now_ms)
            await asyncio.sleep(min(left, LOOK_MS) / 1_000)
        if takes_lease:
            await self._read()
        else:
            chain = await read_chain(self._journals, self.state.run_id)
            self.state = fold_all(event for events in chain for event in events)
        return False

    def _fold(self, events: Sequence[Event]) -> None:
        for event in events:
            fold(self.state, event)

    async def _reserve(self, command: ReserveScope) -> None:
        answer = await self._scopes.reserve(self.state, command, self._clock.now())
        self._inbox.put_nowait(lambda now: msgspec.structs.replace(answer, now=now))

    async def _read(self) -> None:
        """Fold what others appended."""
        self._fold(await self._journals.read(self.state.run_id, self.state.head.sequence))

    async def _next(self, until_unix_ms: int | None) -> Input:
        """Return the next answer, or a pump when a time has come or the journal has grown."""
        while True:
            wait_ms = LOOK_MS
            if until_unix_ms is not None:
                left = until_unix_ms - self._clock.now().at_unix_ms
                wait_ms = min(LOOK_MS, max(0, left))
            answer = await self._take(wait_ms)
            await self._renew()
            head = await self._journals.head(self.state.run_id)
            grown = head.digest != self.state.head.digest
            if grown:
                await self._read()
            now = self._clock.now()
            if answer is not None:
                return answer(now)
            if grown or (until_unix_ms is not None and now.at_unix_ms >= until_unix_ms):
                return Pump(now=now)

    async def _take(self, wait_ms: int) -> Answer | None:
        if not self._inbox.empty():
            return self._inbox.get_nowait()
        try:
            return await asyncio.wait_for(self._inbox.get(), wait_ms / 1_000)
        except TimeoutError:
            return None

    async def _renew(self) -> None:
        """Keep the lease; one that is lost shows in the journal."""
        epoch, lease_ms = self.local.epoch, self.state.envelope.rules.lease_ms
        now = self._clock.now().at_unix_ms
        if epoch is not None and now - self._renewed_ms >= lease_ms // 3:
            self._renewed_ms = now
            await self._journals.renew(self.state.run_id, epoch, lease_ms)

    # Tasks.

    def _own(self, group: asyncio.TaskGroup, work: Coroutine[object, object, None]) -> None:
        task = group.create_task(work)
        self._owned.add(task)
        task.add_done_callback(self._owned.discard)

    def _start(self, action: str, work: Coroutine[object, object, Observation]) -> None:
        """Start a call outside the group: one that does not stop must not hold the group up."""
        task = asyncio.get_running_loop().create_task(work)
        self._calls[action] = task
        task.add_done_callback(lambda done: self._came_back(action, done))

    def _came_back(self, action: str, task: asyncio.Task[Observation]) -> None:
        self._calls.pop(action, None)
        # What went wrong with it is raised where the answer is taken up, if it still is.
        failed = None if task.cancelled() else task.exception()

        def answer(now: Stamp) -> Input:
            if failed is not None:
                raise failed
            seen = _observation(task)
            return Returned(action=action, observation=seen, now=now)

        self._inbox.put_nowait(answer)

    async def _call(self, command: Call) -> Observation:
        return await self._boundary.call(command, self.state, self._clock.now().at_unix_ms)

    async def _child(self, command: StartChild) -> Observation:
        cancel = self._child_cancels.setdefault(command.action, asyncio.Event())
        if command.cancel:
            cancel.set()
        return await self._start_child(self.state, command, cancel)

    def _abort(self, action: str) -> None:
        """Ask a call to stop; a child run is cancelled by its own journal and joined."""
        cancel = self._child_cancels.get(action)
        task = self._calls.get(action)
        if cancel is not None:
            cancel.set()
        elif task is not None:
            task.cancel()

    async def _ask(self, command: Reconcile) -> None:
        finding: Finding = await self._boundary.ask(command)
        self._inbox.put_nowait(
            lambda now: Reconciled(action=command.action, finding=finding, now=now)
        )

    async def _plan(self) -> None:
        view = View(self.state, self._planned)
        self._planned = len(self.state.results)
        try:
            planner = self._planner
            answer = await invoke(planner, lambda: planner(view), threads=self._threads)
            proposals = proposals_of(answer)
        except EnvironmentFault:
            raise
        except Exception as error:
            raise PlannerFault(f"the planner failed: {type(error).__name__}: {error}") from error
        self._inbox.put_nowait(lambda now: Proposed(proposals=proposals, now=now))

    async def _leave(self) -> None:
        """Stop what still runs, within the shutdown budget; give the run back if it is held."""
        waited_for = {task for action, task in self._calls.items() if action in self.local.calling}
        for task in self._calls.values():
            task.cancel()
        if waited_for:
            grace = self.state.envelope.rules.shutdown_ms / 1_000
            await asyncio.wait(waited_for, timeout=grace)
        self._left_behind |= {task for task in self._calls.values() if not task.done()}
        held = self.local.epoch is not None and self.local.epoch == self.state.epoch
        if held and not self.state.lease_released:
            await self._release()

    async def _release(self) -> None:
        batch = Batch(self.state, self._clock.now())
        batch.add(LeaseReleased(owner=self.local.worker))
        events = batch.events()
        try:
            if await self._journals.append_once(self.state.run_id, self.state.head, events):
                for event in events:
                    fold(self.state, event)
        except EnvironmentFault:
            # The store is what failed; the lease then ends by itself.
            return


def _observation(task: asyncio.Task[Observation]) -> Observation:
    """Return what a finished call brought; one that was stopped from outside tells nothing."""
    if task.cancelled():
        return Observation(outcome="indeterminate", error_class="cancelled")
    return task.result()


def proposals_of(answer: object) -> tuple[Proposal, ...]:
    """Return what a planner proposes; raises TypeError for anything else."""
    if answer is None:
        return ()
    items: Sequence[object] = (
        cast("Sequence[object]", answer) if isinstance(answer, list | tuple) else [answer]
    )
    found: list[Proposal] = []
    for item in items:
        if not isinstance(item, Act | Finish | Ask):
            raise TypeError(f"a planner proposes Act, Finish or Ask, not {type(item).__name__}")
        found.append(_plain(item))
    return tuple(found)


def _plain(item: Proposal) -> Proposal:
    """Return a proposal whose texts all have UTF-8, since models write half surrogate pairs."""
    match item:
        case Act():
            return msgspec.structs.replace(
                item,
                tool=plain_text(item.tool),
                arguments=plain_text(item.arguments),
                key=None if item.key is None else plain_text(item.key),
            )
        case Finish():
            return Finish(claim=plain_text(item.claim))
        case Ask():
            return Ask(question=plain_text(item.question))
