"""Scripted planners, tools that count, and one way to run them, for the tests of the runner.

Every run goes through `run`: virtual time, a store in memory, and, once it is over, agreement with
the evaluator and with the naive model.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TypeVar

import msgspec

from loopcore.canonical import canonical
from loopcore.models import Policy
from loopcore.runtime.children import ChildTool
from loopcore.runtime.envelope import Control, Grant, Rules
from loopcore.runtime.journals import Journals, read_chain
from loopcore.runtime.messages import Finding, Proposal, Reconcile
from loopcore.runtime.payloads import RunReceipt, payload_of
from loopcore.runtime.policies import run_policy
from loopcore.runtime.projection import Agreement, agreement
from loopcore.runtime.runner import Runner
from loopcore.runtime.scopes import Scope
from loopcore.runtime.tools import (
    Accepted,
    Planner,
    Reconciler,
    Tool,
    ToolCall,
    ToolFailed,
    ToolResult,
    Verdict,
    Verifier,
    act,
    finish,
    verified_no_effect,
    verified_success,
)
from loopcore.runtime.views import View
from loopcore.runtime.virtual import VirtualClock, run_virtually
from loopcore.store.contract import Store, StoreUnavailable
from loopcore.store.journal import Event, Head
from loopcore.store.memory import MemoryStore
from loopcore.terminals import EXTENDED, EXTENDED_BOUNDS, REFERENCE
from loopcore.testing import naive

P = TypeVar("P")

START = 1_000_000
STATES = tuple(f"{number:064x}" for number in range(1, 400))


def policy(
    name: str = "test", *, bounds: Mapping[str, int | None] | None = None, **more: int | None
) -> Policy:
    """Return a policy that begins with the virtual clock and lasts a minute of it."""
    given = {**(bounds or {}), **more}
    duration = given.pop("duration_ms", None) or 60_000
    generous: dict[str, int | None] = {
        "max_consecutive_no_progress": 100,
        "max_consecutive_repeated_actions": 100,
        "max_steps": 1_000,
        "max_tool_calls": 1_000,
        "max_model_calls": 1_000,
    }
    extended = any(given.get(field) is not None for field in EXTENDED_BOUNDS)
    return run_policy(
        name,
        started_at_unix_ms=START,
        duration_ms=duration,
        release=EXTENDED if extended else REFERENCE,
        bounds={**generous, **given},
    )


@dataclass
class Script:
    """A planner that proposes a list of batches, one a question, and then nothing."""

    batches: Sequence[Sequence[Proposal]]
    views: list[View] = field(default_factory=list[View])
    asked: int = 0

    def __call__(self, view: View) -> Sequence[Proposal]:
        self.views.append(view)
        place, self.asked = self.asked, self.asked + 1
        return self.batches[place] if place < len(self.batches) else ()


@dataclass
class Ledger:
    """What crossed the boundary, counted by the tools themselves."""

    calls: list[ToolCall] = field(default_factory=list[ToolCall])

    async def __call__(self, call: ToolCall) -> ToolResult:
        """Succeed at once, with a new state and evidence for each call."""
        self.calls.append(call)
        return ToolResult(
            output={"n": len(self.calls)},
            state_sha256=STATES[len(self.calls)],
            evidence=(call.evidence(f"call {len(self.calls)}"),),
        )

    @property
    def keys(self) -> list[str]:
        """The idempotency keys, in the order of the calls."""
        return [call.idempotency_key for call in self.calls]


def accept(view: View, claim: str) -> Verdict:
    """Accept every finish."""
    return Accepted(subject=f"accepted at step {view.steps}: {claim}")


class Stores:
    """A store in memory on the virtual clock, with that clock."""

    def __init__(self) -> None:
        self.clock = VirtualClock(START)
        self.store = MemoryStore(now_ms=self.clock.wall_ms)

    def events(self, run_id: str) -> list[Event]:
        """Return the journals of a run and what it continues, one after the other."""
        chain = run_virtually(read_chain(Journals(self.store), run_id))
        return [event for journal in chain for event in journal]

    def kinds(self, run_id: str) -> list[str]:
        """Return the kinds of a run's events, in order."""
        return [event.kind for event in self.store.read(run_id)]


def run(make: Callable[[Stores], Runner], run_id: str = "r", stores: Stores | None = None,
        ) -> tuple[RunReceipt, Stores]:  # fmt: skip
    """Return the receipt of a run that must agree with the evaluator, and its store."""
    stores = stores or Stores()

    async def main() -> RunReceipt:
        return await make(stores).run(run_id)

    receipt = run_virtually(main())
    agreed(stores.events(run_id))
    return receipt, stores


def said(events: Iterable[Event], kind: type[P]) -> list[P]:
    """Return what the events of one kind say, in order."""
    found = [payload_of(event) for event in events]
    return [payload for payload in found if isinstance(payload, kind)]


def agreed(events: Iterable[Event]) -> Agreement:
    """Assert that evaluator and naive model agree with a journal; return the agreement."""
    verdict = agreement(list(events))
    assert verdict.agrees, verdict.reason
    if verdict.trace is not None and verdict.receipt is not None:
        plain = msgspec.json.decode(canonical(verdict.trace))
        independent = naive.evaluate(plain["policy"], plain["steps"])
        expected = {"receipt": msgspec.json.decode(canonical(verdict.receipt))}
        assert independent == expected, "the naive model disagrees"
    return verdict


def runner(  # noqa: PLR0913 a test says what differs from the usual
    stores: Stores,
    batches: Sequence[Sequence[Proposal]] | Planner,
    tools: Sequence[Tool | ChildTool],
    *,
    under: Policy | None = None,
    rules: Rules | None = None,
    verifier: Verifier | None = accept,
    reconciler: Reconciler | None = None,
    grants: Sequence[Grant] | None = None,
    scopes: Sequence[Scope] = (),
    control: Control | None = None,
    worker: str = "w",
    store: Store | None = None,
) -> Runner:
    """Return a runner on virtual time over a store in memory."""
    return Runner(
        policy=under or policy(),
        planner=batches if callable(batches) else Script(batches),
        tools=tools,
        verifier=verifier,
        store=store or stores.store,
        reconciler=reconciler,
        rules=rules,
        grants=grants,
        scopes=scopes,
        control=control,
        clock=stores.clock,
        worker=worker,
        threads=False,
    )


@dataclass
class Effects:
    """A system with effects: counts arrivals and effects apart, and can refuse a key for good.

    Fields:
        lost: calls, by number, whose answer is lost after the effect; dropped: before it.
        enforces: whether a key that had its effect has none again.
    """

    lost: frozenset[int] = frozenset()
    dropped: frozenset[int] = frozenset()
    enforces: bool = False
    arrivals: list[str] = field(default_factory=list[str])
    effects: list[tuple[str, str]] = field(default_factory=list[tuple[str, str]])
    refused: set[str] = field(default_factory=set[str])
    asked: list[Reconcile] = field(default_factory=list[Reconcile])

    async def pay(self, call: ToolCall) -> ToolResult:
        """Have one effect for the call; the answer may be lost on the way back."""
        number = len(self.arrivals)
        self.arrivals.append(call.idempotency_key)
        if number in self.dropped:
            raise ConnectionError("the request was lost")
        if call.idempotency_key in self.refused:
            raise ToolFailed("this key is refused for good", error_class="key_refused")
        seen = {key for key, _ in self.effects}
        if not (self.enforces and call.idempotency_key in seen):
            self.effects.append((call.idempotency_key, call.identity))
        if number in self.lost:
            raise ConnectionError("the answer was lost")
        return ToolResult(
            output={"effect": len(self.effects)},
            state_sha256=STATES[len(self.effects)],
            evidence=(call.evidence(f"paid {call.idempotency_key}"),),
        )

    async def find_out(self, question: Reconcile) -> Finding:
        """Refuse the key for good, then say whether its effect happened before."""
        self.asked.append(question)
        key = question.idempotency_key
        self.refused.add(key)
        if key in {known for known, _ in self.effects}:
            return verified_success(state_sha256=STATES[len(self.effects)])
        return verified_no_effect(key)

    def most_per_identity(self) -> int:
        """Return the largest number of effects that one invocation had."""
        identities = [identity for _, identity in self.effects]
        return max((identities.count(identity) for identity in identities), default=0)


class DyingStore:
    """A store whose process dies at one append: before it, or after it and before the answer.

    Arguments:
        dies_at: the append at which it dies, counted from 0. made: whether that append is kept.
    """

    durable = False

    def __init__(self, store: MemoryStore, *, dies_at: int, made: bool) -> None:
        self.store = store
        self.dies_at = dies_at
        self.made = made
        self.appends = 0
        self.dead = False

    def _check(self) -> None:
        if self.dead:
            raise StoreUnavailable("the process is dead")

    def head(self, run_id: str) -> Head:
        """Return the head while the process lives."""
        self._check()
        return self.store.head(run_id)

    def append(self, run_id: str, expected_head: str, epoch: int, events: Sequence[Event]) -> Head:
        """Append, or die."""
        self._check()
        number, self.appends = self.appends, self.appends + 1
        if number != self.dies_at:
            return self.store.append(run_id, expected_head, epoch, events)
        self.dead = True
        if self.made:
            self.store.append(run_id, expected_head, epoch, events)
        raise StoreUnavailable("the process died")

    def read(self, run_id: str, after: int = 0) -> Iterator[Event]:
        """Read while the process lives."""
        self._check()
        return self.store.read(run_id, after)

    def runs(self) -> tuple[str, ...]:
        """Return the runs."""
        return self.store.runs()

    def renew(self, run_id: str, epoch: int, duration_ms: int) -> None:
        """Renew while the process lives."""
        self._check()
        self.store.renew(run_id, epoch, duration_ms)

    def now_ms(self) -> int:
        """Return the clock."""
        return self.store.now_ms()

    def close(self) -> None:
        """Do nothing."""


def payer(orders: int) -> Planner:
    """Return a planner without memory: pays each order once, as the history tells, then ends."""

    def propose(view: View) -> Proposal:
        paid = {r.arguments for r in view.history if r.tool == "pay" and r.outcome == "succeeded"}
        for order in range(orders):
            proposal = act("pay", {"order": order})
            if proposal.arguments not in paid:
                return proposal
        return finish({"orders": orders})

    return propose
