"""Claim: the naive model's precedence is the order of the page, row by row.

Some neighbours can never fire on one step, so no run tells their order; the table still shows it.
The mutants that show the claim can fail: swapping any two neighbours of a table.
"""

import pytest

from loopcore.testing.naive import precedence

BUDGETS = (
    "deadline_exceeded step_budget_exhausted model_budget_exhausted tool_budget_exhausted "
    "repair_budget_exhausted cost_budget_exhausted "
)
TOKENS = "input_token_budget_exhausted output_token_budget_exhausted evidence_budget_exhausted "
ENDS = "indeterminate_effect completed invalid_completion repeated_action "
LAST = "no_progress input_exhausted"
ORDERS = {
    "loopcore-reference/1": f"{BUDGETS}{ENDS}{LAST}",
    "loopcore-extended/1": f"{BUDGETS}{TOKENS}{ENDS}nonproductive_cycle {LAST}",
}


@pytest.mark.parametrize("release", ORDERS)
def test_the_terminals_stand_in_the_order_of_the_page(release: str) -> None:
    assert precedence(release) == tuple(ORDERS[release].split())


def test_a_release_that_is_not_known_has_no_order() -> None:
    with pytest.raises(KeyError):
        precedence("loopcore-reference/2")
