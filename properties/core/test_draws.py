"""A draw is a function of seed, application, number, turn and purpose, one at a time or as arrays.

Mutants that this claim must notice: a constant of the scalar form changed, the purpose left out of
the place, the seed's high bits dropped, the vectorised form shifted by 12 instead of 11.
"""

from __future__ import annotations

import numpy as np
import pytest

from loopcore.worlds import purposes
from loopcore.worlds.draws import PURPOSES_MAX, Draws, mixed, uniforms
from loopcore.worlds.habits import OUTAGES_OF_FLAKY, PREMATURE_CLAIMS, WAITS_OF_POLLER
from loopcore.worlds.model import APPLICATIONS
from loopcore.worlds.playing import RECOVERY_COSTS

SEEDS = (0, 1, -1, 7, 2**63, 2**64 + 7, -(2**70))
NUMBERS = (0, 1, 2, 999_999, 2**40)
# The first outputs of SplitMix64 from the state 1234567, as its authors' C code prints them.
PUBLISHED = (
    6457827717110365317,
    3203168211198807973,
    9817491932198370423,
    4593380528125082431,
    16408922859458223821,
)


def test_the_generator_gives_the_published_outputs_of_splitmix64() -> None:
    golden = 0x9E3779B97F4A7C15
    outputs = [mixed(1234567 + place * golden) for place in range(1, len(PUBLISHED) + 1)]
    assert tuple(outputs) == PUBLISHED


@pytest.mark.parametrize("seed", SEEDS)
def test_arrays_hold_the_numbers_that_single_tasks_get(seed: int) -> None:
    for application in (*APPLICATIONS, "another"):
        for turn, purpose in ((0, 0), (1, 5), (120, 63), (10_000, 17)):
            vector = uniforms(seed, application, np.array(NUMBERS, np.int64), turn, purpose)
            single = [Draws(seed, application, n).uniform(turn, purpose) for n in NUMBERS]
            assert vector.tolist() == single


def test_every_part_of_the_key_changes_the_draw() -> None:
    keys = {
        (seed, application, number, turn, purpose)
        for seed in SEEDS
        for application in APPLICATIONS
        for number in NUMBERS
        for turn in (0, 1, 2)
        for purpose in (0, 1, 63)
    }
    words = {Draws(*key[:3]).word(*key[3:]) for key in keys}
    assert len(words) == len(keys)


def test_draws_fill_the_unit_interval_evenly_and_independently() -> None:
    numbers = np.arange(40_000)
    first = uniforms(3, "coding", numbers, 1, 0)
    second = uniforms(3, "coding", numbers, 1, 1)
    neighbour = uniforms(3, "coding", numbers + 1, 1, 0)
    assert float(first.min()) >= 0.0
    assert float(first.max()) < 1.0
    counts = np.bincount((first * 20).astype(np.int64), minlength=20)
    # 19 degrees of freedom: the statistic passes 50 in one of ten thousand honest generators.
    assert float(((counts - 2_000.0) ** 2 / 2_000.0).sum()) < 50.0
    for other in (second, neighbour):
        assert abs(float(np.corrcoef(first, other)[0, 1])) < 0.02


def test_no_two_purposes_of_a_task_share_a_place() -> None:
    most = {
        "WAIT_POLLS": WAITS_OF_POLLER[1],
        "WAIT_TURNS": WAITS_OF_POLLER[1],
        "OUTAGE_TURNS": OUTAGES_OF_FLAKY[1],
        "OUTAGE_LENGTHS": OUTAGES_OF_FLAKY[1],
        "CLAIM_TURNS": PREMATURE_CLAIMS[1],
        "LEAVING": len(RECOVERY_COSTS),
    }
    of_acts = {"INTENT", "DETAIL", "USAGE", "MEASURED", "JUDGED", "RETRY", "CHECK", "LEAVING"}
    values = {name: value for name, value in vars(purposes).items() if name.isupper()}
    values.pop("PLAN_TURN")
    for group in (values.keys() - of_acts, of_acts):
        places = [values[name] + extra for name in group for extra in range(most.get(name, 1))]
        assert len(places) == len(set(places))
        assert max(places) < PURPOSES_MAX
