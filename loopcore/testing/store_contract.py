"""The contract between stores of journals under test and their properties.

Theory of operation: a store is asked one operation at a time, as JSON, through one of several
handles: stores that were opened on the same place, as two processes would. The store's clock is
the suite's, so that a lease expires when a case says so. Events travel as JSON objects, and come
back as the canonical text of what the store gave.

Operations, each with `now` (the clock) and `handle`, and their answers:

- `head` run → `head` [sequence, digest, epoch]
- `append` run, expected_head, epoch, events → `head`, or `refused` with the name of the error
- `read` run, after → `events`, or `refused`
- `runs` → `runs`; `renew` run, epoch, duration_ms → `done`, or `refused`
- `reopen` → `done`: every handle was closed and opened again
- `contend` run, workers, each, event → `done`: so many threads appended so many events each, by
  compare-and-swap; `race` run, expected_head, epoch, batches → `won`, the places of the batches
  that were accepted when all were appended at once
- `crash` as append, percent → `acknowledged`: a process was killed when so much of the time had
  passed that an equal append had taken, or as soon as it had the answer (null)

Source: spec runtime, section 1; spec verification, section 1.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal, Protocol

from loopcore.testing.contract import Invariant, Json

PROTOCOL = "loopcore/store/1"
# The errors by which a store refuses, by the names of their classes in `loopcore.store.contract`.
REFUSALS = ("StaleHead", "StaleEpoch", "LeaseHeld", "LeaseNotHeld", "InvalidEvent", "JournalBroken")

Need = Literal["durable", "processes"]


class StoreTarget(Protocol):
    """A store under test, in this process or another."""

    name: str
    version: str
    releases: tuple[str, ...]
    wire: Literal["bytes", "values"]
    # What is committed outlives the object, so that it can be opened again.
    durable: bool
    # Another process can open the same store.
    processes: bool

    def perform(self, operation: dict[str, Json]) -> dict[str, object]:
        """Return the answer to one operation; raise TargetError where there is none."""
        ...

    def namespace(self) -> str:
        """Return a beginning of run ids that nobody used before."""
        ...

    def close(self) -> None:
        """Give back what the store holds; the target is not used again."""
        ...


@dataclass(frozen=True, slots=True, kw_only=True)
class StoreProperty(Invariant[StoreTarget]):
    """One property of stores; `needs` is what a store must have for it to be applicable."""

    needs: frozenset[Need] = frozenset()

    def lack(self, target: StoreTarget) -> str | None:
        """Return in words what the store lacks for this property, or None."""
        if "durable" in self.needs and not target.durable:
            return "the store says that it is not durable"
        if "processes" in self.needs and not target.processes:
            return "no other process can open the store"
        return None
