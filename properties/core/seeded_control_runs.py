"""Runs and limits from a seed alone: many at little cost, in which rows fire and recoveries begin.

Theory of operation: a run goes round a short cycle of actions taken from few values, and now and
then something else happens in a turn: progress, a claim, a poll, text, the same action twice. With
small thresholds most runs meet several detections, so level E is led through its budgets.
"""

from __future__ import annotations

from random import Random

import msgspec

from loopcore.control.limits import Limits
from loopcore.control.observations import Observation, Usage
from loopcore.testing.control_strategies import BUDGETS, EVENTS, TOOLS

TURNS_MAX = 28
CYCLE_MAX = 4


def seeded_limits(random: Random) -> Limits:
    """Return limits with small thresholds, some of them off."""

    def bound(least: int, most: int) -> int | None:
        bounds: list[int | None] = [*range(least, most + 1)] * 2
        return random.choice([None, *bounds])

    tight = random.choice((*BUDGETS, *[None] * 12))
    return Limits(
        gate=random.choice(("trust", "verify", "verify", "verify")),
        max_steps=random.choice((None, None, 12, 25)),
        horizon=random.choice((msgspec.UNSET, None, 30)),
        max_model_calls=random.choice((6, 20)) if tight == "max_model_calls" else None,
        max_tool_calls=random.choice((6, 20)) if tight == "max_tool_calls" else None,
        max_cost_microunits=random.choice((6, 20)) if tight == "max_cost_microunits" else None,
        max_input_tokens=random.choice((6, 20)) if tight == "max_input_tokens" else None,
        max_output_tokens=random.choice((6, 20)) if tight == "max_output_tokens" else None,
        max_latency_ms=random.choice((6, 20)) if tight == "max_latency_ms" else None,
        repeat=bound(2, 4),
        window=bound(1, 6),
        error_streak=bound(1, 4),
        cycle_max=bound(2, 4),
        cycle_repeats=random.choice((2, 2, 3)),
        max_waits=bound(1, 4),
        max_refusals=random.choice((None, None, 3, 1, 0)),
        tools=random.choice((TOOLS, TOOLS, {})),
        max_replans=random.choice((2, 2, None, 1, 0)),
        max_tool_retries=random.choice((2, 2, None, 1, 0)),
        max_critiques=random.choice((1, 1, None, 2, 0)),
        max_recoveries=random.choice((4, 4, None, None, 2, 1, 0)),
    )


def _action(random: Random) -> Observation:
    claims = random.random() < 0.08
    tool = random.choice(("edit", "edit", "edit", "test", "read", "poll", "sleep", None))
    return Observation(
        turn=1,
        action=1,
        tool=tool,
        arguments=None if tool is None else random.choice(({"path": "a"}, '{"path":"a"}', "b")),
        result=random.choice(("same", "same", '"same"', {"ref": 1}, None)),
        action_fingerprint=random.choice((None, None, None, "f0")),
        result_fingerprint=random.choice((None, None, None, "r0")),
        state_fingerprint=random.choice((None, "s0", "s0", "s1")),
        progress=random.choice((None, 0, 0, 0, -1)),
        error_class=random.choice((None, None, "syntax", "auth")),
        claims_done=claims,
        verified=random.choice((None, False, False)) if claims else None,
        usage=Usage(model_calls=1, tool_calls=random.choice((None, 0, 1)), latency_ms=1),
    )


def seeded_run(random: Random) -> list[Observation]:
    """Return a whole run: (turn, action) increases, turns may be skipped."""
    cycle = [_action(random) for _ in range(random.choice((1, 1, 1, 2, 2, 3, CYCLE_MAX)))]
    disturbed = random.choice((0.0, 0.1, 0.3))
    run: list[Observation] = []
    turn = 0
    for played in range(random.randint(4, TURNS_MAX)):
        turn += random.choice((1, 1, 1, 1, 1, 1, 1, 2))
        actions = [cycle[played % len(cycle)]]
        if random.random() < disturbed:
            actions = random.choice(
                (
                    list(random.choice(EVENTS)),
                    [msgspec.structs.replace(actions[0], progress=1)],
                    [*actions, *actions],
                    [*actions, msgspec.structs.replace(random.choice(EVENTS)[0], progress=0)],
                    [_action(random)],
                )
            )
        progress = actions[0].progress
        for index, seen in enumerate(actions, start=1):
            placed = msgspec.structs.replace(seen, turn=turn, action=index, progress=progress)
            run.append(placed)
        if random.random() < 0.02:
            # The agent finds a way out, in the wrong cycle as well as in a right one.
            cycle = [_action(random)]
    return run
