"""Rows n, e, w and p over many runs at once: counters a run, moved by one turn at a time.

Theory of operation: each class is the vector form of the class of the same row in
`loopcore.control.detectors`, with an array where that has a variable. `update` takes turn `row` of
a block and returns where the row fires; runs that are decided are updated as well, and nobody looks
at them. A streak forgets only how often, never what it counted: a length of 0 makes the next one 1,
whatever came before. A row that always ends the run need not ask, when its counter stands at the
threshold, whether this very turn raised it: had it been an earlier one, the run would be over.

Rows r and c are in `loopcore.batch.repetitions`.

Source: spec controllers, section 4.
"""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from loopcore.batch.columns import UNKNOWN, Booleans, Int16s, Int32s
from loopcore.batch.facts import Facts, ToolNumbers
from loopcore.batch.state import Counters, Fired, Row, choose, counters
from loopcore.control.precedence import RANKS

REPEATED = RANKS["stop", "repeated_action"]
FAILURE = RANKS["stop", "tool_failure"]
NO_PROGRESS = RANKS["stop", "no_progress"]


class ExactRuns(Row):
    """Row n: the last `repeat` calls have one known action fingerprint."""

    arrays = ("_action", "_length")

    def __init__(self, repeat: int, turns: int, runs: int) -> None:
        self._repeat = repeat
        self._action: Int32s = np.full(runs, UNKNOWN, np.int32)
        self._length = counters(turns, runs)

    def update(self, facts: Facts, row: int) -> Iterator[Fired]:
        """Take one turn; yield where the row fires."""
        call, action = facts.call[row], facts.action[row]
        known = call & (action != UNKNOWN)
        self._length *= (action == self._action) | ~call
        self._length += known
        # A good observation that is no call, and a call of unknown action, end the run of calls.
        self._length *= ~((facts.good[row] & ~call) | (call & ~known))
        choose(self._action, action, known)
        yield Fired(
            REPEATED,
            (self._length >= self._repeat) & call & ~facts.repeatable[row],
            self._repeat,
        )


class ErrorStreaks(Row):
    """Row e: the last `error_streak` calls, without progress, have one error class."""

    arrays = ("_error", "_length")

    def __init__(self, streak: int, turns: int, runs: int) -> None:
        self._streak = streak
        self._error: Int16s = np.full(runs, UNKNOWN, np.int16)
        self._length = counters(turns, runs)

    def update(self, facts: Facts, row: int) -> Iterator[Fired]:
        """Take one turn; yield where the row fires."""
        error, good = facts.error[row], facts.good[row]
        failed = facts.failed[row]
        ended = good | (facts.call[row] & ~failed)
        self._length *= ~((failed & (error != self._error)) | ended)
        self._length += failed
        choose(self._error, error, failed)
        yield Fired(FAILURE, self._length >= self._streak, self._streak)


class IdleWindows(Row):
    """Row w: there were `window` idle turns since the last good observation."""

    arrays = ("_idle", "_refused", "_result", "_state")

    def __init__(self, window: int, turns: int, runs: int) -> None:
        self._window = window
        self._idle = counters(turns, runs)
        # Whether there was a refusal, with result and state of the last one.
        self._refused: Booleans = np.zeros(runs, np.bool_)
        self._result: Int32s = np.full(runs, UNKNOWN, np.int32)
        self._state: Int32s = np.full(runs, UNKNOWN, np.int32)

    def update(self, facts: Facts, row: int) -> Iterator[Fired]:
        """Take one turn; yield where the row fires."""
        idle = facts.unmoved[row]
        if facts.refused[row].any():
            idle = idle | (self._identical(facts, row) & facts.active[row])
        self._idle += idle
        self._idle *= ~facts.good[row]
        yield Fired(NO_PROGRESS, self._idle >= self._window, self._window)

    def _identical(self, facts: Facts, row: int) -> Booleans:
        """Return where a refusal is not known to differ from the last one, and note it as last."""
        refused = facts.refused[row]
        same: Booleans = refused & self._refused
        pairs = ((facts.result[row], self._result), (facts.state[row], self._state))
        for new, old in pairs:
            same &= (new == old) | (new == UNKNOWN) | (old == UNKNOWN)
            choose(old, new, refused)
        self._refused |= refused
        return same


class WaitCounts(Row):
    """Row p: a waiting tool has had its `max_waits` observations since any progress."""

    arrays = ("_counts",)

    def __init__(self, tools: ToolNumbers, turns: int, runs: int) -> None:
        self._bounds = [(number, bound) for number, bound in tools.waits if bound is not None]
        self._counts: Counters = counters(turns, len(self._bounds), runs)

    def update(self, facts: Facts, row: int) -> Iterator[Fired]:
        """Take one turn; yield where the row fires."""
        if not self._bounds:
            return
        still = ~facts.improved[row]
        self._counts *= still
        for index, (number, bound) in enumerate(self._bounds):
            waited = (facts.tool[row] == number) & still
            self._counts[index] += waited
            yield Fired(NO_PROGRESS, waited & (self._counts[index] >= bound), bound)
