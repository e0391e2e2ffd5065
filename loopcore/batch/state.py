"""What every vector row is: state of many runs that narrows to some of them, and its answers.

Theory of operation: a row's state is arrays whose last axis is the open runs. When enough runs are
decided, the driver narrows every row at once. An answer is a rank of the table of precedence, where
it is given, and the threshold that was reached there.

Source: spec controllers, section 5.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterator
from typing import NamedTuple, TypeAlias, cast

import numpy as np

from loopcore.batch.columns import Booleans, Int16s, Int32s, Int64s
from loopcore.batch.facts import Facts

Counters: TypeAlias = "Int16s | Int32s"
Keys: TypeAlias = "Int16s | Int32s | Int64s"

# Counters count turns; two bytes do for runs of this many.
SHORT_TURNS_MAX = 2**15 - 2


class Fired(NamedTuple):
    """Where a row fires in one turn, with its rank and the threshold of a detection (0: none)."""

    rank: int
    where: Booleans
    threshold: int | Int32s


class RunState:
    """State of many runs; a subclass names its arrays, each with runs as its last axis."""

    arrays: tuple[str, ...] = ()

    def keep(self, kept: Int64s) -> None:
        """Narrow the state to the runs with these indices."""
        for name in self.arrays:
            setattr(self, name, np.take(getattr(self, name), kept, axis=-1))


class Row(RunState, ABC):
    """Something that may stop runs: a row of the table, the budgets or the gate."""

    def begin(self, facts: Facts) -> None:
        """Take the next block of turns; `update` is then called once for each of its turns."""

    @abstractmethod
    def update(self, facts: Facts, row: int) -> Iterator[Fired]:
        """Take one turn of the block; yield where the row fires."""


def mask(where: Booleans, like: Keys) -> Keys:
    """Return integers of the type of `like` with all bits set where true, none elsewhere."""
    bits = cast("Int16s", where.astype(like.dtype))
    return np.negative(bits, out=bits)


def choose(into: Keys, new: Keys, where: Booleans) -> None:
    """Write the new values where true; several times as fast as a masked copy."""
    changed = into ^ new
    changed &= mask(where, into)
    into ^= changed


def counters(turns: int, *shape: int) -> Counters:
    """Return zeros that can count that many turns."""
    if turns <= SHORT_TURNS_MAX:
        return np.zeros(shape, np.int16)
    return np.zeros(shape, np.int32)
