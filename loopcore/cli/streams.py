"""The three standard streams, when one of them is closed, full, or no longer read.

Theory of operation: a stream that the caller closed (`<&-`) is missing in Python, and its number
would be given to the next file that is opened, so that a message could end in a result. So each
closed number is taken by the null device, opened the wrong way round: reading standard input and
writing standard output then fail as on any bad descriptor, and complaints go nowhere.

A command never sees standard output fail. The first failure is noted and the rest is dropped, so
that the command comes to its end and to its own exit status: a reader who has gone away makes no
pass of a finding. Only a command that answers for as long as it is read asks whether it still is.

Only the standard library is imported, since `--version` comes through here.
"""

from __future__ import annotations

import io
import os
import sys
from collections.abc import Generator
from contextlib import contextmanager
from typing import TYPE_CHECKING, cast

if TYPE_CHECKING:
    from _typeshed import ReadableBuffer

# Name, how its number is taken when it was closed, and the mode of the stream.
_STREAMS = (
    ("stdin", os.O_WRONLY, "r"),
    ("stdout", os.O_RDONLY, "w"),
    ("stderr", os.O_WRONLY, "w"),
)


def take_closed() -> None:
    """Give every standard stream that was closed a number of its own and a stream upon it."""
    for number, (name, way, mode) in enumerate(_STREAMS):
        if getattr(sys, name) is None:
            taken = os.open(os.devnull, way)
            # A child process would find the number free again.
            os.set_inheritable(taken, taken == number)
            stream = io.TextIOWrapper(
                cast("io.BufferedWriter", open(taken, f"{mode}b", closefd=False)),  # noqa: SIM115
                encoding="utf-8",
            )
            setattr(sys, name, stream)
            setattr(sys, f"__{name}__", stream)


class Output(io.FileIO):
    """Standard output that takes everything, and notes the first failure to pass it on."""

    failure: OSError | None = None

    def write(self, data: ReadableBuffer, /) -> int:
        """Pass the bytes on, or drop them after a failure; return how many are done with."""
        if self.failure is None:
            try:
                return super().write(data)
            except OSError as error:
                self.failure = error
        return memoryview(data).nbytes


@contextmanager
def noted_output() -> Generator[Output | None]:
    """Stand in for the process's own standard output; yield None where another stands there."""
    own = sys.stdout
    if own is not sys.__stdout__ or not isinstance(own, io.TextIOWrapper):
        yield None
        return
    output = Output(own.fileno(), "w", closefd=False)
    sys.stdout = io.TextIOWrapper(
        io.BufferedWriter(output),
        encoding=own.encoding,
        # A file's name may hold what no encoding takes.
        errors="backslashreplace",
        line_buffering=own.line_buffering or own.write_through,
    )
    try:
        yield output
    finally:
        sys.stdout.flush()
        sys.stdout = own


def output_failed() -> bool:
    """Return whether standard output takes nothing any more."""
    raw = getattr(sys.stdout.buffer, "raw", None)
    return isinstance(raw, Output) and raw.failure is not None
