"""`loopcore audit`: at which turn each controller would have stopped recorded runs.

Without LOGS the shipped samples are audited, so that the command works with nothing else on the
machine. Exit status 0 when every file was read, 2 when a file is bad or nothing could be read (the
others are audited and written), 130 when interrupted, with the sets so far written.

Source: spec control, section 5.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Sequence
from pathlib import Path

import msgspec

from loopcore.cli import EXIT_INTERRUPTED, complain
from loopcore.cli.extras import check_extras
from loopcore.cli.import_ import exit_status
from loopcore.cli.options import SEED_MAX, integer, share
from loopcore.cli.progress import file_progress, printable
from loopcore.comparison.audit import AuditResult, SetResult, audit_sets, conclude
from loopcore.comparison.tables import markdown
from loopcore.comparison.tuning_results import Tuned
from loopcore.comparison.tuning_tables import markdown as tuned
from loopcore.files import write_whole
from loopcore.recordings.load import load, samples
from loopcore.recordings.model import Run

HELP = "Compare controllers on recorded agent runs: false stops, saved steps and cost."
RESULT_FILE, TABLES_FILE = "audit.json", "audit.md"


def configure(parser: argparse.ArgumentParser) -> None:
    """Add the command's arguments."""
    parser.add_argument(
        "logs", metavar="LOG", nargs="*", help="log files or folders (default: shipped samples)"
    )
    parser.add_argument("--out", metavar="DIR", help=f"write {RESULT_FILE} and {TABLES_FILE} there")
    parser.add_argument("--json", action="store_true", help="print the result as JSON")
    parser.add_argument("--seed", default="0", metavar="N", help="seed of every draw (default: 0)")
    parser.add_argument(
        "--shell-progress",
        action="store_true",
        help="mini-swe-agent: take new file-changing commands as progress (a heuristic)",
    )
    parser.add_argument(
        "--tune",
        metavar="CEILING",
        help="search level D's thresholds: the greatest share of good tasks that may be stopped",
    )


def run(arguments: argparse.Namespace) -> int:
    """Audit the logs, print and write the tables; return the exit status."""
    seed = integer("--seed", arguments.seed, 0, SEED_MAX)
    ceiling = None if arguments.tune is None else share("--tune", arguments.tune)
    if ceiling is not None:
        check_extras("--tune", "bench")
    with file_progress("reading") as on_file:
        loaded = load(
            arguments.logs or [samples()],
            shell_progress=arguments.shell_progress,
            on_file=on_file,
        )
    finished: list[SetResult] = []
    settings: list[Tuned] = []
    interrupted = False
    try:
        with file_progress("replaying") as on_run:
            for one in audit_sets(loaded, seed=seed, on_run=on_run):
                finished.append(one)
        if ceiling is not None:
            for name, runs in loaded.sets():
                settings.append(_tune(name, runs, ceiling, seed))
    except KeyboardInterrupt:
        interrupted = True
    result = conclude(
        loaded,
        finished,
        seed=seed,
        complete=not interrupted,
        authored=not arguments.logs,
        tuned=settings,
    )
    _show(result, arguments.out, as_json=arguments.json)
    if interrupted:
        complain("interrupted; the sets above are finished")
        return EXIT_INTERRUPTED
    if not arguments.logs:
        complain("no LOG was named: these are the shipped samples, which prove nothing")
    return exit_status(loaded)


def _tune(name: str, runs: Sequence[Run], ceiling: float, seed: int) -> Tuned:
    from loopcore.comparison.tuning import tune
    from loopcore.comparison.tuning_sources import from_runs

    return tune(name, from_runs(runs), ceiling, seed)


def _show(result: AuditResult, folder: str | None, *, as_json: bool) -> None:
    whole = "\n\n".join(part for part in (markdown(result).rstrip(), tuned(result.tuned)) if part)
    text = f"{printable(whole)}\n"
    document = msgspec.json.encode(printable(msgspec.to_builtins(result))).decode() + "\n"
    if folder is not None:
        write_whole(Path(folder) / RESULT_FILE, document.encode())
        write_whole(Path(folder) / TABLES_FILE, text.encode())
    sys.stdout.write(document if as_json else text)
