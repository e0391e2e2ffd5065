"""`loopcore lab`: run the eleven reference cases and write the report.

Exit status 0 when every case ends as it should, 1 otherwise.

Source: spec evaluator, section 8.
"""

from __future__ import annotations

import argparse
import json
from pathlib import Path

import msgspec

from loopcore.canonical import canonical, digest
from loopcore.cli import EXIT_OK, EXIT_WANTING
from loopcore.files import DEFAULT_FOLDER, write_whole
from loopcore.lab import LabReport, run_lab

HELP = "Run the baseline and the eleven reference cases; write OUT/lab/<policy-sha256>.json."


def configure(parser: argparse.ArgumentParser) -> None:
    """Add the command's arguments."""
    parser.add_argument("--out", metavar="DIR", default=DEFAULT_FOLDER, help="where results go")
    parser.add_argument("--json", action="store_true", help="print the report as JSON")


def run(arguments: argparse.Namespace) -> int:
    """Run the lab, write its report, print it; return the exit status."""
    report = run_lab()
    path = Path(arguments.out) / "lab" / f"{report.policy_sha256}.json"
    write_whole(path, canonical(report) + b"\n")
    if arguments.json:
        print(json.dumps(msgspec.to_builtins(report), sort_keys=True))
    else:
        print(_table(report, path))
    return EXIT_OK if report.passed == report.total else EXIT_WANTING


def _table(report: LabReport, path: Path) -> str:
    width = max(len(row.name) for row in report.cases)
    lines = [
        f"{'ok  ' if row.passed else 'FAIL'}  {row.name:<{width}}  {row.terminal}"
        for row in report.cases
    ]
    return "\n".join(
        [
            *lines,
            "",
            f"{report.passed} / {report.total}",
            "completion: identity only",
            f"policy   {report.policy_sha256}",
            f"steps    {report.steps_sha256}",
            f"receipt  {report.receipt_sha256}",
            f"report   {digest(report)}",
            f"written to {path}",
        ]
    )
