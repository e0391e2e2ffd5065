"""A turn as a state of the chain: what a controller could tell of it, and nothing of its content.

Theory of operation: names and fingerprints matter to a controller only through equality. So a call
is described by which of the last calls it comes from, whether the same came of it and whether its
error is of the class of the last one; a poll and a spoken claim by whether they are like the last
poll and the last claim. From that alone columns can be made again in which every detector of ours
sees the same structure. A state also remembers of the past what these detectors remember: for how
many calls running the same was the case (talk and polls in between neither extend nor end it, a
success ends it), for how many turns a poll has gone on, which phase the run is in, how late it is
before the first success, and in which manner the run goes: after an onset how it is stuck, without
one how much of it is polling. All of it is packed into one integer.

Choices: a call that comes from further back than `BACK_MAX` calls counts as new. Which of several
tools of one policy was called makes no difference to any contestant of ours. That the measure said
nothing is drawn apart, as it has nothing to do with the act.

Source: spec controllers, section 4.
"""

from __future__ import annotations

from dataclasses import dataclass
from math import prod

import numpy as np

from loopcore.batch.columns import PROGRESS_UNKNOWN, UNKNOWN, Booleans, Columns, Int32s, Int64s
from loopcore.control.limits import Limits

# How many calls back a call is looked for: further than any cycle that the default limits look for.
BACK_MAX = 7
# From these on, ages and turns are not told apart: the default thresholds and a little more.
AGE_MAX = 5
AGE_WAIT_MAX = 20
TURN_MAX = 16
STUCK_MAX = 8

# What was dispatched: nothing, a call under no policy, a repeatable one, a poll.
NOTHING, CALL, REPEATABLE, WAIT = range(4)
# What the measure said.
WORSE, NONE, BETTER = range(3)
# How the result and the state are, beside those of what it is compared with.
HIDDEN, SAME, OTHER = range(3)
# The error: none, the class of the last error of the run, another class.
NO_ERROR, SAME_ERROR, OTHER_ERROR = range(3)
# The claim: none, verified, refused, not judged.
NO_CLAIM, VERIFIED, REFUSED, UNJUDGED = range(4)
# The phase of a run: before its first success, at work, from its last success to its finish, and
# after the onset while there are and when there are no more successes.
STARTING, WORKING, CLOSING, MOVING, STUCK = range(5)
# A run without an onset polls more than this share of its turns, or less.
WAIT_SHARES = (0.15, 0.35, 0.55)
# Manners of being stuck beside those of a distance back: polls, and claims.
POLLING, CLAIMING = BACK_MAX + 1, BACK_MAX + 2

# The parts of a packed state, lowest first, with the number of values of each. "like" to "like_age"
# are of a poll or a spoken claim, "back" to "age" of the last call, this turn's if it is one.
PARTS: tuple[tuple[str, int], ...] = (
    ("kind", 4),
    ("progress", 3),
    ("claim", 4),
    ("error", 3),
    ("like", 2),
    ("like_result", 3),
    ("like_state", 3),
    ("back", BACK_MAX + 1),
    ("result", 3),
    ("state", 3),
    ("like_age", AGE_WAIT_MAX + 1),
    ("age", AGE_MAX + 1),
    ("phase", 5),
    ("manner", BACK_MAX + 3),
    ("turn", TURN_MAX + 1),
)
# The parts that say what is seen.
SEEN = 10
_SIZES: dict[str, int] = dict(PARTS)
_UNITS: dict[str, int] = {}
for _name, _size in PARTS:
    _UNITS[_name] = prod(_SIZES[name] for name in _UNITS)
SEEN_UNIT = prod(size for _, size in PARTS[:SEEN])


@dataclass(frozen=True, slots=True, kw_only=True)
class States:
    """Packed states of many runs, and their plans; arrays (runs,) unless said otherwise.

    Fields:
        packed: (turns, runs); -1 beyond a run's length.
        close: turn of the last success before the finish or of all, 0 where there is none.
        manner: with an onset what is most frequent while stuck, without one by which of WAIT_SHARES
            the share of polls is exceeded.
    """

    packed: Int64s
    close: Int64s
    manner: Int64s


def states(columns: Columns, limits: Limits, onset: Int32s, verified_turn: Int32s) -> States:
    """Return the packed state of every turn.

    Arguments:
        columns: of runs. limits: with the policies of their tools.
        onset, verified_turn: shape (runs,), 0 for none.
    """
    turns = np.arange(1, columns.turns + 1)[:, None]
    inside = turns <= columns.lengths[None, :]
    parts = {name: np.zeros(columns.tool.shape, np.int64) for name, _ in PARTS}
    parts["kind"] = kinds(columns, limits)
    parts["progress"] = _progress(columns)
    parts["claim"] = _claims(columns)
    parts["error"] = _errors(columns)
    _relate_calls(columns, parts)
    _relate_others(columns, parts)
    good = (parts["progress"] == BETTER) & inside
    good &= (turns < verified_turn) | (verified_turn == 0)
    close = np.where(good, turns, 0).max(axis=0)
    parts["phase"] = _phases(good, close, onset, verified_turn)
    parts["turn"] = _turns(parts["phase"], onset)
    stuck = (onset > 0)[None, :] & (turns >= onset[None, :]) & inside
    polls = ((parts["kind"] == WAIT) & inside).sum(axis=0) / np.maximum(columns.lengths, 1)
    polling = np.zeros(columns.runs, np.int64)
    for share in WAIT_SHARES:
        polling += polls >= share
    manner = np.where(onset > 0, _manners(parts, stuck), polling)
    parts["manner"] = np.where((onset == 0)[None, :] | stuck, manner[None, :], 0)
    return States(packed=np.where(inside, packed(parts), -1), close=close, manner=manner)


def packed(parts: dict[str, Int64s]) -> Int64s:
    """Return one integer for the values of all parts; inverse of `part`."""
    state = np.zeros_like(parts["kind"])
    for name, _ in PARTS:
        state = state + parts[name] * _UNITS[name]
    return state


def part(states_: Int64s, name: str) -> Int64s:
    """Return one part of packed states."""
    found: Int64s = states_ // _UNITS[name] % _SIZES[name]
    return found


def kinds(columns: Columns, limits: Limits) -> Int64s:
    """Return what each turn dispatched, by the policy of its tool, shape (turns, runs)."""
    by_tool = [CALL]
    for name in columns.tools:
        policy = limits.policy(name)
        by_tool.append(WAIT if policy.wait else REPEATABLE if policy.repeatable else CALL)
    kind = np.array(by_tool, np.int64)[columns.tool.astype(np.int64) + 1]
    kind[(columns.tool == UNKNOWN) & (columns.action == UNKNOWN)] = NOTHING
    return kind


def _progress(columns: Columns) -> Int64s:
    progress = np.sign(columns.progress.astype(np.int64)) + NONE
    progress[columns.progress == PROGRESS_UNKNOWN] = NONE
    return progress


def _claims(columns: Columns) -> Int64s:
    answers = np.array([UNJUDGED, REFUSED, VERIFIED], np.int64)
    claims = answers[columns.verified.astype(np.int64) + 1]
    claims[~columns.claims] = NO_CLAIM
    return claims


def _errors(columns: Columns) -> Int64s:
    """Return whether each error is of the class of the run's last one."""
    error = np.full(columns.tool.shape, NO_ERROR, np.int64)
    last = np.full(columns.runs, UNKNOWN, np.int64)
    for turn in range(columns.turns):
        now = columns.error[turn].astype(np.int64)
        failed = now != UNKNOWN
        error[turn][failed] = np.where(now[failed] == last[failed], SAME_ERROR, OTHER_ERROR)
        last[failed] = now[failed]
    return error


def _compared(now: Int32s, before: Int32s) -> Int64s:
    """Return how values are beside earlier ones."""
    return np.where(now == UNKNOWN, HIDDEN, np.where(now == before, SAME, OTHER)).astype(np.int64)


def _repeats(columns: Columns, turn: int, before: Int32s) -> Booleans:
    """Return whether the call of a turn would repeat an earlier one (action, result, state)."""
    _, result, state = before
    both = (columns.state[turn] != UNKNOWN) & (state != UNKNOWN)
    same = (columns.result[turn] != UNKNOWN) & (columns.result[turn] == result)
    held: Booleans = columns.state[turn] == state
    repeated: Booleans = (both & held) | (~both & same)
    return repeated


def _relate_calls(columns: Columns, parts: dict[str, Int64s]) -> None:
    """Add from how many calls back each call comes, what came of it, and for how many calls so.

    The nearest call that it repeats counts, else the nearest of the same action.
    """
    runs = columns.runs
    # Action, result and state of the last calls, the latest first.
    ring = np.full((BACK_MAX + 1, 3, runs), UNKNOWN, np.int32)
    names = ("back", "result", "state", "age")
    memory = {name: np.zeros(runs, np.int64) for name in (*names, "error")}
    for turn in range(columns.turns):
        kind = parts["kind"][turn]
        called = (kind == CALL) | (kind == REPEATABLE)
        action = columns.action[turn]
        back, settled = np.zeros(runs, np.int64), np.zeros(runs, np.bool_)
        for distance in range(1, BACK_MAX + 1):
            before = ring[distance - 1]
            again = (action != UNKNOWN) & (action == before[0])
            repeated = again & _repeats(columns, turn, before) & ~settled
            back[repeated] = distance
            settled |= repeated
            back[again & (back == 0)] = distance
        before = ring[np.maximum(back - 1, 0), :, np.arange(runs)].T
        before[:, back == 0] = UNKNOWN
        new = {
            "back": back,
            "result": _compared(columns.result[turn], before[1]),
            "state": _compared(columns.state[turn], before[2]),
            "error": parts["error"][turn],
        }
        same = memory["age"] > 0
        for name, value in new.items():
            same &= value == memory[name]
        # What is new and succeeds needs no age.
        aged = (back > 0) | (new["error"] > 0)
        new["age"] = np.where(aged, np.where(same, np.minimum(memory["age"] + 1, AGE_MAX), 1), 0)
        good = (parts["progress"][turn] == BETTER) & (kind != WAIT)
        for name, values in memory.items():
            values[called] = new[name][called]
        for name in names:
            parts[name][turn] = memory[name]
        # Of a call without age only calls themselves need to say what it was.
        dull = ~called & (memory["age"] == 0)
        for name in names:
            parts[name][turn][dull] = 0
            memory[name][good] = 0
        ring[1:, :, called] = ring[:-1, :, called]
        ring[0][:, called] = np.stack([action, columns.result[turn], columns.state[turn]])[
            :, called
        ]


def _relate_others(columns: Columns, parts: dict[str, Int64s]) -> None:
    """Add how polls are beside the last poll, and spoken claims beside the last claim."""
    runs = columns.runs
    poll, earlier = (np.full((3, runs), UNKNOWN, np.int32) for _ in range(2))
    age = np.zeros(runs, np.int64)
    for turn in range(columns.turns):
        kind, claim = parts["kind"][turn], parts["claim"][turn]
        now = np.stack([columns.action[turn], columns.result[turn], columns.state[turn]])
        waits, spoken = kind == WAIT, (kind == NOTHING) & (claim != NO_CLAIM)
        like = waits & (now[0] == poll[0])
        before = np.where(waits, poll, earlier)
        for mine in (waits, spoken):
            parts["like"][turn][mine] = like[mine]
            parts["like_result"][turn][mine] = _compared(now[1], before[1])[mine]
            parts["like_state"][turn][mine] = _compared(now[2], before[2])[mine]
        good = parts["progress"][turn] == BETTER
        on = waits & like & ~good
        age = np.where(on, np.minimum(age + 1, AGE_WAIT_MAX), np.where(waits, 1, 0))
        parts["like_age"][turn] = age
        poll[:, waits] = now[:, waits]
        claimed = claim != NO_CLAIM
        earlier[:, claimed] = now[:, claimed]


def _phases(good: Booleans, close: Int64s, onset: Int32s, verified_turn: Int32s) -> Int64s:
    """Return the phase of each turn."""
    turns = np.arange(1, good.shape[0] + 1)[:, None]
    phase = np.where(np.cumsum(good, axis=0) > 0, WORKING, STARTING)
    phase[(verified_turn > 0)[None, :] & (turns >= close[None, :])] = CLOSING
    after = (onset > 0)[None, :] & (turns >= onset[None, :])
    return np.where(after, np.where(turns < close[None, :], MOVING, STUCK), phase)


def _turns(phase: Int64s, onset: Int32s) -> Int64s:
    """Return the turns since the start, and since the onset, as long as they are few; else 0."""
    turns = np.arange(1, phase.shape[0] + 1)[:, None]
    stuck = turns - onset[None, :] + 1
    stuck = np.where((phase >= MOVING) & (stuck <= STUCK_MAX), stuck, 0)
    return np.where(phase == STARTING, np.minimum(turns, TURN_MAX), stuck)


def _manners(parts: dict[str, Int64s], stuck: Booleans) -> Int64s:
    """Return (runs,) what is most frequent while stuck: polls, claims, or calls by distance."""
    kind = parts["kind"]
    manner = np.where(parts["age"] > 0, parts["back"], 0)
    manner[kind == WAIT] = POLLING
    manner[(kind == NOTHING) & (parts["claim"] != NO_CLAIM)] = CLAIMING
    counted = stuck & ((kind != NOTHING) | (parts["claim"] != NO_CLAIM))
    counts = np.stack([(counted & (manner == one)).sum(axis=0) for one in range(CLAIMING + 1)])
    found: Int64s = counts.argmax(axis=0)
    return found
