"""Worker processes for the length of a block; whatever happens in it, they are gone afterwards.

Theory of operation: workers are spawned, which every platform can and which copies nothing of what
the parent holds. They ignore the interrupt of a terminal, which is the parent's to answer. When the
block is left in order they are asked to leave; otherwise, and where one does not go, a signal ends
them, which is sent until they are gone: a worker that gets it just before it waits for a lock runs
no handler for it, and whoever held that lock may have been ended before. A worker whose parent has
gone ends itself, and each ends its own children first, since nobody would end them any more.

Source: Python issue tracker, gh-94777 and gh-105829 (pools whose workers are ended).
"""

from __future__ import annotations

import atexit
import multiprocessing
import os
import signal
import threading
import time
from collections.abc import Callable, Generator
from concurrent.futures import ProcessPoolExecutor
from concurrent.futures.process import BrokenProcessPool
from contextlib import contextmanager
from multiprocessing.process import BaseProcess
from types import FrameType

from loopcore.errors import EnvironmentFault
from loopcore.process import end_children

# How long workers that are asked to leave may take for it together.
_LEAVE_SECONDS = 0.5
# How long a signal may take to end a worker before it is sent again.
_AGAIN_SECONDS = 0.1
# After so many signals comes one that cannot be handled.
_SIGNALS_MAX = 50
_ENDED_STATUS = 1


@contextmanager
def worker_pool(
    jobs: int, prepare: Callable[[], None] | None = None
) -> Generator[ProcessPoolExecutor]:
    """Yield an executor of worker processes, all of them started.

    Arguments:
        jobs: how many, at least 1. prepare: called in each before anything else is; pickled.
    Errors: EnvironmentFault when a worker was ended from outside, or when it could not prepare.
    """
    others = set(multiprocessing.active_children())
    pool = ProcessPoolExecutor(
        max_workers=jobs,
        mp_context=multiprocessing.get_context("spawn"),
        initializer=_prepare,
        initargs=(prepare,),
    )
    in_order = False
    try:
        _start(pool, jobs)
        yield pool
        in_order = True
    except BrokenProcessPool:
        raise EnvironmentFault(
            "a worker process was ended from outside; use fewer with --jobs"
        ) from None
    finally:
        pool.shutdown(wait=False, cancel_futures=True)
        _end(set(multiprocessing.active_children()) - others, in_order=in_order)


def _start(pool: ProcessPoolExecutor, jobs: int) -> None:
    # A worker that starts takes an interrupt before it can say that it ignores it, so it starts
    # with interrupts held back; this process has a held one as soon as all are started.
    held_before = signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGINT})
    try:
        for future in [pool.submit(os.getpid) for _ in range(jobs)]:
            future.result()
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, held_before)


def _prepare(prepare: Callable[[], None] | None) -> None:
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    # What a worker starts must not inherit that interrupts are held back.
    signal.pthread_sigmask(signal.SIG_UNBLOCK, {signal.SIGINT})
    atexit.register(end_children)
    signal.signal(signal.SIGTERM, _end_by_signal)
    threading.Thread(target=_watch_parent, daemon=True).start()
    if prepare is not None:
        prepare()


def _watch_parent() -> None:
    parent = multiprocessing.parent_process()
    if parent is not None:
        parent.join()
        _leave_at_once()


def _end_by_signal(number: int, frame: FrameType | None) -> None:
    del number, frame
    _leave_at_once()


def _leave_at_once() -> None:
    """End what this worker has started, then this worker, whatever it is doing."""
    try:
        end_children()
    finally:
        os._exit(_ENDED_STATUS)


def _end(workers: set[BaseProcess], *, in_order: bool) -> None:
    """Return when all of them are gone; the signals are sent at once unless all was in order."""
    leave_until = time.monotonic() + (_LEAVE_SECONDS if in_order else 0)
    for worker in workers:
        worker.join(max(0, leave_until - time.monotonic()))
    for _ in range(_SIGNALS_MAX):
        workers = {worker for worker in workers if worker.is_alive()}
        if not workers:
            return
        for worker in workers:
            worker.terminate()
        again_at = time.monotonic() + _AGAIN_SECONDS
        for worker in workers:
            worker.join(max(0, again_at - time.monotonic()))
    for worker in workers:
        worker.kill()
        worker.join()
