"""`loopcore serve`: answer a protocol on standard input and output, one line a request.

Without `--level` it is the target protocol of the reference evaluator; with it, the controller
protocol of one of the control levels. End of input is exit status 0.

Source: spec evaluator, section 7; spec controllers, section 7.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Callable

from loopcore.cli import EXIT_OK
from loopcore.cli.streams import output_failed
from loopcore.defects import DOCUMENT_BYTES_MAX
from loopcore.documents import read_file
from loopcore.errors import EnvironmentFault, UsageError

# A file of limits names a few dozen numbers.
LIMITS_BYTES_MAX = 2**20

HELP = "Answer the target protocol (or, with --level, the controller protocol) on standard input."


def configure(parser: argparse.ArgumentParser) -> None:
    """Add the command's arguments."""
    parser.add_argument("--level", metavar="LEVEL", help="serve a control level: A, B, C, D or E")
    parser.add_argument("--limits", metavar="FILE", help="limits of the controller, as JSON")


def run(arguments: argparse.Namespace) -> int:
    """Answer each line until the input ends, or nobody reads the answers any more."""
    answer = _answerer(arguments.level, arguments.limits)
    output = sys.stdout.buffer
    while not output_failed() and (line := _line()):
        output.write(answer(line.removesuffix(b"\n")).removesuffix(b"\n") + b"\n")
        output.flush()
    return EXIT_OK


def _line() -> bytes:
    """Return the next line, of one that is too long only so much that this can be seen."""
    source = sys.stdin.buffer
    try:
        line = rest = source.readline(DOCUMENT_BYTES_MAX + 2)
        while len(rest) > DOCUMENT_BYTES_MAX and not rest.endswith(b"\n"):
            # The rest of an endless line belongs to the same request.
            rest = source.readline(DOCUMENT_BYTES_MAX + 2)
    except OSError as error:
        raise EnvironmentFault(f"standard input: {error.strerror or error}") from None
    return line


def _answerer(level: str | None, limits_file: str | None) -> Callable[[bytes], bytes]:
    if level is None:
        if limits_file is not None:
            raise UsageError("--limits goes with --level")
        from loopcore.serving import answer

        return answer
    from loopcore.control.limits import Limits, read_limits
    from loopcore.control.wire import ControllerSession

    limits = Limits()
    if limits_file is not None:
        data = read_file(limits_file, sys.stdin.buffer)
        if len(data) > LIMITS_BYTES_MAX:
            raise UsageError(f"limits: the file is longer than {LIMITS_BYTES_MAX} bytes")
        limits = read_limits(data)
    return ControllerSession(level, limits).answer
