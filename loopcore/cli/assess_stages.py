"""The stages of an assessment, each keeping its result on the disk before the next begins.

Theory of operation: a stage is a function that writes one result file. An interruption ends the
stages; a fault of the environment or of an input ends its own stage alone and is remembered. The
old result files are taken away at the start, so that no folder ever mixes two assessments, and the
report that stands there from before is left whole until the new one takes its place.
"""

from __future__ import annotations

import platform
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, TypeVar

import msgspec

from loopcore import __version__
from loopcore.cli import bench
from loopcore.cli.progress import file_progress, printable
from loopcore.comparison.audit import AuditResult, SetResult, audit_sets, conclude
from loopcore.comparison.bench import JOURNAL_FILE, default_settings, result_of, swept_in
from loopcore.comparison.bench_results import BenchResult
from loopcore.comparison.sweep_journal import Line
from loopcore.errors import LoopcoreError
from loopcore.files import write_whole
from loopcore.mutation.engine import Event as MutateEvent
from loopcore.mutation.engine import make_plan
from loopcore.mutation.engine import run as mutate
from loopcore.recordings.load import load, samples
from loopcore.reporting.inputs import (
    ASSESSMENT_FILE,
    Assessment,
    Results,
    Stage,
    StageState,
)
from loopcore.results import MutateResult, VerifyResult, read_result
from loopcore.suite import TargetSpec, open_target
from loopcore.testing.checks import CATALOGUE
from loopcore.testing.profiles import find_profile
from loopcore.verification.engine import Event, Finished
from loopcore.verification.engine import run as verify
from loopcore.verification.junit import junit
from loopcore.verification.rerun import write_counterexample

if TYPE_CHECKING:
    from loopcore.testing.contract import EvaluatorTarget

T = TypeVar("T", bound=msgspec.Struct)

VERIFY_FILE = "verify/result.json"
MUTATE_FILE = "mutate/result.json"
AUDIT_FILE = "audit/audit.json"
SAMPLES_FILE = "samples/audit.json"
BENCH_FILE = f"{bench.FOLDER}/{bench.RESULT_FILE}"
# Tasks an application of the worlds, step-wise and columnar, by profile.
BENCH_TASKS = {"quick": (50, 2_000), "default": (500, 20_000), "thorough": (2_000, 100_000)}
# The profile under which a sample of the planted faults is enough.
QUICK = "quick"
# Packages that take part in the figures, as their versions stand in the report.
NAMED_PACKAGES = ("msgspec", "hypothesis", "matplotlib", "jinja2")


@dataclass(slots=True, kw_only=True)
class Assessing:
    """One assessment: what was asked, how far it came, what went wrong with its inputs."""

    folder: Path
    command: str
    logs: tuple[str, ...]
    profile: str
    target: str | None
    target_command: str | None
    seed: int
    jobs: int
    problems: list[str] = field(default_factory=list[str])
    interrupted: bool = False
    stages: dict[str, Stage] = field(default_factory=dict[str, Stage])

    def run(self) -> None:
        """Run every stage, or those before an interruption; results and states are on the disk.

        Raises UsageError when the target cannot be opened, before anything is changed.
        """
        spec = TargetSpec(name=self.target, command=self.target_command)
        target = open_target(spec)
        try:
            self._begin()
            for name, stage in self._work(target).items():
                self._stage(name, stage)
                if self.interrupted:
                    break
        except KeyboardInterrupt:
            # Between two stages: what is written stands, the rest was not run.
            self.interrupted = True
        finally:
            target.close()

    def results(self) -> Results:
        """Return the results of the stages as they stand on the disk."""
        verified = self._result("verify", VerifyResult)
        mutated = self._result("mutate", MutateResult)
        audit = self._result("compare", AuditResult)
        own = self._result("samples", AuditResult)
        return Results(
            verify=verified,
            mutate=mutated,
            audits=() if audit is None else (audit,),
            samples=own,
            bench=self._result("bench", BenchResult),
            assessment=read_result(self.folder / ASSESSMENT_FILE, Assessment),
        )

    def _result(self, name: str, kind: type[T]) -> T | None:
        """Return the result that a stage of this assessment wrote, None where it wrote none."""
        stage = self.stages.get(name)
        if stage is None or not (self.folder / stage.file).is_file():
            return None
        return read_result(self.folder / stage.file, kind)

    def _work(self, target: EvaluatorTarget) -> dict[str, Callable[[], bool]]:
        """Return the stages in their order; each says whether it came to its end."""
        work: dict[str, Callable[[], bool]] = {
            "verify": lambda: self._verify(target),
            "mutate": self._mutate,
        }
        work["bench"] = self._bench
        if self.logs:
            work["compare"] = lambda: self._compare(self.logs, AUDIT_FILE)
        own = (str(samples()),)
        work["samples"] = lambda: self._compare(own, SAMPLES_FILE, authored=True)
        return work

    def _begin(self) -> None:
        files = {
            "verify": VERIFY_FILE,
            "mutate": MUTATE_FILE,
            "bench": BENCH_FILE,
            "compare": AUDIT_FILE,
            "samples": SAMPLES_FILE,
        }
        for name, file in files.items():
            if name != "compare" or self.logs:
                self.stages[name] = Stage(name=name, file=file, state="not run")
        self._save()
        for file in files.values():
            (self.folder / file).unlink(missing_ok=True)

    def _stage(self, name: str, stage: Callable[[], bool]) -> None:
        """Run one stage and write down how it ended."""
        state: StageState = "done"
        reason: str | None = None
        try:
            if not stage():
                state, self.interrupted = "interrupted", True
        except KeyboardInterrupt:
            state, self.interrupted = "interrupted", True
        except LoopcoreError as error:
            state, reason = "failed", str(error)
            self.problems.append(f"{name}: {error}")
        self.stages[name] = msgspec.structs.replace(self.stages[name], state=state, reason=reason)
        self._save()

    def _save(self) -> None:
        spec = TargetSpec(name=self.target, command=self.target_command)
        self._write(
            ASSESSMENT_FILE,
            Assessment(
                loopcore_version=__version__,
                command=self.command,
                folder=str(self.folder),
                target=spec.words(),
                logs=self.logs,
                stages=tuple(self.stages.values()),
                versions=_versions(),
            ),
        )

    def _write(self, file: str, result: msgspec.Struct) -> None:
        data = msgspec.json.encode(printable(msgspec.to_builtins(result)))
        write_whole(self.folder / file, msgspec.json.format(data, indent=1) + b"\n")

    def _verify(self, target: EvaluatorTarget) -> bool:
        with file_progress("verify") as advance:

            def show(event: Event) -> None:
                if advance is not None and isinstance(event, Finished):
                    advance(event.done, event.total)

            verified = verify(
                target,
                CATALOGUE,
                find_profile(self.profile),
                seed=self.seed,
                jobs=self.jobs,
                on_event=show,
            )
        place = self.folder / "verify"
        for name, counterexample in verified.counterexamples.items():
            write_counterexample(place / "counterexamples" / name, counterexample)
        write_whole(place / "junit.xml", junit(verified.result))
        self._write(VERIFY_FILE, verified.result)
        return not verified.result.interrupted

    def _mutate(self) -> bool:
        plan = make_plan(quick=self.profile == QUICK, seed=self.seed)
        with file_progress("mutate") as advance:

            def show(event: MutateEvent) -> None:
                if advance is not None:
                    advance(event.done, event.total)

            mutated = mutate(self.folder / "mutate", plan, jobs=self.jobs, on_event=show)
        self._write(MUTATE_FILE, mutated)
        return not mutated.interrupted

    def _bench(self) -> bool:
        """Compare the levels on worlds with known truth; what was finished is written."""
        stepwise, columnar = BENCH_TASKS[self.profile]
        settings = default_settings(seed=self.seed, stepwise=stepwise, columnar=columnar)
        folder = self.folder / bench.FOLDER
        with file_progress("bench") as advance:

            def show(done: int, whole: int, _: Line) -> None:
                if advance is not None:
                    advance(done, whole)

            swept, _ = swept_in(folder, settings, jobs=self.jobs, on_chunk=show)
        self._write(BENCH_FILE, result_of(swept))
        if not swept.interrupted:
            (folder / JOURNAL_FILE).unlink(missing_ok=True)
        return not swept.interrupted

    def _compare(self, logs: tuple[str, ...], file: str, *, authored: bool = False) -> bool:
        """Audit the logs; what was finished before an interruption is written."""
        with file_progress("reading logs") as on_file:
            loaded = load(logs, on_file=on_file)
        self.problems += [problem.message for problem in loaded.problems]
        if not loaded.runs:
            self.problems.append(f"no run could be read from {', '.join(logs)}")
        finished: list[SetResult] = []
        complete = False
        try:
            with file_progress("comparing") as on_run:
                for one in audit_sets(loaded, seed=self.seed, on_run=on_run):
                    finished.append(one)
            complete = True
        except KeyboardInterrupt:
            complete = False
        result = conclude(loaded, finished, seed=self.seed, complete=complete, authored=authored)
        self._write(file, result)
        return complete


def _versions() -> dict[str, str]:
    from importlib.metadata import version

    return {"Python": platform.python_version()} | {name: version(name) for name in NAMED_PACKAGES}
