"""The chapters on what was verified: properties, coverage, planted faults, lab.

Theory of operation: each function turns one result into a section, or into none where there is no
result. Counts are taken over as they are; nothing is judged again.

Source: spec verification, sections 1 to 4.
"""

from __future__ import annotations

from collections import Counter

from loopcore.lab import LabReport
from loopcore.reporting.verdict import what_subset
from loopcore.reporting.view import (
    Cell,
    Section,
    Table,
    Tone,
    columns,
    count,
    listing,
    plural,
    plural_of,
    word,
)
from loopcore.results import MutantResult, MutateResult, PropertyResult, VerifyResult

_TONES: dict[str, Tone] = {
    "held": "good",
    "broken": "bad",
    "unknown": "doubt",
    "not exercised": "doubt",
    "not applicable": "plain",
}
_FATES: dict[str, Tone] = {
    "killed": "good",
    "survived": "bad",
    "broken": "doubt",
    "equivalent": "plain",
}
NAMED, ALSO = "●", "○"
DISAGREEMENTS_MAX = 200
LABELS_MAX = 40


def properties(verify: VerifyResult) -> Section:
    """Return the table of verdicts, and what was wrong where something was."""
    amiss = [
        f"{one.id} {one.verdict}: {one.reason or 'no reason was given'}"
        + (
            f" The smallest counterexample is in {one.counterexample}."
            if one.counterexample
            else ""
        )
        for one in verify.properties
        if one.verdict not in ("held", "not applicable")
    ]
    aside = [
        f"{one.id} does not apply: {one.reason or 'no reason was given'}"
        for one in verify.properties
        if one.verdict == "not applicable"
    ]
    cut = "The run was interrupted: rules after the last one listed were not tested."
    return Section(
        id="properties",
        title="Rules, one by one",
        note=cut if verify.interrupted else None,
        sentences=(*amiss, *aside),
        tables=(
            Table(
                id="properties-table",
                caption=f"Each rule under profile {verify.profile}, seed {verify.seed}: its"
                " verdict, the examples that exercised it, and how it is supported",
                columns=columns(
                    "id", "rule", "verdict", "#examples", "#vacuous", "support", "#seconds"
                ),
                rows=tuple(_property(one) for one in verify.properties),
            ),
        ),
    )


def _property(one: PropertyResult) -> tuple[Cell, ...]:
    return (
        word(one.id),
        word(one.statement),
        word(one.verdict, _TONES[one.verdict]),
        count(one.examples),
        count(one.vacuous),
        word(one.support),
        Cell(text=f"{one.seconds:.2f}", value=one.seconds),
    )


def coverage(verify: VerifyResult) -> Section:
    """Return how often each terminal, code, pair and boundary was met, the unmet ones first."""
    tables = [
        Table(
            id=f"coverage-{number}",
            caption=f"{plural_of(kind)}: {sum(times > 0 for times in things.values())} of"
            f" {len(things)} met among generated traces",
            columns=columns("what", "#times met"),
            rows=tuple(
                (word(name), count(times, "plain" if times else "doubt"))
                for name, times in sorted(things.items(), key=lambda item: (item[1] > 0, item[0]))
            ),
        )
        for number, (kind, things) in enumerate(verify.coverage.items())
    ]
    gaps = [
        f"{one.id} never witnessed {listing(one.missing, LABELS_MAX)}."
        for one in verify.properties
        if one.missing
    ]
    if not tables:
        gaps.append("The result holds no coverage.")
    return Section(
        id="coverage",
        title="What the generated traces reached",
        sentences=tuple(gaps),
        tables=tuple(tables),
    )


def mutations(mutate: MutateResult) -> Section:
    """Return the kill matrix of planted faults and the verdicts on altered traces."""
    fates = Counter(str(one.verdict) for one in mutate.mutants)
    summary = ", ".join(f"{fates[fate]} {fate}" for fate in _FATES if fates[fate]) or "none"
    agreed = sum(one.agreed for one in mutate.trace_cases)
    sentences = [
        f"{plural(len(mutate.mutants), 'fault')} planted in the evaluator: {summary}.",
        f"{plural(len(mutate.trace_cases), 'altered trace')} (or receipts): {agreed} judged exactly"
        " as expected.",
    ]
    idle = _idle(mutate)
    if idle:
        sentences.append(f"Rules that caught none of these faults: {listing(idle, LABELS_MAX)}.")
    notes = [f"This is a subset: {what_subset(mutate)}."] if mutate.subset else []
    if mutate.interrupted:
        notes.append("Interrupted: what stands here is what was finished.")
    tables = [_faults(mutate), _matrix(mutate), _operators(mutate), _disagreements(mutate)]
    return Section(
        id="mutations",
        title="Would the tests notice a fault?",
        note=" ".join(notes) or None,
        sentences=tuple(sentences),
        tables=tuple(table for table in tables if table.rows),
    )


def _idle(mutate: MutateResult) -> list[str]:
    useful = {name for one in mutate.mutants for name in one.killed_by}
    return [name for name in mutate.properties if name not in useful] if mutate.mutants else []


def _faults(mutate: MutateResult) -> Table:
    subset = " (subset)" if mutate.subset else ""
    return Table(
        id="faults",
        caption=f"Planted faults{subset}: what became of each, and the cases and seconds until a"
        " rule first caught it",
        columns=columns(
            "fault", "what it does", "verdict", "named rule", "caught by", "#cases", "#seconds"
        ),
        rows=tuple(
            (
                word(one.id),
                word(one.reason),
                word(one.verdict, _FATES[one.verdict]),
                word(one.killer or "none"),
                word(listing(one.killed_by, LABELS_MAX) or "none"),
                count(one.cases),
                Cell(text=f"{one.seconds:.2f}", value=one.seconds),
            )
            for one in mutate.mutants
        ),
    )


def _matrix(mutate: MutateResult) -> Table:
    subset = ", a subset" if mutate.subset else ""
    return Table(
        id="kill-matrix",
        caption=f"Kill matrix{subset}: {NAMED} the rule that was named to catch the fault does,"
        f" {ALSO} another rule does too; a fault made from a table stops at its first rule",
        columns=columns("fault", *mutate.properties),
        rows=tuple(
            (word(one.id), *(word(_mark(one, name)) for name in mutate.properties))
            for one in mutate.mutants
            if one.verdict != "equivalent"
        ),
    )


def _mark(one: MutantResult, name: str) -> str:
    if name not in one.killed_by:
        return ""
    return NAMED if name == one.killer else ALSO


def _operators(mutate: MutateResult) -> Table:
    whole = Counter(one.operator for one in mutate.trace_cases)
    agreed = Counter(one.operator for one in mutate.trace_cases if one.agreed)
    return Table(
        id="operators",
        caption="Altered traces and receipts by operator: how many got the exact verdict expected",
        columns=columns("operator", "#cases", "#as expected"),
        rows=tuple(
            (
                word(name),
                count(number),
                count(agreed[name], "good" if agreed[name] == number else "bad"),
            )
            for name, number in sorted(whole.items())
        ),
    )


def _disagreements(mutate: MutateResult) -> Table:
    amiss = [one for one in mutate.trace_cases if not one.agreed]
    return Table(
        id="disagreements",
        caption=f"Altered traces that got another verdict: {len(amiss)}"
        + (f", the first {DISAGREEMENTS_MAX} shown" if len(amiss) > DISAGREEMENTS_MAX else ""),
        columns=columns("case", "operator", "expected", "got"),
        rows=tuple(
            (word(one.id), word(one.operator), word(one.expected), word(one.got, "bad"))
            for one in amiss[:DISAGREEMENTS_MAX]
        ),
    )


def laboratory(lab: LabReport) -> Section:
    """Return the table of the lab's cases."""
    return Section(
        id="lab",
        title="The lab",
        sentences=(
            f"{lab.passed} of {lab.total} cases ended as they should, under"
            f" {lab.evaluator_release}.",
        ),
        tables=(
            Table(
                id="lab-table",
                caption="Reference cases, each cut after the step that ends it",
                columns=columns("case", "expected", "got", "#at step"),
                rows=tuple(
                    (
                        word(row.name),
                        word(row.expected),
                        word(row.terminal, "good" if row.passed else "bad"),
                        word("none")
                        if row.terminal_sequence is None
                        else count(row.terminal_sequence),
                    )
                    for row in lab.cases
                ),
            ),
        ),
    )
