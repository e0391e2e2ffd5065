"""Child runs in a simulation: they begin, are are joined, are cancelled, and die with their host.

Theory of operation: a parent's worker that starts a child gets a worker for it in the same process.
A crash takes both; the parent's next owner finds the orphan and starts it again, whose journal then
goes on where it stands. A child that must end before it began gets its whole journal in one append
to the empty head.

Source: spec runtime, section 2.
"""

from __future__ import annotations

from dataclasses import dataclass

import msgspec

from loopcore.runtime.amounts import Measured
from loopcore.runtime.cancelling import cancel_request, stillborn
from loopcore.runtime.drafting import Stamp, creation
from loopcore.runtime.envelope import Envelope, Grant, sealed
from loopcore.runtime.messages import Observation, StartChild
from loopcore.runtime.payloads import Parent, RunCreated, RunReceipt
from loopcore.runtime.policies import child_policy
from loopcore.runtime.state import State
from loopcore.store.contract import AppendRefused, AppendUnanswered
from loopcore.store.journal import EMPTY_HEAD, Event, Head, chain
from loopcore.testing.simulation.ledger import Ledger
from loopcore.testing.simulation.options import Options, without_children
from loopcore.testing.simulation.workers import Worker
from loopcore.testing.simulation.world import Mail, Run, World, returned

_FREE = Measured(cost_microunits=0, input_tokens=0, output_tokens=0)


@dataclass(slots=True)
class Joined:
    """A child that a parent's worker waits for; parent: as it was when the child was wanted."""

    host: str
    command: StartChild
    parent: State
    cancel: bool


class Family:
    """Every child run of a simulation, and who waits for it."""

    def __init__(self, world: World) -> None:
        self._world = world
        self.joined: list[Joined] = []

    def attend(self, worker: Worker) -> None:
        """Take down what a worker wants of its children."""
        for child in worker.ends_children:
            for each in self.joined:
                each.cancel = each.cancel or each.command.child_run_id == child
        for command in worker.wants_children:
            self.joined.append(Joined(worker.name, command, worker.state, command.cancel))
        worker.ends_children.clear()
        worker.wants_children.clear()

    def tend(self, hosts: set[str]) -> None:
        """Begin, cancel and report children, for workers that still live."""
        self.joined = [each for each in self.joined if each.host in hosts]
        for each in list(self.joined):
            child_run_id = each.command.child_run_id
            if child_run_id not in self._world.runs:
                self._world.runs[child_run_id] = Run(child_run_id, Ledger(self._world.effects))
            run = self._world.runs[child_run_id]
            if not run.state.created:
                self._begin(each, run)
            elif run.state.receipt is not None:
                self.joined.remove(each)
                self._report(each, run.state.receipt)
            elif each.cancel and run.state.cancel is None:
                self._cancel(each, run)

    def wanted(self) -> list[tuple[str, str]]:
        """Return run and host of every child that has begun, has not ended, and is waited for."""
        found: list[tuple[str, str]] = []
        for each in self.joined:
            run = self._world.runs.get(each.command.child_run_id)
            if run is not None and run.state.created and run.state.receipt is None:
                found.append((run.run_id, each.host))
        return found

    def _begin(self, each: Joined, run: Run) -> None:
        """Create the child, or create and cancel it at once."""
        world, parent, command = self._world, each.parent, each.command
        now = Stamp(at_unix_ms=max(world.now_ms, parent.last_at_unix_ms))
        envelope = child_envelope(world.options)
        policy = msgspec.structs.replace(
            child_policy(
                parent.policy,
                command.carve,
                name="child",
                started_at_unix_ms=now.at_unix_ms,
                deadline_unix_ms=command.deadline_unix_ms,
            ),
            initial_state_sha256=parent.state_sha256,
        )
        created = RunCreated(
            policy=sealed(policy, envelope),
            envelope=envelope,
            lineage=run.run_id,
            depth=parent.depth + 1,
            parent=Parent(run_id=parent.run_id, action=command.action),
        )
        if each.cancel:
            events = stillborn(created, run_id=run.run_id, reason="its parent ends", now=now)
        else:
            draft = creation(
                created, run_id=run.run_id, state_sha256=policy.initial_state_sha256, stamp=now
            )
            events = chain(EMPTY_HEAD, (draft,))
        self._append(each, run, EMPTY_HEAD, events)

    def _append(self, each: Joined, run: Run, head: Head, events: tuple[Event, ...]) -> None:
        world = self._world
        try:
            world.append(run.run_id, head.digest, head.epoch, events, each.host)
        except (AppendRefused, AppendUnanswered):
            world.note(lambda: f"{each.host}: no answer about the child {run.run_id[:14]}")

    def _cancel(self, each: Joined, run: Run) -> None:
        now = Stamp(at_unix_ms=self._world.now_ms)
        events = cancel_request(run.state, by="local", reason="its parent ends", now=now)
        self._append(each, run, run.state.head, events)

    def _report(self, each: Joined, receipt: RunReceipt) -> None:
        """Let the parent's worker observe what a child came to."""
        cost = receipt.usage.cost_microunits + receipt.uncommitted.cost_microunits
        measured = msgspec.structs.replace(_FREE, cost_microunits=cost)
        seen = Observation(outcome="failed", measured=measured, error_class=receipt.terminal)
        if receipt.open_effects:
            seen = Observation(outcome="indeterminate", measured=measured, error_class="open")
        elif receipt.terminal == "completed":
            seen = Observation(outcome="succeeded", measured=measured)
        self._world.post(
            Mail(
                self._world.now_ms,
                each.host,
                returned(each.command.action, seen),
            )
        )


def child_envelope(options: Options) -> Envelope:
    """Return the envelope of every child: its parent's tools and rules, without more children."""
    tools = without_children(options.tools)
    return Envelope(
        tools=tuple(case.rule for case in tools),
        grants=tuple(Grant(tool=case.rule.name) for case in tools),
        rules=options.envelope.rules,
    )
