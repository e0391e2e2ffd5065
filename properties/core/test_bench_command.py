"""`loopcore bench` is quiet, resumable and repeatable, and says in one sentence what is wrong."""

import json
from collections.abc import Callable
from pathlib import Path
from typing import cast

import msgspec
import pytest

from loopcore.cli import EXIT_INPUT, EXIT_INTERRUPTED, EXIT_OK, EXIT_WANTING, main
from loopcore.cli.bench import RESULT_FILE, TABLES_FILE
from loopcore.comparison import baselines, sweep_chunks
from loopcore.comparison import bench as engine
from loopcore.comparison.bench import JOURNAL_FILE
from loopcore.comparison.bench_results import BenchResult
from loopcore.comparison.sweep import sweep
from loopcore.comparison.sweep_chunks import Block, Chunk, Settings
from loopcore.comparison.sweep_contestants import Entry, default_entries
from loopcore.comparison.sweep_executors import SerialExecutor
from loopcore.control.limits import Limits
from loopcore.results import read_result

SMALL = ["--tasks", "0", "--stepwise", "36", "--applications", "support", "--jobs", "1"]
NAMES = ("A", "B", "D", "E")


def few() -> tuple[Entry, ...]:
    """Return four levels under one gate, level E at two chances."""
    return tuple(
        entry
        for entry in default_entries()
        if entry.name in NAMES and entry.gate == "verify" and entry.rho in (None, 0.0, 1.0)
    )


@pytest.fixture(autouse=True)
def small(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    entries = few()
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(engine, "default_entries", lambda: entries)
    monkeypatch.setattr(sweep_chunks, "CHUNK_TASKS", {"stepwise": 12, "columnar": 1_000})


def bench(*words: str) -> int:
    """Run the command on a small sweep."""
    return main(["bench", *SMALL, *words])


def test_it_writes_typed_results_and_tables_and_no_journal_stays(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert bench("--out", "one") == EXIT_OK
    printed = capsys.readouterr()
    result = read_result(tmp_path / "one" / "bench" / RESULT_FILE, BenchResult)
    assert result.complete
    assert (result.horizon, result.cap, result.seed) == (120, 30, 0)
    assert result.tiers[0].families[-1].tasks == 36
    assert [row.name for row in result.tiers[0].families[-1].rows] == ["A", "B", "D", "E", "E"]
    assert (tmp_path / "one" / "bench" / TABLES_FILE).read_text() == printed.out
    assert "horizon 120 turns" in printed.out
    assert "Break-even under gate verify" in printed.out
    assert "turns a second of one core" in printed.err
    assert len(printed.err.splitlines()) == 1
    assert not (tmp_path / "one" / "bench" / JOURNAL_FILE).exists()
    assert bench("--out", "two", "--json") == EXIT_OK
    assert json.loads(capsys.readouterr().out)["schema"] == "loopcore/bench/1"
    assert (tmp_path / "two" / "bench" / RESULT_FILE).read_bytes() == (
        tmp_path / "one" / "bench" / RESULT_FILE
    ).read_bytes()


def test_an_interrupt_leaves_marked_results_and_the_same_command_goes_on(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    blocks = cast("dict[str, Callable[[Settings, Chunk], Block]]", vars(sweep_chunks)["_BLOCKS"])
    stepwise = blocks["stepwise"]
    done: list[str] = []

    def interrupted(settings: Settings, chunk: Chunk) -> Block:
        # With two chunks handed out at once, the third comes when one is merged.
        if len(done) == 2:
            raise KeyboardInterrupt
        done.append(chunk.name)
        return stepwise(settings, chunk)

    monkeypatch.setitem(blocks, "stepwise", interrupted)
    assert bench("--out", "one") == EXIT_INTERRUPTED
    said = capsys.readouterr()
    assert "**Interrupted: 2 of 3 chunks" in said.out
    assert "interrupted after 2 of 3 chunks" in said.err
    half = read_result(tmp_path / "one" / "bench" / RESULT_FILE, BenchResult)
    assert (half.complete, half.chunks_done, half.chunks) == (False, 2, 3)
    monkeypatch.setitem(blocks, "stepwise", stepwise)
    assert bench("--out", "one") == EXIT_OK
    assert "2 of 3 chunks were finished before" in capsys.readouterr().err
    assert bench("--out", "two") == EXIT_OK
    assert (tmp_path / "two" / "bench" / RESULT_FILE).read_bytes() == (
        tmp_path / "one" / "bench" / RESULT_FILE
    ).read_bytes()


def test_a_kept_result_is_not_worse_than_itself_and_its_settings_are_the_defaults(
    capsys: pytest.CaptureFixture[str],
) -> None:
    assert bench("--seed", "5", "--save", "mine") == EXIT_OK
    assert "kept as .loopcore/baselines/mine.json" in capsys.readouterr().err
    assert main(["bench", "--compare", "mine", "--jobs", "1"]) == EXIT_OK
    printed = capsys.readouterr().out
    assert "Seed 5;" in printed
    assert "0 changed, 0 worse than their tolerance" in printed
    assert main(["bench", "--compare", "mine", "--seed", "6"]) == EXIT_INPUT
    assert "seed was 5, not 6" in capsys.readouterr().err


def test_a_figure_that_is_worse_than_the_baselines_is_exit_status_1(
    capsys: pytest.CaptureFixture[str],
) -> None:
    better = Settings(
        seed=0,
        applications=("support",),
        stepwise=36,
        columnar=0,
        resamples=2_000,
        entries=few(),
        limits=Limits(max_steps=100, horizon=120, repeat=None, window=None, cycle_max=None),
    )
    baselines.save("better", sweep(better, SerialExecutor()))
    assert bench("--compare", "better") == EXIT_WANTING
    printed = capsys.readouterr().out
    assert "| D verify | verified successes |" in printed
    assert "WORSE" in printed


@pytest.mark.parametrize(
    ("words", "sentence"),
    [
        (["--tasks", "-1"], "--tasks takes an integer"),
        (["--stepwise", "1e3"], "--stepwise takes an integer"),
        (["--seed", "x"], "--seed takes an integer"),
        (["--jobs", "0"], "--jobs takes an integer"),
        (["--applications", "coding,gardening"], "there is no application 'gardening'"),
        (["--stepwise", "0"], "leave nothing to run"),
        (["--save", "../x"], "a baseline's name"),
        (["--compare", "a/b"], "a baseline's name"),
        (["--compare", "absent"], "there is no baseline 'absent'"),
    ],
)
def test_bad_usage_is_one_sentence(
    words: list[str], sentence: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert bench(*words) == EXIT_INPUT
    said = capsys.readouterr()
    assert sentence in said.err
    assert len(said.err.splitlines()) == 1
    assert said.out == ""


def test_a_folder_that_cannot_be_written_is_said_before_the_work(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "file").write_text("in the way")
    assert bench("--out", "file") == EXIT_INPUT
    assert "cannot write" in capsys.readouterr().err


def test_the_result_names_everything_that_it_depends_on(tmp_path: Path) -> None:
    assert bench("--out", "one") == EXIT_OK
    result = read_result(tmp_path / "one" / "bench" / RESULT_FILE, BenchResult)
    assert result.entries == few()
    assert result.limits == Limits()
    text = msgspec.json.encode(result).decode()
    assert "seconds" not in text, "a timing would make the bytes differ from run to run"
