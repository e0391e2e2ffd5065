"""The contestants of an audit: naive rules that block, and levels A to D as they are shipped.

Theory of operation: a row of the table is a controller with its limits and the phase in which it
decides. A naive rule needs only the call, so it decides before dispatch and blocks the K-th one;
one that needs the result, like the levels, decides after a turn. A level without budgets is an
entry of its own, so that a step bound does not hide what its detectors would have said later.

Source: spec control, sections 1, 2 and 5.
"""

from __future__ import annotations

from functools import lru_cache, partial

from loopcore.comparison.replay import Contestant
from loopcore.control.levels import controller
from loopcore.control.limits import Limits
from loopcore.control.variants import variant

TOTAL_3 = "total-3"
NAIVE = ("consecutive-2", "consecutive-3", TOTAL_3)
NAIVE_WITH_RESULT = ("consecutive-3-result", "total-3-result")
LEVELS = ("A", "B", "C", "D")
WITHOUT_BUDGETS = "{} without budgets"
# Pairs whose saved shares are compared on the same runs.
PAIRS = (
    ("D without budgets", "C without budgets"),
    ("D without budgets", "consecutive-3"),
    ("D", "B"),
)


@lru_cache(maxsize=1)
def contestants() -> tuple[Contestant, ...]:
    """Return every contestant of an audit, in the order of its tables."""
    unbounded = Limits(max_steps=None, horizon=None)
    naive = [
        Contestant(name=name, make=partial(variant, name), limits=unbounded, phase="before")
        for name in NAIVE
    ]
    naive += [
        Contestant(name=name, make=partial(variant, name), limits=unbounded)
        for name in NAIVE_WITH_RESULT
    ]
    levels = [
        Contestant(
            name=name,
            make=partial(controller, name),
            limits=Limits(),
            needs_progress=name == "D",
        )
        for name in LEVELS
    ]
    detectors = [
        Contestant(
            name=WITHOUT_BUDGETS.format(name),
            make=partial(controller, name),
            limits=unbounded,
            needs_progress=name == "D",
        )
        for name in ("C", "D")
    ]
    return (*naive, *levels, *detectors)
