"""Generated runs and limits in which a controller's rows really fire, and nearly fire.

Theory of operation: independent draws would almost never repeat anything three times. A run is
therefore a few blocks, each a short list of turns played several times, so that repeats, cycles,
error streaks and polls of every phase and length arise, with small thresholds to meet them. Names,
fingerprints and results come from very few values, nulls among them, for the same reason.
"""

from __future__ import annotations

import msgspec
from hypothesis import strategies as st

from loopcore.control.limits import Gate, Limits, ToolPolicy
from loopcore.control.observations import Json, Observation, Usage

# The tools of generated runs: `read` may repeat, `poll` and `sleep` wait.
TOOLS: dict[str, ToolPolicy] = {
    "read": ToolPolicy(repeatable=True),
    "poll": ToolPolicy(wait=True, max_waits=2),
    "sleep": ToolPolicy(wait=True),
    "click": ToolPolicy(volatile=("ref",)),
}
ARGUMENTS: tuple[Json, ...] = (
    {"path": "a"},
    '{ "path" : "a" }',
    {"path": "b", "ref": 1},
    {"path": "b", "ref": 2},
    None,
)
RESULTS: tuple[Json, ...] = ("same", '"same"', {"ref": 1}, {"ref": 2}, None)

BLOCKS_MAX = 3
BLOCK_TURNS_MAX = 4
BLOCK_PLAYS_MAX = 5


@st.composite
def controller_limits(draw: st.DrawFn) -> Limits:
    """Draw limits with small thresholds, some of them off."""

    def bound(least: int, most: int) -> int | None:
        return draw(st.none() | st.integers(least, most))

    gate: Gate = draw(st.sampled_from(("trust", "verify", "verify")))
    # An absent horizon follows max_steps; drawing it half of the time meets both.
    horizon = draw(st.just(msgspec.UNSET) | st.none() | st.integers(3, 60))
    return Limits(
        gate=gate,
        max_steps=draw(st.sampled_from((None, None, 3, 12, 30))),
        horizon=horizon,
        max_model_calls=draw(st.sampled_from((None, None, 6, 20))),
        max_tool_calls=draw(st.sampled_from((None, None, 6, 20))),
        max_cost_microunits=draw(st.sampled_from((None, None, 6, 20))),
        max_input_tokens=draw(st.sampled_from((None, None, 6, 20))),
        max_output_tokens=draw(st.sampled_from((None, None, 6, 20))),
        max_latency_ms=draw(st.sampled_from((None, None, 6, 20))),
        repeat=bound(2, 4),
        window=bound(1, 8),
        error_streak=bound(1, 4),
        cycle_max=bound(2, 5),
        cycle_repeats=draw(st.integers(2, 3)),
        max_waits=bound(1, 4),
        max_refusals=bound(0, 3),
        tools=draw(st.sampled_from((TOOLS, TOOLS, {}))),
    )


@st.composite
def _actions(draw: st.DrawFn) -> Observation:
    """Draw one action, its place and progress left open."""
    counts = st.sampled_from((None, None, 0, 1, 2))
    claims = draw(st.sampled_from((False, False, False, True)))
    kind = draw(st.sampled_from(("call", "call", "call", "wait", "text")))
    usage = Usage(
        model_calls=draw(counts),
        tool_calls=draw(counts),
        input_tokens=draw(counts),
        output_tokens=draw(counts),
        cost_microunits=draw(counts),
        latency_ms=draw(counts),
    )
    error = draw(st.sampled_from((None, None, "syntax", "auth")))
    verified = draw(st.sampled_from((None, False, False, True))) if claims else None
    state = draw(st.sampled_from((None, "s0", "s0", "s1")))
    if kind == "text":
        return Observation(
            turn=1,
            action=1,
            usage=usage,
            error_class=draw(st.sampled_from((None, error))),
            claims_done=claims,
            verified=verified,
            state_fingerprint=state,
        )
    names = ("poll", "sleep") if kind == "wait" else ("edit", "test", "read", "click")
    return Observation(
        turn=1,
        action=1,
        tool=draw(st.sampled_from((*names, None)) if kind == "call" else st.sampled_from(names)),
        arguments=draw(st.sampled_from(ARGUMENTS)),
        result=draw(st.sampled_from(RESULTS)),
        action_fingerprint=draw(st.sampled_from((None, None, None, "f0", "f1"))),
        result_fingerprint=draw(st.sampled_from((None, None, None, "r0", "r1"))),
        state_fingerprint=state,
        error_class=error,
        claims_done=claims,
        verified=verified,
        usage=usage,
    )


@st.composite
def _turns(draw: st.DrawFn) -> list[Observation]:
    """Draw the observations of one turn, all with the same progress."""
    progress = draw(st.sampled_from((0, 0, 0, None, None, -1, 1)))
    actions = draw(st.lists(_actions(), min_size=1, max_size=3))
    return [msgspec.structs.replace(action, progress=progress) for action in actions]


@st.composite
def observation_sequences(draw: st.DrawFn) -> list[Observation]:
    """Draw a whole run: (turn, action) increases, turns may be skipped."""
    observations: list[Observation] = []
    turn = 0
    for _ in range(draw(st.integers(1, BLOCKS_MAX))):
        block = draw(st.lists(_turns(), min_size=1, max_size=BLOCK_TURNS_MAX))
        for _ in range(draw(st.integers(1, BLOCK_PLAYS_MAX))):
            for actions in block:
                turn += draw(st.sampled_from((1, 1, 1, 1, 1, 1, 1, 3)))
                for index, action in enumerate(actions, start=1):
                    observations.append(msgspec.structs.replace(action, turn=turn, action=index))
    return observations
