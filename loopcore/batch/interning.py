"""Trajectories become columns; within a run, equal fingerprints become equal small integers.

Theory of operation: fingerprints are those that the scalar levels use: one that is given stands as
it is, a missing one is computed from arguments (result) with the tool's volatile names left out.
Each run has tables of its own, so that an integer stays below the run's length. A run is a list of
scalars first and one write into the arrays at its end.

Choices: a progress beyond one byte is cut, as only its sign means anything. An amount of usage that
is negative or needs more than 31 bits is refused, not wrapped.

Source: spec controllers, sections 1 and 2; spec control, section 6.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from loopcore.batch.columns import PROGRESS_UNKNOWN, UNKNOWN, Columns
from loopcore.control.fingerprints import action_fingerprint, result_fingerprint
from loopcore.control.limits import Limits
from loopcore.control.observations import Observation
from loopcore.errors import UsageError

# What one column can hold of a run; the counters of the vector rows are made for it.
TURNS_MAX = 1_000_000
AMOUNT_MAX = 2**31 - 1
NAMES_MAX = 2**15 - 1
_PROGRESS_MAX = 127

USAGE_FIELDS = (
    "model_calls",
    "tool_calls",
    "input_tokens",
    "output_tokens",
    "cost_microunits",
    "latency_ms",
)


def columns(trajectories: Sequence[Sequence[Observation]], limits: Limits) -> Columns:
    """Return the columns of runs that have one observation a turn.

    Arguments:
        trajectories: runs, each with turns 1, 2, 3 … and action 1 in every turn; may be empty.
        limits: their `tools` say which names are volatile; nothing else of them is used.

    Errors: UsageError naming the run and the turn where a run has more or less than one observation
    a turn, or a value that no column can hold.
    """
    turns = max((len(run) for run in trajectories), default=0)
    if turns > TURNS_MAX:
        raise UsageError(f"columns: a run of {turns} turns is longer than {TURNS_MAX}")
    shape = (turns, len(trajectories))
    tools, errors = _Names("tools"), _Names("error classes")
    made = Columns(
        tools=(),
        errors=(),
        lengths=np.array([len(run) for run in trajectories], np.int32),
        tool=np.full(shape, UNKNOWN, np.int16),
        action=np.full(shape, UNKNOWN, np.int32),
        result=np.full(shape, UNKNOWN, np.int32),
        state=np.full(shape, UNKNOWN, np.int32),
        progress=np.full(shape, PROGRESS_UNKNOWN, np.int8),
        error=np.full(shape, UNKNOWN, np.int16),
        claims=np.zeros(shape, np.bool_),
        verified=np.full(shape, UNKNOWN, np.int8),
        **{name: np.zeros(shape, np.int32) for name in USAGE_FIELDS},
    )
    arrays = [array for _, array in made.arrays()]
    for number, run in enumerate(trajectories):
        rows = _rows(run, number, limits, tools, errors)
        for array, values in zip(arrays, zip(*rows, strict=True), strict=False):
            array[: len(run), number] = values
    return Columns(
        tools=tuple(tools.numbers),
        errors=tuple(errors.numbers),
        lengths=made.lengths,
        **dict(made.arrays()),  # type: ignore[arg-type]  # each name keeps its own type
    )


class _Names:
    """Numbers from 0 for names, in the order in which they come; UNKNOWN for None."""

    def __init__(self, what: str) -> None:
        self.numbers: dict[str, int] = {}
        self._what = what

    def number(self, name: str | None) -> int:
        if name is None:
            return UNKNOWN
        found = self.numbers.setdefault(name, len(self.numbers))
        if found > NAMES_MAX:
            raise UsageError(f"columns: more than {NAMES_MAX} {self._what}")
        return found


def _rows(
    run: Sequence[Observation], number: int, limits: Limits, tools: _Names, errors: _Names
) -> list[tuple[int, ...]]:
    """Return one row a turn, the values in the order of the columns."""
    actions, results, states = _Names("actions"), _Names("results"), _Names("states")
    rows: list[tuple[int, ...]] = []
    for turn, seen in enumerate(run, start=1):
        if (seen.turn, seen.action) != (turn, 1):
            raise UsageError(
                f"columns: run {number}: expected one observation a turn and now turn {turn}, "
                f"action 1, got turn {seen.turn}, action {seen.action}"
            )
        action, result = fingerprints(seen, limits)
        progress = seen.progress
        if progress is not None:
            progress = min(max(progress, -_PROGRESS_MAX), _PROGRESS_MAX)
        rows.append(
            (
                tools.number(seen.tool),
                actions.number(action),
                results.number(result),
                states.number(seen.state_fingerprint),
                PROGRESS_UNKNOWN if progress is None else progress,
                errors.number(seen.error_class),
                seen.claims_done,
                UNKNOWN if seen.verified is None else int(seen.verified),
                *_amounts(seen, number),
            )
        )
    return rows


def fingerprints(seen: Observation, limits: Limits) -> tuple[str | None, str | None]:
    """Return the fingerprints of action and result: given, else computed, else None."""
    action, result = seen.action_fingerprint, seen.result_fingerprint
    volatile = limits.policy(seen.tool).volatile
    if action is None and seen.arguments is not None:
        action = action_fingerprint(seen.tool, seen.arguments, volatile)
    if result is None and seen.result is not None:
        result = result_fingerprint(seen.result, volatile)
    return action, result


def _amounts(seen: Observation, number: int) -> list[int]:
    usage = seen.usage
    amounts = [
        usage.model_calls or 0,
        usage.tool_calls or 0,
        usage.input_tokens or 0,
        usage.output_tokens or 0,
        usage.cost_microunits or 0,
        usage.latency_ms or 0,
    ]
    if min(amounts) < 0 or max(amounts) > AMOUNT_MAX:
        name, amount = next(
            (name, amount)
            for name, amount in zip(USAGE_FIELDS, amounts, strict=True)
            if not 0 <= amount <= AMOUNT_MAX
        )
        raise UsageError(
            f"columns: run {number}, turn {seen.turn}: usage.{name}: expected 0 to {AMOUNT_MAX}, "
            f"got {amount}"
        )
    return amounts
