"""`loopcore replay`: check that a receipt is what its trace gives.

Exit status 0 when it verifies, 1 when it does not, 2 for an input error.

Source: spec evaluator, sections 5 and 6.
"""

from __future__ import annotations

import argparse
import json
import sys

import msgspec

from loopcore.canonical import canonical
from loopcore.cli import EXIT_INPUT, EXIT_OK, EXIT_WANTING, complain
from loopcore.decoding import decode_receipt
from loopcore.documents import evaluate_file, read_file
from loopcore.errors import InputError, UsageError
from loopcore.receipts import compare_receipts

HELP = "Check a receipt against its trace; name the fields that differ."


def configure(parser: argparse.ArgumentParser) -> None:
    """Add the command's arguments."""
    parser.add_argument("trace", metavar="TRACE", help="a .json trace, a .jsonl stream, or -")
    parser.add_argument("receipt", metavar="RECEIPT", help="the receipt as JSON, or -")
    parser.add_argument("--json", action="store_true", help="print the answer as JSON")


def run(arguments: argparse.Namespace) -> int:
    """Print whether the receipt verifies; return the exit status."""
    if arguments.trace == arguments.receipt == "-":
        raise UsageError("only one of TRACE and RECEIPT can be standard input")
    try:
        receipt = decode_receipt(read_file(arguments.receipt, sys.stdin.buffer))
        replayed = evaluate_file(arguments.trace, sys.stdin.buffer)
    except InputError as error:
        sys.stdout.buffer.write(canonical({"error": error.as_dict()}) + b"\n")
        complain(error.message)
        return EXIT_INPUT
    comparison = compare_receipts(replayed, receipt)
    verifies = not comparison.differing
    if arguments.json:
        answer = {"verifies": verifies, **msgspec.structs.asdict(comparison)}
        print(json.dumps(answer, sort_keys=True))
    elif verifies:
        print(f"verified: receipt {receipt.receipt_sha256} is what this trace gives")
    else:
        print("\n".join(comparison.differing))
        complain(
            "the receipt is whole but belongs to another trace"
            if comparison.self_consistent
            else "the receipt was altered: its own digest does not match its content"
        )
    return EXIT_OK if verifies else EXIT_WANTING
