"""The three standard streams, when one of them is closed, full, or no longer read.

Theory of operation: a stream that the caller closed (`<&-`) is missing in Python, and its number
would be given to the next file that is opened, so that a message could end in a result. So each
closed number is taken by the null device, opened the wrong way round: reading standard input and
writing standard output then fail as on any bad descriptor, and complaints go nowhere. What a buffer
still holds at the end is written while there is someone to answer for it; standard output that
failed once is pointed at the null device, because the interpreter would try and complain again.

Only the standard library is imported, since `--version` comes through here.
"""

from __future__ import annotations

import os
import sys

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
            setattr(sys, name, open(taken, mode, encoding="utf-8", closefd=False))


def flush_output() -> OSError | None:
    """Write what standard output still holds; return why that failed, after abandoning it."""
    try:
        sys.stdout.flush()
    except OSError as error:
        abandon_output()
        return error
    return None


def abandon_output() -> None:
    """Point standard output at the null device, so that nothing fails on it any more."""
    null = os.open(os.devnull, os.O_WRONLY)
    os.dup2(null, sys.stdout.fileno())
    os.close(null)
