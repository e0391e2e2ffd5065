"""`loopcore verify`: hold an evaluator, a controller or a store to every invariant of its kind.

Exit status 0 all held or not applicable; 1 something broken; 2 could not run; 3 nothing broken but
something unknown or not exercised; 130 interrupted, with the results so far written.

Source: spec verification, section 1.
"""

from __future__ import annotations

import argparse
import os
import sys
from collections.abc import Callable, Generator, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

from loopcore.cli import (
    EXIT_INTERRUPTED,
    EXIT_OK,
    EXIT_UNKNOWN,
    EXIT_WANTING,
    complain,
    proving,
)
from loopcore.cli.extras import check_extras
from loopcore.cli.options import JOBS_MAX, SEED_MAX, integer
from loopcore.errors import EnvironmentFault, UsageError
from loopcore.files import DEFAULT_FOLDER, write_whole

if TYPE_CHECKING:
    from loopcore.results import PropertyResult, VerifyResult
    from loopcore.suite import TargetSpec
    from loopcore.testing.contract import Invariant, T
    from loopcore.testing.kinds import Kind
    from loopcore.testing.profiles import Profile
    from loopcore.verification.engine import Event, Verified
    from loopcore.verification.proofs import ProofResult

HELP = "Hold a target of some kind to every invariant; write OUT/verify/result.json."

KINDS_TO_COME = ("loop",)
# What each verdict makes of the exit status; the highest in EXIT_ORDER wins.
EXITS: dict[str, int] = {
    "held": EXIT_OK,
    "not applicable": EXIT_OK,
    "unknown": EXIT_UNKNOWN,
    "not exercised": EXIT_UNKNOWN,
    "broken": EXIT_WANTING,
}
EXIT_ORDER = (EXIT_OK, EXIT_UNKNOWN, EXIT_WANTING)
_REASON_CHARACTERS_MAX = 400


def configure(parser: argparse.ArgumentParser) -> None:
    """Add the command's arguments."""
    parser.add_argument(
        "target",
        metavar="TARGET",
        nargs="?",
        help="a Python evaluator, package.module:object; a controller, package.module:factory or a "
        "level by its name, such as D or consecutive-3; a store, package.module:factory or memory, "
        "sqlite, postgres (default: loopcore's own)",
    )
    parser.add_argument(
        "--command", metavar="COMMAND", help="a target in any language, by its command line"
    )
    parser.add_argument(
        "--kind",
        default="evaluator",
        help="what TARGET is: evaluator (default), controller or store",
    )
    parser.add_argument(
        "--profile", default="default", help="quick, default or thorough (50, 500, 5000 examples)"
    )
    parser.add_argument("--seed", default="0", metavar="N", help="seed of every draw (default: 0)")
    parser.add_argument("--jobs", metavar="N", help="processes to use (default: the cores)")
    parser.add_argument("--only", metavar="E01,E06", help="run these properties alone")
    parser.add_argument("--rerun", metavar="FILE", help="judge a saved counterexample again")
    parser.add_argument(
        "--prove",
        metavar="KINDS",
        nargs="?",
        const=proving.ALL_KINDS,
        help="also prove loopcore's own evaluator right: symbolic, finite, concolic, small-scope "
        "(default: all, some minutes)",
    )
    parser.add_argument("--out", metavar="DIR", default=DEFAULT_FOLDER, help="where results go")
    parser.add_argument("--json", action="store_true", help="print the result as JSON")


def run(arguments: argparse.Namespace) -> int:
    """Verify or rerun, write and print the results; return the exit status."""
    kinds = "verify takes evaluators, controllers and stores"
    if arguments.kind in KINDS_TO_COME:
        raise UsageError(f"--kind {arguments.kind} is not there yet: {kinds}")
    if arguments.kind not in ("evaluator", "controller", "store"):
        raise UsageError(f"there is no kind {arguments.kind!r} of target; {kinds}")
    check_extras("verify", "verify")
    from loopcore.testing.kinds import CONTROLLERS, EVALUATORS, STORES

    if arguments.kind == CONTROLLERS.name:
        return _run(CONTROLLERS, arguments)
    if arguments.kind == STORES.name:
        return _run(STORES, arguments)
    return _run(EVALUATORS, arguments)


def _run(kind: Kind[T], arguments: argparse.Namespace) -> int:
    """Verify or rerun a target of this kind; return the exit status."""
    seed = integer("--seed", arguments.seed, 0, SEED_MAX)
    cores = str(os.cpu_count() or 1)
    jobs = integer("--jobs", cores if arguments.jobs is None else arguments.jobs, 1, JOBS_MAX)
    from loopcore.suite import TargetSpec
    from loopcore.testing.profiles import find_profile

    properties = _chosen(arguments.only, kind.catalogue())
    profile = find_profile(arguments.profile)
    spec = TargetSpec(name=arguments.target, command=arguments.command, kind=kind.name)
    proofs: ProofResult | None = None
    kinds = None if arguments.prove is None else proving.chosen_kinds(arguments.prove)
    if kinds is not None and (spec.words() or arguments.rerun is not None):
        raise UsageError("--prove is about loopcore's own evaluator; name no other target")
    if arguments.rerun is not None:
        return _rerun(Path(arguments.rerun), spec, kind, as_json=arguments.json)
    folder = _prepared(Path(arguments.out) / "verify")
    _keep_hypothesis_in(folder)
    verified = _verified(kind, spec, properties, profile, seed=seed, jobs=jobs)
    if kinds is not None and not verified.result.interrupted:
        proofs = proving.prove(kinds, folder, jobs)
        verified = replace(verified, result=proving.supported(verified.result, proofs))
    _write(folder, verified)
    if arguments.json:
        sys.stdout.write(_json(verified.result))
    else:
        print(_table(verified, folder, spec))
        if proofs is not None:
            print("\n".join(proving.lines(proofs)))
    if verified.result.interrupted or (proofs is not None and proofs.interrupted):
        complain("interrupted; what stands above is finished")
        return EXIT_INTERRUPTED
    status = exit_status(verified.result.properties)
    return (
        status if proofs is None else max(status, proving.exit_status(proofs), key=EXIT_ORDER.index)
    )


def _verified(
    kind: Kind[T],
    spec: TargetSpec,
    properties: Sequence[Invariant[T]],
    profile: Profile,
    *,
    seed: int,
    jobs: int,
) -> Verified:
    """Return the verdicts on the target of a specification, which is closed again."""
    from loopcore.verification.engine import run as verify

    target = kind.open(spec)
    try:
        with _progress(len(properties)) as on_event:
            return verify(
                target,
                properties,
                profile,
                kind=kind.name,
                seed=seed,
                jobs=jobs,
                on_event=on_event,
            )
    finally:
        target.close()


def exit_status(results: Sequence[PropertyResult]) -> int:
    """Return the exit status of finished results."""
    return max((EXITS[each.verdict] for each in results), key=EXIT_ORDER.index, default=EXIT_OK)


def _chosen(only: str | None, catalogue: Sequence[Invariant[T]]) -> tuple[Invariant[T], ...]:
    """Return the properties that were asked for, in the order of the catalogue."""
    if only is None:
        return tuple(catalogue)
    ids = [word.strip() for word in only.split(",")]
    known = [each.id for each in catalogue]
    for word in ids:
        if word not in known:
            raise UsageError(f"there is no property {word!r}; there are {', '.join(known)}")
    return tuple(each for each in catalogue if each.id in ids)


def _prepared(folder: Path) -> Path:
    """Return the folder after making it, so that a long run does not end without a place."""
    try:
        (folder / "counterexamples").mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise EnvironmentFault(f"cannot write {folder}: {error.strerror or error}") from None
    if not os.access(folder / "counterexamples", os.W_OK) or not os.access(folder, os.W_OK):
        raise EnvironmentFault(f"cannot write {folder}: permission denied")
    return folder


def _keep_hypothesis_in(folder: Path) -> None:
    """Let Hypothesis keep its tables in the output folder, not in the user's own."""
    os.environ.setdefault("HYPOTHESIS_STORAGE_DIRECTORY", str((folder / ".hypothesis").resolve()))


def _write(folder: Path, verified: Verified) -> None:
    """Write the counterexamples, then the results that name them."""
    from loopcore.results import write_result
    from loopcore.verification.junit import junit
    from loopcore.verification.rerun import write_counterexample

    for name, counterexample in verified.counterexamples.items():
        write_counterexample(folder / "counterexamples" / name, counterexample)
    write_result(folder / "result.json", verified.result)
    write_whole(folder / "junit.xml", junit(verified.result))


def _json(result: VerifyResult) -> str:
    import msgspec

    return msgspec.json.encode(result).decode() + "\n"


def _table(verified: Verified, folder: Path, spec: TargetSpec) -> str:
    """Return the table, the findings with their reproductions, and what was reached."""
    result = verified.result
    target = result.target
    width = max((len(each.name) for each in result.properties), default=0)
    lines = [
        f"target   {target.name} {target.version} ({', '.join(target.releases)}; {target.wire})",
        f"profile  {result.profile}, seed {result.seed}",
        "",
    ]
    for each in result.properties:
        lines.append(
            f"{each.id}  {each.name:<{width}}  {each.verdict:<14}  "
            f"{each.examples:>6} examples  {each.seconds:>6.1f} s"
        )
        if each.reason is not None and each.verdict != "held":
            lines += [f"     {line}" for line in each.reason[:_REASON_CHARACTERS_MAX].splitlines()]
        if each.counterexample is not None:
            words = spec.words() + (" " if spec.words() else "")
            file = folder / "counterexamples" / each.counterexample
            lines.append(f"     reproduce: loopcore verify {words}--rerun {file}")
    lines += ["", *_reached(result.coverage), *(f"note: {note}" for note in verified.notes)]
    counts = [
        f"{sum(each.verdict == verdict for each in result.properties)} {verdict}"
        for verdict in EXITS
        if any(each.verdict == verdict for each in result.properties)
    ]
    lines += [", ".join(counts) or "no property was finished", f"written to {folder}"]
    return "\n".join(lines).encode("utf-8", "backslashreplace").decode()


def _reached(coverage: dict[str, dict[str, int]]) -> Iterator[str]:
    """Yield a line for each kind of thing that the generated cases can reach."""
    for kind, names in coverage.items():
        reached = sum(times > 0 for times in names.values())
        least = min(names, key=lambda name: names[name])
        yield f"reached  {kind}: {reached} of {len(names)} (least often {least}: {names[least]})"


def _rerun(path: Path, spec: TargetSpec, kind: Kind[T], *, as_json: bool) -> int:
    """Judge a saved case again; return the exit status."""
    from loopcore.verification.rerun import read_counterexample, rerun

    counterexample = read_counterexample(path)
    target = kind.open(spec)
    try:
        again = rerun(counterexample, target, kind.catalogue())
    finally:
        target.close()
    if as_json:
        import json

        members = {name: getattr(again, name) for name in type(again).__slots__}
        print(json.dumps(members, sort_keys=True))
    else:
        reason = f": {again.reason}" if again.reason else ""
        text = f"{again.property_id} {again.verdict}{reason}"
        print(text.encode("utf-8", "backslashreplace").decode())
        if again.expected is not None or again.got is not None:
            import json

            print(f"expected {json.dumps(again.expected)}\ngot      {json.dumps(again.got)}")
    return EXITS[again.verdict]


@contextmanager
def _progress(total: int) -> Generator[Callable[[Event], None]]:
    """Yield what takes the engine's events: a bar at a terminal, silence in a pipe."""
    if not sys.stderr.isatty():
        yield lambda event: None
        return
    from rich.console import Console
    from rich.progress import Progress

    from loopcore.verification.engine import Started

    with Progress(console=Console(stderr=True), transient=True) as bar:
        task = bar.add_task("verifying", total=total)

        def show(event: Event) -> None:
            if isinstance(event, Started):
                bar.update(task, description=f"{event.property_id} {event.name}")
            else:
                bar.update(task, completed=event.done)

        yield show
