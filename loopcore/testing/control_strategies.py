"""Generated runs and limits in which a controller's rows really fire, and nearly fire.

Theory of operation: independent draws would almost never repeat anything three times. A run is
therefore either steady, one short cycle of actions that single events disturb, or a few blocks,
each a short list of turns played several times. So repeats, cycles, error streaks and polls of
every phase and length arise, with small thresholds to meet them. Names, fingerprints and results
come from very few values, nulls among them, for the same reason.
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

BUDGETS = (
    "max_model_calls",
    "max_tool_calls",
    "max_cost_microunits",
    "max_input_tokens",
    "max_output_tokens",
    "max_latency_ms",
)
BLOCKS_MAX = 3
BLOCK_TURNS_MAX = 4
BLOCK_PLAYS_MAX = 5


@st.composite
def controller_limits(draw: st.DrawFn) -> Limits:
    """Draw limits with small thresholds, some of them off."""

    def bound(least: int, most: int) -> int | None:
        """Draw a bound, often off: a row that always fires first would hide the others."""
        return draw(st.none() | st.integers(least, most))

    tight = draw(st.sampled_from((None, *BUDGETS)))

    def budget(name: str) -> int | None:
        """Draw a budget: one at most is tight, else the highest hides the rest."""
        return draw(st.sampled_from((2, 6) if name == tight else (None, None, None, 20)))

    gate: Gate = draw(st.sampled_from(("trust", "verify", "verify")))
    # An absent horizon follows max_steps; drawing it half of the time meets both.
    horizon = draw(st.just(msgspec.UNSET) | st.none() | st.integers(3, 60) | st.none())
    return Limits(
        gate=gate,
        max_steps=draw(st.sampled_from((None, None, None, 3, 12))),
        horizon=horizon,
        max_model_calls=budget("max_model_calls"),
        max_tool_calls=budget("max_tool_calls"),
        max_cost_microunits=budget("max_cost_microunits"),
        max_input_tokens=budget("max_input_tokens"),
        max_output_tokens=budget("max_output_tokens"),
        max_latency_ms=budget("max_latency_ms"),
        repeat=bound(2, 4),
        window=bound(1, 8),
        error_streak=bound(1, 4),
        cycle_max=bound(2, 5),
        cycle_repeats=draw(st.integers(2, 3)),
        max_waits=bound(1, 4),
        max_refusals=bound(0, 3),
        tools=draw(st.sampled_from((TOOLS, TOOLS, {}))),
        max_replans=draw(st.sampled_from((2, 2, None, 0, 1))),
        max_tool_retries=draw(st.sampled_from((2, 2, None, 0, 1))),
        max_critiques=draw(st.sampled_from((1, 1, None, 0, 2))),
        max_recoveries=draw(st.sampled_from((4, 4, 4, None, None, 0, 1, 2))),
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


# What is thrown into a steady run: each event is one that some row must, or must not, notice.
EVENTS: tuple[tuple[Observation, ...], ...] = (
    (Observation(turn=1, action=1, progress=1),),
    (Observation(turn=1, action=1, progress=0),),
    (Observation(turn=1, action=1, error_class="auth"),),
    (Observation(turn=1, action=1, tool="poll", progress=0),),
    (Observation(turn=1, action=1, tool="sleep", progress=1),),
    (Observation(turn=1, action=1, tool="edit", progress=0),),
    (Observation(turn=1, action=1, tool="edit", arguments="other", progress=1),),
    (Observation(turn=1, action=1, claims_done=True, verified=False),),
    (Observation(turn=1, action=1, claims_done=True, verified=False, state_fingerprint="s2"),),
    (Observation(turn=1, action=1, claims_done=True, verified=False, progress=1),),
    (Observation(turn=1, action=1, claims_done=True, progress=0),),
)
# Sums then meet their bounds exactly, where a deadline and the others differ.
ONE_OF_EACH = Usage(
    model_calls=1,
    tool_calls=1,
    input_tokens=1,
    output_tokens=1,
    cost_microunits=1,
    latency_ms=1,
)
STEADY_TURNS_MAX = 24
CYCLE_MAX = 4
# Of the kinds of a steady turn the first ones play the next action of the cycle.
PLAIN_KINDS = 5
GOOD, DOUBLED, EVENT = PLAIN_KINDS, PLAIN_KINDS + 1, PLAIN_KINDS + 2


@st.composite
def steady_sequences(draw: st.DrawFn) -> list[Observation]:
    """Draw a run that goes round one short cycle of actions, now and then disturbed."""
    call = st.builds(
        Observation,
        turn=st.just(1),
        action=st.just(1),
        tool=st.sampled_from(("edit", "edit", "edit", "test", "read", "poll", None)),
        action_fingerprint=st.sampled_from(("f0", "f0", "f1", "f2", None)),
        result_fingerprint=st.sampled_from(("r0", "r0", "r1", None)),
        state_fingerprint=st.sampled_from((None, "s0", "s0", "s1")),
        error_class=st.sampled_from((None, None, "syntax")),
        progress=st.sampled_from((None, None, 0)),
        claims_done=st.sampled_from((False,) * 5 + (True,)),
        verified=st.sampled_from((None, False)),
        usage=st.just(ONE_OF_EACH),
    )
    length = draw(st.sampled_from((1, 1, 1, 2, 2, 3, CYCLE_MAX)))
    cycle = draw(st.lists(call, min_size=length, max_size=length))
    kinds = draw(st.lists(st.integers(0, EVENT), min_size=1, max_size=STEADY_TURNS_MAX))
    observations: list[Observation] = []
    played = 0
    for turn, kind in enumerate(kinds, start=1):
        actions: tuple[Observation, ...] = (cycle[played % len(cycle)],)
        if kind == EVENT:
            actions = draw(st.sampled_from(EVENTS))
        else:
            played += 1
        if kind == GOOD:
            actions = (msgspec.structs.replace(actions[0], progress=1),)
        elif kind == DOUBLED:
            actions = (*actions, *actions)
        for index, action in enumerate(actions, start=1):
            observations.append(msgspec.structs.replace(action, turn=turn, action=index))
    return observations


def observation_sequences() -> st.SearchStrategy[list[Observation]]:
    """Return whole runs: steady ones, and ones of blocks of anything."""
    return steady_sequences() | steady_sequences() | block_sequences()


@st.composite
def block_sequences(draw: st.DrawFn) -> list[Observation]:
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
