"""The store as the driver uses it: off the event loop, and with refusals as answers.

Theory of operation: a durable append takes as long as a disk does, so it happens in a thread; a
store in memory is called directly, which keeps virtual time exact. A refused or unanswered append
is an answer (`False`), because the protocol reads and decides again; a store that is full, read
only or gone is an error, because the run cannot go on without its journal.

Source: spec runtime, section 1.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterable, Sequence
from typing import TypeVar

from loopcore.runtime.messages import Append
from loopcore.store.contract import AppendRefused, AppendUnanswered, LeaseHeld, Store, StoreBusy
from loopcore.store.journal import Event, Head

T = TypeVar("T")

BUSY_TRIES_MAX = 5


class Journals:
    """A store, called without blocking the event loop.

    Arguments:
        store: any store of the contract; one with `durable = False` is called directly.
    """

    def __init__(self, store: Store) -> None:
        self.store = store
        self._direct = getattr(store, "durable", True) is False

    async def _do(self, call: Callable[[], T]) -> T:
        return call() if self._direct else await asyncio.to_thread(call)

    async def read(self, run_id: str, after: int = 0) -> list[Event]:
        """Return the events behind a sequence."""
        return await self._do(lambda: list(self.store.read(run_id, after)))

    async def head(self, run_id: str) -> Head:
        """Return where a journal stands."""
        return await self._do(lambda: self.store.head(run_id))

    async def append(self, command: Append) -> bool | LeaseHeld:
        """Return whether the events are known to be appended, or who holds the lease instead."""
        for attempt in range(BUSY_TRIES_MAX):
            try:
                await self._do(
                    lambda: self.store.append(
                        command.run_id, command.expected_head, command.epoch, command.events
                    )
                )
            except LeaseHeld as held:
                return held
            except (AppendRefused, AppendUnanswered):
                return False
            except StoreBusy:
                if attempt + 1 == BUSY_TRIES_MAX:
                    raise
            else:
                return True
        return False

    async def renew(self, run_id: str, epoch: int, duration_ms: int) -> bool:
        """Return whether the lease of this epoch is known to be held for so long from now on."""
        try:
            await self._do(lambda: self.store.renew(run_id, epoch, duration_ms))
        except (AppendRefused, AppendUnanswered):
            return False
        return True

    async def append_once(
        self, run_id: str, head: Head, events: Sequence[Event], epoch: int | None = None
    ) -> bool:
        """Return whether events were appended behind a head, for writers without a lease."""
        command = Append(
            run_id=run_id,
            expected_head=head.digest,
            epoch=head.epoch if epoch is None else epoch,
            events=tuple(events),
        )
        return await self.append(command) is True


async def read_chain(journals: Journals, run_id: str) -> list[list[Event]]:
    """Return the journals of a run and of all that it continues, oldest first."""
    chain: list[list[Event]] = []
    seen: set[str] = set()
    current: str | None = run_id
    while current is not None and current not in seen:
        seen.add(current)
        events = await journals.read(current)
        chain.insert(0, events)
        current = _continues(events)
    return chain


def _continues(events: Iterable[Event]) -> str | None:
    """Return the run that a journal continues, or None."""
    from loopcore.runtime.payloads import RunCreated, payload_of

    for event in events:
        payload = payload_of(event)
        if isinstance(payload, RunCreated) and payload.resumes is not None:
            return payload.resumes.run_id
        return None
    return None
