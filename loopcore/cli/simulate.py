"""`loopcore simulate`: runs of the live runner under drawn faults, rules checked at every event.

    loopcore simulate --seed N                       replays one run: options, moves, verdict
    loopcore simulate --runs N [--seed FIRST]        sweeps over N seeds from FIRST (default 0)
    loopcore simulate --explore                      every interleaving within small bounds

Exit status 0 when every rule held; 1 otherwise, with the smallest failing seed or the shortest way
there; 2 for bad usage; 3 when an exploration was not complete; 130 when interrupted, with what is
finished so far written.

Source: spec runtime, section 9; spec verification, section 4.
"""

from __future__ import annotations

import argparse
import os
import sys
from pathlib import Path
from typing import TYPE_CHECKING, cast

from loopcore.cli import EXIT_INTERRUPTED, EXIT_OK, EXIT_UNKNOWN, EXIT_WANTING, complain
from loopcore.cli.options import JOBS_MAX, SEED_MAX, integer
from loopcore.cli.progress import file_progress
from loopcore.errors import UsageError
from loopcore.files import DEFAULT_FOLDER, write_whole

if TYPE_CHECKING:
    from loopcore.testing.exploration import Exploration
    from loopcore.testing.simulation import Options, Outcome, SweepResult

HELP = "Run the live runner under drawn faults; find the smallest seed that breaks a rule."

RUNS_MAX = 10_000_000
_SHOWN_MAX = 5


def configure(parser: argparse.ArgumentParser) -> None:
    """Add the command's arguments."""
    parser.add_argument("--seed", metavar="N", help="the run to replay; with --runs: the first")
    parser.add_argument("--runs", metavar="N", help="sweep over so many seeds")
    parser.add_argument(
        "--explore",
        action="store_true",
        help="search every interleaving of two workers within small bounds",
    )
    parser.add_argument("--jobs", metavar="N", help="processes of a sweep (default: the cores)")
    parser.add_argument("--out", metavar="DIR", default=DEFAULT_FOLDER, help="where results go")
    parser.add_argument("--json", action="store_true", help="print the result as JSON")


def run(arguments: argparse.Namespace) -> int:
    """Simulate, write and print; return the exit status."""
    if arguments.explore:
        if any(each is not None for each in (arguments.seed, arguments.runs, arguments.jobs)):
            raise UsageError("--explore draws nothing; no seed, runs or jobs go with it")
        return _explore(Path(arguments.out) / "simulate", as_json=arguments.json)
    if arguments.seed is None and arguments.runs is None:
        raise UsageError("give --seed N to replay a run, --runs N to sweep, or --explore")
    seed = integer("--seed", arguments.seed or "0", 0, SEED_MAX)
    folder = Path(arguments.out) / "simulate"
    if arguments.runs is None:
        if arguments.jobs is not None:
            raise UsageError("--jobs goes with --runs; one run is one process")
        return _replay(seed, folder, as_json=arguments.json)
    runs = integer("--runs", arguments.runs, 1, RUNS_MAX)
    integer("--seed plus --runs", str(seed + runs), 0, SEED_MAX)
    cores = str(os.cpu_count() or 1)
    jobs = integer("--jobs", cores if arguments.jobs is None else arguments.jobs, 1, JOBS_MAX)
    return _sweep(seed, runs, jobs, folder, as_json=arguments.json)


def _replay(seed: int, folder: Path, *, as_json: bool) -> int:
    """Play one run with notes; write and print everything about it."""
    import msgspec

    from loopcore.testing.simulation import Simulation

    write_whole(folder / "replay.json", b"")
    simulation = Simulation(seed, keeps=True)
    outcome = simulation.run()
    moves = simulation.tape.lines
    document = {
        "schema": "loopcore/simulation-replay/1",
        "options": simulation.options,
        "moves": moves,
        "outcome": outcome,
    }
    data = msgspec.json.encode(document)
    write_whole(folder / "replay.json", msgspec.json.format(data, indent=1) + b"\n")
    if as_json:
        sys.stdout.write(data.decode() + "\n")
    else:
        lines = [*_options(simulation.options), "", *moves, "", *_verdict(outcome)]
        print("\n".join([*lines, f"written to {folder}"]))
    return EXIT_OK if outcome.verdict == "held" else EXIT_WANTING


def _options(options: Options) -> list[str]:
    """Return every drawn option, one a line."""
    import msgspec

    lines = [f"seed {options.seed}"]
    for name in options.__struct_fields__[1:]:
        value: object = getattr(options, name)
        if name == "tools":
            lines += [f"  tool {_compact(msgspec.to_builtins(tool))}" for tool in options.tools]
        elif name == "envelope":
            lines.append(f"  rules {_compact(msgspec.to_builtins(options.envelope.rules))}")
            lines += [
                f"  grant {_compact(msgspec.to_builtins(grant))}"
                for grant in options.envelope.grants
            ]
        else:
            lines.append(f"  {name} {_compact(msgspec.to_builtins(value))}")
    return lines


def _compact(value: object) -> str:
    """Return a JSON value as `name=value …` where it has members, without what is off."""
    if not isinstance(value, dict):
        return str(value)
    shown: list[str] = []
    for name, member in cast("dict[str, object]", value).items():
        if member not in (None, False, 0.0):
            text = _compact(member)
            shown.append(f"{name}={text if text == str(member) else f'({text})'}")
    return " ".join(shown)


def _verdict(outcome: Outcome) -> list[str]:
    lines = [
        f"{outcome.verdict}: {outcome.rule or 'R01 to R12'}: {outcome.reason}",
        f"terminal {outcome.terminal}, {outcome.events} events, {outcome.crossings} crossings, "
        f"{outcome.effects} effects, {outcome.ticks} ticks",
    ]
    struck = ", ".join(f"{name} {count}" for name, count in outcome.faults.items() if count)
    return [*lines, f"faults: {struck or 'none'}", f"journals {outcome.journals_sha256}"]


def _sweep(seed: int, runs: int, jobs: int, folder: Path, *, as_json: bool) -> int:
    """Play many runs; write and print what became of them."""
    import msgspec

    from loopcore.results import write_result
    from loopcore.testing.simulation import sweep

    # A place that cannot be written is found before the work, not after it.
    write_whole(folder / "result.json", b"")
    with file_progress("simulating") as on_progress:
        result = sweep(seed, runs, jobs=jobs, on_progress=on_progress)
    write_result(folder / "result.json", result)
    if as_json:
        sys.stdout.write(msgspec.json.encode(result).decode() + "\n")
    else:
        print("\n".join([*_summary(result), f"written to {folder}"]))
    if result.interrupted:
        complain(f"interrupted after {result.runs} runs; they are written")
        return EXIT_INTERRUPTED
    return EXIT_WANTING if result.broken else EXIT_OK


def _explore(folder: Path, *, as_json: bool) -> int:
    """Search, then look whether a planted fault is found; write and print both."""
    import msgspec

    from loopcore.testing.exploration import explore

    write_whole(folder / "exploration.json", b"")
    planted = explore(planted="no fence")
    result = explore()
    document = {
        "schema": "loopcore/exploration-result/1",
        "exploration": result,
        "planted": planted,
    }
    data = msgspec.json.encode(document)
    write_whole(folder / "exploration.json", msgspec.json.format(data, indent=1) + b"\n")
    if as_json:
        sys.stdout.write(data.decode() + "\n")
    else:
        print("\n".join([*_explored(result, planted), f"written to {folder}"]))
    if result.finding is not None:
        return EXIT_WANTING
    return EXIT_OK if result.complete and planted.finding is not None else EXIT_UNKNOWN


def _explored(result: Exploration, planted: Exploration) -> list[str]:
    end = "complete" if result.complete else "not complete"
    lines = [f"{end}: {result.states:,} states, {result.transitions:,} transitions"]
    lines.append(f"with a terminal {result.ended:,}; no lease may expire any more {result.stuck:,}")
    for what, each in (("BROKEN", result), ("planted fault", planted)):
        if each.finding is not None:
            lines += [f"{what}: {each.finding}", *(f"    {move}" for move in each.moves)]
    if planted.finding is None:
        lines.append("planted fault: not found")
    return lines


def _summary(result: SweepResult) -> list[str]:
    last = result.first_seed + result.runs - 1
    lines = [
        f"runs      {result.runs:,} (seeds {result.first_seed} to {last}), {result.broken} broken",
        f"events    {result.events:,} in journals, {result.crossings:,} crossings of the boundary, "
        f"{result.effects:,} effects",
        f"faults    {_counted(result.faults)}",
        f"terminals {_counted(result.terminals)}",
    ]
    for outcome in result.first_broken[:_SHOWN_MAX]:
        lines.append(f"BROKEN    seed {outcome.seed}: {outcome.rule}: {outcome.reason}")
    if result.broken:
        smallest = result.first_broken[0].seed
        lines.append(f"replay the smallest with: loopcore simulate --seed {smallest}")
    return lines


def _counted(counts: dict[str, int]) -> str:
    return ", ".join(f"{name} {count:,}" for name, count in counts.items())
