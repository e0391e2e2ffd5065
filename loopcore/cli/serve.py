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
from loopcore.defects import DOCUMENT_BYTES_MAX
from loopcore.documents import read_file
from loopcore.errors import UsageError

HELP = "Answer the target protocol (or, with --level, the controller protocol) on standard input."


def configure(parser: argparse.ArgumentParser) -> None:
    """Add the command's arguments."""
    parser.add_argument("--level", metavar="LEVEL", help="serve a control level: A, B, C or D")
    parser.add_argument("--limits", metavar="FILE", help="limits of the controller, as JSON")


def run(arguments: argparse.Namespace) -> int:
    """Answer each line until the input ends."""
    answer = _answerer(arguments.level, arguments.limits)
    output = sys.stdout.buffer
    while line := sys.stdin.buffer.readline(DOCUMENT_BYTES_MAX + 2):
        output.write(answer(line.removesuffix(b"\n")).removesuffix(b"\n") + b"\n")
        output.flush()
    return EXIT_OK


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
        limits = read_limits(read_file(limits_file, sys.stdin.buffer))
    return ControllerSession(level, limits).answer
