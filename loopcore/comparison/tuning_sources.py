"""What the tuner needs to know of runs, measured a row at a time: from columns or from recordings.

Theory of operation: for each option of each row, the level is run with that row alone. A finish is
no firing; a verifier that stalls belongs to `error_streak`, which bounds it. Columns give the turns
of all runs at once; a recorded run is replayed under the scalar level, and what it spends are its
dispatched actions, since its cost may not be recorded.

Source: spec control, sections 4 and 5.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial

import numpy as np

from loopcore.batch.columns import Columns, Int32s, Int64s
from loopcore.batch.stop_times import stop_times
from loopcore.comparison.outcomes import Truth
from loopcore.comparison.replay import Contestant, replay, with_fingerprints
from loopcore.comparison.tuning import NEVER, OPTIONS, Firings, limits_of
from loopcore.control.levels import controller
from loopcore.control.limits import Limits
from loopcore.recordings.model import Run, is_call

LEVEL = "D"


def from_columns(columns: Columns, truth: Truth, limits: Limits) -> Firings:
    """Return the firings of simulated runs; a task is a run, spending is cost in microunits."""
    firing: dict[str, Int32s] = {}
    for row, options in OPTIONS.items():
        turns = np.full((len(options), columns.runs), NEVER, dtype=np.int32)
        for place, option in enumerate(options):
            if option is not None:
                stops = stop_times(columns, limits_of({row: option}, limits), LEVEL)
                fired = (stops.reason > 0) & ~stops.is_cause("finish")
                turns[place][fired] = stops.turn[fired]
        firing[row] = turns
    spent = np.zeros((columns.turns + 1, columns.runs), dtype=np.int64)
    inside = np.arange(columns.turns)[:, None] < columns.lengths
    np.cumsum(np.where(inside, columns.cost_microunits, 0), axis=0, out=spent[1:])
    return Firings(
        task=np.arange(columns.runs, dtype=np.int32),
        good=truth.in_s,
        length=columns.lengths.astype(np.int32),
        firing=firing,
        spent=spent,
        unit="cost",
    )


def from_runs(runs: Sequence[Run], base: Limits | None = None) -> Firings:
    """Return the firings of recorded runs with a known outcome; spending is dispatched actions."""
    limits = Limits() if base is None else base
    known = [with_fingerprints(run) for run in runs if run.success is not None]
    names = {task: number for number, task in enumerate(sorted({run.task for run in known}))}
    length = np.array([run.observations[-1].turn for run in known], dtype=np.int32)
    return Firings(
        task=np.array([names[run.task] for run in known], dtype=np.int32),
        good=np.array([bool(run.success) for run in known], dtype=np.bool_),
        length=length,
        firing={
            row: np.array(
                [[_first(run, row, option, limits) for run in known] for option in options],
                dtype=np.int32,
            ).reshape(len(options), len(known))
            for row, options in OPTIONS.items()
        },
        spent=np.stack([_actions(run, int(length.max())) for run in known], axis=1)
        if known
        else np.zeros((1, 0), dtype=np.int64),
        unit="dispatched actions",
    )


def _first(run: Run, row: str, option: int | None, limits: Limits) -> int:
    """Return the turn at which a row that is alone stops a run, NEVER where it does not."""
    if option is None:
        return NEVER
    alone = Contestant(
        name=row, make=partial(controller, LEVEL), limits=limits_of({row: option}, limits)
    )
    stop = replay(run, alone)
    return NEVER if stop.turn is None or stop.cause == "finish" else stop.turn


def _actions(run: Run, turns: int) -> Int64s:
    """Return how many actions were dispatched after each number of turns, shape (turns + 1,)."""
    counts = np.zeros(turns + 1, dtype=np.int64)
    for observation in run.observations:
        counts[observation.turn] += is_call(observation)
    return np.cumsum(counts)
