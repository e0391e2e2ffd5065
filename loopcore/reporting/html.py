"""A report as one HTML file: no script, no address that a browser would fetch, no date.

Theory of operation: the template is filled with escaping on; the only text that passes unescaped is
the SVG that `drawing` has made and escaped itself.
"""

from __future__ import annotations

from pathlib import Path

from loopcore.errors import EnvironmentFault
from loopcore.reporting import charts
from loopcore.reporting.plots import svg
from loopcore.reporting.view import Report

TEMPLATE = "assess.html.j2"


def templates() -> Path:
    """Return the folder of templates: beside the package in a checkout, inside it in a wheel."""
    package = Path(__file__).resolve().parents[1]
    for place in (package / "reports" / "templates", package.parent / "reports" / "templates"):
        if (place / TEMPLATE).is_file():
            return place
    raise EnvironmentFault(f"the template {TEMPLATE} is missing from this installation of loopcore")


def render(report: Report) -> str:
    """Return the report as HTML; the same report gives the same text.

    Errors: EnvironmentFault where jinja2 or matplotlib is not installed.
    """
    try:
        from jinja2 import Environment, FileSystemLoader, StrictUndefined
    except ImportError:
        raise EnvironmentFault(
            "the report needs the extra `report`: install loopcore[report]"
        ) from None
    from markupsafe import Markup

    environment = Environment(
        loader=FileSystemLoader(templates()),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
        keep_trailing_newline=True,
    )
    drawings = {plot.id: Markup(svg(plot)) for section in report.sections for plot in section.plots}
    drawings |= {
        chart.id: Markup(charts.svg(chart))
        for section in report.sections
        for chart in section.charts
    }
    return environment.get_template(TEMPLATE).render(report=report, drawings=drawings)
