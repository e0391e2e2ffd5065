"""Every interleaving of two workers on one run, within small bounds: breadth-first, states merged.

Theory of operation: nodes that cannot be told apart from here on are one node, and a node is merged
with a twin that has as many faults left or more. So the search ends, and what it then says holds
for every run within the bounds. Breadth-first, the way to a broken rule is a shortest one.

Bounds: 2 workers, 1 action each and one retry in all, 2 crashes, 1 lease expiry, 1 late response
or request. Safety only: R01, R05, R06, R07, R08 after every move. Not bounded by them, and
not explored: clocks, budgets, cancellation, children (the simulator draws those).

Source: spec verification, section 4.
"""

from __future__ import annotations

from collections import deque
from typing import Literal

import msgspec

from loopcore.testing.exploration.moves import Moves
from loopcore.testing.exploration.nodes import Budgets, Node, Violation

NODES_MAX = 5_000_000


class Exploration(msgspec.Struct, frozen=True, kw_only=True):
    """What the search found.

    Fields:
        complete: every node within the bounds was reached and left by every move.
        ended: nodes in which the run has its terminal. stuck: nodes without one in which nothing
            more can happen, since no further lease may expire.
        finding: the rule that broke, with the shortest moves that lead there; None.
    """

    states: int
    transitions: int
    complete: bool
    ended: int
    stuck: int
    finding: str | None = None
    moves: tuple[str, ...] = ()


class Explorer:
    """The search.

    Arguments:
        planted: a fault of the surroundings that has to be found: a reconciler that claims a fence
            without having told the effect's system to refuse the key.
    """

    def __init__(self, planted: Literal["no fence"] | None = None) -> None:
        self._moves = Moves(planted)

    def explore(self, nodes_max: int = NODES_MAX) -> Exploration:
        """Return every reachable node counted, or the shortest way to a broken rule."""
        first = self._moves.first()
        came_from: dict[Node, tuple[Node, str] | None] = {first: None}
        waiting, budgets = deque([first]), Budgets()
        transitions = ended = stuck = 0
        while waiting and len(came_from) < nodes_max:
            node = waiting.popleft()
            moved = False
            try:
                for name, after in self._moves.following(node):
                    transitions += 1
                    moved = moved or after != node
                    if after not in came_from and not budgets.covers(after):
                        came_from[after] = (node, name)
                        waiting.append(after)
            except Violation as violation:
                return Exploration(
                    states=len(came_from),
                    transitions=transitions,
                    complete=False,
                    ended=ended,
                    stuck=stuck,
                    finding=str(violation),
                    moves=_way(came_from, node),
                )
            over = self._moves.is_over(node)
            ended += over
            stuck += not over and not moved
        return Exploration(
            states=len(came_from),
            transitions=transitions,
            complete=not waiting,
            ended=ended,
            stuck=stuck,
        )


def _way(came_from: dict[Node, tuple[Node, str] | None], node: Node) -> tuple[str, ...]:
    """Return the moves that led to a node, in order."""
    moves: list[str] = []
    step = came_from[node]
    while step is not None:
        node, name = step
        moves.append(name)
        step = came_from[node]
    return tuple(reversed(moves))


def explore(planted: Literal["no fence"] | None = None) -> Exploration:
    """Return what the whole search within the bounds found. Deterministic."""
    return Explorer(planted).explore()
