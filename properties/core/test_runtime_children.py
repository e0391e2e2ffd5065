"""A child run lives within the carve of its parent's reservation, and never outlives its parent."""

import asyncio
import contextlib

import pytest

from loopcore.runtime.amounts import Amounts
from loopcore.runtime.children import ChildTool, child_tool
from loopcore.runtime.envelope import Rules
from loopcore.runtime.messages import Proposal
from loopcore.runtime.names import child_run_id
from loopcore.runtime.payloads import RunCreated, RunReceipt, TerminalCommitted
from loopcore.runtime.runner import Runner
from loopcore.runtime.tools import Planner, ToolCall, act, finish, tool
from loopcore.runtime.views import View
from loopcore.runtime.virtual import run_virtually
from loopcore.store.contract import StoreUnavailable
from properties.core.runner_worlds import (
    START,
    DyingStore,
    Effects,
    Ledger,
    Script,
    Stores,
    accept,
    agreed,
    payer,
    policy,
    run,
    runner,
    said,
)

FIFTY = Amounts(
    steps=20, model_calls=20, tool_calls=20, repairs=1, cost_microunits=50, input_tokens=0
)


def spawner(count: int, carve: Amounts = FIFTY) -> Planner:
    """Return a planner that starts so many children at once, then finishes."""

    def propose(view: View) -> list[Proposal]:
        if len(view.history) == 0:
            return [act("child", {"part": n}, carve=carve) for n in range(count)]
        return [finish()]

    return propose


def worker_child(ledger: Ledger, orders: int = 2, cost: int = 5) -> ChildTool:
    """Return a child that pays some orders and finishes."""
    return child_tool(
        "child",
        payer(orders),
        tools=[tool("pay", ledger, cost_microunits_max=cost)],
        verifier=accept,
    )


def test_a_childs_cost_is_its_parents_and_its_calls_are_not() -> None:
    ledger = Ledger()
    receipt, stores = run(
        lambda s: runner(
            s, spawner(2), [worker_child(ledger)], under=policy(max_cost_microunits=100)
        )
    )
    assert receipt.terminal == "completed"
    assert len(ledger.calls) == 4
    assert receipt.usage.cost_microunits == 20
    assert receipt.usage.tool_calls == 2
    for number in (1, 2):
        events = stores.events(child_run_id("r", f"a{number}"))
        assert events[-2].kind == "terminal_committed"
        agreed(events)


def test_the_carves_of_all_children_stay_within_the_parents_remainder() -> None:
    ledger = Ledger()
    script = Script([[act("child", {"part": n}, carve=FIFTY) for n in range(3)], [finish()]])
    receipt, _ = run(
        lambda s: runner(s, script, [worker_child(ledger)], under=policy(max_cost_microunits=100))
    )
    answers = [result.refused for result in script.views[1].last]
    assert answers.count("budget") + answers.count("carve") == 1
    assert receipt.terminal == "completed"


def test_a_child_cannot_spend_more_than_its_carve() -> None:
    ledger = Ledger()
    receipt, stores = run(
        lambda s: runner(
            s,
            spawner(1, Amounts(steps=20, tool_calls=20, model_calls=1, cost_microunits=12)),
            [worker_child(ledger, orders=9)],
            under=policy(max_cost_microunits=100),
        )
    )
    events = stores.events(child_run_id("r", "a1"))
    (ended,) = said(events, TerminalCommitted)
    assert ended.receipt.terminal == "cost_budget_exhausted"
    assert len(ledger.calls) == 2
    assert receipt.usage.cost_microunits == 10


@pytest.mark.parametrize(
    ("rules", "code"),
    [(Rules(children_max=1), "too_many_children"), (Rules(depth_max=0), "too_deep")],
)
def test_number_and_depth_of_children_are_bounded(rules: Rules, code: str) -> None:
    script = Script([[act("child", {"part": n}, carve=FIFTY) for n in range(2)], [finish()]])
    _, stores = run(lambda s: runner(s, script, [worker_child(Ledger())], rules=rules))
    codes = [e.payload["code"] for e in stores.events("r") if e.kind == "action_refused"]
    assert set(codes) == {code}


def test_a_grandchild_is_bounded_by_depth() -> None:
    ledger = Ledger()

    def middle(view: View) -> Proposal:
        if len(view.history) == 0:
            return act("child", {"deeper": 1}, carve=Amounts(steps=2, tool_calls=2))
        return finish({"saw": view.history[0].refused})

    deep = child_tool("child", middle, tools=[worker_child(ledger)], verifier=accept)
    _, stores = run(lambda s: runner(s, spawner(1), [deep], rules=Rules(depth_max=1)))
    events = stores.events(child_run_id("r", "a1"))
    # The child's own envelope permits depth 2, and it is at depth 1 itself.
    assert [e.kind for e in events].count("child_created") == 1
    assert events[0].payload["depth"] == 1


def test_a_childs_deadline_is_before_its_parents() -> None:
    async def hangs(call: ToolCall) -> str:
        await asyncio.sleep(3_600)
        return "never"

    child = child_tool("child", payer(1), tools=[tool("pay", hangs, effect="none")])
    receipt, stores = run(
        lambda s: runner(s, spawner(1), [child], under=policy(duration_ms=60_000))
    )
    events = stores.events(child_run_id("r", "a1"))
    (created,) = said(events, RunCreated)
    assert created.policy.deadline_unix_ms == START + 59_000
    ended = next(e for e in events if e.kind == "terminal_committed")
    assert ended.at_unix_ms <= START + 59_000
    assert receipt.terminal == "completed", "the parent decides what a failed child means"


def test_a_cancelled_parent_cancels_and_joins_its_children() -> None:
    stores = Stores()

    async def hangs(call: ToolCall) -> str:
        await asyncio.sleep(3_600)
        return "never"

    child = child_tool("child", payer(1), tools=[tool("pay", hangs, effect="none")])
    made = runner(stores, spawner(3), [child])

    async def main() -> RunReceipt:
        going = asyncio.ensure_future(made.run("r"))
        await asyncio.sleep(5)
        await made.request_cancel("r")
        return await going

    receipt = run_virtually(main())
    assert receipt.terminal == "cancelled"
    for number in (1, 2, 3):
        events = stores.events(child_run_id("r", f"a{number}"))
        (ended,) = said(events, TerminalCommitted)
        assert ended.receipt.terminal == "cancelled"
    agreed(stores.events("r"))


def test_a_child_that_was_never_started_is_created_and_cancelled_at_once() -> None:
    stores = Stores()
    dying = DyingStore(stores.store, dies_at=2, made=True)
    tools = [worker_child(Ledger())]
    first = runner(stores, spawner(1), tools, store=dying, worker="1")

    async def main() -> RunReceipt:
        with pytest.raises(StoreUnavailable):
            await first.run("r")
        second: Runner = runner(stores, spawner(1), tools, worker="2")
        await second.request_cancel("r")
        return await second.run("r")

    receipt = run_virtually(main())
    assert receipt.terminal == "cancelled"
    kinds = stores.kinds(child_run_id("r", "a1"))
    assert kinds == ["run_created", "cancel_requested", "terminal_committed"]


@pytest.mark.parametrize("dies_at", range(1, 24))
def test_a_parent_that_crashed_takes_its_child_up_again(dies_at: int) -> None:
    stores, bank = Stores(), Effects()

    def make(store: object, worker: str) -> Runner:
        child = child_tool(
            "child",
            payer(2),
            tools=[tool("pay", bank.pay)],
            verifier=accept,
            reconciler=bank.find_out,
        )
        return runner(stores, spawner(1), [child], worker=worker, store=store)  # type: ignore[arg-type]

    async def main() -> RunReceipt:
        dying = DyingStore(stores.store, dies_at=dies_at, made=True)
        with contextlib.suppress(StoreUnavailable):
            await make(dying, "1").run("r")
        return await make(stores.store, "2").run("r")

    receipt = run_virtually(main())
    assert receipt.terminal == "completed"
    assert bank.most_per_identity() == 1
    assert len(bank.effects) == 2
    agreed(stores.events("r"))
    agreed(stores.events(child_run_id("r", "a1")))


def test_children_that_contradict_each_other_are_a_finding_and_no_vote() -> None:
    answers = iter(["yes", "no", "yes"])

    def says(view: View) -> Proposal:
        return finish({"answer": next(answers)})

    child = child_tool("child", says, verifier=accept)

    def same_task(view: View) -> list[Proposal]:
        if len(view.history) == 0:
            return [act("child", {"question": 1}, carve=FIFTY, occurrence=n + 1) for n in range(3)]
        return [finish()]

    receipt, _ = run(lambda s: runner(s, same_task, [child]))
    assert any("contradict" in finding for finding in receipt.findings)
