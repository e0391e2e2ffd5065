"""Judges of controllers: each property over its saved cases, on our levels and variants.

Theory of operation: a fault of the control room shows in some levels and variants only, so every
witness is put to all of them to which its property applies. A pair that is broken by the unchanged
controllers says nothing about a mutant and is left out; these pairs are data, and a test holds that
they are exactly the broken ones. Other processes take no part.

The bounds of C05 are the same whichever strategy a level tries next, so level E is here also held
to every decision, reason and strategy of the naive level E on the cases of C05.

Source: spec verification, sections 2 and 3.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

from loopcore.control.limits import decode_limits
from loopcore.control.wire import decode_observation
from loopcore.testing.checks_controller import CONTROLLER_CATALOGUE
from loopcore.testing.checks_controller.playing import (
    first_difference,
    limits_for,
    play,
    run_of,
    shown,
)
from loopcore.testing.contract import Case, Judgement
from loopcore.testing.controller_contract import ControllerProperty, ControllerTarget, is_level
from loopcore.testing.controller_targets import open_controller
from loopcore.testing.examining import examine
from loopcore.testing.naive_controllers import NaiveController
from loopcore.testing.profiles import PROFILES
from loopcore.testing.targets import TargetSpec

RECOVERIES = "C05"
# Those in which most faults show come first.
TARGETS = (
    "D",
    "E",
    "C",
    "consecutive-3",
    "step-cap-5",
    "total-3",
    "consecutive-3-result",
    "B",
    "A",
)
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


def _disagreement(target: ControllerTarget, case: Case) -> str | None:
    """Return what level E and its naive model say differently of a case of C05, or None."""
    limits, run = limits_for(target, case["limits"]), run_of(case)
    naive = NaiveController("E")
    naive.start(decode_limits(limits))
    due = [naive.observe(decode_observation(seen)) for seen in run]
    said = play(target, limits, run)
    place = first_difference(due, said)
    if place is None:
        return None
    words = [f"{shown(each)} by {each.strategy}" for each in (said[place], due[place])]
    return f"observation {place + 1} is answered {words[0]}, and {words[1]} is due"


def _held_to_naive(examined: ControllerProperty) -> ControllerProperty:
    """Return C05 with a judge that also asks the naive level E."""

    def judge(target: ControllerTarget, case: Case) -> Judgement:
        judgement = examined.judge(target, case)
        if judgement.finding is None and is_level(target, "E"):
            finding = _disagreement(target, case)
            return judgement if finding is None else Judgement(finding=finding)
        return judgement

    return replace(examined, judge=judge)


CONTROL_PROPERTIES: dict[str, ControllerProperty] = {
    each.id: _held_to_naive(each) if each.id == RECOVERIES else each
    for each in CONTROLLER_CATALOGUE
}


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
