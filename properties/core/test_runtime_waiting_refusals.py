"""While something is outstanding a refused action waits, and each settlement admits it afresh."""

import asyncio

from loopcore.runtime.amounts import Measured
from loopcore.runtime.envelope import Rules
from loopcore.runtime.tools import ToolCall, ToolFunction, ToolResult, act, finish, tool
from properties.core.runner_worlds import START, policy, run, runner


def _metered(cost: int, seconds: float) -> ToolFunction:
    async def spend(call: ToolCall) -> ToolResult:
        await asyncio.sleep(seconds)
        return ToolResult(usage=Measured(cost_microunits=cost))

    return spend


def test_an_action_is_admitted_when_a_settlement_makes_room() -> None:
    receipt, stores = run(
        lambda s: runner(
            s,
            [[act("slow")], [act("quick", {"n": 1})], [finish()]],
            [
                tool("slow", _metered(1, 5), cost_microunits_max=10),
                tool("quick", _metered(2, 0), cost_microunits_max=5),
            ],
            under=policy(max_cost_microunits=10),
            rules=Rules(planning="after_each"),
        )
    )
    assert receipt.terminal == "completed"
    assert receipt.usage.cost_microunits == 3
    kinds = stores.kinds("r")
    assert "action_refused" not in kinds
    second = [event for event in stores.events("r") if event.kind == "action_reserved"][1]
    assert second.at_unix_ms == START + 5_000


def test_an_action_that_finds_no_room_at_last_is_refused_with_the_terminal() -> None:
    receipt, stores = run(
        lambda s: runner(
            s,
            [[act("slow")], [act("quick", {"n": 1})], [finish()]],
            [
                tool("slow", _metered(9, 5), cost_microunits_max=10),
                tool("quick", _metered(2, 0), cost_microunits_max=5),
            ],
            under=policy(max_cost_microunits=10),
            rules=Rules(planning="after_each"),
        )
    )
    assert receipt.terminal == "cost_budget_exhausted"
    kinds = stores.kinds("r")
    assert kinds.count("action_refused") == 1
    assert kinds.index("action_refused") > kinds.index("reservation_settled")


def test_a_finish_waits_until_nothing_runs() -> None:
    receipt, stores = run(
        lambda s: runner(
            s,
            [[act("slow")], [finish()]],
            [tool("slow", _metered(1, 5), cost_microunits_max=10)],
            rules=Rules(planning="after_each"),
        )
    )
    assert receipt.terminal == "completed"
    assert receipt.on_step == 2
    kinds = stores.kinds("r")
    assert kinds.index("state_committed") < kinds.index("terminal_committed")


def test_a_batch_of_which_nothing_fits_waits_as_one_action_does() -> None:
    receipt, stores = run(
        lambda s: runner(
            s,
            [[act("slow")], [act("quick", {"n": n}) for n in range(3)], [finish()]],
            [
                tool("slow", _metered(4, 5), cost_microunits_max=10),
                tool("quick", _metered(2, 0), cost_microunits_max=3),
            ],
            under=policy(max_cost_microunits=10),
            rules=Rules(planning="after_each"),
        )
    )
    assert receipt.terminal == "completed"
    assert stores.kinds("r").count("action_refused") == 1
    assert receipt.usage.cost_microunits == 8
