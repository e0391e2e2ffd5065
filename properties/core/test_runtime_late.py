"""What comes after the terminal is recorded, charged above what was settled, and ends nothing."""

import pytest

from loopcore.errors import UsageError
from loopcore.runtime.amounts import Measured
from loopcore.runtime.messages import Observation
from loopcore.runtime.payloads import RunReceipt
from loopcore.runtime.tools import ToolCall, ToolFailed, act, finish, tool
from loopcore.runtime.virtual import run_virtually
from properties.core.runner_worlds import Effects, Ledger, Stores, agreed, policy, run, runner


def _unknown() -> tuple[Stores, Effects, RunReceipt]:
    stores, bank = Stores(), Effects(lost=frozenset({0}))
    receipt, _ = run(
        lambda s: runner(
            s, [[act("pay", {"order": 1})]], [tool("pay", bank.pay, cost_microunits_max=4)]
        ),
        stores=stores,
    )
    return stores, bank, receipt


@pytest.mark.parametrize(("cost", "above"), [(3, 0), (4, 0), (9, 5)])
def test_late_usage_is_charged_only_above_what_was_settled(cost: int, above: int) -> None:
    stores, bank, receipt = _unknown()
    made = runner(stores, [], [tool("pay", bank.pay, cost_microunits_max=4)])
    seen = Observation(outcome="succeeded", measured=Measured(cost_microunits=cost))
    run_virtually(made.record_late("r", "a1", seen))
    state = run_virtually(made.state("r"))
    assert state.receipt == receipt
    assert state.late.cost_microunits == above
    assert state.charged.cost_microunits == 4 + above
    assert state.actions["a1"].status == "unresolved", "only a reconciliation resolves an effect"
    agreed(stores.events("r"))


def test_late_usage_leaves_less_for_the_run_that_goes_on() -> None:
    stores, bank = Stores(), Effects(lost=frozenset({0}))
    first = [
        tool("pay", bank.pay, cost_microunits_max=4),
        tool("t", Ledger(), cost_microunits_max=1),
    ]
    run(
        lambda s: runner(
            s, [[act("pay", {"order": 1})]], first, under=policy(max_cost_microunits=8)
        ),
        stores=stores,
    )
    made = runner(
        stores,
        [[act("t", {"n": n})] for n in range(9)],
        first,
        under=policy("more", max_cost_microunits=9),
        reconciler=bank.find_out,
    )
    seen = Observation(outcome="succeeded", measured=Measured(cost_microunits=6))
    run_virtually(made.record_late("r", "a1", seen))
    run_virtually(made.reconcile("r"))
    receipt = run_virtually(made.resume_under("r", "r2"))
    assert receipt.terminal == "cost_budget_exhausted"
    assert receipt.usage.cost_microunits == 4 + 3
    assert receipt.uncommitted.cost_microunits == 2
    agreed(stores.events("r2"))


def test_nothing_is_late_before_the_terminal_or_without_an_action() -> None:
    stores, bank, _ = _unknown()
    made = runner(stores, [], [tool("pay", bank.pay, cost_microunits_max=4)])
    with pytest.raises(UsageError):
        run_virtually(made.record_late("r", "a9", Observation(outcome="succeeded")))
    with pytest.raises(UsageError):
        run_virtually(made.record_late("other", "a1", Observation(outcome="succeeded")))


def test_an_outcome_after_the_deciding_step_is_no_step_and_is_one_in_the_run_that_goes_on() -> None:
    import asyncio

    stores = Stores()

    async def answers(call: ToolCall) -> str:
        await asyncio.sleep(float(str(call.arguments["after_s"])))
        raise ToolFailed("nothing came of it")

    batch = [act("t", {"after_s": n}) for n in (1, 2, 3)]
    tools = [tool("t", answers, effect="none", cost_microunits_max=2)]
    receipt, _ = run(
        lambda s: runner(s, [batch], tools, under=policy(max_consecutive_no_progress=1)),
        stores=stores,
    )
    assert (receipt.terminal, receipt.on_step) == ("no_progress", 1)
    assert receipt.usage.cost_microunits == 2
    assert receipt.uncommitted.cost_microunits == 4
    made = runner(
        stores, [[finish()]], tools, under=policy("patient", max_consecutive_no_progress=9)
    )
    later = run_virtually(made.resume_under("r", "r2", hypothesis="it was the network"))
    assert later.terminal == "completed"
    assert later.usage.cost_microunits == 6
    assert later.usage.steps == 4
    agreed(stores.events("r2"))
