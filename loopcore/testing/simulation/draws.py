"""Every decision that chance takes in a simulated run comes from one generator with one seed.

Theory of operation: only `random()` of the standard generator is used, whose stream is the same in
every release of Python; choices are made from it here. Nothing else in the simulator is random, so
the same seed asks the same questions in the same order and gets the same answers.

Source: spec runtime, section 9.
"""

from __future__ import annotations

import random
from collections.abc import Sequence
from typing import TypeVar

T = TypeVar("T")


class Draws:
    """The generator of one simulated run."""

    def __init__(self, seed: int) -> None:
        self._random = random.Random(seed).random

    def chance(self, share: float) -> bool:
        """Return True with this probability."""
        return self._random() < share

    def below(self, bound: int) -> int:
        """Return an integer from 0 below the bound."""
        return int(self._random() * bound)

    def pick(self, items: Sequence[T]) -> T:
        """Return one of the items, each as likely as the others."""
        return items[int(self._random() * len(items))]
