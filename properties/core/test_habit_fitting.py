"""The fitted model that ships is what the command counts from the worlds as they are."""

from __future__ import annotations

from pathlib import Path

import msgspec
import pytest

from loopcore.worlds.fitting import RUNS, SEED, encoded, fitted, main, probe, trajectories
from loopcore.worlds.habit_model import HORIZON, HabitModel, fit, load
from loopcore.worlds.habit_model_data import SCHEMA, Fitted
from loopcore.worlds.model import APPLICATIONS, HABITS


def test_the_model_that_ships_has_every_habit_of_every_application() -> None:
    model = load().fitted
    assert (model.schema, model.seed, model.runs, model.horizon) == (SCHEMA, SEED, RUNS, HORIZON)
    assert tuple(model.applications) == APPLICATIONS
    for application in model.applications.values():
        assert tuple(application.chains) == HABITS
        assert all(len(chain.plans) == RUNS for chain in application.chains.values())


@pytest.mark.parametrize("application", APPLICATIONS)
def test_the_worlds_are_still_those_that_were_counted(application: str) -> None:
    assert load().fitted.probe[application] == probe(application), (
        "the worlds have changed: count the model anew with python -m loopcore.worlds.fitting"
    )


def test_counting_twice_gives_the_same_bytes_and_another_seed_others() -> None:
    first, second, other = (
        encoded(fitted(1, seed, ("support",)).fitted) for seed in (SEED, SEED, 5)
    )
    assert first == second
    assert first != other
    assert encoded(msgspec.json.decode(first, type=Fitted)) == first


def test_the_command_writes_the_file_and_refuses_a_number_out_of_range(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:

    def one_application(runs: int) -> HabitModel:
        return fitted(runs, SEED, ("jobs",))

    monkeypatch.setattr("loopcore.worlds.fitting.fitted", one_application)
    output = tmp_path / "habits.json"
    assert main(["--output", str(output), "--runs", "1"]) == 0
    assert output.read_bytes() == encoded(fitted(1, SEED, ("jobs",)).fitted)
    assert "bytes" in capsys.readouterr().out
    with pytest.raises(SystemExit, match="2"):
        main(["--runs", "0"])


@pytest.mark.slow
@pytest.mark.parametrize("application", APPLICATIONS)
def test_the_chains_that_ship_are_counted_again(application: str) -> None:
    counted = fit(list(trajectories(application, RUNS)), seed=SEED).fitted
    assert counted.applications[application] == load().fitted.applications[application]
