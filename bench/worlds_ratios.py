"""Speed of the step-wise worlds, beside a calibration loop timed in the same run.

    python bench/worlds_ratios.py            the whole table, about a minute
    python bench/worlds_ratios.py --short    fewer tasks and rounds
    python bench/worlds_ratios.py --check    exit status 1 when a stated bound does not hold

Theory of operation: the machine is noisy, so the pieces are timed in turn, round after round, and
the minimum and the median of all rounds are printed. Times are the thread's own processor time. The
calibration loop is a fixed number of integer multiplications in Python, so a turn's cost in such
steps says the same on machines of different speed. The first round builds the calls and answers
that all runs share, and is not counted. Linearity is shown by three numbers of tasks.
"""

from __future__ import annotations

import argparse
import statistics
import sys
import time
from collections.abc import Callable
from functools import partial

from loopcore.control.limits import Limits
from loopcore.control.variants import named_controller
from loopcore.worlds.model import APPLICATIONS, Task
from loopcore.worlds.playing import HORIZON, play, tool_policies, trajectory
from loopcore.worlds.tasks import tasks

SEED = 11
ROUNDS, ROUNDS_SHORT = 7, 3
TASKS, TASKS_SHORT = 300, 60
CALIBRATION_STEPS = 200_000
LEVELS = ("A", "B", "C", "D", "E")
# A turn of a trajectory costs at most so many steps of the calibration loop, and a task among many
# at most this much more than one among few.
STEPS_A_TURN_MAX = 300.0
GROWTH_MAX = 1.3


def calibrate() -> int:
    """Return how many steps were taken, each a multiplication and a mask."""
    value = 1
    for _ in range(CALIBRATION_STEPS):
        value = (value * 6364136223846793005 + 1) & 0xFFFFFFFF
    return CALIBRATION_STEPS + (value & 0)


def trajectories(chosen: list[Task]) -> int:
    """Return the turns of the trajectories of these tasks."""
    return sum(len(trajectory(task, HORIZON).observations) for task in chosen)


def plays(chosen: list[Task], level: str, limits: dict[str, Limits]) -> int:
    """Return the turns of the runs of these tasks under a level."""
    controller = named_controller(level)
    return sum(
        len(play(task, controller, limits[task.application], {}).observations) for task in chosen
    )


def measure(pieces: dict[str, Callable[[], int]], rounds: int) -> dict[str, list[float]]:
    """Return nanoseconds a unit of each piece for every round; the pieces take turns."""
    times: dict[str, list[float]] = {piece: [] for piece in pieces}
    for number in range(rounds + 1):
        for piece, call in pieces.items():
            began = time.thread_time_ns()
            units = call()
            if number:
                times[piece].append((time.thread_time_ns() - began) / units)
    return times


def bench(count: int, rounds: int) -> bool:
    """Print turns a second of every application and level; return whether the bound holds."""
    chosen = {name: tasks(name, count, SEED) for name in APPLICATIONS}
    every = [task for group in chosen.values() for task in group[: count // 3]]
    limits = {name: Limits(tools=tool_policies(name)) for name in APPLICATIONS}
    step = "calibration loop, a step"
    pieces: dict[str, Callable[[], int]] = {step: calibrate}
    for name, group in chosen.items():
        pieces[f"trajectory, {name}"] = partial(trajectories, group)
    for level in LEVELS:
        pieces[f"play, level {level}"] = partial(plays, every, level, limits)
    times = measure(pieces, rounds)
    floor = min(times[step])
    print(f"{count} tasks an application, horizon {HORIZON}, {rounds} rounds, one core\n")
    print(f"{'piece':<26}{'ns a unit: min':>16}{'median':>9}{'a second':>14}{'steps':>9}")
    for piece, values in times.items():
        low = min(values)
        print(
            f"{piece:<26}{low:>16,.0f}{statistics.median(values):>9,.0f}"
            f"{1e9 / low:>14,.0f}{low / floor:>9.1f}"
        )
    turns = [min(values) for piece, values in times.items() if piece.startswith("trajectory")]
    worst = max(turns) / floor
    mean = 1e9 / statistics.fmean(turns)
    print(f"\nall applications: {mean:,.0f} turns a second of trajectories")
    print(
        f"dearest turn: {worst:.0f} steps of the calibration loop (at most {STEPS_A_TURN_MAX:.0f})"
    )
    return worst <= STEPS_A_TURN_MAX


def bench_growth(count: int) -> bool:
    """Print the cost of a task among few and many; return whether it stays the same."""
    costs: list[float] = []
    print(f"\n{'tasks':>10}{'microseconds a task':>22}")
    for size in (count, 4 * count, 16 * count):
        chosen = tasks("coding", size, SEED + 1)
        began = time.thread_time_ns()
        trajectories(chosen)
        costs.append((time.thread_time_ns() - began) / size)
        print(f"{size:>10,}{costs[-1] / 1e3:>22,.0f}")
    growth = costs[-1] / costs[0]
    print(f"\na task among the most / among the fewest: {growth:.2f} (at most {GROWTH_MAX})")
    return growth <= GROWTH_MAX


def main() -> int:
    """Print all tables; return 1 when a bound does not hold and that was asked for."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("--short", action="store_true", help="fewer tasks and rounds")
    parser.add_argument("--check", action="store_true", help="exit 1 when a bound is passed")
    options = parser.parse_args()
    count = TASKS_SHORT if options.short else TASKS
    holds = bench(count, ROUNDS_SHORT if options.short else ROUNDS)
    holds = bench_growth(count) and holds
    print("\nall bounds hold" if holds else "\na bound does not hold")
    return 0 if holds or not options.check else 1


if __name__ == "__main__":
    sys.exit(main())
