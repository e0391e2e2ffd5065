"""Cost and memory of a sweep by its size: cost grows linearly, memory does not grow.

    python bench/sweep_ratios.py            three sizes of each tier, about two minutes
    python bench/sweep_ratios.py --short    smaller sizes
    python bench/sweep_ratios.py --check    exit status 1 when cost or memory grows beyond its bound

Theory of operation: each size runs in a process of its own, so that its largest memory is its own.
One application is swept by all default contestants, in one process. Times are processor time, and
also stand as multiples of the calibration loop that ran beside them. A size that is ten times
another may cost ten times as much, and no more memory, as memory is bounded by the chunk.
"""

from __future__ import annotations

import argparse
import resource
import subprocess
import sys
import time
from dataclasses import dataclass

from loopcore.comparison.bench_timing import calibration_seconds
from loopcore.comparison.intervals import RESAMPLES
from loopcore.comparison.sweep import sweep, turns_a_second
from loopcore.comparison.sweep_chunks import Settings
from loopcore.comparison.sweep_contestants import default_entries
from loopcore.comparison.sweep_executors import SerialExecutor
from loopcore.control.limits import Limits

APPLICATION = "coding"
SIZES = {"stepwise": (500, 1_000, 2_000), "columnar": (10_000, 30_000, 100_000)}
SHORT_SIZES = {"stepwise": (250, 500, 1_000), "columnar": (10_000, 20_000, 40_000)}
# A task of the largest size may cost so many times a task of the smallest, and so for memory.
COST_GROWTH_MAX = 1.3
MEMORY_GROWTH_MAX = 1.3
_KIBIBYTES = 1024


@dataclass(frozen=True, slots=True, kw_only=True)
class Measured:
    """What one size took: processor time, the calibration loop's, largest memory, and speed."""

    seconds: float
    calibration: float
    memory_mib: float
    turns_a_second: float


def measure_here(tier: str, tasks: int) -> Measured:
    """Sweep so many tasks in this process."""
    settings = Settings(
        seed=0,
        applications=(APPLICATION,),
        stepwise=tasks if tier == "stepwise" else 0,
        columnar=tasks if tier == "columnar" else 0,
        resamples=RESAMPLES,
        entries=default_entries(),
        limits=Limits(),
    )
    calibration = calibration_seconds()
    began = time.process_time()
    swept = sweep(settings, SerialExecutor())
    seconds = time.process_time() - began
    memory = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / _KIBIBYTES
    return Measured(
        seconds=seconds,
        calibration=min(calibration, calibration_seconds()),
        memory_mib=memory,
        turns_a_second=turns_a_second(swept)[tier],
    )


def measure(tier: str, tasks: int) -> Measured:
    """Sweep so many tasks in a process of its own."""
    words = [sys.executable, __file__, "--one", tier, str(tasks)]
    printed = subprocess.run(words, check=True, capture_output=True, text=True).stdout.split()
    seconds, calibration, memory, speed = map(float, printed)
    return Measured(
        seconds=seconds, calibration=calibration, memory_mib=memory, turns_a_second=speed
    )


def table(tier: str, sizes: tuple[int, ...]) -> bool:
    """Print the figures of each size; return whether cost and memory stay within their bounds."""
    print(f"\n{tier} tasks of {APPLICATION}, all contestants, one process")
    print(f"{'tasks':>9}{'s':>9}{'µs a task':>12}{'loops a task':>14}{'turns/s':>12}{'MiB':>7}")
    found: list[tuple[float, float]] = []
    for tasks in sizes:
        one = measure(tier, tasks)
        loops = one.seconds / tasks / one.calibration
        found.append((loops, one.memory_mib))
        print(
            f"{tasks:>9,}{one.seconds:>9.2f}{one.seconds / tasks * 1e6:>12.0f}{loops:>14.4f}"
            f"{one.turns_a_second:>12,.0f}{one.memory_mib:>7.0f}"
        )
    cost, memory = found[-1][0] / found[0][0], found[-1][1] / found[0][1]
    print(f"cost a task, largest / smallest: {cost:.2f} (at most {COST_GROWTH_MAX})")
    print(f"memory, largest / smallest: {memory:.2f} (at most {MEMORY_GROWTH_MAX})")
    return cost <= COST_GROWTH_MAX and memory <= MEMORY_GROWTH_MAX


def main() -> int:
    """Print all tables; return 1 when a bound does not hold and that was asked for."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("--short", action="store_true", help="smaller sizes")
    parser.add_argument("--check", action="store_true", help="exit 1 when a bound is passed")
    parser.add_argument("--one", nargs=2, metavar=("TIER", "TASKS"), help="one size, in figures")
    options = parser.parse_args()
    if options.one is not None:
        one = measure_here(options.one[0], int(options.one[1]))
        print(one.seconds, one.calibration, one.memory_mib, one.turns_a_second)
        return 0
    sizes = SHORT_SIZES if options.short else SIZES
    holds = [table(tier, sizes[tier]) for tier in sizes]
    print("\nall bounds hold" if all(holds) else "\na bound does not hold")
    return 0 if all(holds) or not options.check else 1


if __name__ == "__main__":
    sys.exit(main())
