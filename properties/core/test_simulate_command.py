"""Claim: `loopcore simulate` replays a seed, sweeps over many, and names the smallest bad one."""

from __future__ import annotations

import json
from pathlib import Path

import msgspec
import pytest

from loopcore.cli import main
from loopcore.testing.simulation import Outcome, SweepResult, simulate, sweeping

EXIT_STATUSES = {"held": 0, "broken": 1, "usage": 2, "interrupted": 130}


def test_a_replay_prints_options_moves_and_verdict(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["simulate", "--seed", "7", "--out", str(tmp_path)]) == EXIT_STATUSES["held"]
    text = capsys.readouterr().out
    assert text.startswith("seed 7\n  workers_max ")
    for option in ("faulty_ticks", "faults", "planning", "policy", "rules", "tool", "afterwards"):
        assert f"\n  {option} " in text
    assert "run-1 1:run_created" in text
    assert "\nheld: R01 to R12: every rule held\n" in text
    document = json.loads((tmp_path / "simulate" / "replay.json").read_bytes())
    assert document["outcome"]["journals_sha256"] == simulate(7).journals_sha256
    assert all(move in text for move in document["moves"])


def test_a_replay_as_json_holds_what_its_file_holds(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["simulate", "--seed", "7", "--json", "--out", str(tmp_path)]) == 0
    printed = json.loads(capsys.readouterr().out)
    assert printed == json.loads((tmp_path / "simulate" / "replay.json").read_bytes())
    assert printed["options"]["seed"] == 7


def test_a_sweep_counts_runs_from_its_first_seed(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    words = ["simulate", "--runs", "5", "--seed", "20", "--jobs", "1", "--out", str(tmp_path)]
    assert main(words) == EXIT_STATUSES["held"]
    assert "runs      5 (seeds 20 to 24), 0 broken" in capsys.readouterr().out
    data = (tmp_path / "simulate" / "result.json").read_bytes()
    result = msgspec.json.decode(data, type=SweepResult)
    assert (result.runs, result.first_seed, result.interrupted) == (5, 20, False)


def breaking(*seeds: int) -> object:
    """Return a `simulate` by which some seeds break a rule."""

    def play(seed: int) -> Outcome:
        outcome = simulate(seed)
        if seed not in seeds:
            return outcome
        return msgspec.structs.replace(outcome, verdict="broken", rule="R06", reason="planted")

    return play


def test_the_smallest_failing_seed_is_named_and_the_status_is_1(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sweeping, "simulate", breaking(26, 23))
    words = ["simulate", "--runs", "8", "--seed", "20", "--jobs", "1", "--out", str(tmp_path)]
    assert main(words) == EXIT_STATUSES["broken"]
    text = capsys.readouterr().out
    assert "2 broken" in text
    assert "BROKEN    seed 23: R06: planted" in text
    assert "replay the smallest with: loopcore simulate --seed 23" in text


def test_an_interruption_keeps_what_is_finished(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    def interrupt(seed: int) -> Outcome:
        if seed >= sweeping.CHUNK_RUNS:
            raise KeyboardInterrupt
        return simulate(seed)

    monkeypatch.setattr(sweeping, "simulate", interrupt)
    words = ["simulate", "--runs", "200", "--jobs", "1", "--out", str(tmp_path)]
    assert main(words) == EXIT_STATUSES["interrupted"]
    assert f"interrupted after {sweeping.CHUNK_RUNS} runs" in capsys.readouterr().err
    data = (tmp_path / "simulate" / "result.json").read_bytes()
    result = msgspec.json.decode(data, type=SweepResult)
    assert (result.runs, result.interrupted) == (sweeping.CHUNK_RUNS, True)


@pytest.mark.parametrize(
    "words",
    [
        [],
        ["--seed", "-1"],
        ["--seed", "x"],
        ["--runs", "0"],
        ["--runs", "1", "--jobs", "0"],
        ["--seed", "1", "--jobs", "2"],
        ["--seed", str(2**63), "--runs", "1"],
        ["--runs", "2", "--seed", str(2**63 - 1)],
    ],
)
def test_bad_usage_is_one_sentence_and_the_status_is_2(
    words: list[str], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["simulate", *words, "--out", str(tmp_path)]) == EXIT_STATUSES["usage"]
    captured = capsys.readouterr()
    assert captured.out == ""
    assert captured.err.count("\n") == 1


def test_a_place_that_cannot_be_written_is_found_before_the_work(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "file").write_bytes(b"")
    out = str(tmp_path / "file" / "below")
    assert main(["simulate", "--runs", "1000000", "--out", out]) == EXIT_STATUSES["usage"]
    assert capsys.readouterr().err.count("\n") == 1
