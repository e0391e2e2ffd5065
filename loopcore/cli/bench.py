"""`loopcore bench`: what every level of control does to worlds whose truth is known.

Writes OUT/bench/bench.json, which holds nothing that was timed, so that the same seed gives the
same bytes whatever the number of jobs, and OUT/bench/bench.md with its tables. Finished chunks are
kept beside them until the result is written: after an interruption the same command goes on.

Exit status 0 when done; 1 when a named figure is worse than the baseline's; 2 for bad usage; 130
when interrupted, with the tables of what is finished, marked so.

Source: spec control, sections 3, 4, 6 and 7.
"""

from __future__ import annotations

import argparse
import os
import sys
import time
from collections.abc import Generator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

import msgspec

from loopcore.cli import EXIT_INTERRUPTED, EXIT_OK, EXIT_WANTING, complain
from loopcore.cli.extras import check_extras
from loopcore.cli.options import JOBS_MAX, SEED_MAX, integer, share
from loopcore.errors import UsageError
from loopcore.files import DEFAULT_FOLDER, write_whole
from loopcore.results import write_result

if TYPE_CHECKING:
    from loopcore.comparison.baselines import Baseline
    from loopcore.comparison.bench_results import BenchResult
    from loopcore.comparison.sweep import OnChunk, Swept
    from loopcore.comparison.sweep_chunks import Settings

HELP = "Compare levels of control on worlds with known truth: false stops, loops, cost."
FOLDER, RESULT_FILE, TABLES_FILE = "bench", "bench.json", "bench.md"

STEPWISE_TASKS, COLUMNAR_TASKS = 500, 20_000
QUICK_STEPWISE_TASKS, QUICK_COLUMNAR_TASKS = 50, 2_000
TASKS_MAX = 10_000_000
STEPWISE_MAX = 100_000
_KIBIBYTES = 1024


def configure(parser: argparse.ArgumentParser) -> None:
    """Add the command's arguments."""
    parser.add_argument(
        "--tasks",
        metavar="N",
        help=f"columnar tasks an application (default: {COLUMNAR_TASKS:,}; 0: none)",
    )
    parser.add_argument(
        "--stepwise",
        metavar="N",
        help=f"step-wise tasks an application (default: {STEPWISE_TASKS}; 0: none)",
    )
    parser.add_argument(
        "--quick",
        action="store_true",
        help=f"{QUICK_STEPWISE_TASKS} step-wise and {QUICK_COLUMNAR_TASKS:,} columnar tasks",
    )
    parser.add_argument(
        "--applications", metavar="A,B", help="these applications alone (default: all six)"
    )
    parser.add_argument("--seed", metavar="N", help="seed of every draw (default: 0)")
    parser.add_argument("--jobs", metavar="N", help="processes to use (default: the cores)")
    parser.add_argument(
        "--cluster", metavar="ADDRESS", help="use the dask cluster whose scheduler is there"
    )
    parser.add_argument("--out", metavar="DIR", default=DEFAULT_FOLDER, help="where results go")
    parser.add_argument("--json", action="store_true", help="print the result as JSON")
    parser.add_argument(
        "--tune",
        metavar="CEILING",
        help="search level D's thresholds: the greatest share of good tasks that may be stopped",
    )
    parser.add_argument("--save", metavar="NAME", help="keep the result as a baseline")
    parser.add_argument(
        "--compare",
        metavar="NAME",
        help="hold the result against a baseline, whose settings are the defaults then",
    )


def run(arguments: argparse.Namespace) -> int:
    """Run the sweep, write and print the tables; return the exit status."""
    check_extras("bench", "bench")
    from loopcore.comparison import baselines
    from loopcore.comparison.bench import JOURNAL_FILE, result_of
    from loopcore.comparison.bench_tables import comparison, markdown

    kept_as: str | None = arguments.save
    against: str = arguments.compare or ""
    if kept_as is not None:
        baselines.checked_name(kept_as)
    baseline = None if arguments.compare is None else baselines.load(against)
    settings = _settings(arguments, baseline)
    ceiling = None if arguments.tune is None else share("--tune", arguments.tune)
    if baseline is not None:
        baselines.check_same_tasks(against, baseline, settings)
    cores = str(os.cpu_count() or 1)
    jobs = integer("--jobs", cores if arguments.jobs is None else arguments.jobs, 1, JOBS_MAX)
    began = time.monotonic()
    folder = Path(arguments.out) / FOLDER
    swept = _swept(settings, folder, jobs, arguments.cluster)
    result = result_of(swept, ceiling=ceiling)
    text = markdown(result)
    status = EXIT_OK
    if baseline is not None and not swept.interrupted:
        findings = list(baselines.compare(baseline, swept))
        timings = list(baselines.compare_timings(baseline, swept))
        text += "\n" + comparison(against, findings, timings)
        if any(one.worse for one in findings) or any(one.worse for one in timings):
            status = EXIT_WANTING
    write_result(folder / RESULT_FILE, result)
    write_whole(folder / TABLES_FILE, text.encode())
    _show(result, text, as_json=arguments.json)
    complain(_cost(swept, jobs, time.monotonic() - began))
    if swept.interrupted:
        complain(
            f"interrupted after {swept.done} of {swept.chunks} chunks; the same command goes on"
        )
        return EXIT_INTERRUPTED
    (folder / JOURNAL_FILE).unlink(missing_ok=True)
    if kept_as is not None:
        complain(f"kept as {baselines.save(kept_as, swept)}")
    return status


def _settings(arguments: argparse.Namespace, baseline: Baseline | None) -> Settings:
    """Return what is to be run: the options, else the baseline's settings, else the defaults."""
    from loopcore.comparison.bench import default_settings
    from loopcore.worlds.model import APPLICATIONS

    quick = arguments.quick
    defaults = default_settings(
        stepwise=QUICK_STEPWISE_TASKS if quick else STEPWISE_TASKS,
        columnar=QUICK_COLUMNAR_TASKS if quick else COLUMNAR_TASKS,
    )
    if baseline is not None:
        kept = baseline.settings
        defaults = msgspec.structs.replace(
            defaults,
            seed=kept.seed,
            applications=kept.applications,
            stepwise=defaults.stepwise if quick else kept.stepwise,
            columnar=defaults.columnar if quick else kept.columnar,
            resamples=kept.resamples,
        )
    changes: dict[str, object] = {}
    if arguments.tasks is not None:
        changes["columnar"] = integer("--tasks", arguments.tasks, 0, TASKS_MAX)
    if arguments.stepwise is not None:
        changes["stepwise"] = integer("--stepwise", arguments.stepwise, 0, STEPWISE_MAX)
    if arguments.seed is not None:
        changes["seed"] = integer("--seed", arguments.seed, 0, SEED_MAX)
    if arguments.applications is not None:
        changes["applications"] = _applications(arguments.applications, APPLICATIONS)
    settings = msgspec.structs.replace(defaults, **changes)
    if settings.stepwise == 0 and settings.columnar == 0:
        raise UsageError("--tasks 0 and --stepwise 0 leave nothing to run")
    return settings


def _applications(text: str, known: tuple[str, ...]) -> tuple[str, ...]:
    """Return the applications that were asked for, in the order of the worlds."""
    words = [word.strip() for word in text.split(",")]
    for word in words:
        if word not in known:
            raise UsageError(f"there is no application {word!a}; there are {', '.join(known)}")
    return tuple(each for each in known if each in words)


def _swept(settings: Settings, folder: Path, jobs: int, cluster: str | None) -> Swept:
    """Return the sweep, finished or interrupted; what is finished is also in the journal."""
    from loopcore.comparison.bench import swept_in

    with _progress() as on_chunk:
        swept, note = swept_in(folder, settings, jobs=jobs, cluster=cluster, on_chunk=on_chunk)
    if note is not None:
        complain(note)
    if swept.resumed:
        complain(f"{swept.resumed} of {swept.chunks} chunks were finished before")
    return swept


def _show(result: BenchResult, text: str, *, as_json: bool) -> None:
    if as_json:
        sys.stdout.write(msgspec.json.encode(result).decode() + "\n")
    else:
        sys.stdout.write(text)


def _cost(swept: Swept, jobs: int, seconds: float) -> str:
    """Return in one line what the sweep took."""
    import resource

    from loopcore.comparison.bench_tables import Cost, cost_line
    from loopcore.comparison.sweep import turns_a_second

    usages = (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN)
    largest = max(resource.getrusage(who).ru_maxrss for who in usages)
    return cost_line(
        Cost(
            jobs=jobs,
            seconds=seconds,
            turns_a_second=turns_a_second(swept),
            memory_mib=largest / _KIBIBYTES,
        )
    )


@contextmanager
def _progress() -> Generator[OnChunk | None]:
    """Yield what takes finished chunks: a bar at a terminal, silence in a pipe."""
    if not sys.stderr.isatty():
        yield None
        return
    from rich.console import Console
    from rich.progress import Progress

    from loopcore.comparison.sweep_journal import Line

    with Progress(console=Console(stderr=True), transient=True) as bar:
        task = bar.add_task("simulating", total=None)

        def show(done: int, whole: int, line: Line) -> None:
            bar.update(task, completed=done, total=whole, description=line.chunk)

        yield show
