"""A run with a terminal goes on only as its row permits, under a new looser policy, and once."""

import pytest

from loopcore.models import Policy
from loopcore.runtime.continuation import ResumptionRefused
from loopcore.runtime.envelope import Rules
from loopcore.runtime.messages import Finding, Proposal, Reconcile
from loopcore.runtime.payloads import RunReceipt
from loopcore.runtime.tools import Planner, act, ask, finish, still_indeterminate, tool
from loopcore.runtime.virtual import run_virtually
from loopcore.store.journal import GENESIS
from loopcore.terminals import FACTS
from properties.core.runner_worlds import (
    Effects,
    Ledger,
    Stores,
    accept,
    agreed,
    policy,
    run,
    runner,
)

ENDINGS: dict[str, tuple[list[list[Proposal]], Policy]] = {
    "completed": ([[finish()]], policy()),
    "tool_budget_exhausted": ([[act("t", {"n": n})] for n in range(5)], policy(max_tool_calls=2)),
    "step_budget_exhausted": ([[act("t", {"n": n})] for n in range(5)], policy(max_steps=2)),
    "no_progress": (
        [[act("look", {"n": n})] for n in range(5)],
        policy(max_consecutive_no_progress=2),
    ),
    "repeated_action": ([[act("look")]] * 5, policy(max_consecutive_repeated_actions=2)),
    "invalid_completion": ([[finish()]], policy()),
    "input_exhausted": ([[act("t")]], policy()),
    "awaiting_input": ([[ask("?")]], policy()),
}
LOOSER = {"max_steps": 2_000, "max_tool_calls": 2_000, "max_consecutive_no_progress": 200}


async def look(call: object) -> str:
    """Change nothing."""
    return "nothing new"


def _ended(terminal: str) -> tuple[Stores, Ledger, RunReceipt]:
    stores, ledger = Stores(), Ledger()
    batches, under = ENDINGS[terminal]
    refuse_all = terminal == "invalid_completion"
    receipt, _ = run(
        lambda s: runner(
            s,
            batches,
            [tool("t", ledger), tool("look", look, effect="none")],
            under=under,
            verifier=None if refuse_all else accept,
            rules=Rules(finish_refusals_max=0) if refuse_all else None,
        ),
        stores=stores,
    )
    assert receipt.terminal == terminal
    return stores, ledger, receipt


def _resume(
    stores: Stores,
    ledger: Ledger,
    under: Policy,
    *,
    new: str = "r2",
    planner: Planner | list[list[Proposal]] | None = None,
    hypothesis: str | None = None,
) -> RunReceipt:
    made = runner(
        stores,
        planner or [[act("t", {"fresh": 1})], [finish()]],
        [tool("t", ledger), tool("look", look, effect="none")],
        under=under,
    )
    return run_virtually(made.resume_under("r", new, hypothesis=hypothesis))


@pytest.mark.parametrize("terminal", sorted(ENDINGS))
def test_resumption_obeys_the_terminal_table(terminal: str) -> None:
    stores, ledger, _ = _ended(terminal)
    row = FACTS[terminal].resumable
    looser = policy("looser", bounds=LOOSER)
    if row == "no":
        with pytest.raises(ResumptionRefused, match="final"):
            _resume(stores, ledger, looser)
        assert stores.store.head("r2").digest == GENESIS
        return
    if row == "with_new_hypothesis":
        with pytest.raises(ResumptionRefused, match="hypothesis"):
            _resume(stores, ledger, looser)
    receipt = _resume(stores, ledger, looser, hypothesis="the cache was stale")
    assert receipt.terminal == "completed"
    agreed(stores.events("r2"))


def test_counters_of_the_old_run_are_counted_in_the_new_one() -> None:
    stores, ledger, old = _ended("tool_budget_exhausted")
    assert old.usage.tool_calls == 2
    receipt = _resume(
        stores,
        ledger,
        policy("one more", max_tool_calls=3),
        planner=[[act("t", {"new": n})] for n in range(5)],
    )
    assert receipt.terminal == "tool_budget_exhausted"
    assert receipt.usage.tool_calls == 3
    assert len(ledger.calls) == 3
    agreed(stores.events("r2"))


def test_streaks_go_on_from_where_they_stood() -> None:
    stores, ledger, _ = _ended("no_progress")
    receipt = _resume(
        stores,
        ledger,
        policy("one more", max_consecutive_no_progress=3),
        planner=[[act("look", {"again": n})] for n in range(5)],
        hypothesis="another place",
    )
    assert (receipt.terminal, receipt.usage.steps) == ("no_progress", 3)
    agreed(stores.events("r2"))


def test_a_call_of_the_old_run_is_still_answered_from_the_journal() -> None:
    stores, ledger, _ = _ended("input_exhausted")
    receipt = _resume(stores, ledger, policy("again"), planner=[[act("t")], [finish()]])
    assert receipt.terminal == "completed"
    assert len(ledger.calls) == 1


@pytest.mark.parametrize(
    ("under", "reason"),
    [
        (policy(max_tool_calls=2), "the old one"),
        (policy("stricter", max_tool_calls=5, max_steps=3), "stricter"),
        (policy("sooner", max_tool_calls=5, duration_ms=1_000), "stricter"),
    ],
)
def test_a_policy_that_is_no_looser_is_refused(under: Policy, reason: str) -> None:
    stores, ledger, _ = _ended("tool_budget_exhausted")
    if reason == "the old one":
        with pytest.raises(ResumptionRefused, match=r"end it again|the old one"):
            _resume(stores, ledger, under)
        return
    with pytest.raises(ResumptionRefused, match=reason):
        _resume(stores, ledger, under)


def test_a_terminal_has_at_most_one_successor() -> None:
    stores, ledger, _ = _ended("tool_budget_exhausted")
    first = policy("more", max_tool_calls=3)
    _resume(stores, ledger, first, new="r2")
    with pytest.raises(ResumptionRefused):
        _resume(stores, ledger, policy("other", max_tool_calls=4), new="r3")
    assert stores.kinds("r").count("run_resumed") == 1
    assert stores.store.head("r3").digest == GENESIS
    again = _resume(stores, ledger, first, new="r2")
    assert again.terminal == "completed"


def test_an_open_effect_forbids_resumption_until_it_is_reconciled() -> None:
    stores, bank = Stores(), Effects(lost=frozenset({0}))

    async def silent(question: Reconcile) -> Finding:
        return still_indeterminate()

    receipt, _ = run(
        lambda s: runner(
            s,
            [[act("pay", {"order": 1})]],
            [tool("pay", bank.pay)],
            reconciler=silent,
            rules=Rules(reconciliations_max=1),
        ),
        stores=stores,
    )
    assert receipt.terminal == "indeterminate_effect"
    later = runner(
        stores,
        [[act("pay", {"order": 1})], [finish()]],
        [tool("pay", bank.pay)],
        under=policy("later"),
        reconciler=bank.find_out,
        rules=Rules(reconciliations_max=1),
    )
    with pytest.raises(ResumptionRefused, match="reconciled"):
        run_virtually(later.resume_under("r", "r2"))
    assert run_virtually(later.reconcile("r")) == ()
    before = run_virtually(later.state("r")).receipt
    assert before == receipt, "reconciliation changes no receipt"
    resumed = run_virtually(later.resume_under("r", "r2"))
    assert resumed.terminal == "completed"
    assert len(bank.effects) == 1
    trace = agreed(stores.events("r2")).trace
    assert trace is not None
    assert trace.steps[0].outcome == "succeeded", "a reconciled effect has the outcome found"
