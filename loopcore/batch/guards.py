"""The variants over many runs at once: naive guards as functions of whole runs.

Theory of operation: as `loopcore.control.variants`, which names them and says what each does. A
guard has one condition beside the verified finish, so its stop is the earlier of two turns: the
first with a finish, and the first at which the condition holds, the finish counting first.

`total-K` sorts the keys of each run with their turns: where the key K − 1 places before is the same
one, there are K of it. `consecutive-K` keeps a counter a run, one turn at a time.

Source: spec control, section 2.
"""

from __future__ import annotations

import numpy as np

from loopcore.batch.columns import UNKNOWN, Booleans, Columns, Int32s, Int64s
from loopcore.batch.state import choose, counters
from loopcore.control.variants import RepeatedCall, StepCap, variant

# How many runs are sorted or counted at a time.
GUARD_RUNS = 4_096
# Later than any turn.
NEVER = 2**31 - 1


def finish_turns(columns: Columns) -> Int32s:
    """Return (runs,) the first turn with a claim that was verified, NEVER without one."""
    return _first(columns.claims & (columns.verified == 1), columns.lengths)


def condition_turns(columns: Columns, name: str) -> tuple[Int32s, int]:
    """Return (runs,) the first turn at which the guard's condition holds, and its threshold.

    Errors: UsageError when there is no variant of this name.
    """
    guard = variant(name)
    if isinstance(guard, StepCap):
        held = columns.lengths >= guard.turns_max
        return np.where(held, np.int32(min(guard.turns_max, NEVER)), np.int32(NEVER)), 0
    parts: list[Int32s] = [np.zeros(0, np.int32)]
    for first in range(0, columns.runs, GUARD_RUNS):
        runs = np.arange(first, min(first + GUARD_RUNS, columns.runs))
        count = _total if guard.scope == "total" else _consecutive
        parts.append(count(columns, runs, guard))
    return np.concatenate(parts), guard.count


def _first(held: Booleans, lengths: Int32s) -> Int32s:
    """Return (runs,) the first turn within the run at which something holds, or NEVER."""
    if held.shape[0] == 0:
        return np.full(held.shape[1], NEVER, np.int32)
    turns = held.argmax(axis=0) + 1
    there = held.any(axis=0) & (turns <= lengths)
    return np.where(there, turns, NEVER).astype(np.int32)


def _keys(columns: Columns, runs: Int64s, guard: RepeatedCall) -> Int64s:
    """Return (turns, runs) one key a turn, UNKNOWN where the call's key is not known."""
    action = columns.action[:, runs].astype(np.int64)
    if not guard.with_result:
        return action
    result = columns.result[:, runs].astype(np.int64)
    base = int(result.max(initial=0)) + 1
    known = (action != UNKNOWN) & (result != UNKNOWN)
    return np.where(known, action * base + result, np.int64(UNKNOWN))


def _total(columns: Columns, runs: Int64s, guard: RepeatedCall) -> Int32s:
    """Return (runs,) the first turn at which some key has stood K times."""
    turns = columns.turns
    keys = _keys(columns, runs, guard).T
    places = keys * turns + np.arange(turns)
    # What is no known call, or comes after the run's end, is sorted before all others.
    outside = np.arange(turns) >= columns.lengths[runs, None]
    places = np.where((keys == UNKNOWN) | outside, np.int64(UNKNOWN), places)
    if guard.count > turns:
        return np.full(len(places), NEVER, np.int32)
    if int(places.max(initial=0)) < NEVER:
        # Half as wide, sorted more than twice as fast.
        places = places.astype(np.int32)
    places.sort(axis=1)
    last, earlier = places[:, guard.count - 1 :], places[:, : turns - guard.count + 1]
    full = (earlier >= 0) & (last // turns == earlier // turns)
    at = np.where(full, last % turns + 1, NEVER)
    earliest: Int32s = at.min(axis=1).astype(np.int32)
    return earliest


def _consecutive(columns: Columns, runs: Int64s, guard: RepeatedCall) -> Int32s:
    """Return (runs,) the first turn that is the K-th call running with one key."""
    keys = _keys(columns, runs, guard)
    call = (columns.tool[:, runs] != UNKNOWN) | (columns.action[:, runs] != UNKNOWN)
    known = call & (keys != UNKNOWN)
    length = counters(columns.turns, keys.shape[1])
    last: Int64s = np.full(keys.shape[1], UNKNOWN, np.int64)
    held = np.zeros(keys.shape, np.bool_)
    for row in range(columns.turns):
        length *= (keys[row] == last) | ~call[row]
        length *= known[row] | ~call[row]
        length += known[row]
        choose(last, keys[row], known[row])
        np.greater_equal(length, guard.count, out=held[row])
    return _first(held, columns.lengths[runs])
