"""A level served by another process decides as its naive model does, reasons and strategies too.

The naive model reads values and the served level reads bytes, so what a field means on the way
(numbers, nulls, limits that overlay) is compared as well as what is decided.

Killers: a field that the wire drops, a null limit read as the default, a `start` that keeps
something of the run before, all of which one process answers here.
"""

from __future__ import annotations

import shlex
import sys
from random import Random
from typing import cast

import pytest

from loopcore.control.levels import LEVELS
from loopcore.testing.checks_controller.playing import plain_limits, plain_observation
from loopcore.testing.contract import Json
from loopcore.testing.controller_targets import open_controller
from loopcore.testing.naive_controllers import NaiveController
from loopcore.testing.targets import TargetSpec
from properties.core.seeded_control_runs import seeded_limits, seeded_run

# Sequences a level. Each has seeds of its own.
SEQUENCES = 60
SEQUENCES_SLOW = 5_000


def served_level_agrees(level: str, seeds: range) -> None:
    """Compare every answer of `loopcore serve --level` to those of the naive model."""
    words = [sys.executable, "-m", "loopcore", "serve", "--level", level]
    served = open_controller(TargetSpec(command=shlex.join(words), kind="controller"))
    try:
        assert served.name == level
        for seed in seeds:
            random = Random(seed)
            limits, run = seeded_limits(random), seeded_run(random)
            naive = NaiveController(level)
            naive.start(limits)
            served.start(cast("Json", plain_limits(limits)))
            for seen in run:
                said = served.observe(cast("Json", plain_observation(seen)))
                assert said == naive.observe(seen), f"seed {seed}, turn {seen.turn}"
    finally:
        served.close()


@pytest.mark.parametrize("level", sorted(LEVELS))
def test_a_served_level_and_its_naive_model_agree(level: str) -> None:
    first = 10**6 * ord(level)
    served_level_agrees(level, range(first, first + SEQUENCES))


@pytest.mark.slow
@pytest.mark.parametrize("level", sorted(LEVELS))
def test_a_served_level_and_its_naive_model_agree_at_length(level: str) -> None:
    first = 10**6 * ord(level) + SEQUENCES
    served_level_agrees(level, range(first, first + SEQUENCES_SLOW))
