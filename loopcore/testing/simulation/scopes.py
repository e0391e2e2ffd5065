"""Budgets wider than a run, as simulated workers use them, and a rival run that shares them.

Theory of operation: what the asyncio driver does in `loopcore.runtime.scoping`, without waiting:
look, decide, append by compare-and-swap, again where others were faster. A worker can die between
the scope's journal and its own, since its next append is another move. The rival is a run of which
only the scope's journal is seen; it takes what it can and gives it back later.

After every append the sums are made anew from the plain events and held against the bounds (R02).

Source: spec runtime, section 2; spec verification, section 2 (R02).
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import cast

from loopcore.runtime.amounts import MEMBERS, NOTHING, Amounts
from loopcore.runtime.drafting import Stamp
from loopcore.runtime.messages import ReserveScope, ScopeAnswered
from loopcore.runtime.scopes import (
    Scope,
    ScopeOpened,
    ScopePayload,
    ScopeReserved,
    ScopeSettled,
    ScopeState,
    fold_scope,
    scope_event,
)
from loopcore.runtime.state import Action, State
from loopcore.store.contract import AppendRefused, AppendUnanswered
from loopcore.store.journal import Event
from loopcore.testing.simulation.tape import Broken
from loopcore.testing.simulation.world import World

TRIES_MAX = 200
RIVAL = "rival"
_RIVAL_TAKES = Amounts(steps=1, tool_calls=1, cost_microunits=4)
_RIVAL_USES = Amounts(steps=1, tool_calls=1, cost_microunits=2)


class ScopeDesk:
    """The wider budgets that one worker has looked at."""

    def __init__(self, world: World) -> None:
        self._world = world
        self._states: dict[str, ScopeState] = {}

    def _look(self, scope_id: str) -> ScopeState:
        state = self._states.setdefault(scope_id, ScopeState())
        events = self._world.store.read(scope_id, state.head.sequence)
        return fold_scope(state, events, scope_id)

    def append(self, scope_id: str, payload: ScopePayload, now: Stamp) -> None:
        """Append one event if nobody was faster and nothing is lost on the way."""
        world = self._world
        state = self._look(scope_id)
        event = scope_event(state, scope_id, payload, now)
        if world.strikes("append_lost"):
            return
        world.store.append(scope_id, state.head.digest, 0, (event,))
        check_scope(world.store.read(scope_id))

    def open(self, scope: Scope, now: Stamp) -> None:
        """Have a budget begin."""
        for _ in range(TRIES_MAX):
            if self._look(scope.scope_id).scope is not None:
                return
            self.append(scope.scope_id, ScopeOpened(scope=scope), now)

    def reserve(self, run: State, wanted: ReserveScope, now: Stamp) -> ScopeAnswered:
        """Return for which actions every budget has a reservation now."""
        granted: list[str] = []
        for name, amounts in wanted.actions:
            for scope_id in wanted.scopes:
                bound = self._reserve_one(run.lineage, scope_id, name, amounts, now)
                if bound is not None:
                    return ScopeAnswered(
                        granted=tuple(granted), refused_by=scope_id, bound=bound, now=now
                    )
            granted.append(name)
        return ScopeAnswered(granted=tuple(granted), now=now)

    def _reserve_one(
        self, lineage: str, scope_id: str, name: str, amounts: Amounts, now: Stamp
    ) -> str | None:
        for _ in range(TRIES_MAX):
            state = self._look(scope_id)
            if (lineage, name) in state.open:
                return None
            refused = state.refusal(amounts)
            if refused is not None:
                return refused
            entry = ScopeReserved(lineage=lineage, action=name, reserved=amounts)
            self._try(scope_id, entry, now)
        raise Broken("liveness", f"{name} is never reserved in {scope_id}")

    def _try(self, scope_id: str, payload: ScopePayload, now: Stamp) -> None:
        try:
            self.append(scope_id, payload, now)
        except (AppendRefused, AppendUnanswered):
            self._look(scope_id)

    def settle(self, run: State, scopes: Sequence[str], now: Stamp) -> None:
        """Settle what the run has settled; release what the run never reserved."""
        for scope_id in scopes:
            for _ in range(TRIES_MAX):
                due = self._due(run, self._look(scope_id))
                if due is None:
                    break
                self._try(scope_id, due, now)

    def _due(self, run: State, scope: ScopeState) -> ScopeSettled | None:
        for lineage, name in scope.open:
            action = run.actions.get(name)
            if lineage == run.lineage and (action is None or action.charged is not None):
                charged = NOTHING if action is None else self._charged(action)
                return ScopeSettled(lineage=lineage, action=name, charged=charged)
        return None

    def _charged(self, action: Action) -> Amounts:
        """Return what an action came to; a child's own calls and tokens count here."""
        charged = action.charged or NOTHING
        child = self._world.runs.get(action.child_run_id or "")
        if child is None:
            return charged
        own = charged.minus(Amounts(cost_microunits=charged.cost_microunits))
        return own.plus(child.state.charged)

    def rival(self, now: Stamp, *, leaves: bool) -> None:
        """Let the rival take something, or give back what it holds."""
        scope = self._world.options.scope
        if scope is None:
            return
        state = self._look(scope.scope_id)
        held = [name for lineage, name in state.open if lineage == RIVAL]
        payload: ScopePayload
        if held and (leaves or self._world.draws.chance(0.5)):
            payload = ScopeSettled(lineage=RIVAL, action=held[0], charged=_RIVAL_USES)
        elif not leaves and state.refusal(_RIVAL_TAKES) is None:
            name = f"r{state.head.sequence}"
            payload = ScopeReserved(lineage=RIVAL, action=name, reserved=_RIVAL_TAKES)
        else:
            return
        self._try(scope.scope_id, payload, now)


def check_scope(events: Iterable[Event]) -> None:
    """Raise Broken where a wider budget was reserved over, or something was settled twice."""
    bounds: dict[str, object] = {}
    charged = dict.fromkeys(MEMBERS, 0)
    held: dict[tuple[object, object], dict[str, int]] = {}
    for event in events:
        payload = event.payload
        entry = (payload.get("lineage"), payload.get("action"))
        if event.kind == "run_created":
            bounds = cast("dict[str, object]", payload["scope"])
        elif event.kind == "action_reserved":
            if entry in held:
                raise Broken("R02", f"{entry[1]} is held twice in a wider budget")
            held[entry] = cast("dict[str, int]", payload["reserved"])
            for name in MEMBERS:
                total = charged[name] + sum(each[name] for each in held.values())
                limit = bounds[name]
                if isinstance(limit, int) and total > limit:
                    raise Broken("R02", f"{entry[1]} is reserved over the scope's {name}")
        elif event.kind == "reservation_settled":
            if held.pop(entry, None) is None:
                raise Broken("R06", f"{entry[1]} is settled twice in a wider budget")
            for name, value in cast("dict[str, int]", payload["charged"]).items():
                charged[name] += value
