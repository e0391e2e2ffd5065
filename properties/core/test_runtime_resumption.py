"""After a crash at any append, kept or not, the run goes on: no effect twice, none forgotten.

One script of two payments is killed at each of its appends in turn, with the append made and with
it not made, over systems that lose requests and answers; a new worker takes the run over.
"""

import pytest

from loopcore.runtime.envelope import Rules
from loopcore.runtime.messages import Act, Proposal
from loopcore.runtime.payloads import ReservationSettled, RunReceipt
from loopcore.runtime.protocol import fold_all
from loopcore.runtime.tools import act, finish, tool
from loopcore.runtime.views import View
from loopcore.runtime.virtual import run_virtually
from loopcore.store.contract import StoreUnavailable
from loopcore.store.journal import GENESIS, Anchor, verify_journal
from properties.core.runner_worlds import (
    DyingStore,
    Effects,
    Stores,
    agreed,
    payer,
    policy,
    runner,
    said,
)

ORDERS = 2
APPENDS_MAX = 40
SYSTEMS = [
    ("reliable", frozenset[int](), frozenset[int]()),
    ("loses answers", frozenset({0, 1}), frozenset[int]()),
    ("loses requests", frozenset[int](), frozenset({1})),
    ("loses both", frozenset({0, 2}), frozenset({1})),
]


def _killed(dies_at: int, made: bool, bank: Effects) -> tuple[RunReceipt, Stores, bool]:
    """Run until the store dies, then with another worker to the end."""
    stores = Stores()
    dying = DyingStore(stores.store, dies_at=dies_at, made=made)

    async def main() -> tuple[RunReceipt, bool]:
        died = False
        first = runner(
            stores,
            payer(ORDERS),
            [tool("pay", bank.pay, cost_microunits_max=3)],
            reconciler=bank.find_out,
            worker="first",
            store=dying,
        )
        try:
            receipt = await first.run("r")
        except StoreUnavailable:
            died = True
        second = runner(
            stores,
            payer(ORDERS),
            [tool("pay", bank.pay, cost_microunits_max=3)],
            reconciler=bank.find_out,
            worker="second",
        )
        receipt = await second.run("r")
        return receipt, died

    receipt, died = run_virtually(main())
    return receipt, stores, died


@pytest.mark.parametrize(("name", "lost", "dropped"), SYSTEMS)
@pytest.mark.parametrize("made", [False, True])
def test_a_crash_at_any_append_repeats_no_effect_and_forgets_none(
    name: str, lost: frozenset[int], dropped: frozenset[int], made: bool
) -> None:
    finished = False
    for dies_at in range(APPENDS_MAX):
        bank = Effects(lost=lost, dropped=dropped)
        receipt, stores, died = _killed(dies_at, made, bank)
        where = f"{name}, append {dies_at}, made {made}"
        assert receipt.terminal == "completed", where
        assert bank.most_per_identity() == 1, where
        assert len(bank.effects) == ORDERS, where
        events = stores.events("r")
        agreed(events)
        dispatched = {e.idempotency_key for e in events if e.kind == "action_dispatched"}
        assert set(bank.arrivals) <= dispatched, where
        settled = [e.payload["action"] for e in events if e.kind == "reservation_settled"]
        reserved = [e.payload["action"] for e in events if e.kind == "action_reserved"]
        assert sorted(map(str, settled)) == sorted(map(str, reserved)), where
        finished = not died
        if finished:
            break
    assert finished, "every append of the run was killed once"


@pytest.mark.parametrize("made", [False, True])
def test_reservations_that_a_dead_owner_never_called_are_settled_at_zero(made: bool) -> None:
    never_called = 0
    rules = Rules(parallel_max=1)
    for dies_at in range(3, 9):
        stores, bank = Stores(), Effects()
        batch = [act("pay", {"order": n}) for n in range(3)]

        def batches(view: View, batch: list[Act] = batch) -> list[Proposal]:
            paid = {r.arguments for r in view.history if r.outcome == "succeeded"}
            return [a for a in batch if a.arguments not in paid] or [finish()]

        async def main(
            stores: Stores = stores, bank: Effects = bank, dies_at: int = dies_at
        ) -> RunReceipt:
            dying = DyingStore(stores.store, dies_at=dies_at, made=made)
            tools, ask = [tool("pay", bank.pay)], bank.find_out
            first = runner(
                stores, batches, tools, reconciler=ask, rules=rules, store=dying, worker="1"
            )
            with pytest.raises(StoreUnavailable):
                await first.run("r")
            second = runner(stores, batches, tools, reconciler=ask, rules=rules, worker="2")
            return await second.run("r")

        receipt = run_virtually(main())
        assert receipt.terminal == "completed"
        assert len(bank.effects) == 3
        assert bank.most_per_identity() == 1
        settled = said(stores.events("r"), ReservationSettled)
        never_called += sum(1 for event in settled if event.because == "never_called")
        agreed(stores.events("r"))
    assert never_called > 0


def test_every_prefix_of_a_journal_verifies_and_folds() -> None:
    bank = Effects(lost=frozenset({0}), dropped=frozenset({1}))
    _, stores, _ = _killed(APPENDS_MAX, False, bank)
    events = stores.events("r")
    for length in range(1, len(events) + 1):
        prefix = events[:length]
        state = fold_all(prefix)
        anchor = Anchor(run_id="r", sequence=length, digest=state.head.digest)
        assert verify_journal(prefix, anchor).verdict == "valid"
        assert state.head.digest != GENESIS
        again = fold_all(prefix)
        assert state.fingerprint() == again.fingerprint()
        assert state.copy().fingerprint() == again.fingerprint()


def test_counters_and_streaks_are_those_of_the_whole_journal() -> None:
    async def fails(call: object) -> str:
        raise ConnectionError("no")

    stores = Stores()
    dying = DyingStore(stores.store, dies_at=6, made=True)
    tools = [tool("look", fails, effect="none")]

    async def main() -> tuple[RunReceipt, int]:
        under = policy(max_consecutive_no_progress=3)

        def look(view: View) -> Proposal:
            return act("look", {"steps": view.steps})

        first = runner(stores, look, tools, under=under, store=dying, worker="1")
        with pytest.raises(StoreUnavailable):
            await first.run("r")
        before = fold_all(stores.store.read("r")).progress.idle
        second = runner(stores, look, tools, under=under, worker="2")
        return await second.run("r"), before

    receipt, before = run_virtually(main())
    assert before == 2
    assert receipt.terminal == "no_progress"
    assert receipt.usage.steps == 3
    agreed(stores.events("r"))
