"""The world of one simulated run: clock, store, journals, mail, and what goes wrong between them.

Theory of operation: time is an integer that only the scheduler moves. Every append of anybody goes
through `World.append`, where it may be lost or stay unanswered, and where each event is held
against its ledger before anybody folds it. Mail is what is under way to a worker; who has gone in
the meantime does not get it.

An append is all or nothing in every store, so a torn one is one that was not answered, made or not.

Source: spec runtime, sections 1 and 9.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Sequence
from typing import NamedTuple

from loopcore.runtime.amounts import MEMBERS, Amounts
from loopcore.runtime.drafting import Stamp
from loopcore.runtime.folding import fold
from loopcore.runtime.messages import Input, Observation, Returned
from loopcore.runtime.state import State
from loopcore.store.contract import AppendUnanswered
from loopcore.store.journal import Event, InvalidEvent
from loopcore.store.memory import MemoryStore
from loopcore.testing.simulation.draws import Draws
from loopcore.testing.simulation.effects import Effects
from loopcore.testing.simulation.ledger import Ledger, Vector
from loopcore.testing.simulation.options import NO_FAULTS, START_MS, Faults, Options
from loopcore.testing.simulation.tape import Broken, Tape


class Lost(NamedTuple):
    """An outcome of a call, for whoever may record it."""

    run_id: str
    action: str
    observation: Observation


class Mail(NamedTuple):
    """What reaches a worker at a time; it becomes an input when the worker takes it up.

    Fields:
        outcome: of a call, so that somebody else may take it up instead.
    """

    due_ms: int
    to: str
    make: Callable[[Stamp], Input]
    outcome: Lost | None = None


def returned(action: str, seen: Observation) -> Callable[[Stamp], Input]:
    """Return what makes an outcome an input, with the stamp of when it is taken up."""
    return lambda now: Returned(action=action, observation=seen, now=now)


class Run:
    """One journal, its ledger, and its fold.

    Arguments:
        before: the run that it continues, whose fold it goes on with.
    """

    def __init__(
        self, run_id: str, ledger: Ledger, state: State | None = None, before: Run | None = None
    ) -> None:
        self.run_id = run_id
        self.ledger = ledger
        self.state = State() if state is None else state
        self.before = before
        self.events: list[Event] = []


class World:
    """Everything outside the workers."""

    def __init__(self, options: Options, draws: Draws, tape: Tape) -> None:
        self.options = options
        self.draws = draws
        self.tape = tape
        self.now_ms = START_MS
        self.faults: Faults = options.faults
        self.counts: Counter[str] = Counter()
        self.effects = Effects(draws, self.time, self.strikes)
        self.store = MemoryStore(now_ms=self.time)
        self.runs: dict[str, Run] = {}
        self.mail: list[Mail] = []
        self.lost: list[Lost] = []
        self.cases = {case.rule.name: case for case in options.tools}

    def time(self) -> int:
        """Return the true time, in milliseconds."""
        return self.now_ms

    def strikes(self, fault: str) -> bool:
        """Return whether a fault happens at this opportunity, and count it."""
        share: float = getattr(self.faults, fault)
        struck = self.draws.chance(share)
        self.counts[fault] += struck
        return struck

    def calm(self) -> None:
        """Let no more faults happen from now on."""
        self.faults = NO_FAULTS

    def note(self, sentence: Callable[[], str]) -> None:
        """Keep a sentence about what happens now."""
        self.tape.note(self.now_ms, sentence)

    def post(self, mail: Mail) -> None:
        """Put mail on its way."""
        self.mail.append(mail)

    def append(
        self, run_id: str, expected_head: str, epoch: int, events: Sequence[Event], by: str
    ) -> None:
        """Have events stand in a journal; raise what a store raises, or Broken."""
        if self.strikes("append_lost"):
            self.note(lambda: f"{by}: append to {run_id} is lost")
            raise AppendUnanswered(run_id, "lost on the way")
        self.store.append(run_id, expected_head, epoch, events)
        self.accept(run_id, events, by)
        if self.strikes("append_unanswered"):
            self.note(lambda: f"{by}: the answer to this append is lost")
            raise AppendUnanswered(run_id, "the answer was lost")

    def accept(self, run_id: str, events: Sequence[Event], by: str) -> None:
        """Hold events that stand in a journal against its ledger, then fold them."""
        run = self.runs[run_id]
        self.note(lambda: f"{by}: {run_id} {' '.join(map(_described, events))}")
        for event in events:
            if event.kind == "lease_acquired" and run.ledger.lease_until_ms is not None:
                self.counts["lease_expired"] += 1
            if event.kind == "cancel_requested":
                run.ledger.was_ending = run.state.ending is not None
            run.ledger.take(event, by, self.now_ms)
            run.events.append(event)
        self._fold(run, events)

    def _fold(self, run: Run, events: Sequence[Event]) -> None:
        try:
            for event in events:
                fold(run.state, event)
        except InvalidEvent as error:
            raise Broken("R04", f"what was appended does not fold: {error}") from error
        state = run.state
        run.ledger.check_sums(_vector(state.charged), _vector(state.outstanding))

    def renew(self, run_id: str, epoch: int, duration_ms: int) -> None:
        """Let a lease last longer; raise what a store raises."""
        self.store.renew(run_id, epoch, duration_ms)
        self.runs[run_id].ledger.lease_until_ms = self.now_ms + duration_ms


def _vector(amounts: Amounts) -> Vector:
    return tuple(amounts.value(name) for name in MEMBERS)


def _described(event: Event) -> str:
    """Return an event in a few words."""
    words: list[str] = [event.kind]
    for name in ("action", "outcome", "finding", "because", "terminal", "code", "owner"):
        value = event.payload.get(name)
        if isinstance(value, str):
            words.append(value)
    return f"{event.sequence}:{'/'.join(words)}"
