"""Claim: a closed, full or abandoned standard stream never costs a verdict or shows a traceback.

Every case is the real command behind a shell's redirection, with Python's own buffering, since what
a buffer still holds when the interpreter ends is where such faults hide.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from loopcore.canonical import canonical
from loopcore.evaluator import evaluate
from loopcore.lab import baseline_policy, baseline_steps
from loopcore.models import Trace

TRACE = canonical(
    Trace(schema="loopcore/trace/1", policy=baseline_policy(), steps=baseline_steps())
)
RECEIPT = canonical(evaluate(baseline_policy(), baseline_steps()))
EVERY_COMMAND = ("lab", "audit", "evaluate t.json", "--help", "--version", "lab --help", "")
WITH_RESULT = ("lab", "audit", "evaluate t.json", "replay t.json r.json", "import t.json", "bogus")


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    (tmp_path / "t.json").write_bytes(TRACE)
    (tmp_path / "r.json").write_bytes(RECEIPT)
    (tmp_path / "batch.jsonl").write_bytes((TRACE + b"\n") * 200)
    return tmp_path


def shell(
    folder: Path,
    words: str,
    redirection: str,
    *,
    buffered: bool = True,
    output: int = subprocess.PIPE,
) -> subprocess.CompletedProcess[str]:
    """Run a command with a redirection, as a shell would; fail on any traceback."""
    environment = {key: text for key, text in os.environ.items() if key != "PYTHONUNBUFFERED"}
    done = subprocess.run(
        ["bash", "-c", f'"$0" -m loopcore {words} {redirection}', sys.executable],
        stdin=subprocess.DEVNULL,
        stdout=output,
        stderr=subprocess.PIPE,
        text=True,
        timeout=120,
        check=False,
        cwd=folder,
        env=environment if buffered else environment | {"PYTHONUNBUFFERED": "1"},
    )
    assert "Traceback" not in done.stderr, done.stderr
    assert "Exception ignored" not in done.stderr, done.stderr
    return done


def unread(folder: Path, words: str, *, buffered: bool = True) -> subprocess.CompletedProcess[str]:
    """Run a command whose standard output is a pipe that nobody reads any more."""
    reading, writing = os.pipe()
    os.close(reading)
    try:
        return shell(folder, words, "", buffered=buffered, output=writing)
    finally:
        os.close(writing)


@pytest.mark.parametrize("buffered", [True, False])
@pytest.mark.parametrize("words", EVERY_COMMAND)
def test_a_full_disk_behind_standard_output_is_status_2_and_one_sentence(
    words: str, buffered: bool, folder: Path
) -> None:
    done = shell(folder, words, ">/dev/full", buffered=buffered)
    assert done.returncode == 2, done
    complaints = [line for line in done.stderr.splitlines() if "space" in line]
    assert complaints == ["loopcore: standard output: No space left on device"], done.stderr


@pytest.mark.parametrize("words", ["lab", "audit", "evaluate t.json", "replay t.json r.json"])
def test_a_closed_standard_output_is_status_2_and_one_sentence(words: str, folder: Path) -> None:
    done = shell(folder, words, ">&-")
    assert done.returncode == 2, done
    assert "loopcore: standard output: Bad file descriptor" in done.stderr.splitlines()


@pytest.mark.parametrize("words", ["evaluate -", "evaluate --batch -", "replay - r.json"])
def test_a_closed_standard_input_is_unreadable(words: str, folder: Path) -> None:
    done = shell(folder, words, "<&-")
    assert done.returncode == 2
    assert json.loads(done.stdout)["error"]["code"] == "unreadable"
    assert done.stderr == "loopcore: -: Bad file descriptor.\n"


def test_a_closed_standard_input_is_named_by_serve(folder: Path) -> None:
    done = shell(folder, "serve", "<&-")
    assert (done.returncode, done.stderr) == (
        2,
        "loopcore: standard input: Bad file descriptor\n",
    )


@pytest.mark.parametrize("words", WITH_RESULT)
def test_a_closed_standard_error_changes_neither_status_nor_output(
    words: str, folder: Path
) -> None:
    open_, closed = shell(folder, words, ""), shell(folder, words, "2>&-")
    assert (closed.returncode, closed.stdout) == (open_.returncode, open_.stdout)


def test_three_closed_streams_leave_a_whole_result(folder: Path) -> None:
    done = shell(folder, "lab --out o", "<&- >&- 2>&-")
    assert (done.returncode, done.stdout, done.stderr) == (2, "", "")
    (report,) = (folder / "o" / "lab").iterdir()
    assert json.loads(report.read_bytes())["passed"] == 11


@pytest.mark.parametrize("words", EVERY_COMMAND)
def test_a_reader_who_leaves_hears_no_complaint(words: str, folder: Path) -> None:
    done = unread(folder, words)
    assert "ipe" not in done.stderr, done.stderr
    assert done.returncode == (2 if words == "" else 0), done


@pytest.mark.parametrize("buffered", [True, False])
def test_a_reader_who_leaves_turns_no_finding_into_a_pass(buffered: bool, folder: Path) -> None:
    altered = RECEIPT.replace(b'"terminal_sequence":4', b'"terminal_sequence":3')
    (folder / "r.json").write_bytes(altered)
    done = unread(folder, "replay t.json r.json", buffered=buffered)
    assert done.returncode == 1, done


@pytest.mark.parametrize("words", ["serve", "evaluate --batch -"])
def test_a_stream_of_answers_ends_with_its_reader(words: str, folder: Path) -> None:
    done = unread(folder, words + " < <(yes)")
    assert (done.returncode, done.stderr) == (0, "")


def test_a_full_disk_is_not_taken_for_an_unreadable_batch(folder: Path) -> None:
    done = shell(folder, "evaluate --batch batch.jsonl", ">/dev/full")
    assert (done.returncode, done.stderr) == (
        2,
        "loopcore: standard output: No space left on device\n",
    )
