"""Counting: the trajectories of one application become its chains and usage.

Theory of operation: runs become columns, columns become packed states, and every pair of states
that follow each other within a phase is counted. What a plan decides is not counted as chance: the
turns of the last success, of the finish and of the onset are kept for each run, and what is there
at these turns is counted by itself.

Choices: a state that only the horizon cut off follows itself. Of the tools of one policy the one
that was called most often stands for all, and of the error classes the two most frequent.

Source: spec control, section 4 (the columnar tier).
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from itertools import pairwise

import numpy as np

from loopcore.batch.columns import (
    PROGRESS_UNKNOWN,
    UNKNOWN,
    Booleans,
    Columns,
    Int16s,
    Int32s,
    Int64s,
)
from loopcore.batch.interning import USAGE_FIELDS, columns
from loopcore.control.limits import Limits
from loopcore.worlds.habit_model_data import (
    MILLION,
    ApplicationModel,
    Chain,
    Start,
    UsageClass,
)
from loopcore.worlds.habit_model_events import (
    CLOSING,
    NOTHING,
    VERIFIED,
    WAIT,
    WORKING,
    kinds,
    part,
    states,
)
from loopcore.worlds.model import Trajectory

USAGE_ROWS = 64
# The turns that a plan names: the first one of a run that has a success to come or an onset, the
# first one of any other that verifies, the last success, the verified finish, the onset with and
# without a success to come, and the last success after the onset.
STARTS = ("start", "closed", "close", "finish", "moving", "stuck", "ceasing")
# Usage that grows with the turn, as the context does; the others are drawn as they were.
_GROWING = ("input_tokens", "cost_microunits")


def application_model(trajectories: Sequence[Trajectory], limits: Limits) -> ApplicationModel:
    """Return what was counted over the runs of one application.

    Arguments:
        trajectories: runs up to one horizon. limits: with the policies of the tools.
    """
    by_habit: dict[str, list[Trajectory]] = {}
    for run in trajectories:
        by_habit.setdefault(run.task.habit, []).append(run)
    made = columns([run.observations for run in trajectories], limits)
    kind = kinds(made, limits)
    inside = np.arange(made.turns)[:, None] < made.lengths[None, :]
    unknown = (made.progress == PROGRESS_UNKNOWN) & inside
    return ApplicationModel(
        tools=_tools(made, np.where(inside, kind, NOTHING)),
        errors=_most_frequent(made.errors, made.error[made.error != UNKNOWN], 2),
        unmeasured=round(MILLION * int(unknown.sum()) / int(inside.sum())),
        usage=[_usage(made, (kind == one) & inside) for one in range(WAIT + 1)],
        chains={habit: chain(runs, limits) for habit, runs in by_habit.items()},
    )


def chain(runs: Sequence[Trajectory], limits: Limits) -> Chain:
    """Return what was counted over the runs of one habit."""
    onset = np.array([run.onset or 0 for run in runs], np.int32)
    verified_turn = np.array([run.verified_turn or 0 for run in runs], np.int32)
    made = columns([run.observations for run in runs], limits)
    found = states(made, limits, onset, verified_turn)
    packed, close = found.packed, found.close
    phase = part(packed, "phase")
    # A step is one within a phase, or the first success, and not the finish.
    steps = (packed[1:] >= 0) & (part(packed[1:], "claim") != VERIFIED)
    steps &= (phase[1:] == phase[:-1]) | ((phase[1:] == WORKING) & (phase[:-1] < WORKING))
    counts = Counter(zip(packed[:-1][steps].tolist(), packed[1:][steps].tolist(), strict=True))
    starts = _starts(packed, onset, close, verified_turn, found.manner)
    known = sorted({s for pair in counts for s in pair} | {s for c in starts.values() for s in c})
    place = {state: index for index, state in enumerate(known)}
    rows: list[list[int]] = [[] for _ in known]
    for (before, now), count in sorted(counts.items()):
        rows[place[before]] += [place[now], count]
    plans = np.stack([close, onset, found.manner, verified_turn], axis=1)
    return Chain(
        plans=sorted((int(c), int(o), int(m), int(v)) for c, o, m, v in plans),
        steps=[now - before for before, now in pairwise([0, *known])],
        rows=rows,
        starts=[
            Start(*key, [n for s, c in sorted(found_.items()) for n in (place[s], c)])
            for key, found_ in sorted(starts.items())
        ],
    )


def _starts(
    packed: Int64s, onset: Int32s, close: Int64s, verified_turn: Int32s, manner: Int64s
) -> dict[tuple[str, int], Counter[int]]:
    """Return what was there at the turns that the plans name, by name and manner."""
    runs = np.arange(packed.shape[1])
    phase = part(packed, "phase")
    closes = (onset == 0) & (close > 0) & (verified_turn > 0)
    later = close >= onset
    turns = {
        "start": np.where(phase[0] < CLOSING, 1, 0),
        "closed": np.where((onset == 0) & (close == 0) & (verified_turn > 0), 1, 0),
        "close": np.where(closes, close, 0),
        "finish": verified_turn,
        "moving": np.where((onset > 0) & (close > onset), onset, 0),
        "stuck": np.where((onset > 0) & ~later, onset, 0),
        "ceasing": np.where((onset > 0) & later, close, 0),
    }
    found: dict[tuple[str, int], Counter[int]] = {}
    for what, turn in turns.items():
        for run in runs[turn > 0]:
            # Before its onset a run is one like any other.
            before = what in ("start", "closed") and onset[run] > 0
            key = (what, 0 if before else int(manner[run]))
            found.setdefault(key, Counter()).update([int(packed[turn[run] - 1, run])])
    return found


def _tools(made: Columns, kind: Int64s) -> list[str]:
    """Return the most frequent tool of each kind of turn, "" for none."""
    names: list[str] = []
    for one in range(WAIT + 1):
        called = made.tool[(kind == one) & (made.tool != UNKNOWN)]
        found = _most_frequent(made.tools, called, 1) if one != NOTHING else []
        names.append(found[0] if found else "")
    return names


def _most_frequent(names: Sequence[str], numbers: Int16s, count: int) -> list[str]:
    """Return the most frequent names, of equals the first in order."""
    counted = Counter(int(number) for number in numbers)
    best = sorted(counted, key=lambda number: (-counted[number], names[number]))
    return [names[number] for number in best[:count]]


def _usage(made: Columns, chosen: Booleans) -> UsageClass:
    """Return equally frequent rows of the usage of the chosen turns, brought back to turn 0."""
    turns = np.broadcast_to(np.arange(1, made.turns + 1)[:, None], chosen.shape)[chosen]
    amounts = {
        name: array[chosen].astype(np.float64)
        for name, array in made.arrays()
        if name in USAGE_FIELDS
    }
    if not turns.size:
        return UsageClass(rows=[], growth=[0] * len(USAGE_FIELDS))
    calls = np.maximum(amounts["model_calls"], 1)
    growth: list[float] = []
    for name in USAGE_FIELDS:
        slope = 0.0
        if name in _GROWING and turns.min() < turns.max():
            # Each turn adds the same for every model call of the turn.
            slope = float(np.polyfit(turns.astype(np.float64), amounts[name] / calls, 1)[0])
        growth.append(round(slope * MILLION) / MILLION)
        amounts[name] = amounts[name] - growth[-1] * turns * calls
    order = np.argsort(amounts["cost_microunits"], kind="stable")
    # The middle of each of so many equal parts, so that their mean is that of the whole.
    picked = order[(np.arange(USAGE_ROWS) * 2 + 1) * len(order) // (2 * USAGE_ROWS)]
    return UsageClass(
        rows=[[round(float(amounts[name][index])) for name in USAGE_FIELDS] for index in picked],
        growth=[round(slope * MILLION) for slope in growth],
    )
