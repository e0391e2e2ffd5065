"""The command that counts the habit model anew: `python -m loopcore.worlds.fitting`.

Theory of operation: the same seed and number of runs give the same bytes, so the file that ships
can be made again by anybody. Every habit of every application has numbers of its own, since equal
numbers share the size of their tasks. A probe, what the first runs came to, stands in the file: it
tells within a second whether the worlds are still those that were counted.

Source: spec control, section 4 (the columnar tier).
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Iterator, Sequence
from pathlib import Path

import msgspec

from loopcore.files import write_whole
from loopcore.worlds.habit_model import FILE, HORIZON, HabitModel, fit
from loopcore.worlds.habit_model_data import Fitted
from loopcore.worlds.model import APPLICATIONS, HABITS, Trajectory
from loopcore.worlds.playing import trajectory
from loopcore.worlds.tasks import tasks

SEED = 1_000_003
# Of each habit in each application.
RUNS = 300
PROBE_RUNS = 2


def trajectories(application: str, runs: int, seed: int = SEED) -> Iterator[Trajectory]:
    """Yield the runs that an application's chains are counted over, habit by habit."""
    for place, habit in enumerate(HABITS):
        for task in tasks(application, runs, seed, first=place * RUNS, mixture={habit: 1.0}):
            yield trajectory(task, HORIZON)


def fitted(
    runs: int = RUNS, seed: int = SEED, applications: Sequence[str] = APPLICATIONS
) -> HabitModel:
    """Return the model that is counted over so many runs of each habit."""
    models = {
        application: fit(list(trajectories(application, runs, seed)), seed=seed).fitted
        for application in applications
    }
    return HabitModel(
        msgspec.structs.replace(
            next(iter(models.values())),
            probe={name: probe(name, seed) for name in models},
            applications={name: model.applications[name] for name, model in models.items()},
        )
    )


def probe(application: str, seed: int = SEED) -> list[int]:
    """Return turns, cost, verified runs and onsets of the first runs of each habit, summed."""
    found = list(trajectories(application, PROBE_RUNS, seed))
    return [
        sum(len(run.observations) for run in found),
        sum(seen.usage.cost_microunits or 0 for run in found for seen in run.observations),
        sum(run.verified_turn is not None for run in found),
        sum(run.onset or 0 for run in found),
    ]


def encoded(model: Fitted) -> bytes:
    """Return the model as one line of JSON."""
    return msgspec.json.encode(model) + b"\n"


def main(arguments: Sequence[str] | None = None) -> int:
    """Count the model and write it; return the exit status."""
    parser = argparse.ArgumentParser(description="Count the habit model anew.")
    parser.add_argument("--output", type=Path, default=Path(__file__).parent / FILE)
    parser.add_argument("--runs", type=int, default=RUNS, help=f"of each habit (1 to {RUNS})")
    options = parser.parse_args(arguments)
    if not 1 <= options.runs <= RUNS:
        parser.error(f"--runs: expected 1 to {RUNS}, got {options.runs}")
    data = encoded(fitted(options.runs).fitted)
    write_whole(options.output, data)
    sys.stdout.write(f"{options.output}: {len(data):,} bytes\n")
    return 0


if __name__ == "__main__":
    sys.exit(main())
