"""`loopcore assess` leaves a whole report whatever happens, and its exit status says what happened.

Theory of operation: these tests put results made by hand in the place of the two slow stages, or
end a real run from outside as soon as it has begun. `properties/repo/test_report_in_browser.py`
lets one real run go through every stage.
"""

import argparse
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

from loopcore.cli import assess, assess_stages
from loopcore.comparison.bench import default_settings
from loopcore.comparison.bench_summary import conclude
from loopcore.comparison.sweep_chunks import Settings
from loopcore.recordings.load import samples
from loopcore.reporting import charts, plots
from loopcore.reporting.inputs import Assessment
from loopcore.reporting.view import Chart, Plot, Report
from loopcore.results import MutateResult, VerifyResult, read_result
from loopcore.verification.engine import Verified
from properties.core.report_values import held, mutant, mutated, parsed, verified

RUN_SECONDS_MAX = 600
BEGIN_SECONDS_MAX = 120
END_SECONDS_MAX = 120
POLL_SECONDS = 0.05
FORMS = ("report.html", "report.md", "report.json")


def command(*arguments: str) -> list[str]:
    """Return the command line of an assessment."""
    return [sys.executable, "-m", "loopcore", "assess", *arguments]


def options(*arguments: str) -> argparse.Namespace:
    """Return the parsed options of an assessment."""
    parser = argparse.ArgumentParser()
    assess.configure(parser)
    return parser.parse_args([*arguments, "--jobs", "1"])


def report_in(folder: Path) -> Report:
    """Return the report in a folder, after reading its other two forms."""
    parsed((folder / "report.html").read_text(encoding="utf-8"))
    assert (folder / "report.md").read_text(encoding="utf-8").startswith("# loopcore report")
    return msgspec.json.decode((folder / "report.json").read_bytes(), type=Report)


def two_tasks(**_: object) -> Settings:
    """Return the settings of a sweep that takes no time."""
    return msgspec.structs.replace(
        default_settings(stepwise=2, columnar=0), applications=("jobs",), resamples=8
    )


def no_picture(picture: Plot | Chart, *_: object) -> str:
    """Return a picture that takes no time."""
    return f'<svg id="{picture.id}"></svg>'


@pytest.fixture
def stages(monkeypatch: pytest.MonkeyPatch) -> Callable[[VerifyResult, MutateResult], None]:
    """Return a function that puts results made by hand in the place of the slow stages."""

    def place(verify_result: VerifyResult, mutate_result: MutateResult) -> None:
        done = Verified(result=verify_result, counterexamples={})

        def verify(*_: object, **__: object) -> Verified:
            return done

        def mutate(*_: object, **__: object) -> MutateResult:
            return mutate_result

        monkeypatch.setattr(assess_stages, "verify", verify)
        monkeypatch.setattr(assess_stages, "default_settings", two_tasks)
        monkeypatch.setattr(assess_stages, "result_of", conclude)
        monkeypatch.setattr(assess_stages, "mutate", mutate)
        # A whole assessment draws its pictures, in a test of its own.
        for module in (charts, plots):
            monkeypatch.setattr(module, "drawn", no_picture)

    return place


CASES: dict[str, tuple[VerifyResult, MutateResult, int]] = {
    "all held": (verified(), mutated(), 0),
    "broken": (verified(held("E01", verdict="broken")), mutated(), 1),
    "survived": (verified(), mutated(mutant("m", survived=True)), 1),
    "unknown": (verified(held("E01", verdict="unknown")), mutated(), 3),
    "not exercised": (verified(held("E01", verdict="not exercised")), mutated(), 3),
}


@pytest.mark.parametrize(("verify", "mutate", "status"), CASES.values(), ids=CASES.keys())
def test_the_exit_status_follows_from_the_results(
    verify: VerifyResult,
    mutate: MutateResult,
    status: int,
    stages: Callable[[VerifyResult, MutateResult], None],
    tmp_path: Path,
) -> None:
    stages(verify, mutate)
    assert assess.run(options("--out", str(tmp_path))) == status
    assert report_in(tmp_path).incomplete is None


def test_a_bad_log_costs_that_log_alone(
    stages: Callable[[VerifyResult, MutateResult], None],
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
) -> None:
    stages(verified(), mutated())
    bad = tmp_path / "bad 'log'.json"
    bad.write_text('{"cut')
    # A copy of a sample stands for a log that somebody gives.
    good = tmp_path / "good.json"
    good.write_bytes((samples() / "tau-bench" / "front-desk.json").read_bytes())
    status = assess.run(options(str(bad), str(good), "--out", str(tmp_path / "out")))
    assert status == 2
    printed = capsys.readouterr()
    assert len(printed.err.splitlines()) == 1
    assert "bad 'log'.json" in printed.err
    built = report_in(tmp_path / "out")
    ids = {section.id: section for section in built.sections}
    assert ids["set-0"].title == "tau-bench"
    assert any("bad 'log'.json" in sentence for sentence in ids["recordings"].sentences)
    assert "samples" in ids


def test_json_prints_the_report_and_nothing_else(
    stages: Callable[[VerifyResult, MutateResult], None],
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
) -> None:
    stages(verified(), mutated())
    assess.run(options("--json", "--out", str(tmp_path)))
    printed = capsys.readouterr()
    assert json.loads(printed.out) == json.loads((tmp_path / "report.json").read_bytes())
    assert printed.err == ""


@pytest.mark.parametrize("stage", ["verify", "mutate", "load", "audit_sets"])
def test_an_interruption_in_any_stage_leaves_a_report_that_says_so(
    stage: str,
    stages: Callable[[VerifyResult, MutateResult], None],
    monkeypatch: pytest.MonkeyPatch,
    tmp_path: Path,
) -> None:
    def interrupt(*_: object, **__: object) -> None:
        raise KeyboardInterrupt

    stages(verified(), mutated())
    monkeypatch.setattr(assess_stages, stage, interrupt)
    handler = signal.getsignal(signal.SIGINT)
    try:
        assert assess.run(options("--out", str(tmp_path))) == 130
    finally:
        signal.signal(signal.SIGINT, handler)
    built = report_in(tmp_path)
    assert "interrupted" in (built.incomplete or "")
    if stage != "verify":
        assert built.sections[0].id == "properties"
    states = {s.name: s.state for s in read_result(tmp_path / "assessment.json", Assessment).stages}
    assert "interrupted" in states.values()


@pytest.mark.parametrize("stage", ["verify", "mutate"])
def test_a_stage_that_was_cut_short_ends_the_assessment(
    stage: str, stages: Callable[[VerifyResult, MutateResult], None], tmp_path: Path
) -> None:
    verify = msgspec.structs.replace(verified(), interrupted=stage == "verify")
    mutate = msgspec.structs.replace(mutated(), interrupted=stage == "mutate")
    stages(verify, mutate)
    handler = signal.getsignal(signal.SIGINT)
    try:
        assert assess.run(options("--out", str(tmp_path))) == 130
    finally:
        signal.signal(signal.SIGINT, handler)
    assert f"{stage} interrupted" in (report_in(tmp_path).incomplete or "")
    assert not (tmp_path / "samples").exists()


def begun(process: subprocess.Popen[bytes], folder: Path) -> None:
    """Return when the process has begun its first stage."""
    deadline = time.monotonic() + BEGIN_SECONDS_MAX
    while not (folder / "assessment.json").exists():
        assert process.poll() is None
        assert time.monotonic() < deadline
        time.sleep(POLL_SECONDS)


def test_ctrl_c_leaves_a_readable_report_of_what_there_is(tmp_path: Path) -> None:
    with subprocess.Popen(
        command("--profile", "thorough", "--out", str(tmp_path)),
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        start_new_session=True,
    ) as process:
        try:
            begun(process, tmp_path)
            time.sleep(1)
            os.killpg(process.pid, signal.SIGINT)
            _, errors = process.communicate(timeout=END_SECONDS_MAX)
        finally:
            if process.poll() is None:
                os.killpg(process.pid, signal.SIGKILL)
    assert process.returncode == 130
    assert b"Traceback" not in errors
    assert b"interrupted" in errors
    built = report_in(tmp_path)
    assert "verify interrupted" in (built.incomplete or "")
    assert built.outcome == "unknown"


@pytest.mark.slow
def test_a_killed_assessment_leaves_the_old_report_whole(
    stages: Callable[[VerifyResult, MutateResult], None], tmp_path: Path
) -> None:
    stages(verified(), mutated())
    assess.run(options("--out", str(tmp_path)))
    old = {name: (tmp_path / name).read_bytes() for name in FORMS}
    (tmp_path / "assessment.json").unlink()
    with subprocess.Popen(
        command("--profile", "thorough", "--out", str(tmp_path)),
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
        start_new_session=True,
    ) as process:
        begun(process, tmp_path)
        os.killpg(process.pid, signal.SIGKILL)
    assert process.returncode == -signal.SIGKILL
    assert {name: (tmp_path / name).read_bytes() for name in FORMS} == old
    assert report_in(tmp_path).outcome == "held"


BAD_USAGE = {
    "a target that is not there": ("--target", "no_such_module:x"),
    "two targets": ("--target", "a:b", "--command", "true"),
    "a profile that is not there": ("--profile", "fast"),
    "a seed below 0": ("--seed", "-1"),
    "no jobs": ("--jobs", "0"),
}


@pytest.mark.parametrize("arguments", BAD_USAGE.values(), ids=BAD_USAGE.keys())
def test_bad_usage_is_refused_before_anything_is_written(
    arguments: tuple[str, ...], tmp_path: Path
) -> None:
    done = subprocess.run(
        command(*arguments, "--out", str(tmp_path / "out")),
        capture_output=True,
        text=True,
        timeout=RUN_SECONDS_MAX,
        check=False,
    )
    assert done.returncode == 2
    assert "Traceback" not in done.stderr
    assert done.stderr
    assert not (tmp_path / "out").exists()
