"""A cancel request stops admission at once and ends the run within its shutdown budget, once."""

import asyncio

import pytest

from loopcore.runtime.cancelling import CancelRefused
from loopcore.runtime.continuation import ResumptionRefused
from loopcore.runtime.envelope import Rules
from loopcore.runtime.payloads import RunReceipt
from loopcore.runtime.runner import Runner
from loopcore.runtime.tools import ToolCall, act, finish, tool
from loopcore.runtime.virtual import run_virtually
from loopcore.store.contract import StoreUnavailable
from properties.core.runner_worlds import (
    START,
    DyingStore,
    Effects,
    Ledger,
    Stores,
    agreed,
    policy,
    runner,
)


def _cancelled(made: Runner, at_ms: int, by: str | None = None) -> tuple[RunReceipt, int]:
    """Run, request a cancellation at a time, and return the receipt and when the run was over."""

    async def main() -> tuple[RunReceipt, int]:
        run = asyncio.ensure_future(made.run("r"))
        await asyncio.sleep(at_ms / 1_000)
        await made.request_cancel("r", by=by, reason="enough")
        receipt = await run
        return receipt, round(asyncio.get_running_loop().time() * 1_000)

    return run_virtually(main())


async def _hangs(call: ToolCall) -> str:
    await asyncio.sleep(3_600)
    return "never"


async def _ignores(call: ToolCall) -> str:
    for _ in range(100):
        try:
            await asyncio.sleep(3_600)
        except asyncio.CancelledError:
            continue
    return "never"


@pytest.mark.parametrize(("effect", "open_effects"), [("none", 0), ("unsafe", 1)])
def test_a_hung_call_is_stopped_and_classified(effect: str, open_effects: int) -> None:
    stores = Stores()
    hung = tool("t", _hangs, effect="none" if effect == "none" else "unsafe")
    receipt, over = _cancelled(runner(stores, [[act("t")]], [hung]), 5_000)
    assert receipt.terminal == "cancelled"
    assert receipt.terminal_class == "cancelled"
    assert over < 5_100
    assert len(receipt.open_effects) == open_effects
    owners = ("the user", "reconciliation worker") if open_effects else ("the user",)
    assert receipt.next_owners == owners
    agreed(stores.events("r"))
    kinds = stores.kinds("r")
    assert kinds.count("reservation_settled") == kinds.count("action_reserved") == 1


def test_a_call_that_ignores_cancellation_is_abandoned_within_the_budget_and_is_a_finding() -> None:
    stores = Stores()
    made = runner(stores, [[act("t")]], [tool("t", _ignores)], rules=Rules(shutdown_ms=2_000))
    receipt, over = _cancelled(made, 5_000)
    assert receipt.terminal == "cancelled"
    assert 7_000 <= over < 7_300
    assert receipt.open_effects[0].action == "a1"
    assert any("may still be running" in finding for finding in receipt.findings)
    agreed(stores.events("r"))


def test_nothing_is_dispatched_after_the_request() -> None:
    stores = Stores()
    waits = tool("t", _hangs, effect="none")
    batch = [act("t", {"n": n}) for n in range(4)]
    made = runner(stores, [batch, [finish()]], [waits], rules=Rules(parallel_max=2))
    receipt, _ = _cancelled(made, 1_000)
    kinds = stores.kinds("r")
    cut = kinds.index("cancel_requested")
    assert "action_dispatched" not in kinds[cut:]
    assert kinds[:cut].count("action_dispatched") == 2
    because = [e.payload["because"] for e in stores.events("r") if e.kind == "reservation_settled"]
    assert because.count("never_called") == 2
    assert receipt.usage.tool_calls == 2, "the two calls that ran are charged"
    agreed(stores.events("r"))


def test_a_dispatch_held_uncalled_when_the_request_arrives_is_settled_at_zero() -> None:
    stores = Stores()
    ledger = Ledger()

    class Meddling:
        """A store on which the request lands right behind the first dispatch."""

        durable = False

        def __getattr__(self, name: str) -> object:
            return getattr(stores.store, name)

        def append(
            self, run_id: str, expected_head: str, epoch: int, events: list[object]
        ) -> object:
            head = stores.store.append(run_id, expected_head, epoch, events)  # type: ignore[arg-type]
            if any(getattr(event, "kind", "") == "action_dispatched" for event in events):
                from loopcore.runtime.cancelling import cancel_request
                from loopcore.runtime.drafting import Stamp
                from loopcore.runtime.protocol import fold_all

                state = fold_all(stores.store.read(run_id))
                request = cancel_request(
                    state, by="local", reason="", now=Stamp(at_unix_ms=state.last_at_unix_ms)
                )
                stores.store.append(run_id, state.head.digest, state.epoch, request)
            return head

    made = runner(stores, [[act("t")]], [tool("t", ledger)], store=Meddling())  # type: ignore[arg-type]
    receipt = run_virtually(made.run("r"))
    assert receipt.terminal == "cancelled"
    assert ledger.calls == []
    (settled,) = [e for e in stores.events("r") if e.kind == "reservation_settled"]
    assert settled.payload["because"] == "not_called"
    assert receipt.usage.tool_calls == 0


def test_the_request_stands_once_and_is_refused_after_the_terminal() -> None:
    stores = Stores()
    made = runner(stores, [[act("t")]], [tool("t", _hangs, effect="none")])

    async def main() -> None:
        run = asyncio.ensure_future(made.run("r"))
        await asyncio.sleep(1)
        await made.request_cancel("r")
        await made.request_cancel("r")
        await run
        with pytest.raises(CancelRefused):
            await made.request_cancel("r")

    run_virtually(main())
    assert stores.kinds("r").count("cancel_requested") == 1


def test_a_client_whom_the_envelope_does_not_name_is_refused() -> None:
    stores = Stores()
    made = runner(stores, [[act("t")]], [tool("t", _hangs, effect="none")])
    with pytest.raises(CancelRefused, match="not authorised"):
        _cancelled(made, 1_000, by="a stranger")


def test_a_finish_that_was_accepted_before_the_request_stands() -> None:
    stores = Stores()
    made = runner(stores, [[finish()]], [])

    async def main() -> RunReceipt:
        receipt = await made.run("r")
        with pytest.raises(CancelRefused):
            await made.request_cancel("r")
        return receipt

    assert run_virtually(main()).terminal == "completed"


def test_a_finish_that_is_accepted_after_the_request_is_cancelled_and_charged() -> None:
    stores = Stores()

    async def slow(view: object, claim: str) -> object:
        from loopcore.runtime.tools import Accepted

        try:
            await asyncio.sleep(5)
        except asyncio.CancelledError:
            return Accepted(subject="just in time")
        return Accepted(subject="in time")

    made = runner(stores, [[finish()]], [], verifier=slow)  # type: ignore[arg-type]
    receipt, _ = _cancelled(made, 1_000)
    assert receipt.terminal == "cancelled"
    assert stores.kinds("r").count("terminal_committed") == 1
    assert receipt.usage.steps + receipt.uncommitted.steps == 1
    agreed(stores.events("r"))


def test_a_cancelled_run_stays_not_resumable_after_its_effects_are_reconciled() -> None:
    stores = Stores()
    bank = Effects()

    async def pays_and_hangs(call: ToolCall) -> str:
        await bank.pay(call)
        return await _hangs(call)

    made = runner(stores, [[act("t")]], [tool("t", pays_and_hangs)], reconciler=bank.find_out)
    receipt, _ = _cancelled(made, 1_000)
    assert receipt.open_effects

    async def later() -> tuple[str, ...]:
        return await made.reconcile("r")

    assert run_virtually(later()) == ()
    after = stores.kinds("r")
    assert after[-3:] == ["lease_acquired", "effect_reconciled", "lease_released"]
    looser = runner(
        stores, [], [tool("t", pays_and_hangs)], under=policy("looser", max_steps=2_000)
    )
    with pytest.raises(ResumptionRefused, match="final"):
        run_virtually(looser.resume_under("r", "r2"))


@pytest.mark.parametrize(("effect", "open_effects"), [("none", 0), ("unsafe", 1)])
def test_a_call_that_a_dead_owner_left_is_classified_and_not_asked_about(
    effect: str, open_effects: int
) -> None:
    stores, bank = Stores(), Effects()

    async def main() -> RunReceipt:
        # The third append after creation and lease is the outcome, which is never written.
        dying = DyingStore(stores.store, dies_at=3, made=False)
        tools = [tool("pay", bank.pay, effect="none" if effect == "none" else "unsafe")]
        with pytest.raises(StoreUnavailable):
            await runner(stores, [[act("pay")]], tools, store=dying, worker="1").run("r")
        second = runner(stores, [], tools, reconciler=bank.find_out, worker="2")
        await second.request_cancel("r")
        return await second.run("r")

    receipt = run_virtually(main())
    assert receipt.terminal == "cancelled"
    assert len(receipt.open_effects) == open_effects
    assert bank.asked == []
    agreed(stores.events("r"))


def test_stamps_of_a_cancelled_run_never_go_back() -> None:
    stores = Stores()
    _cancelled(runner(stores, [[act("t")]], [tool("t", _hangs)]), 3_000)
    stamps = [event.at_unix_ms for event in stores.events("r")]
    assert stamps == sorted(stamps)
    assert stamps[0] == START
