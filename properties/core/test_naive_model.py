"""Claim: the naive second model gives the answers that were worked out by hand from the page.

The expectations here are constants, written down from the specification without running any
implementation. The mutants that show the claim can fail: swapping two rows of the model's
precedence table, `>` for `>=` at a budget, dropping the `wait` filter, counting stale evidence.
"""

import hashlib
from typing import NamedTuple

import pytest
import rfc8785

from loopcore.testing.naive import evaluate, precedence, verify_receipt
from loopcore.testing.naive_wire import as_record

Json = dict[str, object]

REFERENCE, EXTENDED = "loopcore-reference/1", "loopcore-extended/1"
BOTH = (REFERENCE, EXTENDED)
START, DEADLINE = 1_000, 2_000
DELTAS = {
    "model_generation": (1, 0, 0),
    "tool_call": (0, 1, 0),
    "repair": (0, 0, 1),
    "wait": (0, 1, 0),
}


def d(number: int) -> str:
    """A digest that is told apart from others by its number."""
    return f"{number:064x}"


def policy(release: str = REFERENCE, **changes: object) -> Json:
    """A policy whose bounds are far away, except for the changes."""
    base: Json = {
        "schema": "loopcore/policy/1",
        "policy_id": "hand-made",
        "evaluator_release": release,
        "run_envelope_sha256": d(1),
        "behavior_spec_sha256": d(2),
        "initial_state_sha256": d(0),
        "started_at_unix_ms": START,
        "deadline_unix_ms": DEADLINE,
        "max_steps": 100,
        "max_model_calls": 100,
        "max_tool_calls": 100,
        "max_repairs": 100,
        "max_cost_microunits": 10**9,
        "max_consecutive_no_progress": 50,
        "max_consecutive_repeated_actions": 50,
        "max_input_tokens": None,
        "max_output_tokens": None,
        "max_evidence_receipts": None,
        "max_cycle_length": None,
        "cycle_repeats": None,
    }
    return base | changes


def step(kind: str, evidence: int | None = None, **changes: object) -> Json:
    """A step without its place in a run; `evidence` names one receipt."""
    model, tool, repairs = DELTAS.get(kind, (0, 0, 0))
    base: Json = {
        "action_kind": kind,
        "new_evidence_receipt_sha256": [] if evidence is None else [d(evidence)],
        "outcome": "succeeded",
        "model_calls_delta": model,
        "tool_calls_delta": tool,
        "repairs_delta": repairs,
        "cost_microunits_delta": 0,
        "input_tokens_delta": 0,
        "output_tokens_delta": 0,
        "completion_receipt_sha256": None,
    }
    return base | changes


def run(*parts: Json) -> list[Json]:
    """The parts as a chained run: step i leads from state i to state i + 1, a millisecond each."""
    steps: list[Json] = []
    state: object = d(0)
    for index, part in enumerate(parts):
        whole: Json = {
            "sequence": index + 1,
            "action_sha256": d(5_000 + index),
            "state_before_sha256": state,
            "state_after_sha256": d(index + 1),
            "completed_at_unix_ms": START + index + 1,
        }
        steps.append(whole | part)
        state = steps[-1]["state_after_sha256"]
    return steps


def finish(proof: int = 900, **changes: object) -> Json:
    """A finish that introduces and names its own proof."""
    return step("finish", proof, completion_receipt_sha256=d(proof), **changes)


def receipt_of(answer: Json) -> Json:
    """The receipt of an answer that must have one."""
    assert set(answer) == {"receipt"}, answer
    return as_record(answer["receipt"])


def error_of(answer: Json) -> Json:
    """The error of an answer that must have one, without the sentence for people."""
    assert set(answer) == {"error"}, answer
    error = as_record(answer["error"])
    assert error.pop("message")
    return error


def at(code: str, index: int) -> Json:
    return {"code": code, "path": None, "step": index}


GENERATE, CALL, REPAIR = step("model_generation", 11), step("tool_call", 12), step("repair", 13)
PAIR: Json = {"action_sha256": d(70), "state_after_sha256": d(80)}
OTHER: Json = {"action_sha256": d(71), "state_after_sha256": d(81)}
SAME: Json = {"action_sha256": d(70)}
CHECK, STILL, WAIT = step("verification", 1), step("verification"), step("wait")
LATE: Json = {"completed_at_unix_ms": DEADLINE}
TOKENS = step("model_generation", 11, input_tokens_delta=7, output_tokens_delta=8)


class Worked(NamedTuple):
    """A run that ends at its last step; the terminal need not be a violation."""

    violations: list[str]
    parts: list[Json]
    changes: Json
    terminal: str
    releases: tuple[str, ...]


def ends(violations: str, *parts: Json, **changes: object) -> Worked:
    """The run ends with these violations under both releases; `changes` are the policy's."""
    rules = violations.split()
    return Worked(rules, list(parts), changes, rules[0], BOTH)


def completes(violations: str, *parts: Json, **changes: object) -> Worked:
    """The run completes under both releases, and these lower rules fire too."""
    return Worked(violations.split(), list(parts), changes, "completed", BOTH)


def extended(violations: str, *parts: Json, **changes: object) -> Worked:
    """The run ends with these violations under the extended release."""
    return ends(violations, *parts, **changes)._replace(releases=(EXTENDED,))


def cycle(violations: str, *parts: Json, **changes: object) -> Worked:
    """The same, where a cycle is up to three pairs seen twice."""
    return extended(violations, *parts, max_cycle_length=3, cycle_repeats=2, **changes)


REPEATED, IDLE = "max_consecutive_repeated_actions", "max_consecutive_no_progress"
ZERO_BOUNDS = ("max_model_calls", "max_repairs", "max_cost_microunits")
NOTHING = {REPEATED: 2, IDLE: 2, "max_steps": 1} | dict.fromkeys(ZERO_BOUNDS, 0)
EVERYTHING = {**REPAIR, **TOKENS, **SAME, **LATE, "outcome": "indeterminate"} | {
    "action_kind": "repair",
    "repairs_delta": 1,
    "cost_microunits_delta": 1,
}
WORKED = {
    "completed": completes("", GENERATE, CALL, finish()),
    "no steps at all": ends("input_exhausted"),
    "the last permitted call": ends("input_exhausted", GENERATE, max_model_calls=1),
    "the deadline is reached exactly": ends("deadline_exceeded", CHECK | LATE),
    "the deadline hides completion": ends("deadline_exceeded", finish() | LATE),
    "steps": ends("step_budget_exhausted", GENERATE, CALL, max_steps=1),
    "model calls": ends("model_budget_exhausted", GENERATE, max_model_calls=0),
    "tool calls": ends("tool_budget_exhausted", CALL, max_tool_calls=0),
    "repairs": ends("repair_budget_exhausted", REPAIR, max_repairs=0),
    "cost": ends(
        "cost_budget_exhausted", CHECK | {"cost_microunits_delta": 5}, max_cost_microunits=4
    ),
    "a model repair is over two budgets": ends(
        "model_budget_exhausted repair_budget_exhausted",
        REPAIR | {"model_calls_delta": 1},
        max_model_calls=0,
        max_repairs=0,
    ),
    "everything on one step": ends(
        "deadline_exceeded step_budget_exhausted indeterminate_effect invalid_completion "
        "repeated_action no_progress",
        CHECK | SAME,
        finish(outcome="indeterminate") | SAME | LATE,
        max_steps=1,
        **{REPEATED: 2, IDLE: 1},
    ),
    "a model repair over all its bounds": ends(
        "deadline_exceeded step_budget_exhausted model_budget_exhausted repair_budget_exhausted "
        "cost_budget_exhausted indeterminate_effect repeated_action no_progress",
        *(STILL | SAME, EVERYTHING),
        **NOTHING,
    ),
    "a model repair over all its extended bounds": extended(
        "deadline_exceeded step_budget_exhausted model_budget_exhausted repair_budget_exhausted "
        "cost_budget_exhausted input_token_budget_exhausted output_token_budget_exhausted "
        "evidence_budget_exhausted indeterminate_effect repeated_action no_progress",
        *(STILL | SAME, EVERYTHING),
        **NOTHING,
        max_input_tokens=0,
        max_output_tokens=0,
        max_evidence_receipts=0,
    ),
    "one action, two states in turn": cycle(
        "repeated_action nonproductive_cycle",
        *[STILL | PAIR | {"state_after_sha256": d(n % 2)} for n in range(4)],
        **{REPEATED: 4},
    ),
    "an unknown effect": ends("indeterminate_effect", CALL | {"outcome": "indeterminate"}),
    "a stale proof": ends("invalid_completion", step("verification", 900), finish(900)),
    "a finish without proof": ends("invalid_completion", step("finish", 9)),
    "a failed finish": ends("invalid_completion", finish(outcome="failed")),
    "completed with lower rules": completes(
        "repeated_action no_progress",
        STILL | SAME,
        finish(state_after_sha256=d(1)) | SAME,
        **{REPEATED: 2, IDLE: 2},
    ),
    "repetition wins over idleness": ends(
        "repeated_action no_progress", STILL | SAME, STILL | SAME, **{REPEATED: 2, IDLE: 2}
    ),
    "reused evidence is no progress": ends("no_progress", CHECK, CHECK, CHECK, **{IDLE: 2}),
    "evidence of a failed step is seen": ends(
        "no_progress", CHECK | {"outcome": "failed"}, CHECK, **{IDLE: 2}
    ),
    "progress resets idleness": ends("input_exhausted", STILL, CHECK, STILL, **{IDLE: 2}),
    "a wait hides no repetition": extended(
        "repeated_action", CALL | SAME, WAIT, CHECK | SAME, **{REPEATED: 2}
    ),
    "waits are neither idle nor repeated": extended(
        "input_exhausted", WAIT | SAME, WAIT | SAME, CALL | SAME, **{REPEATED: 2, IDLE: 1}
    ),
    "evidence of a wait is seen": extended("no_progress", step("wait", 1), CHECK, **{IDLE: 1}),
    "waits spend tool calls": extended("tool_budget_exhausted", WAIT, WAIT, max_tool_calls=1),
    "input and output tokens": extended(
        "input_token_budget_exhausted output_token_budget_exhausted",
        TOKENS,
        max_input_tokens=6,
        max_output_tokens=7,
    ),
    "output tokens": extended(
        "output_token_budget_exhausted", TOKENS, max_input_tokens=7, max_output_tokens=7
    ),
    "evidence counts once": extended(
        "evidence_budget_exhausted", CHECK, CHECK, CALL, max_evidence_receipts=1
    ),
    "a cycle of two despite fresh evidence and a wait": cycle(
        "nonproductive_cycle",
        *(step("tool_call", 1) | PAIR, step("tool_call", 2) | OTHER, step("wait", 3)),
        *(step("tool_call", 4) | PAIR, step("tool_call", 5) | OTHER),
    ),
    "equal pairs are no cycle": cycle(
        "input_exhausted", *[step("tool_call", number) | PAIR for number in range(1, 7)]
    ),
    "a cycle of three with a repeated middle": cycle(
        "nonproductive_cycle no_progress",
        *[STILL | pair for pair in (PAIR, OTHER, OTHER, PAIR, OTHER, OTHER)],
        **{IDLE: 6},
    ),
    "three pairs are too few": cycle("input_exhausted", CHECK | PAIR, CHECK | OTHER, CHECK | PAIR),
    "a cycle longer than the bound": cycle(
        "input_exhausted", *[STILL | {"action_sha256": d(n % 4)} for n in range(8)]
    ),
}
CASES = [(name, release) for name, case in WORKED.items() for release in case.releases]


@pytest.mark.parametrize(("name", "release"), CASES)
def test_a_worked_run_ends_as_computed_by_hand(name: str, release: str) -> None:
    case = WORKED[name]
    receipt = receipt_of(evaluate(policy(release, **case.changes), run(*case.parts)))
    assert receipt["terminal"] == case.terminal
    assert receipt["violations"] == case.violations
    is_open = case.terminal == "input_exhausted"
    assert receipt["terminal_sequence"] == (None if is_open else len(case.parts))
    proof = d(900) if case.terminal == "completed" else None
    assert receipt["completion_receipt_sha256"] == proof


def test_every_terminal_of_every_release_has_a_worked_run() -> None:
    for release in BOTH:
        reached = {case.terminal for case in WORKED.values() if release in case.releases}
        assert reached == set(precedence(release))


def test_the_receipt_of_a_completed_run_has_every_field_as_computed_by_hand() -> None:
    rules = policy(max_steps=3)
    steps = run(TOKENS, step("tool_call", 11, cost_microunits_delta=5), finish())
    receipt = receipt_of(evaluate(rules, steps))
    own_digest = receipt.pop("receipt_sha256")
    assert receipt == {
        "schema": "loopcore/receipt/1",
        "evaluator_release": REFERENCE,
        "policy_sha256": hashlib.sha256(rfc8785.dumps(rules)).hexdigest(),  # type: ignore[arg-type]
        "steps_sha256": hashlib.sha256(rfc8785.dumps(steps)).hexdigest(),  # type: ignore[arg-type]
        "terminal": "completed",
        "terminal_sequence": 3,
        "violations": [],
        "usage": {
            "steps": 3,
            "model_calls": 1,
            "tool_calls": 1,
            "repairs": 0,
            "cost_microunits": 5,
            "input_tokens": 7,
            "output_tokens": 8,
            "evidence_receipts": 2,
        },
        "verified_progress_steps": 2,
        "final_state_sha256": d(3),
        "completion_receipt_sha256": d(900),
        "started_at_unix_ms": START,
        "ended_at_unix_ms": START + 3,
    }
    assert own_digest == hashlib.sha256(rfc8785.dumps(receipt)).hexdigest()  # type: ignore[arg-type]


HALF = step("model_generation", 1, input_tokens_delta=2**52)
STEP_ERRORS: dict[str, tuple[list[Json], int]] = {
    "sequence_gap": ([GENERATE, CALL | {"sequence": 3, "completed_at_unix_ms": 1}], 1),
    "time_regression": ([GENERATE | {"completed_at_unix_ms": START - 1}], 0),
    "state_chain_broken": ([GENERATE, CALL | {"state_before_sha256": d(77)}], 1),
    "duplicate_evidence": (
        [step("wait", new_evidence_receipt_sha256=[d(1), d(2), d(1)])],
        0,
    ),
    "unsupported_kind": ([GENERATE, step("wait", tool_calls_delta=0)], 1),
    "usage_mismatch": ([step("tool_call", input_tokens_delta=1)], 0),
    "unexpected_completion_receipt": ([CALL | {"completion_receipt_sha256": d(12)}], 0),
    "usage_overflow": ([HALF, HALF | {"input_tokens_delta": 2**52 - 1}, HALF], 2),
}


@pytest.mark.parametrize("code", STEP_ERRORS)
def test_a_step_that_breaks_a_rule_is_named_with_its_code(code: str) -> None:
    parts, index = STEP_ERRORS[code]
    assert error_of(evaluate(policy(), run(*parts))) == at(code, index)


def test_a_total_of_two_to_the_53_less_one_does_not_overflow() -> None:
    fitting = run(HALF, HALF | {"input_tokens_delta": 2**52 - 1})
    assert receipt_of(evaluate(policy(), fitting))["terminal"] == "input_exhausted"
    over = run(HALF, HALF)
    assert error_of(evaluate(policy(), over)) == at("usage_overflow", 1)


def test_a_wait_with_fresh_evidence_is_no_verified_progress() -> None:
    receipt = receipt_of(evaluate(policy(EXTENDED), run(step("wait", 1), step("tool_call", 2))))
    assert receipt["verified_progress_steps"] == 1


def test_a_step_after_a_terminal_keeps_the_verdict() -> None:
    steps = run(GENERATE, step("finish", 9), CALL | {"sequence": 9}, CALL)
    lost = {"terminal": "invalid_completion", "terminal_sequence": 2}
    assert error_of(evaluate(policy(), steps)) == at("post_terminal_step", 2) | lost


def test_step_checks_are_made_in_the_order_of_their_table() -> None:
    """One step breaks every rule at once; its faults are mended one by one, first to last."""
    bad: Json = {
        "sequence": 5,
        "completed_at_unix_ms": 0,
        "state_before_sha256": d(99),
        "new_evidence_receipt_sha256": [d(1), d(1)],
        "tool_calls_delta": 0,
        "completion_receipt_sha256": d(1),
    }
    mend: list[tuple[str, Json]] = [
        ("sequence_gap", {"sequence": 1}),
        ("time_regression", {"completed_at_unix_ms": START}),
        ("state_chain_broken", {"state_before_sha256": d(0)}),
        ("duplicate_evidence", {"new_evidence_receipt_sha256": [d(1)]}),
        ("unsupported_kind", {"action_kind": "tool_call"}),
        ("usage_mismatch", {"tool_calls_delta": 1}),
        ("unexpected_completion_receipt", {"completion_receipt_sha256": None}),
    ]
    wrong = run(step("wait") | bad)[0]
    for code, cure in mend:
        assert error_of(evaluate(policy(), [wrong])) == at(code, 0)
        wrong = wrong | cure
    assert receipt_of(evaluate(policy(), [wrong]))["terminal"] == "input_exhausted"


def test_a_receipt_verifies_until_a_field_is_changed() -> None:
    rules, steps = policy(), run(GENERATE, finish())
    receipt = receipt_of(evaluate(rules, steps))
    assert verify_receipt(rules, steps, receipt) == []
    changed = receipt | {"terminal": "no_progress", "verified_progress_steps": 7}
    assert verify_receipt(rules, steps, changed) == ["terminal", "verified_progress_steps"]
    other = policy(policy_id="other")
    assert verify_receipt(other, steps, receipt) == ["policy_sha256", "receipt_sha256"]
    with pytest.raises(ValueError, match="malformed"):
        verify_receipt(rules, steps, receipt | {"terminal_sequence": True})
