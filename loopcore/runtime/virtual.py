"""An event loop whose time passes only when nothing else can happen.

Theory of operation: the loop's selector never blocks; where the loop would wait for its next timer,
the clock is moved there instead. Sleeping, time-outs and deadlines take no real time and happen in
one order only, so a test of a run is as deterministic as the run. Nothing that waits for another
thread or process may run in it: a loop that would wait for ever raises `Stuck`.

Source: spec runtime, section 9 (clock and scheduler are parameters).
"""

from __future__ import annotations

import asyncio
import selectors
from collections.abc import Coroutine
from typing import TypeVar

from loopcore.errors import LoopcoreError

T = TypeVar("T")


class Stuck(LoopcoreError):
    """Every task waits for something that no task will do."""


class VirtualLoop(asyncio.SelectorEventLoop):
    """An event loop on virtual time, beginning at zero."""

    def __init__(self) -> None:
        self._elapsed = 0.0
        selector = selectors.SelectSelector()
        look = selector.select

        def select(timeout: float | None = None) -> object:
            ready = look(0)
            if ready or timeout == 0:
                return ready
            if timeout is None:
                raise Stuck("nothing in this event loop can ever happen again")
            self._elapsed += max(0.0, timeout)
            return []

        # The loop asks this one selector, so the instance is changed and not its class.
        vars(selector)["select"] = select
        super().__init__(selector)

    def time(self) -> float:
        """Return the virtual seconds that have passed."""
        return self._elapsed


class VirtualClock:
    """Wall and monotonic clock on virtual time; the wall may be set.

    It goes on where it stood from one virtual loop to the next, and stands still between them.

    Arguments:
        started_unix_ms: what the wall shows when the first loop begins.
    """

    def __init__(self, started_unix_ms: int = 0) -> None:
        self._offset = started_unix_ms
        self._loop: asyncio.AbstractEventLoop | None = None
        self._before = 0
        self._last = 0

    def wall_ms(self) -> int:
        """Return the wall clock."""
        return self._offset + self.monotonic_ms()

    def monotonic_ms(self) -> int:
        """Return the virtual milliseconds that have passed."""
        try:
            loop = asyncio.get_running_loop()
        except RuntimeError:
            return self._last
        if loop is not self._loop:
            self._loop, self._before = loop, self._last - round(loop.time() * 1_000)
        self._last = self._before + round(loop.time() * 1_000)
        return self._last

    def set_wall(self, unix_ms: int) -> None:
        """Let the wall show another time from now on."""
        self._offset = unix_ms - self.monotonic_ms()


def run_virtually(main: Coroutine[object, object, T]) -> T:
    """Return what a coroutine returns, run to its end on virtual time."""
    with asyncio.Runner(loop_factory=VirtualLoop) as runner:
        return runner.run(main)
