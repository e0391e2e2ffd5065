"""Claim: the whole kind of every public incident that a trace can show gets its right verdict.

Each test varies names, thresholds, lengths and positions by operators over a valid base, and the
verdict is worked out from the variation itself. The reference evaluator is asked as a document and
as a stream, and the naive model with it, so that one wrong verdict cannot hide behind another.

Source: public reports, abstracted; the numbers are those of the incident list.
"""

from hypothesis import given, settings
from hypothesis import strategies as st

from loopcore.mutation.cases import load_bases, reference_answer
from loopcore.mutation.operators import OperatorCall, apply
from loopcore.mutation.values import Record, record
from loopcore.testing import naive

LAB, LAB_EXTENDED = "lab", "lab-extended"
KINDS = st.sampled_from(("model_generation", "tool_call", "verification", "repair", "finish"))
SETTINGS = settings(max_examples=25, deadline=None)


def verdict(base: str, *calls: OperatorCall) -> Record:
    """Return the one verdict of both models and both forms, in short."""
    document, _ = apply(load_bases()[base], calls)
    answers = [reference_answer(document, "document"), naive.evaluate_bytes(document)]
    try:
        stream, _ = apply(load_bases()[base], calls, "stream")
        answers += [reference_answer(stream, "stream"), naive.evaluate_stream(stream)]
    except KeyError:
        stream = b""  # a document without an array of steps has no stream
    short = [_short(answer) for answer in answers]
    assert all(each == short[0] for each in short), short
    return short[0]


def _short(answer: Record) -> Record:
    if "error" in answer:
        return {name: value for name, value in record(answer["error"]).items() if name != "message"}
    receipt = record(answer["receipt"])
    return {name: receipt[name] for name in ("terminal", "terminal_sequence", "violations")}


def ended(terminal: str, sequence: int, *lower: str) -> Record:
    return {
        "terminal": terminal,
        "terminal_sequence": sequence,
        "violations": [terminal, *lower],
    }


EXHAUSTED: Record = {
    "terminal": "input_exhausted",
    "terminal_sequence": None,
    "violations": ["input_exhausted"],
}


def after(terminal: str, step: int) -> Record:
    return {
        "code": "post_terminal_step",
        "path": None,
        "step": step,
        "terminal": terminal,
        "terminal_sequence": step,
    }


def malformed(path: str) -> Record:
    return {"code": "malformed", "path": path, "step": None}


def policy(field: str, value: object) -> OperatorCall:
    return "set-policy", {"field": field, "value": value}


@SETTINGS
@given(
    length=st.integers(2, 6),
    repeats=st.integers(2, 4),
    room=st.tuples(st.integers(0, 3), st.integers(0, 3)),
    waits=st.booleans(),
    evidence=st.sampled_from(("fresh", "none")),
)
def test_2_1_a_loop_of_any_period_is_seen_when_states_and_actions_recur(
    length: int, repeats: int, room: tuple[int, int], waits: bool, evidence: str
) -> None:
    pairs, (prefix, margin) = length * repeats, room
    shape: Record = {
        "length": length,
        "repeats": repeats,
        "length_max": length + margin,
        "prefix": prefix,
        "waits": waits,
        "evidence": evidence,
    }
    last = prefix + (2 * pairs - 1 if waits else pairs)
    whole = ("cycle", shape | {"pairs": pairs}), ("keep-steps", {"count": last})
    assert verdict(LAB_EXTENDED, *whole) == ended("nonproductive_cycle", last)
    short = ("cycle", shape | {"pairs": pairs - 1})
    assert verdict(LAB_EXTENDED, short) == EXHAUSTED


@SETTINGS
@given(length=st.integers(2, 5), rounds=st.integers(2, 5))
def test_2_1_the_same_actions_that_move_on_are_no_loop(length: int, rounds: int) -> None:
    shape: Record = {"length": length, "pairs": length * rounds, "length_max": 5, "repeats": 2}
    assert verdict(LAB_EXTENDED, ("cycle", shape | {"states": "advance"})) == EXHAUSTED


@SETTINGS
@given(limit=st.integers(2, 8), kind=st.sampled_from(("tool_call", "verification", "repair")))
def test_3_1_a_stop_by_the_guard_is_never_a_completion(limit: int, kind: str) -> None:
    poll = ("poll", {"kind": kind, "count": limit, "max_consecutive_repeated_actions": limit})
    assert verdict(LAB, poll) == ended("repeated_action", limit)
    claim = ("append-steps", {"kind": "finish"})
    assert verdict(LAB, poll, claim) == after("repeated_action", limit)
    claiming = ("make-kind", {"step": limit - 1, "kind": "finish"})
    assert verdict(LAB, poll, claiming) == ended("invalid_completion", limit, "repeated_action")


@SETTINGS
@given(name=st.text(st.characters(codec="utf-8"), min_size=1, max_size=128), kept=st.integers(0, 3))
def test_3_5_no_text_in_the_input_ends_a_run(name: str, kept: int) -> None:
    calls = policy("policy_id", name), ("keep-steps", {"count": kept})
    assert verdict(LAB, *calls) == EXHAUSTED


@SETTINGS
@given(count=st.integers(1, 6), kind=KINDS, sequence=st.none() | st.integers(0, 99))
def test_4_1_the_first_step_after_a_finish_is_the_error_and_tells_the_completion(
    count: int, kind: str, sequence: int | None
) -> None:
    calls: list[OperatorCall] = [("append-steps", {"count": count, "kind": kind})]
    if sequence is not None:
        calls.append(("set-step", {"step": 4, "field": "sequence", "value": sequence}))
    assert verdict(LAB, *calls) == after("completed", 4)


# Each budget with the kind of step that charges one unit to it.
BUDGETS = {
    "max_tool_calls": ("tool_call", "tool_budget_exhausted"),
    "max_model_calls": ("model_generation", "model_budget_exhausted"),
    "max_repairs": ("repair", "repair_budget_exhausted"),
}


@SETTINGS
@given(limit=st.integers(0, 12), bound=st.sampled_from(sorted(BUDGETS)))
def test_5_1_exactly_the_permitted_number_passes(limit: int, bound: str) -> None:
    kind, terminal = BUDGETS[bound]
    exact = ("poll", {"kind": kind, "count": limit}), policy(bound, limit)
    over = ("poll", {"kind": kind, "count": limit + 1}), policy(bound, limit)
    assert verdict(LAB, *exact) == EXHAUSTED
    assert verdict(LAB, *over) == ended(terminal, limit + 1)


WRONG_LIMITS: st.SearchStrategy[object] = st.one_of(
    st.none(),
    st.booleans(),
    st.integers(max_value=-1),
    st.integers(min_value=2**53),
    st.floats(allow_nan=False, allow_infinity=False),
    st.text(st.characters(codec="utf-8"), max_size=8),
    st.lists(st.none(), max_size=1),
    st.dictionaries(st.just("limit"), st.none(), max_size=1),
)
REQUIRED_LIMITS = st.sampled_from(
    (
        "max_steps",
        "max_model_calls",
        "max_tool_calls",
        "max_repairs",
        "max_cost_microunits",
        "max_consecutive_no_progress",
        "max_consecutive_repeated_actions",
    )
)


@SETTINGS
@given(field=REQUIRED_LIMITS, value=WRONG_LIMITS)
def test_5_2_a_limit_that_is_no_whole_number_in_range_is_refused(field: str, value: object) -> None:
    assert verdict(LAB, policy(field, value)) == malformed(f"$.policy.{field}")


@SETTINGS
@given(bound=st.sampled_from(sorted(BUDGETS)))
def test_5_2_zero_means_none_and_not_the_default(bound: str) -> None:
    kind, terminal = BUDGETS[bound]
    calls = ("poll", {"kind": kind, "count": 1}), policy(bound, 0)
    assert verdict(LAB, *calls) == ended(terminal, 1)


@SETTINGS
@given(field=st.sampled_from(("max_input_tokens", "max_output_tokens", "max_evidence_receipts")))
def test_5_2_null_means_no_limit_where_null_is_allowed(field: str) -> None:
    assert verdict(LAB_EXTENDED, policy(field, None))["terminal"] == "completed"
    assert verdict(LAB_EXTENDED, policy(field, 0))["terminal"] != "completed"


@SETTINGS
@given(step=st.integers(0, 3), back=st.integers(1, 10**6), past=st.integers(0, 10**6))
def test_9_2_a_clock_that_goes_back_is_told_at_its_step(step: int, back: int, past: int) -> None:
    calls: list[OperatorCall] = [("move-time-back", {"step": step, "milliseconds": back})]
    for later in range(step + 1, 4):
        calls.append(("time-to-deadline", {"step": later, "offset": past}))
    told = {"code": "time_regression", "path": None, "step": step}
    assert verdict(LAB, *calls) == told


@SETTINGS
@given(
    limit=st.integers(0, 8),
    by_model=st.booleans(),
    outcome=st.sampled_from(("failed", "succeeded")),
)
def test_12_1_repairs_have_a_budget_of_their_own_and_never_complete(
    limit: int, by_model: bool, outcome: str
) -> None:
    shape: Record = {"max_repairs": limit, "by_model": by_model, "outcome": outcome}
    over = ("repair", shape | {"count": limit + 1})
    assert verdict(LAB, over) == ended("repair_budget_exhausted", limit + 1)
    claim = ("append-steps", {"kind": "finish"})
    assert verdict(LAB, over, claim) == after("repair_budget_exhausted", limit + 1)
    if limit:
        assert verdict(LAB, ("repair", shape | {"count": limit})) == EXHAUSTED


@SETTINGS
@given(idle=st.integers(1, 6))
def test_12_1_failing_the_same_way_again_is_no_progress(idle: int) -> None:
    calls = (
        ("repair", {"max_repairs": 99, "count": idle}),
        policy("max_consecutive_no_progress", idle),
    )
    assert verdict(LAB, *calls) == ended("no_progress", idle)


SPELLINGS = {
    "fraction": "{}.0",
    "exponent": "{}e0",
    "capital exponent": "{}E+0",
    "small exponent": "{}0e-1",
}


@SETTINGS
@given(value=st.integers(2, 999), spelling=st.sampled_from(sorted(SPELLINGS)))
def test_13_3_a_number_that_is_not_spelled_as_an_integer_is_refused(
    value: int, spelling: str
) -> None:
    spelled = SPELLINGS[spelling].format(value)
    calls = ("spell-value", {"key": "max_steps", "text": spelled})
    assert verdict(LAB, calls) == malformed("$.policy.max_steps")


@SETTINGS
@given(
    key=st.sampled_from(("policy_id", "max_repairs", "deadline_unix_ms", "cycle_repeats")),
    value=st.sampled_from((None, "null", "0", '"again"')),
    escaped=st.booleans(),
)
def test_13_3_a_repeated_key_is_refused_whichever_value_comes_first(
    key: str, value: str | None, escaped: bool
) -> None:
    twice: Record = {"key": key} if value is None else {"key": key, "value": value}
    calls: list[OperatorCall] = [("duplicate-key", twice)]
    if escaped:
        calls.append(("escape-first", {"key": key, "of": "key"}))
    assert verdict(LAB, *calls) == malformed(f"$.policy.{key}")


@SETTINGS
@given(name=st.text("aeiouAEIOU", min_size=1, max_size=20).map(lambda text: text + "é"))
def test_13_3_one_value_has_one_digest_however_its_text_is_laid_out(name: str) -> None:
    nfc = ("unicode-normal-form", {"form": "NFC", "name": name})
    nfd = ("unicode-normal-form", {"form": "NFD", "name": name})
    layouts: list[OperatorCall] = [("reorder-keys", {}), ("white-space", {}), ("escape-all", {})]
    digests = {_digest(nfc), *(_digest(nfc, layout) for layout in layouts)}
    assert len(digests) == 1
    assert digests.isdisjoint({_digest(nfd)})


def _digest(*calls: OperatorCall) -> object:
    document, _ = apply(load_bases()[LAB], calls)
    answer = reference_answer(document, "document")
    assert answer == naive.evaluate_bytes(document)
    return record(answer["receipt"])["receipt_sha256"]
