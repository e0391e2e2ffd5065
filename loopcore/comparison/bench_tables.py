"""A benchmark as Markdown: what was run, then a table of figures for each family, over all last.

Theory of operation: tables are made from the typed result alone, so they can be made again from
`bench.json`. Every figure stands with its count and interval; one on fewer than 30 units is marked
unknown, one that is infinite says so, and one without anything to divide by is a dash.

Source: spec control, section 3.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from math import floor, log10

from loopcore.comparison.baselines import Finding, TimingFinding
from loopcore.comparison.bench_results import (
    BenchResult,
    BreakEven,
    Family,
    FigureValue,
    PairedDifference,
    Row,
    Span,
)
from loopcore.comparison.bounds import Bound, number
from loopcore.comparison.discrimination import markdown as twin_tables
from loopcore.comparison.figures import BY_NAME
from loopcore.comparison.sweep_calibration import CALIBRATED
from loopcore.comparison.tables import UNKNOWN, table
from loopcore.comparison.tuning_tables import markdown as tuned_tables

ALL = "all"
NOTHING = "–"
_SMALL = f" ({UNKNOWN}: n < 30)"
_MICROUNITS = 1e6
# A share below this is a rounding error of an interval, not a share.
_SHARE_SHOWN_MIN = 1e-12
# The figures of a family's table, then those that are shown over all applications only.
MAIN = (
    "false_stop_rate",
    "harm_rate",
    "missed_loop_rate",
    "success_rate",
    "cost_per_success",
    "steps_to_success",
    "steps_on_failed",
    "false_completion_rate",
)
FALSE_STOPS = (
    "false_stops_by_detectors",
    "false_stops_by_budgets",
    "false_stops_by_gate",
    "false_stops_by_finish",
    "early_stop_rate",
    "missed_early_rate",
    "delay",
    "cost_after_onset",
)
CONSUMED = ("steps", "steps_outside_s", "model_calls", "tool_calls", "tokens", "latency_ms", "cost")
WORK = ("rejected_finishes", "recoveries", "recoveries_won", "recoveries_unneeded")
# The differences that are printed; the others are in the result.
SHOWN_DIFFERENCES = ("false_stop_rate", "success_rate", "missed_loop_rate", "cost_per_success")


@dataclass(frozen=True, slots=True, kw_only=True)
class Cost:
    """What a benchmark took: no part of its result.

    Fields: turns_a_second, of one core, by tier; seconds, on the clock; memory_mib, the largest of
    any process.
    """

    jobs: int
    seconds: float
    turns_a_second: dict[str, float]
    memory_mib: float


def markdown(result: BenchResult) -> str:
    """Return all tables of a benchmark as Markdown text."""
    parts = ["# Benchmark of control levels"]
    if not result.complete:
        parts.append(
            f"**Interrupted: {result.chunks_done} of {result.chunks} chunks are in these figures.**"
        )
    parts.append(
        f"Seed {result.seed}; horizon {result.horizon} turns, step cap {result.cap}; figures with"
        f" {100 * result.confidence:.0f} % intervals: exact for rates, paired bootstrap over tasks"
        f" ({result.resamples:,} resamples) for the others. S: tasks that verify within the horizon"
        " when nobody stops them. Costs in units of a million microunits."
    )
    for tier in result.tiers:
        # With one application, all of them are the same tasks.
        shown_families = tier.families[-1:] if len(result.applications) == 1 else tier.families
        parts += [_family(tier.name, one, result.applications) for one in shown_families]
    if result.twins is not None:
        parts.append(twin_tables(result.twins))
    parts.append(tuned_tables(result.tuned))
    return "\n\n".join(part.rstrip() for part in parts if part) + "\n"


def _family(tier: str, one: Family, applications: Sequence[str]) -> str:
    whole = one.name == ALL
    name = f"over all ({', '.join(applications)})" if whole else one.name
    parts = [
        f"## {tier}: {name}",
        f"{one.tasks:,} tasks, {one.turns:,} turns; S has {one.in_s:,}; {one.looped:,} have an"
        f" onset before the cap.{_calibrated(one, whole=whole)}",
        _figures(one.rows, MAIN),
    ]
    if whole:
        parts += [
            _figures(one.rows, FALSE_STOPS),
            _figures(one.rows, CONSUMED),
            _figures(one.rows, WORK),
            _differences(one.differences),
        ]
    parts += [_break_even(found) for found in one.break_even]
    parts += cap_in_words(one)
    if whole:
        parts.append(one.sensitivity.sentence)
    return "\n\n".join(part for part in parts if part)


def _calibrated(one: Family, *, whole: bool) -> str:
    if whole:
        return " The calibrated step cap is each application's own."
    cap = one.calibrated_cap
    return f" Calibrated step cap: {'none' if cap is None else f'{cap} turns'}."


def _figures(rows: Sequence[Row], names: Sequence[str]) -> str:
    columns = ["contestant", *(title(name) for name in names)]
    return table(columns, [[row.label, *(shown(row, name) for name in names)] for row in rows])


def title(name: str) -> str:
    """Return the heading of a figure with its unit."""
    figure = BY_NAME[name]
    return (
        figure.title
        if figure.unit in ("share", "microunits")
        else (f"{figure.title}, {figure.unit}")
    )


def shown(row: Row, name: str) -> str:
    """Return a figure of a row as text, with its counts and interval."""
    found = row.figures[name]
    number = _number(name)
    if found.value is None:
        return NOTHING if found.below == 0 and found.n == 0 else f"{NOTHING} (n = {found.n:,})"
    counts = f" {found.above:,}/{found.below:,}" if BY_NAME[name].kind == "rate" else ""
    if BY_NAME[name].kind == "mean":
        counts = f" (n = {found.n:,})"
    return f"{number(found.value)} {_span(found.interval, number)}{counts}{_small(found)}"


def _small(found: FigureValue) -> str:
    return _SMALL if found.small else ""


def _number(name: str) -> Callable[[Bound], str]:
    """Return what writes a figure's value: a share in per cent, a cost in units."""
    unit = BY_NAME[name].unit

    def write(value: Bound) -> str:
        if isinstance(value, str):
            return value
        if unit == "share":
            return f"{_per_cent(value)} %"
        if unit == "microunits":
            return f"{value / _MICROUNITS:.4f}"
        return f"{value:,.2f}" if abs(value) < 1000 else f"{value:,.0f}"  # noqa: PLR2004

    return write


def _per_cent(share: float) -> str:
    """Return a share in per cent with two decimals, or with as many as tell it from 0 and 100."""
    text = f"{100 * share:.2f}"
    if text in ("0.00", "-0.00") and share:
        return f"{100 * share:.1g}" if abs(share) >= _SHARE_SHOWN_MIN else text
    if text == "100.00" and share < 1:
        decimals = max(2, 1 - floor(log10(100 * (1 - share))))
        return f"{100 * share:.{decimals}f}"
    return text


def _span(interval: Span | None, number: Callable[[Bound], str]) -> str:
    if interval is None:
        return ""
    return f"[{number(interval.low)}, {number(interval.high)}]"


def _differences(found: Sequence[PairedDifference]) -> str:
    rows: list[list[str]] = []
    by_pair: dict[tuple[str, str], dict[str, PairedDifference]] = {}
    for one in found:
        by_pair.setdefault((one.first, one.second), {})[one.figure] = one
    for (first, second), figures in by_pair.items():
        cells = [_difference(figures[name]) for name in SHOWN_DIFFERENCES]
        rows.append([f"{first} − {second}", *cells])
    if not rows:
        return ""
    return table(["first − second", *(title(name) for name in SHOWN_DIFFERENCES)], rows)


def _difference(one: PairedDifference) -> str:
    if one.difference is None:
        return NOTHING
    number = _number(one.figure)
    text = f"{number(one.difference)} {_span(one.interval, number)}"
    if one.ratio is None:
        return text

    def factor(value: Bound) -> str:
        return value if isinstance(value, str) else f"{value:.3f}"

    return f"{text}, × {factor(one.ratio)} {_span(one.ratio_interval, factor)}"


def _break_even(found: BreakEven) -> str:
    def rho(value: Bound) -> str:
        return "beyond 1" if isinstance(value, str) else f"{value:.3f}"

    return (
        f"Break-even under gate {found.gate}: level E's cost per verified success falls below level"
        f" D's at rho* = {rho(found.rho)} {_span(found.interval, rho)}."
    )


def cap_in_words(one: Family) -> list[str]:
    """Return which levels the calibrated step cap beats, and which beat it; nothing without it.

    One beats the other where it costs less per verified success, the paired interval excluding
    zero, and does not stop more of S.
    """
    by_pair: dict[tuple[str, str], dict[str, PairedDifference]] = {}
    for difference in one.differences:
        if difference.second.startswith(f"{CALIBRATED} "):
            by_pair.setdefault((difference.first, difference.second), {})[difference.figure] = (
                difference
            )
    if not by_pair:
        return []
    better: list[str] = []
    worse: list[str] = []
    for (first, _), figures in by_pair.items():
        cost, stops = figures["cost_per_success"], figures["false_stop_rate"]
        if cost.interval is None or stops.difference is None:
            continue
        low, high = number(cost.interval.low), number(cost.interval.high)
        if low > 0 and number(stops.difference) >= 0:
            better.append(first)
        elif high < 0 and number(stops.difference) <= 0:
            worse.append(first)
    rows = [row for row in one.rows if (row.label, f"{CALIBRATED} verify") in by_pair]
    others = [row.label for row in rows if row.label not in better and row.label not in worse]
    turns = "" if one.calibrated_cap is None else f" of {one.calibrated_cap} turns"
    words = f"The calibrated step cap{turns} beats {_levels(rows, better)}"
    words += f" and is beaten by {_levels(rows, worse)}"
    if others:
        words += f"; against {_levels(rows, others)} neither is better in both figures"
    return [f"{words}."]


def _levels(rows: Sequence[Row], labels: Sequence[str]) -> str:
    """Return these levels in words, a level of many chances of recovery once."""
    found: list[str] = []
    for name in dict.fromkeys(row.name for row in rows):
        own = [row for row in rows if row.name == name]
        named = [row for row in own if row.label in labels]
        if named and len(named) == len(own):
            found.append(f"{name}{' at every rho' if named[0].rho is not None else ''}")
        elif named:
            found.append(f"{name} at rho {', '.join(f'{row.rho:g}' for row in named)}")
    return f"level {' and '.join(found)}" if found else "no level"


def cost_line(cost: Cost) -> str:
    """Return in one line what the benchmark took."""
    speeds = ", ".join(
        f"{tier} {speed:,.0f}" for tier, speed in sorted(cost.turns_a_second.items())
    )
    return (
        f"{cost.seconds:.1f} s on {cost.jobs} processes; turns a second of one core: {speeds};"
        f" at most {cost.memory_mib:,.0f} MiB in a process"
    )


def comparison(name: str, found: Sequence[Finding], timings: Sequence[TimingFinding]) -> str:
    """Return a comparison with a baseline as Markdown: all that changed, and what is worse."""
    changed = [one for one in found if one.difference != 0]
    worse = sum(one.worse for one in found)
    parts = [
        f"## Against baseline {name}",
        f"{len(found)} named figures: {len(found) - len(changed)} unchanged, {len(changed)}"
        f" changed, {worse} worse than their tolerance.",
    ]
    if changed:
        rows = [_changed(one) for one in changed]
        columns = ["worlds", "contestant", "figure", "before", "now", "difference", "verdict"]
        parts.append(table(columns, rows))
    for timing in timings:
        if timing.factor is None or timing.interval is None:
            parts.append(f"Time a turn, {timing.tier}: {UNKNOWN} ({timing.chunks} chunks).")
        else:
            verdict = "worse" if timing.worse else "within the tolerance"
            parts.append(
                f"Time a turn, {timing.tier}, in calibration loops: × {timing.factor:.3f}"
                f" [{timing.interval.low:.3f}, {timing.interval.high:.3f}]"
                f" ({timing.chunks} chunks): {verdict}."
            )
    return "\n\n".join(parts) + "\n"


def _changed(one: Finding) -> list[str]:
    number = _number(one.figure)
    return [
        f"{one.tier} {one.family}",
        one.contestant,
        BY_NAME[one.figure].title,
        NOTHING if one.before is None else number(one.before),
        NOTHING if one.after is None else number(one.after),
        f"{number(one.difference)} {_span(one.interval, number)}",
        "WORSE" if one.worse else "within the tolerance",
    ]
