"""One run of `loopcore mutate`: the trace cases, then the implementation mutants; events out.

Theory of operation: the trace cases are judged here, in this process. Then the judges are shown
sound on the unchanged evaluator, and every chosen mutant gets a process of its own. Outcomes are
kept in `FOLDER/progress.jsonl` as they come, so a run that is interrupted returns what it has and
the next one goes on. Nothing is printed here.

Source: spec verification, section 3.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from time import monotonic

from loopcore import __version__
from loopcore.errors import UsageError
from loopcore.mutation.cases import TraceCase, judge_trace_case, load_trace_cases
from loopcore.mutation.generated import generate_mutants
from loopcore.mutation.implementation import Progress, check_judges, judge_mutants
from loopcore.mutation.judging import CONTROL_COLUMNS, JUDGES
from loopcore.mutation.mutants import Mutant, load_control_mutants, load_mutants
from loopcore.results import MutantResult, MutateResult, TraceCaseResult

QUICK_MUTANTS = 12
QUICK_CONTROL_MUTANTS = 4
# Measuring memory takes longer than a quick run should.
_SLOW_KILLER = "C08"


@dataclass(frozen=True, slots=True, kw_only=True)
class Event:
    """How far a run has come; `name` is what was finished last."""

    name: str
    done: int
    total: int


OnEvent = Callable[[Event], None]


@dataclass(frozen=True, slots=True, kw_only=True)
class Plan:
    """What a run holds to account; `subset` says in words what is left out, or is None."""

    cases: tuple[TraceCase, ...]
    mutants: tuple[Mutant, ...]
    subset: str | None


def make_plan(
    *,
    quick: bool = False,
    generated: bool = False,
    seed: int = 0,
    only: Sequence[str] = (),
    extra: Sequence[Mutant] = (),
) -> Plan:
    """Return what is to be run; raise UsageError for an unknown id, DataError for bad data.

    Arguments:
        quick: all trace cases and a sample of the hand-written mutants, drawn from the seed.
        generated: the mutants of tables and function bodies alone.
        only: ids of trace cases and mutants to run alone.
        extra: further mutants, as a user's own or a test's.
    """
    cases = load_trace_cases()
    made = generate_mutants()
    mutants = (*load_mutants(), *load_control_mutants(), *made, *extra)
    if generated:
        words = f"subset: the {len(made)} generated mutants alone"
        return Plan(cases=(), mutants=(*made, *extra), subset=words)
    if only:
        known = {case.id for case in cases} | {mutant.id for mutant in mutants}
        for name in only:
            if name not in known:
                raise UsageError(f"there is no trace case and no mutant {name!r}")
        cases = tuple(case for case in cases if case.id in only)
        mutants = tuple(mutant for mutant in mutants if mutant.id in only)
        named = f"subset: only {', '.join(only)}"
        return Plan(cases=cases, mutants=mutants, subset=named)
    if quick:
        draw = random.Random(seed)
        chosen: list[Mutant] = []
        able = 0
        for written, count in (
            (load_mutants(), QUICK_MUTANTS),
            (load_control_mutants(), QUICK_CONTROL_MUTANTS),
        ):
            fit = [x for x in written if x.equivalent is None and x.killer != _SLOW_KILLER]
            chosen += draw.sample(fit, count)
            able += len(fit)
        words = (
            f"subset: all trace cases, and {len(chosen)} of {len(mutants)} mutants, drawn with "
            f"seed {seed} from {able} hand-written ones: {QUICK_MUTANTS} of the evaluator, "
            f"{QUICK_CONTROL_MUTANTS} of controllers"
        )
        return Plan(cases=cases, mutants=(*chosen, *extra), subset=words)
    return Plan(cases=cases, mutants=mutants, subset=None)


def run(
    folder: Path,
    plan: Plan | None = None,
    *,
    jobs: int = 1,
    on_event: OnEvent = lambda event: None,
) -> MutateResult:
    """Return the outcome of a plan (everything unless given), also when it was interrupted.

    Arguments:
        folder: where `progress.jsonl` is kept; jobs: mutants judged at a time.

    Raises UnsoundJudgeError when a judge refuses the unchanged evaluator.
    """
    plan = make_plan() if plan is None else plan
    rows: list[TraceCaseResult] = []
    outcomes: dict[str, MutantResult] = {}
    interrupted = False
    started, resumed = monotonic(), 0
    total = len(plan.cases) + len(plan.mutants)
    try:
        for case in plan.cases:
            rows.append(judge_trace_case(case))
            on_event(Event(name=case.id, done=len(rows), total=total))
        for judges, is_control in ((JUDGES, False), (CONTROL_COLUMNS, True)):
            mutants = [each for each in plan.mutants if each.is_control is is_control]
            if not mutants:
                continue
            check_judges(judges)
            progress = Progress(folder / "progress.jsonl", judges)
            resumed += sum(progress.find(each) is not None for each in mutants)
            for mutant, result in judge_mutants(mutants, judges, progress, jobs=jobs):
                outcomes[mutant.id] = result
                done = len(rows) + len(outcomes)
                on_event(Event(name=mutant.id, done=done, total=total))
    except KeyboardInterrupt:
        interrupted = True
    return MutateResult(
        loopcore_version=__version__,
        subset=plan.subset,
        trace_cases=tuple(rows),
        mutants=tuple(outcomes[each.id] for each in plan.mutants if each.id in outcomes),
        properties=(*JUDGES, *CONTROL_COLUMNS),
        interrupted=interrupted,
        seconds=round(monotonic() - started, 3),
        resumed=resumed,
    )


def is_clean(result: MutateResult) -> bool:
    """Return whether every case agreed, every mutant was killed, and the others rightly live.

    An equivalent mutant that something kills refutes its argument, which is a fault of the suite.
    """
    agreed = all(row.agreed for row in result.trace_cases)
    return agreed and all(
        each.verdict in ("killed", "equivalent") and each.refuted is None for each in result.mutants
    )
