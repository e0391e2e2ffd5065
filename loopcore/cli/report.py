"""`loopcore report`: render the result files of a folder as HTML, Markdown and JSON.

Nothing is measured. Exit status 0 when the report is written, whatever it says; 2 when the folder
is missing or empty, or when a file in it is broken or not a result of loopcore.

Source: spec evaluator, section 6.
"""

from __future__ import annotations

import argparse
import sys
from pathlib import Path

from loopcore.cli import EXIT_OK
from loopcore.cli.extras import check_extras
from loopcore.files import DEFAULT_FOLDER

HELP = "Render result files as one report: HTML, Markdown and JSON; measures nothing."


def configure(parser: argparse.ArgumentParser) -> None:
    """Add the command's arguments."""
    parser.add_argument("folder", metavar="DIR", help="folder of result files")
    parser.add_argument(
        "--out", metavar="DIR", default=DEFAULT_FOLDER, help="where the report goes"
    )
    parser.add_argument("--json", action="store_true", help="print the report as JSON")


def run(arguments: argparse.Namespace) -> int:
    """Render the results of the folder; return the exit status."""
    check_extras("report", "bench", "report")
    from loopcore.reporting import report
    from loopcore.reporting.inputs import read_results

    built = report.build(read_results(Path(arguments.folder)))
    page = report.write(built, Path(arguments.out))
    if arguments.json:
        sys.stdout.write(report.as_json(built).decode())
    else:
        print(built.verdict)
        if built.incomplete is not None:
            print(f"incomplete: {built.incomplete}")
        print("completion: identity only")
        print(f"report: {page}")
    return EXIT_OK
