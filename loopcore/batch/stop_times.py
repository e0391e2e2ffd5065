"""For every run, the turn at which a contestant stops it, and why: equal to the scalar controllers.

Theory of operation: runs are taken in groups that fit a processor's cache, and a group in blocks of
turns. Within a block the rows of the level move one turn of all open runs at a time; after it the
runs that are over are dropped, so a contestant that stops early costs little. Of the rows that fire
in one turn the highest rank wins, as the table of precedence has it.

A contestant is a level A to D, or one of the variants of `loopcore.control.variants` by its name.
Level E changes what the agent does, so it has no stop time on a given trajectory.

Source: spec controllers, sections 4 to 6; spec control, section 6.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from operator import itemgetter
from typing import TypeAlias

import numpy as np

from loopcore.batch.budgets import Horizons, StepCounts, UsageSums
from loopcore.batch.columns import Booleans, Columns, Int8s, Int32s, Int64s
from loopcore.batch.detectors import REPEATED, ErrorStreaks, ExactRuns, IdleWindows, WaitCounts
from loopcore.batch.facts import Facts, Scope, tool_numbers
from loopcore.batch.gates import Gates
from loopcore.batch.guards import NEVER, condition_turns, finish_turns
from loopcore.batch.repetitions import (
    CallRegister,
    KeyRegister,
    Register,
    Repetitions,
    distances,
    is_mixed,
    key_form,
)
from loopcore.batch.state import Fired, Row
from loopcore.control.levels import LEVELS, LevelRule
from loopcore.control.limits import Gate, Limits
from loopcore.control.precedence import COMPLETED, PRECEDENCE, STEPS
from loopcore.errors import UsageError

# Index 0, then the reasons of stops from the highest of the precedence down: a rank plus 1.
REASONS: tuple[str, ...] = (
    "none",
    *(answer.reason for answer in PRECEDENCE if answer.decision == "stop" and answer.reason),
)
# What gave each of the reasons: "none", "finish", "budget", "gate" or "detector".
CAUSES: tuple[str, ...] = (
    "none",
    *(answer.source for answer in PRECEDENCE if answer.decision == "stop"),
)
STOP_LEVELS = ("A", "B", "C", "D")

Registers: TypeAlias = Callable[[int], Register]
Group: TypeAlias = "slice[int, int, None]"

GROUP_RUNS = 16_384
BLOCK_TURNS = 8
# Runs that are over are dropped once no more than this share of a group is open.
OPEN_SHARE = 0.8


@dataclass(frozen=True, slots=True, kw_only=True)
class Stops:
    """How each run ends, shape (runs,).

    Fields:
        turn: executed turns: that of the stop, or the run's length where there is none.
        reason: index into REASONS; 0 where the run ended without a stop.
        threshold: of the row (or the gate) that fired; 0 for a finish, a budget and no stop.
    """

    turn: Int32s
    reason: Int8s
    threshold: Int32s

    def is_cause(self, cause: str) -> Booleans:
        """Return (runs,) whether the stop came from "finish", "budget", "gate" or "detector"."""
        return np.array([each == cause for each in CAUSES])[self.reason]


def stop_times(columns: Columns, limits: Limits, name: str) -> Stops:
    """Return where the contestant of this name stops each run.

    Arguments:
        columns: runs with one observation a turn.
        limits: with the tools' policies; the gate is theirs. `volatile` took part when the columns
            were made and has none here.
        name: "A" to "D", "consecutive-K", "total-K", each also "-result", or "step-cap-N".

    Errors: UsageError when the name is none of these. Linear in the turns until the stops.

    Choices: the threshold of a cycle is that of its shortest period.
    """
    if name in LEVELS and name not in STOP_LEVELS:
        raise UsageError(
            f"stop times: level {name} changes what the agent does, so no given run has its stops; "
            f"expected one of {', '.join(STOP_LEVELS)} or a variant"
        )
    if name not in STOP_LEVELS:
        return _guard_stops(columns, name)
    stops = Stops(
        turn=columns.lengths.astype(np.int32),
        reason=np.zeros(columns.runs, np.int8),
        threshold=np.zeros(columns.runs, np.int32),
    )
    rule = LEVELS[name]
    scope = Scope(columns=columns, limits=limits, tools=tool_numbers(columns, limits))
    register: Registers | None = None
    if _compares(rule, limits):
        kind = CallRegister if is_mixed(columns) else KeyRegister
        register = partial(kind, key_form(columns), distances(limits, columns.turns))
    for first in range(0, columns.runs, GROUP_RUNS):
        last = min(first + GROUP_RUNS, columns.runs)
        rows = _rows(scope, rule, register, last - first)
        _decide(scope, rows, slice(first, last), stops)
    return stops


def _compares(rule: LevelRule, limits: Limits) -> bool:
    """Return whether rows r or c are there and on."""
    return "r" in rule.detectors and not (limits.repeat is None and limits.cycle_max is None)


def _guard_stops(columns: Columns, name: str) -> Stops:
    """Return the stops of a variant."""
    at, threshold = condition_turns(columns, name)
    finish = finish_turns(columns)
    completed = (finish <= at) & (finish != NEVER)
    held = (at < finish) & (at != NEVER)
    reason = (STEPS if threshold == 0 else REPEATED) + 1
    turn = np.where(completed, finish, np.where(held, at, columns.lengths))
    return Stops(
        turn=turn.astype(np.int32),
        reason=(completed * (COMPLETED + 1) + held * reason).astype(np.int8),
        threshold=(held * threshold).astype(np.int32),
    )


def _rows(scope: Scope, rule: LevelRule, register: Registers | None, runs: int) -> list[Row]:
    """Return the rows of a level that are on, for that many runs."""
    limits, turns = scope.limits, scope.columns.turns
    rows: list[Row] = [Gates(limits, turns, runs, stops=rule.gate_stops)]
    horizon, detectors = limits.horizon_turns(), rule.detectors
    if horizon is not None:
        rows.append(Horizons(horizon))
    if rule.budgets:
        rows.append(UsageSums(limits, runs))
        if limits.max_steps is not None:
            rows.append(StepCounts(limits.max_steps, turns, runs))
    if "n" in detectors and limits.repeat is not None:
        rows.append(ExactRuns(limits.repeat, turns, runs))
    if "e" in detectors and limits.error_streak is not None:
        rows.append(ErrorStreaks(limits.error_streak, turns, runs))
    if "w" in detectors and limits.window is not None:
        rows.append(IdleWindows(limits.window, turns, runs))
    if "p" in detectors:
        rows.append(WaitCounts(scope.tools, turns, runs))
    if register is not None:
        rows.append(Repetitions(limits, turns, runs, register(runs)))
    return rows


def _decide(scope: Scope, rows: list[Row], group: Group, stops: Stops) -> None:
    """Write the stops of one group of runs."""
    runs: Int64s = np.arange(group.start, group.stop)
    # A slice is a view; indices are gathered anew for every block.
    kept: Group | Int64s = group
    undecided: Booleans = np.ones(len(runs), np.bool_)
    turns = scope.columns.turns
    for first in range(0, turns, BLOCK_TURNS):
        last = min(first + BLOCK_TURNS, turns)
        facts = Facts(scope, first, last, kept)
        for row in rows:
            row.begin(facts)
        for turn in range(first, last):
            undecided &= facts.lengths > turn
            fired = [each for row in rows for each in row.update(facts, turn - first)]
            _note(fired, undecided, runs, turn + 1, stops)
        left = int(np.count_nonzero(undecided))
        if left == 0:
            return
        if left <= len(runs) * OPEN_SHARE:
            narrowed = np.flatnonzero(undecided)
            runs = kept = runs[narrowed]
            for row in rows:
                row.keep(narrowed)
            undecided = np.ones(left, np.bool_)


def _note(fired: list[Fired], undecided: Booleans, runs: Int64s, turn: int, stops: Stops) -> None:
    """Write the stops of one turn, the highest rank of each run, and take them out."""
    for rank, where, threshold in sorted(fired, key=itemgetter(0)):
        hit = where & undecided
        if hit.any():
            undecided ^= hit
            stopped = runs[hit]
            stops.turn[stopped] = turn
            stops.reason[stopped] = rank + 1
            stops.threshold[stopped] = threshold if isinstance(threshold, int) else threshold[hit]


def rejected(columns: Columns, stops: Stops, gate: Gate) -> Int32s:
    """Return (runs,) how many finishes the gate refused up to and with the turn of the stop."""
    if gate == "trust":
        return np.zeros(columns.runs, np.int32)
    within = np.arange(1, columns.turns + 1, dtype=np.int32)[:, None] <= stops.turn
    refused = columns.claims & (columns.verified == 0) & within
    counts: Int32s = refused.sum(axis=0, dtype=np.int32)
    return counts
