"""`loopcore assess`: verify, mutate, compare on worlds and on logs, and write one report.

Theory of operation: each stage writes its result file as soon as it is done, and the assessment
file says how far the whole came. Whatever happens after that, a report of what is there is written
at the end; the one of an earlier assessment stays whole until then. A bad log costs that log alone.

Exit status 130 interrupted, with the report of what was finished; 2 an input was bad; 1 something
is broken or survived; 3 nothing of that but something unknown; 0 all held, nothing survived.

Source: spec evaluator, section 6; spec verification, section 1; spec control, section 5.
"""

from __future__ import annotations

import argparse
import os
import shlex
import sys
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING

from loopcore.cli import (
    EXIT_INPUT,
    EXIT_INTERRUPTED,
    EXIT_OK,
    EXIT_UNKNOWN,
    EXIT_WANTING,
    complain,
)
from loopcore.cli.extras import check_extras
from loopcore.cli.options import JOBS_MAX, SEED_MAX, integer
from loopcore.errors import UsageError
from loopcore.files import DEFAULT_FOLDER

if TYPE_CHECKING:
    from loopcore.reporting.view import Report

HELP = "Verify, mutate, compare on logs, and write one report; quick unless told otherwise."

PROFILES = ("quick", "default", "thorough")
EXITS = {
    "held": EXIT_OK,
    "broken": EXIT_WANTING,
    "survived": EXIT_WANTING,
    "unknown": EXIT_UNKNOWN,
    "nothing": EXIT_UNKNOWN,
}


def configure(parser: argparse.ArgumentParser) -> None:
    """Add the command's arguments."""
    parser.add_argument(
        "logs",
        metavar="LOG",
        nargs="*",
        help="recorded runs: files or folders, in any known format",
    )
    parser.add_argument("--out", metavar="DIR", default=DEFAULT_FOLDER, help="where results go")
    parser.add_argument(
        "--profile", choices=PROFILES, default="quick", help="how hard to look (default: quick)"
    )
    parser.add_argument(
        "--target",
        metavar="NAME",
        help="a Python evaluator, package.module:object (default: loopcore's own)",
    )
    parser.add_argument(
        "--command", metavar="COMMAND", help="an evaluator in any language, by its command line"
    )
    parser.add_argument(
        "--seed", type=_integer(0, SEED_MAX), default=0, metavar="N", help="seed of every draw"
    )
    parser.add_argument(
        "--jobs",
        type=_integer(1, JOBS_MAX),
        default=os.cpu_count() or 1,
        metavar="N",
        help="processes to use (default: the cores)",
    )
    parser.add_argument("--json", action="store_true", help="print the report as JSON")


def run(arguments: argparse.Namespace) -> int:
    """Run the stages, write the report, say where it is; return the exit status."""
    check_extras("assess", "verify", "bench", "report")
    from loopcore.cli.assess_stages import Assessing
    from loopcore.reporting import report as reporting

    folder = Path(arguments.out)
    work = Assessing(
        folder=folder,
        command=_command(arguments),
        logs=tuple(arguments.logs),
        profile=arguments.profile,
        target=arguments.target,
        target_command=arguments.command,
        seed=arguments.seed,
        jobs=arguments.jobs,
    )
    work.run()
    if work.interrupted:
        _ignore_interrupts()
    try:
        built = reporting.build(work.results())
        page = reporting.write(built, folder)
    except KeyboardInterrupt:
        work.interrupted = True
        _ignore_interrupts()
        built = reporting.build(work.results())
        page = reporting.write(built, folder)
    if arguments.json:
        sys.stdout.write(reporting.as_json(built).decode())
    else:
        print(_summary(built, page))
    for problem in work.problems:
        complain(problem)
    if work.interrupted:
        complain("interrupted; the report shows what was finished")
        return EXIT_INTERRUPTED
    return EXIT_INPUT if work.problems else EXITS[built.outcome]


def _ignore_interrupts() -> None:
    """Let the report of an interrupted assessment be written whole, which takes seconds."""
    import signal
    import threading

    if threading.current_thread() is threading.main_thread():
        signal.signal(signal.SIGINT, signal.SIG_IGN)


def _integer(least: int, most: int) -> Callable[[str], int]:
    """Return a parser of integers in a range, for an option."""

    def parse(text: str) -> int:
        try:
            return integer("this option", text, least, most)
        except UsageError as error:
            raise argparse.ArgumentTypeError(str(error)) from None

    return parse


def _command(arguments: argparse.Namespace) -> str:
    """Return the command line that makes the same assessment again."""
    words = ["loopcore", "assess", *arguments.logs, "--profile", arguments.profile]
    if arguments.target is not None:
        words += ["--target", arguments.target]
    if arguments.command is not None:
        words += ["--command", arguments.command]
    words += ["--seed", str(arguments.seed)]
    return shlex.join(words)


def _summary(report: Report, page: Path) -> str:
    """Return the verdict, what it rests on, and where the report is: a few plain lines."""
    lines = [report.verdict]
    if report.incomplete is not None:
        lines.append(f"incomplete: {report.incomplete}")
    lines.append("completion: identity only")
    wanted = ("Covered", "Not covered")
    lines += [
        f"{fact.label.lower()}: {' '.join(fact.sentences)}"
        for fact in report.facts
        if fact.label in wanted
    ]
    lines.append(f"report: {page}")
    return "\n".join(lines).encode("utf-8", "backslashreplace").decode()
