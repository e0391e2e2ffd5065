"""Seeded random trace documents, valid and damaged: raw material for comparing implementations.

Plain `random` rather than a strategy: nothing is shrunk here, and tens of thousands of documents
are wanted quickly. The bounds are small and the digests few, so that rules fire and collide.
"""

from __future__ import annotations

import hashlib
import json
import random
from dataclasses import dataclass
from typing import TypeAlias, cast

Value: TypeAlias = "dict[str, object]"

STATES = [hashlib.sha256(f"state {number}".encode()).hexdigest() for number in range(4)]
EVIDENCE = [hashlib.sha256(f"evidence {number}".encode()).hexdigest() for number in range(16)]
DELTAS = {
    "model_generation": (1, 0, 0),
    "tool_call": (0, 1, 0),
    "verification": (0, 0, 0),
    "repair": (0, 0, 1),
    "finish": (0, 0, 0),
    "wait": (0, 1, 0),
}
JUNK: list[object] = [
    None, True, False, -1, 0, 1, 2**53, 2**53 - 1, 1.5, "", "x", [], {}, "a" * 64, "A" * 64,
    "a" * 63, [1], "é" * 64, "a" * 64 + "\n", ["a" * 64] * 65, [[["a"]]], 10**30, -0.0, 1e300,
]  # fmt: skip
DAMAGED_NAMES = [
    '"\\ud800"',
    '"\\u0041"',
    '"\\ud83d\\ude00"',
    '"é"',
    '""',
    '"a:b"',
    '"-0"',
    '"\\n"',
]
WHITE_SPACE = [" , ", "\n,", ",\t", ",\r", ",\x0b", ",\u00a0"]


@dataclass(frozen=True, slots=True)
class Source:
    """One seed's stream of documents."""

    random: random.Random

    def policy(self) -> Value:
        """Return a policy with bounds that runs of a dozen steps often meet."""
        draw = self.random
        extended = draw.random() < 0.6
        length = draw.choice([None, draw.randint(2, 4)]) if extended else None

        def bound(high: int) -> int | None:
            return draw.choice([None, draw.randint(0, high)]) if extended else None

        return {
            "schema": "loopcore/policy/1",
            "policy_id": "p",
            "evaluator_release": f"loopcore-{'extended' if extended else 'reference'}/1",
            "run_envelope_sha256": STATES[0],
            "behavior_spec_sha256": STATES[1],
            "initial_state_sha256": STATES[0],
            "started_at_unix_ms": draw.randint(0, 5),
            "deadline_unix_ms": draw.randint(6, 40),
            "max_steps": draw.randint(1, 14),
            "max_model_calls": draw.randint(0, 6),
            "max_tool_calls": draw.randint(0, 6),
            "max_repairs": draw.randint(0, 4),
            "max_cost_microunits": draw.choice([draw.randint(0, 20), 2**53 - 1]),
            "max_consecutive_no_progress": draw.randint(1, 8),
            "max_consecutive_repeated_actions": draw.randint(2, 6),
            "max_input_tokens": bound(20),
            "max_output_tokens": bound(20),
            "max_evidence_receipts": bound(10),
            "max_cycle_length": length,
            "cycle_repeats": None if length is None else draw.randint(2, 3),
        }

    def trace(self) -> Value:
        """Return a trace document; about one in ten steps is not well formed."""
        draw = self.random
        policy = self.policy()
        kinds = ["model_generation", "tool_call", "tool_call", "verification", "repair"]
        if policy["evaluator_release"] == "loopcore-extended/1":
            kinds.append("wait")
        state, now = STATES[0], cast("int", policy["started_at_unix_ms"])
        steps: list[Value] = []
        # Every third run goes in a circle, which independent draws hardly ever do.
        period = draw.choice([None] * 4 + [2, 3])
        # Most runs are cut soon, or nearly all of them would run on after their terminal.
        for index in range(draw.choice([0, 1, 2, 3, 4, 5, 6, 8, 12])):
            kind = draw.choice(list(DELTAS) if draw.random() < 0.1 else kinds)
            deltas = DELTAS[kind]
            if kind == "repair" and draw.random() < 0.5:
                deltas = (1, 0, 1)
            evidence = [draw.choice(EVIDENCE) for _ in range(draw.choice([0, 1, 1, 1, 2]))]
            if draw.random() < 0.97:
                evidence = list(dict.fromkeys(evidence))
            after = draw.choice(STATES)
            now += draw.choice([0, 1, 1, 2])
            named = kind == "finish" and evidence and draw.random() < 0.8
            step: Value = {
                "sequence": index + 1,
                "action_kind": kind,
                "action_sha256": draw.choice(STATES),
                "state_before_sha256": state,
                "state_after_sha256": after,
                "new_evidence_receipt_sha256": evidence,
                "outcome": draw.choice(["succeeded"] * 12 + ["failed", "failed", "indeterminate"]),
                "completed_at_unix_ms": now,
                "model_calls_delta": deltas[0],
                "tool_calls_delta": deltas[1],
                "repairs_delta": deltas[2],
                "cost_microunits_delta": 2**53 - 1
                if draw.random() < 0.01
                else draw.choice([0, 1, 3]),
                "input_tokens_delta": deltas[0] * draw.randint(0, 4),
                "output_tokens_delta": deltas[0] * draw.randint(0, 4),
                "completion_receipt_sha256": draw.choice(evidence) if named else None,
            }
            if period is not None and index >= period:
                self._go_round(step, steps[index - period], state)
            state = cast("str", step["state_after_sha256"])
            self._spoil(step)
            steps.append(step)
        return {"schema": "loopcore/trace/1", "policy": policy, "steps": steps}

    def _go_round(self, step: Value, before: Value, state: str) -> None:
        """Make a step the one of a period before, now without evidence."""
        moment = ("sequence", "completed_at_unix_ms")
        step |= {field: value for field, value in before.items() if field not in moment}
        step["state_before_sha256"] = state
        step["new_evidence_receipt_sha256"] = []
        step["completion_receipt_sha256"] = None

    def _spoil(self, step: Value) -> None:
        """Make a step ill-formed now and then, in one of the ways that a step can be."""
        draw = self.random
        changes: list[tuple[str, object]] = [
            ("sequence", cast("int", step["sequence"]) + draw.choice([-1, 1])),
            ("completed_at_unix_ms", max(0, cast("int", step["completed_at_unix_ms"]) - 3)),
            ("state_before_sha256", draw.choice(STATES)),
            ("tool_calls_delta", cast("int", step["tool_calls_delta"]) + 1),
            ("input_tokens_delta", cast("int", step["input_tokens_delta"]) + 1),
            ("completion_receipt_sha256", STATES[1]),
        ]
        for field, value in changes:
            if draw.random() < 0.01:
                step[field] = value

    def misshape(self, document: Value) -> Value:
        """Return a document with one value replaced, one field missing or one unknown field."""
        draw = self.random
        copy = cast("Value", json.loads(json.dumps(document)))
        targets = [copy, cast("Value", copy["policy"]), *cast("list[Value]", copy["steps"])]
        target = draw.choice(targets)
        field = draw.choice(list(target))
        choice = draw.random()
        if choice < 0.5:
            target[field] = draw.choice(JUNK)
        elif choice < 0.75:
            del target[field]
        else:
            target[draw.choice(["x", "é", "a b", '"', f"{field}x", "\ud800"])] = 1
        return copy

    def spell(self, document: Value) -> str:
        """Return a JSON text of a document, in some order of keys."""
        draw = self.random
        return json.dumps(
            document,
            separators=(",", ":"),
            sort_keys=draw.random() < 0.5,
            ensure_ascii=draw.random() < 0.5,
        )

    def damage(self, text: str) -> str:
        """Return a text that was cut, added to, or spelled in a way that a parser may hide."""
        draw = self.random
        place = draw.randrange(len(text))
        return draw.choice(
            [
                text[:place],
                text[:place] + draw.choice('{}[]",:0-1.eE \\\n\x00') + text[place:],
                text.replace('"max_steps":', '"max_steps":3,"max_steps":', 1),
                text.replace('"sequence":', '"sequence":1,"sequence":', 1),
                text.replace('":1,', '":1.0,', 1),
                text.replace('":0,', '":-0,', 1),
                text.replace('"p"', draw.choice(DAMAGED_NAMES), 1),
                text.replace(",", draw.choice(WHITE_SPACE)),
                "\ufeff" + text,
                text + draw.choice(["\n", " ", "x", "{}", "\x00"]),
            ]
        )

    def document(self) -> bytes:
        """Return the bytes of a document: half of them as they should be, half not."""
        draw = self.random
        document = self.trace()
        if draw.random() < 0.3:
            document = self.misshape(document)
        text = self.spell(document)
        if draw.random() < 0.3:
            text = self.damage(text)
        return text.encode("utf-8", "surrogatepass")

    def stream(self, document: Value) -> bytes:
        """Return the stream that spells a document, damaged now and then."""
        draw = self.random
        header = {field: value for field, value in document.items() if field != "steps"}
        steps = document.get("steps")
        lines = [header, *(cast("list[object]", steps) if isinstance(steps, list) else [])]
        data = b"".join(json.dumps(line).encode() + b"\n" for line in lines)
        place = draw.randrange(len(data))
        if draw.random() < 0.2:
            data = data[:place] + draw.choice([b"\n", b"{", b'"', b"[[" * 8]) + data[place:]
        if draw.random() < 0.1:
            data = data[:place]
        return data


def source(seed: int) -> Source:
    """Return the stream of documents of a seed."""
    return Source(random.Random(seed))
