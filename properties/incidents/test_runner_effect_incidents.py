"""Public incidents: an effect was repeated or lost, two owned one run, a cancel did not end it.

Each test names its incident and varies it: other positions, counts and moments. The verdict is read
from the receipt, the journal and an independent ledger of what crossed the boundary; every journal
must agree with the evaluator.
"""

import asyncio

import pytest

from loopcore.runtime.amounts import Measured
from loopcore.runtime.envelope import Rules
from loopcore.runtime.messages import Proposal
from loopcore.runtime.payloads import RunReceipt
from loopcore.runtime.runner import Runner
from loopcore.runtime.tools import (
    ToolCall,
    ToolResult,
    Verdict,
    act,
    finish,
    tool,
)
from loopcore.runtime.views import View
from loopcore.runtime.virtual import run_virtually
from loopcore.store.contract import StoreUnavailable
from properties.core.runner_worlds import (
    DyingStore,
    Effects,
    Script,
    Stores,
    accept,
    agreed,
    payer,
    policy,
    run,
    runner,
)


@pytest.mark.parametrize("fails_at", [1, 2])
def test_10_1_a_retried_run_repeats_no_effect(fails_at: int) -> None:
    stores, bank = Stores(), Effects()
    asked = [0]

    def model(view: View) -> list[Proposal]:
        asked[0] += 1
        if asked[0] == fails_at + 1:
            raise ConnectionError("500")
        plan = payer(2)(view)
        return [plan]  # type: ignore[list-item]

    async def main() -> RunReceipt:
        made = runner(stores, model, [tool("pay", bank.pay)])
        from loopcore.runtime.driving import PlannerFault

        with pytest.raises(PlannerFault):
            await made.run("r")
        return await made.run("r")

    receipt = run_virtually(main())
    assert receipt.terminal == "completed"
    assert len(bank.effects) == 2
    agreed(stores.events("r"))


@pytest.mark.parametrize("position", [0, 1, 2])
@pytest.mark.parametrize("found", [True, False])
def test_10_2_a_timeout_after_dispatch_is_asked_about_before_any_retry(
    position: int, found: bool
) -> None:
    lost = frozenset({position})
    bank = Effects(lost=lost if found else frozenset(), dropped=frozenset() if found else lost)
    receipt, stores = run(
        lambda s: runner(s, payer(3), [tool("pay", bank.pay)], reconciler=bank.find_out)
    )
    assert receipt.terminal == "completed"
    assert len(bank.effects) == 3
    assert bank.most_per_identity() == 1
    assert len(bank.arrivals) == 3 + (not found)
    agreed(stores.events("r"))


def test_10_2_without_a_probe_nothing_is_sent_again() -> None:
    bank = Effects(lost=frozenset({0}))
    receipt, _ = run(lambda s: runner(s, payer(1), [tool("pay", bank.pay)]))
    assert receipt.terminal == "indeterminate_effect"
    assert len(bank.arrivals) == 1


# Where the process is killed, by the append of the call: what the next owner must find.
KILLS = [
    (2, False, "not started"),
    (2, True, "open"),
    (3, False, "open"),
    (3, True, "done"),
]


@pytest.mark.parametrize(("dies_at", "made", "found"), KILLS)
def test_10_3_a_start_without_a_receipt_is_open(dies_at: int, made: bool, found: str) -> None:
    stores, bank = Stores(), Effects()

    async def main() -> RunReceipt:
        dying = DyingStore(stores.store, dies_at=dies_at, made=made)
        tools = [tool("pay", bank.pay)]
        with pytest.raises(StoreUnavailable):
            await runner(
                stores, payer(1), tools, reconciler=bank.find_out, store=dying, worker="1"
            ).run("r")
        return await runner(stores, payer(1), tools, reconciler=bank.find_out, worker="2").run("r")

    receipt = run_virtually(main())
    assert receipt.terminal == "completed"
    assert len(bank.effects) == 1
    assert bool(bank.asked) == (found == "open")
    agreed(stores.events("r"))


@pytest.mark.parametrize("dies_at", range(2, 9))
@pytest.mark.parametrize("made", [False, True])
def test_10_4_each_effect_has_a_receipt_of_its_own(dies_at: int, made: bool) -> None:
    stores, bank = Stores(), Effects()

    async def main() -> RunReceipt:
        dying = DyingStore(stores.store, dies_at=dies_at, made=made)
        tools = [tool("pay", bank.pay)]
        with pytest.raises(StoreUnavailable):
            await runner(
                stores, payer(3), tools, reconciler=bank.find_out, store=dying, worker="1"
            ).run("r")
        return await runner(stores, payer(3), tools, reconciler=bank.find_out, worker="2").run("r")

    receipt = run_virtually(main())
    assert receipt.terminal == "completed"
    assert len(bank.effects) == 3
    assert bank.most_per_identity() == 1


@pytest.mark.parametrize("effects_before", [0, 1])
def test_10_5_of_two_owners_only_the_later_one_writes(effects_before: int) -> None:
    from loopcore.runtime.driving import RunTaken

    stores, bank = Stores(), Effects()
    stalled, woken = asyncio.Event(), asyncio.Event()

    async def stalls(call: ToolCall) -> object:
        answer = await bank.pay(call)
        if len(bank.arrivals) > effects_before:
            stalled.set()
            await woken.wait()
        return answer

    def make(worker: str, pay: object) -> Runner:
        return runner(
            stores,
            payer(2),
            [tool("pay", pay)],  # type: ignore[arg-type]
            reconciler=bank.find_out,
            rules=Rules(lease_ms=1_000),
            worker=worker,
        )

    async def main() -> RunReceipt:
        first = asyncio.ensure_future(make("one", stalls).run("r"))
        await stalled.wait()
        # The store's clock passes the lease while the first worker, which renews, is held up.
        stores.clock.set_wall(stores.clock.wall_ms() + 5_000)
        second = asyncio.ensure_future(make("two", bank.pay).run("r"))
        await asyncio.sleep(0.001)
        woken.set()
        with pytest.raises(RunTaken):
            await first
        return await second

    receipt = run_virtually(main())
    assert receipt.terminal == "completed"
    assert len(bank.effects) == 2
    assert bank.most_per_identity() == 1
    events = stores.events("r")
    assert [e.kind for e in events].count("terminal_committed") == 1
    agreed(events)


@pytest.mark.parametrize("amounts", [(10, 20), (1, 2), (7, 70)])
def test_10_6_a_key_is_run_action_arguments_and_occurrence(amounts: tuple[int, int]) -> None:
    bank = Effects(lost=frozenset({0}))
    small, large = ({"order": "o1", "amount": amount} for amount in amounts)
    script = Script(
        [
            [act("refund", small, key="refund o1")],
            [act("refund", small, key="refund o1")],
            [act("refund", large, key="refund o1")],
            [act("refund", small, key="refund o1", occurrence=2)],
            [finish()],
        ]
    )
    receipt, _ = run(
        lambda s: runner(s, script, [tool("refund", bank.pay)], reconciler=bank.find_out)
    )
    assert receipt.terminal == "completed"
    assert [result.refused for result in script.views[4].history] == [
        None,
        "duplicate",
        "key_conflict",
        None,
    ]
    assert len(bank.effects) == 2


@pytest.mark.parametrize("cancel_first", [False, True])
def test_11_2_cancel_and_finish_give_exactly_one_terminal(cancel_first: bool) -> None:
    stores = Stores()

    async def verifies(view: View, claim: str) -> Verdict:
        try:
            await asyncio.sleep(5)
        except asyncio.CancelledError:
            return accept(view, claim)
        return accept(view, claim)

    made = runner(stores, [[finish()]], [], verifier=verifies)

    async def main() -> RunReceipt:
        from loopcore.runtime.cancelling import CancelRefused

        going = asyncio.ensure_future(made.run("r"))
        await asyncio.sleep(1 if cancel_first else 6)
        if cancel_first:
            await made.request_cancel("r")
        else:
            with pytest.raises(CancelRefused):
                await made.request_cancel("r")
        return await going

    receipt = run_virtually(main())
    assert receipt.terminal == ("cancelled" if cancel_first else "completed")
    assert stores.kinds("r").count("terminal_committed") == 1
    agreed(stores.events("r"))


def test_11_2_the_cost_of_late_work_is_reported_and_changes_no_terminal() -> None:
    stores = Stores()
    let_go = asyncio.Event()

    async def stubborn(call: ToolCall) -> ToolResult:
        while not let_go.is_set():
            try:
                await let_go.wait()
            except asyncio.CancelledError:
                continue
        return ToolResult(usage=Measured(cost_microunits=9))

    made = runner(
        stores,
        [[act("t")]],
        [tool("t", stubborn, cost_microunits_max=4)],
        rules=Rules(shutdown_ms=1_000),
    )

    async def main() -> RunReceipt:
        going = asyncio.ensure_future(made.run("r"))
        await asyncio.sleep(1)
        await made.request_cancel("r")
        receipt = await going
        let_go.set()
        return receipt

    receipt = run_virtually(main())
    assert receipt.terminal == "cancelled"
    assert receipt.uncommitted.cost_microunits == 4
    assert receipt.accounting == "incomplete"


@pytest.mark.parametrize("cost_left", [0, 4])
def test_12_2_a_limit_within_the_repair_path_keeps_the_work(cost_left: int) -> None:
    async def works(call: ToolCall) -> ToolResult:
        return ToolResult(output={"artefact": "partial"}, state_sha256="a" * 64,
                          evidence=(call.evidence("partial"),))  # fmt: skip

    async def repairs(call: ToolCall) -> str:
        return "repaired"

    receipt, stores = run(
        lambda s: runner(
            s,
            [[act("work")], [act("repair")], [finish()]],
            [
                tool("work", works, cost_microunits_max=10),
                tool("repair", repairs, kind="repair", cost_microunits_max=5),
            ],
            under=policy(max_cost_microunits=10 + cost_left),
        )
    )
    assert receipt.terminal == "cost_budget_exhausted"
    assert receipt.final_state_sha256 == "a" * 64
    outputs = [e.payload["output"] for e in stores.events("r") if e.kind == "outcome_observed"]
    assert outputs == ['{"artefact":"partial"}']


@pytest.mark.parametrize("queries", [0, 1, 5])
def test_13_6_queries_and_draws_change_no_command(queries: int) -> None:
    import random

    def commands(extra: int) -> list[str | None]:
        stores, bank = Stores(), Effects()

        def curious(view: View) -> Proposal:
            for _ in range(extra):
                random.random()
                _ = (view.remaining("steps"), list(view.history), len(stores.store.runs()))
            return payer(3)(view)  # type: ignore[return-value]

        run(lambda s: runner(s, curious, [tool("pay", bank.pay)]), stores=stores)
        return [event.idempotency_key for event in stores.events("r")]

    assert commands(queries) == commands(0)
