"""A sweep is all chunks of its settings, on any executor; every finished one is in a journal.

Theory of operation: chunks are independent and their sums are integers, so which process computes
one, and in which order they end, changes no byte of the result. Only a bounded number of chunks is
handed out at a time, so memory is bounded by the chunk, whatever the number of tasks. What ends is
merged and written to the journal at once; a sweep that is begun again takes from there what is
finished. An interruption is an ordinary end: the sums so far are there and say what they lack.

Source: spec control, section 6.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from concurrent.futures import FIRST_COMPLETED, BrokenExecutor, Executor, Future, wait
from dataclasses import dataclass, field
from functools import lru_cache
from hashlib import sha256
from pathlib import Path

import msgspec

from loopcore import __version__
from loopcore.batch.columns import Int64s
from loopcore.comparison.sweep_chunks import TIERS, Chunk, Settings, Tier, chunks, run_chunk
from loopcore.comparison.sweep_journal import Journal, Line, read_line, unpacked
from loopcore.errors import EnvironmentFault

# Chunks that are handed out and not yet merged, for each worker.
AHEAD = 2
# Where the code and the data are that a chunk's sums depend on.
ROOMS = ("control", "batch", "worlds", "comparison")

OnChunk = Callable[[int, int, Line], None]
Work = Callable[[Settings, Chunk], bytes]


@dataclass(slots=True, kw_only=True)
class Sums:
    """The sums of one application in one tier, or of several added up.

    Fields:
        tasks, turns: simulated. totals: shape (1 + habits, features); resamples: shape
        (resamples, resampled features).
    """

    tasks: int
    turns: int
    totals: Int64s
    resamples: Int64s

    def add(self, other: Sums) -> None:
        """Add another's sums to these."""
        self.tasks += other.tasks
        self.turns += other.turns
        self.totals += other.totals
        self.resamples += other.resamples

    def copy(self) -> Sums:
        """Return sums of their own with the same values."""
        return Sums(
            tasks=self.tasks,
            turns=self.turns,
            totals=self.totals.copy(),
            resamples=self.resamples.copy(),
        )


@dataclass(slots=True, kw_only=True)
class Timing:
    """What one chunk cost: no part of the result."""

    tier: Tier
    chunk: str
    turns: int
    seconds: float
    calibration_seconds: float


@dataclass(slots=True, kw_only=True)
class Swept:
    """Everything that a sweep has added up.

    Fields:
        sums: by tier and application. done, chunks: chunks that are in, and all. resumed: of those
        done, how many were taken from the journal. interrupted: stopped before the end.
    """

    settings: Settings
    chunks: int
    done: int = 0
    resumed: int = 0
    interrupted: bool = False
    sums: dict[tuple[Tier, str], Sums] = field(default_factory=dict[tuple[Tier, str], Sums])
    timings: list[Timing] = field(default_factory=list[Timing])

    def merge(self, chunk: Chunk, line: Line) -> None:
        """Add a finished chunk."""
        new = Sums(
            tasks=line.tasks,
            turns=line.turns,
            totals=unpacked(line.totals),
            resamples=unpacked(line.resamples),
        )
        key = (chunk.tier, chunk.application)
        if key in self.sums:
            self.sums[key].add(new)
        else:
            self.sums[key] = new
        self.timings.append(
            Timing(
                tier=chunk.tier,
                chunk=chunk.name,
                turns=line.turns,
                seconds=line.seconds,
                calibration_seconds=line.calibration_seconds,
            )
        )
        self.done += 1

    def families(self, tier: Tier) -> Iterator[tuple[str, Sums]]:
        """Yield the sums of each application of a tier in the settings' order, then of all."""
        parts = [
            (application, self.sums[tier, application])
            for application in self.settings.applications
            if (tier, application) in self.sums
        ]
        yield from parts
        if parts:
            whole = parts[0][1].copy()
            for _, part in parts[1:]:
                whole.add(part)
            yield "all", whole


@lru_cache(maxsize=1)
def _program() -> bytes:
    """Return a digest of all that a chunk's sums come from beside its settings."""
    whole = sha256(__version__.encode())
    package = Path(__file__).parent.parent
    for room in ROOMS:
        for path in sorted((package / room).iterdir()):
            if path.suffix in (".py", ".json"):
                whole.update(path.name.encode() + b"\n" + path.read_bytes())
    return whole.digest()


def digest(settings: Settings) -> str:
    """Return what tells a sweep from every other: of its settings, and of the program.

    Chunks that another program made are not gone on with.
    """
    return sha256(_program() + msgspec.json.encode(settings)).hexdigest()


def sweep(
    settings: Settings,
    executor: Executor,
    *,
    jobs: int = 1,
    journal: Journal | None = None,
    on_chunk: OnChunk | None = None,
    work: Work = run_chunk,
) -> Swept:
    """Return the sums of all chunks, or of those that were finished when an interrupt came.

    Arguments:
        executor: any; jobs: how many chunks it works on at once.
        on_chunk: called with chunks done, chunks in all, and the chunk's line.
        work: what makes a chunk's line; anything that can be sent to the executor's workers.

    Errors: EnvironmentFault when the executor lost its workers; the journal keeps what was done.
    """
    everything = chunks(settings)
    swept = Swept(settings=settings, chunks=len(everything))
    open_chunks = {chunk.name: chunk for chunk in everything}
    for line in journal.finished() if journal is not None else ():
        chunk = open_chunks.pop(line.chunk, None)
        if chunk is not None:
            swept.merge(chunk, line)
            swept.resumed += 1
            if on_chunk is not None:
                on_chunk(swept.done, swept.chunks, line)
    handed: dict[Future[bytes], Chunk] = {}
    waiting = iter(open_chunks.values())
    try:
        while True:
            while len(handed) < AHEAD * jobs and (chunk := next(waiting, None)) is not None:
                handed[executor.submit(work, settings, chunk)] = chunk
            if not handed:
                break
            ready, _ = wait(handed, return_when=FIRST_COMPLETED)
            for future in ready:
                chunk = handed.pop(future)
                text = future.result()
                line = read_line(text)
                if journal is not None:
                    journal.append(text)
                swept.merge(chunk, line)
                if on_chunk is not None:
                    on_chunk(swept.done, swept.chunks, line)
    except KeyboardInterrupt:
        swept.interrupted = True
    except BrokenExecutor:
        raise EnvironmentFault(
            "a worker process was ended from outside; the same command goes on with the rest"
        ) from None
    finally:
        for future in handed:
            future.cancel()
    # The order in which chunks ended must not show.
    order = {chunk.name: place for place, chunk in enumerate(everything)}
    swept.timings.sort(key=lambda timing: order[timing.chunk])
    return swept


def turns_a_second(swept: Swept) -> dict[str, float]:
    """Return for each tier the simulated turns a second of one core's processor time."""
    found: dict[str, float] = {}
    for tier in TIERS:
        timings = [timing for timing in swept.timings if timing.tier == tier]
        seconds = sum(timing.seconds for timing in timings)
        if seconds > 0:
            found[tier] = sum(timing.turns for timing in timings) / seconds
    return found


def calibrated(swept: Swept, tier: Tier) -> dict[str, float]:
    """Return each chunk's time a turn, as a multiple of the calibration loop's time beside it."""
    return {
        timing.chunk: timing.seconds / timing.turns / timing.calibration_seconds
        for timing in swept.timings
        if timing.tier == tier and timing.turns and timing.calibration_seconds > 0
    }
