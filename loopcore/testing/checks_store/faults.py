"""Faults of a batch, each of which a store must refuse as a whole: one function a fault."""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeAlias

from loopcore.testing.store_model import Record, named

Fault: TypeAlias = "Callable[[list[Record], int], list[Record]]"

_BEYOND = 2**53


def _with(**members: object) -> Fault:
    """Return a fault that sets members of one event, and links the later ones to what results."""
    return lambda events, place: _relinked(events, place, members)


def _relinked(events: list[Record], place: int, members: Record) -> list[Record]:
    changed = [dict(event) for event in events]
    changed[place] |= members
    for before, after in zip(changed[place:], changed[place + 1 :], strict=False):
        after["previous_event_sha256"] = named(before)
    return changed


def _counted_on(events: list[Record], place: int) -> list[Record]:
    """Leave out a number; the links are right."""
    changed = [dict(event) for event in events]
    for number, event in enumerate(changed):
        if number >= place:
            event["sequence"] = int(str(event["sequence"])) + 1
        if number > place:
            event["previous_event_sha256"] = named(changed[number - 1])
    return changed


def _swapped(events: list[Record], place: int) -> list[Record]:
    """Put two events in each other's place, or repeat the only one."""
    if len(events) == 1:
        return events * 2
    other = place - 1 if place else 1
    changed = list(events)
    changed[place], changed[other] = changed[other], changed[place]
    return changed


def _two_leases(events: list[Record], place: int) -> list[Record]:
    """Take the lease behind what is in the batch already."""
    last = events[-1]
    lease: Record = {
        **last,
        "kind": "lease_acquired",
        "payload": {"duration_ms": 1},
        "sequence": int(str(last["sequence"])) + 1,
        "previous_event_sha256": named(last),
        "epoch": int(str(last["epoch"])) + 1,
    }
    del place
    return [*events, lease]


FAULTS: dict[str, Fault] = {
    "nothing": lambda events, place: [],
    "gap": _counted_on,
    "order": _swapped,
    "link": lambda events, place: [
        {**event, "previous_event_sha256": "f" * 64} if number == place else event
        for number, event in enumerate(events)
    ],
    "other run": _with(run_id="somebody-else"),
    "epoch": _with(epoch=77),
    "lease behind others": _two_leases,
    "kind": _with(kind="something_else"),
    "digest": _with(state_sha256="F" * 64),
    "fraction": _with(payload={"cost": 0.5}),
    "large integer": _with(payload={"cost": _BEYOND}),
    "key": _with(payload={"clé": 1}),
    "surrogate": _with(payload={"text": "\ud83d"}),
}
