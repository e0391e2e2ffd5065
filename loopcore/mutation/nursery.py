"""A nursery of mutants: one process that has read the heavy libraries, and forks for every mutant.

Theory of operation: reading the libraries costs more than judging a mutant, so one process reads
them once and imports nothing of loopcore that could be planted. Each request names a job; a fork
does it (`loopcore.mutation.child`), with its output in a file beside the job, in bounded time, and
one line tells how it ended. A fork that hangs is killed; the nursery lives on.

`Nursery` is the other end, in the engine's process; `main` is the process itself.
"""

from __future__ import annotations

import importlib
import json
import os
import signal
import subprocess
import sys
import tempfile
import time
import traceback
from pathlib import Path
from typing import Self, cast

from loopcore.errors import EnvironmentFault
from loopcore.mutation.values import Record, record

# Read once, for all forks. None of these imports a module that could be planted; if one ever does,
# planting refuses and every mutant is *broken*.
PRELOADED = (
    "concurrent.futures",
    "msgspec.inspect",
    "hypothesis.strategies",
    "loopcore.mutation.operators",
    "loopcore.process",
    "loopcore.results",
    "loopcore.testing.checks",
)
_POLL_SECONDS = 0.005
_COMPLAINT_CHARACTERS_MAX = 500


class Nursery:
    """The engine's end; a context manager. One job at a time."""

    def __init__(self) -> None:
        self._process: subprocess.Popen[bytes] | None = None

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *exception: object) -> None:
        self.close()

    def close(self) -> None:
        """End the process, and whatever it is doing."""
        process, self._process = self._process, None
        if process is not None:
            with process:
                os.killpg(process.pid, signal.SIGKILL)

    def run(self, action: str, job: Record, seconds: float) -> tuple[list[Record], bool, str]:
        """Return the lines that a job answered, whether its time ran out, and its last complaint.

        Arguments:
            action: one of `loopcore.mutation.child`; seconds: how long the job may take.

        Raises EnvironmentFault when the nursery itself has died.
        """
        with tempfile.TemporaryDirectory(prefix="loopcore-mutant-") as folder:
            path = Path(folder) / "job.json"
            path.write_text(json.dumps(job), encoding="utf-8")
            request = {"action": action, "path": str(path), "seconds": seconds}
            told = self._ask(json.dumps(request).encode() + b"\n")
            output = Path(f"{path}.out").read_bytes()
            complaint = Path(f"{path}.err").read_text("utf-8", "replace")
        return _lines(output), told["timed_out"] is True, complaint[-_COMPLAINT_CHARACTERS_MAX:]

    def _ask(self, line: bytes) -> Record:
        if self._process is None:
            self._process = subprocess.Popen(
                [sys.executable, "-m", "loopcore.mutation.nursery"],
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                # Its fork belongs to its group, so that both are ended together.
                process_group=0,
                # A mutant may hang on the order of a set: the first killer is always the same.
                env=os.environ | {"PYTHONHASHSEED": "0"},
            )
        process = self._process
        try:
            assert process.stdin is not None
            assert process.stdout is not None
            process.stdin.write(line)
            process.stdin.flush()
            answer = process.stdout.readline()
        except OSError:
            answer = b""
        except BaseException:
            self.close()
            raise
        if not answer:
            self.close()
            raise EnvironmentFault("the process that makes the mutants has died")
        return record(json.loads(answer))


def _lines(output: bytes) -> list[Record]:
    lines: list[Record] = []
    for line in output.splitlines():
        try:
            lines.append(record(json.loads(line)))
        except ValueError:
            continue  # a line that was cut when the time ran out says nothing
    return lines


def main() -> None:
    """Serve jobs until the input ends."""
    for name in PRELOADED:
        importlib.import_module(name)
    for line in sys.stdin.buffer:
        job = cast("dict[str, object]", json.loads(line))
        timed_out = _fork(str(job["action"]), str(job["path"]), cast("float", job["seconds"]))
        try:
            sys.stdout.write(json.dumps({"timed_out": timed_out}) + "\n")
            sys.stdout.flush()
        except BrokenPipeError:
            # The engine was ended while a fork worked; nobody is left to be told anything.
            os._exit(0)


def _fork(action: str, path: str, seconds: float) -> bool:
    """Let a fork do a job; return whether it had to be killed."""
    for ending in (".out", ".err"):
        Path(path + ending).touch()
    pid = os.fork()
    if pid == 0:
        _live(action, path)
    ends_at = time.monotonic() + seconds
    while os.waitpid(pid, os.WNOHANG) == (0, 0):
        if time.monotonic() > ends_at:
            os.kill(pid, 9)
            os.waitpid(pid, 0)
            return True
        time.sleep(_POLL_SECONDS)
    return False


def _live(action: str, path: str) -> None:
    """Do the job in this fork and end the process."""
    from loopcore.mutation import child

    status = 1
    try:
        os.dup2(os.open(os.devnull, os.O_RDONLY), 0)
        os.dup2(os.open(path + ".out", os.O_WRONLY), 1)
        os.dup2(os.open(path + ".err", os.O_WRONLY), 2)
        child.main([action, path])
        status = 0
    except BaseException:  # noqa: BLE001 a fork must never go on as a second nursery
        traceback.print_exc()
    finally:
        sys.stdout.flush()
        sys.stderr.flush()
        os._exit(status)


if __name__ == "__main__":
    main()
