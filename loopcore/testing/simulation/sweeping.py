"""Many simulated runs, on one process or several; the result does not depend on how many.

Theory of operation: seeds are handed out in chunks, and each chunk comes back as sums, so that a
sweep of any length needs little memory. An interruption keeps what is finished.

Source: spec runtime, section 9.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator
from concurrent.futures import FIRST_COMPLETED, Future, wait
from typing import Literal

import msgspec

from loopcore import __version__
from loopcore.testing.simulation.running import Outcome, simulate
from loopcore.worker_pool import worker_pool

CHUNK_RUNS = 50
BROKEN_KEPT_MAX = 20

OnProgress = Callable[[int, int], None]


class SweepResult(msgspec.Struct, frozen=True, kw_only=True):
    """What became of many runs.

    Fields:
        runs: those that were finished. broken: how many broke a rule; first_broken: some of them,
            with the smallest seeds. terminals, faults: how often each was met.
    """

    schema: Literal["loopcore/simulation-result/1"] = "loopcore/simulation-result/1"
    loopcore_version: str
    first_seed: int
    runs: int
    broken: int
    first_broken: tuple[Outcome, ...]
    rules: dict[str, int]
    events: int
    crossings: int
    effects: int
    ticks: int
    terminals: dict[str, int]
    faults: dict[str, int]
    interrupted: bool = False


class _Sums:
    """Sums over finished runs."""

    def __init__(self) -> None:
        self.numbers: Counter[str] = Counter()
        self.terminals: Counter[str] = Counter()
        self.faults: Counter[str] = Counter()
        self.broken: list[Outcome] = []

    def add(self, outcome: Outcome) -> None:
        """Take in one more run."""
        self.numbers["runs"] += 1
        for name in ("events", "crossings", "effects", "ticks"):
            count: int = getattr(outcome, name)
            self.numbers[name] += count
        self.terminals[outcome.terminal or "none"] += 1
        self.faults.update(outcome.faults)
        if outcome.verdict == "broken":
            self.broken.append(outcome)

    def merge(self, other: _Sums) -> None:
        """Take in the sums of other runs."""
        self.numbers.update(other.numbers)
        self.terminals.update(other.terminals)
        self.faults.update(other.faults)
        self.broken += other.broken

    def result(self, first_seed: int, *, interrupted: bool) -> SweepResult:
        """Return the sums as a result."""
        broken = sorted(self.broken, key=lambda outcome: outcome.seed)
        rules = Counter(outcome.rule or "" for outcome in broken)
        return SweepResult(
            loopcore_version=__version__,
            first_seed=first_seed,
            runs=self.numbers["runs"],
            broken=len(broken),
            first_broken=tuple(broken[:BROKEN_KEPT_MAX]),
            rules=dict(sorted(rules.items())),
            events=self.numbers["events"],
            crossings=self.numbers["crossings"],
            effects=self.numbers["effects"],
            ticks=self.numbers["ticks"],
            terminals=dict(sorted(self.terminals.items())),
            faults=dict(sorted(self.faults.items())),
            interrupted=interrupted,
        )


def _chunk(first: int, runs: int) -> _Sums:
    sums = _Sums()
    for seed in range(first, first + runs):
        sums.add(simulate(seed))
    return sums


def sweep(
    first_seed: int, runs: int, *, jobs: int = 1, on_progress: OnProgress | None = None
) -> SweepResult:
    """Return what became of the runs of consecutive seeds; an interruption keeps the finished ones.

    Arguments:
        jobs: processes. on_progress: told how many runs of how many are finished.
    """
    chunks = [
        (first, min(CHUNK_RUNS, first_seed + runs - first))
        for first in range(first_seed, first_seed + runs, CHUNK_RUNS)
    ]
    sums, interrupted = _Sums(), False
    try:
        for part in _parts(chunks, min(jobs, len(chunks))):
            sums.merge(part)
            if on_progress is not None:
                on_progress(sums.numbers["runs"], runs)
    except KeyboardInterrupt:
        interrupted = True
    return sums.result(first_seed, interrupted=interrupted)


def _parts(chunks: list[tuple[int, int]], jobs: int) -> Iterator[_Sums]:
    if jobs == 1:
        for first, runs in chunks:
            yield _chunk(first, runs)
        return
    with worker_pool(jobs) as pool:
        waiting = iter(chunks)
        running: set[Future[_Sums]] = set()
        while True:
            for first, runs in waiting:
                running.add(pool.submit(_chunk, first, runs))
                if len(running) > jobs:
                    break
            if not running:
                return
            done, running = wait(running, return_when=FIRST_COMPLETED)
            for future in done:
                yield future.result()
