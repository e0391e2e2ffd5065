"""The chapters on worlds with known truth: figures a family, level E's curve, twins, mixtures.

Theory of operation: every figure is taken from the benchmark's result as it stands there, with its
interval. The head says what the worlds are and are not, what is over all tasks, and in words where
the calibrated step cap does better than a level; each tier then has a part with a table a family.

Source: spec control, sections 3 and 4.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from loopcore.comparison.audit import AuditResult
from loopcore.comparison.bench_results import (
    BenchResult,
    BreakEven,
    Family,
    FigureValue,
    Row,
    TierResult,
)
from loopcore.comparison.bench_tables import ALL, MAIN, cap_in_words, shown, title
from loopcore.comparison.bounds import number
from loopcore.comparison.discrimination import Discrimination
from loopcore.comparison.sensitivity import HabitSensitivity, Sensitivity
from loopcore.reporting.comparison_tables import percent
from loopcore.reporting.tuned import tuned
from loopcore.reporting.view import (
    UNKNOWN,
    Cell,
    Chart,
    Mark,
    Section,
    Series,
    Table,
    columns,
    count,
    grouped,
    listing,
    plural,
    word,
)

TIERS = {"stepwise": "step-wise worlds", "columnar": "columnar habit model"}
# The figures of a family's table in the report; the others are in bench.json.
SHOWN = (*MAIN, "cost")
# Which kind of recorded runs each application can stand beside.
KINDS = {"coding": "coding", "support": "support", "browser": "shopping"}
# The contestants that audit and benchmark both have, by the same names.
BESIDE = ("consecutive-3", "total-3", "B", "C", "D")
_MICROUNITS = 1e6


def worlds(bench: BenchResult, audits: Sequence[AuditResult] = ()) -> tuple[Section, ...]:
    """Return the chapter on a benchmark: its head, a part for each tier, twins, mixtures."""
    overall = [(tier.name, tier.families[-1]) for tier in bench.tiers]
    head = Section(
        id="worlds",
        title="Worlds with known truth",
        note="We built these worlds and chose the habits of their agents and the share of each. The"
        " figures compare contestants on the same tasks; they describe no real agent, and the parts"
        " below show how the ranking moves with the mixture and stand beside recorded runs.",
        sentences=(
            f"{plural(len(bench.applications), 'application')}"
            f" ({listing(bench.applications, len(bench.applications))}); horizon"
            f" {bench.horizon} turns, step cap {bench.cap}, seed {bench.seed}. S are the tasks that"
            " verify within the horizon when nobody stops them. Rates carry exact 95 % intervals,"
            f" costs a paired bootstrap over tasks ({grouped(bench.resamples)} resamples).",
            *(
                f"{TIERS[tier].capitalize()}: {sentence}"
                for tier, family in overall
                for sentence in _overall(family)
            ),
            *(() if bench.complete else (_cut(bench),)),
        ),
        charts=tuple(
            chart
            for tier, family in overall
            for chart in (_pareto(tier, family), _curve(tier, family))
            if chart is not None
        ),
    )
    parts = [_tier(tier) for tier in bench.tiers]
    if bench.twins is not None:
        parts.append(_twins(bench.twins))
    parts += [_mixtures(tier, family.sensitivity) for tier, family in overall]
    parts += tuned(bench.tuned, "worlds-tuned")
    beside = _beside(bench, audits)
    return (head, *parts, *(() if beside is None else (beside,)))


def _cut(bench: BenchResult) -> str:
    return f"Interrupted: {bench.chunks_done} of {bench.chunks} chunks are in these figures."


def _overall(family: Family) -> list[str]:
    sentences = [
        f"{grouped(family.tasks)} tasks, of which S has {grouped(family.in_s)} and"
        f" {grouped(family.looped)} have an onset before the cap."
    ]
    sentences += [_break_even(one) for one in family.break_even]
    sentences += cap_in_words(family)
    return sentences


def _break_even(one: BreakEven) -> str:
    if isinstance(one.rho, str):
        return (
            f"Under gate {one.gate} level E costs more per verified success than level D at every"
            " chance of recovery that was tried."
        )
    bounds = "no interval"
    if one.interval is not None:
        ends = [
            f"{end:.2f}" if isinstance(end, float) else "beyond 1"
            for end in (one.interval.low, one.interval.high)
        ]
        bounds = f"95 % interval {ends[0]} to {ends[1]}"
    return (
        f"Under gate {one.gate} level E costs less per verified success than level D from a chance"
        f" of recovery of {one.rho:.2f} on ({bounds})."
    )


def _tier(tier: TierResult) -> Section:
    return Section(
        id=f"worlds-{tier.name}",
        title=f"{TIERS[tier.name].capitalize()}, by application",
        level=3,
        tables=tuple(_figures(tier.name, family) for family in tier.families),
    )


def _figures(tier: str, family: Family) -> Table:
    name = "all applications" if family.name == ALL else family.name
    cap = family.calibrated_cap
    words = "no calibrated cap" if cap is None else f"calibrated cap {cap} turns"
    return Table(
        id=f"worlds-{tier}-{family.name}",
        caption=f"{name}: {grouped(family.tasks)} tasks, {grouped(family.in_s)} in S, {words};"
        " costs in units of a million microunits",
        columns=columns("contestant", *(f"#{title(figure)}" for figure in SHOWN)),
        rows=tuple(
            (word(row.label), *(_cell(row, figure) for figure in SHOWN)) for row in family.rows
        ),
    )


def _cell(row: Row, figure: str) -> Cell:
    found = row.figures[figure]
    value = found.value
    return Cell(
        text=shown(row, figure),
        value=value if isinstance(value, float) else None,
        tone="doubt" if found.small else "plain",
    )


def _height(found: FigureValue, scale: float) -> Mark | None:
    """Return a figure as the height of a mark at 0, None where it is unknown or infinite."""
    if not isinstance(found.value, float) or found.small:
        return None
    low = high = None
    if found.interval is not None:
        ends = number(found.interval.low), number(found.interval.high)
        low, high = (
            end / scale if end not in (float("inf"), float("-inf")) else None for end in ends
        )
    return Mark(x=0.0, y=found.value / scale, low=low, high=high)


def _pareto(tier: str, family: Family) -> Chart | None:
    """Return false stops against the cost saved, a mark a contestant."""
    base = next((row for row in family.rows if row.name == "A" and row.gate == "verify"), None)
    if base is None or not isinstance(base.figures["cost"].value, float):
        return None
    whole = base.figures["cost"].value
    series: list[Series] = []
    for row in family.rows:
        stops, cost = row.figures["false_stop_rate"], row.figures["cost"]
        at, spent = _height(stops, 0.01), _height(cost, whole)
        if at is None or spent is None or row.gate != "verify":
            continue
        low = None if spent.high is None else 100 * (1 - spent.high)
        high = None if spent.low is None else 100 * (1 - spent.low)
        mark = Mark(x=at.y, y=100 * (1 - spent.y), low=low, high=high)
        series.append(Series(label=row.label, marks=(mark,), baseline=row.name == "calibrated-cap"))
    if not series:
        return None
    return Chart(
        id=f"worlds-{tier}-pareto",
        title=f"{TIERS[tier].capitalize()}: false stops against cost saved, gate verify",
        description="Right: more good tasks are stopped. Up: more is saved of what level A spends"
        " on the same tasks, with the 95 % interval of the contestant's own cost. A contestant is"
        " beaten by any that stands above and to the left of it.",
        x_label="false stops, % of S (less is better)",
        y_label="cost saved, % of level A's",
        series=tuple(series),
    )


def _curve(tier: str, family: Family) -> Chart | None:
    """Return level E's cost per verified success over the chance of recovery, beside level D's."""
    series: list[Series] = []
    for gate in ("verify", "trust"):
        curve = sorted(
            (row for row in family.rows if row.rho is not None and row.gate == gate),
            key=lambda row: row.rho or 0.0,
        )
        marks = [
            _at(mark, row.rho or 0.0)
            for row in curve
            if (mark := _height(row.figures["cost_per_success"], _MICROUNITS)) is not None
        ]
        level_d = next((row for row in family.rows if row.name == "D" and row.gate == gate), None)
        flat = None
        if level_d is not None:
            flat = _height(level_d.figures["cost_per_success"], _MICROUNITS)
        if not marks or flat is None:
            continue
        series.append(Series(label=f"level E, gate {gate}", marks=tuple(marks), joined=True))
        ends = (_at(flat, marks[0].x), _at(flat, marks[-1].x))
        series.append(Series(label=f"level D, gate {gate}", marks=ends, joined=True, baseline=True))
    if not series:
        return None
    return Chart(
        id=f"worlds-{tier}-curve",
        title=f"{TIERS[tier].capitalize()}: what level E's recovery must achieve to pay",
        description="Cost per verified success over the chance with which a fitting recovery makes"
        " the agent leave its habit, which is a parameter here and no finding. Bars: 95 %.",
        x_label="chance of recovery (rho)",
        y_label="cost per verified success, millions",
        series=tuple(series),
    )


def _at(mark: Mark, x: float) -> Mark:
    return Mark(x=x, y=mark.y, low=mark.low, high=mark.high)


def _twins(twins: Discrimination) -> Section:
    best = max(
        one.both_right / one.reachable if one.reachable else 0.0 for one in twins.contestants
    )
    return Section(
        id="twins",
        title="Twins: pathologies and their legitimate likenesses",
        level=3,
        sentences=(
            f"{plural(len(twins.contestants[0].pairs), 'pair')} in {twins.variants} variants each."
            " A contestant is right about a pair when a detector of it stops the pathology within"
            " two thresholds of its onset and never stops the twin. Where both look equal in what"
            " it reads, the pair is beyond it. The best contestant is right about"
            f" {percent(best)} of the pairs within its reach.",
        ),
        tables=(
            Table(
                id="twins-table",
                caption="Discrimination by contestant, exact 95 % intervals over variants",
                columns=columns(
                    "contestant",
                    "inputs",
                    "#both sides right",
                    "#within reach",
                    "share, 95 %",
                    "#variants beyond",
                    "#sides right",
                    "#ceiling",
                ),
                rows=tuple(
                    (
                        word(one.contestant),
                        word(", ".join(one.needs) or "none"),
                        count(one.both_right),
                        count(one.reachable),
                        word(
                            UNKNOWN
                            if one.interval is None
                            else f"{percent(one.interval.low)} to {percent(one.interval.high)}"
                        ),
                        count(one.beyond),
                        count(one.sides_right),
                        count(one.ceiling),
                    )
                    for one in twins.contestants
                ),
            ),
        ),
    )


def _mixtures(tier: str, found: Sensitivity) -> Section:
    left = f" Too few tasks: {listing(found.left_out)}." if found.left_out else ""
    return Section(
        id=f"mixtures-{tier}",
        title=f"{TIERS[tier].capitalize()}: how the ranking moves with the mixture",
        level=3,
        sentences=(found.sentence + left,),
        tables=(
            Table(
                id=f"mixtures-{tier}-table",
                caption="Which contestant costs least per verified success as one habit's share"
                " moves and the others keep their proportions",
                columns=columns("habit", "#tasks", "best at each share", "changes"),
                rows=tuple(_mixture(one) for one in found.habits),
            ),
        ),
    )


def _mixture(one: HabitSensitivity) -> tuple[Cell, ...]:
    points = [
        f"{percent(point.share)}{' (as drawn)' if point.own else ''}: {' and '.join(point.best)}"
        for point in one.points
    ]
    return (
        word(one.habit),
        count(one.tasks),
        word("; ".join(points)),
        word("yes" if one.changes else "no"),
    )


def _beside(bench: BenchResult, audits: Sequence[AuditResult]) -> Section | None:
    """Return the worlds' false stops beside those of recorded runs of the same kind of work."""
    rows: list[tuple[Cell, ...]] = []
    families: Mapping[str, Family] = {
        family.name: family for tier in bench.tiers for family in tier.families
    }
    for application, kind in KINDS.items():
        family = families.get(application)
        for one in (each for audit in audits for each in audit.sets if each.kind == kind):
            if family is None:
                continue
            for name in BESIDE:
                ours = next((r for r in family.rows if r.name == name and r.gate == "verify"), None)
                theirs = next((r for r in one.rows if r.contestant == name), None)
                if ours is None or theirs is None:
                    continue
                rate = theirs.false_stops
                interval = rate.interval
                recorded = UNKNOWN
                if interval is not None and not rate.small:
                    recorded = (
                        f"{percent(rate.tasks_hit / rate.tasks)}"
                        f" [{percent(interval.low)}, {percent(interval.high)}]"
                    )
                rows.append(
                    (
                        word(application),
                        word(one.name),
                        word(name),
                        _cell(ours, "false_stop_rate"),
                        word(f"{recorded} {rate.tasks_hit}/{rate.tasks}"),
                    )
                )
    if not rows:
        return None
    return Section(
        id="worlds-beside",
        title="Worlds beside recorded runs",
        level=3,
        sentences=(
            "False stops in the worlds and on recorded runs of the same kind of work. Where the"
            " intervals lie apart, the worlds are no likeness of those agents.",
        ),
        tables=(
            Table(
                id="worlds-beside-table",
                caption="False stops: worlds under gate verify (n: tasks of S), recordings (n:"
                " tasks with a verified run)",
                columns=columns("application", "set", "contestant", "#worlds", "#recorded"),
                rows=tuple(rows),
            ),
        ),
    )
