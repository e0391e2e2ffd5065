"""On the recorded runs the importers and the replay reproduce figures that others computed before.

Selected by `LOOPCORE_RECORDINGS`, the folder that holds the recordings. The figures were computed
independently of this code: false stops of naive rules on the successes, and the share of the
failed runs' steps that they save.

Differences, each shown below rather than tuned away:
- mini-swe-agent 1, total-3: 22.5 % here, 23.1 % there. A step here is a dispatched action; there
  the 45 answers with another number of code blocks than one counted as steps although they
  dispatched nothing. Counted in turns, this code gives 23.1 %.
- WebShop: 5.5 %, 4.2 % and 7.1 % here, 2.1 %, 1.8 % and 7.5 % there. A `think[…]` here is a
  thought, which dispatches nothing and neither ends nor extends a streak; there it was an action.
  With `thoughts_are_calls` this code gives the three figures to the digit.
"""

import os
from pathlib import Path

import pytest

from loopcore.comparison.contestants import NAIVE, contestants
from loopcore.comparison.replay import Stop, replay
from loopcore.recordings import webshop
from loopcore.recordings.load import load
from loopcore.recordings.model import Loaded, Run
from loopcore.recordings.reading import read_json

pytestmark = pytest.mark.recordings

# Set: runs, successes.
COUNTS = {
    "tau-bench": (182, 80),
    "tau2": (160, 116),
    "InterCode": (1918, 1039),
    "mini-swe-agent 1.1": (23, 8),
    "mini-swe-agent 1": (47, 32),
    "WebShop": (500, 179),
}
# Set: for each naive rule, false stops and the share of the failed runs' actions saved, per cent.
FIGURES = {
    "tau-bench": [(1, 2.1), (0, 0.0), (0, 2.0)],
    "tau2": [(7, 59.2), (4, 57.9), (4, 58.2)],
    "InterCode": [(17, 34.4), (5, 22.0), (9, 26.0)],
    "mini-swe-agent 1.1": [(0, 0.0), (0, 0.0), (7, 32.5)],
    "mini-swe-agent 1": [(0, 0.0), (0, 0.0), (13, 22.5)],
    "WebShop": [(0, 5.5), (0, 4.2), (0, 7.1)],
}
WEBSHOP_WITH_THOUGHTS = [(0, 2.1), (0, 1.8), (0, 7.5)]
MINI_1_TOTAL_3_IN_TURNS = 23.1


@pytest.fixture(scope="module")
def recorded() -> Loaded:
    """Return everything that the recordings hold."""
    return load([os.environ["LOOPCORE_RECORDINGS"]])


def replayed(runs: tuple[Run, ...], rule: str) -> list[tuple[Run, Stop]]:
    contestant = next(one for one in contestants() if one.name == rule)
    return [(run, replay(run, contestant)) for run in runs]


def figures(runs: tuple[Run, ...]) -> list[tuple[int, float]]:
    found: list[tuple[int, float]] = []
    for rule in NAIVE:
        pairs = replayed(runs, rule)
        failed = [stop for run, stop in pairs if run.success is False]
        share = sum(stop.steps_saved for stop in failed) / sum(stop.steps for stop in failed)
        false_stops = sum(stop.false_stop is True for _, stop in pairs)
        found.append((false_stops, round(100 * share, 1)))
    return found


def test_every_file_is_read_and_every_run_is_counted(recorded: Loaded) -> None:
    assert recorded.problems == ()
    counts = {
        name: (len(runs), sum(run.success is True for run in runs))
        for name, runs in recorded.sets()
    }
    assert counts == COUNTS
    assert sum(runs for runs, _ in counts.values()) == 2830
    assert sum(successes for _, successes in counts.values()) == 1454


def test_runs_without_a_call_are_listed(recorded: Loaded) -> None:
    without = [one for one in recorded.listed if one.reason == "no agent call"]
    assert {one.set for one in without} == {"tau-bench"}
    assert len(without) == 18
    assert sum(one.success is True for one in without) == 4


@pytest.mark.parametrize("name", FIGURES)
def test_the_naive_rules_do_what_they_did_before(name: str, recorded: Loaded) -> None:
    assert figures(dict(recorded.sets())[name]) == FIGURES[name]


def test_the_shop_figures_differ_because_a_thought_is_not_a_call() -> None:
    folder = Path(os.environ["LOOPCORE_RECORDINGS"])
    (file,) = folder.rglob("WebShop.ipynb")
    runs = webshop.read(read_json(file), thoughts_are_calls=True).runs
    assert figures(tuple(runs)) == WEBSHOP_WITH_THOUGHTS


def test_the_mini_1_figure_differs_because_a_format_error_is_not_an_action(
    recorded: Loaded,
) -> None:
    pairs = replayed(dict(recorded.sets())["mini-swe-agent 1"], "total-3")
    failed = [(run, stop) for run, stop in pairs if run.success is False]
    # One action a turn, so a blocked action saves its own turn and all later ones.
    saved = sum(
        run.observations[-1].turn - stop.turn + 1 for run, stop in failed if stop.turn is not None
    )
    share = saved / sum(run.observations[-1].turn for run, _ in failed)
    assert round(100 * share, 1) == MINI_1_TOTAL_3_IN_TURNS


def test_failures_at_a_sets_own_cap_are_censored(recorded: Loaded) -> None:
    censored = {name: sum(run.censored for run in runs) for name, runs in recorded.sets()}
    assert censored == {
        "InterCode": 739,
        "WebShop": 35,
        "mini-swe-agent 1": 0,
        "mini-swe-agent 1.1": 0,
        "tau-bench": 5,
        "tau2": 6,
    }


def test_recorded_costs_add_up_and_unpriced_models_stay_unknown(recorded: Loaded) -> None:
    sets = dict(recorded.sets())
    for name in ("mini-swe-agent 1", "mini-swe-agent 1.1"):
        assert all(run.cost_known for run in sets[name])
        assert not any("stated total" in w for run in sets[name] for w in run.warnings)
    unpriced = {run.model for run in sets["tau2"] if not run.cost_known}
    assert len(unpriced) == 1
    assert all(str(model).startswith("ft:") for model in unpriced)


def test_no_observation_of_intercode_carries_what_only_the_oracle_knows(recorded: Loaded) -> None:
    for run in dict(recorded.sets())["InterCode"]:
        assert run.oracle_rewards is not None
        assert all(seen.progress is None and seen.verified is None for seen in run.observations)
