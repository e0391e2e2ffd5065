"""`loopcore verify` ends with the documented status, and what it writes is whole and reproduces."""

import json
import os
import signal
import subprocess
import sys
import textwrap
import time
from collections.abc import Iterator
from pathlib import Path
from xml.etree import ElementTree

import pytest

from loopcore.cli import main
from loopcore.results import VerifyResult, read_result

RUN_SECONDS_MAX = 120
POLL_SECONDS = 0.05

# Each evaluator is ours with one fault, except the first.
RIGHT = """
    from loopcore.suite import load_target
    evaluate = load_target().evaluate
"""
FORGETS_THE_DEADLINE = """
    from loopcore.suite import load_target
    ours = load_target()
    def evaluate(policy, steps):
        if isinstance(policy, dict) and "deadline_unix_ms" in policy:
            if isinstance(policy["deadline_unix_ms"], int):
                policy["deadline_unix_ms"] += 1
        return ours.evaluate(policy, steps)
"""
DIES_OF_FINISH = """
    import os
    from loopcore.suite import load_target
    ours = load_target()
    def evaluate(policy, steps):
        if "'finish'" in str(steps):
            os._exit(3)
        return ours.evaluate(policy, steps)
"""
HANGS = """
    import os, time
    def evaluate(policy, steps):
        with open("pids", "a") as file:
            file.write(f"{os.getpid()} ")
        time.sleep(600)
"""
SLOW = """
    import os, time
    from loopcore.suite import load_target
    ours = load_target()
    def evaluate(policy, steps):
        with open("pids", "a") as file:
            file.write(f"{os.getpid()} ")
        time.sleep(0.01)
        return ours.evaluate(policy, steps)
"""


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """A user's folder with an evaluator in each module."""
    modules = {
        "right": RIGHT,
        "late": FORGETS_THE_DEADLINE,
        "dies": DIES_OF_FINISH,
        "hangs": HANGS,
        "slow": SLOW,
    }
    for name, source in modules.items():
        (tmp_path / f"{name}.py").write_text(textwrap.dedent(source), encoding="utf-8")
    return tmp_path


def command(*arguments: str) -> list[str]:
    """The words of a call."""
    return [sys.executable, "-m", "loopcore", "verify", *arguments]


def verify(folder: Path, *arguments: str) -> subprocess.CompletedProcess[str]:
    """One finished call in the user's folder; it has shown no traceback."""
    done = subprocess.run(
        command(*arguments),
        cwd=folder,
        capture_output=True,
        text=True,
        timeout=RUN_SECONDS_MAX,
        check=False,
    )
    assert "Traceback" not in done.stderr
    return done


def result_in(folder: Path) -> VerifyResult:
    """The result file of a call."""
    return read_result(folder / "loopcore-out" / "verify" / "result.json", VerifyResult)


def quick(*arguments: str, only: str = "E06,E12") -> tuple[str, ...]:
    """The arguments of a small run."""
    return (*arguments, "--profile", "quick", "--only", only)


@pytest.mark.slow
def test_the_built_in_evaluator_is_held_to_every_property(folder: Path) -> None:
    done = verify(folder, "--profile", "quick")
    assert done.returncode == 0, done.stdout
    result = result_in(folder)
    assert [each.id for each in result.properties] == [f"E{n:02}" for n in range(1, 19)]
    assert {each.verdict for each in result.properties} == {"held"}
    assert all(each.examples >= 50 for each in result.properties)
    assert "reached  terminal" in done.stdout
    assert not list((folder / "loopcore-out/verify/counterexamples").iterdir())
    # Nothing is left in the user's own folder.
    assert {path.name for path in folder.iterdir() if path.is_dir()} <= {"loopcore-out"}


def test_a_broken_evaluator_is_caught_with_a_file_that_reproduces_it(folder: Path) -> None:
    done = verify(folder, *quick("late:evaluate"))
    assert done.returncode == 1, done.stdout
    broken, held = result_in(folder).properties
    assert (broken.id, broken.verdict, held.verdict) == ("E06", "broken", "held")
    file = folder / "loopcore-out" / "verify" / "counterexamples" / str(broken.counterexample)
    assert file.name.startswith("E06-")
    assert f"reproduce: loopcore verify late:evaluate --rerun {file.relative_to(folder)}" in (
        done.stdout
    )
    again = verify(folder, "late:evaluate", "--rerun", str(file))
    assert (again.returncode, again.stdout.split()[:2]) == (1, ["E06", "broken:"])
    fixed = verify(folder, "right:evaluate", "--rerun", str(file))
    assert (fixed.returncode, fixed.stdout) == (0, "E06 held\n")
    assert verify(folder, "--rerun", str(file)).returncode == 0
    served = verify(
        folder, "--command", f"'{sys.executable}' -m loopcore serve", "--rerun", str(file)
    )
    assert served.returncode == 0


def test_a_rerun_reads_its_file_and_nothing_else(folder: Path) -> None:
    verify(folder, *quick("late:evaluate", only="E06"))
    (file,) = (folder / "loopcore-out/verify/counterexamples").iterdir()
    changed = json.loads(file.read_text(encoding="utf-8"))
    # One step before the deadline there is nothing to forget.
    changed["case"]["steps"] = []
    changed["case"]["policy"]["deadline_unix_ms"] = 2**50
    elsewhere = folder / "elsewhere.json"
    elsewhere.write_text(json.dumps(changed), encoding="utf-8")
    assert verify(folder, "late:evaluate", "--rerun", str(elsewhere)).returncode in (0, 2)
    assert verify(folder, "late:evaluate", "--rerun", str(file)).returncode == 1


def test_a_death_breaks_e15_and_leaves_the_property_unknown(folder: Path) -> None:
    done = verify(folder, *quick("dies:evaluate", only="E07"))
    assert done.returncode == 1, done.stdout
    unknown, broken = result_in(folder).properties
    assert (unknown.id, unknown.verdict) == ("E07", "unknown")
    assert (broken.id, broken.verdict) == ("E15", "broken")
    file = folder / "loopcore-out/verify/counterexamples" / str(broken.counterexample)
    assert '"finish' in str(json.loads(file.read_text(encoding="utf-8"))["request"])
    assert verify(folder, "dies:evaluate", "--rerun", str(file)).returncode == 1
    assert verify(folder, "--rerun", str(file)).returncode == 0


@pytest.mark.slow
def test_junit_counts_failures_and_errors_apart(folder: Path) -> None:
    verify(folder, *quick("dies:evaluate", only="E07,E14"))
    text = (folder / "loopcore-out" / "verify" / "junit.xml").read_text(encoding="utf-8")
    suite = ElementTree.fromstring(text)[0]
    assert {name: suite.get(name) for name in ("tests", "failures", "errors", "skipped")} == {
        "tests": "3",
        "failures": "1",
        "errors": "1",
        "skipped": "1",
    }
    assert [[child.tag for child in case] for case in suite] == [
        ["error"],
        ["skipped"],
        ["failure"],
    ]


def test_json_is_the_result_file(folder: Path) -> None:
    done = verify(folder, *quick("--json", only="E07"))
    file = folder / "loopcore-out" / "verify" / "result.json"
    assert json.loads(done.stdout) == json.loads(file.read_text(encoding="utf-8"))


@pytest.mark.slow
def test_verdicts_do_not_depend_on_the_number_of_jobs(folder: Path) -> None:
    rows: list[list[tuple[str, str, int, str | None]]] = []
    for jobs in ("1", "2"):
        verify(folder, *quick("late:evaluate", "--jobs", jobs, only="E04,E06,E12"))
        rows.append(
            [(r.id, r.verdict, r.examples, r.counterexample) for r in result_in(folder).properties]
        )
    assert rows[0] == rows[1]
    assert rows[0][1][1] == "broken"


BAD: dict[str, tuple[tuple[str, ...], str]] = {
    "unknown module": (("nowhere:evaluate",), "no module nowhere"),
    "no such object": (("right:missing",), "right has no missing"),
    "not callable": (("right:__name__",), "neither callable"),
    "no colon": (("right",), "package.module:object"),
    "no command": (("--command", "no-such-command"), "cannot be started"),
    "no protocol": (("--command", "cat"), "speaks null, not loopcore/target/1"),
    "a banner": (("--command", "echo hello"), "the target does not "),
    "two targets": (("right:evaluate", "--command", "x"), "not both"),
    "seed": (("--seed", "abc"), "--seed takes an integer"),
    "negative seed": (("--seed=-1",), "--seed takes an integer"),
    "endless seed": (("--seed", "9" * 5000), "--seed takes an integer"),
    "jobs": (("--jobs", "0"), "--jobs takes an integer"),
    "profile": (("--profile", "hasty"), "no profile 'hasty'"),
    "kind to come": (("--kind", "loop"), "--kind loop is not there yet"),
    "kind": (("--kind", "kettle"), "no kind 'kettle'"),
    "property": (("--only", "E01,E99"), "no property 'E99'"),
    "no property": (("--only", ""), "no property ''"),
    "output": (("--out", "right.py"), "cannot write"),
    "rerun of nothing": (("--rerun", "missing.json"), "missing.json: No such file"),
    "rerun of a folder": (("--rerun", "."), "Is a directory"),
    "rerun of no JSON": (("--rerun", "right.py"), "right.py is no counterexample"),
    "rerun of no object": (("--rerun", "list.json"), "list.json is no counterexample"),
    "rerun of a result": (("--rerun", "foreign.json"), "foreign.json is no counterexample"),
    "rerun of no property": (("--rerun", "unknown.json"), "no property 'E99'"),
    "rerun of another case": (("--rerun", "misfit.json"), "no case of E06"),
    "rerun of a deep file": (("--rerun", "deep.json"), "deep.json is no counterexample"),
}


@pytest.mark.parametrize(("arguments", "sentence"), BAD.values(), ids=BAD)
def test_bad_input_is_one_sentence_and_status_2(
    folder: Path,
    arguments: tuple[str, ...],
    sentence: str,
    monkeypatch: pytest.MonkeyPatch,
    capfd: pytest.CaptureFixture[str],
) -> None:
    counterexample: dict[str, object] = {
        "schema": "loopcore/counterexample/1",
        "property": "E06",
        "judged_by": "E06",
        "target": {"name": "n", "version": "v", "releases": ["r"], "wire": "values"},
        "seed": 0,
        "profile": "quick",
        "case": {"what": "ever"},
        "finding": "f",
        "loopcore_version": "0",
    }
    unknown = {**counterexample, "property": "E99", "judged_by": "E99"}
    foreign = {**counterexample, "schema": "loopcore/verify-result/1"}
    (folder / "list.json").write_text("[]", encoding="utf-8")
    (folder / "foreign.json").write_text(json.dumps(foreign), encoding="utf-8")
    (folder / "unknown.json").write_text(json.dumps(unknown), encoding="utf-8")
    (folder / "misfit.json").write_text(json.dumps(counterexample), encoding="utf-8")
    (folder / "deep.json").write_text("[" * 100_000, encoding="utf-8")
    monkeypatch.chdir(folder)
    status = main(["verify", *arguments])
    shown = capfd.readouterr()
    assert (status, shown.out) == (2, "")
    assert sentence in shown.err
    assert shown.err.startswith("loopcore: ")
    assert shown.err.count("\n") == 1


@pytest.fixture
def started(folder: Path) -> Iterator[list[subprocess.Popen[str]]]:
    """A list for running calls, which are ended with the test."""
    running: list[subprocess.Popen[str]] = []
    yield running
    for process in running:
        process.kill()
        process.communicate()


def start(folder: Path, *arguments: str) -> subprocess.Popen[str]:
    """A call that is running, and whose target has been asked."""
    process = subprocess.Popen(
        command(*arguments),
        cwd=folder,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )
    deadline = time.monotonic() + RUN_SECONDS_MAX
    while not (folder / "pids").exists():
        assert process.poll() is None, process.communicate()
        assert time.monotonic() < deadline
        time.sleep(POLL_SECONDS)
    return process


def targets_have_ended(folder: Path) -> bool:
    """Whether all processes of the target are gone, or go in a moment."""
    processes = set((folder / "pids").read_text(encoding="utf-8").split())
    deadline = time.monotonic() + RUN_SECONDS_MAX / 4
    while any(Path(f"/proc/{process}").exists() for process in processes):
        if time.monotonic() > deadline:
            return False
        time.sleep(POLL_SECONDS)
    return bool(processes)


@pytest.mark.slow
@pytest.mark.parametrize("jobs", ["1", "2"])
@pytest.mark.parametrize("name", ["slow", "hangs"])
def test_an_interruption_leaves_readable_results_and_no_process(
    folder: Path, started: list[subprocess.Popen[str]], name: str, jobs: str
) -> None:
    process = start(folder, f"{name}:evaluate", "--profile", "thorough", "--jobs", jobs)
    started.append(process)
    process.send_signal(signal.SIGINT)
    output, errors = process.communicate(timeout=RUN_SECONDS_MAX)
    assert process.returncode == 130, errors
    assert "Traceback" not in errors
    assert result_in(folder).interrupted
    ElementTree.parse(folder / "loopcore-out" / "verify" / "junit.xml")
    assert "written to" in output
    assert targets_have_ended(folder)


@pytest.mark.slow
@pytest.mark.parametrize(("name", "jobs"), [("slow", "1"), ("slow", "2"), ("hangs", "1")])
def test_a_kill_leaves_the_old_results_whole_and_no_process(
    folder: Path, started: list[subprocess.Popen[str]], name: str, jobs: str
) -> None:
    verify(folder, *quick(only="E07"))
    files = sorted((folder / "loopcore-out" / "verify").glob("*.*"))
    before = [file.read_bytes() for file in files if file.is_file()]
    process = start(folder, f"{name}:evaluate", "--profile", "thorough", "--jobs", jobs)
    started.append(process)
    os.kill(process.pid, signal.SIGKILL)
    process.wait(RUN_SECONDS_MAX)
    assert [file.read_bytes() for file in files if file.is_file()] == before
    assert len(before) == 2
    assert targets_have_ended(folder)
