"""Which world and which hands belong to an application: one table.

Source: spec control, section 4.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping

from loopcore.worlds.browser import Browser, BrowserHands
from loopcore.worlds.coding import Coding, CodingHands
from loopcore.worlds.etl import Etl, EtlHands
from loopcore.worlds.jobs import Jobs, JobsHands
from loopcore.worlds.research import Research, ResearchHands
from loopcore.worlds.support import Support, SupportHands
from loopcore.worlds.world import Hands, Setup, World


def _coding(setup: Setup) -> tuple[World, Hands]:
    world = Coding(setup)
    return world, CodingHands(world)


def _browser(setup: Setup) -> tuple[World, Hands]:
    world = Browser(setup)
    return world, BrowserHands(world)


def _research(setup: Setup) -> tuple[World, Hands]:
    world = Research(setup)
    return world, ResearchHands(world)


def _support(setup: Setup) -> tuple[World, Hands]:
    world = Support(setup)
    return world, SupportHands(world)


def _etl(setup: Setup) -> tuple[World, Hands]:
    world = Etl(setup)
    return world, EtlHands(world)


def _jobs(setup: Setup) -> tuple[World, Hands]:
    world = Jobs(setup)
    return world, JobsHands(world)


WORLDS: Mapping[str, type[World]] = {
    "coding": Coding,
    "browser": Browser,
    "research": Research,
    "support": Support,
    "etl": Etl,
    "jobs": Jobs,
}
BUILDERS: Mapping[str, Callable[[Setup], tuple[World, Hands]]] = {
    "coding": _coding,
    "browser": _browser,
    "research": _research,
    "support": _support,
    "etl": _etl,
    "jobs": _jobs,
}
