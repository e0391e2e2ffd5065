"""`loopcore evaluate`: print the receipt of a trace, or of every trace of a batch.

Exit status 0 whatever the terminal, 2 for an input error, which is printed as JSON on standard
output and as a sentence on standard error.

Source: spec evaluator, section 6.
"""

from __future__ import annotations

import argparse
import sys

from loopcore.canonical import canonical
from loopcore.cli import EXIT_INPUT, EXIT_OK, complain
from loopcore.cli.streams import output_failed
from loopcore.documents import evaluate_batch, evaluate_file, open_source
from loopcore.errors import InputError

HELP = "Print the receipt of a trace (.json), a stream (.jsonl) or standard input (-)."

# What `completed` is worth here: a fresh proof was named, and nobody has looked at it.
COMPLETION_NOTE = "completion: identity only"


def configure(parser: argparse.ArgumentParser) -> None:
    """Add the command's arguments."""
    parser.add_argument("file", metavar="FILE", help="a .json trace, a .jsonl stream, or -")
    parser.add_argument(
        "--batch", action="store_true", help="FILE has one trace a line; print one line for each"
    )
    parser.add_argument(
        "--json", action="store_true", help="print JSON, which this command always does"
    )


def run(arguments: argparse.Namespace) -> int:
    """Print the receipt, or one line for each trace of a batch; return the exit status."""
    try:
        if arguments.batch:
            return _run_batch(arguments.file)
        receipt = evaluate_file(arguments.file, sys.stdin.buffer)
    except InputError as error:
        _write(canonical({"error": error.as_dict()}))
        complain(error.message)
        return EXIT_INPUT
    _write(canonical(receipt))
    complain(COMPLETION_NOTE)
    return EXIT_OK


def _run_batch(path: str) -> int:
    with open_source(path, sys.stdin.buffer) as source:
        for answer in evaluate_batch(source):
            error = {"error": answer.as_dict()} if isinstance(answer, InputError) else None
            _write(canonical(error or answer))
            if output_failed():
                break
    return EXIT_OK


def _write(line: bytes) -> None:
    sys.stdout.buffer.write(line + b"\n")
