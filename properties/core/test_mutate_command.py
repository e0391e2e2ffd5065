"""Claim: `loopcore mutate` says exactly what it did, in its text, its files and its exit status."""

import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

import msgspec
import pytest

from loopcore.cli import main
from loopcore.mutation import engine
from loopcore.mutation.cases import TraceCase, judge_trace_case, load_trace_cases
from loopcore.mutation.mutants import load_mutants
from loopcore.results import MutateResult, TraceCaseResult, read_result

ONLY = "baseline,swap-first-two,receipts-digest-only"


@pytest.mark.slow
def test_chosen_cases_and_mutants_are_run_alone(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["mutate", "--only", ONLY, "--out", str(tmp_path), "--jobs", "1"]) == 0
    shown = capsys.readouterr().out
    assert "subset: only" in shown
    assert "2 / 2 agree" in shown
    assert "receipts-digest-only" in shown
    result = read_result(tmp_path / "mutate" / "result.json", MutateResult)
    assert [each.verdict for each in result.mutants] == ["killed"]
    assert "| `receipts-digest-only` |" in (tmp_path / "mutate" / "matrix.md").read_text()


def test_json_is_the_result_file(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["mutate", "--only", "baseline", "--out", str(tmp_path), "--json"]) == 0
    shown = json.loads(capsys.readouterr().out)
    assert shown == json.loads((tmp_path / "mutate" / "result.json").read_bytes())


def test_the_quick_choice_says_that_it_is_a_subset_and_repeats() -> None:
    plan, again, other = (engine.make_plan(quick=True, seed=seed) for seed in (7, 7, 8))
    assert plan == again != other
    assert plan.subset is not None
    assert plan.subset.startswith("subset: all trace cases, and 16 of")
    assert (len(plan.cases), len(plan.mutants)) == (len(load_trace_cases()), 16)
    assert sum(each.is_control for each in plan.mutants) == 4
    assert not any(each.is_generated or each.killer == "C08" for each in plan.mutants)


def test_the_generated_mutants_can_be_judged_alone() -> None:
    plan = engine.make_plan(generated=True)
    assert plan.subset is not None
    assert str(len(plan.mutants)) in plan.subset
    assert all(each.is_generated for each in plan.mutants)
    assert {each.id for each in plan.mutants} < {each.id for each in engine.make_plan().mutants}


def test_a_disagreeing_case_is_exit_1(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:

    def spoil(case: TraceCase) -> TraceCaseResult:
        return judge_trace_case(msgspec.structs.replace(case, expected={"terminal": "completed?"}))

    monkeypatch.setattr(engine, "judge_trace_case", spoil)
    assert main(["mutate", "--only", "baseline", "--out", str(tmp_path)]) == 1
    assert "DISAGREES    baseline" in capsys.readouterr().out


def test_a_surviving_mutant_is_exit_1(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    able = [
        msgspec.structs.replace(each, equivalent=None)
        for each in load_mutants()
        if each.id == "evaluator-unbounded-too-low"
    ]
    monkeypatch.setattr(engine, "load_mutants", lambda: tuple(able))
    assert main(["mutate", "--only", able[0].id, "--out", str(tmp_path)]) == 1
    assert "survived    evaluator-unbounded-too-low" in capsys.readouterr().out


@pytest.mark.parametrize(
    ("words", "told"),
    [
        (["--only", "no-such-id"], "no-such-id"),
        (["--jobs", "0"], "--jobs"),
        (["--seed", "x"], "--seed"),
        (["some.module:target"], "--vectors"),
        (["--vectors", "--quick"], "--vectors"),
        (["--quick", "--generated"], "--generated"),
        (["--vectors", "--command", "/nonexistent"], "target"),
    ],
)
def test_bad_usage_is_one_sentence_and_exit_2(
    words: list[str], told: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["mutate", *words, "--out", str(tmp_path)]) == 2
    complaint = capsys.readouterr().err
    assert told in complaint
    assert complaint.count("\n") == 1


def test_vectors_of_the_built_in_evaluator_all_agree(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["mutate", "--vectors", "--out", str(tmp_path)]) == 0
    assert " agreed" in capsys.readouterr().out
    assert (tmp_path / "mutate" / "conformance.json").is_file()


def test_a_target_that_disagrees_with_the_vectors_is_exit_1(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "flattering.py").write_text(
        "def evaluate(policy, steps):\n    return {'receipt': {'terminal': 'completed'}}\n"
    )
    monkeypatch.chdir(tmp_path)
    assert main(["mutate", "--vectors", "flattering:evaluate", "--out", str(tmp_path)]) == 1
    shown = capsys.readouterr().out
    assert "DISAGREES baseline" in shown
    assert "the target's JSON parser hides this damage" in shown


@pytest.mark.slow
def test_an_interruption_keeps_what_was_finished(tmp_path: Path) -> None:
    names = ",".join(each.id for each in load_mutants()[:40])
    words = [sys.executable, "-m", "loopcore", "mutate", "--only", names, "--jobs", "1"]
    with subprocess.Popen(
        [*words, "--out", str(tmp_path)],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        start_new_session=True,
    ) as child:
        # What is written second is judged after the first is among the results.
        _wait_until(lambda: _lines_in(tmp_path / "mutate" / "progress.jsonl") >= 2)
        os.kill(child.pid, signal.SIGINT)
        output, complaint = child.communicate(timeout=120)
    assert child.returncode == 130, complaint
    assert b"interrupted" in complaint
    assert b"Traceback" not in complaint
    result = read_result(tmp_path / "mutate" / "result.json", MutateResult)
    assert result.interrupted
    assert 1 <= len(result.mutants) < 40
    assert b"killed" in output


def _lines_in(path: Path) -> int:
    return path.read_bytes().count(b"\n") if path.exists() else 0


def _wait_until(holds: Callable[[], bool]) -> None:
    ends_at = time.monotonic() + 120
    while not holds():
        assert time.monotonic() < ends_at
        time.sleep(0.1)
