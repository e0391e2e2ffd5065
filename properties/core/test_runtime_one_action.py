"""An action is reserved, dispatched, observed, settled and committed, in this order and once."""

from loopcore.runtime.runner import Runner
from loopcore.runtime.tools import act, finish, tool
from properties.core.runner_worlds import Ledger, Script, accept, policy, run


def test_a_run_of_one_call_and_a_finish_completes_with_this_journal() -> None:
    pay = Ledger()
    receipt, stores = run(
        lambda s: Runner(
            policy=policy(),
            planner=Script([[act("pay", {"order": 1})], [finish("paid")]]),
            tools=[tool("pay", pay, cost_microunits_max=5)],
            verifier=accept,
            store=s.store,
            clock=s.clock,
            threads=False,
        )
    )
    assert receipt.terminal == "completed"
    assert receipt.usage.tool_calls == 1
    assert receipt.usage.cost_microunits == 5
    assert receipt.accounting == "incomplete"
    assert stores.kinds("r") == [
        "run_created",
        "lease_acquired",
        "action_reserved",
        "action_dispatched",
        "outcome_observed",
        "evidence_validated",
        "reservation_settled",
        "state_committed",
        "action_reserved",
        "action_dispatched",
        "outcome_observed",
        "evidence_validated",
        "reservation_settled",
        "state_committed",
        "terminal_committed",
        "lease_released",
    ]
    assert len(pay.calls) == 1
