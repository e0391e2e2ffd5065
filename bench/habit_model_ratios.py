"""What a simulated turn of the habit model costs, beside a memory floor.

Run it by path: `python bench/habit_model_ratios.py`. The floor writes as many bytes a turn as the
columns of a turn have, into memory of the same size that is as new. `--check` exits 1 when a core
makes fewer turns a second than `TURNS_A_SECOND_MIN`. Set-up is reported apart. Three sizes show
that the cost of a turn does not grow with the number of runs.
"""

from __future__ import annotations

import argparse
import statistics
import sys
import time
from collections.abc import Callable
from functools import partial

import numpy as np

from loopcore.batch.columns import Columns
from loopcore.batch.stop_times import stop_times
from loopcore.control.limits import Limits
from loopcore.worlds.habit_model import HORIZON, load
from loopcore.worlds.model import APPLICATIONS
from loopcore.worlds.playing import tool_policies, trajectory
from loopcore.worlds.tasks import tasks

TURNS_A_SECOND_MIN = 10_000_000
ROUNDS = 7
RUNS = 65_536
SIZES = (16_384, 65_536, 131_072)
STEPWISE_TASKS = 60


def seconds(call: Callable[[], object], rounds: int = ROUNDS) -> tuple[float, float]:
    """Return the least and the median CPU time of a call on this thread."""
    times: list[float] = []
    for _ in range(rounds):
        began = time.thread_time()
        call()
        times.append(time.thread_time() - began)
    return min(times), statistics.median(times)


def bytes_a_turn(columns: Columns) -> int:
    return sum(array.dtype.itemsize for _, array in columns.arrays())


def floor(columns: Columns, turns: int) -> float:
    """Return the CPU time of writing as many bytes as these turns have, into new memory."""

    def write() -> None:
        for _, array in columns.arrays():
            np.empty(turns, array.dtype).fill(1)

    return seconds(write)[0]


def bench_applications(application_names: tuple[str, ...]) -> float:
    """Print the cost of a turn in each application; return the least turns a second."""
    heads = ("bytes", "set-up s", "ns a turn", "median", "floor", "ratio", "M turns/s", "D ns")
    print("".join([f"{'application':<14}", *(f"{head:>11}" for head in heads), "  world turns/s"]))
    slowest = float("inf")
    model = load()
    for name in application_names:
        began = time.thread_time()
        model.tables(name)
        ready = time.thread_time() - began
        made = model.generate(name, range(RUNS), seed=1)
        turns = int(made.columns.lengths.sum())
        least, middle = seconds(partial(model.generate, name, range(RUNS), seed=1))
        bottom, size = floor(made.columns, turns), bytes_a_turn(made.columns)
        limits = Limits(tools=tool_policies(name))
        judged, _ = seconds(partial(stop_times, made.columns, limits, "D"), 3)
        began = time.thread_time()
        runs = [trajectory(task, HORIZON) for task in tasks(name, STEPWISE_TASKS, 1)]
        world = sum(len(run.observations) for run in runs) / (time.thread_time() - began)
        figures = (least / turns * 1e9, middle / turns * 1e9, bottom / turns * 1e9)
        shown = (*figures, least / bottom, turns / least / 1e6, judged / turns * 1e9)
        print(
            f"{name:<14}{size:>11}{ready:>11.2f}"
            + "".join(f"{value:>11.1f}" for value in shown)
            + f"{world:>15,.0f}"
        )
        slowest = min(slowest, turns / least)
    return slowest


def bench_sizes(name: str) -> None:
    """Print the cost of a turn for three numbers of runs."""
    print(f"\n{'runs':>10}{'turns':>14}{'ns a turn':>11}")
    for size in SIZES:
        made = load().generate(name, range(size), seed=2)
        turns = int(made.columns.lengths.sum())
        least, _ = seconds(partial(load().generate, name, range(size), seed=2), 3)
        print(f"{size:>10,}{turns:>14,}{least / turns * 1e9:>11.1f}")


def main() -> int:
    """Print all tables; return 1 when the bound does not hold and that was asked for."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("--check", action="store_true", help="exit 1 when the bound does not hold")
    parser.add_argument("--short", action="store_true", help="one application and no sizes")
    options = parser.parse_args()
    slowest = bench_applications(APPLICATIONS[:1] if options.short else APPLICATIONS)
    if not options.short:
        bench_sizes(APPLICATIONS[0])
    holds = slowest >= TURNS_A_SECOND_MIN
    print(
        f"\nslowest: {slowest / 1e6:.1f} M turns a second (at least {TURNS_A_SECOND_MIN / 1e6:.0f})"
    )
    return 0 if holds or not options.check else 1


if __name__ == "__main__":
    sys.exit(main())
