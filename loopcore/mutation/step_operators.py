"""Operators on the steps of a trace: each plants one fault, or one harmless change, in place.

Theory of operation: an operator takes a trace document as plain JSON (a private copy) and
parameters, and changes the document. It knows nothing of verdicts; those stand in the cases. An
operator leaves alone what it is not about, so a swapped step breaks the chain unless `rechain` and
`renumber` follow it: operators compose.

Every `step` is a 0-based index, -1 for the last one.
"""

from __future__ import annotations

import copy
from collections.abc import Callable
from hashlib import sha256

from loopcore.mutation.values import (
    DataError,
    Parameters,
    Record,
    array,
    named,
    number,
    number_of,
    policy_of,
    step_at,
    steps_of,
    text,
    text_of,
)

INTEGER_MAX = 2**53 - 1
_STEP_MS = 1_000
# Model, tool and repair deltas that fit each kind.
_DELTAS = {
    "model_generation": (1, 0, 0),
    "tool_call": (0, 1, 0),
    "verification": (0, 0, 0),
    "repair": (0, 0, 1),
    "finish": (0, 0, 0),
    "wait": (0, 1, 0),
}
_DELTA_FIELDS = ("model_calls_delta", "tool_calls_delta", "repairs_delta")
_DIGEST_FIELDS = ("action_sha256", "state_before_sha256", "state_after_sha256")

StepOperator = Callable[[Record, Parameters], None]


def _swap_steps(document: Record, parameters: Parameters) -> None:
    """Exchange two whole steps."""
    steps = array(document["steps"])
    first, second = number_of(parameters, "first"), number_of(parameters, "second")
    steps[first], steps[second] = steps[second], steps[first]


def _drop_step(document: Record, parameters: Parameters) -> None:
    """Take one step out."""
    step_at(document, number_of(parameters, "step"))
    del array(document["steps"])[number_of(parameters, "step")]


def _keep_steps(document: Record, parameters: Parameters) -> None:
    """Keep the first `count` steps only."""
    del array(document["steps"])[number_of(parameters, "count") :]


def _duplicate_step(document: Record, parameters: Parameters) -> None:
    """Put a copy of a step right after it."""
    index = number_of(parameters, "step")
    array(document["steps"]).insert(index + 1, copy.deepcopy(step_at(document, index)))


def _append_steps(document: Record, parameters: Parameters) -> None:
    """Add `count` well-formed steps of one kind that follow from the last one.

    `action` (one name for all) and `evidence` ("fresh", the default, or "none") and `moves`
    (whether the state changes) vary them.
    """
    steps, policy = array(document["steps"]), policy_of(document)
    kind = text_of(parameters, "kind", "verification")
    for _ in range(number_of(parameters, "count", 1)):
        known = steps_of(document)
        place = len(known) + 1
        state = known[-1]["state_after_sha256"] if known else policy["initial_state_sha256"]
        clock = known[-1]["completed_at_unix_ms"] if known else policy["started_at_unix_ms"]
        action = text_of(parameters, "action", f"added action {place}")
        fresh = text_of(parameters, "evidence", "fresh") == "fresh"
        moves = parameters.get("moves", True) is True
        step: Record = {
            "sequence": place,
            "action_kind": kind,
            "action_sha256": named(action),
            "state_before_sha256": state,
            "state_after_sha256": named(f"added state {place}") if moves else state,
            "new_evidence_receipt_sha256": [named(f"added evidence {place}")] if fresh else [],
            "outcome": text_of(parameters, "outcome", "succeeded"),
            "completed_at_unix_ms": number(clock) + _STEP_MS,
            "model_calls_delta": 0,
            "tool_calls_delta": 0,
            "repairs_delta": 0,
            "cost_microunits_delta": number_of(parameters, "cost", 0),
            "input_tokens_delta": 0,
            "output_tokens_delta": 0,
            "completion_receipt_sha256": None,
        }
        _fit_deltas(step, kind)
        steps.append(step)


def _renumber(document: Record, parameters: Parameters) -> None:
    """Number all steps from `first` (1 unless given), one apart."""
    first = number_of(parameters, "first", 1)
    for index, step in enumerate(steps_of(document)):
        step["sequence"] = first + index


def _rechain(document: Record, parameters: Parameters) -> None:
    """Let every step begin in the state in which the step before ended."""
    del parameters
    state = policy_of(document)["initial_state_sha256"]
    for step in steps_of(document):
        step["state_before_sha256"] = state
        state = step["state_after_sha256"]


def _retime(document: Record, parameters: Parameters) -> None:
    """Let every step end one second after the one before."""
    del parameters
    clock = number(policy_of(document)["started_at_unix_ms"])
    for index, step in enumerate(steps_of(document), start=1):
        step["completed_at_unix_ms"] = clock + index * _STEP_MS


def _move_time_back(document: Record, parameters: Parameters) -> None:
    """Let a step end `milliseconds` before the step before it (or before the start)."""
    index = number_of(parameters, "step")
    before = (
        step_at(document, index - 1)["completed_at_unix_ms"]
        if index > 0
        else policy_of(document)["started_at_unix_ms"]
    )
    earlier = number(before) - number_of(parameters, "milliseconds", 1)
    step_at(document, index)["completed_at_unix_ms"] = earlier


def _time_to_deadline(document: Record, parameters: Parameters) -> None:
    """Let a step end `offset` milliseconds from the deadline (0: at it)."""
    deadline = number(policy_of(document)["deadline_unix_ms"])
    step = step_at(document, number_of(parameters, "step"))
    step["completed_at_unix_ms"] = deadline + number_of(parameters, "offset", 0)


def _deadline_to_step(document: Record, parameters: Parameters) -> None:
    """Move the policy's deadline to `offset` milliseconds from the end of a step."""
    ended_at = number(step_at(document, number_of(parameters, "step"))["completed_at_unix_ms"])
    policy_of(document)["deadline_unix_ms"] = ended_at + number_of(parameters, "offset", 0)


def _break_chain(document: Record, parameters: Parameters) -> None:
    """Let a step begin in a state in which the run is not."""
    step_at(document, number_of(parameters, "step"))["state_before_sha256"] = named("elsewhere")


def _stall(document: Record, parameters: Parameters) -> None:
    """Let a step end in the state in which it began; the next step begins there."""
    index = number_of(parameters, "step")
    step = step_at(document, index)
    step["state_after_sha256"] = step["state_before_sha256"]
    if 0 <= index < len(steps_of(document)) - 1:
        step_at(document, index + 1)["state_before_sha256"] = step["state_after_sha256"]


def _reuse_evidence(document: Record, parameters: Parameters) -> None:
    """Let a step show the evidence of another one (`source`) instead of its own."""
    source = step_at(document, number_of(parameters, "source"))
    step = step_at(document, number_of(parameters, "step"))
    step["new_evidence_receipt_sha256"] = copy.deepcopy(source["new_evidence_receipt_sha256"])


def _duplicate_evidence(document: Record, parameters: Parameters) -> None:
    """Let the first digest of a step's evidence stand in it once more, at the end."""
    evidence = _evidence_of(document, parameters)
    evidence.append(evidence[0])


def _reorder_evidence(document: Record, parameters: Parameters) -> None:
    """Turn the order of a step's evidence round."""
    _evidence_of(document, parameters).reverse()


def _add_evidence(document: Record, parameters: Parameters) -> None:
    """Add `count` new digests to a step's evidence."""
    evidence = _evidence_of(document, parameters)
    evidence += [named(f"more {index}") for index in range(number_of(parameters, "count", 1))]


def _drop_evidence(document: Record, parameters: Parameters) -> None:
    """Leave a step without evidence."""
    _evidence_of(document, parameters).clear()


def _evidence_of(document: Record, parameters: Parameters) -> list[object]:
    step = step_at(document, number_of(parameters, "step"))
    return array(step["new_evidence_receipt_sha256"])


def _name_proof(document: Record, parameters: Parameters) -> None:
    """Let a step name the first evidence of another step (`source`) as its completion receipt."""
    source = step_at(document, number_of(parameters, "source"))
    step = step_at(document, number_of(parameters, "step"))
    step["completion_receipt_sha256"] = array(source["new_evidence_receipt_sha256"])[0]


def _splice_from_other_run(document: Record, parameters: Parameters) -> None:
    """Replace a step by the same step of another run, which has other digests throughout."""
    index = number_of(parameters, "step")
    other = copy.deepcopy(document)
    _rename_digests(other, {"salt": text_of(parameters, "salt", "other run")})
    array(document["steps"])[index] = step_at(other, index)


def _rename_digests(document: Record, parameters: Parameters) -> None:
    """Rename every digest of the trace by one bijection."""
    salt = text_of(parameters, "salt", "renamed")

    def rename(digest: object) -> str:
        return sha256(f"{salt} {text(digest)}".encode()).hexdigest()

    policy = policy_of(document)
    for field in ("run_envelope_sha256", "behavior_spec_sha256", "initial_state_sha256"):
        policy[field] = rename(policy[field])
    for step in steps_of(document):
        for field in _DIGEST_FIELDS:
            step[field] = rename(step[field])
        evidence = array(step["new_evidence_receipt_sha256"])
        step["new_evidence_receipt_sha256"] = [rename(digest) for digest in evidence]
        if step["completion_receipt_sha256"] is not None:
            step["completion_receipt_sha256"] = rename(step["completion_receipt_sha256"])


def _shift_times(document: Record, parameters: Parameters) -> None:
    """Move the whole run, its start and its deadline by `milliseconds`."""
    shift = number_of(parameters, "milliseconds")
    policy = policy_of(document)
    for field in ("started_at_unix_ms", "deadline_unix_ms"):
        policy[field] = number(policy[field]) + shift
    for step in steps_of(document):
        step["completed_at_unix_ms"] = number(step["completed_at_unix_ms"]) + shift


def _make_kind(document: Record, parameters: Parameters) -> None:
    """Make a step one of another kind, with the deltas of that kind and no tokens."""
    step = step_at(document, number_of(parameters, "step"))
    kind = text_of(parameters, "kind")
    step["action_kind"] = kind
    _fit_deltas(step, kind)
    step["input_tokens_delta"] = step["output_tokens_delta"] = 0
    if kind != "finish":
        step["completion_receipt_sha256"] = None


def _fit_deltas(step: Record, kind: str) -> None:
    if kind not in _DELTAS:
        raise DataError(f"there is no kind {kind}.")
    step.update(zip(_DELTA_FIELDS, _DELTAS[kind], strict=True))


def _repeat_action(document: Record, parameters: Parameters) -> None:
    """Let a step do the action of another one (`source`, else the step before)."""
    index = number_of(parameters, "step")
    source = step_at(document, number_of(parameters, "source", index - 1))
    step_at(document, index)["action_sha256"] = source["action_sha256"]


def _set_step(document: Record, parameters: Parameters) -> None:
    """Give a field of a step another value."""
    step = step_at(document, number_of(parameters, "step"))
    step[text_of(parameters, "field")] = copy.deepcopy(parameters["value"])


def _set_policy(document: Record, parameters: Parameters) -> None:
    """Give a field of the policy another value: another policy."""
    policy_of(document)[text_of(parameters, "field")] = copy.deepcopy(parameters["value"])


def _overflow(document: Record, parameters: Parameters) -> None:
    """Let a total pass 2^53-1 at a step: all of it just before, `excess` at the step."""
    index, field = number_of(parameters, "step"), text_of(parameters, "field")
    for step in steps_of(document):
        step[field] = 0
    step_at(document, number_of(parameters, "before", index - 1))[field] = INTEGER_MAX
    step_at(document, index)[field] = number_of(parameters, "excess", 1)


STEP_OPERATORS: dict[str, StepOperator] = {
    "swap-steps": _swap_steps,
    "drop-step": _drop_step,
    "keep-steps": _keep_steps,
    "duplicate-step": _duplicate_step,
    "append-steps": _append_steps,
    "renumber": _renumber,
    "rechain": _rechain,
    "retime": _retime,
    "move-time-back": _move_time_back,
    "time-to-deadline": _time_to_deadline,
    "deadline-to-step": _deadline_to_step,
    "break-chain": _break_chain,
    "stall": _stall,
    "reuse-evidence": _reuse_evidence,
    "duplicate-evidence": _duplicate_evidence,
    "reorder-evidence": _reorder_evidence,
    "add-evidence": _add_evidence,
    "drop-evidence": _drop_evidence,
    "name-proof": _name_proof,
    "splice-from-other-run": _splice_from_other_run,
    "rename-digests": _rename_digests,
    "shift-times": _shift_times,
    "make-kind": _make_kind,
    "repeat-action": _repeat_action,
    "set-step": _set_step,
    "set-policy": _set_policy,
    "overflow": _overflow,
}
