"""A run completes only by a finish that the verifier accepted with a fresh receipt of that step."""

import pytest

from loopcore.runtime.envelope import Rules
from loopcore.runtime.tools import Accepted, Refused, Verdict, act, finish, tool
from loopcore.runtime.views import View
from properties.core.runner_worlds import Ledger, Script, agreed, policy, run, runner


def refuse(view: View, claim: str) -> Verdict:
    """Refuse every finish."""
    return Refused(reason="two tests fail")


@pytest.mark.parametrize("limit", [0, 1, 3])
def test_refused_finishes_go_on_while_the_limit_lasts_and_then_are_invalid(limit: int) -> None:
    receipt, stores = run(
        lambda s: runner(
            s,
            [[finish({"try": n})] for n in range(9)],
            [],
            verifier=refuse,
            rules=Rules(finish_refusals_max=limit),
        )
    )
    assert receipt.terminal == "invalid_completion"
    assert stores.kinds("r").count("finish_refused") == limit
    trace = agreed(stores.events("r")).trace
    assert trace is not None
    kinds = [step.action_kind for step in trace.steps]
    assert kinds == ["verification"] * limit + ["finish"]
    assert {step.outcome for step in trace.steps} == {"failed"}


def test_the_planner_reads_why_a_finish_was_refused() -> None:
    script = Script([[finish()], [finish()]])
    run(lambda s: runner(s, script, [], verifier=refuse))
    (last,) = list(script.views[1].last)
    assert (last.tool, last.outcome, last.output) == ("finish", "failed", "two tests fail")


def test_refused_finishes_are_no_progress() -> None:
    receipt, _ = run(
        lambda s: runner(
            s,
            [[finish({"try": n})] for n in range(9)],
            [],
            verifier=refuse,
            under=policy(max_consecutive_no_progress=2),
            rules=Rules(finish_refusals_max=8),
        )
    )
    assert (receipt.terminal, receipt.usage.steps) == ("no_progress", 2)


def test_a_broken_verifier_is_not_a_refusal_and_stalls_the_run() -> None:
    def broken(view: View, claim: str) -> Verdict:
        raise RuntimeError("the checker cannot start")

    receipt, stores = run(
        lambda s: runner(
            s,
            [[finish({"try": n})] for n in range(9)],
            [],
            verifier=broken,
            rules=Rules(verifier_faults_max=2, finish_refusals_max=0),
        )
    )
    assert receipt.terminal == "stalled_verifier"
    faults = [e.payload["fault"] for e in stores.events("r") if e.kind == "finish_refused"]
    assert faults == [True, True, True]


def test_without_a_verifier_nothing_completes() -> None:
    receipt, _ = run(lambda s: runner(s, [[finish()]] * 9, [], verifier=None))
    assert receipt.terminal == "invalid_completion"


def test_the_proof_is_fresh_evidence_of_the_finish() -> None:
    receipt, stores = run(lambda s: runner(s, [[act("t")], [finish()]], [tool("t", Ledger())]))
    agreement = agreed(stores.events("r"))
    assert agreement.trace is not None
    last = agreement.trace.steps[-1]
    assert last.completion_receipt_sha256 in last.new_evidence_receipt_sha256
    assert receipt.completion_receipt_sha256 == last.completion_receipt_sha256


def test_an_issuer_whom_nobody_trusts_completes_nothing() -> None:
    receipt, stores = run(
        lambda s: runner(
            s, [[finish({"n": n})] for n in range(9)], [], rules=Rules(evidence_issuers=())
        )
    )
    assert receipt.terminal == "invalid_completion"
    reasons = {e.payload["reason"] for e in stores.events("r") if e.kind == "finish_refused"}
    assert reasons == {"its receipt does not count"}


def test_a_planner_with_nothing_to_propose_has_exhausted_its_input() -> None:
    receipt, _ = run(lambda s: runner(s, [[act("t")]], [tool("t", Ledger())]))
    assert receipt.terminal == "input_exhausted"


def test_asking_for_input_without_a_source_ends_at_once() -> None:
    from loopcore.runtime.tools import ask

    receipt, _ = run(lambda s: runner(s, [[ask("which account?")], [finish()]], []))
    assert (receipt.terminal, receipt.reason) == ("awaiting_input", "which account?")
    assert receipt.terminal_class == "pause"


def test_the_verifier_may_add_evidence_of_its_own() -> None:
    def thorough(view: View, claim: str) -> Verdict:
        return Accepted(subject="all green")

    receipt, _ = run(lambda s: runner(s, [[finish()]], [], verifier=thorough))
    assert receipt.usage.evidence_receipts == 1
