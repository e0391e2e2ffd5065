"""Which world and which hands belong to an application: one table.

Source: spec control, section 4.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import TypeVar

from loopcore.worlds.browser import Browser, BrowserHands
from loopcore.worlds.coding import Coding, CodingHands
from loopcore.worlds.etl import Etl, EtlHands
from loopcore.worlds.jobs import Jobs, JobsHands
from loopcore.worlds.research import Research, ResearchHands
from loopcore.worlds.support import Support, SupportHands
from loopcore.worlds.world import Hands, Setup, World

Builder = Callable[[Setup], tuple[World, Hands]]
W = TypeVar("W", bound=World)


def _builder(world: Callable[[Setup], W], hands: Callable[[W], Hands]) -> Builder:
    """Return what makes a world and the hands that know it."""

    def build(setup: Setup) -> tuple[World, Hands]:
        made = world(setup)
        return made, hands(made)

    return build


WORLDS: Mapping[str, type[World]] = {
    "coding": Coding,
    "browser": Browser,
    "research": Research,
    "support": Support,
    "etl": Etl,
    "jobs": Jobs,
}
BUILDERS: Mapping[str, Builder] = {
    "coding": _builder(Coding, CodingHands),
    "browser": _builder(Browser, BrowserHands),
    "research": _builder(Research, ResearchHands),
    "support": _builder(Support, SupportHands),
    "etl": _builder(Etl, EtlHands),
    "jobs": _builder(Jobs, JobsHands),
}
