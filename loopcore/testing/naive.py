"""A naive second statement of the evaluator, written from the specification's page alone.

Rule: this file shares no code and no data with the evaluator that it is compared with; it imports
nothing of loopcore but its own two decoding files, `naive_json` and `naive_wire`. Obviously
correct comes before fast.

Theory of operation: shapes turn wire values into plain dicts and lists and raise the first defect
in document order. Then every step is judged from the whole prefix that it ends: totals are sums,
seen evidence is a set of everything earlier, `idle` and `same` are counted by walking backwards.
No state is carried from step to step except the terminal that ended the run. Time is quadratic in
the number of steps.

Choices:
- an unpaired surrogate and the spelling of a number are defects of the value, at its path; what
  the JSON grammar does not allow is a defect of the text, at `$`;
- the outermost container has depth 1, and a container at depth 17 is `malformed` at `$`. The
  arguments of `evaluate` count as the members of one document, so a step has depth 3;
- an identifier is an ASCII letter or underscore, then letters, digits and underscores;
- the repetition reported is the first key, in document order, that was met before;
- a value of the wrong type is reported as such, whatever defects it has inside;
- a dict with a key that is no string is not an object: `malformed` at its own path;
- in a stream the text and limits of all lines come first and the first bad line is reported, its
  length before its text; the limit of a document's size is not applied to a whole stream;
- fields that differ in a receipt are named at its top level, so any usage figure is `usage`.

Source: spec evaluator, sections 1 to 5.
"""

from loopcore.testing.naive_wire import (
    INTEGER_MAX,
    RELEASES,
    Defect,
    Record,
    array,
    as_record,
    decode_document,
    decode_stream,
    decode_values,
    digest,
    digest_of,
    is_array,
    one_of,
    or_null,
    record,
    whole,
)

REFERENCE, EXTENDED = RELEASES

PRECEDENCE: dict[str, tuple[str, ...]] = {
    REFERENCE: (
        "deadline_exceeded",
        "step_budget_exhausted",
        "model_budget_exhausted",
        "tool_budget_exhausted",
        "repair_budget_exhausted",
        "cost_budget_exhausted",
        "indeterminate_effect",
        "completed",
        "invalid_completion",
        "repeated_action",
        "no_progress",
        "input_exhausted",
    ),
    EXTENDED: (
        "deadline_exceeded",
        "step_budget_exhausted",
        "model_budget_exhausted",
        "tool_budget_exhausted",
        "repair_budget_exhausted",
        "cost_budget_exhausted",
        "input_token_budget_exhausted",
        "output_token_budget_exhausted",
        "evidence_budget_exhausted",
        "indeterminate_effect",
        "completed",
        "invalid_completion",
        "repeated_action",
        "nonproductive_cycle",
        "no_progress",
        "input_exhausted",
    ),
}

# The model, tool and repair deltas that each kind of action may have.
DELTAS: dict[str, tuple[tuple[int, int, int], ...]] = {
    "model_generation": ((1, 0, 0),),
    "tool_call": ((0, 1, 0),),
    "verification": ((0, 0, 0),),
    "repair": ((0, 0, 1), (1, 0, 1)),
    "finish": ((0, 0, 0),),
    "wait": ((0, 1, 0),),
}

EXTENDED_FIELDS = (
    "max_input_tokens",
    "max_output_tokens",
    "max_evidence_receipts",
    "max_cycle_length",
    "cycle_repeats",
)

# Each budget rule, with the total that it tests and the policy's bound.
BOUNDS = {
    "step_budget_exhausted": ("steps", "max_steps"),
    "model_budget_exhausted": ("model_calls", "max_model_calls"),
    "tool_budget_exhausted": ("tool_calls", "max_tool_calls"),
    "repair_budget_exhausted": ("repairs", "max_repairs"),
    "cost_budget_exhausted": ("cost_microunits", "max_cost_microunits"),
    "input_token_budget_exhausted": ("input_tokens", "max_input_tokens"),
    "output_token_budget_exhausted": ("output_tokens", "max_output_tokens"),
    "evidence_budget_exhausted": ("evidence_receipts", "max_evidence_receipts"),
}

# Each total of the receipt's usage that is a sum, and the field of a step that it sums.
TOTALS = {
    "model_calls": "model_calls_delta",
    "tool_calls": "tool_calls_delta",
    "repairs": "repairs_delta",
    "cost_microunits": "cost_microunits_delta",
    "input_tokens": "input_tokens_delta",
    "output_tokens": "output_tokens_delta",
}

USAGE = record({name: whole() for name in ("steps", *TOTALS, "evidence_receipts")})
RECEIPT = record(
    {
        "schema": one_of("loopcore/receipt/1"),
        "evaluator_release": one_of(REFERENCE, EXTENDED),
        "policy_sha256": digest,
        "steps_sha256": digest,
        "terminal": one_of(*PRECEDENCE[EXTENDED]),
        "terminal_sequence": or_null(whole()),
        "violations": array(one_of(*PRECEDENCE[EXTENDED]), None),
        "usage": USAGE,
        "verified_progress_steps": whole(),
        "final_state_sha256": digest,
        "completion_receipt_sha256": or_null(digest),
        "started_at_unix_ms": whole(),
        "ended_at_unix_ms": whole(),
        "receipt_sha256": digest,
    }
)


# --- public functions ---------------------------------------------------------------------------


def precedence(release: str) -> tuple[str, ...]:
    """The terminals of `release`, first to last; raises KeyError for a release not known here."""
    return PRECEDENCE[release]


def evaluate(policy: object, steps: object) -> Record:
    """The wire answer for plain values: `{"receipt": {...}}` or `{"error": {...}}`; never raises.

    Paths are relative to the request. Quadratic in the number of steps.
    """
    try:
        return {"receipt": _receipt(*decode_values(policy, steps))}
    except Defect as defect:
        return {"error": defect.wire}


def evaluate_bytes(data: bytes) -> Record:
    """The wire answer for a trace document, whatever its bytes; never raises."""
    try:
        return {"receipt": _receipt(*decode_document(data))}
    except Defect as defect:
        return {"error": defect.wire}


def evaluate_stream(data: bytes) -> Record:
    """The wire answer for a `.jsonl` stream, whatever its bytes; never raises."""
    try:
        return {"receipt": _receipt(*decode_stream(data))}
    except Defect as defect:
        return {"error": defect.wire}


def verify_receipt(policy: object, steps: object, receipt: object) -> list[str]:
    """The names of the receipt's fields that differ from a replay, in table order.

    Raises ValueError, holding the error object, for a trace with an error or a receipt that does
    not decode. Source: spec evaluator, section 5.
    """
    try:
        replayed = _receipt(*decode_values(policy, steps))
        claimed = as_record(RECEIPT(receipt, "$"))
    except Defect as defect:
        raise ValueError(defect.wire) from None
    return [name for name in replayed if replayed[name] != claimed[name]]


# --- definitions, transcribed -------------------------------------------------------------------


def _number(values: Record, field: str) -> int:
    value = values[field]
    assert isinstance(value, int)
    return value


def _evidence(steps: list[Record]) -> list[object]:
    """All evidence of `steps`, in order, repetitions included."""
    found: list[object] = []
    for step in steps:
        listed = step["new_evidence_receipt_sha256"]
        assert is_array(listed)
        found.extend(listed)
    return found


def _total(steps: list[Record], field: str) -> int:
    return sum(_number(step, field) for step in steps)


def _fresh(steps: list[Record], index: int) -> set[object]:
    """The evidence of step `index` that no earlier step showed."""
    return set(_evidence([steps[index]])) - set(_evidence(steps[:index]))


def _is_progress(steps: list[Record], index: int) -> bool:
    step = steps[index]
    return (
        step["action_kind"] != "wait"
        and step["outcome"] == "succeeded"
        and step["state_before_sha256"] != step["state_after_sha256"]
        and len(_fresh(steps, index)) > 0
    )


def _idle(steps: list[Record], index: int, progress: list[bool]) -> int:
    count = 0
    for earlier in range(index, -1, -1):
        if progress[earlier]:
            break
        if steps[earlier]["action_kind"] != "wait":
            count += 1
    return count


def _same(acts: list[Record]) -> int:
    count = 0
    for act in reversed(acts):
        if act["action_sha256"] != acts[-1]["action_sha256"]:
            break
        count += 1
    return count


def _is_cycle(policy: Record, acts: list[Record]) -> bool:
    if policy["max_cycle_length"] is None:
        return False
    pairs = [(act["action_sha256"], act["state_after_sha256"]) for act in acts]
    for length in range(2, _number(policy, "max_cycle_length") + 1):
        window_length = length * _number(policy, "cycle_repeats")
        if len(pairs) < window_length:
            continue
        window = pairs[len(pairs) - window_length :]
        has_period = all(window[i] == window[i - length] for i in range(length, window_length))
        if has_period and len(set(window[:length])) > 1:
            return True
    return False


def _exceeds(total: int, policy: Record, bound: str) -> bool:
    return policy[bound] is not None and total > _number(policy, bound)


def _fired(policy: Record, steps: list[Record], index: int, progress: list[bool]) -> list[str]:
    """Every row of the precedence table that fires at step `index`, in order."""
    step, so_far = steps[index], steps[: index + 1]
    acts = [act for act in so_far if act["action_kind"] != "wait"]
    completed_at = _number(step, "completed_at_unix_ms")
    is_finish = step["action_kind"] == "finish"
    is_proven = (
        step["outcome"] == "succeeded"
        and step["completion_receipt_sha256"] is not None
        and step["completion_receipt_sha256"] in _fresh(steps, index)
    )
    used = _usage(so_far)
    idle, same = _idle(steps, index, progress), _same(acts)
    facts = {
        "deadline_exceeded": completed_at >= _number(policy, "deadline_unix_ms"),
        **{rule: _exceeds(used[total], policy, bound) for rule, (total, bound) in BOUNDS.items()},
        "indeterminate_effect": step["outcome"] == "indeterminate",
        "completed": is_finish and is_proven,
        "invalid_completion": is_finish and not is_proven,
        "repeated_action": same >= _number(policy, "max_consecutive_repeated_actions"),
        "nonproductive_cycle": _is_cycle(policy, acts),
        "no_progress": idle >= _number(policy, "max_consecutive_no_progress"),
        "input_exhausted": False,
    }
    return [name for name in precedence(str(policy["evaluator_release"])) if facts[name]]


def _usage(steps: list[Record]) -> dict[str, int]:
    return {
        "steps": len(steps),
        **{name: _total(steps, field) for name, field in TOTALS.items()},
        "evidence_receipts": len(set(_evidence(steps))),
    }


# --- errors that are not terminals --------------------------------------------------------------


def _check_relations(policy: Record) -> None:
    if _number(policy, "deadline_unix_ms") <= _number(policy, "started_at_unix_ms"):
        raise _invalid("deadline_unix_ms", "the deadline is not after the start.")
    for field in EXTENDED_FIELDS:
        if policy["evaluator_release"] == REFERENCE and policy[field] is not None:
            raise _invalid(field, "the release does not enforce this bound; it must be null.")
    if (policy["max_cycle_length"] is None) != (policy["cycle_repeats"] is None):
        raise _invalid("cycle_repeats", "null is due exactly when max_cycle_length is null.")


def _invalid(field: str, reason: str) -> Defect:
    return Defect("invalid_policy", f"$.policy.{field}", None, f"$.policy.{field}: {reason}")


def _step_code(policy: Record, steps: list[Record], index: int) -> str | None:
    """The code of the first check that step `index` fails, a terminal before it apart."""
    step, so_far, kind = steps[index], steps[: index + 1], str(steps[index]["action_kind"])
    if index == 0:
        time_before, state_before = policy["started_at_unix_ms"], policy["initial_state_sha256"]
    else:
        time_before = steps[index - 1]["completed_at_unix_ms"]
        state_before = steps[index - 1]["state_after_sha256"]
    assert isinstance(time_before, int)
    deltas = tuple(
        _number(step, f"{what}_delta") for what in ("model_calls", "tool_calls", "repairs")
    )
    tokens = _number(step, "input_tokens_delta") + _number(step, "output_tokens_delta")
    own_evidence = _evidence([step])
    checks = (
        ("sequence_gap", step["sequence"] != index + 1),
        ("time_regression", _number(step, "completed_at_unix_ms") < time_before),
        ("state_chain_broken", step["state_before_sha256"] != state_before),
        ("duplicate_evidence", len(own_evidence) != len(set(own_evidence))),
        ("unsupported_kind", kind == "wait" and policy["evaluator_release"] == REFERENCE),
        ("usage_mismatch", deltas not in DELTAS[kind] or (tokens > 0 and deltas[0] == 0)),
        (
            "unexpected_completion_receipt",
            step["completion_receipt_sha256"] is not None and kind != "finish",
        ),
        ("usage_overflow", any(_total(so_far, f) > INTEGER_MAX for f in TOTALS.values())),
    )
    return next((code for code, failed in checks if failed), None)


def _receipt(policy: Record, steps: list[Record]) -> Record:
    """The receipt of a decoded trace; raises Defect for relations and step codes."""
    _check_relations(policy)
    progress = [_is_progress(steps, index) for index in range(len(steps))]
    violations: list[str] = []
    for index in range(len(steps)):
        if violations:
            late = Defect("post_terminal_step", None, index, f"Step {index} follows a terminal.")
            late.wire.update(terminal=violations[0], terminal_sequence=index)
            raise late
        failed = _step_code(policy, steps, index)
        if failed is not None:
            raise Defect(failed, None, index, f"Step {index} fails the check {failed}.")
        violations = _fired(policy, steps, index, progress)
    sequence = len(steps) if violations else None
    violations = violations or ["input_exhausted"]
    terminal = violations[0]
    receipt: Record = {
        "schema": "loopcore/receipt/1",
        "evaluator_release": policy["evaluator_release"],
        "policy_sha256": digest_of(policy),
        "steps_sha256": digest_of(steps),
        "terminal": terminal,
        "terminal_sequence": sequence,
        "violations": [rule for rule in violations if rule != "completed"],
        "usage": _usage(steps),
        "verified_progress_steps": sum(progress),
        "final_state_sha256": policy["initial_state_sha256"],
        "completion_receipt_sha256": None,
        "started_at_unix_ms": policy["started_at_unix_ms"],
        "ended_at_unix_ms": policy["started_at_unix_ms"],
    }
    if steps:
        receipt["final_state_sha256"] = steps[-1]["state_after_sha256"]
        receipt["ended_at_unix_ms"] = steps[-1]["completed_at_unix_ms"]
    if terminal == "completed":
        receipt["completion_receipt_sha256"] = steps[-1]["completion_receipt_sha256"]
    receipt["receipt_sha256"] = digest_of(receipt)
    return receipt
