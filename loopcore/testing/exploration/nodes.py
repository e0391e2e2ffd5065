"""What a search node is: the folded run, two minds, what is under way, and the faults used up.

Theory of operation: states, memories and letters are kept once, by number, so that a node is a
small tuple that is hashed and compared fast. `check` holds an append against the rules without
asking the fold, which is a part of what is explored.

Source: spec verification, section 4.
"""

from __future__ import annotations

from operator import le
from typing import Generic, NamedTuple, TypeVar

from loopcore.runtime.messages import Reconciled, Returned
from loopcore.runtime.state import State
from loopcore.store.journal import Event

NAMES = ("w1", "w2")

T = TypeVar("T")


class Mind(NamedTuple):
    """One worker: what it has read, what it knows, and whether it has just looked.

    Fields:
        view, local: numbers of the state that it has read and of its memory. behind: others have
            written since.
    """

    view: int
    behind: bool
    local: int
    fresh: bool = False
    gone: bool = False


class Request(NamedTuple):
    """A call on its way."""

    key: str
    identity: str


class Letter(NamedTuple):
    """An answer on its way to a worker; a late one to whoever is there."""

    to: int | None
    answer: Returned | Reconciled


class Numbered(Generic[T]):
    """Values by number, so that nodes are small; equal values have one number."""

    def __init__(self) -> None:
        self._numbers: dict[object, int] = {}
        self._values: list[T] = []

    def number(self, value: T, name: object = None) -> int:
        """Return the number of a value; name: what it is recognised by, else the value itself."""
        key = value if name is None else name
        found = self._numbers.setdefault(key, len(self._values))
        if found == len(self._values):
            self._values.append(value)
        return found

    def __getitem__(self, number: int) -> T:
        return self._values[number]


class Node(NamedTuple):
    """Everything that what happens next rests on; letters by number."""

    present: int
    minds: tuple[Mind, Mind]
    letters: frozenset[int]
    under_way: frozenset[Request]
    crossed: frozenset[str]
    done: frozenset[Request]
    refused: frozenset[str]
    expired: bool
    crashes: int = 0
    expiries: int = 0
    late: int = 0


class Budgets:
    """Which numbers of used faults each node was reached with, but for the faults.

    Whatever can happen to a node can happen to its twin that has more faults left, so a node is
    merged with a twin that was reached before and has used no more of any of them.
    """

    def __init__(self) -> None:
        self._used: dict[Node, list[tuple[int, int, int]]] = {}

    def covers(self, node: Node) -> bool:
        """Return whether such a twin was reached before; if not, keep this one."""
        used = (node.crashes, node.expiries, node.late)
        known = self._used.setdefault(node._replace(crashes=0, expiries=0, late=0), [])
        for other in known:
            if all(map(le, other, used)):
                return True
        known.append(used)
        return False


class Violation(AssertionError):
    """A rule does not hold behind a move."""


def with_mind(node: Node, place: int, mind: Mind, **changes: int) -> Node:
    """Return a node with another mind in one place."""
    minds = (mind, node.minds[1]) if place == 0 else (node.minds[0], mind)
    return node._replace(minds=minds, crashes=changes.get("crashes", node.crashes))


def arrived(node: Node, request: Request) -> Node:
    """Return the node behind an arrival; a refused key has no effect any more."""
    if request.key in node.refused:
        return node
    if any(done.identity == request.identity for done in node.done):
        raise Violation("R01: one invocation has its effect twice")
    return node._replace(done=node.done | {request})


def check(before: State, events: tuple[Event, ...], name: str, node: Node) -> None:
    """Raise Violation where events break a rule, without asking the fold."""
    settled: set[str] = set()
    for event in events:
        action = before.actions.get(str(event.payload.get("action")))
        if event.kind == "action_dispatched":
            if before.receipt is not None:
                raise Violation("R05: a dispatch after the terminal")
            for other in before.actions.values():
                if action is None or other.name == action.name:
                    continue
                same = other.reserved.identity == action.reserved.identity
                if same and other.outcome is None and other.status != "dropped":
                    raise Violation(f"R08: {action.name} repeats {other.name}, not yet known")
        elif event.kind == "reservation_settled":
            key = str(event.payload["action"])
            if key in settled or (action is not None and action.charged is not None):
                raise Violation(f"R06: {key} is settled twice")
            settled.add(key)
            called = action is not None and action.key in node.crossed
            if called and event.payload["because"] in ("never_called", "not_called"):
                raise Violation(f"R06: {key} is settled at zero, and it was called")
        elif event.kind != "lease_acquired" and before.owner not in (name, None):
            raise Violation(f"R07: {name} writes a {event.kind}, and {before.owner} has the lease")
