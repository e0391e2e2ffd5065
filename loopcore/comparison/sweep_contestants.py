"""The contestants of the benchmark are rows of a table, and every row is a value of names alone.

Theory of operation: an `Entry` names a contestant, its gate, the chance rho with which a recovery
makes the agent leave its mode (level E), the limits that it has of its own, and where it is made. A
value of names crosses to a worker process, which finds the functions again. What an entry is
decides how its outcomes are made: a stop time on the given trajectory; level E, which forks it; or
a form of autonomy, which plays the task in its own way. Rows of other modules are entries like
these, given to the settings of a sweep.

Choices: the naive rules and a step cap know no gate, so they stand once, under gate `verify`, where
the world's finishes are judged. One number is rho for every strategy that changes something
relevant to the habit, and 0 for every other.

Source: spec control, sections 1, 2 and 4.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from contextlib import suppress
from importlib import import_module
from itertools import pairwise
from typing import Literal, cast

import msgspec

from loopcore.comparison.sweep_calibration import CALIBRATED
from loopcore.control.limits import Limits, read_limits
from loopcore.errors import UsageError
from loopcore.worlds.model import Played, Task

Gate = Literal["trust", "verify"]
EntryKind = Literal["stop", "recovery", "form"]

GATES: tuple[Gate, ...] = ("trust", "verify")
STOP_LEVELS = ("A", "B", "C", "D")
RECOVERING = "E"
VARIANTS = ("consecutive-3", "total-3", "consecutive-3-result", "total-3-result")
# The levels that are held against the calibrated cap.
HELD_AGAINST_CAP = ("B", "C", "D", RECOVERING)
# Where level E's curve is sampled.
RHO_GRID = (0.0, 0.1, 0.25, 0.5, 0.75, 1.0)

# A form of autonomy plays one task under the limits and gives its run.
Form = Callable[[Task, Limits], Played]


class Entry(msgspec.Struct, frozen=True, kw_only=True):
    """One contestant.

    Fields:
        rho: of a contestant that recovers, only.
        overlay: limits that differ from the sweep's, as JSON; a tuned setting is its own entry.
        maker: of a form, "package.module:function", found by name in every process.
    """

    name: str
    gate: Gate
    kind: EntryKind = "stop"
    rho: float | None = None
    overlay: str | None = None
    maker: str | None = None

    @property
    def label(self) -> str:
        """The name under which figures stand, unique in a sweep."""
        rho = "" if self.rho is None else f" rho={self.rho:g}"
        return f"{self.name} {self.gate}{rho}{'' if self.overlay is None else f' {self.overlay}'}"

    def limits(self, base: Limits) -> Limits:
        """Return the limits under which it runs; UsageError where its overlay is none."""
        own = base if self.overlay is None else read_limits(self.overlay.encode(), base)
        return msgspec.structs.replace(own, gate=self.gate)


def default_entries() -> tuple[Entry, ...]:
    """Return levels A to E under both gates, the naive rules, the step cap, the other forms."""
    from loopcore.worlds.forms import FORMS

    entries: list[Entry] = []
    for gate in GATES:
        entries += [Entry(name=level, gate=gate) for level in STOP_LEVELS]
        entries += [Entry(name=RECOVERING, gate=gate, kind="recovery", rho=rho) for rho in RHO_GRID]
    entries += [Entry(name=name, gate="verify") for name in (*VARIANTS, CALIBRATED)]
    entries += [
        Entry(name=name, gate="verify", kind="form", maker=f"{form.__module__}:{form.__name__}")
        for name, form in FORMS.items()
    ]
    return tuple(entries)


def leaving_chances(rho: float) -> dict[tuple[str, str], float]:
    """Return the chance of leaving by habit and strategy: rho where the strategy is relevant."""
    from loopcore.worlds.habits import RELEVANT

    return {(habit, strategy): rho for habit, found in RELEVANT.items() for strategy in found}


def form_of(entry: Entry) -> Form:
    """Return the function that plays a form of autonomy.

    Errors: UsageError when its maker does not name one.
    """
    module, _, name = (entry.maker or "").partition(":")
    found: object = None
    with suppress(ImportError, AttributeError, ValueError):
        found = getattr(import_module(module), name)
    if not callable(found):
        raise UsageError(f"{entry.name}: there is no function {entry.maker!r}")
    return cast("Form", found)


def pairs(entries: tuple[Entry, ...]) -> tuple[tuple[Entry, Entry], ...]:
    """Return the pairs of contestants whose figures are compared: first minus second.

    Each level against the one before it, level E at every rho against D, the levels that can stop a
    run against the calibrated cap, D against every naive rule and form, each contestant under
    `verify` against itself under `trust`, and one with limits of its own against itself without.
    """
    by_key: Mapping[tuple[str, str, float | None], Entry] = {
        (entry.name, entry.gate, entry.rho): entry for entry in entries if entry.overlay is None
    }
    found: list[tuple[Entry, Entry]] = []

    def add(first: Entry | None, second: Entry | None) -> None:
        if first is not None and second is not None:
            found.append((first, second))

    for gate in GATES:
        for lower, higher in pairwise(STOP_LEVELS):
            add(by_key.get((higher, gate, None)), by_key.get((lower, gate, None)))
        level_d = by_key.get(("D", gate, None))
        for entry in entries:
            if entry.kind == "recovery" and entry.gate == gate:
                add(entry, level_d)
    cap = by_key.get((CALIBRATED, "verify", None))
    for entry in entries:
        if entry.gate == "verify" and entry.name in HELD_AGAINST_CAP and entry.overlay is None:
            add(entry, cap)
    level_d = by_key.get(("D", "verify", None))
    for entry in entries:
        if entry.name == CALIBRATED:
            continue
        if entry.kind == "form" or (entry.kind == "stop" and entry.name not in STOP_LEVELS):
            add(level_d, entry)
    for entry in entries:
        if entry.overlay is not None:
            add(entry, by_key.get((entry.name, entry.gate, entry.rho)))
        elif entry.gate == "verify":
            add(entry, by_key.get((entry.name, "trust", entry.rho)))
    return tuple(found)
