"""An audit as Markdown: the first fact, then a chapter a set; what is not known is said so.

Theory of operation: a table is a list of rows of text under named columns. Every figure stands
with its count; a rate on fewer than 30 tasks is marked as unknown beside its interval, a cost that
was not recorded is the word unknown, and a set's signal and censoring stand above its figures.

Source: spec control, sections 3 and 5.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from loopcore.comparison.audit import AuditResult, Row, Saved, SetResult
from loopcore.comparison.cap import CapResult, Spread
from loopcore.comparison.intervals import Interval, Rate

UNKNOWN = "unknown"
LISTED_MAX = 50
# The contestant that is held against the calibrated cap.
JUDGED = "D without budgets"
_WARNINGS_MAX = 12


def percent(share: float | None) -> str:
    """Return a share as a percentage with one decimal, or the word unknown."""
    return UNKNOWN if share is None else f"{100 * share:.1f} %"


def span(interval: Interval | None) -> str:
    """Return an interval in per cent, or the word unknown."""
    if interval is None:
        return UNKNOWN
    return f"[{100 * interval.low:.1f}, {100 * interval.high:.1f}] %"


def table(columns: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    """Return a Markdown table; a bar inside a cell is escaped."""
    lines = [columns, ["---"] * len(columns), *rows]
    return "\n".join(
        "| " + " | ".join(cell.replace("|", "\\|").replace("\n", " ") for cell in line) + " |"
        for line in lines
    )


def markdown(result: AuditResult) -> str:
    """Return the audit as Markdown text."""
    parts = ["# Audit of recorded runs"]
    if not result.complete:
        parts.append("**Interrupted: only the sets below were finished.**")
    if result.first_fact:
        parts.append("\n".join(f"- {fact.sentence}" for fact in result.first_fact))
    else:
        parts.append("No coding set is among the runs.")
    parts.append(_naive(result.sets))
    parts.extend(_chapter(one) for one in result.sets)
    parts.append(_left_out(result))
    return "\n\n".join(part for part in parts if part) + "\n"


def _naive(sets: Sequence[SetResult]) -> str:
    """Return the naive rules side by side: false stops on successes / failed runs' steps saved."""
    names = [row.contestant for row in sets[0].rows if row.phase == "before"] if sets else []
    if not names:
        return ""
    rows: list[list[str]] = []
    for one in sets:
        by_name = {row.contestant: row for row in one.rows}
        cells = [
            f"{by_name[name].false_stops.hits}/{by_name[name].false_stops.n},"
            f" {percent(by_name[name].saved.share)}"
            for name in names
        ]
        rows.append([one.name, *cells])
    head = "## Naive rules that block the K-th identical call\n\nFalse stops on successes, and the"
    head += " share of the failed runs' dispatched actions that they save. No row pools sets.\n\n"
    return head + table(["set", *names], rows)


def _chapter(one: SetResult) -> str:
    facts = [
        f"{one.runs} runs of {one.tasks} tasks: {one.successes} verified, {one.failures} failed"
        f" ({one.censored} of these at the set's own cap: censored, not known to fail beyond it),"
        f" {one.unknown} without a recorded outcome. {one.steps} dispatched actions.",
        f"Kind: {one.kind}. Models: {', '.join(one.models) or UNKNOWN}."
        f" Cost recorded in {one.cost_known_runs} runs, {UNKNOWN} in the others.",
        f"Progress signal: {'; '.join(one.signals)}.",
    ]
    if one.progress_unknown_runs:
        facts.append(
            f"Level D is blind to progress on {one.progress_unknown_runs} of {one.runs} runs."
        )
    parts = [f"## {one.name}", "\n".join(facts)]
    parts.extend([_false_stop_table(one), _saved_table(one), _reason_table(one)])
    parts.append(_difference_table(one))
    parts.append(_cap(one.cap))
    parts.append(_verdict(one))
    parts.append(_warnings(one.warnings))
    return "\n\n".join(part for part in parts if part)


def _false_stop_table(one: SetResult) -> str:
    columns = ["contestant", "decides", "false stops", "tasks, exact 95 %"]
    columns += ["by detectors", "by budgets", "by gates"]
    return table(columns, [_false_stop_cells(row) for row in one.rows])


def _saved_table(one: SetResult) -> str:
    columns = ["contestant", "failures stopped", "steps saved", "share, bootstrap 95 %"]
    columns += ["by detectors", "by budgets", "ended / censored", "cost saved"]
    return table(columns, [_saved_cells(row) for row in one.rows])


def _reason_table(one: SetResult) -> str:
    rows = [
        [row.contestant, _reasons(row.reasons_on_successes), _reasons(row.reasons_on_failures)]
        for row in one.rows
    ]
    return table(["contestant", "reasons on successes", "reasons on failures"], rows)


def _difference_table(one: SetResult) -> str:
    if not one.differences:
        return ""
    rows = [
        [
            f"{delta.first} − {delta.second}",
            f"{delta.false_stops:+d}",
            percent(delta.saved_share),
            span(delta.interval),
        ]
        for delta in one.differences
    ]
    return table(["first − second", "false stops", "saved share", "paired bootstrap 95 %"], rows)


def _rate(rate: Rate) -> str:
    small = f" ({UNKNOWN}: n < 30)" if rate.small else ""
    return f"{rate.tasks_hit}/{rate.tasks} {span(rate.interval)}{small}"


def _false_stop_cells(row: Row) -> list[str]:
    blind = f" (blind to progress on {row.blind_runs} runs)" if row.blind_runs else ""
    return [
        row.contestant + blind,
        row.phase,
        f"{row.false_stops.hits}/{row.false_stops.n}",
        _rate(row.false_stops),
        str(row.false_stops_by_detectors),
        str(row.false_stops_by_budgets),
        str(row.false_stops_by_gates),
    ]


def _part(saved: Saved) -> str:
    return f"{saved.stopped}/{saved.runs} {percent(saved.share)}" if saved.runs else "none"


def _money(saved: Saved) -> str:
    if saved.cost_saved_microunits is None or saved.cost_microunits is None:
        return UNKNOWN
    return (
        f"{saved.cost_saved_microunits / 1e6:.4f} of {saved.cost_microunits / 1e6:.4f}"
        f" ({saved.cost_known_runs}/{saved.runs} runs)"
    )


def _saved_cells(row: Row) -> list[str]:
    saved = row.saved
    return [
        row.contestant,
        f"{saved.stopped}/{saved.runs}",
        f"{saved.steps_saved}/{saved.steps}",
        f"{percent(saved.share)} {span(saved.interval)}",
        str(row.saved_by_detectors),
        str(row.saved_by_budgets),
        f"{_part(row.saved_ended)} / {_part(row.saved_censored)}",
        _money(saved),
    ]


def _reasons(counts: dict[str, int]) -> str:
    return ", ".join(f"{reason} {count}" for reason, count in sorted(counts.items())) or "none"


def _spread(value: Spread | None, scale: float, unit: str) -> str:
    if value is None:
        return UNKNOWN
    return (
        f"{scale * value.mean:.1f}{unit} ± {scale * value.deviation:.1f}"
        f" ({scale * value.low:.1f} to {scale * value.high:.1f})"
    )


def _cap(cap: CapResult) -> str:
    head = (
        f"Calibrated step cap (alpha = {cap.alpha}, {cap.splits} splits of the tasks,"
        f" {cap.calibration_tasks} on the calibration side; marginal guarantee; mean ± standard"
        " deviation and range):"
    )
    return (
        head
        + "\n\n"
        + table(
            ["cap in turns", "splits without a cap", "false stops", "steps saved"],
            [
                [
                    _spread(cap.cap_turns, 1, ""),
                    f"{cap.splits_without_cap}/{cap.splits}",
                    _spread(cap.false_stop_share, 100, " %"),
                    _spread(cap.saved_share, 100, " %"),
                ]
            ],
        )
    )


def _verdict(one: SetResult) -> str:
    """Return whether level D's detectors beat the calibrated cap here: more saved, no more harm."""
    row = next((row for row in one.rows if row.contestant == JUDGED), None)
    cap = one.cap
    if row is None or cap.saved_share is None or cap.false_stop_share is None:
        return ""
    share = row.saved.share
    if share is None or not row.false_stops.n:
        return ""
    false_stops = row.false_stops.hits / row.false_stops.n
    better = share > cap.saved_share.mean and false_stops <= cap.false_stop_share.mean
    verb = "beats" if better else "does not beat"
    return (
        f"{JUDGED} {verb} the calibrated cap on this set: it saves {percent(share)} with"
        f" {percent(false_stops)} false stops, the cap {percent(cap.saved_share.mean)} with"
        f" {percent(cap.false_stop_share.mean)} (means of the held-out halves)."
    )


def _warnings(warnings: dict[str, int]) -> str:
    if not warnings:
        return ""
    ordered = sorted(warnings.items(), key=lambda item: (-item[1], item[0]))
    lines = [f"- {count} runs: {warning}" for warning, count in ordered[:_WARNINGS_MAX]]
    if len(ordered) > _WARNINGS_MAX:
        lines.append(f"- and {len(ordered) - _WARNINGS_MAX} further kinds of warnings")
    return "Import warnings:\n\n" + "\n".join(lines)


def _left_out(result: AuditResult) -> str:
    """Return what gave no run: problems in full, listed items up to a limit."""
    parts: list[str] = []
    if result.problems:
        lines = [f"- {problem.code}: {problem.message}" for problem in result.problems]
        parts.append("## Files that could not be read\n\n" + "\n".join(lines))
    if result.listed:
        outcome = {True: ", successful", False: ", failed", None: ""}
        lines = [
            f"- {one.set or one.source}: {one.item}: {one.reason}{outcome[one.success]}"
            for one in result.listed[:LISTED_MAX]
        ]
        if len(result.listed) > LISTED_MAX:
            lines.append(f"- and {len(result.listed) - LISTED_MAX} more, in the JSON result")
        parts.append("## Listed, not counted\n\n" + "\n".join(lines))
    return "\n\n".join(parts)
