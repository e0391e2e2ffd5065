"""Wider budgets as the driver uses them: read, decide, append; again where others were faster.

Source: spec runtime, section 2.
"""

from __future__ import annotations

from collections.abc import Sequence

from loopcore.errors import UsageError
from loopcore.runtime.amounts import NOTHING, Amounts
from loopcore.runtime.drafting import Stamp
from loopcore.runtime.folding import fold_all
from loopcore.runtime.journals import Journals
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
from loopcore.store.contract import StoreBusy

# How often an append is decided afresh because others were faster.
TRIES_MAX = 1_000


class ScopeBook:
    """The wider budgets that one worker has looked at."""

    def __init__(self, journals: Journals) -> None:
        self._journals = journals
        self._states: dict[str, ScopeState] = {}

    async def _look(self, scope_id: str) -> ScopeState:
        """Return a budget as it stands now."""
        state = self._states.setdefault(scope_id, ScopeState())
        events = await self._journals.read(scope_id, state.head.sequence)
        return fold_scope(state, events, scope_id)

    async def _append(self, scope_id: str, payload: ScopePayload, now: Stamp) -> bool:
        state = self._states[scope_id]
        event = scope_event(state, scope_id, payload, now)
        return await self._journals.append_once(scope_id, state.head, (event,))

    async def open(self, scopes: Sequence[Scope], now: Stamp) -> None:
        """Have every budget begin; raises UsageError where one exists with other bounds."""
        for scope in scopes:
            for _ in range(TRIES_MAX):
                state = await self._look(scope.scope_id)
                if state.scope is not None:
                    break
                await self._append(scope.scope_id, ScopeOpened(scope=scope), now)
            found = self._states[scope.scope_id].scope
            if found != scope:
                raise UsageError(f"scope {scope.scope_id}: it exists with other bounds")

    async def reserve(self, run: State, wanted: ReserveScope, now: Stamp) -> ScopeAnswered:
        """Reserve actions in order in every budget, up to the first for which one has no room."""
        granted: list[str] = []
        for name, amounts in wanted.actions:
            for scope_id in wanted.scopes:
                bound = await self._reserve_one(run, scope_id, name, amounts, now)
                if bound is not None:
                    return ScopeAnswered(
                        granted=tuple(granted), refused_by=scope_id, bound=bound, now=now
                    )
            granted.append(name)
        return ScopeAnswered(granted=tuple(granted), now=now)

    async def _reserve_one(
        self, run: State, scope_id: str, name: str, amounts: Amounts, now: Stamp
    ) -> str | None:
        for _ in range(TRIES_MAX):
            state = await self._look(scope_id)
            if (run.lineage, name) in state.open:
                return None
            refused = state.refusal(amounts)
            if refused is not None:
                return refused
            entry = ScopeReserved(lineage=run.lineage, action=name, reserved=amounts)
            await self._append(scope_id, entry, now)
        raise StoreBusy(f"scope {scope_id}: others were always faster")

    async def settle(self, run: State, scopes: Sequence[str], now: Stamp) -> None:
        """Settle what the run has settled; release what the run never reserved."""
        for scope_id in scopes:
            for _ in range(TRIES_MAX):
                state = await self._look(scope_id)
                due = await self._due(run, state)
                if due is None:
                    break
                await self._append(scope_id, due, now)

    async def _due(self, run: State, scope: ScopeState) -> ScopeSettled | None:
        for lineage, name in scope.open:
            if lineage != run.lineage:
                continue
            action = run.actions.get(name)
            if action is None or action.charged is not None:
                charged = NOTHING if action is None else await self._charged(action)
                return ScopeSettled(lineage=lineage, action=name, charged=charged)
        return None

    async def _charged(self, action: Action) -> Amounts:
        """Return what an action came to; a child's own calls and tokens count here."""
        charged = action.charged or NOTHING
        if action.child_run_id is None:
            return charged
        child = fold_all(await self._journals.read(action.child_run_id))
        own = charged.minus(Amounts(cost_microunits=charged.cost_microunits))
        return own.plus(child.charged)
