"""Tests of the proofs are collected where the extra `prove` is installed, and never skipped."""

from importlib.util import find_spec

import pytest

PROVERS = ("crosshair", "z3")
ABSENT = [name for name in PROVERS if find_spec(name) is None]

collect_ignore = ["test_proofs.py"] if ABSENT else []


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter) -> None:
    """Say in the summary that the tests of the proofs were not selected, and what selects them."""
    if ABSENT:
        terminalreporter.line(f"not selected: test_proofs.py ({', '.join(ABSENT)} not installed)")
