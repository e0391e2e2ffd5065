"""A chunk of tasks becomes sums: a pure function of the settings, whichever process runs it.

Theory of operation: a chunk is a range of task numbers of one application in one tier. It is worked
in blocks, so that memory is bounded by the block: the block's trajectories become columns once, all
contestants are judged on them, their features stand side by side in one matrix, and that matrix is
summed — as it is, for each habit, and for every resample. Sums are integers, so blocks and chunks
add up to the same result in any order.

Level E is played only where it can differ. Where level D does not end by a detection, E is D. Draws
of leaving are paired: once a run's needed recoveries are all won, it is the same run at every
greater rho.

Source: spec control, sections 3, 4 and 6.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from typing import Literal

import msgspec
import numpy as np

from loopcore.batch.columns import Columns, Int8s, Int64s
from loopcore.batch.interning import columns
from loopcore.batch.stop_times import REASONS, Stops, stop_times
from loopcore.comparison.bench_timing import calibration_seconds
from loopcore.comparison.bootstrap import resampled_sums
from loopcore.comparison.figures import OWN, RESAMPLED, SHARED, own_values, shared_values
from loopcore.comparison.outcomes import (
    DETECTOR,
    Accounts,
    Outcomes,
    Truth,
    from_played,
    from_recovered,
    from_stops,
    truth_of,
    truth_of_generated,
)
from loopcore.comparison.sweep_calibration import CALIBRATED, contestant
from loopcore.comparison.sweep_contestants import Entry, form_of, leaving_chances
from loopcore.comparison.sweep_journal import Line, packed, write_line
from loopcore.control.levels import controller
from loopcore.control.limits import Limits
from loopcore.worlds.model import HABITS, Played, Task

Tier = Literal["stepwise", "columnar"]
TIERS: tuple[Tier, ...] = ("stepwise", "columnar")
# Tasks of a chunk, which is the unit of progress and of resumption, and of a block of it.
CHUNK_TASKS = {"stepwise": 125, "columnar": 10_000}
BLOCK_TASKS = {"stepwise": 125, "columnar": 5_000}
# Which entries a tier can judge.
TIER_KINDS = {"stepwise": ("stop", "recovery", "form"), "columnar": ("stop", "recovery")}


class Settings(msgspec.Struct, frozen=True, kw_only=True):
    """What a sweep consists of; equal settings give equal bytes.

    Fields:
        stepwise, columnar: tasks an application in each tier.
        limits: of every contestant; gate and tools are put in by entry and application.
    """

    seed: int
    applications: tuple[str, ...]
    stepwise: int
    columnar: int
    resamples: int
    entries: tuple[Entry, ...]
    limits: Limits

    def tasks(self, tier: Tier) -> int:
        """Return the tasks an application of a tier."""
        return self.stepwise if tier == "stepwise" else self.columnar

    def entries_of(self, tier: Tier) -> tuple[Entry, ...]:
        """Return the contestants that a tier can judge, in the order of the tables."""
        return tuple(entry for entry in self.entries if entry.kind in TIER_KINDS[tier])

    @property
    def cap(self) -> int:
        """The step cap before which an onset counts as one that can be missed."""
        horizon = self.horizon
        return horizon if self.limits.max_steps is None else min(self.limits.max_steps, horizon)

    @property
    def horizon(self) -> int:
        """The number of turns of the longest run."""
        horizon = self.limits.horizon_turns()
        return Limits().horizon_turns() or 0 if horizon is None else horizon


class Chunk(msgspec.Struct, frozen=True, kw_only=True):
    """A range of tasks of one application in one tier."""

    tier: Tier
    application: str
    first: int
    count: int

    @property
    def name(self) -> str:
        """The chunk's identity within its settings."""
        return f"{self.tier}/{self.application}/{self.first}+{self.count}"


def chunks(settings: Settings) -> list[Chunk]:
    """Return all chunks of a sweep, the slow tier first so that the last ones end together."""
    return [
        Chunk(
            tier=tier,
            application=application,
            first=first,
            count=min(CHUNK_TASKS[tier], settings.tasks(tier) - first),
        )
        for tier in TIERS
        for first in range(0, settings.tasks(tier), CHUNK_TASKS[tier])
        for application in settings.applications
    ]


def run_chunk(settings: Settings, chunk: Chunk) -> bytes:
    """Return the line of a chunk's sums; the same bytes but for its two times, wherever it runs."""
    calibration = calibration_seconds()
    began = time.process_time()
    entries = settings.entries_of(chunk.tier)
    width, narrow = _widths(len(entries))
    totals = np.zeros((1 + len(HABITS), width), dtype=np.int64)
    resamples = np.zeros((settings.resamples, narrow), dtype=np.int64)
    resampled = resampled_columns(len(entries))
    turns = 0
    block = BLOCK_TASKS[chunk.tier]
    for first in range(chunk.first, chunk.first + chunk.count, block):
        count = min(block, chunk.first + chunk.count - first)
        one = msgspec.structs.replace(chunk, first=first, count=count)
        habits, values, simulated = _BLOCKS[chunk.tier](settings, one)
        turns += simulated
        totals[0] += values.sum(axis=0)
        for habit in np.unique(habits):
            totals[1 + habit] += values[habits == habit].sum(axis=0)
        resamples += resampled_sums(
            settings.seed,
            f"{chunk.tier}/{chunk.application}",
            first,
            values,
            chosen=resampled,
            resamples=settings.resamples,
        )
    return write_line(
        Line(
            chunk=chunk.name,
            tasks=chunk.count,
            turns=turns,
            totals=packed(totals),
            resamples=packed(resamples),
            seconds=time.process_time() - began,
            calibration_seconds=calibration,
        )
    )


def _widths(entries: int) -> tuple[int, int]:
    """Return how many features there are in all, and how many that are resampled."""
    return len(SHARED) + entries * len(OWN), len(SHARED) + entries * len(RESAMPLED)


def resampled_columns(entries: int) -> list[int]:
    """Return which of all features are resampled: the shared ones and some of each entry's."""
    own = [len(SHARED) + entry * len(OWN) for entry in range(entries)]
    return [*range(len(SHARED)), *(at + place for at in own for place in range(len(RESAMPLED)))]


# The habit of each task, the features of each task, and the turns that were simulated.
Block = tuple[Int8s, Int64s, int]


def _stepwise(settings: Settings, chunk: Chunk) -> Block:
    from loopcore.worlds.playing import tool_policies, trajectory
    from loopcore.worlds.tasks import tasks

    limits = msgspec.structs.replace(
        settings.limits, tools=tool_policies(chunk.application), horizon=settings.horizon
    )
    given = tasks(chunk.application, chunk.count, settings.seed, chunk.first)
    runs = [trajectory(task, settings.horizon) for task in given]
    truth = truth_of(chunk.application, runs)
    made = columns([run.observations for run in runs], limits)
    judge = _Stops(made, truth)
    found: dict[Entry, Outcomes] = {}
    onsets = [int(onset) for onset in truth.onset]
    played = 0
    for entry in settings.entries:
        under = entry.limits(limits)
        if entry.kind == "stop":
            found[entry] = judge.outcomes(_stopper(settings, chunk, entry), under)
        elif entry.kind == "form":
            play_form = form_of(entry)
            forms = [play_form(task, under) for task in given]
            found[entry] = from_played(forms, onsets)
            played += sum(len(one.observations) for one in forms)
        elif entry not in found:
            curve = [other for other in settings.entries if _one_curve(entry, other)]
            level_d = judge.outcomes("D", under)
            outcomes, turns = recovered(given, onsets, level_d, under, curve)
            found.update(outcomes)
            played += turns
    turns = int(made.lengths.sum()) + played
    return truth.habit, _matrix(settings, chunk.tier, truth, found), turns


def _columnar(settings: Settings, chunk: Chunk) -> Block:
    from loopcore.worlds.habit_model import load
    from loopcore.worlds.habit_model_recovery import recovered as recovered_columns
    from loopcore.worlds.playing import tool_policies

    limits = msgspec.structs.replace(
        settings.limits, tools=tool_policies(chunk.application), horizon=settings.horizon
    )
    numbers = range(chunk.first, chunk.first + chunk.count)
    model, application = load(), chunk.application
    made = model.generate(application, numbers, seed=settings.seed, turns=settings.horizon)
    truth = truth_of_generated(application, made)
    judge = _Stops(made.columns, truth)
    found: dict[Entry, Outcomes] = {}
    for entry in settings.entries_of(chunk.tier):
        under = entry.limits(limits)
        if entry.kind == "stop":
            found[entry] = judge.outcomes(_stopper(settings, chunk, entry), under)
            continue
        run = recovered_columns(
            model,
            application,
            made,
            seed=settings.seed,
            limits=under,
            leaving=leaving_chances(entry.rho or 0.0),
            stops=judge.stops("D", under),
        )
        found[entry] = from_recovered(run)
    # The model gives runs in an order of its own; weights belong to numbers.
    order = np.argsort(made.numbers)
    values = _matrix(settings, chunk.tier, truth, found, order)
    return made.habit[order], values, int(made.columns.lengths.sum())


_BLOCKS: dict[str, Callable[[Settings, Chunk], Block]] = {
    "stepwise": _stepwise,
    "columnar": _columnar,
}


def _stopper(settings: Settings, chunk: Chunk, entry: Entry) -> str:
    """Return the name under which an entry has stop times: its own, or the cap calibrated here."""
    if entry.name != CALIBRATED:
        return entry.name
    return contestant(chunk.tier, chunk.application, settings.seed, settings.horizon)


class _Stops:
    """The contestants that stop given trajectories, judged on one block."""

    def __init__(self, made: Columns, truth: Truth) -> None:
        self._columns, self._truth = made, truth
        self._accounts = Accounts(made)
        self._found: dict[tuple[str, bytes], Stops] = {}

    def stops(self, name: str, limits: Limits) -> Stops:
        """Return the stops of a level or variant under limits, computed once."""
        key = (name, msgspec.json.encode(limits))
        if key not in self._found:
            self._found[key] = stop_times(self._columns, limits, name)
        return self._found[key]

    def outcomes(self, name: str, limits: Limits) -> Outcomes:
        """Return the outcomes of a level or variant under limits."""
        stops = self.stops(name, limits)
        return from_stops(
            self._accounts, self._truth, stops.turn, stops.reason, REASONS, gate=limits.gate
        )


def _matrix(
    settings: Settings,
    tier: Tier,
    truth: Truth,
    found: dict[Entry, Outcomes],
    order: Int64s | None = None,
) -> Int64s:
    """Return the features of a block, shape (tasks, all features), in that order of its tasks."""
    entries = settings.entries_of(tier)
    values = np.empty((len(truth.habit), _widths(len(entries))[0]), dtype=np.int64)
    rows = slice(None) if order is None else order
    values[:, : len(SHARED)] = shared_values(truth, settings.cap)[rows]
    for place, entry in enumerate(entries):
        start = len(SHARED) + place * len(OWN)
        part = own_values(truth, found[entry], settings.cap)
        values[:, start : start + len(OWN)] = part[rows]
    return values


def _one_curve(one: Entry, other: Entry) -> bool:
    """Return whether two entries differ in nothing but rho."""
    return one == msgspec.structs.replace(other, rho=one.rho)


def recovered(
    given: Sequence[Task],
    onsets: Sequence[int],
    level_d: Outcomes,
    limits: Limits,
    curve: Sequence[Entry],
) -> tuple[dict[Entry, Outcomes], int]:
    """Return level E's outcomes at every rho of the curve, and how many turns were played for them.

    Arguments:
        given, onsets, level_d: the tasks, their onsets and what level D did, under `limits`.
    """
    from loopcore.worlds.playing import play

    open_tasks = [int(place) for place in np.flatnonzero(level_d.cause == DETECTOR)]
    found: dict[Entry, Outcomes] = {}
    final: dict[int, Played] = {}
    turns = 0
    for entry in sorted(curve, key=lambda entry: entry.rho or 0.0):
        leaving = leaving_chances(entry.rho or 0.0)
        runs: list[Played] = []
        for place in open_tasks:
            run = final.get(place)
            if run is None:
                run = play(given[place], controller("E"), limits, leaving)
                turns += len(run.observations)
                if all(one.won for one in run.recoveries if one.needed):
                    final[place] = run
            runs.append(run)
        part = from_played(runs, [onsets[place] for place in open_tasks])
        found[entry] = level_d.with_tasks(open_tasks, part) if open_tasks else level_d
    return found, turns
