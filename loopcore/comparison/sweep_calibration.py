"""The calibrated step cap of a sweep: from the lengths of successes that are not in the sweep.

Theory of operation: tasks with numbers far beyond any sweep's are played under level A with gate
`verify` until there are enough successes, and the cap is the conformal rank of their lengths. It
depends on the tier, the application, the seed and the horizon alone, so every process that needs it
finds the same, once.

Source: spec control, section 5.
"""

from __future__ import annotations

from functools import lru_cache

from loopcore.comparison.cap import calibrated_cap

CALIBRATED = "calibrated-cap"
# The first number of a calibration task: beyond the largest sweep.
FIRST = 2**40
SUCCESSES = 200
TASKS_MAX = 2_000
_PIECE = 100


@lru_cache(maxsize=64)
def cap_of(tier: str, application: str, seed: int, horizon: int) -> int | None:
    """Return the cap in turns, None where the successes are too few for the rank."""
    lengths: list[int] = []
    for first in range(FIRST, FIRST + TASKS_MAX, _PIECE):
        if len(lengths) >= SUCCESSES:
            break
        lengths += _LENGTHS[tier](application, first, seed, horizon)
    return calibrated_cap(lengths[:SUCCESSES])


def contestant(tier: str, application: str, seed: int, horizon: int) -> str:
    """Return the name of the contestant that has this cap; without one it never stops a run."""
    cap = cap_of(tier, application, seed, horizon)
    return f"step-cap-{horizon if cap is None else cap}"


def _stepwise(application: str, first: int, seed: int, horizon: int) -> list[int]:
    from loopcore.worlds.playing import trajectory
    from loopcore.worlds.tasks import tasks

    runs = [trajectory(task, horizon) for task in tasks(application, _PIECE, seed, first)]
    return [run.verified_turn for run in runs if run.verified_turn is not None]


def _columnar(application: str, first: int, seed: int, horizon: int) -> list[int]:
    import numpy as np

    from loopcore.worlds.habit_model import generate

    made = generate(application, range(first, first + _PIECE), seed, horizon)
    turns = made.verified_turn[np.argsort(made.numbers)]
    return [int(turn) for turn in turns if turn > 0]


_LENGTHS = {"stepwise": _stepwise, "columnar": _columnar}
