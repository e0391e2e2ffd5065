"""A worker whose epoch was passed changes nothing: no append, no call, no settlement."""

import asyncio

import pytest

from loopcore.runtime.drafting import Batch, Stamp
from loopcore.runtime.driving import RunTaken
from loopcore.runtime.envelope import Rules
from loopcore.runtime.messages import Append, Fenced, Local, Observation, Pump, Returned
from loopcore.runtime.payloads import LeaseAcquired, LeaseReleased, RunReceipt
from loopcore.runtime.protocol import decide, fold, fold_all
from loopcore.runtime.tools import ToolCall, act, finish, tool
from loopcore.runtime.virtual import run_virtually
from loopcore.store.contract import StaleEpoch
from loopcore.store.journal import Head, chain
from properties.core.runner_worlds import Effects, Stores, agreed, payer, runner


def test_a_stalled_worker_is_fenced_and_the_new_owner_finishes_the_run() -> None:
    stores = Stores()
    bank = Effects()
    gate = asyncio.Event()

    async def stalls(call: ToolCall) -> object:
        answer = await bank.pay(call)
        await gate.wait()
        return answer

    rules = Rules(lease_ms=2_000)

    async def main() -> tuple[RunReceipt, object]:
        first = runner(
            stores,
            payer(2),
            [tool("pay", stalls)],
            reconciler=bank.find_out,
            rules=rules,
            worker="1",
        )
        old = asyncio.ensure_future(first.run("r"))
        await asyncio.sleep(1)
        # The first worker stalls: its lease is not renewed and runs out on the store's clock.
        state = fold_all(stores.store.read("r"))
        stores.clock.set_wall(stores.clock.wall_ms() + 10_000)
        batch = Batch(state, Stamp(at_unix_ms=state.last_at_unix_ms))
        batch.add(LeaseAcquired(owner="2", duration_ms=1))
        stores.store.append("r", state.head.digest, state.epoch + 1, batch.events())
        gate.set()
        with pytest.raises(RunTaken):
            await old
        second = runner(
            stores,
            payer(2),
            [tool("pay", bank.pay)],
            reconciler=bank.find_out,
            rules=rules,
            worker="2",
        )
        return await second.run("r"), old

    receipt, _ = run_virtually(main())
    assert receipt.terminal == "completed"
    assert bank.most_per_identity() == 1
    events = stores.events("r")
    owners = [e.payload["owner"] for e in events if e.kind == "lease_acquired"]
    assert owners == ["1", "2", "2"]
    cut = [e.kind for e in events].index("lease_acquired", 2)
    assert all(e.epoch >= 2 for e in events[cut:])
    agreed(events)


def test_the_stale_append_itself_is_refused_by_its_epoch() -> None:
    stores = Stores()
    made = runner(stores, [[act("t")], [finish()]], [tool("t", Effects().pay)])
    run_virtually(made.run("r"))
    taken = fold_all(stores.store.read("r"))
    batch = Batch(taken, Stamp(at_unix_ms=taken.last_at_unix_ms))
    batch.add(LeaseAcquired(owner="other", duration_ms=50_000))
    stores.store.append("r", taken.head.digest, taken.epoch + 1, batch.events())
    # Epoch and head mask each other, so the late append has the right head and the old epoch.
    now = fold_all(stores.store.read("r"))
    late = Batch(now, Stamp(at_unix_ms=now.last_at_unix_ms))
    late.add(LeaseReleased(owner="other"))
    head = Head(sequence=now.head.sequence, digest=now.head.digest, epoch=1)
    with pytest.raises(StaleEpoch):
        stores.store.append("r", now.head.digest, 1, chain(head, late.events()))


def test_the_protocol_of_a_passed_epoch_answers_with_nothing_but_fenced() -> None:
    stores = Stores()
    made = runner(stores, [[act("t")], [finish()]], [tool("t", Effects().pay)])
    run_virtually(made.run("r"))
    events = stores.events("r")
    state = fold_all(events[:4])
    batch = Batch(state, Stamp(at_unix_ms=state.last_at_unix_ms))
    batch.add(LeaseAcquired(owner="other", duration_ms=5))
    for event in batch.events():
        fold(state, event)
    now = Stamp(at_unix_ms=state.last_at_unix_ms)
    local = Local(worker="w", epoch=1, uncalled=frozenset({"a1"}), calling=frozenset({"a1"}))
    for received in (
        Pump(now=now),
        Pump(now=now, fresh=True),
        Returned(action="a1", observation=Observation(outcome="succeeded"), now=now),
    ):
        decision = decide(state, local, received)
        assert decision.commands == (Fenced(epoch=2),)
        assert not any(isinstance(command, Append) for command in decision.commands)
