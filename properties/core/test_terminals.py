"""Claim: owner and resumability of a receipt are the strictest over all that its step violated."""

from __future__ import annotations

from typing import get_args

import pytest

from loopcore.models import Terminal
from loopcore.terminals import EXTENDED, FACTS, PRECEDENCE, REFERENCE, TERMINALS, disposition


@pytest.mark.parametrize("terminal", PRECEDENCE[EXTENDED])
def test_an_unresolved_effect_rules_whatever_terminal_won(terminal: Terminal) -> None:
    found = disposition(terminal, (terminal, "indeterminate_effect"))
    assert found.terminal == terminal
    assert found.terminal_class == FACTS[terminal].terminal_class
    assert found.resumable == "after_reconciliation"
    assert found.next_owner == "reconciliation worker"


def test_a_failure_beside_a_budget_is_not_resumed() -> None:
    found = disposition("cost_budget_exhausted", ("cost_budget_exhausted", "repeated_action"))
    assert (found.terminal_class, found.resumable) == ("pause", "no")
    assert disposition("cost_budget_exhausted", ()).resumable == "yes"
    stalled = disposition("cost_budget_exhausted", ("no_progress",))
    assert stalled.resumable == "with_new_hypothesis"


def test_every_terminal_has_one_row_and_a_place() -> None:
    names = [fact.terminal for fact in TERMINALS]
    assert len(names) == len(set(names))
    assert set(get_args(Terminal)) == set(PRECEDENCE[EXTENDED]) <= set(names)
    # The order of the reference release is that of the extended one, with rows left out.
    shared = [name for name in PRECEDENCE[EXTENDED] if name in PRECEDENCE[REFERENCE]]
    assert shared == list(PRECEDENCE[REFERENCE])
