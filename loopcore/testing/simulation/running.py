"""simulate(seed): one whole run under faults, checked after every event, then to its end.

Theory of operation: each tick the scheduler lets faults happen, delivers what is due, and lets one
worker make one move, or moves time on. After the drawn number of ticks no more faults happen and
the run has to end (liveness). Then the journals as the store holds them are judged whole: they
fold, agree with the evaluator, and do not survive damage.

The same seed gives the same moves and the same bytes in every process: sets of texts are never
walked in their own order.

Source: spec runtime, section 9; spec verification, section 2 (R01 to R12).
"""

from __future__ import annotations

from typing import Literal

import msgspec

from loopcore.errors import LoopcoreError
from loopcore.runtime.cancelling import CancelRefused, cancel_request
from loopcore.runtime.drafting import Stamp, creation
from loopcore.runtime.messages import Returned
from loopcore.runtime.payloads import RunCreated
from loopcore.store.contract import AppendRefused, AppendUnanswered
from loopcore.store.journal import EMPTY_HEAD, chain
from loopcore.testing.simulation.afterwards import go_on
from loopcore.testing.simulation.draws import Draws
from loopcore.testing.simulation.family import Family
from loopcore.testing.simulation.intruders import intrude
from loopcore.testing.simulation.judging import journals_digest, judge_journals
from loopcore.testing.simulation.ledger import Ledger
from loopcore.testing.simulation.options import Options, drawn
from loopcore.testing.simulation.scopes import ScopeDesk
from loopcore.testing.simulation.tape import Broken, Tape
from loopcore.testing.simulation.workers import Worker
from loopcore.testing.simulation.world import Lost, Run, World, returned

RUN_ID, SUCCESSOR_ID = "run-1", "run-2"
CALM_TICKS_MAX = 6_000
# Beside the shutdown budgets of a run and of its child: looks, answers and thinking.
_CANCEL_SLACK_MS = 300
_STEPS_MS = (1, 1, 3, 10)
_ARRIVAL_SHARE, _RIVAL_SHARE = 0.05, 0.1
_JUMPS_MS = (30, -30, 400, -400, 2_000)


class Outcome(msgspec.Struct, frozen=True, kw_only=True):
    """What became of one simulated run.

    Fields:
        rule: the rule that broke, `liveness` or `crash`; None when everything held.
        terminal: of the first run. journals_sha256: over the bytes of every journal.
        crossings, effects: of the boundary; faults: how often each happened.
    """

    seed: int
    verdict: Literal["held", "broken"]
    rule: str | None
    reason: str
    terminal: str | None
    events: int
    crossings: int
    effects: int
    ticks: int
    faults: dict[str, int]
    journals_sha256: str


def simulate(seed: int) -> Outcome:
    """Return what became of the run of a seed. Deterministic; about a hundredth of a second."""
    return Simulation(seed, keeps=False).run()


class Simulation:
    """One simulated run; `tape` holds its moves where they are kept."""

    def __init__(self, seed: int, *, keeps: bool) -> None:
        self.options: Options
        self._draws: Draws
        self.options, self._draws = drawn(seed)
        self.tape = Tape(keeps=keeps)
        self.world = World(self.options, self._draws, self.tape)
        self._family = Family(self.world)
        self._desk = ScopeDesk(self.world)
        self._workers: list[Worker] = []
        self._born = 0
        self._ticks = 0
        self._last = RUN_ID

    def run(self) -> Outcome:
        """Return what became of the run; a rule that broke ends it where it broke."""
        rule, reason = None, "every rule held"
        try:
            self._play()
        except Broken as broken:
            rule, reason = broken.rule, broken.reason
        except (LoopcoreError, AssertionError, LookupError, TypeError, ValueError) as error:
            rule, reason = "crash", f"{type(error).__name__}: {error}"
        world, first = self.world, self.world.runs.get(RUN_ID)
        receipt = None if first is None else first.state.receipt
        return Outcome(
            seed=self.options.seed,
            verdict="held" if rule is None else "broken",
            rule=rule,
            reason=reason,
            terminal=None if receipt is None else receipt.terminal,
            events=sum(len(run.events) for run in world.runs.values()),
            crossings=world.effects.crossings.total(),
            effects=world.effects.happened.total(),
            ticks=self._ticks,
            faults=dict(sorted(world.counts.items())),
            journals_sha256=journals_digest(world),
        )

    def _play(self) -> None:
        self._begin()
        self._trouble()
        self._calm()
        self._afterwards()
        while self.world.effects.under_way:
            self.world.effects.arrive_late(0)
        judge_journals(self.world, self._draws)

    def _trouble(self) -> None:
        """Let the run go on while faults happen."""
        for _ in range(self.options.faulty_ticks):
            self._misfortune()
            self._tick()
            if self._is_over():
                return

    def _begin(self) -> None:
        world, options = self.world, self.options
        now = Stamp(at_unix_ms=world.now_ms)
        if options.scope is not None:
            self._desk.open(options.scope, now)
        created = RunCreated(policy=options.policy, envelope=options.envelope, lineage=RUN_ID)
        draft = creation(
            created,
            run_id=RUN_ID,
            state_sha256=options.policy.initial_state_sha256,
            stamp=now,
        )
        world.runs[RUN_ID] = Run(RUN_ID, Ledger(world.effects))
        world.store.append(RUN_ID, EMPTY_HEAD.digest, 0, chain(EMPTY_HEAD, (draft,)))
        for event in world.store.read(RUN_ID):
            world.accept(RUN_ID, (event,), "client")

    def _afterwards(self) -> None:
        """Reconcile behind the terminal, record what comes late, and go on under a new policy."""
        wish = self.options.afterwards
        if wish in ("reconcile", "both"):
            self._reconcile()
        if wish in ("resume", "both") and go_on(self.world, RUN_ID, SUCCESSOR_ID):
            self._last = SUCCESSOR_ID
            self.world.faults = self.options.faults
            self._trouble()
            self._calm()

    def _reconcile(self) -> None:
        world = self.world
        late = tuple(
            Returned(
                action=lost.action,
                observation=lost.observation,
                now=Stamp(at_unix_ms=world.now_ms),
            )
            for lost in world.lost
            if lost.run_id == RUN_ID
        )
        self._born += 1
        name = f"w{self._born}"
        world.note(lambda: f"{name} reconciles, with {len(late)} late outcomes")
        self._workers.append(Worker(world, RUN_ID, name, mode="reconcile", late=late))
        self._calm()

    def _is_over(self) -> bool:
        state = self.world.runs[self._last].state
        return state.receipt is not None and not self._workers

    def _calm(self) -> None:
        """Let no more faults happen; the run has to end now, and in time where it is cancelled."""
        world, run = self.world, self.world.runs[self._last]
        world.calm()
        since_ms = max(world.now_ms, run.ledger.lease_until_ms or 0)
        cancelled = run.ledger.cancelled_at_ms is not None and run.ledger.terminal is None
        until_ms = since_ms + 2 * run.state.envelope.rules.shutdown_ms + _CANCEL_SLACK_MS
        for _ in range(CALM_TICKS_MAX):
            if self._is_over():
                return
            if self.options.rival:
                self._desk.rival(Stamp(at_unix_ms=world.now_ms), leaves=True)
            self._tick()
            if cancelled and run.ledger.terminal is None and world.now_ms > until_ms:
                raise Broken("R11", f"cancelled, and not over in time: {self._standing(run)}")
        raise Broken("liveness", f"it does not end: {self._standing(run)}")

    def _standing(self, run: Run) -> str:
        state = run.state
        held = [f"{each.name} {each.status}" for each in state.open.values()]
        return f"ending {state.ending}, open {held}, {len(self._workers)} workers"

    def _tick(self) -> None:
        self._ticks += 1
        world, draws = self.world, self._draws
        self._deliver()
        self._staff()
        ready = [worker for worker in self._workers if worker.is_runnable]
        if not ready:
            self._wait()
            return
        worker = draws.pick(ready)
        worker.move()
        while not worker.gone and worker.is_runnable and draws.chance(self.options.grain):
            worker.move()
        self._family.attend(worker)
        if worker.gone:
            self._leave(worker, "is done")
        self._tend()
        if draws.chance(0.2):
            world.now_ms += draws.pick(_STEPS_MS)

    def _tend(self) -> None:
        if self._family.joined:
            self._family.tend({worker.name for worker in self._workers})
            for run in self.world.runs.values():
                if run.state.receipt is not None:
                    for each in self.world.runs.values():
                        each.ledger.open_children.discard(run.run_id)

    def _wait(self) -> None:
        """Move time on to when somebody has something to do."""
        times = [worker.until_ms for worker in self._workers]
        times += [mail.due_ms for mail in self.world.mail]
        self.world.now_ms = max(self.world.now_ms + 1, min(times, default=0))

    def _staff(self) -> None:
        """Have somebody work on every run that is wanted."""
        world, draws = self.world, self._draws
        working = [worker for worker in self._workers if worker.run_id == self._last]
        over = world.runs[self._last].state.receipt is not None
        calm = world.faults is not self.options.faults
        if not over and len(working) < self.options.workers_max:
            share = 0.05 if working else 0.5
            if draws.chance(1.0 if calm and not working else share):
                self._hire(self._last, None)
        served = {(worker.run_id, worker.host) for worker in self._workers if worker.host}
        for child_run_id, host in self._family.wanted():
            if (child_run_id, host) not in served:
                self._hire(child_run_id, host)

    def _hire(self, run_id: str, host: str | None) -> Worker:
        self._born += 1
        worker = Worker(self.world, run_id, f"w{self._born}", host=host)
        self.world.note(lambda: f"{worker.name} starts on {run_id}")
        if self._draws.chance(0.1):
            worker.refold()
        self._workers.append(worker)
        return worker

    def _leave(self, worker: Worker, why: str) -> None:
        """Take a worker away, and with it the workers of its children."""
        self.world.note(lambda: f"{worker.name} {why}")
        gone = {worker.name}
        for each in self._workers:
            if each.host in gone:
                gone.add(each.name)
        self._workers = [each for each in self._workers if each.name not in gone]

    def _deliver(self) -> None:
        """Hand over what is due; an outcome whose caller is gone goes to another, or is lost."""
        world = self.world
        due = [mail for mail in world.mail if mail.due_ms <= world.now_ms]
        if not due:
            return
        world.mail = [mail for mail in world.mail if mail.due_ms > world.now_ms]
        by_name = {worker.name: worker for worker in self._workers}
        for mail in due:
            worker = by_name.get(mail.to)
            if worker is not None:
                worker.inbox.append(mail.make)
            elif mail.outcome is not None:
                self._redirect(mail.outcome)

    def _redirect(self, lost: Lost) -> None:
        """Hand an outcome to whoever works on the run and knows the action, or keep it as lost."""
        others = [
            worker
            for worker in self._workers
            if worker.run_id == lost.run_id and lost.action in worker.state.actions
        ]
        if others and self._draws.chance(0.7):
            self._draws.pick(others).inbox.append(returned(lost.action, lost.observation))
        else:
            self.world.lost.append(lost)

    def _misfortune(self) -> None:
        """Let faults happen, each as often as was drawn."""
        world, draws = self.world, self._draws
        if self._workers and world.strikes("crash"):
            self._leave(draws.pick(self._workers), "crashes")
        if self._workers and world.strikes("clock_jump"):
            worker, jump = draws.pick(self._workers), draws.pick(_JUMPS_MS)
            worker.machine.offset_ms += jump
            world.note(lambda: f"the wall clock of {worker.name} jumps by {jump}")
        if world.effects.under_way and draws.chance(_ARRIVAL_SHARE):
            world.effects.arrive_late(draws.below(len(world.effects.under_way)))
        if world.strikes("cancel"):
            self._cancel()
        if world.strikes("intruder"):
            intrude(world, draws, self._last)
        if self.options.rival and draws.chance(_RIVAL_SHARE):
            self._desk.rival(Stamp(at_unix_ms=world.now_ms), leaves=False)

    def _cancel(self) -> None:
        world, run = self.world, self.world.runs[self._last]
        by = "stranger" if self._draws.chance(0.1) else "client"
        try:
            events = cancel_request(
                run.state, by=by, reason="asked", now=Stamp(at_unix_ms=world.now_ms)
            )
            if events:
                world.append(run.run_id, run.state.head.digest, run.state.epoch, events, by)
        except (CancelRefused, AppendRefused, AppendUnanswered) as error:
            kind = type(error).__name__
            world.note(lambda: f"{by}: cancels, {kind}")
