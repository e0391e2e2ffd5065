"""Evaluators that are wrong in one way each, for the tests that show that every check can fail.

Theory of operation: each is the naive model with one function or table replaced while it answers.
The checks call the unchanged model for their oracle, outside of that time.
"""

import json
from collections.abc import Callable
from contextlib import ExitStack
from dataclasses import dataclass, field
from typing import Literal, cast
from unittest.mock import patch

from loopcore.errors import TargetError
from loopcore.testing import naive
from loopcore.testing.building import evidence_of, number_of, text_of
from loopcore.testing.contract import Answer, EvaluatorTarget, Json
from loopcore.testing.damage import document
from loopcore.testing.naive_wire import INTEGER_MAX, RELEASES, Record, digest_of
from loopcore.testing.pairs import possible_pairs

Fired = Callable[[Record, list[Record], int, list[bool]], list[str]]
Answering = Callable[[object, object], Answer]

REFERENCE, EXTENDED = RELEASES
_NAIVE = vars(naive)
_fired = cast("Fired", _NAIVE["_fired"])
_step_code = cast("Callable[[Record, list[Record], int], str | None]", _NAIVE["_step_code"])
_is_progress = cast("Callable[[list[Record], int], bool]", _NAIVE["_is_progress"])
_usage = cast("Callable[[list[Record]], dict[str, int]]", _NAIVE["_usage"])
_evaluate = naive.evaluate


@dataclass(slots=True, kw_only=True)
class Wrong:
    """A target that is the naive model with replacements, and then something done to its answer.

    Fields:
        killer: the property that must find it; replaced: names in `naive` and what stands there.
        answering, reading, advancing: other ways to answer values, texts and step by step.
        again: what `fresh` gives, if not the same evaluator.
    """

    name: str
    killer: str
    replaced: dict[str, object] = field(default_factory=dict[str, object])
    answering: Answering = _evaluate
    reading: Callable[[bytes], Answer] = naive.evaluate_bytes
    advancing: Answering | None = None
    again: EvaluatorTarget | None = None
    version: str = "wrong"
    releases: tuple[str, ...] = RELEASES
    wire: Literal["bytes", "values"] = "bytes"
    incremental: bool = True

    def _patched(self) -> ExitStack:
        stack = ExitStack()
        for name, replacement in self.replaced.items():
            stack.enter_context(patch.object(naive, name, replacement))
        return stack

    def evaluate(self, policy: Json, steps: Json) -> Answer:
        with self._patched():
            return self.answering(policy, steps)

    def evaluate_text(self, policy: bytes, steps: bytes) -> Answer:
        return self.evaluate_line(document(policy, steps))

    def evaluate_line(self, data: bytes) -> Answer:
        with self._patched():
            return self.reading(data)

    def advance(self, policy: Json, steps: Json) -> list[Answer]:
        assert isinstance(steps, list)
        with self._patched():
            answering = self.advancing or self.answering
            return [answering(policy, steps[:length]) for length in range(len(steps) + 1)]

    def fresh(self) -> EvaluatorTarget:
        return self if self.again is None else self.again

    def close(self) -> None:
        """Do nothing; there is no process."""


# --- parts --------------------------------------------------------------------------------------


def _refire(change: Callable[[set[str], Record, list[Record], int], None]) -> dict[str, object]:
    """Replace what fires on a step by a changed set, in the table's order."""

    def fired(policy: Record, steps: list[Record], index: int, progress: list[bool]) -> list[str]:
        names = set(_fired(policy, steps, index, progress))
        change(names, policy, steps, index)
        return [name for name in naive.precedence(str(policy["evaluator_release"])) if name in names]

    return {"_fired": fired}


def _exceeds(wrong: str, when: Callable[[int, int], bool]) -> dict[str, object]:
    """Replace the comparison of one bound."""

    def exceeds(total: int, policy: Record, bound: str) -> bool:
        limit = policy[bound]
        if limit is None:
            return False
        assert isinstance(limit, int)
        return when(total, limit) if bound == wrong else total > limit

    return {"_exceeds": exceeds}


def _edited(edit: Callable[[Record], None]) -> Answering:
    """Answer with a receipt that was edited and signed again."""

    def answering(policy: object, steps: object) -> Answer:
        answer = _evaluate(policy, steps)
        receipt = answer.get("receipt")
        if not isinstance(receipt, dict):
            return answer
        edited: Record = dict(receipt)
        edit(edited)
        body = {name: value for name, value in edited.items() if name != "receipt_sha256"}
        return {"receipt": {**body, "receipt_sha256": digest_of(body)}}

    return answering


def _rows_swapped(release: str, first: str, second: str) -> dict[str, object]:
    table = list(naive.PRECEDENCE[release])
    one, other = table.index(first), table.index(second)
    table[one], table[other] = second, first
    return {"PRECEDENCE": {**naive.PRECEDENCE, release: tuple(table)}}


def _adjacent_pairs(release: str) -> list[tuple[str, str]]:
    """Return the pairs that can fire together with no row between that can fire with either."""
    table = naive.precedence(release)
    possible = set(possible_pairs(release))
    found: list[tuple[str, str]] = []
    for place, first in enumerate(table):
        later = [second for second in table[place + 1 :] if (first, second) in possible]
        found += [(first, second) for second in later[:1]]
    return found


def _deadline_strict(names: set[str], policy: Record, steps: list[Record], index: int) -> None:
    if steps[index]["completed_at_unix_ms"] == policy["deadline_unix_ms"]:
        names.discard("deadline_exceeded")


def _deadline_in(unit: Callable[[int], int]) -> dict[str, object]:
    def change(names: set[str], policy: Record, steps: list[Record], index: int) -> None:
        names.discard("deadline_exceeded")
        now = number_of(steps[index], "completed_at_unix_ms")
        if unit(now) >= unit(number_of(policy, "deadline_unix_ms")):
            names.add("deadline_exceeded")

    return _refire(change)


def _cost_in_units(names: set[str], policy: Record, steps: list[Record], index: int) -> None:
    names.discard("cost_budget_exhausted")
    spent = 0.0
    for step in steps[: index + 1]:
        spent += number_of(step, "cost_microunits_delta") / 1_000_000
    if spent > number_of(policy, "max_cost_microunits") / 1_000_000:
        names.add("cost_budget_exhausted")


def _complete_when(
    proven: Callable[[Record, list[Record]], bool],
) -> dict[str, object]:
    """Complete a finish under another condition on its step and the steps before."""

    def change(names: set[str], policy: Record, steps: list[Record], index: int) -> None:
        del policy
        if steps[index]["action_kind"] == "finish":
            names -= {"completed", "invalid_completion"}
            is_proven = proven(steps[index], steps[:index])
            names.add("completed" if is_proven else "invalid_completion")

    return _refire(change)


def _without_proof(step: Record, earlier: list[Record]) -> bool:
    del earlier
    return step["outcome"] == "succeeded"


def _with_old_proof(step: Record, earlier: list[Record]) -> bool:
    proof = step["completion_receipt_sha256"]
    listed = [digest for each in (*earlier, step) for digest in evidence_of(each)]
    return step["outcome"] == "succeeded" and proof in listed


def _with_last_proof(step: Record, earlier: list[Record]) -> bool:
    proof, own = step["completion_receipt_sha256"], evidence_of(step)
    seen = {digest for each in earlier for digest in evidence_of(each)}
    return step["outcome"] == "succeeded" and own[-1:] == [proof] and proof not in seen


def _own_evidence(steps: list[Record], index: int) -> set[object]:
    return set(evidence_of(steps[index]))


def _fresh_of_succeeded(steps: list[Record], index: int) -> set[object]:
    earlier = [step for step in steps[:index] if step["outcome"] == "succeeded"]
    return set(evidence_of(steps[index])) - {d for step in earlier for d in evidence_of(step)}


def _usage_twice(steps: list[Record]) -> dict[str, int]:
    listed = sum(len(evidence_of(step)) for step in steps)
    return {**_usage(steps), "evidence_receipts": listed}


def _idle_in_all(steps: list[Record], index: int, progress: list[bool]) -> int:
    del progress
    return sum(1 for n in range(index + 1) if not _is_progress(steps, n))


def _idle_from_wait(steps: list[Record], index: int, progress: list[bool]) -> int:
    count = 0
    for earlier in range(index, -1, -1):
        if progress[earlier] or steps[earlier]["action_kind"] == "wait":
            break
        count += 1
    return count


def _idle_from_one(steps: list[Record], index: int, progress: list[bool]) -> int:
    count = 0
    for earlier in range(index, -1, -1):
        if progress[earlier]:
            return count
        count += int(steps[earlier]["action_kind"] != "wait")
    return count + 1


def _same_in_all(acts: list[Record]) -> int:
    return sum(1 for act in acts if act["action_sha256"] == acts[-1]["action_sha256"])


def _same_by(cut: Callable[[str], str]) -> dict[str, object]:
    def same(acts: list[Record]) -> int:
        count = 0
        for act in reversed(acts):
            if cut(text_of(act, "action_sha256")) != cut(text_of(acts[-1], "action_sha256")):
                break
            count += 1
        return count

    return {"_same": same}


def _unless(forgiven: Callable[[str, list[Record], int], bool]) -> dict[str, object]:
    """Forgive some defects of steps."""

    def step_code(policy: Record, steps: list[Record], index: int) -> str | None:
        code = _step_code(policy, steps, index)
        return None if code is not None and forgiven(code, steps, index) else code

    return {"_step_code": step_code}


def _tokens_alone(code: str, steps: list[Record], index: int) -> bool:
    step = steps[index]
    deltas = tuple(number_of(step, f"{n}_delta") for n in ("model_calls", "tool_calls", "repairs"))
    return code == "usage_mismatch" and deltas in naive.DELTAS[text_of(step, "action_kind")]


def _gap_after_time(policy: Record, steps: list[Record], index: int) -> str | None:
    code = _step_code(policy, steps, index)
    if code != "sequence_gap":
        return code
    mended = [*steps[:index], {**steps[index], "sequence": index + 1}]
    return _step_code(policy, mended, index) or code


def _cycles(
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
            if len(window) == count and window[length:] == window[:-length]:
                if equal or len(set(window[:length])) > 1:
                    return True
        return False

    return {"_is_cycle": is_cycle}


def _ignore_late(policy: object, steps: object) -> Answer:
    answer = _evaluate(policy, steps)
    error = answer.get("error")
    if isinstance(error, dict) and error["code"] == "post_terminal_step":
        assert isinstance(steps, list)
        return _evaluate(policy, steps[: error["step"]])
    return answer


def _late_without_verdict(policy: object, steps: object) -> Answer:
    error = _evaluate(policy, steps).get("error")
    if isinstance(error, dict) and "terminal" in error:
        return {"error": {name: error[name] for name in ("code", "path", "step", "message")}}
    return _evaluate(policy, steps)


def _null_is_zero(total: int, policy: Record, bound: str) -> bool:
    limit = policy[bound] or 0
    assert isinstance(limit, int)
    extended = policy["evaluator_release"] == EXTENDED or bound not in naive.EXTENDED_FIELDS
    return extended and total > limit


def _crash_on_empty(policy: object, steps: object) -> Answer:
    if steps == []:
        raise TargetError("crash", "list index out of range")
    return _evaluate(policy, steps)


def _untyped_error(policy: object, steps: object) -> Answer:
    answer = _evaluate(policy, steps)
    return {"error": {"code": "internal"}} if "error" in answer else answer


def _lenient(value: object) -> object:
    """Return a value as a careless reader takes it: booleans and whole floats are integers."""
    if isinstance(value, dict):
        return {key: _lenient(child) for key, child in value.items()}
    if isinstance(value, list):
        return [_lenient(child) for child in value]
    if isinstance(value, bool) or (isinstance(value, float) and value.is_integer()):
        return int(value)
    return value


def _read_by(read: Callable[[bytes], object]) -> Callable[[bytes], Answer]:
    """Read texts with another reader first, and strictly where it fails."""

    def reading(data: bytes) -> Answer:
        try:
            value = read(data)
        except ValueError:
            return naive.evaluate_bytes(data)
        if not isinstance(value, dict):
            return naive.evaluate_bytes(data)
        return _evaluate(value.get("policy"), value.get("steps"))

    return reading


def _drop_unknown(data: bytes) -> object:
    value = json.loads(data)
    known = _evaluate(value["policy"], value["steps"])
    error = known.get("error")
    while isinstance(error, dict) and str(error["path"]).endswith(".extra"):
        for record in (value["policy"], *value["steps"]):
            record.pop("extra", None)
        error = _evaluate(value["policy"], value["steps"]).get("error")
    return value


class _Remembering:
    """Evidence of earlier runs counts as seen, too."""

    def __init__(self) -> None:
        self.seen: set[object] = set()

    def fresh(self, steps: list[Record], index: int) -> set[object]:
        own = set(evidence_of(steps[index])) - self.seen
        own -= {digest for step in steps[:index] for digest in evidence_of(step)}
        return own

    def answering(self, policy: object, steps: object) -> Answer:
        answer = _evaluate(policy, steps)
        if isinstance(steps, list):
            self.seen.update(digest for step in steps for digest in evidence_of(step))
        return answer


# --- the evaluators -----------------------------------------------------------------------------


def wrong_evaluators() -> list[Wrong]:
    """Return all of them, each with the property that must find it."""
    memory = _Remembering()
    found = [
        Wrong(
            name="remembers evidence of other runs",
            killer="E01",
            replaced={"_fresh": memory.fresh},
            answering=memory.answering,
        ),
        Wrong(
            name="orders violations by hash seed",
            killer="E01",
            again=Wrong(
                name="the same in another process",
                killer="E01",
                answering=_edited(_turn_violations),
            ),
        ),
        *_wrong_verdicts(),
        *_wrong_counts(),
        *_wrong_defects(),
        *_wrong_cycles(),
        *_wrong_texts(),
        *_wrong_receipts(),
    ]
    for release in RELEASES:
        found += [
            Wrong(
                name=f"{first} below {second} in {release}",
                killer="E02",
                replaced=_rows_swapped(release, first, second),
            )
            for first, second in _adjacent_pairs(release)
        ]
    return found


def _turn_violations(receipt: Record) -> None:
    violations = receipt["violations"]
    assert isinstance(violations, list)
    receipt["violations"] = violations[::-1]


def _cut_violations(receipt: Record) -> None:
    violations = receipt["violations"]
    assert isinstance(violations, list)
    receipt["violations"] = violations[:1]


def _wrong_verdicts() -> list[Wrong]:
    return [
        Wrong(name="violations unordered", killer="E02", answering=_edited(_turn_violations)),
        Wrong(name="violations cut to the winner", killer="E02", answering=_edited(_cut_violations)),
        Wrong(name="idle starts at one", killer="E03", replaced={"_idle": _idle_from_one}),
        Wrong(name="late steps ignored", killer="E04", answering=_ignore_late),
        Wrong(name="late steps lose the verdict", killer="E04", answering=_late_without_verdict),
        Wrong(name="null is zero", killer="E05", replaced={"_exceeds": _null_is_zero}),
        Wrong(name="deadline strict", killer="E06", replaced=_refire(_deadline_strict)),
        Wrong(name="cost in whole units", killer="E06", replaced=_refire(_cost_in_units)),
        *(
            Wrong(
                name=f"{bound} reached instead of exceeded",
                killer="E06",
                replaced=_exceeds(bound, lambda total, limit: total >= limit),
            )
            for _, bound in naive.BOUNDS.values()
        ),
        Wrong(name="finish without proof", killer="E07", replaced=_complete_when(_without_proof)),
        Wrong(name="old proof accepted", killer="E07", replaced=_complete_when(_with_old_proof)),
        Wrong(name="proof must be last", killer="E12", replaced=_complete_when(_with_last_proof)),
        Wrong(name="deadline in seconds", killer="E10", replaced=_deadline_in(lambda ms: ms // 1000)),
        Wrong(
            name="deadline in 32 bits",
            killer="E10",
            replaced=_deadline_in(lambda ms: ms & 0xFFFFFFFF),
        ),
    ]


def _wrong_counts() -> list[Wrong]:
    return [
        Wrong(name="freshness forgotten", killer="E08", replaced={"_fresh": _own_evidence}),
        Wrong(name="evidence counted twice", killer="E08", replaced={"_usage": _usage_twice}),
        Wrong(name="failed evidence unseen", killer="E08", replaced={"_fresh": _fresh_of_succeeded}),
        Wrong(
            name="actions told apart by their beginning",
            killer="E09",
            replaced=_same_by(lambda text: text[:16]),
        ),
        Wrong(
            name="actions told apart by their end",
            killer="E09",
            replaced=_same_by(lambda text: text[-16:]),
        ),
        Wrong(name="idle not reset", killer="E16", replaced={"_idle": _idle_in_all}),
        Wrong(name="same not reset", killer="E16", replaced={"_same": _same_in_all}),
        Wrong(name="late steps ignored one by one", killer="E16", advancing=_ignore_late),
    ]


def _wrong_defects() -> list[Wrong]:
    forgiven: dict[str, Callable[[str, list[Record], int], bool]] = {
        "first time unchecked": lambda code, steps, index: code == "time_regression" and not index,
        "first state unchecked": lambda code, s, index: code == "state_chain_broken" and not index,
        "tokens without a model call": _tokens_alone,
        **{
            f"{code} unchecked": lambda found, steps, index, code=code: found == code
            for code in (
                "sequence_gap",
                "duplicate_evidence",
                "unexpected_completion_receipt",
                "usage_overflow",
            )
        },
    }
    found = [
        Wrong(name=name, killer="E11", replaced=_unless(rule)) for name, rule in forgiven.items()
    ]
    found.append(
        Wrong(name="gap told last", killer="E11", replaced={"_step_code": _gap_after_time})
    )
    found.append(
        Wrong(
            name="repair by a model refused",
            killer="E18",
            replaced={"DELTAS": {**naive.DELTAS, "repair": ((0, 0, 1),)}},
        )
    )
    return found


def _wrong_cycles() -> list[Wrong]:
    return [
        Wrong(name="longest cycle missed", killer="E17", replaced=_cycles(-1)),
        Wrong(name="cycle one too long", killer="E17", replaced=_cycles(1)),
        Wrong(name="state ignored", killer="E17", replaced=_cycles(pair=("action_sha256",))),
        Wrong(name="action ignored", killer="E17", replaced=_cycles(pair=("state_after_sha256",))),
        Wrong(name="equal pairs are a cycle", killer="E17", replaced=_cycles(equal=True)),
        Wrong(name="one round less", killer="E17", replaced=_cycles(repeats_extra=-1)),
        Wrong(name="waits reset idle", killer="E06", replaced={"_idle": _idle_from_wait}),
    ]


def _wrong_texts() -> list[Wrong]:
    def careless(policy: object, steps: object) -> Answer:
        return _evaluate(_lenient(policy), _lenient(steps))

    return [
        Wrong(name="last of equal keys wins", killer="E14", reading=_read_by(json.loads)),
        Wrong(
            name="booleans and floats accepted",
            killer="E14",
            reading=_read_by(lambda data: _lenient(json.loads(data))),
        ),
        Wrong(name="unknown fields accepted", killer="E14", reading=_read_by(_drop_unknown)),
        Wrong(
            name="byte-order mark accepted",
            killer="E14",
            reading=lambda data: naive.evaluate_bytes(data.removeprefix(b"\xef\xbb\xbf")),
        ),
        Wrong(
            name="trailing bytes accepted",
            killer="E14",
            reading=_read_by(lambda data: json.JSONDecoder().raw_decode(data.decode())[0]),
        ),
        Wrong(name="booleans accepted", killer="E18", answering=careless, wire="values"),
        Wrong(name="crash on an empty trace", killer="E15", answering=_crash_on_empty),
        Wrong(name="errors without a code", killer="E15", answering=_untyped_error),
    ]


def _wrong_receipts() -> list[Wrong]:
    def unnamed(receipt: Record) -> None:
        receipt["policy_sha256"] = digest_of("some policy")

    def swapped(receipt: Record) -> None:
        usage = receipt["usage"]
        assert isinstance(usage, dict)
        receipt["usage"] = {**usage, "input_tokens": usage["output_tokens"]}

    def ended_early(receipt: Record) -> None:
        receipt["ended_at_unix_ms"] = receipt["started_at_unix_ms"]

    def overflown(receipt: Record) -> None:
        usage = receipt["usage"]
        assert isinstance(usage, dict)
        cost = min(int(usage["cost_microunits"]), INTEGER_MAX // 4)
        receipt["usage"] = {**usage, "cost_microunits": cost}

    return [
        Wrong(name="policy not named by its digest", killer="E13", answering=_edited(unnamed)),
        Wrong(name="token counts swapped", killer="E18", answering=_edited(swapped)),
        Wrong(name="end is the start", killer="E03", answering=_edited(ended_early)),
        Wrong(name="large costs cut", killer="E06", answering=_edited(overflown)),
    ]
