"""A mutate result in words: the kill matrix, what kills alone, what kills nothing, how fast.

Rule: nothing here measures; every line is derived from the result.
"""

from __future__ import annotations

from collections import Counter
from statistics import median

from loopcore.mutation.tables import GENERATED
from loopcore.results import MutantResult, MutateResult

_SHOWN_MAX = 20


def lines_of(result: MutateResult) -> list[str]:
    """Return the text that the command prints."""
    lines = [] if result.subset is None else [result.subset]
    agreed = sum(row.agreed for row in result.trace_cases)
    lines += [f"trace cases  {agreed} / {len(result.trace_cases)} agree", ""]
    for row in [row for row in result.trace_cases if not row.agreed][:_SHOWN_MAX]:
        lines += [f"DISAGREES    {row.id} ({row.operator})"]
        lines += [f"    expected {row.expected}", f"    got      {row.got}"]
    width = max((len(each.id) for each in result.mutants), default=0)
    for each in result.mutants:
        told = " ".join(each.killed_by) or "-"
        lines.append(f"{each.verdict:<10}  {each.id:<{width}}  {each.killer or '-':<8}  {told}")
    return [*lines, "", *_figures(result)]


def _figures(result: MutateResult) -> list[str]:
    counts = Counter(each.verdict for each in result.mutants)
    words = ", ".join(f"{count} {verdict}" for verdict, count in sorted(counts.items()))
    lines = [f"mutants      {len(result.mutants)}: {words or 'none was judged'}"]
    # Generated mutants are judged until the first kill only, so they tell nothing about the others.
    full = [each for each in result.mutants if not each.id.startswith(GENERATED)]
    alone = Counter(each.killed_by[0] for each in full if len(each.killed_by) == 1)
    named = ", ".join(f"{name} ({count})" for name, count in sorted(alone.items()))
    lines.append(f"             {len(full)} of them by hand, held to every judge; of these:")
    lines.append(f"kill alone   {named or 'none'}")
    useful = {name for each in full for name in each.killed_by}
    idle = [name for name in result.properties if name not in useful]
    lines.append(f"kill nothing {', '.join(idle) or 'none'}")
    lines += _speed([each for each in result.mutants if each.verdict == "killed"])
    missed = [each.id for each in missed_by_killer(result)]
    if missed:
        lines.append(f"killed by others than the property named: {', '.join(missed)}")
    if result.interrupted:
        lines.append("interrupted: what is not listed was not judged")
    return lines


def missed_by_killer(result: MutateResult) -> list[MutantResult]:
    """Return the mutants that are killed, but not by the judge that was named for it."""
    return [
        each
        for each in result.mutants
        if each.verdict == "killed" and each.killer not in each.killed_by
    ]


def _speed(killed: list[MutantResult]) -> list[str]:
    if not killed:
        return []
    slowest = max(killed, key=lambda each: each.seconds)
    longest = max(killed, key=lambda each: each.cases)
    return [
        f"to the kill  median {median(each.cases for each in killed):g} cases, "
        f"{median(each.seconds for each in killed):.3f} s; worst {longest.cases} cases "
        f"({longest.id}), {slowest.seconds:.2f} s ({slowest.id})"
    ]


def markdown(result: MutateResult) -> str:
    """Return the kill matrix as a Markdown file."""
    head = ["mutant", "verdict", "killer", *result.properties]
    rows = ["| " + " | ".join(head) + " |", "|" + "---|" * len(head)]
    for each in result.mutants:
        marks = ["x" if name in each.killed_by else "" for name in result.properties]
        cells = [f"`{each.id}`", each.verdict, each.killer or "", *marks]
        rows.append("| " + " | ".join(cells) + " |")
    equivalent = [each for each in result.mutants if each.verdict == "equivalent"]
    arguments = [f"- `{each.id}`: {each.reason}" for each in equivalent]
    notes = "\n".join(f"    {line}" for line in _figures(result))
    subset = "" if result.subset is None else f"This is a {result.subset}.\n\n"
    matrix = "\n".join(rows)
    told = "\n".join(arguments) or "None."
    return f"# Kill matrix\n\n{subset}{notes}\n\n{matrix}\n\n## Equivalent mutants\n\n{told}\n"
