"""Cycles of (action, state after) over many traces at once.

Theory of operation: as `loopcore.evaluator.CycleDetector`. For a distance p, `_matches[p - 1]`
counts the pairs running that equal the one p earlier; distance 1 tells how many equal pairs end
here. Pairs stand in a register that a waiting step does not move. Traces may have different
policies: a length that one's policy does not ask for needs more matches than there are steps.

Source: spec evaluator, section 3.
"""

from __future__ import annotations

from typing import cast

import numpy as np

from loopcore.batch.columns import Booleans, Int16s, Int64s
from loopcore.batch.repetitions import shift
from loopcore.batch.state import Counters, Keys, counters
from loopcore.batch.traces import Integers

# What stands in the register where there is no pair yet.
_NOTHING = -1


class PairCycles:
    """The last pairs of some traces, and how long they have been repeating."""

    def __init__(self, action: Integers, after: Integers, length: Int64s, repeats: Int64s) -> None:
        """Begin before the first step.

        Arguments:
            action, after: shape (steps, traces), the numbers of actions and of states after.
            length, repeats: shape (traces,), the bounds of each trace's policy, 0 for none.
        """
        steps, traces = action.shape
        self._base = int(after.max(initial=0)) + 1
        keys = (int(action.max(initial=0)) + 1) * self._base
        kinds: tuple[type[np.int16 | np.int32 | np.int64], ...] = (np.int16, np.int32, np.int64)
        self._kind = next(kind for kind in kinds if keys <= np.iinfo(kind).max)
        self._action, self._after = action, after
        longest = int(length.max(initial=0))
        self._matches: Counters = counters(steps, longest, traces)
        self._past = cast("Keys", np.full((longest, traces), _NOTHING, self._kind))
        self._spare = self._past.copy()
        lengths = np.arange(2, longest + 1)[:, None]
        needed = np.where(lengths <= length, lengths * (repeats - 1), steps + 1)
        self._needed = cast("Int16s", np.minimum(needed, steps + 1).astype(self._matches.dtype))
        self._others = cast("Int16s", (lengths - 1).astype(self._matches.dtype))
        self._everywhere: Booleans = np.ones(traces, np.bool_)
        self._never: Booleans = np.zeros(traces, np.bool_)

    def update(self, step: int, waits: Booleans | None) -> Booleans:
        """Take one step of all traces; return where a cycle ends at it.

        Arguments:
            waits: shape (traces,), where the step waits; None for nowhere.
        """
        matches = self._matches
        pair = cast("Int16s", self._action[step].astype(self._kind))
        pair *= self._base
        pair += self._after[step].astype(self._kind)
        same: Booleans = self._past == pair
        active = self._everywhere if waits is None else ~waits
        matches += active
        matches *= same if waits is None else same | waits
        shift(self._past, self._spare, pair, active, self._never)
        self._past, self._spare = self._spare, self._past
        full: Booleans = matches[1:] >= self._needed
        if not full.any():
            return self._never
        # Pairs that are all equal are a repetition, not a cycle.
        full &= matches[0] < self._others
        ended: Booleans = full.any(axis=0) & active
        return ended
