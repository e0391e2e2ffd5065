"""One simulated worker: it asks the pure core what to do, and does it one command a move.

Theory of operation: a worker is what the asyncio runner is, cut into moves. Between the decision
and each of its commands others may move, time may pass, and the worker may die; what it knows dies
with it. What it may do by its own view is checked here: no call without a fresh look at the
journal, none that it knows to be over, no question to an effect's system without the lease.

Source: spec runtime, sections 2 to 5 and 9.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from typing import Literal

import msgspec

from loopcore.runtime.clocks import RunClock
from loopcore.runtime.drafting import Stamp
from loopcore.runtime.envelope import FINISH
from loopcore.runtime.folding import fold_all
from loopcore.runtime.messages import (
    Abort,
    Append,
    Call,
    Command,
    Decision,
    Done,
    Fenced,
    Finding,
    Input,
    Local,
    Observation,
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
from loopcore.runtime.protocol import decide
from loopcore.runtime.state import State
from loopcore.store.contract import AppendRefused, AppendUnanswered, LeaseHeld
from loopcore.testing.simulation.effects import Answer, finish_answer
from loopcore.testing.simulation.options import without_children
from loopcore.testing.simulation.planning import proposals
from loopcore.testing.simulation.scopes import ScopeDesk
from loopcore.testing.simulation.tape import Broken
from loopcore.testing.simulation.world import Lost, Mail, World, returned

LOOK_MS = 25
_THINKING_MS = (0, 0, 2, 10)
_ANSWERING_MS = (0, 1, 20)
_CANCELLED = Observation(outcome="indeterminate", error_class="cancelled")


class MachineClock:
    """The clocks of the machine that a worker runs on; its wall may be set."""

    def __init__(self, now_ms: Callable[[], int], offset_ms: int) -> None:
        self._now_ms = now_ms
        self.offset_ms = offset_ms

    def wall_ms(self) -> int:
        """Return the wall clock."""
        return self._now_ms() + self.offset_ms

    def monotonic_ms(self) -> int:
        """Return the time that passed."""
        return self._now_ms()


class Worker:
    """A process that works on one run.

    Arguments:
        host: the worker of the parent run that it lives and dies with, for a child's.
        late: outcomes to record behind the terminal.
    """

    def __init__(
        self,
        world: World,
        run_id: str,
        name: str,
        *,
        host: str | None = None,
        mode: Literal["run", "reconcile"] = "run",
        late: tuple[Returned, ...] = (),
    ) -> None:
        draws, options = world.draws, world.options
        self.world = world
        self.run_id = run_id
        self.name = name
        self.host = host
        self.machine = MachineClock(world.time, options.skew_ms if draws.chance(0.3) else 0)
        self.state = self._view()
        reconciles = mode == "reconcile" or draws.chance(options.reconciles)
        self.local = Local(worker=name, reconciles=reconciles, mode=mode, late=late)
        self.inbox: list[Callable[[Stamp], Input]] = []
        self.gone = False
        self.wants_children: list[StartChild] = []
        self.ends_children: list[str] = []
        self._clock = RunClock(self.machine, self.state.last_at_unix_ms)
        self._desk = ScopeDesk(world)
        self._tools = options.tools if host is None else without_children(options.tools)
        self._behind_ms: int | None = None
        self._todo: deque[Command] = deque()
        self._decision: Decision | None = None
        self._made = True
        self._ready = True
        self._fresh = False
        self._looked = False
        self.until_ms = world.now_ms

    def _view(self) -> State:
        return self.world.runs[self.run_id].state.copy()

    def stamp(self) -> Stamp:
        """Return the time of the run as this worker tells it, whatever its wall was set to."""
        stamp, now_ms = self._clock.now(), self.world.now_ms
        if self._behind_ms is None:
            self._behind_ms = now_ms - stamp.at_unix_ms
        if now_ms - stamp.at_unix_ms != self._behind_ms:
            raise Broken("R02", f"the deadline of {self.name} moves with a clock that was set")
        return stamp

    @property
    def is_runnable(self) -> bool:
        """Whether it has something to do now."""
        waiting = self._todo or self._ready or self.inbox
        return bool(waiting) or self.world.now_ms >= self.until_ms

    def move(self) -> None:
        """Decide, or carry out one command of the last decision."""
        if not self._todo:
            # Taking an input up may read the journal, so it comes before the decision on it.
            received = self._received()
            self._decision = decide(self.state, self.local, received)
            self._made = True
            self._todo.extend(self._decision.commands)
        else:
            command = self._todo.popleft()
            self._made = self._carry_out(command)
            if not self._made:
                self._todo.clear()
        if not self._todo:
            self._go_on()

    def _received(self) -> Input:
        """Take up the next input: an answer, or that time has passed."""
        fresh, self._fresh, ready, self._ready = self._fresh, False, self._ready, False
        draws = self.world.draws
        if self.inbox and not fresh and (not ready or draws.chance(0.5)):
            make = self.inbox.pop(draws.below(len(self.inbox)))
            if draws.chance(0.5):
                self._read()
            return make(self.stamp())
        if not fresh and not ready:
            self._read()
        return Pump(now=self.stamp(), fresh=fresh)

    def _go_on(self) -> None:
        """Take over what the decision left, and see whether to wait."""
        decision = self._decision
        if decision is None:
            raise AssertionError("a command is of a decision")
        self.local = decision.local if self._made else decision.otherwise
        last = decision.commands[-1] if decision.commands else None
        if isinstance(last, Done | Fenced):
            self.gone = True
        elif self._made and isinstance(last, Wait):
            self.until_ms = self.world.now_ms + self._waits(last.until_unix_ms)
        elif self._made or not self._is_held_off():
            self._ready = True

    def _waits(self, until_unix_ms: int | None) -> int:
        if until_unix_ms is None:
            return LOOK_MS
        return min(LOOK_MS, max(1, until_unix_ms - self.stamp().at_unix_ms))

    def _is_held_off(self) -> bool:
        """Return whether the lease that was refused is still held."""
        return self.until_ms > self.world.now_ms

    def _carry_out(self, command: Command) -> bool:
        """Return whether a command was carried out; only an append can fail to be."""
        match command:
            case Append():
                return self._append(command)
            case Read():
                self._read()
                self._fresh = self._looked = True
            case Call():
                self._call(command)
            case StartChild():
                self.wants_children.append(command)
            case Abort():
                self._abort(command.action)
            case Reconcile():
                self._ask(command)
            case ReserveScope():
                answer = self._desk.reserve(self.state, command, self.stamp())
                self.inbox.append(lambda now: msgspec.structs.replace(answer, now=now))
            case SettleScopes():
                self._desk.settle(self.state, command.scopes, self.stamp())
            case Propose():
                found = proposals(self.world.draws, self.world.options, self._tools)
                self._post(_THINKING_MS, lambda now: Proposed(proposals=found, now=now))
            case Wait() | Done() | Fenced():
                pass
        return True

    def _post(self, delays: tuple[int, ...], make: Callable[[Stamp], Input]) -> None:
        due = self.world.now_ms + self.world.draws.pick(delays)
        self.world.post(Mail(due, self.name, make))

    def _append(self, command: Append) -> bool:
        world = self.world
        self.until_ms = world.now_ms
        try:
            world.append(
                command.run_id, command.expected_head, command.epoch, command.events, self.name
            )
        except AppendRefused as refused:
            kind = type(refused).__name__
            world.note(lambda: f"{self.name}: refused, {kind}")
            if isinstance(refused, LeaseHeld):
                self.until_ms = min(refused.expires_at_ms, world.now_ms + LOOK_MS)
            self._read()
            return False
        except AppendUnanswered:
            self._read()
            return False
        self._looked = False
        self.state = self._view()
        if world.options.renews and not self.state.lease_released and world.draws.chance(0.2):
            self._renew()
        return True

    def _renew(self) -> None:
        """Keep the lease for longer; one that was lost shows in the journal."""
        epoch, lease_ms = self.state.epoch, self.state.envelope.rules.lease_ms
        try:
            self.world.renew(self.run_id, epoch, lease_ms)
        except AppendRefused as refused:
            kind = type(refused).__name__
            self.world.note(lambda: f"{self.name}: not renewed, {kind}")

    def _read(self) -> None:
        """See what others appended; now and then everything is folded anew and compared."""
        run = self.world.runs[self.run_id]
        if self.state.head != run.state.head:
            self.state = run.state.copy()

    def refold(self) -> None:
        """Raise Broken unless the journal, read from the store, folds to what everybody has."""
        run = self.world.runs[self.run_id]
        if run.events and run.events[0].payload.get("resumes") is not None:
            return
        events = tuple(self.world.store.read(self.run_id))
        if fold_all(events).fingerprint() != run.state.fingerprint():
            raise Broken("R04", f"{self.name} resumes from another state than the journal's fold")

    def _call(self, command: Call) -> None:
        world, state = self.world, self.state
        action = state.actions[command.action]
        if action.status != "dispatched" or state.cancel is not None or state.receipt is not None:
            raise Broken("R05", f"{self.name} calls {command.action}, which it knows to be over")
        if not self._looked:
            raise Broken("R05", f"{self.name} calls {command.action} without a look at the journal")
        if state.epoch != self.local.epoch:
            raise Broken("R07", f"{self.name} calls {command.action}, and it knows it is fenced")
        world.runs[self.run_id].ledger.check_crossing(command.action)
        world.note(lambda: f"{self.name}: {command.action} {command.tool} crosses the boundary")
        if command.tool == FINISH:
            seen = finish_answer(world.draws, state.lineage, world.now_ms)
            answers = [Answer(world.draws.pick(_ANSWERING_MS), seen)]
        else:
            case = world.cases[command.tool]
            answers = world.effects.cross(case, command, state.lineage)
        for after_ms, seen in answers:
            self._deliver(command.action, seen, after_ms)

    def _deliver(self, action: str, seen: Observation, after_ms: int) -> None:
        self.world.post(
            Mail(
                self.world.now_ms + after_ms,
                self.name,
                returned(action, seen),
                Lost(self.run_id, action, seen),
            )
        )

    def _abort(self, action: str) -> None:
        child = self.state.actions[action].child_run_id
        if child is not None:
            self.ends_children.append(child)
        elif not self.world.strikes("deaf"):
            self._deliver(action, _CANCELLED, self.world.draws.pick(_ANSWERING_MS))

    def _ask(self, command: Reconcile) -> None:
        world = self.world
        if self.state.epoch != self.local.epoch:
            raise Broken("R07", f"{self.name} asks about {command.action} without the lease")
        if world.strikes("silent"):
            return
        if command.child_run_id is not None:
            finding = Finding(finding="still_indeterminate", reason="a child's effect is open")
        else:
            finding = world.effects.ask(world.cases[command.tool], command)
        world.note(lambda: f"{self.name}: about {command.action}: {finding.finding}")
        self._post(
            _ANSWERING_MS,
            lambda now: Reconciled(action=command.action, finding=finding, now=now),
        )
