"""Each detector is one row of the table: a small state that says whether it fires on what it sees.

Theory of operation: a level turns an observation into `Facts` once, and every detector takes them
through `update`, which returns True when the row fires on this very observation. A detector never
looks at another one and never at the clock. What it holds is bounded by the limits (and, for what
counts once in a turn, by one turn), never by the length of the run: a run of repetitions is a
counter, a cycle is one counter a period over the last `cycle_max` calls.

Source: spec controllers, section 4.
"""

from __future__ import annotations

from collections import deque
from typing import NamedTuple

from loopcore.control.limits import Limits


class Facts(NamedTuple):
    """What the rows need to know of one observation.

    Fields:
        turn, tool, state, error, progress: as observed.
        action, result: fingerprints, given or computed, or None when unknown.
        wait, repeatable: the tool's policy. call: a call. good: not waiting, with progress > 0.
        counts: the first call of this action in its turn.
        pending_claim: a claim that the verifier could not judge, under the gate `verify`.
        identical_refusal: a refusal of which nothing is known to differ from the one before.
    """

    turn: int
    tool: str | None
    action: str | None
    result: str | None
    state: str | None
    error: str | None
    progress: int | None
    wait: bool
    repeatable: bool
    call: bool
    counts: bool
    good: bool
    pending_claim: bool
    identical_refusal: bool


class Call(NamedTuple):
    """What is remembered of a call to compare a later one with."""

    action: str | None
    result: str | None
    state: str | None


def repeats(later: Call, earlier: Call) -> bool:
    """Return whether one call repeats another: the same action, and nothing came of it.

    States decide when both are known, else results must be known and equal.
    """
    if later.action is None or later.action != earlier.action:
        return False
    if later.state is not None and earlier.state is not None:
        return later.state == earlier.state
    return later.result is not None and later.result == earlier.result


class ExactRun:
    """Row n: the last `repeat` calls have one known action fingerprint."""

    def __init__(self, limits: Limits) -> None:
        self._repeat = limits.repeat
        self._action: str | None = None
        self._length = 0

    def update(self, facts: Facts) -> bool:
        """Take one observation; return whether the row fires on it."""
        if not facts.call:
            if facts.good:
                self._action, self._length = None, 0
            return False
        if not facts.counts:
            return False
        if facts.action is None:
            self._length = 0
        elif facts.action == self._action:
            self._length += 1
        else:
            self._length = 1
        self._action = facts.action
        reached = self._repeat is not None and self._length >= self._repeat
        return reached and not facts.repeatable


class Repetition:
    """Row r: the last `repeat` calls, without progress, each repeat the one before."""

    def __init__(self, limits: Limits) -> None:
        self._repeat = limits.repeat
        self._last: Call | None = None
        self._length = 0

    def update(self, facts: Facts) -> bool:
        """Take one observation; return whether the row fires on it."""
        if facts.good:
            self._last, self._length = None, 0
            return False
        if not facts.counts:
            return False
        now = Call(facts.action, facts.result, facts.state)
        same = self._last is not None and repeats(now, self._last)
        self._length = self._length + 1 if same else 1
        self._last = now
        reached = self._repeat is not None and self._length >= self._repeat
        return reached and not facts.repeatable


class ErrorStreak:
    """Row e: the last `error_streak` calls, without progress, have one error class."""

    def __init__(self, limits: Limits) -> None:
        self._streak = limits.error_streak
        self._error: str | None = None
        self._length = 0
        self._turn = 0
        self._counted: set[str] = set()

    def update(self, facts: Facts) -> bool:
        """Take one observation; return whether the row fires on it."""
        if facts.turn != self._turn:
            self._turn = facts.turn
            self._counted.clear()
        if facts.good:
            self._error, self._length = None, 0
            return False
        error = facts.error
        if facts.wait or (facts.call and not facts.counts) or (not facts.call and error is None):
            return False
        if error is None:
            self._error, self._length = None, 0
            return False
        if error in self._counted:
            return False
        self._counted.add(error)
        self._length = self._length + 1 if error == self._error else 1
        self._error = error
        return self._streak is not None and self._length >= self._streak


class Cycle:
    """Row c: the last p × `cycle_repeats` calls, without progress, have a period p ≥ 2.

    `_matches[p]` counts the latest calls running that repeat the one p earlier. A period is
    complete when that reaches p × (cycle_repeats − 1); it is row r's when the last p − 1 calls
    repeat the one right before them.
    """

    def __init__(self, limits: Limits) -> None:
        self._repeats = limits.cycle_repeats
        self._history: deque[Call] = deque(maxlen=limits.cycle_max or 0)
        self._matches: list[int] = [0]

    def update(self, facts: Facts) -> bool:
        """Take one observation; return whether the row fires on it, in O(cycle_max)."""
        if facts.good:
            self._history.clear()
            self._matches = [0]
            return False
        if not facts.counts:
            return False
        now = Call(facts.action, facts.result, facts.state)
        matches = self._matches
        fired = False
        for period, earlier in enumerate(reversed(self._history), start=1):
            if period == len(matches):
                matches.append(0)
            matches[period] = matches[period] + 1 if repeats(now, earlier) else 0
            if period > 1 and matches[1] < period - 1:
                fired = fired or matches[period] >= period * (self._repeats - 1)
        self._history.append(now)
        return fired


class IdleWindow:
    """Row w: there were `window` idle turns since the last good observation."""

    def __init__(self, limits: Limits) -> None:
        self._window = limits.window
        self._idle = 0
        self._turn = 0
        # The turn has been counted, or cannot be any more because it is good.
        self._settled = False

    def update(self, facts: Facts) -> bool:
        """Take one observation; return whether the row fires on it."""
        if facts.wait:
            return False
        if facts.turn != self._turn:
            self._turn = facts.turn
            self._settled = False
        if facts.good:
            self._idle = 0
            self._settled = True
            return False
        unmoved = facts.progress is not None and facts.progress <= 0 and not facts.pending_claim
        if not self._settled and (unmoved or facts.identical_refusal):
            self._idle += 1
            self._settled = True
        return self._window is not None and self._idle >= self._window


class Waits:
    """Row p: a waiting tool has had its `max_waits` observations since any progress."""

    def __init__(self, limits: Limits) -> None:
        self._limits = limits
        self._counts: dict[str, int] = {}

    def update(self, facts: Facts) -> bool:
        """Take one observation; return whether the row fires on it."""
        if facts.progress is not None and facts.progress > 0:
            self._counts.clear()
            return False
        if not facts.wait or facts.tool is None:
            return False
        count = self._counts.get(facts.tool, 0) + 1
        self._counts[facts.tool] = count
        bound = self._limits.waits(facts.tool)
        return bound is not None and count >= bound


Detector = ExactRun | Repetition | ErrorStreak | Cycle | IdleWindow | Waits
