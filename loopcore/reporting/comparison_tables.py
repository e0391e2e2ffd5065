"""The tables on one set of recorded runs, with the calibrated step cap in each.

Theory of operation: false stops on the runs that verified, what was saved on the runs that failed,
every level held against the calibrated cap, and why each contestant stopped. Where fewer than 30
tasks stand behind a share, the share is unknown; counts and exact bounds are shown all the same.

Source: spec control, sections 3 and 5.
"""

from __future__ import annotations

from collections.abc import Sequence

from loopcore.comparison.audit import Difference, Row, Saved, SetResult
from loopcore.comparison.cap import CapResult, Spread
from loopcore.comparison.intervals import UNITS_MIN, Interval, clopper_pearson
from loopcore.reporting.view import UNKNOWN, Cell, Table, columns, count, listing, plural, word

CAP = "calibrated step cap"
# The cap is judged over many splits, so it has shares and no counts.
UNCOUNTED = "–"
SMALL = f"{UNKNOWN} (n < {UNITS_MIN})"
# Contestants that are ours and stop a run by what they see in it or by a budget.
LEVELS_JUDGED = ("B", "C", "D", "C without budgets", "D without budgets")


def percent(share: float) -> str:
    """Return a share as a percentage with one decimal."""
    return f"{100 * share:.1f} %"


def span(interval: Interval | None) -> Cell:
    """Return an interval in per cent, or the word unknown."""
    if interval is None:
        return word(UNKNOWN, "doubt")
    return word(f"{100 * interval.low:.1f} to {100 * interval.high:.1f} %")


def naive(sets: Sequence[SetResult], prefix: str) -> tuple[Table, ...]:
    """Return the rules that look at the call alone, side by side, a row a set."""
    names = [row.contestant for row in sets[0].rows if row.phase == "before"] if sets else []
    if not names:
        return ()
    rows: list[tuple[Cell, ...]] = []
    for one in sets:
        by_name = {row.contestant: row for row in one.rows}
        cells = [word(one.name), word(one.kind)]
        for name in names:
            stops, saved = by_name[name].false_stops, by_name[name].saved
            cells += [Cell(text=f"{stops.hits}/{stops.n}", value=stops.hits), _saved_share(saved)]
        rows.append(tuple(cells))
    heads = [head for name in names for head in (f"#{name}: false stops", f"#{name}: saved")]
    return (
        Table(
            id=f"{prefix}-naive",
            caption="Naive rules that block the K-th identical call: false stops on runs that"
            " verified, and the share of the failed runs' steps saved; a row a set",
            columns=columns("set", "kind", *heads),
            rows=tuple(rows),
        ),
    )


def _blind(row: Row) -> str:
    blind = f" (blind to progress on {plural(row.blind_runs, 'run')})" if row.blind_runs else ""
    return f"{row.contestant}{blind}"


def false_stops(one: SetResult, prefix: str) -> Table:
    """Return the table of false stops on the runs that verified."""
    rows: list[tuple[Cell, ...]] = []
    for row in one.rows:
        found = row.false_stops
        exact = clopper_pearson(found.hits, found.n) if found.n else None
        rows.append(
            (
                word(_blind(row)),
                word(row.phase),
                Cell(text=f"{found.hits}/{found.n}", value=found.hits),
                _share(found.hits / found.n if found.n else None, small=found.small),
                span(exact),
                Cell(text=f"{found.tasks_hit}/{found.tasks}", value=found.tasks_hit),
                span(found.interval),
                count(row.false_stops_by_detectors),
                count(row.false_stops_by_budgets),
                count(row.false_stops_by_gates),
            )
        )
    none = word(UNCOUNTED)
    cap = _mean(one.cap.false_stop_share, small=few_successes(one))
    rows.append((*_cap_head(one.cap), none, cap, _sd(one.cap.false_stop_share), *[none] * 5))
    return Table(
        id=f"{prefix}-false-stops",
        caption=f"{one.name}: false stops on the runs that verified, with exact 95 % intervals on"
        " runs (as if independent) and on tasks; detectors, budgets and gates apart; a contestant"
        " decides before or after dispatch",
        columns=columns(
            "contestant",
            "decides",
            "#runs",
            "#share",
            "#exact 95 %, runs",
            "#tasks",
            "#exact 95 %, tasks",
            "#by detectors",
            "#by budgets",
            "#by gates",
        ),
        rows=tuple(rows) if one.successes else (),
    )


def savings(one: SetResult, prefix: str) -> Table:
    """Return the table of what would have been saved on the runs that failed."""
    rows: list[tuple[Cell, ...]] = []
    for row in one.rows:
        saved = row.saved
        rows.append(
            (
                word(_blind(row)),
                Cell(text=f"{saved.stopped}/{saved.runs}", value=saved.stopped),
                Cell(text=f"{saved.steps_saved:,}/{saved.steps:,}", value=saved.steps_saved),
                _saved_share(saved),
                span(saved.interval),
                count(row.saved_by_detectors),
                count(row.saved_by_budgets),
                _part(row.saved_ended),
                _part(row.saved_censored),
                _money(saved),
            )
        )
    none = word(UNCOUNTED)
    head, _ = _cap_head(one.cap)
    mean = _mean(one.cap.saved_share, small=one.failures < UNITS_MIN)
    rows.append((head, none, none, mean, _sd(one.cap.saved_share), *[none] * 5))
    return Table(
        id=f"{prefix}-saved",
        caption=f"{one.name}: what would have been saved on the runs that failed; 95 % bootstrap"
        " over tasks; failures that ended by themselves and those censored at the set's cap apart",
        columns=columns(
            "contestant",
            "#runs stopped",
            "#steps saved",
            "#share",
            "#bootstrap 95 %",
            "#by detectors",
            "#by budgets",
            "#ended",
            "#censored",
            "#cost saved",
        ),
        rows=tuple(rows) if one.failures else (),
    )


def few_successes(one: SetResult) -> bool:
    """Return whether too few tasks verified for a share of them to be known."""
    return all(row.false_stops.small for row in one.rows)


def _share(share: float | None, *, small: bool) -> Cell:
    if share is None:
        return word(UNKNOWN, "doubt")
    if small:
        return Cell(text=SMALL, tone="doubt")
    return Cell(text=percent(share), value=share)


def _saved_share(saved: Saved) -> Cell:
    return _share(saved.share, small=saved.runs < UNITS_MIN)


def _part(saved: Saved) -> Cell:
    if not saved.runs:
        return word("none")
    text = f"{saved.stopped}/{saved.runs}"
    if saved.share is not None and saved.runs >= UNITS_MIN:
        text += f", {percent(saved.share)}"
    return Cell(text=text, value=saved.stopped)


def _money(saved: Saved) -> Cell:
    if saved.cost_saved_microunits is None or saved.cost_microunits is None:
        return word(UNKNOWN, "doubt")
    spared, spent = saved.cost_saved_microunits / 1e6, saved.cost_microunits / 1e6
    return Cell(
        text=f"{spared:.4f} of {spent:.4f} ({saved.cost_known_runs}/{saved.runs} runs)",
        value=spared,
    )


def _cap_head(cap: CapResult) -> tuple[Cell, Cell]:
    turns = "no cap" if cap.cap_turns is None else f"{cap.cap_turns.mean:.1f} turns on average"
    return word(f"{CAP} ({turns})"), word("after")


def _mean(spread: Spread | None, *, small: bool) -> Cell:
    return _share(None if spread is None else spread.mean, small=small)


def _sd(spread: Spread | None) -> Cell:
    if spread is None:
        return word(UNKNOWN, "doubt")
    return word(f"± {100 * spread.deviation:.1f} % over {spread.n} splits")


def _standing(row: Row, one: SetResult) -> str:
    """Return how a contestant stands to the calibrated cap on one set, in words."""
    ours, cap = row.false_stops, one.cap
    if few_successes(one) or one.failures < UNITS_MIN or row.saved.share is None:
        return SMALL
    if cap.false_stop_share is None or cap.saved_share is None:
        return UNKNOWN
    harm = ours.hits / ours.n - cap.false_stop_share.mean
    gain = row.saved.share - cap.saved_share.mean
    if harm <= 0 <= gain and (harm, gain) != (0, 0):
        return "beats the cap"
    if gain <= 0 <= harm and (harm, gain) != (0, 0):
        return "the cap beats it"
    if (harm, gain) == (0, 0):
        return "equals the cap"
    return (
        "neither is better: it saves more and stops more falsely"
        if gain > 0
        else "neither is better: it stops less falsely and saves less"
    )


def _judged(one: SetResult) -> list[Row]:
    by_name = {row.contestant: row for row in one.rows}
    return [by_name[name] for name in LEVELS_JUDGED if name in by_name]


def against_in_words(one: SetResult) -> str:
    """Return how our levels stand to the calibrated cap on one set, as a sentence."""
    groups: dict[str, list[str]] = {}
    for row in _judged(one):
        groups.setdefault(_standing(row, one), []).append(row.contestant)
    head = "Our levels against the calibrated step cap"
    if set(groups) <= {SMALL, UNKNOWN}:
        return f"{head}: {SMALL if SMALL in groups else UNKNOWN}."
    said = "; ".join(f"{listing(names)}: {words}" for words, names in groups.items())
    return f"{head}: {said}."


def against(one: SetResult, prefix: str) -> Table:
    """Return the table that holds our levels against the calibrated cap."""
    cap = one.cap
    few, failed_few = few_successes(one), one.failures < UNITS_MIN
    rows = tuple(
        (
            word(row.contestant),
            _share(
                row.false_stops.hits / row.false_stops.n if row.false_stops.n else None, small=few
            ),
            _mean(cap.false_stop_share, small=few),
            _share(row.saved.share, small=failed_few),
            _mean(cap.saved_share, small=failed_few),
            word(_standing(row, one)),
        )
        for row in _judged(one)
    )
    return Table(
        id=f"{prefix}-cap",
        caption=f"{one.name}: our levels against the calibrated step cap (alpha {cap.alpha},"
        f" marginal guarantee; means over {cap.splits} splits, {cap.splits_without_cap} of them"
        " without a cap; the cap is judged on the held-out half, a level on all runs)",
        columns=columns(
            "level", "#false stops", "#the cap's", "#steps saved", "#the cap's", "standing"
        ),
        rows=rows,
    )


def reasons(one: SetResult, prefix: str) -> Table:
    """Return the table of why each contestant stopped."""

    def said(counts: dict[str, int]) -> Cell:
        return word(
            ", ".join(f"{name} {times}" for name, times in sorted(counts.items())) or "none"
        )

    rows = [
        (word(row.contestant), said(row.reasons_on_successes), said(row.reasons_on_failures))
        for row in one.rows
    ]
    rows.append((_cap_head(one.cap)[0], word("its one bound"), word("its one bound")))
    return Table(
        id=f"{prefix}-reasons",
        caption=f"{one.name}: why each contestant stopped, and how often",
        columns=columns("contestant", "on runs that verified", "on runs that failed"),
        rows=tuple(rows),
    )


def differences(found: Sequence[Difference], prefix: str) -> Table:
    """Return the table of paired differences between contestants."""
    return Table(
        id=f"{prefix}-differences",
        caption="Paired differences on the same runs (the calibrated cap is judged on other"
        " halves and has its own table)",
        columns=columns("first − second", "#false stops", "#saved share", "#bootstrap 95 %"),
        rows=tuple(
            (
                word(f"{one.first} − {one.second}"),
                Cell(text=f"{one.false_stops:+d}", value=one.false_stops),
                Cell(text=percent(one.saved_share), value=one.saved_share),
                span(one.interval),
            )
            for one in found
        ),
    )
