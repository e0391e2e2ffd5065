"""Public incidents: a live loop overspent, lost a counter, ran past its time or never ended.

Each test names its incident and varies it: other limits, sizes and times. The verdict is
read from the receipt, the journal and an independent ledger of what crossed the boundary; every
journal must agree with the evaluator.
"""

import asyncio

import pytest

from loopcore.runtime.amounts import Amounts, Measured
from loopcore.runtime.children import child_tool
from loopcore.runtime.envelope import Rules
from loopcore.runtime.messages import Proposal
from loopcore.runtime.names import child_run_id
from loopcore.runtime.payloads import RunCreated, RunReceipt
from loopcore.runtime.scopes import Scope
from loopcore.runtime.tools import (
    Refused,
    ToolCall,
    ToolFailed,
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
    START,
    DyingStore,
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


@pytest.mark.parametrize("children", [1, 2, 4])
def test_3_4_a_finish_with_children_running_waits_for_them(children: int) -> None:
    ledger = Ledger()

    async def slow(call: ToolCall) -> object:
        await asyncio.sleep(7)
        return await ledger(call)

    child = child_tool("child", payer(1), tools=[tool("pay", slow)], verifier=accept)
    carve = Amounts(steps=9, tool_calls=9, model_calls=9)
    spawn: list[Proposal] = [act("child", {"n": n}, carve=carve) for n in range(children)]
    receipt, stores = run(
        lambda s: runner(s, [[*spawn, finish("waiting for the others")], [finish()]], [child])
    )
    assert receipt.terminal == "completed"
    assert len(ledger.calls) == children
    kinds = stores.kinds("r")
    finish_at = len(kinds) - 1 - kinds[::-1].index("action_reserved")
    assert kinds[:finish_at].count("reservation_settled") == children


@pytest.mark.parametrize(("idle", "terminal"), [(3, "no_progress"), (50, "invalid_completion")])
def test_4_2_a_completion_gate_never_blocks_for_ever(idle: int, terminal: str) -> None:
    def same_reason(view: View, claim: str) -> Verdict:
        return Refused(reason="R")

    receipt, _ = run(
        lambda s: runner(
            s,
            [[finish({"n": n})] for n in range(99)],
            [],
            verifier=same_reason,
            under=policy(max_consecutive_no_progress=idle),
            rules=Rules(finish_refusals_max=7),
        )
    )
    assert receipt.terminal == terminal


def test_4_2_a_broken_checker_is_told_apart_from_a_refusal() -> None:
    def broken(view: View, claim: str) -> Verdict:
        raise OSError("no such file")

    receipt, _ = run(lambda s: runner(s, [[finish()]] * 99, [], verifier=broken))
    assert receipt.terminal == "stalled_verifier"


@pytest.mark.parametrize("limit", [0, 1, 2, 5])
def test_5_1_exactly_n_calls_are_admitted_and_charged(limit: int) -> None:
    ledger = Ledger()
    receipt, stores = run(
        lambda s: runner(
            s,
            [[act("t", {"n": n})] for n in range(limit + 3)],
            [tool("t", ledger)],
            under=policy(max_tool_calls=limit),
        )
    )
    assert receipt.terminal == "tool_budget_exhausted"
    assert len(ledger.calls) == receipt.usage.tool_calls == limit
    assert stores.kinds("r").count("action_dispatched") == limit


@pytest.mark.parametrize(("limit", "before"), [(10, 6), (3, 1), (2, 2)])
def test_6_1_budgets_are_counted_over_a_crash(limit: int, before: int) -> None:
    stores, ledger = Stores(), Ledger()

    def calls(view: View) -> Proposal:
        return act("t", {"n": view.steps})

    async def main() -> RunReceipt:
        # Creation and lease come first; then each call is two appends.
        dying = DyingStore(stores.store, dies_at=2 + 2 * before, made=False)
        tools = [tool("t", ledger)]
        under = policy(max_tool_calls=limit)
        with pytest.raises(StoreUnavailable):
            await runner(stores, calls, tools, under=under, store=dying, worker="1").run("r")
        assert len(ledger.calls) == before
        return await runner(stores, calls, tools, under=under, worker="2").run("r")

    receipt = run_virtually(main())
    assert receipt.terminal == "tool_budget_exhausted"
    assert len(ledger.calls) == limit
    agreed(stores.events("r"))


@pytest.mark.parametrize(("limit", "before"), [(3, 2), (5, 1), (4, 3)])
def test_6_1_a_failure_streak_goes_on_over_a_crash(limit: int, before: int) -> None:
    stores = Stores()
    failures: list[str] = []

    async def fails(call: ToolCall) -> str:
        failures.append(call.action)
        raise ToolFailed("no")

    def calls(view: View) -> Proposal:
        return act("t", {"n": view.steps})

    async def main() -> RunReceipt:
        dying = DyingStore(stores.store, dies_at=2 + 2 * before, made=False)
        tools, under = [tool("t", fails)], policy(max_consecutive_no_progress=limit)
        with pytest.raises(StoreUnavailable):
            await runner(stores, calls, tools, under=under, store=dying, worker="1").run("r")
        return await runner(stores, calls, tools, under=under, worker="2").run("r")

    receipt = run_virtually(main())
    assert receipt.terminal == "no_progress"
    assert len(failures) == limit


@pytest.mark.parametrize(("own", "thread"), [(2, 3), (3, 4), (4, 20)])
def test_6_2_a_new_run_begins_at_zero_and_the_thread_goes_on(own: int, thread: int) -> None:
    stores, ledger = Stores(), Ledger()
    scope = Scope(scope_id="thread", kind="thread", tool_calls=thread)
    used: list[int] = []
    for number in range(2):
        receipt, _ = run(
            lambda s: runner(
                s,
                [[act("t", {"n": n})] for n in range(9)],
                [tool("t", ledger)],
                under=policy(max_tool_calls=own),
                scopes=[scope],
            ),
            f"run-{number}",
            stores,
        )
        used.append(receipt.usage.tool_calls)
    assert used == [own, min(own, thread - own)]


@pytest.mark.parametrize(("remaining", "size"), [(6, 8), (1, 5), (15, 16)])
@pytest.mark.parametrize("whole", [False, True])
def test_7_1_a_parallel_batch_does_not_overshoot(remaining: int, size: int, whole: bool) -> None:
    ledger = Ledger()
    script = Script([[act("t", {"n": n}) for n in range(size)], [act("t", {"n": "next"})]])
    receipt, stores = run(
        lambda s: runner(
            s,
            script,
            [tool("t", ledger)],
            under=policy(max_tool_calls=remaining),
            rules=Rules(batch="whole" if whole else "partial"),
        )
    )
    admitted = 0 if whole else remaining
    assert len(ledger.calls) == receipt.usage.tool_calls == admitted
    assert receipt.terminal == "tool_budget_exhausted"
    refused = stores.kinds("r").count("action_refused")
    assert refused == (size if whole else size - remaining + 1)


@pytest.mark.parametrize(("cap", "each", "callers"), [(100_000, 13_300, 16), (10, 3, 9), (5, 5, 2)])
def test_7_2_checks_before_records_do_not_overshoot(cap: int, each: int, callers: int) -> None:
    spent: list[int] = []

    async def pays(call: ToolCall) -> ToolResult:
        # Every call has been checked before any of them comes back.
        await asyncio.sleep(1)
        spent.append(each)
        return ToolResult(usage=Measured(cost_microunits=each))

    receipt, stores = run(
        lambda s: runner(
            s,
            [[act("t", {"n": n}) for n in range(callers)]],
            [tool("t", pays, cost_microunits_max=each)],
            under=policy(max_cost_microunits=cap),
            rules=Rules(parallel_max=64),
        )
    )
    assert sum(spent) == receipt.usage.cost_microunits <= cap
    assert len(spent) == min(callers, cap // each)
    bounds = [e.payload["bound"] for e in stores.events("r") if e.kind == "action_refused"]
    assert bounds == ["cost_budget_exhausted"] * (callers - len(spent))


def test_7_3_a_tree_of_runs_stays_within_its_root() -> None:
    ledger = Ledger()
    leaf = child_tool(
        "leaf", payer(9), tools=[tool("pay", ledger, cost_microunits_max=10)], verifier=accept
    )

    def branching(view: View) -> list[Proposal]:
        if len(view.history) == 0:
            carve = Amounts(steps=9, tool_calls=9, model_calls=9, cost_microunits=25)
            return [act("leaf", {"n": n}, carve=carve) for n in range(2)]
        return [finish()]

    branch = child_tool("branch", branching, tools=[leaf], verifier=accept)
    carve = Amounts(steps=9, tool_calls=9, model_calls=9, cost_microunits=50)
    script = Script([[act("branch", {"n": n}, carve=carve) for n in range(3)], [finish()]])
    receipt, stores = run(
        lambda s: runner(s, script, [branch], under=policy(max_cost_microunits=100))
    )
    assert len(ledger.calls) * 10 == receipt.usage.cost_microunits <= 100
    assert [result.refused for result in script.views[1].last].count("budget") == 1
    assert stores.kinds("r").count("child_created") == 2


@pytest.mark.parametrize(("at", "asks"), [(50, 60), (10, 60), (57, 1)])
def test_7_4_a_nested_run_has_no_more_time_than_its_parent(at: int, asks: int) -> None:
    async def waits(call: ToolCall) -> str:
        await asyncio.sleep(at)
        return "ok"

    async def hangs(call: ToolCall) -> str:
        await asyncio.sleep(3_600)
        return "never"

    child = child_tool("child", payer(1), tools=[tool("pay", hangs, effect="none")])
    carve = Amounts(steps=9, tool_calls=9, model_calls=9)
    _, stores = run(
        lambda s: runner(
            s,
            [[act("wait")], [act("child", {"wants_s": asks}, carve=carve)], [finish()]],
            [tool("wait", waits, effect="none"), child],
            under=policy(duration_ms=60_000),
        )
    )
    events = stores.events(child_run_id("r", "a2"))
    (created,) = said(events, RunCreated)
    assert created.policy.deadline_unix_ms <= START + 60_000
    assert all(event.at_unix_ms <= START + 60_000 for event in events)


def test_7_4_an_attempt_is_counted_where_it_is_dispatched() -> None:
    attempts: list[str] = []

    async def flaky(call: ToolCall) -> str:
        attempts.append(call.idempotency_key)
        if len(attempts) == 1:
            raise ToolFailed("429", infrastructure=True)
        return "ok"

    receipt, _ = run(lambda s: runner(s, [[act("t")], [act("t")], [finish()]], [tool("t", flaky)]))
    assert receipt.terminal == "completed"
    assert receipt.usage.tool_calls == len(set(attempts)) == 2


@pytest.mark.parametrize("deadline", [30, 1, 90])
@pytest.mark.parametrize("side_effects", [False, True])
def test_9_1_the_deadline_watches_calls_in_flight(deadline: int, side_effects: bool) -> None:
    async def hangs(call: ToolCall) -> str:
        await asyncio.sleep(1_000)
        return "after a manual cancel"

    receipt, _ = run(
        lambda s: runner(
            s,
            [[act("t")]],
            [tool("t", hangs, effect="unsafe" if side_effects else "none")],
            under=policy(duration_ms=deadline * 1_000),
        )
    )
    assert receipt.terminal == "deadline_exceeded"
    assert receipt.ended_at_unix_ms == START + deadline * 1_000
    assert bool(receipt.open_effects) == side_effects
    assert ("indeterminate_effect" in receipt.violations) == side_effects


@pytest.mark.parametrize("steps_back", [5, 30, 59])
def test_9_2_a_clock_that_goes_back_moves_no_deadline(steps_back: int) -> None:
    stores = Stores()

    async def sets_back(call: ToolCall) -> str:
        await asyncio.sleep(6)
        stores.clock.set_wall(stores.clock.wall_ms() - steps_back * 1_000)
        return "ok"

    receipt, _ = run(
        lambda s: runner(
            s,
            [[act("t", {"n": n})] for n in range(9)],
            [tool("t", sets_back, effect="none")],
            under=policy(duration_ms=15_000),
            rules=Rules(clock_jump_ms_max=10_000_000),
        ),
        stores=stores,
    )
    assert receipt.terminal == "deadline_exceeded"
    assert receipt.ended_at_unix_ms == START + 15_000
    stamps = [event.at_unix_ms for event in stores.events("r")]
    assert stamps == sorted(stamps)
