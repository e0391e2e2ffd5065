"""One machine for many stores: every rule is done to each of them, and each must agree.

Theory of operation: each store has a player of its own, which compares every answer with the naive
model (`loopcore.testing.checks_store.playing`). The rules draw operations in terms of where the
journals stand, so they mean the same to every store. Subclass it with `targets`.

Source: spec verification, section 2.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import ClassVar

from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, rule
from hypothesis.strategies import SearchStrategy

from loopcore.testing.checks_store.faults import FAULTS
from loopcore.testing.checks_store.generating import append, batches, do, opening
from loopcore.testing.checks_store.playing import HEADS, LEASE_MS, Player
from loopcore.testing.contract import Json
from loopcore.testing.store_contract import StoreTarget

RUNS: SearchStrategy[str] = st.sampled_from("ab")
HANDLES = st.integers(0, 1)
HEAD_WORDS = st.sampled_from(("current", *HEADS))
SHIFTS = st.sampled_from((0, 0, 0, -1, 1))
LEASES_MS = st.sampled_from((1, LEASE_MS // 2, LEASE_MS))
TICKS_MS = st.sampled_from((-LEASE_MS, 1, LEASE_MS - 1, LEASE_MS))


class StoreMachine(RuleBasedStateMachine):
    """Stores that are all asked the same."""

    targets: ClassVar[Sequence[StoreTarget]] = ()

    def __init__(self) -> None:
        super().__init__()
        self.players = [Player(target) for target in self.targets]
        self.steps = 0

    def everywhere(self, operation: dict[str, Json]) -> None:
        """Do an operation to every store; the answers must be the model's."""
        for player, target in zip(self.players, self.targets, strict=True):
            player.step(operation, self.steps)
            assert player.played.finding is None, f"{target.name}: {player.played.finding}"
        self.steps += 1

    @rule(run=RUNS, lease_ms=LEASES_MS)
    def open(self, run: str, lease_ms: int) -> None:
        """Begin a run with its lease, or take the lease again."""
        self.everywhere(opening(run, lease_ms))

    @rule(run=RUNS, kinds=batches(), head=HEAD_WORDS, shift=SHIFTS, handle=HANDLES)
    def append(self, run: str, kinds: list[Json], head: str, shift: int, handle: int) -> None:
        """Append events somewhere."""
        where: dict[str, Json] = {"run": run, "head": head, "shift": shift, "handle": handle}
        self.everywhere({"do": "append", "kinds": kinds, **where})

    @rule(run=RUNS, kinds=batches(), fault=st.sampled_from(sorted(FAULTS)), place=st.integers(0, 3))
    def append_faulty(self, run: str, kinds: list[Json], fault: str, place: int) -> None:
        """Append a batch that must be refused."""
        self.everywhere(do("append", run=run, kinds=kinds, fault=fault, place=place))

    @rule(run=RUNS, shift=SHIFTS, lease_ms=LEASES_MS, handle=HANDLES)
    def take(self, run: str, shift: int, lease_ms: int, handle: int) -> None:
        """Take the lease over."""
        taking = append("lease_acquired", run=run, shift=shift, lease_ms=lease_ms, handle=handle)
        self.everywhere(taking)

    @rule(run=RUNS, handle=HANDLES)
    def release(self, run: str, handle: int) -> None:
        """Release the lease."""
        self.everywhere(append("lease_released", run=run, handle=handle))

    @rule(run=RUNS, shift=SHIFTS, lease_ms=LEASES_MS, handle=HANDLES)
    def renew(self, run: str, shift: int, lease_ms: int, handle: int) -> None:
        """Renew the lease."""
        self.everywhere(do("renew", run=run, shift=shift, lease_ms=lease_ms, handle=handle))

    @rule(ms=TICKS_MS)
    def tick(self, ms: int) -> None:
        """Move the clock, back too."""
        self.everywhere(do("tick", ms=ms))

    @rule(run=RUNS, after=st.integers(0, 6), handle=HANDLES)
    def read(self, run: str, after: int, handle: int) -> None:
        """Read from somewhere."""
        self.everywhere(do("read", run=run, after=after, handle=handle))

    @rule(handle=HANDLES)
    def runs(self, handle: int) -> None:
        """List the runs."""
        self.everywhere(do("runs", handle=handle))

    @rule()
    def reopen(self) -> None:
        """Close the stores that are durable, and open them again."""
        for player, target in zip(self.players, self.targets, strict=True):
            if target.durable:
                player.step(do("reopen"), self.steps)
                assert player.played.finding is None, f"{target.name}: {player.played.finding}"
        self.steps += 1

    @invariant()
    def every_store_stands_where_the_model_does(self) -> None:
        """Compare every journal and head."""
        for player, target in zip(self.players, self.targets, strict=True):
            player.read_everything("afterwards")
            assert player.played.finding is None, f"{target.name}: {player.played.finding}"
