"""How every picture of a report is made: matplotlib's drawing as SVG in the page's own colours.

Theory of operation: matplotlib draws with its hash salt and date fixed, so the same figures give
the same bytes. Its colours are then replaced by those of the page, and its ids made unique by the
picture's own.

Source: the palette is Okabe and Ito's, safe for colour-blind readers (2008).
"""

from __future__ import annotations

import html
import io
import re
from collections.abc import Callable
from contextlib import AbstractContextManager
from typing import TYPE_CHECKING, Protocol, cast

from loopcore.errors import EnvironmentFault
from loopcore.reporting.view import Chart, Plot

if TYPE_CHECKING:
    from matplotlib.figure import Figure

# Colours that stand for the page's own, which are written in their place.
INK, MARK, BASE, GRID = "#010203", "#0072b2", "#d55e00", "#808182"
_PAGE = {
    INK: "currentColor",
    MARK: "var(--mark)",
    BASE: "var(--base)",
    GRID: "var(--line)",
}
WIDTH_INCHES = 7.2
_LABEL_CHARACTERS_MAX = 40
_SETTINGS: dict[str, object] = {
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


class _Settings(Protocol):
    """The part of matplotlib itself that is used here."""

    def rc_context(self) -> AbstractContextManager[object]:
        """Put the settings back at the end."""
        ...


class _Saved(Protocol):
    """The part of matplotlib's figure that is used here."""

    def savefig(self, file: io.StringIO, /, **options: object) -> object:
        """Write the figure."""
        ...


def drawn(picture: Plot | Chart, height_inches: float, draw: Callable[[Figure], None]) -> str:
    """Return the picture as one SVG element with a title for those who do not see it.

    Arguments: draw puts everything on a figure of the page's width and this height.

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
    with cast("_Settings", mpl).rc_context():
        cast("dict[str, object]", mpl.rcParams).update(_SETTINGS)
        figure = Figure(figsize=(WIDTH_INCHES, height_inches), layout="constrained")
        FigureCanvasSVG(figure)
        draw(figure)
        text = io.StringIO()
        cast("_Saved", figure).savefig(
            text, format="svg", transparent=True, metadata={"Date": None}
        )
    return _for_page(text.getvalue(), picture)


def label_text(text: str) -> str:
    """Return a label that the plot's font has every sign of."""
    plain = text.encode("ascii", "backslashreplace").decode()
    plain = "".join(sign if sign.isprintable() else "?" for sign in plain)
    if len(plain) > _LABEL_CHARACTERS_MAX:
        return plain[: _LABEL_CHARACTERS_MAX - 3] + "..."
    return plain


def _for_page(text: str, picture: Plot | Chart) -> str:
    """Return the drawing without its head, under the page's colours and with ids of its own."""
    text = _HEAD.sub("", text)
    for own, page in _PAGE.items():
        text = text.replace(own, page)
    prefix = html.escape(picture.id, quote=True)
    text = _ID.sub(rf'id="{prefix}-\1"', text)
    text = _REFERENCE.sub(rf"\1{prefix}-\2", text)
    title = html.escape(picture.title, quote=True)
    opening = f'<svg role="img" aria-label="{title}" class="plot" '
    return text.replace("<svg ", opening, 1).strip()
