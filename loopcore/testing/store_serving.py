"""A store behind the operations of the suite, whichever process it is in.

Theory of operation: handle 0, 1, … are stores that were opened one after another on the same place.
A store that is not durable has one handle for all, since another would be another store.

A crash is a real one: a forked process opens the store, begins an append and is killed. All handles
are closed before the fork, since hardly any database survives one.

Only the standard library and the stores are imported, since every hosted target starts with it.
"""

from __future__ import annotations

import os
import signal
import struct
import time
from collections.abc import Callable, Mapping, Sequence
from threading import Barrier, Thread
from typing import TypeAlias, cast

import msgspec

from loopcore.canonical import canonical
from loopcore.store.contract import AppendRefused, JournalBroken, StaleHead, Store
from loopcore.store.journal import EMPTY_HEAD, GENESIS, Event, Head, InvalidEvent, chain

Make: TypeAlias = "Callable[[str, Callable[[], int]], Store]"
Request: TypeAlias = "Mapping[str, object]"

ATTEMPTS_MAX = 10_000
_CRASHED_SECONDS_MAX = 5.0
_ANSWERED = b"a"
# How a process tells how long its rehearsal took.
_SECONDS = struct.Struct("d")
_REFUSALS = (AppendRefused, InvalidEvent, JournalBroken)


class ServedStore:
    """A store, as many handles of it as were asked for, and the clock that they have.

    Arguments:
        make: opens the store at a location with a clock; location: a folder that is its own.
    """

    def __init__(self, make: Make, location: str) -> None:
        self._make, self._location = make, location
        self._now = 0
        self._handles: dict[int, Store] = {}
        self.durable = bool(getattr(self._handle(0), "durable", True))

    def serve(self, request: Request) -> dict[str, object]:
        """Return the answer to one operation; raises whatever the store raises but refusals."""
        self._now = cast("int", request.get("now", self._now))
        operation = cast("str", request["do"])
        try:
            return _OPERATIONS[operation](self, request)
        except _REFUSALS as refusal:
            # A store's own error may be a kind of ours.
            names = [each.__name__ for each in type(refusal).__mro__ if each in _KNOWN]
            return {"refused": names[0], "text": str(refusal)}

    def sample(self) -> Store:
        """Return the first handle."""
        return self._handle(0)

    def close(self, *, destroy: bool = False) -> None:
        """Close all handles, and remove what a store with `destroy` keeps, where that is asked."""
        for store in self._handles.values():
            store.close()
        self._handles.clear()
        if not destroy:
            return
        # Now nothing else holds what is removed, so one more handle is opened for that alone.
        last = self._handle(0)
        remove: object = getattr(last, "destroy", None)
        if callable(remove):
            cast("Callable[[], object]", remove)()
        last.close()
        self._handles.clear()

    def _handle(self, number: int) -> Store:
        number = number if getattr(self, "durable", True) else 0
        if number not in self._handles:
            self._handles[number] = self._make(self._location, lambda: self._now)
        return self._handles[number]

    def _store(self, request: Request) -> Store:
        return self._handle(cast("int", request.get("handle", 0)))

    def _head(self, request: Request) -> dict[str, object]:
        return {"head": _listed(self._store(request).head(cast("str", request["run"])))}

    def _append(self, request: Request) -> dict[str, object]:
        return {"head": _listed(_append(self._store(request), request))}

    def _read(self, request: Request) -> dict[str, object]:
        run_id, after = cast("str", request["run"]), cast("int", request["after"])
        events = self._store(request).read(run_id, after)
        return {"events": [canonical(event).decode() for event in events]}

    def _runs(self, request: Request) -> dict[str, object]:
        return {"runs": list(self._store(request).runs())}

    def _renew(self, request: Request) -> dict[str, object]:
        run_id, epoch = cast("str", request["run"]), cast("int", request["epoch"])
        self._store(request).renew(run_id, epoch, cast("int", request["duration_ms"]))
        return {"done": True}

    def _reopen(self, request: Request) -> dict[str, object]:
        del request
        if self.durable:
            self.close()
        return {"done": True}

    def _contend(self, request: Request) -> dict[str, object]:
        run_id, each = cast("str", request["run"]), cast("int", request["each"])
        template = cast("dict[str, object]", request["event"])

        def work(store: Store, worker: int) -> None:
            for number in range(each):
                payload = {"worker": worker, "number": number}
                draft = _event({**template, "payload": payload})
                for _ in range(ATTEMPTS_MAX):
                    head = store.head(run_id)
                    events = chain(head, [draft])
                    try:
                        store.append(run_id, head.digest, head.epoch, events)
                    except StaleHead:
                        continue
                    break

        self._in_threads(cast("int", request["workers"]), work)
        return {"done": True}

    def _race(self, request: Request) -> dict[str, object]:
        batches = cast("Sequence[object]", request["batches"])
        won: list[int] = []

        def work(store: Store, worker: int) -> None:
            try:
                _append(store, {**request, "events": batches[worker]})
            except AppendRefused:
                return
            won.append(worker)

        self._in_threads(len(batches), work)
        return {"won": sorted(won)}

    def _in_threads(self, count: int, work: Callable[[Store, int], None]) -> None:
        """Let so many threads work at once, each on a handle of its own; raise what one raised."""
        stores = [self._handle(number) for number in range(count)]
        start = Barrier(count)
        raised: list[Exception] = []

        def begin(number: int) -> None:
            start.wait()
            try:
                work(stores[number], number)
            except Exception as error:  # noqa: BLE001 raised again in the thread that asked
                raised.append(error)

        threads = [Thread(target=begin, args=(number,)) for number in range(count)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        if raised:
            raise raised[0]

    def _crash(self, request: Request) -> dict[str, object]:
        percent = cast("int | None", request["percent"])
        self.close()
        reader, writer = os.pipe()
        child = os.fork()
        if child == 0:
            self._die(request, writer)
        os.close(writer)
        said = os.read(reader, _SECONDS.size)
        if percent is None and said:
            said = os.read(reader, 1)
        elif percent is not None and said:
            (seconds,) = _SECONDS.unpack(said)
            time.sleep(min(seconds * percent / 100, _CRASHED_SECONDS_MAX))
            said = b""
        os.kill(child, signal.SIGKILL)
        os.waitpid(child, 0)
        said += os.read(reader, 1)
        os.close(reader)
        return {"acknowledged": _ANSWERED in said}

    def _die(self, request: Request, writer: int) -> None:
        """Append in this process, which is killed while it does, or waits for that afterwards."""
        try:
            store = self._handle(0)
            os.write(writer, _SECONDS.pack(_rehearsed(store, request)))
            _append(store, request)
            os.write(writer, _ANSWERED)
            time.sleep(_CRASHED_SECONDS_MAX)
        finally:
            os._exit(0)


_ANY_EVENT = Event(
    run_id="run",
    sequence=1,
    previous_event_sha256=GENESIS,
    kind="run_created",
    policy_sha256=None,
    state_sha256=None,
    epoch=0,
    principal="principal",
    tenant="tenant",
    grant_sha256=None,
    idempotency_key=None,
    producer_release="release",
    model_version=None,
    prompt_version=None,
    tool_version=None,
    at_unix_ms=0,
    clock="simulated",
    payload={},
)
_KNOWN = frozenset({*AppendRefused.__subclasses__(), InvalidEvent, JournalBroken})
_OPERATIONS: dict[str, Callable[[ServedStore, Request], dict[str, object]]] = {
    name: cast(
        "Callable[[ServedStore, Request], dict[str, object]]", getattr(ServedStore, f"_{name}")
    )
    for name in ("head", "append", "read", "runs", "renew", "reopen", "contend", "race", "crash")
}


def _append(store: Store, request: Request) -> Head:
    members = cast("Sequence[dict[str, object]]", request["events"])
    events = [_event(member) for member in members]
    run_id, expected_head = cast("str", request["run"]), cast("str", request["expected_head"])
    return store.append(run_id, expected_head, cast("int", request["epoch"]), events)


def _event(members: dict[str, object]) -> Event:
    """Return an event with these members, which nothing has validated."""
    return msgspec.structs.replace(_ANY_EVENT, **members)


def _rehearsed(store: Store, request: Request) -> float:
    """Return how many seconds an equal append takes, to a run of its own."""
    members = cast("Sequence[dict[str, object]]", request["events"])
    run_id = f"{request['run']}~"
    drafts = [_event({**member, "run_id": run_id}) for member in members]
    events = chain(EMPTY_HEAD, drafts)
    began = time.monotonic()
    store.append(run_id, EMPTY_HEAD.digest, EMPTY_HEAD.epoch, events)
    return time.monotonic() - began


def _listed(head: Head) -> list[object]:
    return [head.sequence, head.digest, head.epoch]
