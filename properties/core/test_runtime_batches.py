"""A batch larger than the remainder is admitted in order up to it, or refused whole, by policy.

Refused calls are answered in the same append and uncharged, and end nothing while some of the batch
was admitted.
"""

import pytest

from loopcore.runtime.envelope import Rules
from loopcore.runtime.tools import act, finish, tool
from properties.core.runner_worlds import Ledger, Script, agreed, policy, run, runner


@pytest.mark.parametrize(("left", "size"), [(6, 8), (1, 2), (3, 3), (2, 16), (8, 6)])
def test_a_batch_is_admitted_up_to_the_remainder(left: int, size: int) -> None:
    ledger = Ledger()
    script = Script([[act("t", {"n": n}) for n in range(size)], [finish()]])
    receipt, stores = run(
        lambda s: runner(s, script, [tool("t", ledger)], under=policy(max_tool_calls=left))
    )
    admitted = min(left, size)
    assert len(ledger.calls) == admitted
    assert receipt.usage.tool_calls == admitted
    assert receipt.terminal == "completed"
    events = stores.events("r")
    refused = [event for event in events if event.kind == "action_refused"]
    assert len(refused) == size - admitted
    reserved = [event for event in events if event.kind == "action_reserved"][:admitted]
    span = [event.sequence for event in refused + reserved]
    assert max(span) - min(span) + 1 == size, "they are one append"
    answers = [result.refused for result in script.views[1].last]
    assert answers.count("budget") == size - admitted


@pytest.mark.parametrize(("left", "size"), [(6, 8), (1, 2), (0, 2)])
def test_by_policy_a_batch_is_refused_whole(left: int, size: int) -> None:
    ledger = Ledger()
    receipt, stores = run(
        lambda s: runner(
            s,
            [[act("t", {"n": n}) for n in range(size)], [finish()]],
            [tool("t", ledger)],
            under=policy(max_tool_calls=left),
            rules=Rules(batch="whole"),
        )
    )
    assert ledger.calls == []
    assert receipt.terminal == "tool_budget_exhausted"
    assert receipt.usage.tool_calls == 0
    agreed(stores.events("r"))


def test_a_whole_batch_that_fits_is_admitted() -> None:
    ledger = Ledger()
    receipt, _ = run(
        lambda s: runner(
            s,
            [[act("t", {"n": n}) for n in range(6)], [finish()]],
            [tool("t", ledger)],
            under=policy(max_tool_calls=6),
            rules=Rules(batch="whole"),
        )
    )
    assert (receipt.terminal, len(ledger.calls)) == ("completed", 6)


def test_no_more_calls_run_at_once_than_the_rules_permit() -> None:
    import asyncio

    running = [0, 0]

    async def slow(call: object) -> str:
        running[0] += 1
        running[1] = max(running)
        await asyncio.sleep(1)
        running[0] -= 1
        return "done"

    receipt, _ = run(
        lambda s: runner(
            s,
            [[act("t", {"n": n}) for n in range(7)], [finish()]],
            [tool("t", slow)],
            rules=Rules(parallel_max=3),
        )
    )
    assert (receipt.terminal, running) == ("completed", [0, 3])
