"""Hypothesis strategies for policies, traces and receipts as plain JSON, biased to what is hard.

Theory of operation: independent draws would hardly ever repeat an action, meet a bound or fire two
rules at once. So a run is drawn as *moves*, many of which refer to earlier moves (repeat, echo a
period, reuse evidence), and bounds are fitted to the figures that the run reaches: one before, at,
or one beyond. Where the first rule fires, the naive model tells, and the run is cut there. Steered
traces (`traces_firing`, `terminated_traces`, `defective_traces`) come from `steering` and
`defective`, which need no search.

Every strategy shrinks towards few steps, round numbers and roomy bounds. What the bias amounts to
is measured by `loopcore.testing.bias`.

Source: spec evaluator, sections 1 to 4; spec verification, section 2.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from hypothesis import strategies as st
from hypothesis.strategies import DrawFn, SearchStrategy

from loopcore.testing import defective, naive
from loopcore.testing.building import (
    BOUND_FIELDS,
    EXTENDED,
    REFERENCE,
    Move,
    append_step,
    array_of,
    bounds_of,
    build_steps,
    firing_bound,
    fit_bound,
    measure,
    roomy_policy,
)
from loopcore.testing.defective import STEP_CODES
from loopcore.testing.naive_wire import INTEGER_MAX, RELEASES, Record, as_record
from loopcore.testing.pairs import possible_pairs
from loopcore.testing.steering import NEUTRAL_KINDS, Choices, fire

MOVES_MAX = 9
TIGHT_BOUNDS_MAX = 3
CYCLE_LENGTH_MAX = 16
CYCLE_REPEATS_MAX = 8

# What one move may be; the first is what everything shrinks to. Names that stand twice are
# drawn twice as often.
_INTENTS = (
    "productive",
    "productive",
    "idle",
    "repeat",
    "repeat",
    "echo",
    "echo",
    "stale",
    "failed",
    "still",
    "wait",
    "spend",
)
_ENDINGS = (
    "none",
    "none",
    "none",
    "proven finish",
    "proven finish",
    "idle proven finish",
    "finish without proof",
    "finish with an old proof",
    "finish with a stranger's proof",
    "failed finish",
    "indeterminate finish",
    "indeterminate",
)

# Amounts whose sums go wrong in floating point when counted in whole units of currency.
_COSTS = (0, 1, 100_000, 200_000, 300_000, 700_000, 1_100_000, 2**52, INTEGER_MAX)
_TOKENS = (0, 1, 2, 1_000, 2**52)
_ELAPSED_MS = (1, 0, 2, 1_000)


# Drawn once a step, so made once.
_DRAW_INTENT = st.sampled_from(_INTENTS)
_DRAW_KIND = st.sampled_from(NEUTRAL_KINDS)
_DRAW_ENDING = st.sampled_from(_ENDINGS)
_DRAW_COST = st.sampled_from(_COSTS[1:])
_DRAW_TOKENS = st.sampled_from(_TOKENS)
_DRAW_ELAPSED = st.sampled_from(_ELAPSED_MS)
_DRAW_RELEASE = st.sampled_from(RELEASES)
_DRAW_TIGHT = {
    release: st.lists(st.sampled_from(bounds_of(release)), max_size=TIGHT_BOUNDS_MAX, unique=True)
    for release in RELEASES
}
_PAIRS = [(release, pair) for release in RELEASES for pair in possible_pairs(release)]
_DRAW_PLACES = st.tuples(*[st.integers(0, len(_PAIRS) - 1)] * 3)
_BOOLEANS = st.booleans()


def releases() -> SearchStrategy[str]:
    """Draw the name of a release; half of the draws each."""
    return _DRAW_RELEASE


@st.composite
def policies(draw: DrawFn, release: str | None = None) -> Record:
    """Draw a valid policy with bounds that are small, zero, null or far away."""
    policy = roomy_policy(draw(releases()) if release is None else release)
    name = draw(st.sampled_from(("p", "policy", "\u00e9\u0301", '"\\\n', "\U0001f600", "x" * 128)))
    policy["policy_id"] = name
    for field in draw(st.lists(st.sampled_from(BOUND_FIELDS), max_size=4, unique=True)):
        if field in bounds_of(str(policy["evaluator_release"])):
            fit_bound(policy, field, draw(st.sampled_from((0, 1, 2, 3, 2_000, INTEGER_MAX))))
    if policy["evaluator_release"] == EXTENDED and draw(_BOOLEANS):
        policy["max_cycle_length"] = draw(st.integers(2, CYCLE_LENGTH_MAX))
        policy["cycle_repeats"] = draw(st.integers(2, CYCLE_REPEATS_MAX))
    return policy


def _move(draw: DrawFn, moves: list[Move], period: int, release: str) -> Move:
    """Draw the next move of a run; numbers in it stand for digests."""
    intent = draw(_DRAW_INTENT)
    number = len(moves) + 1
    kind = draw(_DRAW_KIND)
    move = Move(kind=kind, action=number, state=number, evidence=(number,))
    last = moves[-1] if moves else move
    if intent == "idle":
        move = replace(move, evidence=())
    elif intent == "failed":
        move = replace(move, outcome="failed")
    elif intent == "still":
        move = replace(move, state=None, action=1)
    elif intent == "stale":
        stale = last.evidence or (1,)
        move = replace(move, evidence=draw(st.sampled_from((stale, (*stale, number + 100)))))
    elif intent == "repeat":
        move = replace(move, action=last.action, state=draw(st.sampled_from((last.state, number))))
    elif intent == "echo" and len(moves) >= period:
        # One action digest may stand under two kinds, and fresh evidence does not end a cycle.
        origin = moves[-period]
        move = replace(move, action=origin.action, state=origin.state)
    elif intent == "wait" and release == EXTENDED:
        move = replace(move, kind="wait", action=draw(st.sampled_from((last.action, number))))
    elif intent == "spend":
        move = replace(
            move,
            kind="model_generation" if kind == "verification" else kind,
            cost=draw(_DRAW_COST),
            input_tokens=draw(_DRAW_TOKENS),
            output_tokens=draw(_DRAW_TOKENS),
            elapsed_ms=draw(_DRAW_ELAPSED),
        )
    if move.kind == "repair" and draw(_BOOLEANS):
        move = replace(move, deltas=(1, 0, 1))
    return move


def _ending(draw: DrawFn, moves: list[Move]) -> Move | None:
    """Draw a last move that may end the run by itself, or None."""
    ending = draw(_DRAW_ENDING)
    number = len(moves) + 1
    old = moves[-1].evidence[:1] if moves else ()
    action = draw(st.sampled_from((number, moves[-1].action))) if moves else number
    finish = Move(kind="finish", action=action, state=number, evidence=(number,), proof=number)
    if ending == "proven finish":
        order = draw(st.permutations((number, number + 50)))
        return replace(finish, evidence=tuple(order[: draw(st.integers(1, 2))]), proof=order[0])
    table = {
        "none": None,
        "idle proven finish": replace(finish, state=None),
        "finish without proof": replace(finish, proof=None),
        "finish with an old proof": replace(finish, evidence=old, proof=old[0] if old else number),
        "finish with a stranger's proof": replace(finish, proof=800),
        "failed finish": replace(finish, outcome="failed"),
        "indeterminate finish": replace(finish, outcome="indeterminate"),
        "indeterminate": replace(finish, kind="tool_call", proof=None, outcome="indeterminate"),
    }
    return table[ending]


def _block(draw: DrawFn, period: int, release: str) -> list[Move]:
    """Draw a run that goes round a few pairs of action and state, waits in between."""
    rounds = draw(st.integers(2, 3))
    count = period * rounds - draw(st.integers(0, 1))
    places = st.sets(st.integers(0, count - 1), max_size=2)
    waits: set[int] = draw(places) if release == EXTENDED else set()
    moves: list[Move] = []
    for index in range(count):
        place = 10 + index % period
        if index in waits:
            moves.append(Move(kind="wait", action=place, state=None))
        moves.append(
            Move(
                kind=NEUTRAL_KINDS[index % len(NEUTRAL_KINDS)],
                action=place,
                state=place,
                evidence=(100 + index,),
            )
        )
    return moves


def _tighten(draw: DrawFn, policy: Record, steps: list[Record], period: int) -> None:
    """Fit a few bounds in place to figures that the run reaches, or to nothing at all."""
    release = str(policy["evaluator_release"])
    figures = measure(steps)
    fields = draw(_DRAW_TIGHT[release])
    for field in fields:
        if figures:
            # Most bounds are fitted to the last step, so that several rules meet there.
            focus = draw(st.sampled_from((-1, -1, -1, 0, len(figures) // 2)))
            distance = draw(st.sampled_from((1, 0, 0, 2, -1)))
            fit_bound(policy, field, firing_bound(field, figures[focus][field]) + distance)
        else:
            fit_bound(policy, field, 0)
    if release == EXTENDED and draw(_BOOLEANS):
        policy["max_cycle_length"] = min(max(2, period + draw(st.sampled_from((0, 1, -1)))), 16)
        policy["cycle_repeats"] = draw(st.sampled_from((2, 2, 3)))


@st.composite
def long_traces(draw: DrawFn, release: str | None = None) -> Record:
    """Draw a trace of well formed steps that goes on after the first terminal, if there is one."""
    chosen = draw(releases()) if release is None else release
    policy = roomy_policy(chosen)
    period = draw(st.integers(1, 4))
    moves: list[Move] = []
    if period > 1 and draw(st.sampled_from((False, False, False, True))):
        moves = _block(draw, period, chosen)
    else:
        for _ in range(draw(st.integers(0, MOVES_MAX))):
            moves.append(_move(draw, moves, period, chosen))
    ending = _ending(draw, moves)
    if ending is not None:
        moves.append(ending)
    steps = build_steps(policy, moves)
    _tighten(draw, policy, steps, period)
    return {"policy": policy, "steps": steps}


def cut(trace: Record) -> Record:
    """Return the trace without the steps after its terminal, as the naive model sees it."""
    answer = naive.evaluate(trace["policy"], trace["steps"])
    if "error" not in answer:
        return trace
    error = as_record(answer["error"])
    steps, index = trace["steps"], error["step"]
    assert error["code"] == "post_terminal_step", answer
    assert isinstance(steps, list)
    assert isinstance(index, int)
    return {"policy": trace["policy"], "steps": steps[:index]}


def traces(release: str | None = None) -> SearchStrategy[Record]:
    """Draw well formed traces, policy and steps, that end at their terminal if they have one."""
    return long_traces(release).map(cut) | traces_firing(release=release)


@st.composite
def _choices(draw: DrawFn) -> Choices:
    return Choices(
        prefix=draw(st.integers(0, 3)),
        tail=draw(st.integers(1, 3)),
        cycle_length=draw(st.sampled_from((2, 3, 4))),
        cycle_repeats=draw(st.sampled_from((2, 3))),
        shape=draw(st.integers(0, 7)),
        kinds=draw(st.integers(0, 3)),
        delta=draw(st.sampled_from((1, 2, 100_000, 2**52))),
        waits=draw(st.sampled_from((0, 0, 1, 2))),
        room=draw(st.integers(0, 2)),
    )


@st.composite
def traces_firing(
    draw: DrawFn, pair: tuple[str, str] | None = None, release: str | None = None
) -> Record:
    """Draw a trace in which both outcomes fire on the last step and nothing above them does.

    Arguments:
        pair: the outcomes, the one that wins first; None draws one of the possible pairs.
    """
    if pair is None:
        candidates = [each for each in _PAIRS if release in (None, each[0])]
        # A sum of draws is spread more evenly than one draw: cases are bred from earlier ones.
        place = sum(draw(_DRAW_PLACES))
        chosen, outcomes = candidates[place % len(candidates)]
    else:
        chosen, outcomes = draw(_DRAW_RELEASE) if release is None else release, pair
    return fire(chosen, outcomes, draw(_choices()))


@st.composite
def terminated_traces(
    draw: DrawFn, terminal: str | None = None, release: str | None = None
) -> Record:
    """Draw a trace that ends at the terminal, or at one of those that end on a step.

    For `input_exhausted` the trace is a run that nothing ends.
    """
    chosen = draw(releases()) if release is None else release
    table = naive.precedence(chosen)
    name = draw(st.sampled_from(table[:-1])) if terminal is None else terminal
    if name == "input_exhausted":
        trace = fire(chosen, ("indeterminate_effect",), draw(_choices()))
        return {"policy": trace["policy"], "steps": list_of(trace["steps"])[:-1]}
    others = [other for pair in possible_pairs(chosen) if pair[0] == name for other in pair[1:]]
    lower = draw(st.sampled_from((None, *others)))
    return fire(chosen, (name,) if lower is None else (name, lower), draw(_choices()))


@st.composite
def defective_traces(
    draw: DrawFn, code: str | None = None, release: str | None = None, *, combined: bool = True
) -> Record:
    """Draw a trace with a defect on one step, often with a second one on the same step.

    The result has, beside policy and steps, `codes`: the defects, the one that is due first.
    """
    chosen = draw(releases()) if release is None else release
    codes = STEP_CODES if chosen == REFERENCE else tuple(set(STEP_CODES) - {"unsupported_kind"})
    codes = tuple(name for name in STEP_CODES if name in codes)
    first = draw(st.sampled_from(codes)) if code is None else code
    later = [name for name in codes if STEP_CODES.index(name) > STEP_CODES.index(first)]
    both = [first]
    if later and combined and draw(_BOOLEANS):
        both.append(draw(st.sampled_from(later)))
    length = draw(st.integers(1, 4))
    index = defective.index_for(both, draw(st.integers(0, length - 1)))
    kinds = [draw(_DRAW_KIND) for _ in range(max(length, index + 1))]
    policy = roomy_policy(chosen)
    moves = [
        Move(kind=kind, action=number, state=number, evidence=(number,) if number % 2 else ())
        for number, kind in enumerate(kinds, start=1)
    ]
    steps = defective.spoil(build_steps(policy, moves), index, both, draw(st.integers(0, 7)))
    return {"policy": policy, "steps": steps, "codes": both}


@st.composite
def receipts(draw: DrawFn, release: str | None = None) -> Record:
    """Draw a trace together with the naive model's receipt for it, under `receipt`."""
    trace = draw(traces(release))
    return {**trace, "receipt": naive.evaluate(trace["policy"], trace["steps"])["receipt"]}


def list_of(value: object) -> list[Record]:
    """Return the steps of a trace under their type."""
    return [as_record(item) for item in array_of(value)]


def extend(policy: Record, steps: Sequence[Record], moves: Sequence[Move]) -> list[Record]:
    """Return the steps with further moves after them."""
    longer = list(steps)
    for move in moves:
        longer.append(append_step(policy, longer, move))
    return longer
