"""Seeded random runs of one observation a turn, with limits that they meet: raw material in bulk.

Plain `random` rather than a strategy: nothing is shrunk here, and tens of thousands of runs are
wanted quickly. A run is blocks of a few turns played several times and disturbed, so that repeats,
cycles, streaks and polls arise; values are few, nulls among them.
"""

from __future__ import annotations

import random

import msgspec

from loopcore.control.limits import Limits, ToolPolicy
from loopcore.control.observations import Observation, Usage

NAMES = (
    "A",
    "B",
    "C",
    "D",
    "consecutive-3",
    "consecutive-2-result",
    "total-3",
    "total-5",
    "total-3-result",
    "step-cap-7",
)
POLICIES = {
    "read": ToolPolicy(repeatable=True),
    "poll": ToolPolicy(wait=True, max_waits=3),
    "sleep": ToolPolicy(wait=True),
    "click": ToolPolicy(volatile=("ref",)),
}
TOOLS = ("edit", "edit", "test", "read", "poll", "sleep", "click", None)
# Which states a run has: none, one, changing ones, or now and then one.
STATES: tuple[tuple[str | None, ...], ...] = ((None,), ("s",), ("s", "s", "t"), ("s", None, "t"))
TURNS_MAX = 40


def random_limits(draw: random.Random) -> Limits:
    """Return limits with small thresholds, some of them off."""

    def bound(low: int, high: int) -> int | None:
        return draw.choice([None, draw.randint(low, high), draw.randint(low, high)])

    def budget() -> int | None:
        return draw.choice([None] * 6 + [draw.randint(2, 20)])

    horizon = draw.choice([msgspec.UNSET, None, None, draw.randint(1, 20)])
    return Limits(
        gate=draw.choice(("trust", "verify", "verify", "verify")),
        max_steps=draw.choice([None, None, 5, 12]),
        horizon=horizon,
        max_model_calls=budget(),
        max_tool_calls=budget(),
        max_cost_microunits=budget(),
        max_input_tokens=budget(),
        max_output_tokens=budget(),
        max_latency_ms=budget(),
        repeat=bound(2, 5),
        window=bound(1, 8),
        error_streak=bound(1, 5),
        cycle_max=bound(2, 6),
        cycle_repeats=draw.randint(2, 3),
        max_waits=bound(1, 5),
        max_refusals=bound(0, 4),
        tools=draw.choice([POLICIES, POLICIES, {}]),
    )


def random_run(draw: random.Random) -> list[Observation]:
    """Return a run of up to TURNS_MAX turns."""
    good = draw.choice([0, 0, 0.05, 0.3])
    claims = draw.choice([0, 0.05, 0.5])
    states = draw.choice(STATES)
    turns = draw.randint(0, TURNS_MAX)
    run: list[Observation] = []
    while len(run) < turns:
        block = [_turn(draw, good, claims, states) for _ in range(draw.randint(1, 5))]
        for _ in range(draw.randint(1, 6)):
            run += [
                _turn(draw, good, claims, states) if draw.random() < 0.1 else seen for seen in block
            ]
    return [
        msgspec.structs.replace(seen, turn=turn) for turn, seen in enumerate(run[:turns], start=1)
    ]


def _turn(
    draw: random.Random, good: float, claims: float, states: tuple[str | None, ...]
) -> Observation:
    choice = draw.choice
    done = draw.random() < claims
    # An answer of the verifier without a claim is read by nobody.
    asked = done or draw.random() < 0.05
    usage = Usage(
        model_calls=choice((None, 0, 1, 2)),
        tool_calls=choice((None, 0, 1, 2)),
        input_tokens=choice((None, 0, 1, 2)),
        output_tokens=choice((None, 0, 1, 2)),
        cost_microunits=choice((None, 0, 1, 2)),
        latency_ms=choice((None, 0, 1, 2)),
    )
    seen = Observation(
        turn=1,
        action=1,
        state_fingerprint=choice(states),
        progress=choice((1, 300)) if draw.random() < good else choice((None, None, 0, 0, 0, -1)),
        error_class=choice((None, None, "a", "b")),
        claims_done=done,
        verified=choice((None, None, False, False, False, True)) if asked else None,
        usage=usage,
    )
    if draw.random() < 0.12:
        return seen
    return msgspec.structs.replace(
        seen,
        tool=choice(TOOLS),
        arguments=choice((None, {"at": 1}, {"at": 1, "ref": draw.randint(0, 2)})),
        result=choice((None, "x", {"ref": draw.randint(0, 2)})),
        action_fingerprint=choice((None, "f0", "f0", "f1")),
        result_fingerprint=choice((None, "r0", "r0", "r1")),
    )
