"""Every contestant on every set of recorded runs, each set on its own.

Theory of operation: each run is replayed under each contestant. On the successes false stops are
counted, by the part of the controller that spoke; on the failures the steps and the cost after the
stop are summed, for failures at the set's own cap apart, since those are not known to fail beyond
it. Rates carry exact intervals on tasks, shares a bootstrap over tasks, the same resamples for
every contestant. Nothing pools sets, and a set with fewer than 30 successful tasks is marked small.

Source: spec control, sections 3 and 5.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence

import msgspec

from loopcore.comparison.cap import CapResult, cap_over_splits
from loopcore.comparison.contestants import PAIRS, TOTAL_3, contestants
from loopcore.comparison.intervals import Interval, Rate, Resampling, rate
from loopcore.comparison.replay import Contestant, Stop, is_blind, replay, with_fingerprints
from loopcore.comparison.tuning_results import Tuned
from loopcore.recordings.model import Listed, Loaded, Problem, Run, is_call

SCHEMA = "loopcore/audit/1"
# What kind of work a format records; the report's first fact is about coding.
KINDS = {
    "InterCode": "coding",
    "mini-swe-agent 1": "coding",
    "mini-swe-agent 1.1": "coding",
    "tau-bench": "support",
    "tau2": "support",
    "WebShop": "shopping",
}
OTHER_KIND = "other"
CODING = "coding"


class Saved(msgspec.Struct, frozen=True, kw_only=True):
    """Steps and cost after the stop on failed runs.

    Fields: runs and how many of them were stopped; dispatched actions saved and in all, with the
    share and its bootstrap interval over tasks; the cost of those runs whose cost is known, and
    how many these are. A None is unknown.
    """

    runs: int
    stopped: int
    steps_saved: int
    steps: int
    share: float | None
    interval: Interval | None
    cost_known_runs: int
    cost_saved_microunits: int | None
    cost_microunits: int | None


class Row(msgspec.Struct, frozen=True, kw_only=True):
    """One contestant on one set.

    Fields: false stops in all and by detectors, budgets and gates; what was saved on all failures,
    on those that ended before the set's own cap, and on the censored ones at it; how often each
    reason stopped a run, successes and failures apart; runs that it is blind on.
    """

    contestant: str
    phase: str
    false_stops: Rate
    false_stops_by_detectors: int
    false_stops_by_budgets: int
    false_stops_by_gates: int
    saved: Saved
    saved_by_detectors: int
    saved_by_budgets: int
    saved_ended: Saved
    saved_censored: Saved
    reasons_on_successes: dict[str, int]
    reasons_on_failures: dict[str, int]
    blind_runs: int


class Difference(msgspec.Struct, frozen=True, kw_only=True):
    """The first contestant's saved share minus the second's on the same runs, with its interval."""

    first: str
    second: str
    false_stops: int
    saved_share: float
    interval: Interval


class SetResult(msgspec.Struct, frozen=True, kw_only=True):
    """Everything about one set; `unknown` runs have no recorded outcome and take no part."""

    name: str
    kind: str
    runs: int
    successes: int
    failures: int
    unknown: int
    censored: int
    tasks: int
    models: tuple[str, ...]
    signals: tuple[str, ...]
    cost_known_runs: int
    progress_unknown_runs: int
    steps: int
    warnings: dict[str, int]
    rows: tuple[Row, ...]
    differences: tuple[Difference, ...]
    cap: CapResult


class FirstFact(msgspec.Struct, frozen=True, kw_only=True):
    """On a coding set: how many successes "the same call three times anywhere" stops."""

    set: str
    stopped: Rate
    sentence: str


class AuditResult(msgspec.Struct, frozen=True, kw_only=True):
    """The whole audit.

    Fields:
        complete: False when it was interrupted.
        authored: the runs are samples that loopcore's authors wrote, so no evidence about agents.
        tuned: thresholds searched under a ceiling on false stops, a set each, where asked for.
    """

    schema: str
    complete: bool
    seed: int
    first_fact: tuple[FirstFact, ...]
    sets: tuple[SetResult, ...]
    listed: tuple[Listed, ...]
    problems: tuple[Problem, ...]
    authored: bool = False
    tuned: tuple[Tuned, ...] = ()


def audit_sets(
    loaded: Loaded,
    *,
    seed: int = 0,
    on_run: Callable[[int, int], None] | None = None,
) -> Iterator[SetResult]:
    """Yield the result of each set as soon as it is done, by name.

    Arguments: seed of every draw; on_run is called with runs done and runs in all.
    """
    done = 0
    for name, runs in loaded.sets():
        stops: dict[str, list[Stop]] = {contestant.name: [] for contestant in contestants()}
        for run in runs:
            ready = with_fingerprints(run)
            for contestant in contestants():
                stops[contestant.name].append(replay(ready, contestant))
            done += 1
            if on_run is not None:
                on_run(done, len(loaded.runs))
        yield _set_result(name, runs, stops, seed)


def conclude(
    loaded: Loaded,
    sets: Iterable[SetResult],
    *,
    seed: int = 0,
    complete: bool = True,
    authored: bool = False,
    tuned: Iterable[Tuned] = (),
) -> AuditResult:
    """Return the audit's result from the sets that are done."""
    finished = tuple(sets)
    return AuditResult(
        schema=SCHEMA,
        complete=complete,
        authored=authored,
        seed=seed,
        first_fact=tuple(_first_fact(one) for one in finished if one.kind == CODING),
        sets=finished,
        listed=loaded.listed,
        problems=loaded.problems,
        tuned=tuple(tuned),
    )


def audit(loaded: Loaded, *, seed: int = 0) -> AuditResult:
    """Return the audit of all sets."""
    return conclude(loaded, audit_sets(loaded, seed=seed), seed=seed)


def _first_fact(one: SetResult) -> FirstFact:
    stopped = next(row for row in one.rows if row.contestant == TOTAL_3).false_stops
    bounds = "no interval"
    if stopped.interval is not None:
        bounds = f"{100 * stopped.interval.low:.1f} % to {100 * stopped.interval.high:.1f} %"
    small = "; fewer than 30 tasks: unknown" if stopped.small else ""
    return FirstFact(
        set=one.name,
        stopped=stopped,
        sentence=(
            f'{one.name}: "the same call three times anywhere" stops {stopped.hits} of'
            f" {stopped.n} successful runs ({stopped.tasks_hit} of {stopped.tasks} tasks, 95 %"
            f" interval {bounds}{small})."
        ),
    )


def _set_result(
    name: str, runs: Sequence[Run], stops: dict[str, list[Stop]], seed: int
) -> SetResult:
    failed = [index for index, run in enumerate(runs) if run.success is False]
    tasks = sorted({runs[index].task for index in failed})
    resampling = Resampling(len(tasks), seed=seed) if tasks else None
    by_name = {contestant.name: contestant for contestant in contestants()}
    rows = tuple(
        _row(by_name[contestant], runs, found, tasks, resampling)
        for contestant, found in stops.items()
    )
    return SetResult(
        name=name,
        kind=KINDS.get(name, OTHER_KIND),
        runs=len(runs),
        successes=sum(run.success is True for run in runs),
        failures=len(failed),
        unknown=sum(run.success is None for run in runs),
        censored=sum(run.censored for run in runs),
        tasks=len({run.task for run in runs}),
        models=tuple(sorted({run.model for run in runs if run.model is not None})),
        signals=tuple(sorted({run.signal for run in runs})),
        cost_known_runs=sum(run.cost_known for run in runs),
        progress_unknown_runs=sum(map(is_blind, runs)),
        steps=sum(is_call(seen) for run in runs for seen in run.observations),
        warnings=dict(Counter(warning for run in runs for warning in run.warnings)),
        rows=rows,
        differences=_differences(rows, stops, failed, tasks, resampling),
        cap=cap_over_splits(runs, seed=seed),
    )


def _row(
    contestant: Contestant,
    runs: Sequence[Run],
    stops: Sequence[Stop],
    tasks: Sequence[str],
    resampling: Resampling | None,
) -> Row:
    good = [stop for run, stop in zip(runs, stops, strict=True) if run.success]
    bad = [(run, stop) for run, stop in zip(runs, stops, strict=True) if run.success is False]
    failed = [stop for _, stop in bad]
    causes = Counter(stop.cause for stop in good if stop.stopped)
    return Row(
        contestant=contestant.name,
        phase=contestant.phase,
        false_stops=rate([(stop.task, stop.stopped) for stop in good]),
        false_stops_by_detectors=causes["detector"],
        false_stops_by_budgets=causes["budget"],
        false_stops_by_gates=causes["gate"] + causes["finish"],
        saved=_saved(failed, _interval(failed, tasks, resampling)),
        saved_by_detectors=sum(s.steps_saved for s in failed if s.cause == "detector"),
        saved_by_budgets=sum(s.steps_saved for s in failed if s.cause == "budget"),
        saved_ended=_saved([stop for run, stop in bad if not run.censored], None),
        saved_censored=_saved([stop for run, stop in bad if run.censored], None),
        reasons_on_successes=dict(Counter(s.reason for s in good if s.reason is not None)),
        reasons_on_failures=dict(Counter(s.reason for s in failed if s.reason is not None)),
        blind_runs=sum(stop.blind for stop in stops),
    )


def _saved(stops: Sequence[Stop], interval: Interval | None) -> Saved:
    steps, saved = sum(s.steps for s in stops), sum(s.steps_saved for s in stops)
    spent = [s.cost_microunits for s in stops if s.cost_microunits is not None]
    spared = [
        s.cost_saved_microunits
        for s in stops
        if s.cost_microunits is not None and s.cost_saved_microunits is not None
    ]
    return Saved(
        runs=len(stops),
        stopped=sum(stop.stopped for stop in stops),
        steps_saved=saved,
        steps=steps,
        share=saved / steps if steps else None,
        interval=interval,
        cost_known_runs=len(spent),
        cost_saved_microunits=sum(spared) if spent else None,
        cost_microunits=sum(spent) if spent else None,
    )


def _per_task(stops: Sequence[Stop], tasks: Sequence[str]) -> tuple[list[int], list[int]]:
    """Return the steps saved and all steps, each by task."""
    saved: Counter[str] = Counter()
    steps: Counter[str] = Counter()
    for stop in stops:
        saved[stop.task] += stop.steps_saved
        steps[stop.task] += stop.steps
    return [saved[task] for task in tasks], [steps[task] for task in tasks]


def _interval(
    failed: Sequence[Stop], tasks: Sequence[str], resampling: Resampling | None
) -> Interval | None:
    return None if resampling is None else resampling.share(*_per_task(failed, tasks))


def _differences(
    rows: Sequence[Row],
    stops: dict[str, list[Stop]],
    failed: Sequence[int],
    tasks: Sequence[str],
    resampling: Resampling | None,
) -> tuple[Difference, ...]:
    if resampling is None:
        return ()
    hits = {row.contestant: row.false_stops.hits for row in rows}
    found: list[Difference] = []
    for first, second in PAIRS:
        mine, steps = _per_task([stops[first][index] for index in failed], tasks)
        theirs, _ = _per_task([stops[second][index] for index in failed], tasks)
        found.append(
            Difference(
                first=first,
                second=second,
                false_stops=hits[first] - hits[second],
                saved_share=(sum(mine) - sum(theirs)) / sum(steps),
                interval=resampling.difference(mine, theirs, steps),
            )
        )
    return tuple(found)
