"""The naive model of a store: lists of events, and the rules as the specification says them.

Theory of operation: it shares nothing with the stores, neither the rules nor the encoder, so that a
store and the model can only agree by both being right. It answers an append with the *set* of the
refusals that fit, since an append can be stale in more than one way and a store tells one.

Source: spec runtime, section 1.
"""

from __future__ import annotations

import json
from dataclasses import dataclass, field
from hashlib import sha256
from typing import TypeAlias, cast

Record: TypeAlias = "dict[str, object]"
GENESIS = "0" * 64


def spelled(event: Record) -> str:
    """Return an event's canonical text."""
    return json.dumps(event, sort_keys=True, separators=(",", ":"), ensure_ascii=False)


def named(event: Record) -> str:
    """Return an event's digest."""
    # A batch that must be refused may hold half a character.
    return sha256(spelled(event).encode("utf-8", "surrogatepass")).hexdigest()


@dataclass(slots=True)
class ModelRun:
    """One journal: its events, and until when its lease is held (None: nobody holds it)."""

    events: list[Record] = field(default_factory=list[Record])
    leased_until_ms: int | None = None

    def epoch(self) -> int:
        """Return how many leases were taken."""
        return sum(event["kind"] == "lease_acquired" for event in self.events)

    def digest(self, sequence: int | None = None) -> str:
        """Return the digest of the head, or of an earlier event."""
        last = len(self.events) if sequence is None else sequence
        return named(self.events[last - 1]) if last else GENESIS

    def head(self) -> list[object]:
        """Return sequence, digest and epoch."""
        return [len(self.events), self.digest(), self.epoch()]


class NaiveStore:
    """All journals, and the clock."""

    def __init__(self, now_ms: int) -> None:
        self.now_ms = now_ms
        self._runs: dict[str, ModelRun] = {}

    def run(self, run_id: str) -> ModelRun:
        """Return a run's journal, an empty one where there is none."""
        return self._runs.get(run_id, ModelRun())

    def runs(self) -> list[str]:
        """Return the ids of all runs with an event."""
        return sorted(self._runs)

    def append(
        self, run_id: str, expected_head: str, epoch: int, events: list[Record]
    ) -> frozenset[str]:
        """Append well-formed events, or change nothing; return the refusals that fit."""
        run = self.run(run_id)
        taken = [event for event in events if event["kind"] == "lease_acquired"]
        fitting = {
            "StaleHead": expected_head != run.digest(),
            "StaleEpoch": epoch != run.epoch() + len(taken),
            "LeaseHeld": bool(taken)
            and run.leased_until_ms is not None
            and self.now_ms < run.leased_until_ms,
        }
        if not any(fitting.values()):
            run.events += events
            for event in taken:
                payload = cast("dict[str, int]", event["payload"])
                run.leased_until_ms = self.now_ms + payload["duration_ms"]
            if any(event["kind"] == "lease_released" for event in events):
                run.leased_until_ms = None
            self._runs[run_id] = run
        return frozenset(name for name, fits in fitting.items() if fits)

    def renew(self, run_id: str, epoch: int, duration_ms: int) -> frozenset[str]:
        """Renew a lease, or change nothing; return the refusals that fit."""
        run = self.run(run_id)
        fitting = {
            "StaleEpoch": epoch != run.epoch(),
            "LeaseNotHeld": run.leased_until_ms is None,
        }
        if not any(fitting.values()):
            run.leased_until_ms = self.now_ms + duration_ms
        return frozenset(name for name, fits in fitting.items() if fits)
