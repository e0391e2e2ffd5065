"""Claim: every trace and receipt case gets exactly the verdict that was worked out for it.

The verdicts are authored; the naive model and the reference evaluator are each held to them. The
mutants that show that the claim can fail stand in `mutations/evaluator.json`; here one verdict is
spoilt on purpose.
"""

import re
from collections import Counter

import msgspec
import pytest

from loopcore.lab import baseline_policy, baseline_steps
from loopcore.mutation.cases import (
    TraceCase,
    case_bytes,
    case_receipt,
    judge_trace_case,
    load_bases,
    load_trace_cases,
    naive_answer,
    verdict,
)
from loopcore.mutation.operators import VALUE_OPERATORS, apply, compact
from loopcore.mutation.text_operators import TEXT_OPERATORS
from loopcore.mutation.values import DataError, array, record
from loopcore.testing import naive
from loopcore.testing.naive_wire import RELEASES

CASES = load_trace_cases()
EVALUATED = [case for case in CASES if case.form != "receipt"]
REPLAYED = [case for case in CASES if case.form == "receipt"]
# Public incidents that a trace of the evaluator can show, each with several variants.
INCIDENTS = ("2.1", "3.1", "3.5", "4.1", "5.1", "5.2", "9.2", "12.1", "13.3")
VARIANTS_LEAST = 3


def named(case: TraceCase) -> str:
    return case.id


@pytest.mark.parametrize("case", CASES, ids=named)
def test_the_reference_evaluator_gives_the_authored_verdict(case: TraceCase) -> None:
    row = judge_trace_case(case)
    assert row.agreed, f"expected {row.expected}\ngot      {row.got}"


@pytest.mark.parametrize("case", EVALUATED, ids=named)
def test_the_naive_model_gives_the_authored_verdict(case: TraceCase) -> None:
    assert verdict(naive_answer(case), case.expected) == case.expected


@pytest.mark.parametrize("case", REPLAYED, ids=named)
def test_the_naive_model_finds_the_same_fields_of_a_receipt(case: TraceCase) -> None:
    if "code" in case.expected:
        return
    trace = record(msgspec.json.decode(case_bytes(case)))
    receipt = msgspec.json.decode(case_receipt(case))
    found = naive.verify_receipt(trace["policy"], trace["steps"], receipt)
    told = [str(name).partition(".")[0] for name in array(case.expected["differing"])]
    assert found == list(dict.fromkeys(told))


def test_a_spoilt_verdict_is_not_agreed_with() -> None:
    case = CASES[0]
    spoilt = msgspec.structs.replace(case, expected=case.expected | {"terminal": "no_progress"})
    assert not judge_trace_case(spoilt).agreed


def test_the_base_of_the_lab_is_the_baseline_of_the_lab() -> None:
    trace = load_bases()["lab"]
    assert trace["policy"] == msgspec.to_builtins(baseline_policy())
    steps = msgspec.json.decode(msgspec.json.encode(baseline_steps()))
    assert trace["steps"] == steps


def test_every_base_is_a_well_formed_trace() -> None:
    for trace in load_bases().values():
        assert "receipt" in naive.evaluate_bytes(compact(trace))


def test_there_are_cases_of_every_terminal_and_every_code() -> None:
    told = {str(case.expected.get("terminal", "")) for case in EVALUATED}
    told |= {str(case.expected.get("code", "")) for case in EVALUATED}
    terminals = {name for release in RELEASES for name in naive.precedence(release)}
    codes = {
        "post_terminal_step",
        "sequence_gap",
        "time_regression",
        "state_chain_broken",
        "duplicate_evidence",
        "unsupported_kind",
        "usage_mismatch",
        "unexpected_completion_receipt",
        "usage_overflow",
        "malformed",
        "invalid_policy",
    }
    assert terminals | codes <= told


def test_every_operator_is_used_by_a_case() -> None:
    used = {name for case in CASES for name, _ in (*case.operators, *case.receipt_operators)}
    assert used == set(VALUE_OPERATORS) | set(TEXT_OPERATORS)


def test_each_incident_has_several_variants() -> None:
    variants = Counter(case.incident for case in CASES)
    assert min(variants[name] for name in INCIDENTS) >= VARIANTS_LEAST, variants


def test_every_case_has_a_reason_in_words() -> None:
    short = [case.id for case in CASES if len(re.findall(r"\w+", case.reason)) < 3]
    assert not short


def test_operators_leave_the_base_as_it_was() -> None:
    before = {name: compact(trace) for name, trace in load_bases().items()}
    for case in CASES:
        case_bytes(case)
    assert before == {name: compact(trace) for name, trace in load_bases().items()}


def test_a_value_operator_after_a_text_operator_is_refused() -> None:
    with pytest.raises(DataError, match="comes before all others"):
        apply(load_bases()["lab"], (("truncate", {"bytes": 1}), ("renumber", {})))


def test_an_unknown_operator_is_refused_by_name() -> None:
    with pytest.raises(DataError, match="no operator shuffle"):
        apply(load_bases()["lab"], (("shuffle", {}),))


def test_a_missing_parameter_is_told_by_name() -> None:
    with pytest.raises(DataError, match="parameter step"):
        apply(load_bases()["lab"], (("drop-step", {}),))
