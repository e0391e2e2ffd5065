"""The child processes of targets: another hash seed for each, less patience after a hang, memory.

Theory of operation: a target that has hung has broken E15 already, so from then on it is given less
time for an answer: a run that waits the full time for every property says nothing more. The peak of
a child's memory is the kernel's own figure, which is set back before a request.

Choices: where the kernel tells nothing (no `/proc`), nothing is known of memory.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import count
from pathlib import Path

from loopcore.errors import TargetError
from loopcore.process import ChildProcess

# How long an answer may take once the target has hung.
SECONDS_AFTER_HANG = 2.0
# What a process may hold while it answers one request; documents of the suite are far smaller.
ANSWER_MEMORY_BYTES_MAX = 2**30
# Every process gets another hash seed, so that nothing can rest on the order of a set.
_HASH_SEEDS = count(1)
_PROCESSES = Path("/proc")
# Written to `clear_refs`, it sets back the peak of the resident memory.
_SET_BACK = b"5"
_PEAK = "VmHWM:"


class TargetChild(ChildProcess):
    """The process of a target."""

    def ask(self, line: bytes) -> bytes:
        """Return the line that the child answers; raises as `ChildProcess.ask` does."""
        try:
            return super().ask(line)
        except TargetError as error:
            if error.kind == "hang":
                self._answer_seconds = min(self._answer_seconds, SECONDS_AFTER_HANG)
            raise

    def forget_peak(self) -> None:
        """Let the peak of memory begin anew, where there is a process and the kernel can do it."""
        if self.pid is not None:
            try:
                (_PROCESSES / str(self.pid) / "clear_refs").write_bytes(_SET_BACK)
            except OSError:
                return  # The peak then counts from the start of the process, which is stricter.

    def peak_bytes(self) -> int | None:
        """Return the most memory that the process held since the peak was forgotten, or None."""
        if self.pid is None:
            return None
        try:
            text = (_PROCESSES / str(self.pid) / "status").read_text("utf-8", "replace")
        except OSError:
            return None
        line = next((each for each in text.splitlines() if each.startswith(_PEAK)), None)
        return None if line is None else int(line.split()[1]) * 1024


def target_child(words: Sequence[str], answer_seconds: float) -> TargetChild:
    """Return a child process for a command, not started yet."""
    seed = {"PYTHONHASHSEED": str(next(_HASH_SEEDS))}
    return TargetChild(words, env=seed, answer_seconds=answer_seconds)
