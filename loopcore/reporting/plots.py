"""A plot as inline SVG: the same figures give the same bytes, in any theme, without colour too.

Theory of operation: one row a contestant, named at its left, and two panels, false stops and saved
steps, so that no mark hides another and none needs its colour to be told apart: detectors are
round, the calibrated cap is a square. matplotlib draws with its hash salt and date fixed. Its
colours are then replaced by those of the page, and its ids made unique by the plot's own.

Source: the palette is Okabe and Ito's, safe for colour-blind readers (2008).
"""

from __future__ import annotations

import html
import io
import re
from collections.abc import Sequence
from contextlib import AbstractContextManager
from typing import Protocol, cast

from loopcore.errors import EnvironmentFault
from loopcore.reporting.view import Bar, Chart, Plot

# Colours that stand for the page's own, which are written in their place.
INK, MARK, BASE, GRID = "#010203", "#0072b2", "#d55e00", "#808182"
_PAGE = {
    INK: "currentColor",
    MARK: "var(--mark)",
    BASE: "var(--base)",
    GRID: "var(--line)",
}
WIDTH_INCHES, _ROW_INCHES, _FRAME_INCHES = 7.2, 0.27, 0.85
_LABEL_CHARACTERS_MAX = 40
# A panel ends at the first of these percentages that holds all of its bars.
_EDGES = (5, 10, 25, 50, 100)
SETTINGS: dict[str, object] = {
    "svg.hashsalt": "loopcore",
    "svg.fonttype": "none",
    "text.parse_math": False,
    "font.family": "DejaVu Sans",
    "font.size": 9,
    "text.color": INK,
    "axes.edgecolor": GRID,
    "axes.labelcolor": INK,
    "xtick.color": INK,
    "ytick.color": INK,
    "grid.color": GRID,
    "axes.unicode_minus": False,
    "axes.spines.top": False,
    "axes.spines.right": False,
}
_ID = re.compile(r'\bid="([^"]+)"')
_REFERENCE = re.compile(r'(url\(#|href="#)([^")]+)')
_HEAD = re.compile(r"^.*?(?=<svg\b)|<metadata>.*?</metadata>\s*", re.DOTALL)


class MatplotlibSettings(Protocol):
    """The part of matplotlib itself that is used here."""

    def rc_context(self) -> AbstractContextManager[object]:
        """Put the settings back at the end."""
        ...


class MatplotlibFigure(Protocol):
    """The part of matplotlib's figure that is used here."""

    def savefig(self, file: io.StringIO, /, **options: object) -> object:
        """Write the figure."""
        ...


class _Axes(Protocol):
    """The part of matplotlib's axes that is used here, with its types whole."""

    def plot(self, x: Sequence[float], y: Sequence[float], form: str, /, **style: object) -> object:
        """Draw a line or marks."""
        ...

    def text(self, x: float, y: float, s: str, /, **style: object) -> object:
        """Write a text."""
        ...

    def set_xlim(self, low: float, high: float, /) -> object:
        """Set the range shown."""
        ...

    def set_xlabel(self, text: str, /) -> object:
        """Write what the axis shows."""
        ...

    def set_axisbelow(self, value: bool, /) -> object:
        """Put the grid behind the marks."""
        ...

    def grid(self, **style: object) -> object:
        """Draw the grid."""
        ...

    def tick_params(self, **style: object) -> object:
        """Set how ticks look."""
        ...


def svg(plot: Plot) -> str:
    """Return the plot as one SVG element with a title for those who do not see it.

    Errors: EnvironmentFault where matplotlib is not installed.
    """
    try:
        import matplotlib as mpl
        from matplotlib.backends.backend_svg import FigureCanvasSVG
        from matplotlib.figure import Figure
    except ImportError:
        raise EnvironmentFault(
            "the report needs the extra `report`: install loopcore[report]"
        ) from None
    with cast("MatplotlibSettings", mpl).rc_context():
        cast("dict[str, object]", mpl.rcParams).update(SETTINGS)
        height = _FRAME_INCHES + _ROW_INCHES * len(plot.rows)
        figure = Figure(figsize=(WIDTH_INCHES, height), layout="constrained")
        FigureCanvasSVG(figure)
        left, right = figure.subplots(1, 2, sharey=True, gridspec_kw={"wspace": 0.08})
        kinds = [row.baseline for row in plot.rows]
        stops, saved = [row.false_stops for row in plot.rows], [row.saved for row in plot.rows]
        _panel(cast("_Axes", left), stops, kinds, "false stops, % (less is better)")
        _panel(cast("_Axes", right), saved, kinds, "steps saved, % (more is better)")
        left.set_yticks(range(len(plot.rows)), [label_text(row.label) for row in plot.rows])
        left.set_ylim(len(plot.rows) - 0.5, -0.5)
        text = io.StringIO()
        cast("MatplotlibFigure", figure).savefig(
            text, format="svg", transparent=True, metadata={"Date": None}
        )
    return for_page(text.getvalue(), plot)


def _panel(axes: _Axes, bars: Sequence[Bar], baseline: Sequence[bool], label: str) -> None:
    """Draw one bar a row; what is unknown is said in words at its place."""
    for place, (bar, is_base) in enumerate(zip(bars, baseline, strict=True)):
        colour = BASE if is_base else MARK
        if bar.low is not None and bar.high is not None:
            ends = [100 * max(bar.low, 0), 100 * min(bar.high, 1)]
            axes.plot(ends, [place, place], "-|", color=colour, linewidth=1.6, markersize=7)
        if bar.share is None:
            axes.text(0, place, " unknown", va="center")
        else:
            axes.plot(
                [100 * min(max(bar.share, 0), 1)], [place], "s" if is_base else "o", color=colour
            )
    highest = max((100 * min(end, 1) for bar in bars for end in _ends(bar)), default=0)
    limit = next(edge for edge in _EDGES if edge >= highest)
    axes.set_xlim(-limit / 30, limit * 31 / 30)
    axes.set_xlabel(label)
    axes.grid(axis="x", linewidth=0.4)
    axes.tick_params(axis="y", length=0)
    axes.set_axisbelow(True)


def _ends(bar: Bar) -> tuple[float, ...]:
    return tuple(end for end in (bar.share, bar.low, bar.high) if end is not None)


def label_text(text: str) -> str:
    """Return a label that the plot's font has every sign of."""
    plain = text.encode("ascii", "backslashreplace").decode()
    plain = "".join(sign if sign.isprintable() else "?" for sign in plain)
    if len(plain) > _LABEL_CHARACTERS_MAX:
        return plain[: _LABEL_CHARACTERS_MAX - 3] + "..."
    return plain


def for_page(text: str, plot: Plot | Chart) -> str:
    """Return the drawing without its head, under the page's colours and with ids of its own."""
    text = _HEAD.sub("", text)
    for own, page in _PAGE.items():
        text = text.replace(own, page)
    prefix = html.escape(plot.id, quote=True)
    text = _ID.sub(rf'id="{prefix}-\1"', text)
    text = _REFERENCE.sub(rf"\1{prefix}-\2", text)
    title = html.escape(plot.title, quote=True)
    opening = f'<svg role="img" aria-label="{title}" class="plot" '
    return text.replace("<svg ", opening, 1).strip()
