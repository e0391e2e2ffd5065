"""The JavaScript target answers by the specification page: every terminal, every step code.

The oracle is arithmetic done by hand: each case below is a short trace whose answer a reader can
work out from the page. Digests are recomputed here with `hashlib` over sorted JSON. Agreement with
the Python evaluator on thousands of traces is another file's claim.

The cases need `node`; without it this module collects nothing, and the project's own run requires
it. A table of cases is one process, asked one request after the other.
Source: spec evaluator, sections 1 to 5 and 7.
"""

import hashlib
import json
import shutil
import subprocess
from collections.abc import Iterable
from pathlib import Path

import msgspec

NODE = shutil.which("node")
__test__ = NODE is not None

TARGETS = Path(__file__).resolve().parents[1] / "loop" / "targets"
RIGHT, WRONG = TARGETS / "evaluator.mjs", TARGETS / "wrong_evaluator.mjs"
SECONDS_MAX = 30
INTEGER_MAX = 2**53 - 1
REFERENCE, EXTENDED = "loopcore-reference/1", "loopcore-extended/1"
DELTAS_OF_KIND = {
    "model_generation": (1, 0, 0),
    "tool_call": (0, 1, 0),
    "verification": (0, 0, 0),
    "repair": (0, 0, 1),
    "finish": (0, 0, 0),
    "wait": (0, 1, 0),
}

Json = dict[str, object]


def named(text: str) -> str:
    """A digest that stands for `text`."""
    return hashlib.sha256(text.encode()).hexdigest()


def canonical_digest(value: object) -> str:
    """The digest of a value whose keys are ASCII and whose numbers are integers (RFC 8785)."""
    text = json.dumps(value, sort_keys=True, separators=(",", ":"), ensure_ascii=False)
    return named(text)


def policy(**changes: object) -> Json:
    """A reference policy that none of the short traces below exceeds, with `changes`."""
    return {
        "schema": "loopcore/policy/1",
        "policy_id": "by hand",
        "evaluator_release": REFERENCE,
        "run_envelope_sha256": named("envelope"),
        "behavior_spec_sha256": named("behaviour"),
        "initial_state_sha256": named("s0"),
        "started_at_unix_ms": 1000,
        "deadline_unix_ms": 9000,
        "max_steps": 10,
        "max_model_calls": 10,
        "max_tool_calls": 10,
        "max_repairs": 10,
        "max_cost_microunits": 100,
        "max_consecutive_no_progress": 10,
        "max_consecutive_repeated_actions": 10,
        "max_input_tokens": None,
        "max_output_tokens": None,
        "max_evidence_receipts": None,
        "max_cycle_length": None,
        "cycle_repeats": None,
    } | changes


def extended(**changes: object) -> Json:
    """The policy above under the extended release."""
    return policy(evaluator_release=EXTENDED, **changes)


def step(number: int, kind: str = "verification", **changes: object) -> Json:
    """Step `number`: it succeeds, takes state n-1 to n and shows one new receipt e<n>.

    Two short names stand for fields of digests: `action` and `evidence`, given as plain words.
    """
    model, tool, repairs = DELTAS_OF_KIND[kind]
    words = str(changes.pop("evidence", f"e{number}")).split()
    return {
        "sequence": number,
        "action_kind": kind,
        "action_sha256": named(str(changes.pop("action", f"a{number}"))),
        "state_before_sha256": named(f"s{number - 1}"),
        "state_after_sha256": named(f"s{number}"),
        "new_evidence_receipt_sha256": [named(word) for word in words],
        "outcome": "succeeded",
        "completed_at_unix_ms": 1000 + number,
        "model_calls_delta": model,
        "tool_calls_delta": tool,
        "repairs_delta": repairs,
        "cost_microunits_delta": 0,
        "input_tokens_delta": 0,
        "output_tokens_delta": 0,
        "completion_receipt_sha256": None,
    } | changes


def finish(number: int, proof: str | None = None, **changes: object) -> Json:
    """A finish that names the receipt `proof`, by default the one that it shows."""
    return step(number, "finish", completion_receipt_sha256=named(proof or f"e{number}"), **changes)


def without(value: Json, *fields: str) -> Json:
    """`value` without some fields."""
    return {key: content for key, content in value.items() if key not in fields}


def ask(data: bytes, script: Path = RIGHT) -> list[Json]:
    """The answers of one process to `data`; the process has ended silently with status 0."""
    command = [str(NODE), str(script)]
    done = subprocess.run(
        command, input=data, capture_output=True, timeout=SECONDS_MAX, check=False
    )
    assert (done.returncode, done.stderr) == (0, b"")
    return [msgspec.json.decode(line, type=Json) for line in done.stdout.splitlines()]


def evaluate_all(traces: Iterable[tuple[object, object]], script: Path = RIGHT) -> list[Json]:
    """The answers to evaluate requests for (policy, steps), in order and without their ids."""
    requests = [
        {"id": index, "op": "evaluate", "policy": rules, "steps": steps}
        for index, (rules, steps) in enumerate(traces)
    ]
    answers = ask(b"".join(json.dumps(each).encode() + b"\n" for each in requests), script)
    assert [answer.pop("id") for answer in answers] == list(range(len(requests)))
    return answers


def part(answer: Json, field: str) -> Json:
    """The object under `field`, which is the only field of the answer."""
    assert list(answer) == [field]
    return msgspec.convert(answer[field], Json)


def error_of(answer: Json) -> Json:
    """The error of an answer, without its message, which is some text for people."""
    error = part(answer, "error")
    assert msgspec.convert(error["message"], str)
    return without(error, "message")


def receipt_of(rules: Json, steps: list[Json], script: Path = RIGHT) -> Json:
    """The receipt of one trace."""
    (answer,) = evaluate_all([(rules, steps)], script)
    return part(answer, "receipt")


def test_a_completed_run_has_the_receipt_computed_by_hand() -> None:
    rules = policy(policy_id='é\u2028\U0001f600"\\\n\x7f')
    tokens = {"input_tokens_delta": 70, "output_tokens_delta": 30}
    steps = [
        step(1, "model_generation", cost_microunits_delta=5, **tokens),
        step(2, "tool_call", cost_microunits_delta=4),
        step(3, outcome="failed"),
        finish(4, evidence="e4 e3"),
    ]
    expected: Json = {
        "schema": "loopcore/receipt/1",
        "evaluator_release": REFERENCE,
        "policy_sha256": canonical_digest(rules),
        "steps_sha256": canonical_digest(steps),
        "terminal": "completed",
        "terminal_sequence": 4,
        "violations": [],
        "usage": {
            "steps": 4,
            "model_calls": 1,
            "tool_calls": 1,
            "repairs": 0,
            "cost_microunits": 9,
            "input_tokens": 70,
            "output_tokens": 30,
            "evidence_receipts": 4,
        },
        "verified_progress_steps": 3,
        "final_state_sha256": named("s4"),
        "completion_receipt_sha256": named("e4"),
        "started_at_unix_ms": 1000,
        "ended_at_unix_ms": 1004,
    }
    receipt = receipt_of(rules, steps)
    assert receipt == expected | {"receipt_sha256": canonical_digest(expected)}


def test_an_empty_run_ends_where_it_began() -> None:
    receipt = receipt_of(policy(), [])
    assert receipt["terminal_sequence"] is None
    assert receipt["violations"] == ["input_exhausted"]
    assert receipt["final_state_sha256"] == named("s0")
    assert receipt["ended_at_unix_ms"] == 1000
    assert receipt["steps_sha256"] == named("[]")


S0, S1 = named("s0"), named("s1")
GENERATION = step(1, "model_generation", input_tokens_delta=3, output_tokens_delta=3)
OLD_EVIDENCE = [step(1), step(2, evidence="e1")]
WAITED_PROOF = [step(1, "wait"), finish(2, "e1", evidence="e1")]
REPEATED = [step(1), step(2, action="a1")]
AROUND_WAIT = [step(1), step(2, "wait"), step(3, action="a1")]
IDLE_WAIT = step(1, "wait", outcome="failed")
LOOPS = {"max_cycle_length": 2, "cycle_repeats": 2}
ABAB = [
    step(1, action="a"),
    step(2, action="b", state_after_sha256=S0),
    step(3, action="a", state_before_sha256=S0, state_after_sha256=S1),
    step(4, action="b", state_before_sha256=S1, state_after_sha256=S0),
]
LATE_ABAB = [step(1, state_after_sha256=S0)] + [
    each | {"sequence": number} for number, each in enumerate(ABAB, start=2)
]
STILL = {"action": "a", "state_before_sha256": S0, "state_after_sha256": S0}
AAAA = [step(number, **STILL) for number in range(1, 5)]

# What is tested, the policy, the steps, and the terminal, which fires alone at the last step.
ALONE: list[tuple[str, Json, list[Json], str]] = [
    ("equality", policy(deadline_unix_ms=1001), [step(1)], "deadline_exceeded"),
    ("before completion", policy(deadline_unix_ms=1001), [finish(1)], "deadline_exceeded"),
    ("steps", policy(max_steps=1), [step(1), step(2)], "step_budget_exhausted"),
    ("last step", policy(max_steps=1), [step(1)], "input_exhausted"),
    ("model", policy(max_model_calls=0), [GENERATION], "model_budget_exhausted"),
    ("tool", policy(max_tool_calls=0), [step(1, "tool_call")], "tool_budget_exhausted"),
    ("wait", extended(max_tool_calls=0), [step(1, "wait")], "tool_budget_exhausted"),
    ("repair", policy(max_repairs=0), [step(1, "repair")], "repair_budget_exhausted"),
    ("cost", policy(), [step(1, cost_microunits_delta=101)], "cost_budget_exhausted"),
    ("last cost", policy(), [step(1, cost_microunits_delta=100)], "input_exhausted"),
    ("input", extended(max_input_tokens=2), [GENERATION], "input_token_budget_exhausted"),
    ("output", extended(max_output_tokens=2), [GENERATION], "output_token_budget_exhausted"),
    ("last token", extended(max_output_tokens=3), [GENERATION], "input_exhausted"),
    ("evidence", extended(max_evidence_receipts=0), [step(1)], "evidence_budget_exhausted"),
    ("counted once", extended(max_evidence_receipts=1), OLD_EVIDENCE, "input_exhausted"),
    ("effect", policy(), [step(1, outcome="indeterminate")], "indeterminate_effect"),
    ("proof", policy(), [finish(1)], "completed"),
    ("no proof", policy(), [finish(1) | {"completion_receipt_sha256": None}], "invalid_completion"),
    ("unshown proof", policy(), [step(1), finish(2, proof="e9")], "invalid_completion"),
    ("failed finish", policy(), [finish(1, outcome="failed")], "invalid_completion"),
    ("old proof", policy(), [step(1), finish(2, "e1", evidence="e1")], "invalid_completion"),
    ("waited proof", extended(), WAITED_PROOF, "invalid_completion"),
    ("repeated", policy(max_consecutive_repeated_actions=2), REPEATED, "repeated_action"),
    ("around wait", extended(max_consecutive_repeated_actions=2), AROUND_WAIT, "repeated_action"),
    ("one more", policy(max_consecutive_repeated_actions=3), REPEATED, "input_exhausted"),
    ("idle wait", extended(max_consecutive_no_progress=1), [IDLE_WAIT], "input_exhausted"),
    ("old evidence", policy(max_consecutive_no_progress=1), OLD_EVIDENCE, "no_progress"),
    ("cycle", extended(**LOOPS), ABAB, "nonproductive_cycle"),
    ("late cycle", extended(**LOOPS), LATE_ABAB, "nonproductive_cycle"),
    ("no period", extended(**LOOPS), [step(n) for n in range(1, 6)], "input_exhausted"),
    ("cycle too short", extended(**LOOPS), ABAB[:3], "input_exhausted"),
    ("equal pairs", extended(**LOOPS), AAAA, "input_exhausted"),
]

BOUNDS = ("max_model_calls", "max_repairs", "max_input_tokens", "max_output_tokens")
NOTHING_ALLOWED = extended(
    max_steps=1,
    max_evidence_receipts=0,
    max_consecutive_no_progress=2,
    max_consecutive_repeated_actions=2,
    **dict.fromkeys(BOUNDS, 0),
)
EVERYTHING = [
    step(1, outcome="failed", action="a", evidence=""),
    step(2, "repair", outcome="indeterminate", action="a")
    | {"completed_at_unix_ms": 9000, "model_calls_delta": 1, "cost_microunits_delta": 101}
    | {"input_tokens_delta": 1, "output_tokens_delta": 1},
]
EVERYTHING_FIRED = [
    "deadline_exceeded",
    "step_budget_exhausted",
    "model_budget_exhausted",
    "repair_budget_exhausted",
    "cost_budget_exhausted",
    "input_token_budget_exhausted",
    "output_token_budget_exhausted",
    "evidence_budget_exhausted",
    "indeterminate_effect",
    "repeated_action",
    "no_progress",
]

# The same with several rules at the last step, the first of which is the terminal.
TOGETHER: list[tuple[str, Json, list[Json], list[str]]] = [
    ("everything", NOTHING_ALLOWED, EVERYTHING, EVERYTHING_FIRED),
    (
        "indeterminate finish",
        policy(),
        [finish(1, outcome="indeterminate")],
        ["indeterminate_effect", "invalid_completion"],
    ),
    (
        "completed hides no lower rule",
        policy(max_consecutive_no_progress=1),
        [finish(1, state_after_sha256=S0)],
        ["completed", "no_progress"],
    ),
    (
        "cycle before no progress",
        extended(max_consecutive_no_progress=4, **LOOPS),
        [each | {"outcome": "failed"} for each in ABAB],
        ["nonproductive_cycle", "no_progress"],
    ),
]
VERDICTS = [(name, rules, steps, [end]) for name, rules, steps, end in ALONE] + TOGETHER


def test_runs_end_as_computed_by_hand() -> None:
    answers = evaluate_all((rules, steps) for _, rules, steps, _ in VERDICTS)
    found: Json = {}
    expected: Json = {}
    for (name, _, steps, fired), answer in zip(VERDICTS, answers, strict=True):
        receipt = part(answer, "receipt")
        violations = [rule for rule in fired if rule != "completed"]
        sequence = None if fired == ["input_exhausted"] else len(steps)
        found[name] = (receipt["terminal"], receipt["terminal_sequence"], receipt["violations"])
        expected[name] = (fired[0], sequence, violations)
    assert found == expected
    assert len(found) == len(VERDICTS)


def test_the_hand_computed_verdicts_cover_every_terminal() -> None:
    others = {"tool_budget_exhausted", "completed", "invalid_completion", "nonproductive_cycle"}
    expected = {*EVERYTHING_FIRED, *others, "input_exhausted"}
    assert {fired[0] for *_, fired in VERDICTS} == expected


E1 = named("e1")
FULL: Json = {"cost_microunits_delta": INTEGER_MAX}
RICH = policy(max_cost_microunits=INTEGER_MAX)
# The code, the policy, the steps, the last of which is at fault (often in a later row as well).
STEP_ERRORS: list[tuple[str, Json, list[Json]]] = [
    ("sequence_gap", policy(), [step(1), step(2, sequence=3, completed_at_unix_ms=0)]),
    ("sequence_gap", policy(), [step(0)]),
    ("time_regression", policy(), [step(1, completed_at_unix_ms=999, state_before_sha256=S1)]),
    ("time_regression", policy(), [step(1), step(2, completed_at_unix_ms=1000)]),
    ("state_chain_broken", policy(), [step(1, state_before_sha256=S1, evidence="e1 e1")]),
    ("state_chain_broken", policy(), [step(1), step(2, state_before_sha256=S0)]),
    ("duplicate_evidence", policy(), [step(1, "wait", evidence="e1 e1")]),
    ("unsupported_kind", policy(), [step(1, "wait", tool_calls_delta=0)]),
    ("usage_mismatch", policy(), [step(1, tool_calls_delta=1, completion_receipt_sha256=E1)]),
    ("usage_mismatch", policy(), [step(1, "repair", input_tokens_delta=1)]),
    ("usage_mismatch", policy(), [step(1, "repair", model_calls_delta=2)]),
    ("usage_mismatch", extended(), [step(1, "wait", tool_calls_delta=0)]),
    (
        "unexpected_completion_receipt",
        RICH,
        [step(1) | FULL, step(2, completion_receipt_sha256=E1) | FULL],
    ),
    ("usage_overflow", RICH, [step(1) | FULL, step(2, cost_microunits_delta=1)]),
    ("post_terminal_step", policy(), [step(1), finish(2), step(9, completed_at_unix_ms=0)]),
]


def test_steps_that_are_not_well_formed_are_refused_with_their_index() -> None:
    verdict: Json = {"terminal": "completed", "terminal_sequence": 2}
    answers = evaluate_all((rules, steps) for _, rules, steps in STEP_ERRORS)
    assert [error_of(answer) for answer in answers] == [
        {"code": code, "path": None, "step": len(steps) - 1}
        | (verdict if code == "post_terminal_step" else {})
        for code, _, steps in STEP_ERRORS
    ]


def test_a_total_may_reach_the_largest_integer() -> None:
    steps = [step(1, cost_microunits_delta=INTEGER_MAX - 1), step(2, cost_microunits_delta=1)]
    assert receipt_of(RICH, steps)["terminal"] == "input_exhausted"


INVALID: list[tuple[Json, str]] = [
    (policy(deadline_unix_ms=1000, max_input_tokens=1), "$.policy.deadline_unix_ms"),
    (policy(max_cycle_length=2, max_output_tokens=1), "$.policy.max_output_tokens"),
    (policy(cycle_repeats=2), "$.policy.cycle_repeats"),
    (extended(cycle_repeats=2), "$.policy.cycle_repeats"),
    (extended(max_cycle_length=2), "$.policy.cycle_repeats"),
]


def test_policies_that_contradict_themselves_are_invalid_before_any_step() -> None:
    answers = evaluate_all((rules, [step(9)]) for rules, _ in INVALID)
    assert [error_of(answer) for answer in answers] == [
        {"code": "invalid_policy", "path": path, "step": None} for _, path in INVALID
    ]


def test_the_wrong_target_differs_from_the_right_one_on_reused_evidence_only() -> None:
    rules = policy(max_consecutive_no_progress=1)
    fresh = [step(1), finish(2)]
    assert receipt_of(rules, fresh, WRONG) == receipt_of(rules, fresh, RIGHT)
    right = receipt_of(rules, OLD_EVIDENCE, RIGHT)
    wrong = receipt_of(rules, OLD_EVIDENCE, WRONG)
    assert (right["terminal"], right["verified_progress_steps"]) == ("no_progress", 1)
    assert (wrong["terminal"], wrong["verified_progress_steps"]) == ("input_exhausted", 2)
