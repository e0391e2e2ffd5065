"""`loopcore mutate`: show that the invariants catch planted faults.

Without `--vectors`: the trace cases against the reference evaluator, then mutants of it against
every invariant. With it: a target's answers to the conformance vectors.

Exit status 0 when every case agrees and every mutant that is not equivalent is killed; 1 otherwise;
2 for bad usage or data; 130 interrupted, with the results so far written.

Source: spec verification, section 3.
"""

from __future__ import annotations

import argparse
import os
import sys
from collections import Counter
from collections.abc import Callable, Generator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

from loopcore.cli import EXIT_INTERRUPTED, EXIT_OK, EXIT_WANTING, complain
from loopcore.cli.extras import check_extras
from loopcore.cli.options import JOBS_MAX, SEED_MAX, integer
from loopcore.errors import UsageError
from loopcore.files import DEFAULT_FOLDER, write_whole

if TYPE_CHECKING:
    from loopcore.mutation.conformance import VectorResult
    from loopcore.mutation.engine import Event

HELP = "Plant faults in traces and in the evaluator; show which invariant catches each."

_SHOWN_MAX = 10


def configure(parser: argparse.ArgumentParser) -> None:
    """Add the command's arguments."""
    parser.add_argument("target", metavar="TARGET", nargs="?", help="with --vectors: who answers")
    parser.add_argument("--command", metavar="COMMAND", help="with --vectors: its command line")
    parser.add_argument(
        "--vectors", action="store_true", help="put the conformance vectors to a target instead"
    )
    parser.add_argument(
        "--quick", action="store_true", help="all trace cases and some mutants only"
    )
    parser.add_argument(
        "--generated", action="store_true", help="the mutants of tables and function bodies alone"
    )
    parser.add_argument("--only", metavar="ID,…", help="run these trace cases and mutants alone")
    parser.add_argument("--seed", default="0", metavar="N", help="seed of the quick choice")
    parser.add_argument("--jobs", metavar="N", help="mutants at a time (default: the cores)")
    parser.add_argument("--out", metavar="DIR", default=DEFAULT_FOLDER, help="where results go")
    parser.add_argument("--json", action="store_true", help="print the result as JSON")


def run(arguments: argparse.Namespace) -> int:
    """Run, write and print; return the exit status."""
    check_extras("mutate", "verify")
    seed = integer("--seed", arguments.seed, 0, SEED_MAX)
    cores = str(os.cpu_count() or 1)
    jobs = integer("--jobs", cores if arguments.jobs is None else arguments.jobs, 1, JOBS_MAX)
    if arguments.vectors:
        if arguments.quick or arguments.generated or arguments.only is not None:
            raise UsageError("--vectors puts all vectors; no choice of mutants goes with it")
        return _vectors(arguments)
    if arguments.quick + arguments.generated + (arguments.only is not None) > 1:
        raise UsageError("of --quick, --generated and --only one can be given")
    if arguments.target is not None or arguments.command is not None:
        raise UsageError("a target goes with --vectors; mutants are made of loopcore's evaluator")
    from loopcore.mutation.engine import is_clean, make_plan
    from loopcore.mutation.engine import run as mutate
    from loopcore.mutation.summary import lines_of, markdown
    from loopcore.results import write_result

    only = [] if arguments.only is None else [word.strip() for word in arguments.only.split(",")]
    plan = make_plan(quick=arguments.quick, generated=arguments.generated, seed=seed, only=only)
    folder = Path(arguments.out) / "mutate"
    # A place that cannot be written is found before the work, not after it.
    write_whole(folder / "matrix.md", b"")
    with _progress(len(plan.cases) + len(plan.mutants)) as on_event:
        result = mutate(folder, plan, jobs=jobs, on_event=on_event)
    write_result(folder / "result.json", result)
    write_whole(folder / "matrix.md", markdown(result).encode())
    if arguments.json:
        import msgspec

        sys.stdout.write(msgspec.json.encode(result).decode() + "\n")
    else:
        print("\n".join([*lines_of(result), f"written to {folder}"]))
    if result.interrupted:
        complain("interrupted; the outcomes above are finished, and the next run goes on")
        return EXIT_INTERRUPTED
    return EXIT_OK if is_clean(result) else EXIT_WANTING


def _vectors(arguments: argparse.Namespace) -> int:
    """Put the vectors to a target, print the conformance report; return the exit status."""
    from loopcore.mutation.conformance import run_vectors
    from loopcore.suite import TargetSpec, open_target

    target = open_target(TargetSpec(name=arguments.target, command=arguments.command))
    try:
        results = run_vectors(target)
    finally:
        target.close()
    folder = Path(arguments.out) / "mutate"
    import msgspec

    report = msgspec.json.format(msgspec.json.encode(results), indent=1)
    write_whole(folder / "conformance.json", report + b"\n")
    if arguments.json:
        sys.stdout.write(msgspec.json.encode(results).decode() + "\n")
    else:
        lines = [f"target  {target.name} {target.version}", *_report(results)]
        text = "\n".join([*lines, f"written to {folder}"])
        print(text.encode("utf-8", "backslashreplace").decode())
    return EXIT_WANTING if any(each.verdict == "disagreed" for each in results) else EXIT_OK


def _report(results: Sequence[VectorResult]) -> list[str]:
    asked = [each for each in results if each.verdict != "not applicable"]
    wrong = [each for each in asked if each.verdict == "disagreed"]
    lines = [f"vectors {len(asked) - len(wrong)} / {len(asked)} agreed"]
    reasons = Counter(each.reason for each in results if each.verdict == "not applicable")
    lines += [f"        {count} not applicable: {why}" for why, count in reasons.items()]
    for each in wrong[:_SHOWN_MAX]:
        lines += [f"DISAGREES {each.id}: {each.reason}"]
        lines += [f"    expected {each.expected}", f"    got      {each.got}"]
    if len(wrong) > _SHOWN_MAX:
        lines.append(f"    and {len(wrong) - _SHOWN_MAX} more")
    return lines


@contextmanager
def _progress(total: int) -> Generator[Callable[[Event], None]]:
    """Yield what takes the engine's events: a bar at a terminal, silence in a pipe."""
    if not sys.stderr.isatty():
        yield lambda event: None
        return
    from rich.console import Console
    from rich.progress import Progress

    with Progress(console=Console(stderr=True), transient=True) as bar:
        task = bar.add_task("mutating", total=total)
        yield lambda event: bar.update(task, completed=event.done, description=event.name)
