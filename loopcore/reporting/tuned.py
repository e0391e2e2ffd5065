"""The chapter on thresholds that were searched under a ceiling on false stops, with its front."""

from __future__ import annotations

from collections.abc import Sequence

from loopcore.comparison.tuning_results import Judged, Tuned
from loopcore.comparison.tuning_tables import false_stops, settings
from loopcore.reporting.comparison_tables import percent, span
from loopcore.reporting.view import (
    UNKNOWN,
    Cell,
    Chart,
    Mark,
    Section,
    Series,
    Table,
    columns,
    word,
)


def tuned(found: Sequence[Tuned], prefix: str) -> tuple[Section, ...]:
    """Return a part for each search; ids begin with `prefix`."""
    return tuple(_part(one, f"{prefix}-{place}") for place, one in enumerate(found))


def _part(one: Tuned, prefix: str) -> Section:
    chart = _front(one, prefix)
    return Section(
        id=prefix,
        title=f"Thresholds of level D, tuned on {one.name}",
        level=3,
        sentences=(
            one.sentence,
            f"{one.settings:,} settings were searched on {one.choosing_tasks:,} tasks and reported"
            f" on {one.reporting_tasks:,} others. A setting names the rows that are on.",
        ),
        charts=() if chart is None else (chart,),
        tables=(
            Table(
                id=f"{prefix}-table",
                caption="Settings on tasks that they were not chosen on; saved: share of the"
                f" failed runs' {one.unit}, bootstrap 95 % over tasks",
                columns=columns(
                    "setting", "#chosen on: stopped", "#false stops", "exact 95 %", "#saved", "95 %"
                ),
                rows=tuple(
                    (
                        word(name),
                        word(false_stops(each.choosing)),
                        *_judged(each.reporting),
                    )
                    for name, each in settings(one)
                ),
            ),
        ),
    )


def _judged(one: Judged) -> tuple[Cell, ...]:
    share = UNKNOWN if one.share is None else percent(one.share)
    return (
        Cell(text=false_stops(one), value=one.stopped, tone="doubt" if one.small else "plain"),
        span(one.interval),
        Cell(text=share, value=one.share),
        span(one.share_interval),
    )


def _front(one: Tuned, prefix: str) -> Chart | None:
    """Return the settings that none beats, with level D as shipped and the calibrated cap."""
    named = [("front", one.front), ("level D as shipped", (one.default,))]
    if one.chosen is not None:
        named.append(("tuned", (one.chosen,)))
    if one.cap is not None:
        named.append(("calibrated step cap", (one.cap,)))
    series = [
        Series(
            label=label,
            marks=tuple(mark for each in group if (mark := _mark(each.reporting)) is not None),
            baseline=label == "calibrated step cap",
        )
        for label, group in named
    ]
    series = [each for each in series if each.marks]
    if not series:
        return None
    return Chart(
        id=f"{prefix}-front",
        title=f"{one.name}: false stops against {one.unit} saved",
        description="Each mark is a setting, judged on the tasks that it was not chosen on. The"
        " front was chosen on the other tasks, so here it may be beaten. Bars: 95 %.",
        x_label="false stops, % of good tasks (less is better)",
        y_label="saved, % of what failed runs spend",
        series=tuple(series),
    )


def _mark(one: Judged) -> Mark | None:
    if one.share is None or not one.tasks:
        return None
    interval = one.share_interval
    return Mark(
        x=100 * one.stopped / one.tasks,
        y=100 * one.share,
        low=None if interval is None else 100 * interval.low,
        high=None if interval is None else 100 * interval.high,
    )
