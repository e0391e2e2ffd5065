"""Numbers that may be infinite, as JSON holds them: an infinite one is a text."""

from __future__ import annotations

from math import inf, isinf, isnan
from typing import Literal

Bound = float | Literal["infinite", "-infinite"]
INFINITE: Literal["infinite"] = "infinite"
MINUS_INFINITE: Literal["-infinite"] = "-infinite"


def bound(value: float) -> Bound:
    """Return a number as it is stored; ValueError for what is not a number."""
    if isnan(value):
        raise ValueError("a figure is not a number")
    if not isinf(value):
        return value
    return INFINITE if value > 0 else MINUS_INFINITE


def number(value: Bound) -> float:
    """Return a stored number as a float, which may be infinite."""
    if value == INFINITE:
        return inf
    return -inf if value == MINUS_INFINITE else float(value)
