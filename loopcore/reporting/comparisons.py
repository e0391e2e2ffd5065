"""The chapters on recorded runs: one a set, never pooled, our own samples apart and labelled.

Theory of operation: a set's chapter states what the set can tell, draws false stops against saved
steps, and shows the tables. The samples get the same chapter under a note that they prove nothing.

Source: spec control, sections 3 and 5.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence

from loopcore.comparison.audit import AuditResult, SetResult
from loopcore.comparison.cap import Spread
from loopcore.comparison.intervals import UNITS_MIN, Interval
from loopcore.reporting.comparison_tables import (
    CAP,
    against,
    against_in_words,
    differences,
    false_stops,
    few_successes,
    naive,
    reasons,
    savings,
)
from loopcore.reporting.tuned import tuned
from loopcore.reporting.view import UNKNOWN, Bar, Plot, PlotRow, Section, grouped, listing, plural

LISTED_MAX = 50


def recordings(audits: Sequence[AuditResult]) -> tuple[Section, ...]:
    """Return the chapter on the recorded runs that were given, a part for each set."""
    problems = [
        f"{problem.source}: {problem.message}" for one in audits for problem in one.problems
    ]
    listed = Counter(item.reason for one in audits for item in one.listed)
    sentences = [
        "At which turn would each contestant have stopped these runs? On a run that verified, any"
        " stop before its end is a false stop; on a run that failed, what came after the stop is"
        " saved. No figure pools sets.",
        *(fact.sentence for one in audits for fact in one.first_fact),
    ]
    if problems:
        sentences.append(f"Not read: {listing(problems, LISTED_MAX)}.")
    if listed:
        reasons_found = [f"{reason} ({times})" for reason, times in sorted(listed.items())]
        sentences.append(f"Without a run: {listing(reasons_found, LISTED_MAX)}.")
    cut = any(not one.complete for one in audits)
    head = Section(
        id="recordings",
        title="Recorded runs",
        note="Interrupted: only the sets below were finished." if cut else None,
        sentences=tuple(sentences),
        tables=naive([one for audit in audits for one in audit.sets], "recordings"),
    )
    sets = [one for audit in audits for one in audit.sets]
    searches = [one for audit in audits for one in audit.tuned]
    chapters = [chapter(one, f"set-{number}") for number, one in enumerate(sets)]
    return (head, *chapters, *tuned(searches, "set-tuned"))


def authored(samples: AuditResult) -> tuple[Section, ...]:
    """Return the chapter on the shipped samples, labelled as our own throughout."""
    head = Section(
        id="samples",
        title="Shipped samples",
        note="We wrote these runs ourselves, to show each log format. They are no evidence about"
        " agents or controllers, and no figure here may be quoted as such.",
        sentences=tuple(fact.sentence for fact in samples.first_fact),
        tables=naive(samples.sets, "samples"),
    )
    parts = [
        chapter(one, f"sample-{number}", "Sample: ") for number, one in enumerate(samples.sets)
    ]
    return (head, *parts)


def chapter(one: SetResult, prefix: str, before: str = "") -> Section:
    """Return everything about one set; ids of tables and plots begin with `prefix`."""
    sentences = [
        f"{plural(one.runs, 'run')} of {plural(one.tasks, 'task')}: {grouped(one.successes)}"
        f" verified, {grouped(one.failures)} failed, {grouped(one.unknown)} without a recorded"
        f" outcome; {plural(one.steps, 'dispatched action')}.",
        f"Censored: {grouped(one.censored)} of the failures stopped at the set's own cap and are"
        " not known to fail beyond it.",
        f"Kind: {one.kind}. Models: {listing(one.models) or UNKNOWN}. Cost recorded in"
        f" {grouped(one.cost_known_runs)} of {plural(one.runs, 'run')}, {UNKNOWN} in the others.",
        f"Progress signal used: {'; '.join(one.signals) or 'none'}.",
    ]
    if one.progress_unknown_runs:
        sentences.append(
            f"Level D is blind to progress on {grouped(one.progress_unknown_runs)} of"
            f" {plural(one.runs, 'run')}."
        )
    sentences.append(against_in_words(one))
    sentences += [f"{text} ({plural(runs, 'run')})." for text, runs in _warnings(one)]
    tables = (
        false_stops(one, prefix),
        savings(one, prefix),
        against(one, prefix),
        reasons(one, prefix),
        differences(one.differences, prefix),
    )
    return Section(
        id=prefix,
        title=f"{before}{one.name}",
        level=3,
        sentences=tuple(sentences),
        plots=(plot(one, prefix),),
        tables=tuple(table for table in tables if table.rows),
    )


def _warnings(one: SetResult) -> list[tuple[str, int]]:
    return sorted(one.warnings.items(), key=lambda item: (-item[1], item[0]))[:LISTED_MAX]


def plot(one: SetResult, prefix: str) -> Plot:
    """Return the bars of every contestant on one set, the calibrated cap last."""
    rows = [
        PlotRow(
            label=row.contestant,
            false_stops=_bar(
                row.false_stops.tasks_hit / row.false_stops.tasks
                if row.false_stops.tasks
                else None,
                row.false_stops.interval,
            ),
            saved=_bar(row.saved.share, row.saved.interval),
        )
        for row in one.rows
    ]
    cap = one.cap
    rows.append(
        PlotRow(
            label=CAP,
            false_stops=_spread_bar(cap.false_stop_share),
            saved=_spread_bar(cap.saved_share),
            baseline=True,
        )
    )
    few = f" Fewer than {UNITS_MIN} tasks: {UNKNOWN}." if few_successes(one) else ""
    return Plot(
        id=f"{prefix}-plot",
        title=f"{one.name}: false stops against steps saved",
        description="Left: share of the tasks with a verified run that are stopped falsely (less is"
        " better), exact 95 % intervals. Right: share of the failed runs' steps saved (more is"
        " better), 95 % bootstrap over tasks. The calibrated step cap shows its mean and its range"
        f" over splits, on runs.{few}",
        rows=tuple(rows),
    )


def _bar(share: float | None, interval: Interval | None) -> Bar:
    if interval is None:
        return Bar(share=share, low=None, high=None)
    return Bar(share=share, low=interval.low, high=interval.high)


def _spread_bar(spread: Spread | None) -> Bar:
    if spread is None:
        return Bar(share=None, low=None, high=None)
    return Bar(share=spread.mean, low=spread.low, high=spread.high)
