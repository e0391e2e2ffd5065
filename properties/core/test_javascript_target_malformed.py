"""The JavaScript target names the first malformed value of a request by its exact path.

Each case is a good request with one or a few values spoilt, beside the path worked out by hand.
Several values are spoilt where the order of defects is what is tested. Without `node` this module
collects nothing, and the project's own run requires it.
Source: spec evaluator, sections 1, 2 and 7.
"""

import json
import shutil
import subprocess
from pathlib import Path

import msgspec

NODE = shutil.which("node")
__test__ = NODE is not None

TARGET = Path(__file__).resolve().parents[1] / "loop" / "targets" / "evaluator.mjs"
SECONDS_MAX = 30
INTEGER_MAX = 2**53 - 1
E1, S0, S1 = "e1" * 32, "50" * 32, "51" * 32

Json = dict[str, object]


def policy(**changes: object) -> Json:
    """A good reference policy with `changes`."""
    return {
        "schema": "loopcore/policy/1",
        "policy_id": "by hand",
        "evaluator_release": "loopcore-reference/1",
        "run_envelope_sha256": "a" * 64,
        "behavior_spec_sha256": "b" * 64,
        "initial_state_sha256": S0,
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


def finish(**changes: object) -> Json:
    """A first step that completes the run, with `changes`."""
    return {
        "sequence": 1,
        "action_kind": "finish",
        "action_sha256": "f" * 64,
        "state_before_sha256": S0,
        "state_after_sha256": S1,
        "new_evidence_receipt_sha256": [E1],
        "outcome": "succeeded",
        "completed_at_unix_ms": 1001,
        "model_calls_delta": 0,
        "tool_calls_delta": 0,
        "repairs_delta": 0,
        "cost_microunits_delta": 0,
        "input_tokens_delta": 0,
        "output_tokens_delta": 0,
        "completion_receipt_sha256": E1,
    } | changes


def without(value: Json, *fields: str) -> Json:
    """`value` without some fields."""
    return {key: content for key, content in value.items() if key not in fields}


def answers(traces: list[tuple[object, object]]) -> list[Json]:
    """The answers of one process to evaluate requests for (policy, steps), in order."""
    requests = [
        {"id": index, "op": "evaluate", "policy": rules, "steps": steps}
        for index, (rules, steps) in enumerate(traces)
    ]
    data = b"".join(json.dumps(each).encode() + b"\n" for each in requests)
    done = subprocess.run(
        [str(NODE), str(TARGET)], input=data, capture_output=True, timeout=SECONDS_MAX, check=False
    )
    assert (done.returncode, done.stderr) == (0, b"")
    return [msgspec.json.decode(line, type=Json) for line in done.stdout.splitlines()]


def nested(levels: int) -> object:
    """An array that holds an array, `levels` deep."""
    value: list[object] = []
    for _ in range(levels - 1):
        value = [value]
    return value


GOOD = policy()
ODD_KEY, ODD_PATH = 'é\U0001f600"\n\x7f', '["\\u00e9\\ud83d\\ude00\\"\\n\x7f"]'
# The policy and the path of its first defect, relative to the policy.
MALFORMED_POLICIES: list[tuple[object, str]] = [
    (None, ""),
    ([], ""),
    (GOOD | {"zulu": 1, "alpha": 2}, ".zulu"),
    (without(GOOD, "schema") | {"extra": 1}, ".extra"),
    (GOOD | {"a b": 1}, '["a b"]'),
    (GOOD | {ODD_KEY: 1}, ODD_PATH),
    (GOOD | {"": 1}, '[""]'),
    (GOOD | {"__proto__": 1}, ".__proto__"),
    (GOOD | {"constructor": 1}, ".constructor"),
    (without(policy(schema=1), "cycle_repeats", "max_steps"), ".max_steps"),
    (policy(schema="loopcore/policy/2"), ".schema"),
    (policy(policy_id=""), ".policy_id"),
    (policy(policy_id="\U0001f600" * 129), ".policy_id"),
    (policy(policy_id="\ud800"), ".policy_id"),
    (policy(evaluator_release="loopcore-reference/2"), ".evaluator_release"),
    (policy(run_envelope_sha256="A" * 64), ".run_envelope_sha256"),
    (policy(run_envelope_sha256="a" * 64 + "\n"), ".run_envelope_sha256"),
    (policy(started_at_unix_ms=-1), ".started_at_unix_ms"),
    (policy(deadline_unix_ms=INTEGER_MAX + 1), ".deadline_unix_ms"),
    (policy(deadline_unix_ms=0, max_steps=0), ".max_steps"),
    (policy(max_steps=True), ".max_steps"),
    (policy(max_steps="1"), ".max_steps"),
    (policy(max_steps=1.5), ".max_steps"),
    (policy(max_repairs=None), ".max_repairs"),
    (policy(max_consecutive_no_progress=0), ".max_consecutive_no_progress"),
    (policy(max_consecutive_repeated_actions=1), ".max_consecutive_repeated_actions"),
    (policy(max_input_tokens=False), ".max_input_tokens"),
    (
        policy(evaluator_release="loopcore-extended/1", max_cycle_length=17, cycle_repeats=2),
        ".max_cycle_length",
    ),
    (
        policy(evaluator_release="loopcore-extended/1", max_cycle_length=2, cycle_repeats=9),
        ".cycle_repeats",
    ),
    (policy(policy_id=nested(14)), ".policy_id"),
]
EVIDENCE = "new_evidence_receipt_sha256"
# The policy, the steps, the path of the first defect of the request.
MALFORMED_TRACES: list[tuple[object, object, str]] = [
    (GOOD, {}, "$.steps"),
    (GOOD, [finish(), 5], "$.steps[1]"),
    (GOOD, [finish() | {"extra": 1}], "$.steps[0].extra"),
    (GOOD, [without(finish(), "outcome")], "$.steps[0].outcome"),
    (GOOD, [finish(), finish() | {"action_kind": "nap"}], "$.steps[1].action_kind"),
    (GOOD, [finish(outcome="ok", sequence=1.5)], "$.steps[0].sequence"),
    (GOOD, [finish() | {EVIDENCE: [E1] * 64 + [5]}], f"$.steps[0].{EVIDENCE}"),
    (GOOD, [finish() | {EVIDENCE: [E1, 5]}], f"$.steps[0].{EVIDENCE}[1]"),
    (GOOD, [finish(completion_receipt_sha256="")], "$.steps[0].completion_receipt_sha256"),
    (policy(deadline_unix_ms=0), [finish(), finish(outcome=1)], "$.steps[1].outcome"),
    (policy(policy_id=nested(15)), [], "$"),
    (nested(500), 1, "$"),
    *((rules, [5], f"$.policy{path}") for rules, path in MALFORMED_POLICIES),
]


def test_the_first_malformed_value_is_named_by_its_path() -> None:
    found: list[object] = []
    for answer in answers([(rules, steps) for rules, steps, _ in MALFORMED_TRACES]):
        error = msgspec.convert(answer["error"], Json)
        assert msgspec.convert(error.pop("message"), str)
        found.append({"id": answer["id"], "error": error})
    assert found == [
        {"id": index, "error": {"code": "malformed", "path": path, "step": None}}
        for index, (*_, path) in enumerate(MALFORMED_TRACES)
    ]


def test_the_requests_are_good_until_they_are_spoilt() -> None:
    (answer,) = answers([(GOOD, [finish()])])
    assert msgspec.convert(answer["receipt"], Json)["terminal"] == "completed"


def test_limits_of_length_are_inclusive_and_count_code_points() -> None:
    receipts = [E1, *(f"{number:064x}" for number in range(63))]
    rules = policy(policy_id="\U0001f600" * 128)
    (answer,) = answers([(rules, [finish() | {EVIDENCE: receipts}])])
    assert msgspec.convert(answer["receipt"], Json)["terminal"] == "completed"
