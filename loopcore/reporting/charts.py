"""A chart as inline SVG: points and lines over two axes, told apart by sign and not by colour.

Theory of operation: every series has a sign of its own and stands in the legend below; bounds are
drawn as bars, or as thin lines beside a line.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Protocol, cast

from loopcore.reporting.drawing import BASE, GRID, INK, MARK, drawn, label_text
from loopcore.reporting.view import Chart, Series

if TYPE_CHECKING:
    from matplotlib.figure import Figure

HEIGHT_INCHES, LEGEND_ROW_INCHES, LEGEND_COLUMNS = 3.4, 0.2, 2
# Signs that stay apart in one colour; a chart with more series uses them again, hollow.
SIGNS = ("o", "s", "^", "D", "v", "P", "X", "*", "<", ">")


class _Axes(Protocol):
    """The part of matplotlib's axes that is used here, with its types whole."""

    def plot(self, x: Sequence[float], y: Sequence[float], form: str, /, **style: object) -> object:
        """Draw a line or marks."""
        ...

    def vlines(
        self, x: Sequence[float], low: Sequence[float], high: Sequence[float], /, **style: object
    ) -> object:
        """Draw bars."""
        ...

    def set_xlabel(self, text: str, /) -> object:
        """Write what the axis shows."""
        ...

    def set_ylabel(self, text: str, /) -> object:
        """Write what the axis shows."""
        ...

    def grid(self, **style: object) -> object:
        """Draw the grid."""
        ...

    def set_axisbelow(self, value: bool, /) -> object:
        """Put the grid behind the marks."""
        ...


class _Legended(Protocol):
    """The part of matplotlib's figure that names its series."""

    def legend(self, **style: object) -> object:
        """Draw what each sign means."""
        ...


def svg(chart: Chart) -> str:
    """Return the chart as one SVG element with a title for those who do not see it.

    Errors: EnvironmentFault where matplotlib is not installed.
    """

    def draw(figure: Figure) -> None:
        axes = cast("_Axes", figure.subplots())
        for place, series in enumerate(chart.series):
            _draw(axes, series, place)
        axes.set_xlabel(chart.x_label)
        axes.set_ylabel(chart.y_label)
        axes.grid(linewidth=0.4)
        axes.set_axisbelow(True)
        cast("_Legended", figure).legend(
            loc="outside lower left", ncols=LEGEND_COLUMNS, frameon=False
        )

    rows = -(-len(chart.series) // LEGEND_COLUMNS)
    return drawn(chart, HEIGHT_INCHES + LEGEND_ROW_INCHES * rows, draw)


def _draw(axes: _Axes, series: Series, place: int) -> None:
    """Draw one series under a sign of its own."""
    colour = BASE if series.baseline else MARK
    hollow = place >= len(SIGNS)
    x, y = [mark.x for mark in series.marks], [mark.y for mark in series.marks]
    bars = [mark for mark in series.marks if mark.low is not None and mark.high is not None]
    axes.vlines(
        [mark.x for mark in bars],
        [mark.low or 0.0 for mark in bars],
        [mark.high or 0.0 for mark in bars],
        color=GRID if series.joined else colour,
        linewidth=1.2,
    )
    sign = SIGNS[place % len(SIGNS)]
    axes.plot(
        x,
        y,
        f"{sign}-" if series.joined else sign,
        color=colour,
        markeredgecolor=INK if hollow else colour,
        markerfacecolor="none" if hollow else colour,
        markersize=6,
        linewidth=1.2,
        label=label_text(series.label),
    )
