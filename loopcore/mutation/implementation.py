"""The engine of implementation mutants: each in a process of its own, judged in bounded time.

Theory of operation: a mutant is judged by a child process that plants it, checks that it is what
runs, and answers a JSON line a judge. What has been answered when the time is up stands, and a
mutant that hangs is killed by E15. Hand-written mutants are held to every judge, which gives the
kill matrix; generated ones until the first kill. A generated one that no judge kills, and for which
no argument says why, is then searched for by the properties themselves. The unchanged evaluator
comes first: a judge that refuses it would kill anything.

Outcomes are kept in a file by a digest of everything that they depend on, so that a run that was
interrupted goes on where it stopped. Source files are only read.

Source: spec verification, section 3.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import FIRST_COMPLETED, Future, ThreadPoolExecutor, wait
from hashlib import sha256
from pathlib import Path
from queue import SimpleQueue
from typing import Literal, cast

import msgspec

import loopcore
from loopcore.errors import LoopcoreError
from loopcore.mutation.mutants import (
    AGREEMENT,
    DOORS,
    TOTALITY,
    VECTORS,
    Mutant,
    mutated_source,
)
from loopcore.mutation.nursery import Nursery
from loopcore.mutation.values import Record, record
from loopcore.results import MutantResult
from loopcore.suite import suite_folder

# How long the child of one mutant may run, its start included.
CHILD_SECONDS_MAX = 60.0
# How long the properties may search for what no saved case has shown of a generated mutant.
HUNT_SECONDS_MAX = 300.0
# Where the first kill is all that counts, these come first, and these last: they take longest.
_QUICK_JUDGES = (AGREEMENT, DOORS)
_SLOW_JUDGES = (VECTORS, "E01", "C01", "C07", "C09", "C08")
Fate = Literal["killed", "survived", "equivalent", "broken"]


class UnsoundJudgeError(LoopcoreError):
    """A judge refuses the unchanged evaluator, or fails: its kills would say nothing."""


class Answered(msgspec.Struct, frozen=True, kw_only=True):
    """What the child of one mutant answered: its judges in order, and how it ended."""

    columns: tuple[Record, ...]
    broken: str | None = None
    timed_out: bool = False


def judge_source(
    module: str | None,
    source: str | None,
    judges: Sequence[str],
    *,
    first_only: bool = False,
    seconds: float = CHILD_SECONDS_MAX,
    nursery: Nursery | None = None,
) -> Answered:
    """Return what the judges say of a module made from a source; None is the unchanged evaluator.

    Arguments:
        first_only: stop at the first kill; seconds: how long the child may take.
        nursery: where the child is made; a new one unless given.
    """
    if nursery is None:
        with Nursery() as own:
            return judge_source(
                module, source, judges, first_only=first_only, seconds=seconds, nursery=own
            )
    job: Record = {
        "module": module,
        "source": source,
        "judges": list(judges),
        "first_only": first_only,
    }
    lines, timed_out, complaint = nursery.run("judge", job, seconds)
    columns = tuple(line for line in lines if "judge" in line)
    told = next((str(line["broken"]) for line in lines if "broken" in line), None)
    if told is None and not timed_out and not any("done" in line for line in lines):
        stopped = first_only and any(column["killed_by"] is not None for column in columns)
        told = None if stopped else f"the process ended early: {complaint}"
    return Answered(columns=columns, broken=told, timed_out=timed_out)


def order_of_judges(mutant: Mutant, judges: Sequence[str]) -> list[str]:
    """Return the judges with the one that is expected to kill the mutant first.

    For a generated mutant quick judges come before slow ones.
    """

    def cost(name: str) -> int:
        if name == mutant.killer:
            return -2
        if not mutant.is_generated:
            return 0
        if name in _QUICK_JUDGES:
            return -1
        return 1 + _SLOW_JUDGES.index(name) if name in _SLOW_JUDGES else 0

    return sorted(judges, key=cost)


def judge_mutant(
    mutant: Mutant,
    judges: Sequence[str],
    seconds: float = CHILD_SECONDS_MAX,
    nursery: Nursery | None = None,
) -> MutantResult:
    """Return what became of a mutant; raise DataError when its text does not stand there once."""
    answered = judge_source(
        mutant.module,
        mutated_source(mutant),
        order_of_judges(mutant, judges),
        first_only=mutant.is_generated,
        seconds=seconds,
        nursery=nursery,
    )
    columns = answered.columns
    if _is_unexplained(mutant, answered):
        columns += hunt(mutant, judges, nursery)
    killed_by = {str(each["killed_by"]) for each in columns if each["killed_by"]}
    cases, spent = 0, 0.0
    for column in columns:
        cases += cast("int", column["cases"])
        spent += cast("float", column["seconds"])
        if column["killed_by"] is not None:
            break
    if answered.timed_out:
        killed_by.add(TOTALITY)
        spent = spent if len(killed_by) > 1 else seconds
    names = tuple(name for name in (*judges, TOTALITY) if name in killed_by)
    verdict = _verdict(mutant, names, answered)
    reason = mutant.reason if answered.broken is None else answered.broken
    return MutantResult(
        id=mutant.id,
        module=mutant.module,
        reason=f"{reason}. {mutant.equivalent}" if verdict == "equivalent" else reason,
        verdict=verdict,
        killer=mutant.killer or (names[0] if names else None),
        killed_by=tuple(dict.fromkeys(names)),
        cases=cases,
        seconds=round(spent, 4),
        refuted=mutant.equivalent if names and answered.broken is None else None,
    )


def _is_unexplained(mutant: Mutant, answered: Answered) -> bool:
    """Return whether a generated mutant lives, and nobody has said why it may."""
    lives = all(column["killed_by"] is None for column in answered.columns)
    told = answered.timed_out or answered.broken is not None
    return mutant.body is not None and mutant.equivalent is None and lives and not told


def hunt(
    mutant: Mutant,
    judges: Sequence[str],
    nursery: Nursery | None,
    *,
    profile: str = "quick",
    seconds: float = HUNT_SECONDS_MAX,
) -> tuple[Record, ...]:
    """Return what the properties among the judges find by searching, up to the first finding.

    Arguments: profile, of `verify`, says how far each property searches; seconds, how long all may.
    """
    job: Record = {
        "module": mutant.module,
        "source": mutated_source(mutant),
        "properties": [name for name in judges if name[0] in "EC"],
        "profile": profile,
    }
    if nursery is None:
        with Nursery() as own:
            lines, _, _ = own.run("hunt", job, seconds)
    else:
        lines, _, _ = nursery.run("hunt", job, seconds)
    return tuple(line for line in lines if "judge" in line)


def _verdict(mutant: Mutant, killed_by: tuple[str, ...], answered: Answered) -> Fate:
    """Return the verdict; an equivalent mutant that something kills is killed, and says so."""
    if answered.broken is not None:
        return "broken"
    if killed_by:
        return "killed"
    return "survived" if mutant.equivalent is None else "equivalent"


def check_judges(judges: Sequence[str], seconds: float = CHILD_SECONDS_MAX) -> None:
    """Return only when every judge lets the unchanged evaluator pass.

    Raises UnsoundJudgeError naming the first judge that does not.
    """
    answered = judge_source(None, None, judges, seconds=seconds)
    for column in answered.columns:
        if column["defect"] is not None or column["killed_by"] is not None:
            what = column["defect"] or column["finding"]
            raise UnsoundJudgeError(
                f"{column['judge']} refuses the unchanged evaluator, so its kills say nothing: "
                f"{what}"
            )
    if answered.broken is not None or answered.timed_out:
        raise UnsoundJudgeError(f"the judges did not finish: {answered.broken or 'out of time'}")


def surroundings_digest() -> str:
    """Return a digest of all that a mutant's outcome depends on besides the mutant."""
    package = Path(loopcore.__file__).resolve().parent
    data = suite_folder("mutations")
    files = [
        *sorted(package.glob("*.py")),
        *sorted((package / "control").glob("*.py")),
        *sorted((package / "testing").rglob("*.py")),
        *sorted((package / "mutation").glob("*.py")),
        *sorted((data / "witnesses").glob("*.jsonl")),
        *sorted((data / "control-witnesses").glob("*.jsonl")),
        *sorted((data / "vectors").glob("*.jsonl")),
        *sorted(data.glob("*.json*")),
    ]
    hasher = sha256()
    for file in files:
        # The mutants themselves stand in each outcome's own key.
        if file.name not in ("evaluator.json", "control.json", "generated.json"):
            hasher.update(sha256(file.read_bytes()).digest())
    return hasher.hexdigest()


class Progress:
    """Outcomes so far, in a file of lines that each say what they depend on."""

    def __init__(self, path: Path, judges: Sequence[str]) -> None:
        self._path = path
        self._around = surroundings_digest() + "," + ",".join(judges)
        self._known: dict[str, MutantResult] = {}
        if path.is_file():
            for line in path.read_bytes().splitlines():
                try:
                    item = record(json.loads(line))
                    result = msgspec.convert(item["result"], MutantResult)
                    self._known[str(item["key"])] = result
                except (ValueError, KeyError, LoopcoreError):
                    continue  # a line that an interruption cut holds no outcome

    def key(self, mutant: Mutant) -> str:
        """Return the digest of everything that the outcome of a mutant depends on."""
        return sha256(self._around.encode() + msgspec.json.encode(mutant)).hexdigest()

    def find(self, mutant: Mutant) -> MutantResult | None:
        """Return the outcome of an earlier run, if everything is as it was then."""
        return self._known.get(self.key(mutant))

    def keep(self, mutant: Mutant, result: MutantResult) -> None:
        """Add an outcome to the file."""
        self._path.parent.mkdir(parents=True, exist_ok=True)
        line = {"key": self.key(mutant), "result": msgspec.to_builtins(result)}
        with self._path.open("ab") as file:
            file.write(json.dumps(line).encode() + b"\n")


def judge_mutants(
    mutants: Sequence[Mutant],
    judges: Sequence[str],
    progress: Progress,
    *,
    jobs: int = 1,
    on_result: Callable[[MutantResult], None] = lambda result: None,
) -> Iterator[tuple[Mutant, MutantResult]]:
    """Yield each mutant with its outcome as soon as it is known, those of earlier runs first.

    Arguments:
        jobs: children that run at a time.

    When the caller stops asking, no further child is started and the running ones end.
    """
    new: list[Mutant] = []
    for mutant in mutants:
        known = progress.find(mutant)
        if known is None:
            new.append(mutant)
        else:
            on_result(known)
            yield mutant, known
    pool = ThreadPoolExecutor(max_workers=jobs)
    nurseries = [Nursery() for _ in range(jobs)]
    free: SimpleQueue[Nursery] = SimpleQueue()
    for nursery in nurseries:
        free.put(nursery)

    def judge_one(mutant: Mutant) -> MutantResult:
        nursery = free.get()
        try:
            return judge_mutant(mutant, judges, nursery=nursery)
        finally:
            free.put(nursery)

    try:
        running: dict[Future[MutantResult], Mutant] = {}
        waiting = iter(new)
        while True:
            for mutant in waiting:
                running[pool.submit(judge_one, mutant)] = mutant
                if len(running) >= jobs:
                    break
            if not running:
                return
            done, _ = wait(running, return_when=FIRST_COMPLETED)
            for future in done:
                mutant = running.pop(future)
                result = future.result()
                progress.keep(mutant, result)
                on_result(result)
                yield mutant, result
    finally:
        # Whoever stops asking does not wait for what is still being judged.
        pool.shutdown(wait=False, cancel_futures=True)
        for nursery in nurseries:
            nursery.close()
        pool.shutdown(wait=True)
