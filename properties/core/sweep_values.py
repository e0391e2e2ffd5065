"""Sweeps made by hand: what every task did is given, so that every figure is known beforehand."""

from collections.abc import Mapping, Sequence

import numpy as np

from loopcore.comparison.bench_summary import View
from loopcore.comparison.bootstrap import resampled_sums
from loopcore.comparison.figures import OWN, SHARED
from loopcore.comparison.sweep import Sums, Swept, Timing
from loopcore.comparison.sweep_chunks import Settings, resampled_columns
from loopcore.comparison.sweep_contestants import Entry
from loopcore.control.levels import controller
from loopcore.control.limits import Limits
from loopcore.worlds.model import HABITS, Played, Task
from loopcore.worlds.playing import play

RESAMPLES = 400
Features = Mapping[str, Sequence[int]]


def as_level_b(task: Task, limits: Limits) -> Played:
    """Play a task as level B does: a form of autonomy that is found by its name."""
    return play(task, controller("B"), limits, {})


def entry(name: str, rho: float | None = None) -> Entry:
    """Return a contestant under gate `verify`."""
    return Entry(name=name, gate="verify", kind="stop" if rho is None else "recovery", rho=rho)


def sums(shared: Features, own: Sequence[Features], seed: int = 0) -> Sums:
    """Return the sums of tasks whose features are given; one that is not given is 0."""
    tasks = len(shared["tasks"])
    zeros = [0] * tasks
    columns = [shared.get(name, zeros) for name in SHARED]
    columns += [features.get(name, zeros) for features in own for name in OWN]
    values = np.array(columns, dtype=np.int64).T
    totals = np.zeros((1 + len(HABITS), values.shape[1]), dtype=np.int64)
    totals[0] = totals[1] = values.sum(axis=0)
    return Sums(
        tasks=tasks,
        turns=10 * tasks,
        totals=totals,
        resamples=resampled_sums(
            seed,
            "stepwise/coding",
            0,
            values,
            chosen=resampled_columns(len(own)),
            resamples=RESAMPLES,
        ),
    )


def view(entries: Sequence[Entry], shared: Features, own: Sequence[Features]) -> View:
    """Return the sums by contestant and feature."""
    return View(entries, sums(shared, own))


def swept(
    entries: Sequence[Entry],
    shared: Features,
    own: Sequence[Features],
    seconds: Sequence[float] = (),
) -> Swept:
    """Return a finished sweep of one application, with a chunk of each given time."""
    settings = Settings(
        seed=0,
        applications=("coding",),
        stepwise=len(shared["tasks"]),
        columnar=0,
        resamples=RESAMPLES,
        entries=tuple(entries),
        limits=Limits(),
    )
    timings = [
        Timing(
            tier="stepwise",
            chunk=f"chunk {place}",
            turns=1_000,
            seconds=each,
            calibration_seconds=0.01,
        )
        for place, each in enumerate(seconds)
    ]
    return Swept(
        settings=settings,
        chunks=1,
        done=1,
        sums={("stepwise", "coding"): sums(shared, own)},
        timings=timings,
    )
