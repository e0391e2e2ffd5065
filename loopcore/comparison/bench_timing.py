"""A loop of fixed work, timed beside what is measured, so that timings compare across machines.

Theory of operation: the loop does what the benchmark does, interpreted steps and array steps. A
timing divided by the loop's, both in processor time of one process, is a ratio that a faster or
busier machine moves far less than the timing itself.

Source: spec control, section 7.
"""

from __future__ import annotations

import time

import numpy as np

ROUNDS = 3
_STEPS = 60_000
_ELEMENTS = 200_000


def calibration_seconds() -> float:
    """Return the processor time of the fastest round of the loop, about a hundredth of a second."""
    return min(_timed() for _ in range(ROUNDS))


def _timed() -> float:
    began = time.process_time()
    counts: dict[int, int] = {}
    for step in range(_STEPS):
        counts[step & 63] = counts.get(step & 63, 0) + step
    values = np.arange(_ELEMENTS, dtype=np.int64)
    for _ in range(4):
        values ^= values >> 3
        values = np.where(values & 1, values + 1, values)
    return time.process_time() - began
