"""Evaluators that are wrong in one way each, for the tests that show that every check can fail.

Theory of operation: each is the naive model with one function or table replaced while it answers.
The checks call the unchanged model for their oracle, outside of that time.
"""

import json
from collections.abc import Callable
from contextlib import ExitStack
from dataclasses import dataclass, field
from typing import Literal
from unittest.mock import patch

from loopcore.testing import naive
from loopcore.testing.building import number_of
from loopcore.testing.contract import Answer, EvaluatorTarget, Json
from loopcore.testing.damage import document
from loopcore.testing.naive_wire import INTEGER_MAX, RELEASES, Record, as_record, digest_of
from properties.core.wrong_parts import (
    Answering,
    Remembering,
    adjacent_pairs,
    complete_when,
    cost_in_units,
    crash_on_empty,
    cut_violations,
    cycles_by,
    deadline_in,
    deadline_strict,
    drop_unknown,
    edited,
    exceeds_when,
    fresh_of_succeeded,
    gap_after_time,
    idle_from_one,
    idle_from_wait,
    idle_in_all,
    ignore_late,
    late_without_verdict,
    lenient,
    null_is_zero,
    own_evidence,
    read_by,
    refire,
    rows_swapped,
    same_by,
    same_in_all,
    tokens_alone,
    turn_violations,
    unless,
    untyped_error,
    usage_twice,
    with_last_proof,
    with_old_proof,
    without_proof,
)


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
    answering: Answering = naive.evaluate
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


def wrong_evaluators() -> list[Wrong]:
    """Return all of them, each with the property that must find it."""
    memory = Remembering()
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
                answering=edited(turn_violations),
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
                replaced=rows_swapped(release, first, second),
            )
            for first, second in adjacent_pairs(release)
        ]
    return found


def _wrong_verdicts() -> list[Wrong]:
    return [
        Wrong(name="violations unordered", killer="E02", answering=edited(turn_violations)),
        Wrong(name="violations cut to the winner", killer="E02", answering=edited(cut_violations)),
        Wrong(name="idle starts at one", killer="E03", replaced={"_idle": idle_from_one}),
        Wrong(name="late steps ignored", killer="E04", answering=ignore_late),
        Wrong(name="late steps lose the verdict", killer="E04", answering=late_without_verdict),
        Wrong(name="null is zero", killer="E05", replaced={"_exceeds": null_is_zero}),
        Wrong(name="deadline strict", killer="E06", replaced=refire(deadline_strict)),
        Wrong(name="cost in whole units", killer="E06", replaced=refire(cost_in_units)),
        *(
            Wrong(
                name=f"{bound} reached instead of exceeded",
                killer="E06",
                replaced=exceeds_when(bound, lambda total, limit: total >= limit),
            )
            for _, bound in naive.BOUNDS.values()
        ),
        Wrong(name="finish without proof", killer="E07", replaced=complete_when(without_proof)),
        Wrong(name="old proof accepted", killer="E07", replaced=complete_when(with_old_proof)),
        Wrong(name="proof must be last", killer="E12", replaced=complete_when(with_last_proof)),
        Wrong(
            name="deadline in seconds", killer="E10", replaced=deadline_in(lambda ms: ms // 1000)
        ),
        Wrong(
            name="deadline in 32 bits",
            killer="E10",
            replaced=deadline_in(lambda ms: ms & 0xFFFFFFFF),
        ),
    ]


def _wrong_counts() -> list[Wrong]:
    return [
        Wrong(name="freshness forgotten", killer="E08", replaced={"_fresh": own_evidence}),
        Wrong(name="evidence counted twice", killer="E08", replaced={"_usage": usage_twice}),
        Wrong(name="failed evidence unseen", killer="E08", replaced={"_fresh": fresh_of_succeeded}),
        Wrong(
            name="actions told apart by their beginning",
            killer="E09",
            replaced=same_by(lambda text: text[:16]),
        ),
        Wrong(
            name="actions told apart by their end",
            killer="E09",
            replaced=same_by(lambda text: text[-16:]),
        ),
        Wrong(name="idle not reset", killer="E16", replaced={"_idle": idle_in_all}),
        Wrong(name="same not reset", killer="E16", replaced={"_same": same_in_all}),
        Wrong(name="late steps ignored one by one", killer="E16", advancing=ignore_late),
    ]


_FORGIVEN = (
    "sequence_gap",
    "duplicate_evidence",
    "unexpected_completion_receipt",
    "usage_overflow",
)


def only(code: str) -> Callable[[str, list[Record], int], bool]:
    """Forgive one code."""
    return lambda found, steps, index: found == code


def _wrong_defects() -> list[Wrong]:
    forgiven: dict[str, Callable[[str, list[Record], int], bool]] = {
        "first time unchecked": lambda code, steps, index: code == "time_regression" and not index,
        "first state unchecked": lambda code, s, index: code == "state_chain_broken" and not index,
        "tokens without a model call": tokens_alone,
        **{f"{code} unchecked": only(code) for code in _FORGIVEN},
    }
    found = [
        Wrong(name=name, killer="E11", replaced=unless(rule)) for name, rule in forgiven.items()
    ]
    found.append(Wrong(name="gap told last", killer="E11", replaced={"_step_code": gap_after_time}))
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
        Wrong(name="longest cycle missed", killer="E17", replaced=cycles_by(-1)),
        Wrong(name="cycle one too long", killer="E17", replaced=cycles_by(1)),
        Wrong(name="state ignored", killer="E17", replaced=cycles_by(pair=("action_sha256",))),
        Wrong(
            name="action ignored", killer="E17", replaced=cycles_by(pair=("state_after_sha256",))
        ),
        Wrong(name="equal pairs are a cycle", killer="E17", replaced=cycles_by(equal=True)),
        Wrong(name="one round less", killer="E17", replaced=cycles_by(repeats_extra=-1)),
        Wrong(name="waits reset idle", killer="E06", replaced={"_idle": idle_from_wait}),
    ]


def _wrong_texts() -> list[Wrong]:
    def careless(policy: object, steps: object) -> Answer:
        return naive.evaluate(lenient(policy), lenient(steps))

    return [
        Wrong(name="last of equal keys wins", killer="E14", reading=read_by(json.loads)),
        Wrong(
            name="booleans and floats accepted",
            killer="E14",
            reading=read_by(lambda data: lenient(json.loads(data))),
        ),
        Wrong(name="unknown fields accepted", killer="E14", reading=read_by(drop_unknown)),
        Wrong(
            name="byte-order mark accepted",
            killer="E14",
            reading=lambda data: naive.evaluate_bytes(data.removeprefix(b"\xef\xbb\xbf")),
        ),
        Wrong(
            name="trailing bytes accepted",
            killer="E14",
            reading=read_by(lambda data: json.JSONDecoder().raw_decode(data.decode())[0]),
        ),
        Wrong(name="booleans accepted", killer="E18", answering=careless, wire="values"),
        Wrong(name="crash on an empty trace", killer="E15", answering=crash_on_empty),
        Wrong(name="errors without a code", killer="E15", answering=untyped_error),
    ]


def _wrong_receipts() -> list[Wrong]:
    def unnamed(receipt: Record) -> None:
        receipt["policy_sha256"] = digest_of("some policy")

    def swapped(receipt: Record) -> None:
        usage = as_record(receipt["usage"])
        receipt["usage"] = {**usage, "input_tokens": usage["output_tokens"]}

    def ended_early(receipt: Record) -> None:
        receipt["ended_at_unix_ms"] = receipt["started_at_unix_ms"]

    def overflown(receipt: Record) -> None:
        usage = as_record(receipt["usage"])
        cost = min(number_of(usage, "cost_microunits"), INTEGER_MAX // 4)
        receipt["usage"] = {**usage, "cost_microunits": cost}

    return [
        Wrong(name="policy not named by its digest", killer="E13", answering=edited(unnamed)),
        Wrong(name="token counts swapped", killer="E18", answering=edited(swapped)),
        Wrong(name="end is the start", killer="E03", answering=edited(ended_early)),
        Wrong(name="large costs cut", killer="E06", answering=edited(overflown)),
    ]
