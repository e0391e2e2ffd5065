"""Time is the last stamp plus what passed since: it never goes back, and a jump pauses the run."""

import asyncio

import pytest

from loopcore.runtime.payloads import RunReceipt
from loopcore.runtime.tools import ToolCall, act, finish, tool
from loopcore.runtime.virtual import run_virtually
from properties.core.runner_worlds import START, Ledger, Stores, agreed, policy, run, runner


async def _hangs(call: ToolCall) -> str:
    await asyncio.sleep(3_600)
    return "never"


@pytest.mark.parametrize(
    ("effect", "outcome", "unknown"), [("none", "failed", 0), ("unsafe", "indeterminate", 1)]
)
def test_the_deadline_holds_inside_a_tool_that_never_returns(
    effect: str, outcome: str, unknown: int
) -> None:
    hung = tool("t", _hangs, effect="none" if effect == "none" else "unsafe")
    receipt, stores = run(
        lambda s: runner(s, [[act("t")], [finish()]], [hung], under=policy(duration_ms=30_000))
    )
    assert receipt.terminal == "deadline_exceeded"
    assert receipt.ended_at_unix_ms == START + 30_000
    assert len(receipt.open_effects) == unknown
    assert ("indeterminate_effect" in receipt.violations) == bool(unknown)
    assert receipt.resumable == ("after_reconciliation" if unknown else "yes")
    trace = agreed(stores.events("r")).trace
    assert trace is not None
    assert trace.steps[-1].outcome == outcome


def test_a_call_has_no_more_time_than_is_left() -> None:
    remaining: list[int] = []

    async def notes(call: ToolCall) -> str:
        remaining.append(call.remaining_ms)
        await asyncio.sleep(4)
        return "ok"

    run(
        lambda s: runner(
            s,
            [[act("t", {"n": n})] for n in range(3)],
            [tool("t", notes, timeout_ms=6_000)],
            under=policy(duration_ms=10_000),
        )
    )
    assert remaining == [6_000, 6_000, 2_000]


def test_a_refusal_at_the_deadline_is_the_deadlines() -> None:
    async def late_planner(view: object) -> object:
        await asyncio.sleep(10)
        return act("t")

    receipt, stores = run(
        lambda s: runner(
            s,
            late_planner,  # type: ignore[arg-type]
            [tool("t", Ledger())],
            under=policy(duration_ms=10_000),
        )
    )
    assert receipt.terminal == "deadline_exceeded"
    assert "action_dispatched" not in stores.kinds("r")


def test_a_planner_that_never_answers_is_left_at_the_deadline() -> None:
    async def never(view: object) -> object:
        await asyncio.sleep(3_600)
        return None

    receipt, _ = run(
        lambda s: runner(s, never, [], under=policy(duration_ms=5_000))  # type: ignore[arg-type]
    )
    assert receipt.terminal == "deadline_exceeded"
    assert receipt.ended_at_unix_ms == START + 5_000


@pytest.mark.parametrize("by_ms", [-3_600_000, -61_000, 61_000, 3_600_000])
def test_a_wall_clock_that_jumps_over_the_bound_pauses_the_run(by_ms: int) -> None:
    receipt, stores = _with_jump(by_ms)
    assert receipt.terminal == "awaiting_input"
    assert receipt.terminal_class == "pause"
    assert "jumped" in receipt.reason
    stamps = [event.at_unix_ms for event in stores.events("r")]
    assert stamps == sorted(stamps)
    assert stamps[-1] < START + 20_000


@pytest.mark.parametrize("by_ms", [-59_000, 0, 59_000])
def test_a_small_jump_changes_nothing(by_ms: int) -> None:
    receipt, stores = _with_jump(by_ms)
    assert receipt.terminal == "completed"
    assert receipt.ended_at_unix_ms == START + 10_000
    assert {e.clock for e in stores.events("r")[3:]} <= {"monotonic"}


def _with_jump(by_ms: int) -> tuple[RunReceipt, Stores]:
    stores = Stores()

    async def waits(call: ToolCall) -> str:
        await asyncio.sleep(5)
        stores.clock.set_wall(stores.clock.wall_ms() + by_ms)
        await asyncio.sleep(5)
        return "ok"

    made = runner(stores, [[act("t")], [finish()]], [tool("t", waits, effect="none")])
    receipt = run_virtually(made.run("r"))
    agreed(stores.events("r"))
    return receipt, stores


def test_after_a_restart_with_the_clock_set_back_stamps_are_clamped_and_say_so() -> None:
    stores = Stores()

    async def crashes(call: ToolCall) -> str:
        await asyncio.sleep(20)
        raise asyncio.CancelledError

    first = runner(stores, [[act("t")]], [tool("t", crashes, effect="none")], worker="1")

    async def main() -> RunReceipt:
        run = asyncio.ensure_future(first.run("r"))
        await asyncio.sleep(10)
        run.cancel()
        await asyncio.wait({run})
        stores.clock.set_wall(START - 5_000)
        second = runner(stores, [[finish()]], [tool("t", crashes, effect="none")], worker="2")
        return await second.run("r")

    receipt = run_virtually(main())
    events = stores.events("r")
    assert receipt.terminal == "completed"
    stamps = [event.at_unix_ms for event in events]
    assert stamps == sorted(stamps)
    assert "clamped" in {event.clock for event in events}
    agreed(events)
