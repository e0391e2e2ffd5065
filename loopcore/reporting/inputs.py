"""A folder of result files becomes typed results, or one sentence says which file is at fault.

Theory of operation: every JSON file below the folder names its schema. Known results are decoded,
files that loopcore writes beside its results are passed over by their schema, and anything else is
refused: a report that leaves out a file in silence would look whole and not be.

The assessment file is written by `loopcore assess`. It says which command ran and
which stages were finished. An audit says itself whether its runs are the shipped samples.
"""

from __future__ import annotations

import json
import os
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

import msgspec

from loopcore.comparison.audit import SCHEMA as AUDIT_SCHEMA
from loopcore.comparison.audit import AuditResult
from loopcore.comparison.bench_results import BenchResult
from loopcore.comparison.intervals import TRIALS_MAX
from loopcore.errors import InputError, UsageError
from loopcore.lab import LabReport
from loopcore.reporting.view import REPORT_SCHEMA
from loopcore.results import MutateResult, VerifyResult, read_result

FILES_MAX = 10_000
FILE_BYTES_MAX = 256 * 1024 * 1024
ASSESSMENT_FILE = "assessment.json"

StageState = Literal["done", "interrupted", "failed", "not run"]


class Stage(msgspec.Struct, frozen=True, kw_only=True):
    """One stage of an assessment: its result file below the folder, and how far it came."""

    name: str
    file: str
    state: StageState
    reason: str | None = None


class Assessment(msgspec.Struct, frozen=True, kw_only=True):
    """What `loopcore assess` was asked and how far it came.

    Fields: the command that repeats it; its output folder; the arguments that name the target;
    logs as they were named; versions of what took part, by name.
    """

    schema: Literal["loopcore/assessment/1"] = "loopcore/assessment/1"
    loopcore_version: str
    command: str
    folder: str
    target: str
    logs: tuple[str, ...]
    stages: tuple[Stage, ...]
    versions: dict[str, str] = {}


@dataclass(frozen=True, slots=True, kw_only=True)
class Results:
    """Whatever results there are; `samples` is the audit of runs that we wrote ourselves."""

    verify: VerifyResult | None = None
    mutate: MutateResult | None = None
    audits: tuple[AuditResult, ...] = ()
    samples: AuditResult | None = None
    bench: BenchResult | None = None
    lab: LabReport | None = None
    assessment: Assessment | None = None


class _Header(msgspec.Struct, frozen=True):
    schema: str


_SCHEMAS = {
    "loopcore/verify-result/1": "verify",
    "loopcore/mutate-result/1": "mutate",
    AUDIT_SCHEMA: "audit",
    "loopcore/bench/1": "bench",
    "loopcore/lab-report/1": "lab",
    "loopcore/assessment/1": "assessment",
}
# Written by loopcore too, but no result that a report shows.
_LEFT_OUT = {"conformance.json"}
_PASSED_OVER = {
    REPORT_SCHEMA,
    "loopcore/counterexample/1",
    "loopcore/exploration-result/1",
    "loopcore/proof-result/1",
    "loopcore/simulation-replay/1",
    "loopcore/simulation-result/1",
}


def read_results(folder: Path) -> Results:
    """Return the results of every file below the folder.

    Errors: UsageError where the folder is missing, holds no result, or holds two of one kind;
    InputError naming the file that does not decode or whose schema is not known.
    """
    if not folder.is_dir():
        raise UsageError(f"{folder}: there is no such folder of result files")
    found: dict[str, list[Path]] = {kind: [] for kind in _SCHEMAS.values()}
    for path in _files(folder):
        kind = _kind(path)
        if kind is not None:
            found[kind].append(path)
    if not any(found.values()):
        raise UsageError(f"{folder}: holds no result file of loopcore")
    for kind, paths in found.items():
        if kind != "audit" and len(paths) > 1:
            raise UsageError(
                f"{paths[0]} and {paths[1]}: two {kind} results; name the folder of one"
            )
    return _read(folder, found)


def _files(folder: Path) -> list[Path]:
    """Return every JSON file below the folder, in order; links to folders are not followed."""
    paths: list[Path] = []
    for root, folders, names in os.walk(folder):
        folders[:] = sorted(name for name in folders if not name.startswith("."))
        paths += [
            Path(root, name)
            for name in sorted(names)
            if name.endswith(".json") and not name.startswith(".") and name not in _LEFT_OUT
        ]
        if len(paths) > FILES_MAX:
            raise UsageError(f"{folder}: holds more than {FILES_MAX} files; name a smaller folder")
    return paths


def _kind(path: Path) -> str | None:
    """Return which result a file holds, None for one that is passed over."""
    try:
        size = path.stat().st_size
    except OSError as error:
        raise InputError("unreadable", f"{path}: {error.strerror}.") from None
    if size > FILE_BYTES_MAX:
        raise InputError("malformed", f"{path}: is larger than a result file may be.", path="$")
    if size == 0:
        raise InputError("malformed", f"{path}: is empty.", path="$")
    schema = _schema(path)
    if schema in _PASSED_OVER:
        return None
    if schema not in _SCHEMAS:
        raise InputError(
            "malformed", f"{path}: its schema {schema!r} is none of a result of loopcore.", path="$"
        )
    return _SCHEMAS[schema]


def _schema(path: Path) -> str:
    """Return what the file says it is; raise InputError naming the file where it says nothing."""
    try:
        return read_result(path, _Header).schema
    except InputError as error:
        # A counterexample may hold texts and integers that only the lenient decoder takes.
        try:
            value: object = json.loads(path.read_bytes())
            schema = msgspec.convert(value, _Header).schema
        except (OSError, ValueError, RecursionError):
            raise error from None
        if schema not in _PASSED_OVER:
            raise
        return schema


def _audit(path: Path) -> AuditResult:
    """Return an audit whose sets can stand side by side; raise InputError naming the file."""
    result = read_result(path, AuditResult)
    contestants = [[(row.contestant, row.phase) for row in one.rows] for one in result.sets]
    for one, names in zip(result.sets, contestants, strict=True):
        if names != contestants[0] or len({name for name, _ in names}) != len(names):
            raise InputError(
                "malformed", f"{path}: the set {one.name!r} has other contestants.", path="$"
            )
        for row in one.rows:
            rate = row.false_stops
            if not 0 <= rate.hits <= rate.n <= TRIALS_MAX:
                reason = f"{row.contestant!r} stops {rate.hits} of {rate.n} runs, which cannot be"
                raise InputError("malformed", f"{path}: {reason}.", path="$")
    return result


def _read(folder: Path, found: dict[str, list[Path]]) -> Results:
    assessment = read_result(found["assessment"][0], Assessment) if found["assessment"] else None
    audits = [_audit(path) for path in found["audit"]]
    return Results(
        verify=read_result(found["verify"][0], VerifyResult) if found["verify"] else None,
        mutate=read_result(found["mutate"][0], MutateResult) if found["mutate"] else None,
        audits=tuple(result for result in audits if not result.authored),
        samples=next((result for result in audits if result.authored), None),
        bench=read_result(found["bench"][0], BenchResult) if found["bench"] else None,
        lab=read_result(found["lab"][0], LabReport) if found["lab"] else None,
        assessment=assessment,
    )
