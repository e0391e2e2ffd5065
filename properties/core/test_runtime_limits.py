"""Exactly N actions are admitted under a limit of N, and the next is refused before its dispatch.

The refused action is not called and not charged, and the run ends by that budget's own terminal.
"""

import pytest

from loopcore.models import ActionKind
from loopcore.runtime.amounts import Measured
from loopcore.runtime.tools import Tool, ToolCall, ToolResult, act, finish, tool
from properties.core.runner_worlds import Ledger, agreed, policy, run, runner

# The bound, its terminal, the kind of tool that uses it up, and what one call reserves of it.
BUDGETS: list[tuple[str, str, ActionKind, str | None]] = [
    ("max_steps", "step_budget_exhausted", "tool_call", None),
    ("max_tool_calls", "tool_budget_exhausted", "tool_call", None),
    ("max_model_calls", "model_budget_exhausted", "model_generation", None),
    ("max_repairs", "repair_budget_exhausted", "repair", None),
    ("max_cost_microunits", "cost_budget_exhausted", "tool_call", "cost_microunits_max"),
    ("max_input_tokens", "input_token_budget_exhausted", "model_generation", "input_tokens_max"),
    ("max_output_tokens", "output_token_budget_exhausted", "model_generation", "output_tokens_max"),
]


# A policy has at least one step (spec evaluator, section 1), so that bound alone begins at 1.
CASES = [
    (*budget, limit)
    for budget in BUDGETS
    for limit in (0, 1, 2, 3, 5)
    if limit or budget[0] != "max_steps"
]


def used_up_by(ledger: Ledger, kind: ActionKind, amount: str | None) -> Tool:
    """Return a tool of which each call reserves one of an amount."""
    return tool(
        "t",
        ledger,
        kind=kind,
        cost_microunits_max=int(amount == "cost_microunits_max"),
        input_tokens_max=int(amount == "input_tokens_max"),
        output_tokens_max=int(amount == "output_tokens_max"),
    )


@pytest.mark.parametrize(("bound", "terminal", "kind", "amount", "limit"), CASES)
def test_a_limit_of_n_admits_n(
    bound: str, terminal: str, kind: ActionKind, amount: str | None, limit: int
) -> None:
    ledger = Ledger()
    under = policy(bounds={bound: limit})
    receipt, stores = run(
        lambda s: runner(
            s,
            [[act("t", {"n": n})] for n in range(limit + 2)],
            [used_up_by(ledger, kind, amount)],
            under=under,
        )
    )
    assert receipt.terminal == terminal
    assert len(ledger.calls) == limit
    assert receipt.usage.steps == limit
    kinds = stores.kinds("r")
    assert kinds.count("action_dispatched") == limit
    assert kinds[-3:] == ["action_refused", "terminal_committed", "lease_released"]
    verdict = agreed(stores.events("r"))
    assert verdict.further is not None
    assert verdict.further.terminal == terminal


def test_a_valid_finish_on_the_last_permitted_step_completes() -> None:
    receipt, _ = run(
        lambda s: runner(
            s,
            [[act("t")], [finish()]],
            [tool("t", Ledger())],
            under=policy(max_steps=2, max_tool_calls=1),
        )
    )
    assert receipt.terminal == "completed"


def test_a_finish_without_a_step_left_is_refused() -> None:
    receipt, _ = run(
        lambda s: runner(
            s, [[act("t")], [finish()]], [tool("t", Ledger())], under=policy(max_steps=1)
        )
    )
    assert receipt.terminal == "step_budget_exhausted"


def test_usage_above_the_reservation_ends_the_run_on_its_step() -> None:
    async def dear(call: ToolCall) -> ToolResult:
        return ToolResult(usage=Measured(cost_microunits=11))

    receipt, _ = run(
        lambda s: runner(
            s,
            [[act("t")], [act("t", {"n": 2})]],
            [tool("t", dear, cost_microunits_max=1)],
            under=policy(max_cost_microunits=10),
        )
    )
    assert receipt.terminal == "cost_budget_exhausted"
    assert receipt.on_step == 1
    assert receipt.usage.cost_microunits == 11


def test_the_precedence_of_refusals_is_the_releases_table() -> None:
    receipt, stores = run(
        lambda s: runner(
            s,
            [[act("t", {"n": n})] for n in range(3)],
            [tool("t", Ledger(), cost_microunits_max=1)],
            under=policy(max_steps=1, max_tool_calls=1, max_cost_microunits=1),
        )
    )
    assert receipt.terminal == "step_budget_exhausted"
    assert agreed(stores.events("r")).further is not None
