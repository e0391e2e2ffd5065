"""The clock of a run: the last journalled stamp plus the monotonic time that passed since.

Theory of operation: a wall clock may be set, so it starts a run's clock and never moves it again;
after a restart the clock begins at the later of the last stamp and the wall. How far wall and
elapsed time have drifted apart travels with every stamp, and a drift over the envelope's bound
pauses the run. Sleeping is the event loop's business, so that virtual time needs no other driver.

Source: spec runtime, section 5.
"""

from __future__ import annotations

import asyncio
import time
from typing import Protocol

from loopcore.runtime.drafting import Stamp
from loopcore.store.journal import ClockSource


class Clock(Protocol):
    """Two clocks of one machine."""

    def wall_ms(self) -> int:
        """Return milliseconds of Unix time; may be set at any moment."""
        ...

    def monotonic_ms(self) -> int:
        """Return milliseconds that only grow, from any origin."""
        ...


class SystemClock:
    """The clocks of this machine; elapsed time is the running event loop's."""

    def wall_ms(self) -> int:
        """Return the wall clock."""
        return time.time_ns() // 1_000_000

    def monotonic_ms(self) -> int:
        """Return the event loop's clock, so that waiting and stamping agree."""
        return int(asyncio.get_running_loop().time() * 1_000)


class RunClock:
    """The clock of one run in one process.

    Arguments:
        last_unix_ms: the last stamp in the journal.
    """

    def __init__(self, clock: Clock, last_unix_ms: int) -> None:
        self._clock = clock
        wall = clock.wall_ms()
        self._wall = wall
        self._monotonic = clock.monotonic_ms()
        self._base = max(last_unix_ms, wall)
        # A wall that stands before the journal was set back while nobody watched.
        self._back = max(0, last_unix_ms - wall)
        self._source: ClockSource = "wall" if wall >= last_unix_ms else "clamped"

    def now(self) -> Stamp:
        """Return the time of the run; the first stamp after a start is the wall's."""
        elapsed = self._clock.monotonic_ms() - self._monotonic
        drift = abs(self._clock.wall_ms() - self._wall - elapsed)
        source, self._source = self._source, "monotonic"
        return Stamp(at_unix_ms=self._base + elapsed, clock=source, jump_ms=max(drift, self._back))
