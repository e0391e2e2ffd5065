"""Infrastructure failures belong to a budget of retries, in a row, and are no repetition."""

import pytest

from loopcore.runtime.envelope import Rules
from loopcore.runtime.tools import ToolCall, ToolFailed, ToolFunction, act, finish, tool
from properties.core.runner_worlds import Ledger, policy, run, runner


def _unreachable(times: int) -> ToolFunction:
    calls = [0]

    async def call(call: ToolCall) -> str:
        calls[0] += 1
        if calls[0] <= times:
            raise ToolFailed("503", infrastructure=True)
        return "ok"

    return call


@pytest.mark.parametrize(("failures", "allowed"), [(0, 0), (2, 2), (3, 2), (1, 0), (5, 9)])
def test_as_many_failures_in_a_row_as_the_budget_do_not_end_the_run(
    failures: int, allowed: int
) -> None:
    receipt, _ = run(
        lambda s: runner(
            s,
            [*[[act("t")]] * (failures + 1), [finish()]],
            [tool("t", _unreachable(failures))],
            under=policy(max_consecutive_repeated_actions=2),
            rules=Rules(retries_max=allowed),
        )
    )
    assert receipt.terminal == ("completed" if failures <= allowed else "tool_failure")
    assert receipt.usage.tool_calls == min(failures, allowed) + 1


def test_a_failure_of_the_action_itself_is_a_repetition() -> None:
    async def wrong(call: ToolCall) -> str:
        raise ToolFailed("no such file")

    receipt, _ = run(
        lambda s: runner(
            s,
            [[act("t")]] * 9,
            [tool("t", wrong)],
            under=policy(max_consecutive_repeated_actions=3),
        )
    )
    assert (receipt.terminal, receipt.usage.tool_calls) == ("repeated_action", 3)


def test_a_success_begins_the_count_anew() -> None:
    async def every_other(call: ToolCall) -> str:
        if int(str(call.arguments["n"])) % 2:
            raise ToolFailed("503", infrastructure=True)
        return "ok"

    receipt, _ = run(
        lambda s: runner(
            s,
            [*[[act("t", {"n": n})] for n in range(8)], [finish()]],
            [tool("t", every_other), tool("u", Ledger())],
            rules=Rules(retries_max=1),
        )
    )
    assert receipt.terminal == "completed"
