"""The habit model's figures agree with the worlds', and the comparison tells when they do not."""

from __future__ import annotations

from functools import lru_cache

import pytest

from loopcore.comparison.habit_agreement import LEVELS, MEANS, RATES, Agreement, agreement, markdown
from loopcore.worlds.fitting import trajectories
from loopcore.worlds.habit_model import fit, load
from loopcore.worlds.model import APPLICATIONS, HABITS

# Of many intervals of 95 % some few must miss; this many agree or something is wrong.
SHARE_MIN = 0.9
# No rate differs by more in any case.
RATE_GAP_MAX = 0.12


def assert_agreement(result: Agreement) -> None:
    assert result.agreeing >= SHARE_MIN * result.compared, markdown(result)
    for one in result.comparisons:
        world, model = one.stepwise, one.columnar
        if one.figure in RATES and world is not None and model is not None and world.n >= 100:
            assert abs(world.value - model.value) <= RATE_GAP_MAX


@lru_cache(maxsize=1)
def coding() -> Agreement:
    return agreement(
        load(), applications=("coding",), stepwise_tasks=250, columnar_runs=4_000, seed=31
    )


def test_the_figures_of_coding_agree() -> None:
    assert_agreement(coding())


def test_every_level_has_every_figure_in_the_table() -> None:
    result = coding()
    assert len(result.comparisons) == len(LEVELS) * len((*RATES, *MEANS))
    assert result.compared == len(result.comparisons)
    text = markdown(result)
    assert text.startswith(f"Gate verify: {result.agreeing} of {result.compared} figures agree")
    assert all(f"| {level} | {name} |" in text for level in LEVELS for name in (*RATES, *MEANS))


def test_a_model_of_other_habits_does_not_agree() -> None:
    # Every habit is played by the chain of the next one.
    right = fit(list(trajectories("support", 20)))
    chains = right.fitted.applications["support"].chains
    for habit, chain in dict(
        zip(HABITS, [*chains.values()][5:] + [*chains.values()][:5], strict=True)
    ).items():
        chains[habit] = chain
    wrong = agreement(
        right, applications=("support",), stepwise_tasks=200, columnar_runs=2_000, seed=31
    )
    assert wrong.agreeing < SHARE_MIN * wrong.compared
    assert "**no**" in markdown(wrong)


@pytest.mark.slow
@pytest.mark.parametrize("gate", ["verify", "trust"])
def test_the_figures_of_every_application_agree(gate: str) -> None:
    result = agreement(
        load(),
        applications=APPLICATIONS,
        stepwise_tasks=1_500,
        columnar_runs=20_000,
        seed=41,
        gate="verify" if gate == "verify" else "trust",
    )
    assert_agreement(result)
