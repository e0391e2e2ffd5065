"""`loopcore import`: recorded agent runs become observations, one file a set.

Exit status 0 when every file was read, 2 when a file is bad or nothing could be read (what could be
read is still written), 130 when interrupted, with the sets so far written.

Source: spec control, section 5.
"""

from __future__ import annotations

import argparse
import re
import sys
from pathlib import Path

import msgspec

from loopcore.cli import EXIT_INPUT, EXIT_INTERRUPTED, EXIT_OK, complain
from loopcore.cli.progress import file_progress, printable
from loopcore.files import write_whole
from loopcore.recordings.load import FORMAT_NAMES, load
from loopcore.recordings.model import Loaded, Run
from loopcore.recordings.observation_log import lines

HELP = "Read recorded agent runs and write their observations as JSON lines, one file a set."
SCHEMA = "loopcore/import/1"
_UNSAFE = re.compile(r"[^A-Za-z0-9.]+")


class SetSummary(msgspec.Struct, frozen=True, kw_only=True):
    """One set: its counts and the file that its observations were written to, when they were."""

    name: str
    runs: int
    successes: int
    failures: int
    unknown: int
    observations: int
    file: str | None


def configure(parser: argparse.ArgumentParser) -> None:
    """Add the command's arguments."""
    parser.add_argument("logs", metavar="LOG", nargs="+", help="a log file, or a folder of them")
    parser.add_argument("--out", metavar="DIR", help="write one .jsonl a set into this folder")
    parser.add_argument("--json", action="store_true", help="print the summary as JSON")
    parser.add_argument(
        "--format", choices=FORMAT_NAMES, help="read every file as this (default: by content)"
    )
    parser.add_argument(
        "--shell-progress",
        action="store_true",
        help="mini-swe-agent: take new file-changing commands as progress (a heuristic)",
    )


def run(arguments: argparse.Namespace) -> int:
    """Read the logs and write what they hold; return the exit status."""
    with file_progress("reading") as on_file:
        loaded = load(
            arguments.logs,
            arguments.format,
            shell_progress=arguments.shell_progress,
            on_file=on_file,
        )
    summaries: list[SetSummary] = []
    interrupted = False
    try:
        for name, runs in loaded.sets():
            summaries.append(_summary(name, runs, _write(arguments.out, name, runs)))
    except KeyboardInterrupt:
        interrupted = True
    _print(loaded, summaries, as_json=arguments.json)
    if interrupted:
        complain("interrupted; the sets above are written")
        return EXIT_INTERRUPTED
    return exit_status(loaded)


def exit_status(loaded: Loaded) -> int:
    """Complain about every bad file, and return 2 when there is one or nothing was read."""
    for problem in loaded.problems:
        complain(f"{problem.code}: {problem.message}")
    if not loaded.runs:
        complain("no run could be read")
    return EXIT_INPUT if loaded.problems or not loaded.runs else EXIT_OK


def _write(folder: str | None, name: str, runs: tuple[Run, ...]) -> str | None:
    if folder is None:
        return None
    file = Path(folder) / f"{_UNSAFE.sub('-', name).strip('-.').lower() or 'set'}.jsonl"
    write_whole(file, "".join(lines(runs)).encode("ascii"))
    return str(file)


def _summary(name: str, runs: tuple[Run, ...], file: str | None) -> SetSummary:
    return SetSummary(
        name=name,
        runs=len(runs),
        successes=sum(run.success is True for run in runs),
        failures=sum(run.success is False for run in runs),
        unknown=sum(run.success is None for run in runs),
        observations=sum(len(run.observations) for run in runs),
        file=file,
    )


def _print(loaded: Loaded, summaries: list[SetSummary], *, as_json: bool) -> None:
    if as_json:
        document = {
            "schema": SCHEMA,
            "sets": summaries,
            "listed": loaded.listed,
            "problems": loaded.problems,
        }
        sys.stdout.write(
            msgspec.json.encode(printable(msgspec.to_builtins(document))).decode() + "\n"
        )
        return
    for one in summaries:
        where = "" if one.file is None else f" -> {one.file}"
        print(
            f"{one.name}: {one.runs} runs ({one.successes} verified, {one.failures} failed,"
            f" {one.unknown} unknown), {one.observations} observations{where}"
        )
    if loaded.listed:
        print(f"{len(loaded.listed)} items listed without a run; --json names them")
