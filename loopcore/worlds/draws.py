"""Every random number of a run is a function of what it is for, never of what was drawn before.

Theory of operation: seed, application and number of a task are mixed into the state of a SplitMix64
generator, and a draw is the output at the place that its turn and purpose name. Two runs of one
task therefore meet the same luck at the same turn whoever controls them, a draw that one of them
does not make changes nothing for the other, and no order, process or hash seed plays a part. The
same numbers come for one task at a time and for an array of tasks.

Source: spec control, section 3 (counter-based generator); Steele, Lea and Flood, "Fast splittable
pseudorandom number generators", 2014 (SplitMix64).
"""

from __future__ import annotations

from typing import TYPE_CHECKING, TypeAlias

if TYPE_CHECKING:
    import numpy as np

    from loopcore.batch.columns import Floats, Int64s

    Words: TypeAlias = np.ndarray[tuple[int, ...], np.dtype[np.uint64]]

# Draws of one turn; a purpose is an integer from 0 below this.
PURPOSES_MAX = 64

_MASK = (1 << 64) - 1
# SplitMix64: the increment of the state, and the two multipliers and three shifts of the output.
_GOLDEN = 0x9E3779B97F4A7C15
_FIRST = 0xBF58476D1CE4E5B9
_SECOND = 0x94D049BB133111EB
# FNV-1a, 64 bits, which turns a name into a number.
_NAME_BASIS = 0xCBF29CE484222325
_NAME_PRIME = 0x100000001B3
# The 53 highest bits of a word make a float in [0, 1) that is exact.
_FLOAT_SHIFT = 11
_FLOAT_UNIT = 2.0**-53


def mixed(state: int) -> int:
    """Return the output of SplitMix64 for this state, 64 bits."""
    word = state & _MASK
    word = ((word ^ (word >> 30)) * _FIRST) & _MASK
    word = ((word ^ (word >> 27)) * _SECOND) & _MASK
    return word ^ (word >> 31)


def _origin(seed: int, application: str) -> int:
    """Return the state that all tasks of a seed and an application share."""
    name = _NAME_BASIS
    for byte in application.encode():
        name = ((name ^ byte) * _NAME_PRIME) & _MASK
    # A seed of any size takes part with all its bits.
    state, rest = 0, abs(seed)
    while True:
        state = mixed(state + (rest & _MASK) + _GOLDEN)
        rest >>= 64
        if not rest:
            break
    return mixed(state + name + (1 if seed < 0 else 0))


class Draws:
    """The draws of one task.

    Arguments:
        seed: any integer; application: a name; number: of the task, from 0 below 2^63.
    """

    __slots__ = ("_start",)

    def __init__(self, seed: int, application: str, number: int) -> None:
        self._start = mixed(_origin(seed, application) + number * _GOLDEN)

    def word(self, turn: int, purpose: int) -> int:
        """Return 64 random bits as an integer from 0; arguments as `uniform`."""
        word = (self._start + (turn * PURPOSES_MAX + purpose + 1) * _GOLDEN) & _MASK
        word = ((word ^ (word >> 30)) * _FIRST) & _MASK
        word = ((word ^ (word >> 27)) * _SECOND) & _MASK
        return word ^ (word >> 31)

    def uniform(self, turn: int, purpose: int) -> float:
        """Return a float in [0, 1), the same whenever it is asked for.

        Arguments:
            turn: any integer from 0; purpose: from 0 below `PURPOSES_MAX`.
        """
        return (self.word(turn, purpose) >> _FLOAT_SHIFT) * _FLOAT_UNIT


def uniforms(seed: int, application: str, numbers: Int64s, turn: int, purpose: int) -> Floats:
    """Return what `Draws.uniform` returns for each of many tasks, as one array.

    Arguments:
        numbers: numbers of the tasks, integers from 0, of any shape; the others as in `Draws`.
    """
    import numpy as np

    def word(state: int) -> np.uint64:
        return np.uint64(state & _MASK)

    def shuffled(states: Words) -> Words:
        states = (states ^ (states >> np.uint64(30))) * word(_FIRST)
        states = (states ^ (states >> np.uint64(27))) * word(_SECOND)
        return states ^ (states >> np.uint64(31))

    # Unsigned 64-bit arithmetic wraps, which is the arithmetic of the generator.
    states = np.asarray(numbers).astype(np.uint64) * word(_GOLDEN)
    states = shuffled(states + word(_origin(seed, application)))
    states = shuffled(states + word((turn * PURPOSES_MAX + purpose + 1) * _GOLDEN))
    return (states >> np.uint64(_FLOAT_SHIFT)).astype(np.float64) * _FLOAT_UNIT
