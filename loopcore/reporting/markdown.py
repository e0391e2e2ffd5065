"""A report as Markdown: the same sentences and cells as the page, without its plots.

Theory of operation: texts come from files that others wrote, so every sign with a meaning in
Markdown or HTML is escaped, and a line break inside a text becomes a space.
"""

from __future__ import annotations

import re
from collections.abc import Iterator

from loopcore.reporting.view import Report, Section, Table

_SPECIAL = re.compile(r"([\\`*_\[\]<>|#~])")
_BREAKS = re.compile(r"\s*[\r\n\v\f\x85\u2028\u2029]+\s*")


def escaped(text: str) -> str:
    """Return the text so that Markdown shows exactly it."""
    return _SPECIAL.sub(r"\\\1", _BREAKS.sub(" ", text)).replace("&", "&amp;")


def render(report: Report) -> str:
    """Return the report as Markdown text."""
    return "\n\n".join(_parts(report)) + "\n"


def _parts(report: Report) -> Iterator[str]:
    yield f"# loopcore report\n\n**{escaped(report.verdict)}**"
    if report.incomplete is not None:
        yield f"**Incomplete: {escaped(report.incomplete)}**"
    yield "\n".join(
        f"- **{escaped(fact.label)}:** {' '.join(escaped(text) for text in fact.sentences)}"
        for fact in report.facts
    )
    for section in report.sections:
        yield from _section(section)


def _section(section: Section) -> Iterator[str]:
    yield f"{'#' * section.level} {escaped(section.title)}"
    if section.note is not None:
        yield f"> {escaped(section.note)}"
    for text in section.sentences:
        yield escaped(text)
    for command in section.commands:
        # Four spaces make a code block that no backtick of a file name can close.
        yield f"    {_BREAKS.sub(' ', command)}"
    for table in section.tables:
        yield _table(table)


def _table(table: Table) -> str:
    lines = [
        [escaped(column.label) for column in table.columns],
        ["---:" if column.numeric else "---" for column in table.columns],
        *([escaped(cell.text) for cell in row] for row in table.rows),
    ]
    body = "\n".join(f"| {' | '.join(line)} |" for line in lines)
    return f"{escaped(table.caption)}\n\n{body}"
