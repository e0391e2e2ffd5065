"""What a report shows, before it has a form: sections of sentences, tables and plots.

Theory of operation: every figure of a report is written once, as a `Cell` of this model, with the
text that a person reads and the number behind it. HTML, Markdown and JSON are three spellings of
the one model, so they cannot disagree.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Literal

import msgspec

REPORT_SCHEMA = "loopcore/report/1"
UNKNOWN = "unknown"

Tone = Literal["plain", "good", "bad", "doubt"]
# What the whole report says. `survived`: nothing is broken, but a planted fault was missed;
# `nothing`: no property was verified.
Outcome = Literal["held", "broken", "survived", "unknown", "nothing"]


class Cell(msgspec.Struct, frozen=True, kw_only=True):
    """One figure or word: the text to read, and the number behind it where there is one."""

    text: str
    value: int | float | None = None
    tone: Tone = "plain"


class Column(msgspec.Struct, frozen=True, kw_only=True):
    """One column's heading, and whether it holds numbers."""

    label: str
    numeric: bool = False


class Table(msgspec.Struct, frozen=True, kw_only=True):
    """A table; the first cell of a row is its heading."""

    id: str
    caption: str
    columns: tuple[Column, ...]
    rows: tuple[tuple[Cell, ...], ...]


class Bar(msgspec.Struct, frozen=True, kw_only=True):
    """A share with its interval, all from 0 to 1; a None is unknown."""

    share: float | None
    low: float | None
    high: float | None


class PlotRow(msgspec.Struct, frozen=True, kw_only=True):
    """One contestant's false stops and saved steps."""

    label: str
    false_stops: Bar
    saved: Bar
    baseline: bool = False


class Plot(msgspec.Struct, frozen=True, kw_only=True):
    """False stops against saved steps on one set, a row a contestant."""

    id: str
    title: str
    description: str
    rows: tuple[PlotRow, ...]


class Mark(msgspec.Struct, frozen=True, kw_only=True):
    """One point of a chart with the bounds of its height, None where there are none."""

    x: float
    y: float
    low: float | None = None
    high: float | None = None


class Series(msgspec.Struct, frozen=True, kw_only=True):
    """Marks of one name: joined by a line in their order, or each alone."""

    label: str
    marks: tuple[Mark, ...]
    joined: bool = False
    baseline: bool = False


class Chart(msgspec.Struct, frozen=True, kw_only=True):
    """Series over two axes; the axes say their units."""

    id: str
    title: str
    description: str
    x_label: str
    y_label: str
    series: tuple[Series, ...]


class Section(msgspec.Struct, frozen=True, kw_only=True):
    """A chapter (level 2) or a part of one (level 3); `note` stands out as a warning."""

    id: str
    title: str
    level: Literal[2, 3] = 2
    note: str | None = None
    sentences: tuple[str, ...] = ()
    commands: tuple[str, ...] = ()
    plots: tuple[Plot, ...] = ()
    charts: tuple[Chart, ...] = ()
    tables: tuple[Table, ...] = ()


class Fact(msgspec.Struct, frozen=True, kw_only=True):
    """One line of the first screen."""

    label: str
    sentences: tuple[str, ...]
    tone: Tone = "plain"


class Report(msgspec.Struct, frozen=True, kw_only=True):
    """Everything that a report shows; `incomplete` says in words what was not finished."""

    schema: Literal["loopcore/report/1"] = "loopcore/report/1"
    loopcore_version: str
    outcome: Outcome
    verdict: str
    incomplete: str | None
    facts: tuple[Fact, ...]
    sections: tuple[Section, ...]


def word(text: str, tone: Tone = "plain") -> Cell:
    """Return a cell without a number."""
    return Cell(text=text, tone=tone)


def count(number: int, tone: Tone = "plain") -> Cell:
    """Return a cell that holds a count."""
    return Cell(text=grouped(number), value=number, tone=tone)


def grouped(number: int) -> str:
    """Return a count with its thousands apart."""
    return f"{number:,}"


def columns(*labels: str) -> tuple[Column, ...]:
    """Return columns; a label that begins with `#` is one of numbers, without the mark."""
    return tuple(
        Column(label=label.removeprefix("#"), numeric=label.startswith("#")) for label in labels
    )


def plural(number: int, one: str, many: str | None = None) -> str:
    """Return the number with its noun, in the form that fits."""
    return f"{grouped(number)} {one if number == 1 else many or one + 's'}"


def listing(words: Sequence[str], most: int = 8) -> str:
    """Return the words joined by commas; beyond `most`, how many more there are."""
    shown = ", ".join(words[:most])
    rest = len(words) - most
    return f"{shown} and {grouped(rest)} more" if rest > 0 else shown


def plural_of(noun: str) -> str:
    """Return the plural of a kind of thing; a plural stays as it is."""
    if noun.endswith("s"):
        return noun
    return f"{noun[:-1]}ies" if noun.endswith("y") else f"{noun}s"
