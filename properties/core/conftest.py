"""What the tests of the core share, and which of them are collected.

Tests of the proofs are collected where the extra `prove` is installed, and never skipped.
"""

from collections.abc import Iterator
from importlib.util import find_spec

import pytest

from loopcore.mutation.nursery import Nursery

PROVERS = ("crosshair", "z3")
ABSENT = [name for name in PROVERS if find_spec(name) is None]

collect_ignore = ["test_proofs.py"] if ABSENT else []


@pytest.fixture(scope="session")
def mutant_nursery() -> Iterator[Nursery]:
    """Yield one process in which samples of mutants are judged, so that each need not start its."""
    with Nursery() as found:
        yield found


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter) -> None:
    """Say in the summary that the tests of the proofs were not selected, and what selects them."""
    if ABSENT:
        terminalreporter.line(f"not selected: test_proofs.py ({', '.join(ABSENT)} not installed)")
