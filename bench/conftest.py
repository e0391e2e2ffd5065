"""Benchmarks report ratios to a calibration loop that runs beside them, never bare times.

Theory of operation: the loop is plain arithmetic, so its time says how fast the interpreter is on
this machine now. It is timed before and after each benchmark, and the minimum counts. A ratio says
how many turns of the loop one step of a piece costs; it stands in `extra_info` of the saved result
and in the summary.

Source: spec control, section 7.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Protocol

import pytest

LOOP_TURNS = 10_000
CALIBRATION_ROUNDS = 30
ROUNDS = 60
ITERATIONS = 5

_RATIOS = pytest.StashKey[dict[str, float]]()


class Least(Protocol):
    """Statistics of the rounds; `min`: seconds of the fastest."""

    min: float


class Timed(Protocol):
    """What a benchmark that ran has."""

    stats: Least


class Benchmark(Protocol):
    """What is used of the fixture `benchmark` of pytest-benchmark."""

    # None where benchmarks are switched off.
    stats: Timed | None
    extra_info: dict[str, float]

    def pedantic(
        self, target: Callable[[], object], *, rounds: int, iterations: int, warmup_rounds: int
    ) -> object:
        """Time the target, `iterations` calls a round."""
        ...


class Measure(Protocol):
    """Benchmarks a call as a ratio to the calibration loop."""

    def __call__(
        self, call: Callable[[], object], per: int, less: Callable[[], object] | None = None
    ) -> None:
        """Benchmark a call of `per` steps; `less`: a call whose time is not the piece's own."""
        ...


def loop_seconds() -> float:
    """Return the least time that one turn of the calibration loop takes now."""
    return least_seconds(_loop, LOOP_TURNS)


def _loop() -> int:
    total = 0
    for turn in range(LOOP_TURNS):
        total = (total * 31 + turn) & 0xFFFF
    return total


def least_seconds(call: Callable[[], object], per: int) -> float:
    """Return the least time of a call, a step."""
    times: list[float] = []
    for _ in range(CALIBRATION_ROUNDS):
        began = time.perf_counter()
        call()
        times.append(time.perf_counter() - began)
    return min(times) / per


@pytest.fixture
def measure(benchmark: Benchmark, request: pytest.FixtureRequest) -> Measure:
    """Return what benchmarks a call and keeps its ratio for the summary."""

    def run(call: Callable[[], object], per: int, less: Callable[[], object] | None = None) -> None:
        before = loop_seconds()
        benchmark.pedantic(call, rounds=ROUNDS, iterations=ITERATIONS, warmup_rounds=1)
        other = 0.0 if less is None else least_seconds(less, per)
        if benchmark.stats is None:
            # Benchmarks were switched off: the call has run, and nothing was timed.
            return
        ratio = (benchmark.stats.stats.min / per - other) / min(before, loop_seconds())
        benchmark.extra_info["ratio"] = ratio
        benchmark.extra_info["per"] = per
        # The node is that of the function that asked for the fixture.
        name: str = request.node.name
        request.config.stash.setdefault(_RATIOS, {})[name] = ratio

    return run


def pytest_terminal_summary(
    terminalreporter: pytest.TerminalReporter, config: pytest.Config
) -> None:
    """Write the ratio of every benchmark that ran."""
    none: dict[str, float] = {}
    for name, ratio in config.stash.get(_RATIOS, none).items():
        terminalreporter.line(f"{name}: {ratio:.2f} turns of the calibration loop a step or event")
