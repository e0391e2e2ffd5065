"""Incident 13.2: a log whose tail was cut, or whose entries were moved, must not pass for whole.

A trace's receipt is its anchor: it binds the policy, every step and their order. Against it each
change is found. Without it nobody can tell a cut trace from one that simply ended, so a cut trace
is never given the terminal of the whole one.
"""

from __future__ import annotations

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from loopcore.errors import InputError
from loopcore.evaluator import evaluate
from loopcore.lab import baseline_policy, baseline_steps
from loopcore.models import Policy, Step
from loopcore.receipts import verify_receipt


def productive(length: int) -> tuple[Policy, tuple[Step, ...]]:
    """Return a run of a length that ends in a valid finish, the baseline stretched."""
    policy = msgspec.structs.replace(
        baseline_policy(), max_steps=length, max_tool_calls=length, max_cost_microunits=10**6
    )
    _, tool_call, _, finish = baseline_steps()
    steps: list[Step] = []
    for index in range(length):
        state = steps[-1].state_after_sha256 if steps else policy.initial_state_sha256
        mark = f"{index:064x}"
        last = index == length - 1
        steps.append(
            msgspec.structs.replace(
                finish if last else tool_call,
                sequence=index + 1,
                action_sha256=mark,
                state_before_sha256=state,
                state_after_sha256=mark,
                new_evidence_receipt_sha256=(mark,),
                completed_at_unix_ms=policy.started_at_unix_ms + index,
                completion_receipt_sha256=mark if last else None,
            )
        )
    return policy, tuple(steps)


@given(st.integers(2, 12), st.data())
def test_against_a_receipt_every_cut_and_every_move_is_found(
    length: int, data: st.DataObject
) -> None:
    policy, steps = productive(length)
    receipt = evaluate(policy, steps)
    assert receipt.terminal == "completed"
    kept = data.draw(st.integers(0, length - 1))
    cut = verify_receipt(policy, steps[:kept], receipt)
    assert {"steps_sha256", "terminal", "usage.steps"} <= set(cut.differing)
    # The receipt itself is whole: the finding is about the trace, not about the receipt.
    assert cut.self_consistent

    first, second = data.draw(st.permutations(range(length)))[:2]
    moved = list(steps)
    moved[first], moved[second] = moved[second], moved[first]
    for changed in (tuple(moved), steps[1:]):
        with pytest.raises(InputError) as refused:
            verify_receipt(policy, changed, receipt)
        assert refused.value.code in {"sequence_gap", "time_regression", "state_chain_broken"}


@given(st.integers(2, 12), st.data())
def test_without_a_receipt_a_cut_trace_is_never_completed(length: int, data: st.DataObject) -> None:
    policy, steps = productive(length)
    kept = data.draw(st.integers(0, length - 1))
    assert evaluate(policy, steps[:kept]).terminal == "input_exhausted"
