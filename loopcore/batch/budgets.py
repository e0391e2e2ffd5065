"""Rows s and b over many runs at once: counted turns and summed usage against their bounds.

Theory of operation: as `loopcore.control.gates.Sums` and the counting of steps in a level, with
arrays. Only bounds that are on have an array.

Source: spec controllers, section 4.
"""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from loopcore.batch.columns import Int64s
from loopcore.batch.facts import Facts
from loopcore.batch.interning import USAGE_FIELDS
from loopcore.batch.state import Fired, Row, counters
from loopcore.control.limits import Limits
from loopcore.control.precedence import DEADLINE, RANKS, STEPS

_RANKS = {
    "model_calls": RANKS["stop", "model_budget_exhausted"],
    "tool_calls": RANKS["stop", "tool_budget_exhausted"],
    "cost_microunits": RANKS["stop", "cost_budget_exhausted"],
    "input_tokens": RANKS["stop", "input_token_budget_exhausted"],
    "output_tokens": RANKS["stop", "output_token_budget_exhausted"],
    "latency_ms": DEADLINE,
}


class StepCounts(Row):
    """`max_steps`: turns that do not wait."""

    arrays = ("_steps",)

    def __init__(self, steps_max: int, turns: int, runs: int) -> None:
        self._steps_max = steps_max
        self._steps = counters(turns, runs)

    def update(self, facts: Facts, row: int) -> Iterator[Fired]:
        """Take one turn; yield where the steps are used up."""
        self._steps += facts.active[row]
        yield Fired(STEPS, self._steps >= self._steps_max, 0)


class Horizons(Row):
    """The horizon of all levels: it ends every run at one turn."""

    def __init__(self, horizon: int) -> None:
        self._left = horizon

    def update(self, facts: Facts, row: int) -> Iterator[Fired]:
        """Take one turn; yield all runs where it is the last."""
        self._left -= 1
        if self._left <= 0:
            yield Fired(STEPS, np.ones(facts.lengths.shape, np.bool_), 0)


class UsageSums(Row):
    """Row b: what the runs consumed, against the bounds that are on."""

    arrays = ("_sums",)

    def __init__(self, limits: Limits, runs: int) -> None:
        self._bounds: list[tuple[str, int, int]] = []
        for name in USAGE_FIELDS:
            bound: int | None = getattr(limits, f"max_{name}")
            if bound is not None:
                # A deadline is reached where the others are exceeded.
                self._bounds.append((name, bound - (name == "latency_ms"), _RANKS[name]))
        self._sums: Int64s = np.zeros((len(self._bounds), runs), np.int64)

    def begin(self, facts: Facts) -> None:
        """Take the next block of turns."""
        self._used = [facts.usage(name) for name, _, _ in self._bounds]

    def update(self, facts: Facts, row: int) -> Iterator[Fired]:
        """Take one turn; yield where each bound is gone over."""
        for index, (_, bound, rank) in enumerate(self._bounds):
            self._sums[index] += self._used[index][row]
            yield Fired(rank, self._sums[index] > bound, 0)
