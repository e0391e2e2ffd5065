"""The evaluator over columns decides every trace as the scalar one: terminal, error, their steps.

Killers, each of which alone turns this file red: a bound that is reached instead of exceeded, a
wait that is idle or an action, a proof seen before, progress without a change of state, evidence
seen in a failed step that is fresh again, a cycle of equal pairs, an overflow taken for a budget,
the order of the checks, a trace that goes on after its terminal, traces mixed up between groups.
"""

from __future__ import annotations

import hashlib
import random
from collections import Counter
from collections.abc import Sequence
from dataclasses import fields
from typing import TypeAlias, cast

import msgspec
import numpy as np
import pytest

from loopcore.batch import evaluator as module
from loopcore.batch import evidence, state
from loopcore.batch.evaluator import ERRORS, TERMINALS, decide
from loopcore.batch.evidence import evidence_of
from loopcore.batch.traces import columns_of
from loopcore.canonical import INTEGER_MAX
from loopcore.errors import InputError
from loopcore.evaluator import start
from loopcore.models import Policy, Step
from loopcore.models import Trace as Document
from loopcore.terminals import STEP_ERRORS
from properties.core.random_documents import EVIDENCE, STATES, source

Trace: TypeAlias = "tuple[Policy, tuple[Step, ...]]"
Verdict: TypeAlias = "tuple[str, int, str, int]"

TRACES_DEFAULT, TRACES_SLOW = 5_000, 100_000
KINDS_OF_TERMINAL = set(TERMINALS)
CODES = {"none", *(code for code, _ in STEP_ERRORS)}


def scalar_verdict(trace: Trace) -> Verdict:
    """Return terminal, its step, error and its step; -1 for no step."""
    policy, steps = trace
    run = start(policy)
    try:
        run.decide(steps)
    except InputError as error:
        late = -1 if error.terminal_sequence is None else error.terminal_sequence - 1
        return error.terminal or "none", late, error.code, cast("int", error.step)
    receipt = run.finish(STATES[0])
    return receipt.terminal, (receipt.terminal_sequence or 0) - 1, "none", -1


def vector_verdicts(traces: Sequence[Trace]) -> list[Verdict]:
    """Return the same of every trace, from columns."""
    made = decide(*columns_of(traces))
    rows = zip(
        made.terminal.tolist(),
        made.terminal_step.tolist(),
        made.error.tolist(),
        made.error_step.tolist(),
        strict=True,
    )
    return [(TERMINALS[end], at, ERRORS[error], where) for end, at, error, where in rows]


def random_traces(seed: int, count: int) -> list[Trace]:
    """Return decoded random traces, every other one with more cycles, duplicates and waits."""
    documents = source(seed)
    traces: list[Trace] = []
    for number in range(count):
        # Well formed as a document, so nothing is left for the decoder to refuse.
        trace = msgspec.convert(documents.trace(), Document)
        traces.append((trace.policy, trace.steps))
        if number % 2:
            traces[-1] = disturbed(traces[-1], documents.random)
    return traces


def disturbed(trace: Trace, draw: random.Random) -> Trace:
    """Return a trace under laxer bounds that goes in a circle, waits, or doubles its evidence."""
    policy, steps = trace
    extended = policy.evaluator_release == "loopcore-extended/1"
    lax = msgspec.structs.replace(
        policy,
        max_steps=draw.choice([policy.max_steps, 40]),
        max_model_calls=40,
        max_tool_calls=40,
        max_consecutive_repeated_actions=draw.choice([3, 40]),
        max_consecutive_no_progress=draw.choice([5, 40]),
        deadline_unix_ms=draw.choice([policy.deadline_unix_ms, 1_000]),
        max_cycle_length=draw.choice([2, 3, 4]) if extended else None,
        cycle_repeats=draw.choice([2, 3]) if extended else None,
    )
    made: list[Step] = []
    state, now = policy.initial_state_sha256, policy.started_at_unix_ms
    period = draw.randint(1, 4)
    for index in range(draw.randint(0, 20)):
        waits = extended and draw.random() < 0.15
        place = index % period if draw.random() < 0.95 else draw.randrange(4)
        evidence = [draw.choice(EVIDENCE) for _ in range(draw.choice([0, 0, 1, 2]))]
        if draw.random() < 0.9:
            evidence = list(dict.fromkeys(evidence))
        step = Step(
            sequence=index + 1,
            action_kind="wait" if waits else "tool_call",
            action_sha256=STATES[draw.randrange(4) if waits else place],
            state_before_sha256=state,
            state_after_sha256=state if waits else STATES[place],
            new_evidence_receipt_sha256=tuple(evidence),
            outcome="failed" if draw.random() < 0.2 else "succeeded",
            completed_at_unix_ms=now,
            model_calls_delta=0,
            tool_calls_delta=1,
            repairs_delta=0,
            cost_microunits_delta=0,
            input_tokens_delta=0,
            output_tokens_delta=0,
            completion_receipt_sha256=None,
        )
        if evidence and draw.random() < 0.05:
            step = msgspec.structs.replace(
                step,
                action_kind="finish",
                tool_calls_delta=0,
                completion_receipt_sha256=draw.choice([evidence[-1], EVIDENCE[0], None]),
            )
        made.append(step)
        state = step.state_after_sha256
    return lax, (*made, *(steps[:1] if draw.random() < 0.1 else ()))


def agree(seed: int, count: int) -> Counter[str]:
    """Compare the verdicts on random traces; count the terminals and codes met."""
    traces = random_traces(seed, count)
    met: Counter[str] = Counter()
    for trace, found in zip(traces, vector_verdicts(traces), strict=True):
        assert found == scalar_verdict(trace), trace
        met.update({found[0], found[2]})
    return met


def test_every_random_trace_is_decided_as_by_the_scalar_evaluator_and_meets_every_answer(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(module, "GROUP_TRACES", 1_000)
    met = agree(seed=1, count=TRACES_DEFAULT)
    assert set(met) == KINDS_OF_TERMINAL | CODES
    assert min(met.values()) >= 10, met


@pytest.mark.slow
def test_every_random_trace_is_decided_as_by_the_scalar_evaluator_at_length() -> None:
    agree(seed=2, count=TRACES_SLOW)


def test_evidence_given_beforehand_changes_nothing() -> None:
    columns, policies = columns_of(random_traces(seed=3, count=500))
    alone, given = decide(columns, policies), decide(columns, policies, evidence_of(columns))
    assert (alone.terminal == given.terminal).all()
    assert (alone.error_step == given.error_step).all()


def test_fresh_evidence_is_that_of_no_earlier_step_and_a_proof_must_be_fresh() -> None:
    traces = random_traces(seed=4, count=800)
    worth = evidence_of(columns_of(traces)[0])
    for number, (_, steps) in enumerate(traces):
        seen: set[str] = set()
        for index, step in enumerate(steps):
            named, proof = step.new_evidence_receipt_sha256, step.completion_receipt_sha256
            assert worth.fresh[index, number] == len(set(named) - seen)
            assert worth.duplicate[index, number] == (len(set(named)) < len(named))
            assert worth.proven[index, number] == (proof in set(named) - seen)
            seen.update(named)


def test_no_traces_and_a_trace_without_steps_exhaust_their_input() -> None:
    policy, _ = random_traces(seed=5, count=1)[0]
    assert vector_verdicts([]) == []
    assert vector_verdicts([(policy, ())]) == [("input_exhausted", -1, "none", -1)]


def test_what_stands_after_a_traces_end_is_never_looked_at() -> None:
    columns, policies = columns_of(random_traces(seed=6, count=500))
    filler = np.random.default_rng(7)
    after = np.arange(columns.steps)[:, None] >= columns.lengths
    before = decide(columns, policies)
    for name in ("sequence", "kind", "action", "before", "after", "outcome", "elapsed_ms", "cost"):
        array = getattr(columns, name)
        array[after] = filler.integers(0, 3, int(after.sum()))
    other = decide(columns, policies)
    for field in ("terminal", "terminal_step", "error", "error_step"):
        assert (getattr(before, field) == getattr(other, field)).all(), field


def name(text: str) -> str:
    """Return a digest that stands for a text."""
    return hashlib.sha256(text.encode()).hexdigest()


def long_trace(steps: int, *, wide: bool) -> Trace:
    """Return a productive trace; `wide`: with amounts that only eight bytes hold."""
    policy, _ = random_traces(seed=8, count=1)[0]
    rules = msgspec.structs.replace(
        policy,
        evaluator_release="loopcore-extended/1",
        initial_state_sha256=name("0"),
        started_at_unix_ms=0,
        deadline_unix_ms=INTEGER_MAX,
        max_steps=steps - 1,
        max_model_calls=0,
        max_tool_calls=steps,
        max_cost_microunits=INTEGER_MAX,
        max_consecutive_no_progress=10**9,
        max_consecutive_repeated_actions=10**9,
        max_input_tokens=None,
        max_output_tokens=None,
        max_evidence_receipts=None,
        max_cycle_length=4,
        cycle_repeats=2,
    )
    made = [
        Step(
            sequence=index + 1,
            action_kind="tool_call",
            action_sha256=name(f"a {index % 300}"),
            state_before_sha256=name(str(index)),
            state_after_sha256=name(str(index + 1)),
            new_evidence_receipt_sha256=(name(f"e {index}"),),
            outcome="succeeded",
            completed_at_unix_ms=index * (2**38 if wide else 1),
            model_calls_delta=0,
            tool_calls_delta=1,
            repairs_delta=0,
            cost_microunits_delta=2**44 if wide else 0,
            input_tokens_delta=0,
            output_tokens_delta=0,
            completion_receipt_sha256=None,
        )
        for index in range(steps)
    ]
    return rules, tuple(made)


@pytest.mark.parametrize("most", [0, 19, 20, 21])
def test_wider_counters_decide_alike(most: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(state, "SHORT_TURNS_MAX", most)
    monkeypatch.setattr(evidence, "SHORT_TURNS_MAX", most)
    traces = random_traces(seed=10, count=200)
    assert vector_verdicts(traces) == [scalar_verdict(trace) for trace in traces]


@pytest.mark.slow
def test_a_trace_of_more_steps_than_two_bytes_count_is_decided_alike() -> None:
    trace = long_trace(2**15 + 5, wide=False)
    verdict = scalar_verdict(trace)
    assert verdict == ("step_budget_exhausted", 2**15 + 4, "none", -1)
    assert vector_verdicts([trace]) == [verdict]


def test_a_cost_that_overflows_before_the_steps_are_used_up_is_an_error_alike() -> None:
    trace = long_trace(600, wide=True)
    verdict = scalar_verdict(trace)
    assert verdict == ("none", -1, "usage_overflow", 511)
    assert vector_verdicts([trace]) == [verdict]


def test_deciding_changes_no_column(monkeypatch: pytest.MonkeyPatch) -> None:
    # In small groups some steps have a wait and some have none, which go different ways.
    monkeypatch.setattr(module, "GROUP_TRACES", 2)
    columns, policies = columns_of(random_traces(seed=9, count=500))
    kept = {field.name: getattr(columns, field.name).copy() for field in fields(columns)}
    decide(columns, policies)
    for field, array in kept.items():
        assert (getattr(columns, field) == array).all(), field


def test_columns_are_as_narrow_as_their_values_and_lose_none() -> None:
    columns, _ = columns_of([long_trace(50, wide=False)])
    wide, _ = columns_of([long_trace(50, wide=True)])
    assert (columns.elapsed_ms.itemsize, columns.cost.itemsize) == (2, 2)
    assert (wide.elapsed_ms.itemsize, wide.cost.itemsize) == (8, 8)
    assert wide.elapsed_ms[:, 0].tolist() == [index * 2**38 for index in range(50)]
