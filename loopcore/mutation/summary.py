"""A mutate result in words: the kill matrix, what kills alone, what kills nothing, how fast.

Rule: nothing here measures; every line is derived from the result. Hand-written mutants are shown
one by one, as every judge was asked. Generated ones are counted, by the judge that killed them
first; only those that live without an argument are named.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from statistics import median

from loopcore.mutation.tables import GENERATED as TABLES
from loopcore.results import MutantResult, MutateResult

_SHOWN_MAX = 20
_REASON_SHOWN_MAX = 200
# How the ids of generated mutants begin.
GENERATED = (TABLES, "body-")
# Judges that are no properties.
_DATA_JUDGES = ("vectors", "receipts", "doors", "agreement")


def lines_of(result: MutateResult) -> list[str]:
    """Return the text that the command prints."""
    lines = [] if result.subset is None else [result.subset]
    if result.trace_cases:
        agreed = sum(row.agreed for row in result.trace_cases)
        lines += [f"trace cases  {agreed} / {len(result.trace_cases)} agree", ""]
    for row in [row for row in result.trace_cases if not row.agreed][:_SHOWN_MAX]:
        lines += [f"DISAGREES    {row.id} ({row.operator})"]
        lines += [f"    expected {row.expected}", f"    got      {row.got}"]
    written, _ = parted(result)
    width = max((len(each.id) for each in written), default=0)
    for each in written:
        told = " ".join(each.killed_by) or "-"
        lines.append(f"{each.verdict:<10}  {each.id:<{width}}  {each.killer or '-':<8}  {told}")
    return [*lines, "", *_figures(result)]


def parted(result: MutateResult) -> tuple[list[MutantResult], list[MutantResult]]:
    """Return the hand-written mutants and the generated ones."""
    written = [each for each in result.mutants if not each.id.startswith(GENERATED)]
    return written, [each for each in result.mutants if each.id.startswith(GENERATED)]


def _figures(result: MutateResult) -> list[str]:
    written, made = parted(result)
    lines = _of_written(result, written) if written or not made else []
    if made:
        lines += _of_generated(made)
    lines += _unexplained(result)
    missed = [each.id for each in missed_by_killer(result)]
    if missed:
        lines.append(f"killed by others than the judge named: {', '.join(missed)}")
    again = f", {result.resumed} outcomes kept from an earlier run" if result.resumed else ""
    lines.append(f"took         {result.seconds:.0f} s{again}")
    if result.interrupted:
        lines.append("interrupted: what is not listed was not judged")
    return lines


def _of_written(result: MutateResult, written: Sequence[MutantResult]) -> list[str]:
    """Return what the hand-written mutants show, each of which was held to every judge."""
    lines = [f"by hand      {_counted(written)}"]
    killed = [each for each in written if each.verdict == "killed"]
    by_property = [each for each in killed if not _only_by_data(each)]
    names = ", ".join(each.id for each in killed if _only_by_data(each))
    lines.append(
        f"             {len(by_property)} fall to a property, {len(killed) - len(by_property)} "
        f"only to vectors, receipt cases, doors or saved runs{f': {names}' if names else ''}"
    )
    own = [[name for name in each.killed_by if name not in _DATA_JUDGES] for each in killed]
    alone = Counter(each[0] for each in own if len(each) == 1)
    named = ", ".join(f"{name} ({count})" for name, count in sorted(alone.items()))
    lines.append(f"kill alone   {named or 'none'}")
    useful = {name for each in killed for name in each.killed_by}
    idle = [name for name in result.properties if name not in useful]
    lines.append(f"kill nothing {', '.join(idle) or 'none'}")
    return [*lines, *_speed(killed)]


def _of_generated(made: Sequence[MutantResult]) -> list[str]:
    """Return what the generated mutants show, each of which was judged until the first kill."""
    lines = [f"generated    {_counted(made)}"]
    killed = [each for each in made if each.verdict == "killed"]
    for module in sorted({each.module for each in made}):
        own = [each for each in made if each.module == module]
        first = Counter(each.killed_by[0] for each in own if each.killed_by)
        named = ", ".join(f"{name} {count}" for name, count in first.most_common())
        lines.append(f"  {module:<18} {len(own):>4}; first killers: {named or 'none'}")
    return [*lines, *_speed(killed)]


def _unexplained(result: MutateResult) -> list[str]:
    """Return a line for every mutant that should not stand as it does, up to a limit."""
    wrong = [
        each
        for each in result.mutants
        if each.refuted is not None or each.verdict in ("survived", "broken")
    ]
    lines = [
        f"{'REFUTED' if each.refuted else each.verdict.upper():<10} {each.id} in {each.module}: "
        f"{(each.refuted or each.reason)[:_REASON_SHOWN_MAX]}"
        for each in wrong[:_SHOWN_MAX]
    ]
    return [*lines, f"and {len(wrong) - _SHOWN_MAX} more"] if len(wrong) > _SHOWN_MAX else lines


def _counted(mutants: Sequence[MutantResult]) -> str:
    counts = Counter(each.verdict for each in mutants)
    words = ", ".join(f"{count} {verdict}" for verdict, count in sorted(counts.items()))
    able = len(mutants) - counts["equivalent"]
    share = f"; {100 * counts['killed'] / able:g} % of the others killed" if able else ""
    return f"{len(mutants)}: {words or 'none was judged'}{share}"


def _only_by_data(mutant: MutantResult) -> bool:
    return all(name in _DATA_JUDGES for name in mutant.killed_by)


def missed_by_killer(result: MutateResult) -> list[MutantResult]:
    """Return the mutants that are killed, but not by the judge that was named for it."""
    return [
        each
        for each in result.mutants
        if each.verdict == "killed" and each.killer not in each.killed_by
    ]


def _speed(killed: Sequence[MutantResult]) -> list[str]:
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
    written, made = parted(result)
    head = ["mutant", "verdict", "killer", *result.properties]
    rows = ["| " + " | ".join(head) + " |", "|" + "---|" * len(head)]
    for each in written:
        marks = ["x" if name in each.killed_by else "" for name in result.properties]
        cells = [f"`{each.id}`", each.verdict, each.killer or "", *marks]
        rows.append("| " + " | ".join(cells) + " |")
    notes = "\n".join(f"    {line}" for line in _figures(result))
    subset = "" if result.subset is None else f"This is a {result.subset}.\n\n"
    matrix = "\n".join(rows)
    equivalent = [each for each in result.mutants if each.verdict == "equivalent"]
    arguments = [f"- `{each.id}`: {each.reason}" for each in equivalent]
    told = "\n".join(arguments) or "None."
    first = "\n".join(_first_killers(made)) or "None."
    return (
        f"# Kill matrix\n\n{subset}{notes}\n\n{matrix}\n\n## Generated mutants\n\n{first}\n\n"
        f"## Equivalent mutants\n\n{told}\n"
    )


def _first_killers(made: Sequence[MutantResult]) -> list[str]:
    """Return the rows of the table of generated mutants, each with what killed it first."""
    if not made:
        return []
    rows = ["| mutant | first killer | cases | seconds | change |", "|---|---|---|---|---|"]
    for each in made:
        killer = each.killed_by[0] if each.killed_by else each.verdict
        change = each.reason.replace("|", "\\|").replace("`", "'")
        rows.append(f"| `{each.id}` | {killer} | {each.cases} | {each.seconds} | {change} |")
    return rows
