"""Whatever a planner, tool or reconciler says, the journal stays readable and of bounded size."""

import hashlib
import json

import pytest

from loopcore.runtime.envelope import Rules
from loopcore.runtime.messages import Act, Ask, Finding, Finish, Reconcile
from loopcore.runtime.payloads import ActionRefused, OutcomeObserved, RunReceipt
from loopcore.runtime.protocol import fold_all
from loopcore.runtime.tools import (
    Accepted,
    ToolCall,
    ToolFailed,
    ToolResult,
    Verdict,
    act,
    finish,
    tool,
)
from loopcore.runtime.views import View
from properties.core.runner_worlds import Effects, Ledger, Script, Stores, run, runner, said

LONG = "x" * 200_000


@pytest.mark.parametrize("length", [0, 15, 16, 17, 100_000])
def test_an_output_is_cut_at_the_stated_size_and_named_by_the_digest_of_the_whole(
    length: int,
) -> None:
    async def talks(call: ToolCall) -> str:
        return "y" * length

    _, stores = run(
        lambda s: runner(s, [[act("t")]], [tool("t", talks)], rules=Rules(output_characters_max=16))
    )
    (seen,) = said(stores.events("r"), OutcomeObserved)
    assert seen.output == "y" * min(length, 16)
    assert seen.output_characters == length
    assert seen.output_sha256 == hashlib.sha256(b"y" * length).hexdigest()


@pytest.mark.parametrize("value", [1.5, {"a": [0.1]}, None, True, "text", {1, 2}, object, 2**90])
def test_any_value_is_an_output(value: object) -> None:
    async def returns(call: ToolCall) -> object:
        return value

    receipt, stores = run(lambda s: runner(s, [[act("t")]], [tool("t", returns)]))
    (seen,) = said(stores.events("r"), OutcomeObserved)
    assert (seen.outcome, receipt.terminal) == ("succeeded", "input_exhausted")
    if not isinstance(value, str):
        json.loads(seen.output)


def _wild(name: str) -> tuple[RunReceipt, Stores, Script]:
    """Run one call of a tool that answers with what no journal can hold."""

    async def call(call: ToolCall) -> ToolResult:
        if name == "evidence":
            return ToolResult(evidence=(call.evidence(LONG),))
        if name == "surrogate":
            return ToolResult(evidence=(call.evidence("\ud83d"),))
        if name == "state":
            return ToolResult(state_sha256="no digest")
        if name == "findings":
            return ToolResult(findings=(LONG,))
        raise ToolFailed(LONG, error_class=LONG)

    script = Script([[act("t")], [finish()]])
    receipt, stores = run(lambda s: runner(s, script, [tool("t", call, effect="none")]))
    return receipt, stores, script


@pytest.mark.parametrize("name", ["evidence", "surrogate", "state", "findings", "error_class"])
def test_an_answer_that_no_journal_can_hold_is_a_failed_call(name: str) -> None:
    receipt, stores, script = _wild(name)
    assert receipt.terminal == "completed"
    assert script.views[1].last[0].outcome == "failed"
    assert fold_all(stores.events("r")).receipt == receipt


def test_arguments_and_claims_that_are_too_long_are_answered() -> None:
    script = Script([[act("t", {"a": LONG})], [Finish(claim=LONG)], [finish()]])
    receipt, stores = run(lambda s: runner(s, script, [tool("t", Ledger())]))
    assert receipt.terminal == "completed"
    codes = [refused.code for refused in said(stores.events("r"), ActionRefused)]
    assert codes == ["bad_parameters", "bad_parameters"]


@pytest.mark.parametrize("name", ["", LONG, "\ud83d", "two\nlines"])
def test_any_tool_name_is_answered(name: str) -> None:
    script = Script([[Act(tool=name)]])
    receipt, _ = run(lambda s: runner(s, script, [tool("t", Ledger())]))
    assert receipt.terminal == "input_exhausted"
    assert script.views[1].last[0].refused == "unknown_tool"


def test_a_question_of_any_length_ends_the_run_as_waiting() -> None:
    receipt, _ = run(lambda s: runner(s, [[Ask(question=LONG)]], []))
    assert receipt.terminal == "awaiting_input"


@pytest.mark.parametrize("kind", ["long", "no finding", "raises"])
def test_a_reconciler_that_talks_nonsense_could_not_tell(kind: str) -> None:
    async def nonsense(question: Reconcile) -> Finding:
        if kind == "raises":
            raise RuntimeError(LONG)
        if kind == "long":
            return Finding(finding="verified_success", reason=LONG)
        answer: Finding = "yes"  # type: ignore[assignment]
        return answer

    bank = Effects(lost=frozenset({0}))
    receipt, stores = run(
        lambda s: runner(s, [[act("pay")]], [tool("pay", bank.pay)], reconciler=nonsense)
    )
    assert receipt.terminal == "indeterminate_effect"
    assert fold_all(stores.events("r")).receipt == receipt


def test_a_verifier_whose_subject_no_journal_can_hold_has_failed() -> None:
    def verbose(view: View, claim: str) -> Verdict:
        return Accepted(subject=LONG)

    receipt, _ = run(
        lambda s: runner(s, [[finish({"n": n})] for n in range(9)], [], verifier=verbose)
    )
    assert receipt.terminal == "stalled_verifier"
