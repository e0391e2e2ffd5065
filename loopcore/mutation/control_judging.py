"""Judges of controllers: each property over its saved cases, on our levels and variants.

Theory of operation: a fault of the control room shows in some levels and variants only, so every
witness is put to all of them to which its property applies. A pair that is broken by the unchanged
controllers says nothing about a mutant and is left out; these pairs are data, and a test holds that
they are exactly the broken ones. Other processes take no part.

Source: spec verification, sections 2 and 3.
"""

from __future__ import annotations

from collections.abc import Iterator

from loopcore.testing.checks_controller import CONTROLLER_CATALOGUE
from loopcore.testing.contract import Case
from loopcore.testing.controller_contract import ControllerProperty, ControllerTarget
from loopcore.testing.controller_targets import open_controller
from loopcore.testing.examining import examine
from loopcore.testing.profiles import PROFILES
from loopcore.testing.targets import TargetSpec

CONTROL_PROPERTIES: dict[str, ControllerProperty] = {each.id: each for each in CONTROLLER_CATALOGUE}
# Those in which most faults show come first.
TARGETS = ("D", "C", "consecutive-3", "step-cap-5", "total-3", "consecutive-3-result", "B", "A")
# The guards know neither tool policies nor a gate, and `total` remembers every call.
BROKEN: frozenset[tuple[str, str]] = frozenset(
    {
        ("C03", "consecutive-3"),
        ("C03", "consecutive-3-result"),
        ("C03", "total-3"),
        ("C06", "consecutive-3"),
        ("C06", "consecutive-3-result"),
        ("C06", "total-3"),
        ("C06", "step-cap-5"),
        ("C08", "total-3"),
    }
)


def controllers(property_id: str) -> list[ControllerTarget]:
    """Return the levels and variants that a property judges; may raise TargetError."""
    examined = CONTROL_PROPERTIES[property_id]
    named = [name for name in TARGETS if (property_id, name) not in BROKEN]
    opened = [open_controller(TargetSpec(name=name, kind="controller")) for name in named]
    return [target for target in opened if examined.lack(target) is None]


def control_findings(property_id: str, cases: Iterator[Case]) -> Iterator[str | None]:
    """Yield for each case what is wrong with the first controller that it refuses, or None."""
    judged = controllers(property_id)
    for case in cases:
        yield _finding(CONTROL_PROPERTIES[property_id], judged, case)


def _finding(
    examined: ControllerProperty, judged: list[ControllerTarget], case: Case
) -> str | None:
    for target in judged:
        finding = examined.judge(target, case).finding
        if finding is not None:
            return f"{target.name}: {finding}"
    return None


def search_controllers(property_id: str, profile: str) -> Case | None:
    """Return the smallest case that a search finds against one of the controllers, or None."""
    for target in controllers(property_id):
        outcome = examine(CONTROL_PROPERTIES[property_id], target, PROFILES[profile], 0)
        found = outcome.broken or outcome.trouble
        if found is not None:
            return found.case
    return None
