"""Rows r and c over many runs at once: how long the calls have been repeating earlier ones.

Theory of operation: for a distance p, `_matches[p - 1]` counts the calls running that repeat the
one p calls earlier; row r is the distance 1, row c every greater one. The last calls stand in a
register, the latest first, that shifts by one where a call came and empties where progress did.

"Repeats" compares states when both are known and results otherwise. Where in every run all calls
have a state or none has, it is an equality of one key (`KeyRegister`). Otherwise (`is_mixed`) two
keys are compared (`CallRegister`).

Source: spec controllers, section 4.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple, TypeAlias, cast

import numpy as np

from loopcore.batch.columns import UNKNOWN, Booleans, Columns, Int16s, Int32s, Int64s
from loopcore.batch.detectors import REPEATED
from loopcore.batch.facts import Facts
from loopcore.batch.state import Counters, Fired, Keys, Row, RunState, counters, mask
from loopcore.control.limits import Limits
from loopcore.control.precedence import RANKS

CYCLE = RANKS["stop", "nonproductive_cycle"]
# What stands in a register where there is no call; no known key is equal to it.
_NOTHING = -1


def is_mixed(columns: Columns) -> bool:
    """Return whether some run may have calls with a known state and calls without one.

    What stands after a run's end may be taken for a call; then runs are only compared more slowly.
    """
    # The sign of an integer says UNKNOWN, so the largest of a run says whether any has none.
    with_state: Int32s = (columns.action | columns.state).max(axis=0, initial=UNKNOWN)
    without: Int32s = (columns.action | ~columns.state).max(axis=0, initial=UNKNOWN)
    return bool(((with_state >= 0) & (without >= 0)).any())


def shift(register: Keys, spare: Keys, new: Keys, counted: Booleans, good: Booleans) -> None:
    """Write into `spare` the register with a new first row where counted, emptied where good."""
    moved = mask(counted, register)
    # Each place takes the one before it where a bit of the mask is set.
    np.bitwise_xor(register[1:], register[:-1], out=spare[1:])
    np.bitwise_xor(register[0], new, out=spare[0])
    np.bitwise_and(spare, moved, out=spare)
    np.bitwise_xor(spare, register, out=spare)
    if good.any():
        # All bits set is _NOTHING.
        np.bitwise_or(spare, mask(good, register), out=spare)


class KeyForm(NamedTuple):
    """How action and state (or result) are one key: action × base + the other."""

    base: int
    kind: type[np.int16 | np.int32 | np.int64]


def key_form(columns: Columns) -> KeyForm:
    """Return the form of keys that the fingerprints of these columns need."""
    base = 1 + max(int(array.max(initial=0)) for array in (columns.state, columns.result))
    keys = (int(columns.action.max(initial=0)) + 1) * base
    kinds: tuple[type[np.int16 | np.int32 | np.int64], ...] = (np.int16, np.int32, np.int64)
    return KeyForm(base, next(kind for kind in kinds if keys <= np.iinfo(kind).max))


def keys_of(action: Int32s, part: Int32s, form: KeyForm) -> Keys:
    """Return one key for both fingerprints, _NOTHING where one is unknown."""
    keys = cast("Int16s", action.astype(form.kind))
    keys *= form.base
    keys += part.astype(form.kind)
    # The sign of UNKNOWN, spread over all bits, is _NOTHING.
    unknown: Int32s = (action | part) >> np.int32(31)
    keys |= unknown.astype(form.kind)
    return keys


class KeyRegister(RunState):
    """The last calls of runs in which one key says whether a call repeats another."""

    arrays = ("_past", "_spare")

    def __init__(self, form: KeyForm, distance_max: int, runs: int) -> None:
        self._form = form
        self._past = cast("Keys", np.full((distance_max, runs), _NOTHING, form.kind))
        self._spare = self._past.copy()

    def begin(self, facts: Facts) -> None:
        """Take the next block of turns."""
        # The state where it is known, else the result, without a branch.
        state = facts.state
        part: Int32s = state ^ ((state ^ facts.result) & (state >> np.int32(31)))
        self._keys = keys_of(facts.action, part, self._form)
        self._known: Booleans = self._keys >= 0

    def repeats(self, row: int) -> Booleans:
        """Return (distances, runs) whether the call now repeats the one at each distance."""
        same: Booleans = self._past == self._keys[row]
        same &= self._known[row]
        return same

    def push(self, row: int, counted: Booleans, good: Booleans) -> None:
        """Put the calls of this turn into the register."""
        shift(self._past, self._spare, self._keys[row], counted, good)
        self._past, self._spare = self._spare, self._past


class CallRegister(RunState):
    """The last calls of any runs: a key of action and state, and one of action and result."""

    arrays = ("_by_state", "_by_result", "_spare")

    def __init__(self, form: KeyForm, distance_max: int, runs: int) -> None:
        self._form = form
        self._by_state = cast("Keys", np.full((distance_max, runs), _NOTHING, form.kind))
        self._by_result, self._spare = self._by_state.copy(), self._by_state.copy()

    def begin(self, facts: Facts) -> None:
        """Take the next block of turns."""
        self._states = keys_of(facts.action, facts.state, self._form)
        self._results = keys_of(facts.action, facts.result, self._form)
        self._stateless: Booleans = self._states == _NOTHING

    def repeats(self, row: int) -> Booleans:
        """Return (distances, runs) whether the call now repeats the one at each distance."""
        stateless, result = self._stateless[row], self._results[row]
        # Results count where one of the two has no state.
        same: Booleans = self._by_result == result
        same &= cast("Booleans", result != _NOTHING)
        same &= cast("Booleans", self._by_state == _NOTHING) | stateless
        same |= cast("Booleans", self._by_state == self._states[row]) & ~stateless
        return same

    def push(self, row: int, counted: Booleans, good: Booleans) -> None:
        """Put the calls of this turn into the register."""
        old = self._by_state
        shift(old, self._spare, self._states[row], counted, good)
        self._by_state, self._spare = self._spare, old
        old = self._by_result
        shift(old, self._spare, self._results[row], counted, good)
        self._by_result, self._spare = self._spare, old


Register: TypeAlias = KeyRegister | CallRegister


class Repetitions(Row):
    """Rows r and c: the last calls, without progress, repeat ones at one distance."""

    arrays = ("_matches",)

    def __init__(self, limits: Limits, turns: int, runs: int, register: Register) -> None:
        self._repeat = limits.repeat
        self._cycles = limits.cycle_max is not None
        self._register = register
        # A distance beyond the run is never reached.
        distance_max = distances(limits, turns)
        self._matches: Counters = counters(turns, distance_max, runs)
        # Thresholds of distances 2 and more, in calls; what matches must reach is p calls less.
        self._periods: Int64s = np.arange(2, distance_max + 1, dtype=np.int64)
        within = min(limits.cycle_repeats, turns + 2)
        self._thresholds = self._periods * within
        needed = np.minimum(self._periods * (within - 1), turns + 1)
        self._needed = needed.astype(self._matches.dtype)[:, None]
        self._others = (self._periods - 1).astype(self._matches.dtype)[:, None]

    def keep(self, kept: Int64s) -> None:
        """Narrow the state, and that of the register, to the runs with these indices."""
        super().keep(kept)
        self._register.keep(kept)

    def begin(self, facts: Facts) -> None:
        """Take the next block of turns."""
        self._register.begin(facts)

    def update(self, facts: Facts, row: int) -> Iterator[Fired]:
        """Take one turn; yield where each row fires."""
        counted, good, matches = facts.counted_call[row], facts.good[row], self._matches
        matches += counted
        # A call goes on where it repeats; what is no call changes nothing; progress ends all.
        matches *= (self._register.repeats(row) & counted) | ~(counted | good)
        self._register.push(row, counted, good)
        if self._repeat is not None:
            again = (matches[0] >= self._repeat - 1) & counted & ~facts.repeatable[row]
            yield Fired(REPEATED, again, self._repeat)
        if self._cycles and len(matches) > 1:
            full = matches[1:] >= self._needed
            if full.any():
                full &= matches[0] < self._others
                cycling: Booleans = full.any(axis=0) & counted
                at = np.flatnonzero(cycling)
                # Of several periods the shortest is named.
                threshold: Int32s = np.zeros(len(cycling), np.int32)
                threshold[at] = self._thresholds[full[:, at].argmax(axis=0)]
                yield Fired(CYCLE, cycling, threshold)


def distances(limits: Limits, turns: int) -> int:
    """Return how many calls back are compared: `cycle_max`, at least 1, at most the turns."""
    return max(1, min(limits.cycle_max or 1, turns))
