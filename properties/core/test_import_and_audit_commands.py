"""`loopcore import` and `loopcore audit` print, write and exit as promised, bad files or not."""

import json
import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from loopcore.cli import main
from loopcore.comparison.audit import SetResult, audit_sets
from loopcore.recordings.load import load, samples

GOOD = samples() / "tau2/meters.json"


def test_audit_without_logs_takes_the_samples_and_says_so(
    capsys: pytest.CaptureFixture[str],
) -> None:
    assert main(["audit"]) == 0
    printed = capsys.readouterr()
    assert printed.out.startswith("# Audit of recorded runs")
    assert "shipped samples" in printed.err


def test_audit_writes_the_result_and_the_tables(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["audit", str(GOOD), "--out", str(tmp_path / "new"), "--json"]) == 0
    document = json.loads(capsys.readouterr().out)
    assert document == json.loads((tmp_path / "new/audit.json").read_text())
    assert document["schema"] == "loopcore/audit/1"
    assert (tmp_path / "new/audit.md").read_text().startswith("# Audit")
    assert sorted(os.listdir(tmp_path / "new")) == ["audit.json", "audit.md"]


def test_import_writes_one_file_a_set_that_can_be_read_again(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["import", str(samples()), "--out", str(tmp_path), "--json"]) == 0
    summary = json.loads(capsys.readouterr().out)
    files = {one["name"]: Path(one["file"]) for one in summary["sets"]}
    assert len(files) == len(set(files.values())) == 7
    again = load([tmp_path])
    assert not again.problems
    assert sorted(run.run_id for run in again.runs) == sorted(
        run.run_id for run in load([samples()]).runs
    )


@pytest.mark.parametrize("command", ["import", "audit"])
def test_a_bad_file_gives_status_2_and_the_others_are_written(
    command: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    bad = tmp_path / "bad.json"
    bad.write_text('{"simulations": 7, "info": {}}')
    words = [command, str(bad), str(GOOD), str(tmp_path / "none"), "--out", str(tmp_path / "out")]
    assert main(words) == 2
    printed = capsys.readouterr()
    assert "tau2" in printed.out
    complaints = printed.err.splitlines()
    assert len(complaints) == 2
    assert complaints[0].startswith("loopcore: malformed: ")
    assert complaints[1].startswith("loopcore: unreadable: ")
    assert list((tmp_path / "out").iterdir())


@pytest.mark.parametrize("command", ["import", "audit"])
def test_an_empty_folder_gives_status_2(
    command: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main([command, str(tmp_path)]) == 2
    assert "no run could be read" in capsys.readouterr().err


@pytest.mark.parametrize("command", ["import", "audit"])
def test_a_folder_that_cannot_be_written_gives_status_2_and_one_sentence(
    command: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "file").write_text("")
    assert main([command, str(GOOD), "--out", str(tmp_path / "file")]) == 2
    assert capsys.readouterr().err.startswith("loopcore: cannot write ")


def test_an_interrupted_audit_gives_130_and_keeps_the_sets_that_were_done(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    def interrupted(*arguments: object, **options: object) -> Iterator[SetResult]:
        sets = audit_sets(load([samples()]))
        yield next(sets)
        raise KeyboardInterrupt

    monkeypatch.setattr("loopcore.cli.audit.audit_sets", interrupted)
    assert main(["audit", str(samples()), "--out", str(tmp_path)]) == 130
    document = json.loads((tmp_path / "audit.json").read_text())
    assert document["complete"] is False
    assert len(document["sets"]) == 1
    assert "Interrupted" in capsys.readouterr().out


def test_a_pipe_sees_no_progress() -> None:
    done = subprocess.run(
        [sys.executable, "-m", "loopcore", "audit", str(GOOD)],
        capture_output=True,
        text=True,
        check=False,
    )
    assert (done.returncode, done.stderr) == (0, "")
