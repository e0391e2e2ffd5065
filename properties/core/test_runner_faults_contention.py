"""Claim: sixteen processes on one budget spend exactly what there is, and never more in between."""

from __future__ import annotations

import os
from collections.abc import Generator
from contextlib import contextmanager
from pathlib import Path

import msgspec
import pytest

from loopcore.runtime.amounts import Amounts
from loopcore.runtime.scopes import ScopeState, fold_scope
from loopcore.store.journal import Event
from properties.core.killing_judge import judged, receipt_of
from properties.core.killing_lives import COMPLETED, OTHER_TERMINAL, TAKEN, Nursery
from properties.core.killing_plans import Place

pytestmark = pytest.mark.slow
PROCESSES = 16
# Each of the sixteen wants this many payments, which is twice what all together may make.
ORDERS = 4
BUDGET = 32
# Workers on one run: they want more calls than its policy permits.
CALLS_MAX = 6
# So short that the run changes hands all the time.
LEASE_MS = 40
TAKEN_MAX = 100
KINDS = ["sqlite", pytest.param("postgres", marks=pytest.mark.postgres)]


@contextmanager
def kept(kind: str, folder: Path) -> Generator[Place]:
    """Yield where the journals of a test are kept."""
    if kind == "sqlite":
        yield Place(folder=folder)
        return
    from loopcore.testing.store_postgres import PassingPostgresStore

    dsn = os.environ["LOOPCORE_POSTGRES_DSN"]
    schema = f"loopcore_contention_{os.getpid()}"
    store = PassingPostgresStore(dsn, schema=schema)
    try:
        yield Place(folder=folder, dsn=dsn, schema=schema)
    finally:
        store.destroy()


def most_held(events: list[Event]) -> int:
    """Return the largest number of calls that were spent or held at any moment of a scope."""
    held: dict[object, int] = {}
    most = 0
    for event in events[1:]:
        name = (event.payload["lineage"], event.payload["action"])
        amounts = event.payload.get("charged", event.payload.get("reserved"))
        held[name] = msgspec.convert(amounts, Amounts).tool_calls
        most = max(most, sum(held.values()))
    return most


@pytest.mark.parametrize("kind", KINDS)
def test_sixteen_runs_in_one_thread_spend_its_budget_exactly(kind: str, tmp_path: Path) -> None:
    with kept(kind, tmp_path) as place, Nursery() as nursery:
        lives = [
            msgspec.structs.replace(
                place.life(f"shared.{number}"),
                journals=place.life("shared").journals,
                orders=ORDERS,
                lossy=False,
                scope_calls=BUDGET,
            )
            for number in range(PROCESSES)
        ]
        ends = nursery.live(*lives)
        assert set(ends) <= {COMPLETED, OTHER_TERMINAL}
        assert OTHER_TERMINAL in ends
        effects = charged = 0
        for life, end in zip(lives, ends, strict=True):
            events, ledger = place.left(life)
            judged(events, ledger)
            receipt = receipt_of(events)
            expected = "completed" if end == COMPLETED else "tool_budget_exhausted"
            assert receipt.terminal == expected
            effects += len(ledger.effects)
            charged += receipt.usage.tool_calls
        scope_events, _ = place.left(msgspec.structs.replace(lives[0], run_id="shared.scope"))
    scope = fold_scope(ScopeState(), scope_events, "shared.scope")
    assert effects == charged == scope.charged.tool_calls == BUDGET
    assert scope.open == {}
    assert most_held(scope_events) == BUDGET


@pytest.mark.parametrize("kind", KINDS)
def test_sixteen_workers_on_one_run_spend_its_budget_exactly(kind: str, tmp_path: Path) -> None:
    with kept(kind, tmp_path) as place, Nursery() as nursery:
        life = msgspec.structs.replace(
            place.life("contended"),
            orders=CALLS_MAX + 2,
            calls_max=CALLS_MAX,
            lease_ms=LEASE_MS,
            pause_ms=LEASE_MS,
            taken_max=TAKEN_MAX,
        )
        ends = nursery.live(*[life] * PROCESSES)
        events, ledger = place.left(life, over=True)
    assert set(ends) <= {OTHER_TERMINAL, TAKEN}
    judged(events, ledger)
    receipt = receipt_of(events)
    assert receipt.terminal == "tool_budget_exhausted"
    assert receipt.usage.tool_calls + receipt.uncommitted.tool_calls == CALLS_MAX
    assert [event.kind for event in events].count("action_dispatched") == CALLS_MAX
    assert len(ledger.crossings) <= CALLS_MAX
    assert events[-1].epoch > 1, "the run changed hands"
