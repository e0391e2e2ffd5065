"""Claim: the naive second model reads wire text strictly, and answers whatever the bytes are.

Paths and their order were worked out by hand from the page. The mutants that show the claim can
fail: letting the last of two keys win, reading `-0` as 0, testing values before fields, counting
a stream's lines from the header.
"""

import json

import pytest
import rfc8785
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from loopcore.testing.naive import evaluate, evaluate_bytes, evaluate_stream
from loopcore.testing.naive_wire import INTEGER_MAX, as_record, canonical, decode_document

Json = dict[str, object]

ZERO = "0" * 64
POLICY: Json = {
    "schema": "loopcore/policy/1",
    "policy_id": "p",
    "evaluator_release": "loopcore-extended/1",
    "run_envelope_sha256": ZERO,
    "behavior_spec_sha256": ZERO,
    "initial_state_sha256": ZERO,
    "started_at_unix_ms": 1,
    "deadline_unix_ms": 1_000,
    "max_steps": 100,
    "max_model_calls": 100,
    "max_tool_calls": 100,
    "max_repairs": 100,
    "max_cost_microunits": 100,
    "max_consecutive_no_progress": 50,
    "max_consecutive_repeated_actions": 50,
    "max_input_tokens": None,
    "max_output_tokens": None,
    "max_evidence_receipts": None,
    "max_cycle_length": None,
    "cycle_repeats": None,
}
STEP: Json = {
    "sequence": 1,
    "action_kind": "verification",
    "action_sha256": ZERO,
    "state_before_sha256": ZERO,
    "state_after_sha256": ZERO,
    "new_evidence_receipt_sha256": [ZERO],
    "outcome": "succeeded",
    "completed_at_unix_ms": 5,
    "model_calls_delta": 0,
    "tool_calls_delta": 0,
    "repairs_delta": 0,
    "cost_microunits_delta": 0,
    "input_tokens_delta": 0,
    "output_tokens_delta": 0,
    "completion_receipt_sha256": None,
}
HEADER = json.dumps({"schema": "loopcore/trace/1", "policy": POLICY})
LINE = json.dumps(STEP)
DOCUMENT = HEADER[:-1] + f', "steps": [{LINE}]}}'
TWO = json.dumps(STEP | {"sequence": 2})


def defect(answer: Json) -> object:
    """The path of a `malformed` answer, and the whole answer where it is anything else."""
    if "error" not in answer:
        return answer
    error = as_record(answer["error"])
    is_plain = error["code"] == "malformed" and error["step"] is None
    return error["path"] if is_plain else answer


# Each row: what is replaced in the document, by what, and the path of the first defect.
EDITS: list[tuple[str, str, str]] = [
    ('"sequence": 1', '"sequence": 1.0', "$.steps[0].sequence"),
    ('"sequence": 1', '"sequence": -0', "$.steps[0].sequence"),
    ('"sequence": 1', '"sequence": 1e2', "$.steps[0].sequence"),
    ('"sequence": 1', '"sequence": true', "$.steps[0].sequence"),
    ('"sequence": 1', '"sequence": "1"', "$.steps[0].sequence"),
    ('"sequence": 1', f'"sequence": {2**53}', "$.steps[0].sequence"),
    ('"sequence": 1', f'"sequence": {"9" * 5000}', "$.steps[0].sequence"),
    ('"sequence": 1', '"sequence": NaN', "$"),
    ('"sequence": 1', '"sequence": 01', "$"),
    ('"sequence": 1', '"sequence": 1.', "$"),
    ('"sequence": 1', '"sequence": +1', "$"),
    ('"sequence": 1, ', "", "$.steps[0].sequence"),
    ('"sequence": 1', '"sequence": 1, "sequence": 1', "$.steps[0].sequence"),
    ('"sequence": 1', '"sequence": 1, "s\\u0065quence": 1', "$.steps[0].sequence"),
    ('"sequence": 1', '"sequence": {"a": 1, "a": 2}', "$.steps[0].sequence"),
    ('"sequence": 1', '"zz": 0, "aa": 0', "$.steps[0].zz"),
    ('"sequence": 1', '"zz": 0, "outcome": "succeeded"', "$.steps[0].outcome"),
    ('"sequence": 1', '"sequence": 1, "é\\ud800": 0', '$.steps[0]["\\u00e9\\ud800"]'),
    ('"sequence": 1', '"sequence": 1, "a b": 0', '$.steps[0]["a b"]'),
    ('"sequence": 1', '"sequence": 1, "a\\n": 0', '$.steps[0]["a\\n"]'),
    ('"sequence": 1', '"sequence": 1, "": 0', '$.steps[0][""]'),
    ('"policy_id": "p"', '"policy_id": "\\ud800"', "$.policy.policy_id"),
    ('"policy_id": "p"', '"policy_id": "\\udc00\\ud800"', "$.policy.policy_id"),
    ('"policy_id": "p"', '"policy_id": ""', "$.policy.policy_id"),
    ('"policy_id": "p"', '"policy_id": "' + "p" * 129 + '"', "$.policy.policy_id"),
    ('"policy_id": "p"', '"policy_id": "\x1f"', "$"),
    ('"policy_id": "p"', '"policy_id": "\\x"', "$"),
    ('"policy_id": "p"', '"policy_id": "\\u12 4"', "$"),
    ('"max_steps": 100', '"max_steps": 0', "$.policy.max_steps"),
    ('"cycle_repeats": null', '"cycle_repeats": 9', "$.policy.cycle_repeats"),
    ('"max_steps": 100', '"max_steps": 0, "max_nothing": 1', "$.policy.max_nothing"),
    ("loopcore/trace/1", "loopcore/trace/2", "$.schema"),
    ("loopcore/policy/1", "loopcore/policy/2", "$.policy.schema"),
    ('"succeeded"', '"Succeeded"', "$.steps[0].outcome"),
    (f'"{ZERO}"]', f'"{ZERO[1:]}A"]', "$.steps[0].new_evidence_receipt_sha256[0]"),
    (f'"{ZERO}"]', f'"{ZERO}\\n"]', "$.steps[0].new_evidence_receipt_sha256[0]"),
    (f'["{ZERO}"]', "[" + "0," * 64 + "0]", "$.steps[0].new_evidence_receipt_sha256"),
    (f'["{ZERO}"]', "{}", "$.steps[0].new_evidence_receipt_sha256"),
    (f'["{ZERO}"]', "[" * 13 + "]" * 13, "$.steps[0].new_evidence_receipt_sha256[0]"),
    (f'["{ZERO}"]', "[" * 14 + "]" * 14, "$"),
    ('"steps": [', '"steps": [5, ', "$.steps[0]"),
    ("[{", "[{},{", "$.steps[0].sequence"),
    ("[{", "[,{", "$"),
    ("}]}", "}],}", "$"),
    ("}]}", "}]}}", "$"),
    ("}]}", "}]} \ufeff", "$"),
    ('{"schema"', '\ufeff{"schema"', "$"),
    ('{"schema"', '\u00a0{"schema"', "$"),
]


@pytest.mark.parametrize(("old", "new", "path"), EDITS)
def test_one_edit_of_a_good_document_is_reported_at_its_own_path(
    old: str, new: str, path: str
) -> None:
    assert old in DOCUMENT
    edited = DOCUMENT.replace(old, new, 1).encode()
    assert defect(evaluate_bytes(edited)) == path


def test_spelling_that_is_no_part_of_a_value_changes_nothing() -> None:
    plain = evaluate(POLICY, [STEP])
    assert "receipt" in plain
    spelt = DOCUMENT.replace('"sequence"', '"\\u0073equence"').replace(", ", " ,\r\n\t")
    assert evaluate_bytes(b" \t\r\n" + spelt.encode() + b"\n") == plain
    assert evaluate_bytes(DOCUMENT.replace('"steps"', '"steps" ').encode()) == plain


def test_a_surrogate_pair_is_one_character_and_128_characters_are_allowed() -> None:
    written = DOCUMENT.replace('"policy_id": "p"', '"policy_id": "' + "\\ud83d\\uDE00" * 128 + '"')
    policy, _ = decode_document(written.encode())
    assert policy["policy_id"] == "\U0001f600" * 128


def test_a_step_may_show_exactly_64_receipts() -> None:
    evidence = [f"{number:064x}" for number in range(65)]
    fitting = evaluate(POLICY, [STEP | {"new_evidence_receipt_sha256": evidence[1:]}])
    assert "receipt" in fitting
    over = evaluate(POLICY, [STEP | {"new_evidence_receipt_sha256": evidence}])
    assert defect(over) == "$.steps[0].new_evidence_receipt_sha256"


@pytest.mark.parametrize("character", [0x7F, 0xD7FF, 0xE000, 0xFFFF, 0x10000, 0x10FFFF])
def test_every_unicode_scalar_value_may_be_escaped_or_not(character: int) -> None:
    for escaped in (True, False):
        written = json.dumps(chr(character), ensure_ascii=escaped)
        document = DOCUMENT.replace('"policy_id": "p"', f'"policy_id": {written}').encode()
        assert decode_document(document)[0]["policy_id"] == chr(character)


REFERENCE: Json = {"evaluator_release": "loopcore-reference/1"}
RELATIONS: list[tuple[Json, str]] = [
    (REFERENCE | {"deadline_unix_ms": 1, "max_input_tokens": 1}, "deadline_unix_ms"),
    (REFERENCE | {"max_output_tokens": 0, "cycle_repeats": 2}, "max_output_tokens"),
    (REFERENCE | {"cycle_repeats": 2}, "cycle_repeats"),
    ({"cycle_repeats": 2}, "cycle_repeats"),
    ({"max_cycle_length": 2}, "cycle_repeats"),
]


@pytest.mark.parametrize(("changes", "field"), RELATIONS)
def test_a_relation_between_policy_fields_yields_to_malformed_only(
    changes: Json, field: str
) -> None:
    gap = STEP | {"sequence": 9}
    error = as_record(evaluate(POLICY | changes, [gap])["error"])
    assert (error["code"], error["path"]) == ("invalid_policy", f"$.policy.{field}")
    assert error["step"] is None
    spoilt = evaluate(POLICY | changes, [gap | {"outcome": "maybe"}])
    assert defect(spoilt) == "$.steps[0].outcome"


@pytest.mark.parametrize(
    "data",
    [
        *(b"", b" ", b"[" * 10_000_000, b'{"a":' * 100_000, DOCUMENT.encode("utf-16")),
        *(b'"', b'"\\', b"-", b"nul", b"\xff", b"\xed\xa0\x80", b'"\xc0\xaf"', b"{}\x00"),
    ],
)
def test_hostile_text_is_malformed_as_a_whole(data: bytes) -> None:
    assert defect(evaluate_bytes(data)) == "$"
    assert defect(evaluate_stream(data)) == "$"


STREAMS: list[tuple[str, list[str], str]] = [
    ("empty line", [HEADER, LINE, "", TWO], "$.steps[1]"),
    ("second final newline", [HEADER, LINE, "", ""], "$.steps[1]"),
    ("text before values", [HEADER.replace('"p"', "1"), "[]", "{"], "$.steps[1]"),
    ("header before steps", [HEADER.replace('"p"', "1"), "[]"], "$.policy.policy_id"),
    ("steps in the header", [DOCUMENT, LINE], "$.steps"),
    ("header text", ["{", LINE], "$"),
    ("empty header", ["", LINE], "$"),
    ("not an object", [HEADER, LINE, "[]"], "$.steps[1]"),
    ("a value", [HEADER, LINE, TWO.replace("succeeded", "x")], "$.steps[1].outcome"),
    ("long line", [HEADER, LINE + " " * 65_536, "{"], "$"),
    ("bad line before a long one", [HEADER, "{", LINE + " " * 65_536], "$.steps[0]"),
    ("depth 16", [HEADER, "[" * 14 + "]" * 14], "$.steps[0]"),
    ("depth 17", [HEADER, "[" * 15 + "]" * 15], "$"),
    ("not UTF-8", [HEADER, '"\udcff"'], "$.steps[0]"),
]


@pytest.mark.parametrize(
    ("lines", "path"), [row[1:] for row in STREAMS], ids=[r[0] for r in STREAMS]
)
def test_a_bad_stream_is_reported_at_the_place_of_its_first_defect(
    lines: list[str], path: str
) -> None:
    assert defect(evaluate_stream("\n".join(lines).encode("utf-8", "surrogateescape"))) == path


def test_a_stream_gives_the_answer_of_the_document_it_spells() -> None:
    answer = evaluate(POLICY, [STEP, STEP | {"sequence": 2}])
    assert "receipt" in answer
    full = LINE + " " * (65_536 - len(LINE))
    for end in ("", "\n"):
        assert evaluate_stream(f"{HEADER}\r\n{full}\n{TWO}{end}".encode()) == answer
    assert evaluate_stream(HEADER.encode()) == evaluate(POLICY, [])
    backwards = HEADER.replace('"deadline_unix_ms": 1000', '"deadline_unix_ms": 1')
    late = evaluate_stream(f"{backwards}\n{TWO}".encode())
    assert late == evaluate(POLICY | {"deadline_unix_ms": 1}, [STEP | {"sequence": 2}])
    assert "$.policy.deadline_unix_ms" in json.dumps(late)


@pytest.mark.slow
def test_more_steps_than_a_million_are_refused_before_any_is_read() -> None:
    steps: list[object] = [None] * 1_000_001
    assert defect(evaluate(POLICY, steps)) == "$.steps"
    assert defect(evaluate(POLICY, steps[1:])) == "$.steps[0]"
    stream = HEADER + "\n0" * 1_000_001
    assert defect(evaluate_stream(stream.encode())) == "$.steps"


# Several programs share the machine, so that time says nothing about the model here.
UNTIMED = settings(deadline=None, suppress_health_check=[HealthCheck.too_slow])

KEYS = st.text(st.characters(max_codepoint=0x7F), max_size=4)
LEAVES = st.none() | st.booleans() | st.integers(0, INTEGER_MAX) | st.text()
VALUES = st.recursive(
    LEAVES, lambda inner: st.lists(inner, max_size=4) | st.dictionaries(KEYS, inner, max_size=4)
)


@UNTIMED
@given(value=VALUES)
def test_canonical_bytes_equal_those_of_an_independent_rfc_8785_library(value: object) -> None:
    assert canonical(value) == rfc8785.dumps(value)  # type: ignore[arg-type]


@UNTIMED
@given(data=st.binary() | st.text(st.sampled_from('{}[]:,"\\u0d81.-e\n ')).map(str.encode))
def test_any_bytes_have_an_answer(data: bytes) -> None:
    for answer in (evaluate_bytes(data), evaluate_stream(data)):
        assert str(defect(answer)).startswith("$")


@UNTIMED
@given(data=st.data())
def test_a_damaged_document_has_an_answer(data: st.DataObject) -> None:
    good = DOCUMENT.encode()
    start = data.draw(st.integers(0, len(good)))
    length = data.draw(st.integers(0, 8))
    damaged = good[:start] + data.draw(st.binary(max_size=4)) + good[start + length :]
    assert set(evaluate_bytes(damaged)) in ({"receipt"}, {"error"})


ODD = st.floats() | st.integers() | st.text(st.characters()) | LEAVES | st.tuples() | st.just(b"")
ANYTHING = st.recursive(
    ODD, lambda inner: st.lists(inner) | st.dictionaries(st.sampled_from([*STEP, 1]), inner)
)


@UNTIMED
@given(field=st.sampled_from([*STEP]), value=ANYTHING)
def test_any_python_values_have_an_answer(field: str, value: object) -> None:
    assert str(defect(evaluate(value, [STEP]))).startswith("$.policy")
    assert len(evaluate(POLICY, [STEP | {field: value}])) == 1
    assert defect(evaluate(POLICY, [STEP | {field: 0.0}])) == f"$.steps[0].{field}"


def test_values_that_contain_themselves_are_too_deep() -> None:
    knot: list[object] = []
    knot.append(knot)
    assert defect(evaluate(POLICY, knot)) == "$"


@pytest.mark.parametrize(("levels", "path"), [(13, "$.steps[0].sequence"), (14, "$")])
def test_values_are_nested_as_deep_as_the_document_that_they_spell(levels: int, path: str) -> None:
    nest = json.loads("[" * levels + "]" * levels)
    assert defect(evaluate(POLICY, [STEP | {"sequence": nest}])) == path
    spelt = DOCUMENT.replace('"sequence": 1', f'"sequence": {json.dumps(nest)}')
    assert defect(evaluate_bytes(spelt.encode())) == path
