"""An indeterminate effect is asked about; only a verified no effect lets it be dispatched again."""

import asyncio
from functools import partial

import pytest

from loopcore.runtime.amounts import Measured
from loopcore.runtime.envelope import Rules
from loopcore.runtime.messages import Finding, Proposal, Reconcile
from loopcore.runtime.tools import (
    ToolCall,
    ToolResult,
    ToolStopped,
    act,
    finish,
    still_indeterminate,
    tool,
    verified_no_effect,
)
from loopcore.store.journal import Event
from properties.core.runner_worlds import Effects, Ledger, Stores, agreed, run, runner

TWICE: list[list[Proposal]] = [[act("pay", {"order": 1})], [act("pay", {"order": 1})], [finish()]]


def _dispatches_between(events: list[Event]) -> None:
    """Assert that no identity is dispatched while an earlier dispatch of it is unknown."""
    identity_of: dict[str, str] = {}
    unknown: set[str] = set()
    for event in events:
        name = str(event.payload.get("action"))
        if event.kind == "action_reserved":
            identity_of[name] = str(event.payload["identity"])
        elif event.kind == "action_dispatched":
            assert identity_of[name] not in unknown
            unknown.add(identity_of[name])
        elif event.kind in ("outcome_observed", "effect_reconciled"):
            answer = event.payload.get("outcome", event.payload.get("finding"))
            if answer not in ("indeterminate", "still_indeterminate"):
                unknown.discard(identity_of[name])


def test_an_effect_that_is_found_is_not_repeated() -> None:
    bank = Effects(lost=frozenset({0}))
    receipt, stores = run(
        lambda s: runner(s, TWICE, [tool("pay", bank.pay)], reconciler=bank.find_out)
    )
    assert receipt.terminal == "completed"
    assert len(bank.effects) == len(bank.arrivals) == 1
    events = stores.events("r")
    _dispatches_between(events)
    assert [event.payload["code"] for event in events if event.kind == "action_refused"] == [
        "duplicate"
    ]
    trace = agreed(events).trace
    assert trace is not None
    assert trace.steps[0].outcome == "succeeded"


def test_after_a_verified_no_effect_a_retry_has_a_new_key_and_the_same_identity() -> None:
    bank = Effects(dropped=frozenset({0}))
    receipt, stores = run(
        lambda s: runner(s, TWICE, [tool("pay", bank.pay)], reconciler=bank.find_out)
    )
    assert receipt.terminal == "completed"
    assert len(bank.arrivals) == 2
    assert len(set(bank.arrivals)) == 2
    assert bank.most_per_identity() == 1
    reserved = [event.payload for event in stores.events("r") if event.kind == "action_reserved"]
    assert reserved[0]["identity"] == reserved[1]["identity"]
    assert (reserved[0]["attempt"], reserved[1]["attempt"]) == (1, 2)


def test_a_no_effect_without_a_fence_for_this_key_is_still_indeterminate() -> None:
    async def careless(question: Reconcile) -> Finding:
        return Finding(finding="verified_no_effect", reason="a replica has no such payment")

    async def mistaken(question: Reconcile) -> Finding:
        return verified_no_effect("another key")

    for reconciler in (careless, mistaken):
        bank = Effects(dropped=frozenset({0}))
        receipt, stores = run(
            partial(runner, batches=TWICE, tools=[tool("pay", bank.pay)], reconciler=reconciler)
        )
        assert receipt.terminal == "indeterminate_effect"
        assert len(bank.arrivals) == 1
        findings = [
            e.payload["finding"] for e in stores.events("r") if e.kind == "effect_reconciled"
        ]
        assert findings == ["still_indeterminate"] * 3


@pytest.mark.parametrize("lifetime", [None, 2_500])
def test_a_passed_lifetime_fences_only_a_call_that_carried_one(lifetime: int | None) -> None:
    async def expired(question: Reconcile) -> Finding:
        return verified_no_effect(question.idempotency_key, lifetime_passed=True)

    bank = Effects(dropped=frozenset({0}))
    receipt, stores = run(
        lambda s: runner(
            s,
            TWICE,
            [tool("pay", bank.pay, lifetime_ms=lifetime)],
            reconciler=expired,
            rules=Rules(reconcile_after_ms=1_000, reconciliations_max=5),
        )
    )
    findings = [e.payload["finding"] for e in stores.events("r") if e.kind == "effect_reconciled"]
    if lifetime is None:
        assert receipt.terminal == "indeterminate_effect"
        assert set(findings) == {"still_indeterminate"}
    else:
        assert receipt.terminal == "completed"
        assert findings == ["still_indeterminate"] * 3 + ["verified_no_effect"]


@pytest.mark.parametrize("budget", [0, 1, 3])
def test_when_the_budget_of_questions_is_spent_the_run_ends_on_it(budget: int) -> None:
    async def silent(question: Reconcile) -> Finding:
        return still_indeterminate()

    bank = Effects(lost=frozenset({0}))
    receipt, stores = run(
        lambda s: runner(
            s,
            TWICE,
            [tool("pay", bank.pay)],
            reconciler=silent,
            rules=Rules(reconciliations_max=budget),
        )
    )
    assert receipt.terminal == "indeterminate_effect"
    assert receipt.next_owners == ("reconciliation worker",)
    assert receipt.resumable == "after_reconciliation"
    assert [effect.action for effect in receipt.open_effects] == ["a1"]
    assert stores.kinds("r").count("effect_reconciled") == budget
    assert stores.kinds("r").count("reservation_settled") == 1


def test_without_a_reconciler_nobody_guesses() -> None:
    bank = Effects(lost=frozenset({0}))
    receipt, _ = run(lambda s: runner(s, TWICE, [tool("pay", bank.pay)]))
    assert receipt.terminal == "indeterminate_effect"
    assert len(bank.arrivals) == 1


def test_a_timeout_tells_only_that_the_client_stopped_waiting() -> None:
    async def slow(call: ToolCall) -> str:
        await asyncio.sleep(60)
        return "never"

    for effect, outcome in (("unsafe", "indeterminate"), ("none", "failed")):
        hung = tool("t", slow, effect="none" if effect == "none" else "unsafe", timeout_ms=1_000)
        receipt, stores = run(partial(runner, batches=[[act("t")]], tools=[hung]))
        (seen,) = [e for e in stores.events("r") if e.kind == "outcome_observed"]
        assert seen.payload["outcome"] == outcome
        assert seen.payload["error_class"] == "timeout"
        expected = "indeterminate_effect" if outcome == "indeterminate" else "input_exhausted"
        assert receipt.terminal == expected


@pytest.mark.parametrize(("measured", "charged"), [(None, 7), (2, 7), (7, 7), (11, 11)])
def test_an_indeterminate_outcome_settles_at_the_larger_of_measured_and_reserved(
    measured: int | None, charged: int
) -> None:
    async def stops(call: ToolCall) -> str:
        raise ToolStopped("half done", usage=Measured(cost_microunits=measured))

    receipt, _ = run(lambda s: runner(s, [[act("t")]], [tool("t", stops, cost_microunits_max=7)]))
    assert receipt.terminal == "indeterminate_effect"
    assert receipt.usage.cost_microunits == charged
    assert receipt.accounting == ("incomplete" if measured is None else "complete")


@pytest.mark.parametrize(("measured", "charged"), [(None, 7), (0, 0), (2, 2), (11, 11)])
def test_a_known_outcome_settles_at_what_was_measured(measured: int | None, charged: int) -> None:
    async def spends(call: ToolCall) -> ToolResult:
        return ToolResult(usage=Measured(cost_microunits=measured))

    receipt, _ = run(lambda s: runner(s, [[act("t")]], [tool("t", spends, cost_microunits_max=7)]))
    assert receipt.usage.cost_microunits == charged


def test_other_work_goes_on_only_after_the_unknown_effect_is_known() -> None:
    bank, other = Effects(lost=frozenset({0})), Ledger()
    receipt, stores = run(
        lambda s: runner(
            s,
            [[act("pay")], [act("other")], [finish()]],
            [tool("pay", bank.pay), tool("other", other)],
            reconciler=bank.find_out,
        )
    )
    assert receipt.terminal == "completed"
    kinds = stores.kinds("r")
    reserved = [place for place, kind in enumerate(kinds) if kind == "action_reserved"]
    assert reserved[1] > kinds.index("effect_reconciled")


def test_measured_usage_of_a_found_effect_does_not_settle_again() -> None:
    bank = Effects(lost=frozenset({0}))

    async def found(question: Reconcile) -> Finding:
        return Finding(finding="verified_success", measured=Measured(cost_microunits=1))

    receipt, stores = run(
        lambda s: runner(
            s,
            [[act("pay")], [finish()]],
            [tool("pay", bank.pay, cost_microunits_max=9)],
            reconciler=found,
        )
    )
    assert receipt.usage.cost_microunits == 9
    assert stores.kinds("r").count("reservation_settled") == 2


def test_an_effect_found_late_against_a_verified_no_effect_stops_retries() -> None:
    stores = Stores()
    release = asyncio.Event()

    async def stubborn(call: ToolCall) -> ToolResult:
        while not release.is_set():
            try:
                await release.wait()
            except asyncio.CancelledError:
                continue
        return ToolResult(output="it did happen")

    async def wrong(question: Reconcile) -> Finding:
        return verified_no_effect(question.idempotency_key)

    async def letting_go(call: ToolCall) -> str:
        release.set()
        await asyncio.sleep(1)
        return "later"

    receipt, _ = run(
        lambda s: runner(
            s,
            [
                [act("pay", key="p")],
                [act("look")],
                [act("pay", key="p")],
                [finish()],
            ],
            [
                tool("pay", stubborn, timeout_ms=1_000),
                tool("look", letting_go, effect="none"),
            ],
            reconciler=wrong,
            rules=Rules(shutdown_ms=1_000),
        ),
        stores=stores,
    )
    events = stores.events("r")
    late = [e for e in events if e.kind == "outcome_observed" and e.payload["late"]]
    assert len(late) == 1
    assert late[0].payload["contradicts"] is True
    assert [e.payload["code"] for e in events if e.kind == "action_refused"] == ["incident"]
    assert any("effect was found" in finding for finding in receipt.findings)
