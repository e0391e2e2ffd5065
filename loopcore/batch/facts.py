"""What the rows need to know of some turns of some runs, each column taken once and when asked for.

Theory of operation: runs are decided in blocks of turns. A `Facts` stands for one block: the turns
of a range and the runs that are still open, as arrays of shape (turns, runs). Only the columns that
the level's rows ask for are gathered, and what does not depend on earlier turns is computed for the
whole block at once. With one observation a turn nothing can count twice in a turn.

Source: spec controllers, section 4.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from functools import cached_property
from typing import TypeAlias, cast

import numpy as np

from loopcore.batch.columns import (
    PROGRESS_UNKNOWN,
    UNKNOWN,
    Booleans,
    Columns,
    Int8s,
    Int16s,
    Int32s,
    Int64s,
)
from loopcore.control.limits import Limits

# A range of runs, or their indices.
Kept: TypeAlias = "slice[int, int, None] | Int64s"


@dataclass(frozen=True, slots=True, kw_only=True)
class ToolNumbers:
    """Numbers of the tools that have a policy; `waits` with their own bounds, None for no bound."""

    waits: tuple[tuple[int, int | None], ...]
    repeatable: tuple[int, ...]


def tool_numbers(columns: Columns, limits: Limits) -> ToolNumbers:
    """Return which of the columns' tools wait and which may repeat."""
    numbered = tuple(enumerate(columns.tools))
    return ToolNumbers(
        waits=tuple((n, limits.waits(name)) for n, name in numbered if limits.policy(name).wait),
        repeatable=tuple(n for n, name in numbered if limits.policy(name).repeatable),
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class Scope:
    """What is judged under which limits."""

    columns: Columns
    limits: Limits
    tools: ToolNumbers


class Facts:
    """A block: the rows from `first` up to `last` of the runs `kept`."""

    def __init__(self, scope: Scope, first: int, last: int, kept: Kept) -> None:
        self._columns = scope.columns
        self._tools = scope.tools
        self._verify = scope.limits.gate == "verify"
        self._first, self._last = first, last
        self._kept = kept

    def _cut(self, name: str) -> Int32s:
        """Return a part of the column of this name; its element type is the column's own."""
        rows = cast("Int32s", getattr(self._columns, name))[self._first : self._last]
        if isinstance(self._kept, slice):
            return rows[:, self._kept]
        return np.take(rows, self._kept, axis=1)

    @cached_property
    def lengths(self) -> Int32s:
        """Shape (runs,), turns of each run."""
        return self._columns.lengths[self._kept]

    def usage(self, name: str) -> Int32s:
        """Return one column of usage."""
        return self._cut(name)

    @cached_property
    def tool(self) -> Int16s:
        """Number of the tool."""
        return cast("Int16s", self._cut("tool"))

    @cached_property
    def action(self) -> Int32s:
        """Action fingerprint."""
        return self._cut("action")

    @cached_property
    def result(self) -> Int32s:
        """Result fingerprint."""
        return self._cut("result")

    @cached_property
    def state(self) -> Int32s:
        """State fingerprint."""
        return self._cut("state")

    @cached_property
    def error(self) -> Int16s:
        """Number of the error class."""
        return cast("Int16s", self._cut("error"))

    @cached_property
    def progress(self) -> Int8s:
        """Progress of the turn."""
        return cast("Int8s", self._cut("progress"))

    @cached_property
    def claims(self) -> Booleans:
        """The agent says that it is done."""
        return cast("Booleans", self._cut("claims"))

    @cached_property
    def verified(self) -> Int8s:
        """The verifier's answer."""
        return cast("Int8s", self._cut("verified"))

    @cached_property
    def waiting(self) -> Booleans:
        """The tool waits."""
        return self._among(number for number, _ in self._tools.waits)

    @cached_property
    def active(self) -> Booleans:
        """The tool does not wait."""
        return ~self.waiting

    @cached_property
    def repeatable(self) -> Booleans:
        """The tool may repeat."""
        return self._among(self._tools.repeatable)

    def _among(self, numbers: Iterable[int]) -> Booleans:
        found: Booleans = np.zeros(self.tool.shape, np.bool_)
        for number in numbers:
            found |= self.tool == number
        return found

    @cached_property
    def improved(self) -> Booleans:
        """Progress is positive."""
        return self.progress > 0

    @cached_property
    def good(self) -> Booleans:
        """Progress is positive and the tool does not wait."""
        return self.improved & self.active

    @cached_property
    def call(self) -> Booleans:
        """There is a tool or a known action, and the tool does not wait."""
        there = cast("Booleans", self.tool != UNKNOWN) | cast("Booleans", self.action != UNKNOWN)
        return there & self.active

    @cached_property
    def counted_call(self) -> Booleans:
        """A call that is not good."""
        return self.call & ~self.good

    @cached_property
    def failed(self) -> Booleans:
        """There is an error class; neither a wait nor good."""
        return cast("Booleans", self.error != UNKNOWN) & self.active & ~self.good

    @cached_property
    def completed(self) -> Booleans:
        """An accepted finish."""
        if not self._verify:
            return self.claims
        return self.claims & cast("Booleans", self.verified == 1)

    @cached_property
    def refused(self) -> Booleans:
        """A finish that the verifier refused, under the gate `verify`."""
        if not self._verify:
            return np.zeros(self.claims.shape, np.bool_)
        return self.claims & cast("Booleans", self.verified == 0)

    @cached_property
    def pending(self) -> Booleans:
        """A finish that the verifier could not judge, under the gate `verify`."""
        if not self._verify:
            return np.zeros(self.claims.shape, np.bool_)
        return self.claims & cast("Booleans", self.verified == UNKNOWN)

    @cached_property
    def unmoved(self) -> Booleans:
        """Progress is known not to be positive; no wait, no claim that could not be judged."""
        known = cast("Booleans", self.progress != PROGRESS_UNKNOWN) & ~self.improved
        return known & self.active & ~self.pending
