"""The outcome of a search over thresholds as Markdown: in words, then the settings side by side."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from loopcore.comparison.tables import percent, span, table
from loopcore.comparison.tuning_results import Judged, Setting, Tuned

HEADS = (
    "setting",
    "choosing: false stops",
    "choosing: saved",
    "reporting: false stops",
    "exact 95 %",
    "reporting: saved",
    "bootstrap 95 %",
)


def markdown(tuned: Sequence[Tuned]) -> str:
    """Return a chapter with a part for each set; nothing where nothing was tuned."""
    if not tuned:
        return ""
    head = (
        "## Thresholds of level D, tuned\n\nChosen on one half of the tasks under the ceiling,"
        " reported on the other half. Rows of the controller are on only where they are named."
    )
    return "\n\n".join([head, *(_part(one) for one in tuned)])


def settings(one: Tuned) -> list[tuple[str, Setting]]:
    """Return the settings of a search by what they are, the front last."""
    named = [("level D as shipped", one.default)]
    if one.chosen is not None:
        named.append((f"tuned: {words(one.chosen.limits)}", one.chosen))
    if one.cap is not None:
        named.append((f"calibrated step cap: {one.cap_turns} turns", one.cap))
    return named + [(f"front: {words(each.limits)}", each) for each in one.front]


def words(limits: Mapping[str, int | None]) -> str:
    """Return the rows that are on with their thresholds."""
    on = [f"{name} {value}" for name, value in limits.items() if value is not None]
    return ", ".join(on) or "nothing on"


def false_stops(one: Judged) -> str:
    """Return how many good tasks are stopped, out of how many."""
    return f"{one.stopped}/{one.tasks}"


def _part(one: Tuned) -> str:
    rows = [
        [
            name,
            false_stops(each.choosing),
            percent(each.choosing.share),
            false_stops(each.reporting),
            span(each.reporting.interval),
            percent(each.reporting.share),
            span(each.reporting.share_interval),
        ]
        for name, each in settings(one)
    ]
    counts = (
        f"{one.settings:,} settings; {one.choosing_tasks} tasks to choose on,"
        f" {one.reporting_tasks} to report on; saved is a share of the failed runs' {one.unit}."
    )
    return f"### {one.name}\n\n{one.sentence}\n\n{counts}\n\n{table(HEADS, rows)}"
