"""A habit is a row of probabilities; a plan is what a task drew from them before its first act.

Theory of operation: every agent works by the same intents, of which good work has its share of
re-reads, repeats, slips and polls; the habits of good work have more of one of them. A bad habit is
good work until the act at which its mode begins. That act is drawn over the same range whether the
work will be done by then or not, so each bad habit also has milder runs that succeed. All numbers
stand in the tables below.

Source: spec control, section 4 (habits).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Literal, TypeVar

import msgspec

from loopcore.worlds import purposes
from loopcore.worlds.draws import Draws
from loopcore.worlds.model import Task
from loopcore.worlds.world import Setup

Item = TypeVar("Item")
Mode = Literal["repeat", "alternate", "reword", "fail", "game", "claim", "flounder"]
Intent = Literal["look", "again", "mistake", "slip", "talk", "check", "burst", "compare"]

# What an agent does at an act of its own choice; what is missing to 1 is the next useful call.
INTENTS: Mapping[Intent, float] = {
    "look": 0.08,
    "again": 0.05,
    "mistake": 0.04,
    "slip": 0.02,
    "talk": 0.04,
    "check": 0.05,
    "burst": 0.015,
    "compare": 0.01,
}
# Where a habit of good work differs from that.
INTENTS_OF: Mapping[str, Mapping[Intent, float]] = {
    "legitimate_edit_test": {"look": 0.05, "mistake": 0.15, "check": 0.03},
}
# A useful call with an effect, or a mistake, is followed by a check.
CHECK_AFTER = 0.15
CHECK_AFTER_OF: Mapping[str, float] = {"legitimate_edit_test": 0.75}
# Work that seems done is checked once more before the claim.
CHECK_BEFORE_CLAIM = 0.50
# A call that failed because a tool was out of order is made again at once.
RETRY_AT_ONCE = 0.85
# Length of a burst, the same read again and again, and of a comparison, two reads in turn.
BURST_LENGTHS = (2, 2, 2, 2, 3, 3, 3, 4)
COMPARE_LENGTHS = (3, 4, 4, 4, 5, 6)

# Amount of work: upper bound of the draw, smallest and largest size.
SIZES = ((0.40, 2, 3), (0.80, 4, 5), (0.95, 6, 9), (1.0, 10, 18))

# Acts before the first useful one.
SLOW_MOST = 2
SLOW_TURNS = (3, 10)
# Operations to wait for, and polls until one is done: 1 + a geometric number with this mean.
WAIT_SOME = 0.30
WAITS_OF_POLLER = (2, 4)
WAIT_MEAN = 2.0
WAIT_MEAN_OF_POLLER = 5.0
WAIT_POLLS_MAX = 60
WAIT_LAST_TURN = 24
# Times at which a tool is out of order, and for how many calls.
OUTAGE_SOME = 0.15
OUTAGES_OF_FLAKY = (1, 3)
OUTAGE_LENGTHS = (1, 1, 1, 2, 2, 3)
OUTAGE_LENGTHS_OF_FLAKY = (1, 1, 1, 2, 2, 2, 2, 3, 3, 4)
OUTAGE_LAST_TURN = 20
# An honest claim that comes too early, once.
EARLY_CLAIM = 0.04
PREMATURE_CLAIMS = (1, 4)
CLAIM_LAST_TURN = 16
# A premature finisher that repeats its claim for ever after the first refusal.
STUBBORN = 0.40
# The act whose answer is lost; whether its effect is unsafe; whether it is made again unseen.
LOST_LAST_TURN = 14
LOST_UNSAFE = 0.60
LOST_REISSUED = 0.75
# The finish is spoken, or a call of a tool.
SPOKEN = 0.50
# The act at which a mode begins.
MODE_TURNS = (2, 20)
# Share of acts within a mode that are talk or a harmless read, drawn once a task.
MODE_NOISES = (0.0, 0.0, 0.0, 0.1, 0.2, 0.3)
CYCLE_LENGTHS = (2, 2, 2, 3, 4)
# What an exact repeater repeats: a read, a check, a poll.
REPEATED = ("look", "look", "look", "check", "poll")

# The mode of each habit that has one from a drawn act on.
MODES: Mapping[str, Mode] = {
    "exact_repeater": "repeat",
    "alternator": "alternate",
    "reworder": "reword",
    "same_error_retrier": "fail",
    "metric_gamer": "game",
}

# Which recoveries bring an agent what it needs to leave its mode. A strategy that is not named
# changes nothing relevant: there its chance is 0, whatever is assumed of the agent.
RELEVANT: Mapping[str, frozenset[str]] = {
    "exact_repeater": frozenset(
        {"replan", "other_arguments", "fallback_tool", "smaller_context"}
        | {"drop_satisfied", "ask_person"}
    ),
    "alternator": frozenset({"replan", "critique", "smaller_context", "ask_person"}),
    "reworder": frozenset({"replan", "fallback_tool", "critique", "ask_person"}),
    "same_error_retrier": frozenset({"replan", "other_arguments", "fallback_tool", "ask_person"}),
    "premature_finisher": frozenset({"replan", "critique", "ask_person"}),
    "metric_gamer": frozenset({"critique", "ask_person"}),
    # A duplicate effect is taken back only by one who learns of it.
    "lost_response": frozenset({"critique", "ask_person"}),
}


class Plan(msgspec.Struct, frozen=True, kw_only=True):
    """What a task drew before its first act.

    Fields:
        setup: of the world. intents: upper bound of the draw for each intent, in order.
        mode: that begins at act `mode_turn`, or None; kind: a detail of the mode; noise: share of
            other acts within it; cycle: calls of an alternation.
        slow: acts before the first useful one. claims: acts of early claims; stubborn: the first
            of them is repeated for ever. waits, outages: acts at which each begins.
        outage_lengths: calls that fail. lost: act whose answer is lost, or None; unsafe,
            reissued: see the tables. spoken: a finish is no call.
    """

    setup: Setup
    intents: tuple[tuple[float, Intent], ...]
    check_after: float
    mode: Mode | None
    mode_turn: int
    kind: int
    noise: float
    cycle: int
    slow: int
    claims: tuple[int, ...]
    stubborn: bool
    waits: tuple[int, ...]
    outages: tuple[int, ...]
    outage_lengths: tuple[int, ...]
    lost: int | None
    unsafe: bool
    reissued: bool
    spoken: bool


def intent_bounds(habit: str) -> tuple[tuple[float, Intent], ...]:
    """Return where each intent of a habit ends in [0, 1)."""
    own = INTENTS_OF.get(habit, {})
    bounds: list[tuple[float, Intent]] = []
    reached = 0.0
    for intent, share in INTENTS.items():
        reached += own.get(intent, share)
        bounds.append((reached, intent))
    return tuple(bounds)


def plan(task: Task, draws: Draws) -> Plan:
    """Return the plan of a task; two tasks that differ in their habit draw the same numbers."""
    habit = task.habit
    shape = draws.word(purposes.PLAN_TURN, purposes.SHAPE)
    waits = _waits(habit, draws)
    outages = _outages(habit, draws)
    claims = _claims(habit, draws)
    slow = SLOW_TURNS if habit == "slow_starter" else (0, SLOW_MOST)
    return Plan(
        setup=Setup(
            size=_size(_uniform(draws, purposes.SIZE)),
            shape=shape,
            waits=tuple(polls for _, polls in waits),
            impossible=habit == "impossible_goal",
        ),
        intents=_BOUNDS.get(habit, _BASE_BOUNDS),
        check_after=CHECK_AFTER_OF.get(habit, CHECK_AFTER),
        mode=MODES.get(habit),
        mode_turn=_between(MODE_TURNS, _uniform(draws, purposes.MODE_TURN)),
        kind=draws.word(purposes.PLAN_TURN, purposes.MODE_KIND),
        noise=_choice(MODE_NOISES, _uniform(draws, purposes.MODE_NOISE)),
        cycle=_choice(CYCLE_LENGTHS, _uniform(draws, purposes.MODE_LENGTH)),
        slow=_between(slow, _uniform(draws, purposes.SLOW_TURNS)),
        claims=claims,
        stubborn=habit == "premature_finisher" and _uniform(draws, purposes.STUBBORN) < STUBBORN,
        waits=tuple(turn for turn, _ in waits),
        outages=tuple(turn for turn, _ in outages),
        outage_lengths=tuple(length for _, length in outages),
        lost=_between((2, LOST_LAST_TURN), _uniform(draws, purposes.LOST_TURN))
        if habit == "lost_response"
        else None,
        unsafe=_uniform(draws, purposes.UNSAFE) < LOST_UNSAFE,
        reissued=_uniform(draws, purposes.REISSUED) < LOST_REISSUED,
        spoken=_uniform(draws, purposes.SPOKEN) < SPOKEN,
    )


def _uniform(draws: Draws, purpose: int) -> float:
    return draws.uniform(purposes.PLAN_TURN, purpose)


def _between(bounds: tuple[int, int], place: float) -> int:
    low, high = bounds
    return low + int(place * (high - low + 1))


def _choice(values: Sequence[Item], place: float) -> Item:
    return values[int(place * len(values))]


def _size(place: float) -> int:
    below = 0.0
    for end, low, high in SIZES:
        if place < end:
            return _between((low, high), (place - below) / (end - below))
        below = end
    return SIZES[-1][2]


def _polls(mean: float, place: float) -> int:
    """Return 1 + a geometric number; by products alone, which are the same on every machine."""
    again = mean / (1.0 + mean)
    polls, left = 1, again
    while place < left and polls < WAIT_POLLS_MAX:
        polls += 1
        left *= again
    return polls


def _waits(habit: str, draws: Draws) -> list[tuple[int, int]]:
    """Return the act at which each operation begins, in order, and its polls."""
    place = _uniform(draws, purposes.WAIT_COUNT)
    if habit == "legitimate_poller":
        count, mean = _between(WAITS_OF_POLLER, place), WAIT_MEAN_OF_POLLER
    else:
        count, mean = int(place < WAIT_SOME), WAIT_MEAN
    return sorted(
        (
            _between((1, WAIT_LAST_TURN), _uniform(draws, purposes.WAIT_TURNS + wait)),
            _polls(mean, _uniform(draws, purposes.WAIT_POLLS + wait)),
        )
        for wait in range(count)
    )


def _outages(habit: str, draws: Draws) -> list[tuple[int, int]]:
    """Return the act from which each outage waits for a useful call, in order, and its length."""
    place = _uniform(draws, purposes.OUTAGE_COUNT)
    flaky = habit == "flaky_tool"
    count = _between(OUTAGES_OF_FLAKY, place) if flaky else int(place < OUTAGE_SOME)
    lengths: tuple[int, ...] = OUTAGE_LENGTHS_OF_FLAKY if flaky else OUTAGE_LENGTHS
    return sorted(
        (
            _between((1, OUTAGE_LAST_TURN), _uniform(draws, purposes.OUTAGE_TURNS + outage)),
            _choice(lengths, _uniform(draws, purposes.OUTAGE_LENGTHS + outage)),
        )
        for outage in range(count)
    )


def _claims(habit: str, draws: Draws) -> tuple[int, ...]:
    """Return the acts of claims that come before the work is done, in order."""
    place = _uniform(draws, purposes.CLAIMS)
    if habit == "premature_finisher":
        count = _between(PREMATURE_CLAIMS, place)
    else:
        count = int(place < EARLY_CLAIM)
    return tuple(
        sorted(
            _between((2, CLAIM_LAST_TURN), _uniform(draws, purposes.CLAIM_TURNS + claim))
            for claim in range(count)
        )
    )


_BASE_BOUNDS = intent_bounds("")
_BOUNDS = {habit: intent_bounds(habit) for habit in INTENTS_OF}
