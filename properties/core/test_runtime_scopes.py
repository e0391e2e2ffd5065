"""A budget wider than a run is never oversubscribed, whoever reserves in it at the same time."""

import asyncio
import contextlib

import pytest

from loopcore.errors import UsageError
from loopcore.runtime.amounts import Amounts
from loopcore.runtime.children import child_tool
from loopcore.runtime.envelope import Rules
from loopcore.runtime.messages import Proposal
from loopcore.runtime.payloads import RunReceipt
from loopcore.runtime.scopes import Scope, ScopeState, fold_scope
from loopcore.runtime.tools import ToolCall, act, finish, tool
from loopcore.runtime.virtual import run_virtually
from loopcore.store.contract import StoreUnavailable
from properties.core.runner_worlds import (
    DyingStore,
    Ledger,
    Stores,
    accept,
    agreed,
    payer,
    policy,
    run,
    runner,
)

THREAD = Scope(scope_id="thread-1", kind="thread", tool_calls=5)


def _scope(stores: Stores, scope_id: str = "thread-1") -> ScopeState:
    return fold_scope(ScopeState(), stores.store.read(scope_id), scope_id)


def test_a_thread_counts_over_its_runs_and_a_run_begins_at_zero() -> None:
    stores, ledger = Stores(), Ledger()
    terminals: list[RunReceipt] = []
    for number in range(3):
        receipt, _ = run(
            lambda s: runner(
                s,
                [[act("t", {"n": n})] for n in range(9)],
                [tool("t", ledger)],
                under=policy(max_tool_calls=2),
                scopes=[THREAD],
            ),
            f"r{number}",
            stores,
        )
        terminals.append(receipt)
    assert [receipt.usage.tool_calls for receipt in terminals] == [2, 2, 1]
    assert {receipt.terminal for receipt in terminals} == {"tool_budget_exhausted"}
    assert len(ledger.calls) == 5
    last = [e for e in stores.events("r2") if e.kind == "action_refused"]
    assert last[-1].payload["scope"] == "thread-1"
    state = _scope(stores)
    assert (state.charged.tool_calls, state.open) == (5, {})


def test_concurrent_runs_do_not_oversubscribe_their_thread() -> None:
    stores, ledger = Stores(), Ledger()

    async def slow(call: ToolCall) -> object:
        await asyncio.sleep(0.1)
        return await ledger(call)

    async def main() -> list[RunReceipt]:
        return await asyncio.gather(
            *(
                runner(
                    stores,
                    [[act("t", {"n": n}) for n in range(3)], [finish()]],
                    [tool("t", slow)],
                    scopes=[THREAD],
                    worker=f"w{number}",
                ).run(f"r{number}")
                for number in range(4)
            )
        )

    receipts = run_virtually(main())
    assert len(ledger.calls) == 5
    state = _scope(stores)
    assert state.charged.tool_calls == 5
    assert state.open == {}
    for number in range(4):
        agreed(stores.events(f"r{number}"))
    assert sum(receipt.usage.tool_calls for receipt in receipts) == 5


@pytest.mark.parametrize("made", [False, True])
@pytest.mark.parametrize("dies_at", range(16))
def test_a_crash_leaves_nothing_reserved_in_the_thread(dies_at: int, made: bool) -> None:
    stores, ledger = Stores(), Ledger()
    wide = Scope(scope_id="thread-1", kind="thread", tool_calls=3)

    async def main() -> RunReceipt:
        dying = DyingStore(stores.store, dies_at=dies_at, made=made)
        tools = [tool("t", ledger, effect="none")]
        batches: list[list[Proposal]] = [[act("t", {"n": 1})], [finish()]]
        with contextlib.suppress(StoreUnavailable):
            await runner(stores, batches, tools, scopes=[wide], store=dying, worker="1").run("r")
        return await runner(stores, payer(0), tools, scopes=[wide], worker="2").run("r")

    receipt = run_virtually(main())
    assert receipt.terminal == "completed"
    state = _scope(stores)
    assert state.open == {}
    assert state.charged.tool_calls == receipt.usage.tool_calls
    agreed(stores.events("r"))


def test_a_childs_carve_is_held_in_the_tree_and_settled_at_what_it_came_to() -> None:
    ledger = Ledger()
    tree = Scope(scope_id="tree-1", kind="tree", tool_calls=10, cost_microunits=100)
    child = child_tool(
        "child",
        payer(3),
        tools=[tool("pay", ledger, cost_microunits_max=5)],
        verifier=accept,
    )
    carve = Amounts(steps=9, tool_calls=8, model_calls=1, cost_microunits=50)
    receipt, stores = run(
        lambda s: runner(
            s,
            [[act("child", {"n": n}, carve=carve) for n in range(2)], [finish()]],
            [child],
            scopes=[tree],
        )
    )
    assert receipt.terminal == "completed"
    assert len(ledger.calls) == 3, "the second child's carve did not fit"
    state = _scope(stores, "tree-1")
    assert state.charged.tool_calls == 1 + 3
    assert state.charged.cost_microunits == 15
    assert state.open == {}


def test_a_scope_that_exists_with_other_bounds_is_refused() -> None:
    stores = Stores()
    run(lambda s: runner(s, [[finish()]], [], scopes=[THREAD]), stores=stores)
    other = runner(
        stores, [[finish()]], [], scopes=[Scope(scope_id="thread-1", kind="thread", tool_calls=9)]
    )
    with pytest.raises(UsageError, match="other bounds"):
        run_virtually(other.run("r2"))


def test_a_refusal_by_the_thread_waits_while_something_runs() -> None:
    stores, ledger = Stores(), Ledger()

    async def slow(call: ToolCall) -> object:
        await asyncio.sleep(5)
        return await ledger(call)

    narrow = Scope(scope_id="thread-1", kind="thread", cost_microunits=10)
    receipt, _ = run(
        lambda s: runner(
            s,
            [[act("slow")], [act("quick")], [finish()]],
            [
                tool("slow", slow, cost_microunits_max=8),
                tool("quick", ledger, cost_microunits_max=2),
            ],
            scopes=[narrow],
            rules=Rules(planning="after_each"),
        ),
        stores=stores,
    )
    assert receipt.terminal == "completed"
    assert len(ledger.calls) == 2
