"""A key names run, logical action, arguments and occurrence; call ids and spelling play no part."""

import pytest

from loopcore.control.limits import Effect
from loopcore.runtime.messages import Act, Proposal
from loopcore.runtime.tools import act, finish, tool
from properties.core.runner_worlds import Effects, Ledger, Script, run, runner


def _run(
    batches: list[list[Proposal]], effect: Effect = "unsafe"
) -> tuple[Ledger, list[str | None], list[str]]:
    ledger = Ledger()
    script = Script([*batches, [finish()]])
    _, stores = run(lambda s: runner(s, script, [tool("refund", ledger, effect=effect)]))
    answers = [result.refused for result in script.views[-1].history]
    identities = [
        str(e.payload["identity"])
        for e in stores.events("r")
        if e.kind == "action_reserved" and e.payload["tool"] == "refund"
    ]
    return ledger, answers, identities


def test_the_same_unsafe_call_is_answered_from_the_journal() -> None:
    once = act("refund", {"order": 1, "amount": 10})
    ledger, answers, _ = _run([[once], [once]])
    assert len(ledger.calls) == 1
    assert answers == [None, "duplicate"]


@pytest.mark.parametrize(
    "spelling",
    ['{"amount":10,"order":1}', '{ "order" : 1 , "amount" : 10 }', '{"order":1.0,"amount":1e1}'],
)
def test_key_order_white_space_and_number_spelling_are_one_call(spelling: str) -> None:
    first = act("refund", {"order": 1, "amount": 10})
    ledger, answers, _ = _run([[first], [Act(tool="refund", arguments=spelling)]])
    assert len(ledger.calls) == 1
    assert answers == [None, "duplicate"]


def test_the_same_key_with_another_payload_is_a_conflict() -> None:
    first = act("refund", {"order": 1, "amount": 10}, key="refund-1")
    second = act("refund", {"order": 1, "amount": 20}, key="refund-1")
    ledger, answers, _ = _run([[first], [second]])
    assert len(ledger.calls) == 1
    assert answers == [None, "key_conflict"]


def test_a_new_occurrence_is_another_invocation_with_another_key() -> None:
    first = act("refund", {"order": 1})
    second = act("refund", {"order": 1}, occurrence=2)
    ledger, answers, identities = _run([[first], [second]])
    assert len(set(ledger.keys)) == len(ledger.keys) == 2
    assert answers == [None, None]
    assert len(set(identities)) == 2


@pytest.mark.parametrize("effect", ["none", "idempotent"])
def test_a_call_that_harms_nobody_may_be_repeated_without_saying_so(effect: Effect) -> None:
    same = act("refund", {"order": 1})
    ledger, answers, identities = _run([[same], [same], [same]], effect)
    assert len(ledger.calls) == 3
    assert answers == [None, None, None]
    assert len(set(identities)) == 3


def test_twins_in_one_batch_are_one_unsafe_call() -> None:
    same = act("refund", {"order": 1})
    ledger, answers, _ = _run([[same, same]])
    assert len(ledger.calls) == 1
    assert sorted(str(answer) for answer in answers) == ["None", "duplicate"]


def test_nested_differences_are_differences() -> None:
    calls = [[act("refund", {"lines": [{"id": n, "deep": {"n": [n]}}]})] for n in range(6)]
    ledger, _, identities = _run([list(call) for call in calls])
    assert len(ledger.calls) == len(set(identities)) == 6


def test_the_same_calls_of_another_run_have_other_keys() -> None:
    bank = Effects()
    for run_id in ("r1", "r2"):
        run(
            lambda s: runner(s, [[act("pay", {"order": 1})], [finish()]], [tool("pay", bank.pay)]),
            run_id,
        )
    assert len(set(bank.arrivals)) == 2


def test_keys_derive_from_position_and_content_and_not_from_anything_drawn() -> None:
    def keys() -> list[str | None]:
        bank = Effects(lost=frozenset({1}))
        _, stores = run(
            lambda s: runner(
                s,
                [[act("pay", {"n": n})] for n in range(3)],
                [tool("pay", bank.pay)],
                reconciler=bank.find_out,
            )
        )
        return [event.idempotency_key for event in stores.events("r")]

    assert keys() == keys()


def test_a_lone_surrogate_in_arguments_and_outputs_has_a_stable_digest() -> None:
    async def echoes(call: object) -> str:
        return "half \ud83d"

    script = Script([[act("t", {"text": "half \ud83d"})], [act("t", {"text": "half \ud83d"})]])
    receipt, stores = run(lambda s: runner(s, script, [tool("t", echoes)]))
    assert receipt.terminal == "input_exhausted"
    (seen,) = [e for e in stores.events("r") if e.kind == "outcome_observed"]
    assert seen.payload["output"] == "half \\ud83d"
    assert [result.refused for result in script.views[2].history] == [None, "duplicate"]
