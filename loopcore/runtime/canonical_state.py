"""The canonical state of a run's world, in which absent, empty, unknown and redacted differ.

Theory of operation: a state is named members. A member that is absent is not there; one that is
empty has an empty value; one that nobody could read is `UNKNOWN`; one that may not be shown is
`Redacted`, named by a digest. Each has its own form, so no two of the four ever share a digest.
Clocks and handles change without the world changing, so they are no members.

Source: spec runtime, section 1.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final

import msgspec

from loopcore.canonical import digest
from loopcore.errors import UsageError


class _Unknown:
    """The one value that says that a value is not known."""

    def __repr__(self) -> str:
        return "UNKNOWN"


UNKNOWN: Final = _Unknown()


@dataclass(frozen=True, slots=True)
class Redacted:
    """A value that may not be shown; sha256: of what it is, so that a change is noticed."""

    sha256: str


def state_digest(members: Mapping[str, object]) -> str:
    """Return the digest of a canonical state.

    Arguments:
        members: JSON values without floating point numbers, `UNKNOWN`, or `Redacted`, by name.

    Raises UsageError naming a member that is none of these.
    """
    form: dict[str, object] = {}
    for name, value in members.items():
        if value is UNKNOWN:
            form[name] = {"is": "unknown"}
        elif isinstance(value, Redacted):
            form[name] = {"is": "redacted", "sha256": value.sha256}
        else:
            form[name] = {"is": "value", "value": _exact(name, value)}
    try:
        return digest(["loopcore/state/1", form])
    except (TypeError, ValueError, msgspec.MsgspecError, RecursionError) as error:
        raise UsageError(f"state: it has no canonical form ({error})") from None


def _exact(name: str, value: object) -> object:
    """Return a JSON value; raise UsageError where it holds a floating point number."""
    waiting: list[object] = [value]
    while waiting:
        item = waiting.pop()
        if isinstance(item, float):
            raise UsageError(f"state: {name[:60]!a} holds a floating point number")
        if isinstance(item, dict):
            waiting += [*item, *item.values()]
        elif isinstance(item, list | tuple):
            waiting += item
        elif item is not None and not isinstance(item, str | int):
            raise UsageError(f"state: {name[:60]!a} holds a {type(item).__name__}")
    return value
