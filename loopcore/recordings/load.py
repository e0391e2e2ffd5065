"""Paths become runs: each file's format is found by its content, and no file loses another.

Theory of operation: files are named or found by walking folders. Each is read on its own; what is
wrong with it becomes a `Problem`, what is of no use a `Listed`. Reports of outcomes are kept apart
and joined at the end to the trajectories of the same instance, the report that stands nearest in
the folders first.

Source: spec control, section 5.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from pathlib import Path

import msgspec

from loopcore.errors import InputError, UsageError
from loopcore.recordings import (
    intercode,
    mini_swe_agent,
    observation_log,
    tau2,
    tau_bench,
    webshop,
)
from loopcore.recordings.building import Imported
from loopcore.recordings.mini_swe_agent import Outcome
from loopcore.recordings.model import Listed, Loaded, Problem, Run
from loopcore.recordings.nodes import Node, malformed
from loopcore.recordings.reading import decode_text, parse_json, read_bytes

FILES_MAX = 100_000
SUFFIXES = (".json", ".jsonl", ".ipynb")
COMPANIONS = frozenset({"preds.json"})
OBSERVATION_LOG = "loopcore"
WITHOUT_REPORT = "no report among the named paths tells its outcome"


@dataclass(frozen=True, slots=True, kw_only=True)
class Format:
    """A format: its outline and its reader."""

    matches: Callable[[Node], bool]
    read: Callable[[Node], Imported]


FORMATS: dict[str, Format] = {
    "tau-bench": Format(matches=tau_bench.matches, read=tau_bench.read),
    "tau2": Format(matches=tau2.matches, read=tau2.read),
    "webshop": Format(matches=webshop.matches, read=webshop.read),
    "intercode": Format(matches=intercode.matches, read=intercode.read),
    "mini-swe-agent": Format(matches=mini_swe_agent.matches, read=mini_swe_agent.read),
}
FORMAT_NAMES = (*FORMATS, OBSERVATION_LOG)


@dataclass(slots=True)
class _Harvest:
    """What the files gave so far."""

    runs: list[Run] = field(default_factory=list[Run])
    listed: list[Listed] = field(default_factory=list[Listed])
    problems: list[Problem] = field(default_factory=list[Problem])
    outcomes: dict[str, list[Outcome]] = field(default_factory=dict[str, list[Outcome]])


def load(
    paths: Iterable[str | os.PathLike[str]],
    format: str | None = None,
    *,
    shell_progress: bool = False,
    on_file: Callable[[int, int], None] | None = None,
) -> Loaded:
    """Return every run of these files and folders, what was listed, and what was wrong.

    Arguments:
        paths: files and folders; folders are walked, without following links.
        format: one of `FORMAT_NAMES`, taken for every file; None finds it by content.
        shell_progress: use the declared heuristic of mini-swe-agent for progress.
        on_file: called with the number of files done and of all files.
    Errors: UsageError for an unknown format. Bad files raise nothing; they are `problems`.
    """
    if format is not None and format not in FORMAT_NAMES:
        raise UsageError(f"unknown format {format!r}; known are {', '.join(FORMAT_NAMES)}")
    harvest = _Harvest()
    files = _files(paths, harvest)
    for number, (file, named) in enumerate(files.items()):
        try:
            _read(file, format, named, shell_progress, harvest)
        except InputError as error:
            harvest.problems.append(_problem(file, error))
        except RecursionError:
            # Comparing two copies of a value recurses as deep as the value is nested.
            deep = malformed(file, "$", "is nested too deeply")
            harvest.problems.append(_problem(file, deep))
        if on_file is not None:
            on_file(number + 1, len(files))
    runs = [_judged(run, harvest.outcomes) for run in harvest.runs]
    return Loaded(
        runs=tuple(_with_own_names(runs)),
        listed=tuple(harvest.listed),
        problems=tuple(harvest.problems),
    )


def _problem(file: str, error: InputError) -> Problem:
    return Problem(source=file, code=error.code, place=error.path or file, message=error.message)


def _files(paths: Iterable[str | os.PathLike[str]], harvest: _Harvest) -> dict[str, bool]:
    """Return the files to read, each once, with whether it was named rather than found."""
    files: dict[str, bool] = {}
    known: set[str] = set()
    for path in paths:
        name = os.fspath(path)
        if os.path.isdir(name):
            for file in _walk(name, harvest):
                if os.path.realpath(file) not in known:
                    known.add(os.path.realpath(file))
                    files[file] = False
        elif "\0" in name or os.path.realpath(name) not in known:
            known.add("" if "\0" in name else os.path.realpath(name))
            files[name] = True
    return files


def _walk(folder: str, harvest: _Harvest) -> list[str]:
    """Return the log files below a folder, in order; other files are listed."""

    def complain(error: OSError) -> None:
        place = str(error.filename)
        message = f"{place}: cannot be read ({error.strerror})"
        harvest.problems.append(
            Problem(source=place, code="unreadable", place=place, message=message)
        )

    found: list[str] = []
    for root, folders, names in os.walk(folder, onerror=complain):
        folders.sort()
        for name in sorted(names):
            file = os.path.join(root, name)
            if name.lower().endswith(SUFFIXES):
                found.append(file)
            else:
                harvest.listed.append(
                    Listed(source=file, item=name, reason="not a log by its name")
                )
        if len(found) > FILES_MAX:
            raise UsageError(f"{folder}: holds more than {FILES_MAX} log files")
    return found


def _read(
    file: str, format: str | None, named: bool, shell_progress: bool, harvest: _Harvest
) -> None:
    """Read one file into the harvest."""
    data = read_bytes(file)
    lines = file.lower().endswith(".jsonl") or observation_log.matches_text(data)
    if format == OBSERVATION_LOG or (format is None and lines):
        imported = observation_log.read_log(data, file)
    else:
        root = parse_json(decode_text(data, file), file)
        if format is None and mini_swe_agent.is_report(root):
            _keep_outcomes(root, harvest)
            return
        name = format or _detect(root)
        if name is None:
            if named and Path(file).name not in COMPANIONS:
                known = ", ".join(FORMAT_NAMES)
                raise malformed(file, "$", f"has none of the known formats ({known})")
            harvest.listed.append(Listed(source=file, item=file, reason="no known format"))
            return
        if name == "mini-swe-agent":
            imported = mini_swe_agent.read(root, shell_progress=shell_progress)
        else:
            imported = FORMATS[name].read(root)
    harvest.runs.extend(imported.runs)
    harvest.listed.extend(imported.listed)


def _detect(root: Node) -> str | None:
    """Return the name of the first format whose outline the document has."""
    return next((name for name, form in FORMATS.items() if form.matches(root)), None)


def _keep_outcomes(root: Node, harvest: _Harvest) -> None:
    for outcome in mini_swe_agent.outcomes(root, Path(root.file).resolve().parent.name):
        harvest.outcomes.setdefault(outcome.instance, []).append(outcome)


def _closeness(outcome: Outcome, run: Run) -> int:
    """Return how many folders the report and the trajectory share."""
    report, source = Path(outcome.source).resolve().parts, Path(run.source).resolve().parts
    shared = 0
    for mine, theirs in zip(report, source, strict=False):
        if mine != theirs:
            break
        shared += 1
    return shared


def _judged(run: Run, outcomes: dict[str, list[Outcome]]) -> Run:
    """Return the run with the outcome that the nearest report gives it."""
    if run.format not in mini_swe_agent.SETS or run.success is not None:
        return run
    candidates = outcomes.get(run.run_id, [])
    if not candidates and WITHOUT_REPORT in run.warnings:
        return run
    if not candidates:
        return msgspec.structs.replace(run, warnings=(*run.warnings, WITHOUT_REPORT))
    nearest = max(_closeness(outcome, run) for outcome in candidates)
    said = [outcome for outcome in candidates if _closeness(outcome, run) == nearest]
    if len({outcome.resolved for outcome in said}) > 1:
        contradiction = "reports at the same distance contradict each other"
        return msgspec.structs.replace(run, warnings=(*run.warnings, contradiction))
    return msgspec.structs.replace(
        run,
        success=said[0].resolved,
        outcome=f"{run.outcome}, {said[0].words}",
        censored=run.censored and not said[0].resolved,
    )


def _with_own_names(runs: list[Run]) -> list[Run]:
    """Return the runs, each with a name of its own within its set."""
    taken: dict[tuple[str, str], int] = {}
    renamed: list[Run] = []
    for run in runs:
        count = taken[run.set, run.run_id] = taken.get((run.set, run.run_id), 0) + 1
        name = run.run_id if count == 1 else f"{run.run_id}#{count}"
        renamed.append(msgspec.structs.replace(run, run_id=name))
    return renamed


def samples() -> Path:
    """Return the folder of the samples that are shipped: small runs of our own in every format."""
    return Path(__file__).parent / "samples"
