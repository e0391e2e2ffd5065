"""The parts of wrong evaluators: what stands in the naive model's place while one of them answers.

Theory of operation: a part is a table of replacements, names in `naive` and what stands there, or
another way to answer or to read. Each is wrong in one way.
"""

import json
from collections.abc import Callable
from typing import cast

from loopcore.errors import TargetError
from loopcore.testing import naive
from loopcore.testing.building import array_of, evidence_of, number_of, object_of, text_of
from loopcore.testing.contract import Answer
from loopcore.testing.naive_wire import RELEASES, Record, as_record, digest_of
from loopcore.testing.pairs import possible_pairs

Fired = Callable[[Record, list[Record], int, list[bool]], list[str]]
Answering = Callable[[object, object], Answer]

EXTENDED = RELEASES[1]
_NAIVE = vars(naive)
_fired = cast("Fired", _NAIVE["_fired"])
_step_code = cast("Callable[[Record, list[Record], int], str | None]", _NAIVE["_step_code"])
_is_progress = cast("Callable[[list[Record], int], bool]", _NAIVE["_is_progress"])
_usage = cast("Callable[[list[Record]], dict[str, int]]", _NAIVE["_usage"])
_evaluate = naive.evaluate


def refire(change: Callable[[set[str], Record, list[Record], int], None]) -> dict[str, object]:
    """Replace what fires on a step by a changed set, in the table's order."""

    def fired(policy: Record, steps: list[Record], index: int, progress: list[bool]) -> list[str]:
        names = set(_fired(policy, steps, index, progress))
        change(names, policy, steps, index)
        return [
            name for name in naive.precedence(str(policy["evaluator_release"])) if name in names
        ]

    return {"_fired": fired}


def exceeds_when(wrong: str, when: Callable[[int, int], bool]) -> dict[str, object]:
    """Replace the comparison of one bound."""

    def exceeds(total: int, policy: Record, bound: str) -> bool:
        limit = policy[bound]
        if limit is None:
            return False
        assert isinstance(limit, int)
        return when(total, limit) if bound == wrong else total > limit

    return {"_exceeds": exceeds}


def edited(edit: Callable[[Record], None]) -> Answering:
    """Answer with a receipt that was edited and signed again."""

    def answering(policy: object, steps: object) -> Answer:
        answer = _evaluate(policy, steps)
        receipt = object_of(answer.get("receipt"))
        if receipt is None:
            return answer
        edited = dict(receipt)
        edit(edited)
        body = {name: value for name, value in edited.items() if name != "receipt_sha256"}
        return {"receipt": {**body, "receipt_sha256": digest_of(body)}}

    return answering


def rows_swapped(release: str, first: str, second: str) -> dict[str, object]:
    table = list(naive.PRECEDENCE[release])
    one, other = table.index(first), table.index(second)
    table[one], table[other] = second, first
    return {"PRECEDENCE": {**naive.PRECEDENCE, release: tuple(table)}}


def adjacent_pairs(release: str) -> list[tuple[str, str]]:
    """Return the pairs that can fire together with no row between that can fire with either."""
    table = naive.precedence(release)
    possible = set(possible_pairs(release))
    found: list[tuple[str, str]] = []
    for place, first in enumerate(table):
        later = [second for second in table[place + 1 :] if (first, second) in possible]
        found += [(first, second) for second in later[:1]]
    return found


def deadline_strict(names: set[str], policy: Record, steps: list[Record], index: int) -> None:
    if steps[index]["completed_at_unix_ms"] == policy["deadline_unix_ms"]:
        names.discard("deadline_exceeded")


def deadline_in(unit: Callable[[int], int]) -> dict[str, object]:
    def change(names: set[str], policy: Record, steps: list[Record], index: int) -> None:
        names.discard("deadline_exceeded")
        now = number_of(steps[index], "completed_at_unix_ms")
        if unit(now) >= unit(number_of(policy, "deadline_unix_ms")):
            names.add("deadline_exceeded")

    return refire(change)


def cost_in_units(names: set[str], policy: Record, steps: list[Record], index: int) -> None:
    names.discard("cost_budget_exhausted")
    spent = 0.0
    for step in steps[: index + 1]:
        spent += number_of(step, "cost_microunits_delta") / 1_000_000
    if spent > number_of(policy, "max_cost_microunits") / 1_000_000:
        names.add("cost_budget_exhausted")


def complete_when(
    proven: Callable[[Record, list[Record]], bool],
) -> dict[str, object]:
    """Complete a finish under another condition on its step and the steps before."""

    def change(names: set[str], policy: Record, steps: list[Record], index: int) -> None:
        del policy
        if steps[index]["action_kind"] == "finish":
            names -= {"completed", "invalid_completion"}
            is_proven = proven(steps[index], steps[:index])
            names.add("completed" if is_proven else "invalid_completion")

    return refire(change)


def without_proof(step: Record, earlier: list[Record]) -> bool:
    del earlier
    return step["outcome"] == "succeeded"


def with_old_proof(step: Record, earlier: list[Record]) -> bool:
    proof = step["completion_receipt_sha256"]
    listed = [digest for each in (*earlier, step) for digest in evidence_of(each)]
    return step["outcome"] == "succeeded" and proof in listed


def with_last_proof(step: Record, earlier: list[Record]) -> bool:
    proof, own = step["completion_receipt_sha256"], evidence_of(step)
    seen = {digest for each in earlier for digest in evidence_of(each)}
    return step["outcome"] == "succeeded" and own[-1:] == [proof] and proof not in seen


def own_evidence(steps: list[Record], index: int) -> set[str]:
    return set(evidence_of(steps[index]))


def fresh_of_succeeded(steps: list[Record], index: int) -> set[str]:
    earlier = [step for step in steps[:index] if step["outcome"] == "succeeded"]
    return set(evidence_of(steps[index])) - {d for step in earlier for d in evidence_of(step)}


def usage_twice(steps: list[Record]) -> dict[str, int]:
    listed = sum(len(evidence_of(step)) for step in steps)
    return {**_usage(steps), "evidence_receipts": listed}


def idle_in_all(steps: list[Record], index: int, progress: list[bool]) -> int:
    del progress
    return sum(1 for n in range(index + 1) if not _is_progress(steps, n))


def idle_from_wait(steps: list[Record], index: int, progress: list[bool]) -> int:
    count = 0
    for earlier in range(index, -1, -1):
        if progress[earlier] or steps[earlier]["action_kind"] == "wait":
            break
        count += 1
    return count


def idle_from_one(steps: list[Record], index: int, progress: list[bool]) -> int:
    count = 0
    for earlier in range(index, -1, -1):
        if progress[earlier]:
            return count
        count += int(steps[earlier]["action_kind"] != "wait")
    return count + 1


def same_in_all(acts: list[Record]) -> int:
    return sum(1 for act in acts if act["action_sha256"] == acts[-1]["action_sha256"])


def same_by(cut: Callable[[str], str]) -> dict[str, object]:
    def same(acts: list[Record]) -> int:
        count = 0
        for act in reversed(acts):
            if cut(text_of(act, "action_sha256")) != cut(text_of(acts[-1], "action_sha256")):
                break
            count += 1
        return count

    return {"_same": same}


def unless(forgiven: Callable[[str, list[Record], int], bool]) -> dict[str, object]:
    """Forgive some defects of steps."""

    def step_code(policy: Record, steps: list[Record], index: int) -> str | None:
        code = _step_code(policy, steps, index)
        return None if code is not None and forgiven(code, steps, index) else code

    return {"_step_code": step_code}


def tokens_alone(code: str, steps: list[Record], index: int) -> bool:
    step = steps[index]
    deltas = tuple(number_of(step, f"{n}_delta") for n in ("model_calls", "tool_calls", "repairs"))
    return code == "usage_mismatch" and deltas in naive.DELTAS[text_of(step, "action_kind")]


def gap_after_time(policy: Record, steps: list[Record], index: int) -> str | None:
    code = _step_code(policy, steps, index)
    if code != "sequence_gap":
        return code
    mended = [*steps[:index], {**steps[index], "sequence": index + 1}]
    return _step_code(policy, mended, index) or code


def cycles_by(
    length_extra: int = 0, pair: tuple[str, ...] = ("action_sha256", "state_after_sha256"),
    *, equal: bool = False, repeats_extra: int = 0,
) -> dict[str, object]:  # fmt: skip
    """Find cycles by another definition."""

    def is_cycle(policy: Record, acts: list[Record]) -> bool:
        if policy["max_cycle_length"] is None:
            return False
        pairs = [tuple(act[name] for name in pair) for act in acts]
        for length in range(2, number_of(policy, "max_cycle_length") + 1 + length_extra):
            count = length * (number_of(policy, "cycle_repeats") + repeats_extra)
            window = pairs[-count:]
            differs = equal or len(set(window[:length])) > 1
            if len(window) == count and window[length:] == window[:-length] and differs:
                return True
        return False

    return {"_is_cycle": is_cycle}


def ignore_late(policy: object, steps: object) -> Answer:
    answer = _evaluate(policy, steps)
    error = object_of(answer.get("error")) or {}
    if error.get("code") == "post_terminal_step":
        return _evaluate(policy, array_of(steps)[: number_of(error, "step")])
    return answer


def late_without_verdict(policy: object, steps: object) -> Answer:
    error = object_of(_evaluate(policy, steps).get("error")) or {}
    if "terminal" in error:
        return {"error": {name: error[name] for name in ("code", "path", "step", "message")}}
    return _evaluate(policy, steps)


def null_is_zero(total: int, policy: Record, bound: str) -> bool:
    limit = policy[bound] or 0
    assert isinstance(limit, int)
    extended = policy["evaluator_release"] == EXTENDED or bound not in naive.EXTENDED_FIELDS
    return extended and total > limit


def crash_on_empty(policy: object, steps: object) -> Answer:
    if steps == []:
        raise TargetError("crash", "list index out of range")
    return _evaluate(policy, steps)


def untyped_error(policy: object, steps: object) -> Answer:
    answer = _evaluate(policy, steps)
    return {"error": {"code": "internal"}} if "error" in answer else answer


def lenient(value: object) -> object:
    """Return a value as a careless reader takes it: booleans and whole floats are integers."""
    found = object_of(value)
    if found is not None:
        return {key: lenient(child) for key, child in found.items()}
    if isinstance(value, list):
        return [lenient(child) for child in array_of(cast("object", value))]
    if isinstance(value, bool) or (isinstance(value, float) and value.is_integer()):
        return int(value)
    return value


def read_by(read: Callable[[bytes], object]) -> Callable[[bytes], Answer]:
    """Read texts with another reader first, and strictly where it fails."""

    def reading(data: bytes) -> Answer:
        try:
            value = object_of(read(data))
        except ValueError:
            return naive.evaluate_bytes(data)
        if value is None:
            return naive.evaluate_bytes(data)
        return _evaluate(value.get("policy"), value.get("steps"))

    return reading


def drop_unknown(data: bytes) -> object:
    value = as_record(json.loads(data))
    policy, steps = as_record(value["policy"]), [as_record(s) for s in array_of(value["steps"])]
    error = object_of(_evaluate(policy, steps).get("error")) or {}
    if str(error.get("path")).endswith(".extra"):
        for record in (policy, *steps):
            record.pop("extra", None)
    return {"policy": policy, "steps": steps}


class Remembering:
    """Evidence of earlier runs counts as seen, too."""

    def __init__(self) -> None:
        self.seen: set[str] = set()

    def fresh(self, steps: list[Record], index: int) -> set[str]:
        own = set(evidence_of(steps[index])) - self.seen
        own -= {digest for step in steps[:index] for digest in evidence_of(step)}
        return own

    def answering(self, policy: object, steps: object) -> Answer:
        answer = _evaluate(policy, steps)
        for step in array_of(steps):
            self.seen.update(evidence_of(as_record(step)))
        return answer


def turn_violations(receipt: Record) -> None:
    receipt["violations"] = array_of(receipt["violations"])[::-1]


def cut_violations(receipt: Record) -> None:
    receipt["violations"] = array_of(receipt["violations"])[:1]
