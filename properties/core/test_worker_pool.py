"""A pool's workers are gone when its block is left, in order or not, whatever they are doing."""

import atexit
import multiprocessing
import os
import signal
import subprocess
import sys
import time
from contextlib import suppress
from functools import partial
from pathlib import Path
from types import FrameType

import pytest

from loopcore.errors import EnvironmentFault
from loopcore.worker_pool import worker_pool

FOREVER_SECONDS = 3600
POLL_SECONDS = 0.01


def prepare_farewell(folder: str) -> None:
    """Have this worker leave a file when it ends in order."""
    atexit.register(lambda: Path(folder, f"{os.getpid()}").touch())


def prepare_deafness(signals: int) -> None:
    """Have this worker miss so many signals, as one that waits for a lock may."""
    left = [signals]

    def end(number: int, frame: FrameType | None) -> None:
        del number, frame
        left[0] -= 1
        if left[0] < 0:
            os._exit(1)

    signal.signal(signal.SIGTERM, end)


def work_for_ever(mark: Path) -> None:
    """Say that this worker is at work, and stay so."""
    mark.touch()
    time.sleep(FOREVER_SECONDS)


def leave_busy(folder: Path, jobs: int, signals: int) -> None:
    """Leave the block of workers, which miss so many signals, while one is at work."""
    mark = folder / "at work"
    with suppress(KeyError), worker_pool(jobs, partial(prepare_deafness, signals)) as pool:
        pool.submit(work_for_ever, mark)
        while not mark.exists():
            time.sleep(POLL_SECONDS)
        raise KeyError


def kill_workers(jobs: int) -> None:
    """Kill all workers of a pool, and ask it for something."""
    with worker_pool(jobs) as pool:
        for child in multiprocessing.active_children():
            child.kill()
        pool.submit(abs, -1).result()


def test_workers_that_have_done_their_work_leave_in_order(tmp_path: Path) -> None:
    with worker_pool(2, partial(prepare_farewell, str(tmp_path))) as pool:
        workers = {str(child.pid) for child in multiprocessing.active_children()}
        assert list(pool.map(abs, [-1, -2, -3])) == [1, 2, 3]
    assert {each.name for each in tmp_path.iterdir()} == workers
    assert len(workers) == 2
    assert not multiprocessing.active_children()


@pytest.mark.parametrize("signals", [0, 1, 3])
def test_a_busy_worker_that_misses_signals_is_ended_all_the_same(
    tmp_path: Path, signals: int
) -> None:
    leave_busy(tmp_path, 2, signals)
    assert not multiprocessing.active_children()


@pytest.mark.slow
def test_a_worker_that_no_signal_ends_is_killed(tmp_path: Path) -> None:
    leave_busy(tmp_path, 1, FOREVER_SECONDS)
    assert not multiprocessing.active_children()


def test_a_worker_that_is_killed_from_outside_is_a_fault_of_the_environment() -> None:
    with pytest.raises(EnvironmentFault, match="ended from outside"):
        kill_workers(2)
    assert not multiprocessing.active_children()


PARENT = """
import multiprocessing, os, signal, sys, time
from loopcore.worker_pool import worker_pool
if __name__ == "__main__":
    with worker_pool(2) as pool:
        pool.submit(time.sleep, 3600)
        print(*(child.pid for child in multiprocessing.active_children()), flush=True)
        os.kill(os.getpid(), signal.SIGKILL)
"""


def test_workers_whose_parent_is_killed_end_themselves(tmp_path: Path) -> None:
    (tmp_path / "parent.py").write_text(PARENT, encoding="utf-8")
    # Both pipes are the workers' too, so they are at their end when no worker is left.
    done = subprocess.run(
        [sys.executable, "parent.py"],
        cwd=tmp_path,
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    assert (done.returncode, len(done.stdout.split())) == (-signal.SIGKILL, 2)


def test_an_interrupt_of_the_terminal_reaches_no_worker() -> None:
    with worker_pool(1) as pool:
        (worker,) = multiprocessing.active_children()
        assert worker.pid is not None
        os.kill(worker.pid, signal.SIGINT)
        assert pool.submit(signal.getsignal, signal.SIGINT).result() == signal.SIG_IGN
