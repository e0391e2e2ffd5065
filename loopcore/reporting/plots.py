"""A plot as inline SVG: the same figures give the same bytes, in any theme, without colour too.

Theory of operation: one row a contestant, named at its left, and two panels, false stops and saved
steps, so that no mark hides another and none needs its colour to be told apart: detectors are
round, the calibrated cap is a square.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Protocol, cast

from loopcore.reporting.drawing import BASE, MARK, drawn, label_text
from loopcore.reporting.view import Bar, Plot

if TYPE_CHECKING:
    from matplotlib.figure import Figure

_ROW_INCHES, _FRAME_INCHES = 0.27, 0.85
# A panel ends at the first of these percentages that holds all of its bars.
_EDGES = (5, 10, 25, 50, 100)


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

    def draw(figure: Figure) -> None:
        left, right = figure.subplots(1, 2, sharey=True, gridspec_kw={"wspace": 0.08})
        kinds = [row.baseline for row in plot.rows]
        stops, saved = [row.false_stops for row in plot.rows], [row.saved for row in plot.rows]
        _panel(cast("_Axes", left), stops, kinds, "false stops, % (less is better)")
        _panel(cast("_Axes", right), saved, kinds, "steps saved, % (more is better)")
        left.set_yticks(range(len(plot.rows)), [label_text(row.label) for row in plot.rows])
        left.set_ylim(len(plot.rows) - 0.5, -0.5)

    return drawn(plot, _FRAME_INCHES + _ROW_INCHES * len(plot.rows), draw)


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
