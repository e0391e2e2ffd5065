"""Tests that need something from outside are selected by naming it, never skipped.

A marker in the table below says what a test needs; the environment variable beside it says where
that is. Where the variable is not set, the tests are not selected and the summary says so.

No test depends on how fast the machine is, nor on chance: Hypothesis draws the same examples in
every run and has no deadline.
"""

import os

import pytest
from hypothesis import HealthCheck, settings

settings.register_profile(
    "loopcore", deadline=None, derandomize=True, suppress_health_check=[HealthCheck.too_slow]
)
settings.load_profile("loopcore")

SELECTED_BY = {"postgres": "LOOPCORE_POSTGRES_DSN", "recordings": "LOOPCORE_RECORDINGS"}


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Take out the tests whose need is not named in the environment."""
    absent = {marker for marker, variable in SELECTED_BY.items() if not os.environ.get(variable)}
    out = [item for item in items if any(item.get_closest_marker(name) for name in absent)]
    if out:
        config.hook.pytest_deselected(items=out)
        items[:] = [item for item in items if item not in set(out)]


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter) -> None:
    """Say in the summary which tests were not selected, and what selects them."""
    for marker, variable in SELECTED_BY.items():
        if not os.environ.get(variable):
            terminalreporter.line(f"not selected: tests marked {marker} ({variable} is not set)")
