"""`loopcore verify --kind controller`: by name, by factory, by command, and whatever goes wrong."""

from __future__ import annotations

import json
import subprocess
import sys
import textwrap
from pathlib import Path

import pytest

from loopcore.cli import main
from loopcore.errors import TargetError, UsageError
from loopcore.results import VerifyResult, read_result
from loopcore.testing.controller_contract import ControllerTarget
from loopcore.testing.controller_targets import open_controller
from loopcore.testing.targets import TargetSpec

RUN_SECONDS_MAX = 120
HANG_SECONDS = 1.0
RIGHT = """
    from loopcore.control.levels import controller
    def factory():
        return controller("D")
"""
# A whole controller in plain Python: a step bound, and a stop at three equal calls.
PLAIN = """
    class Guard:
        def describe(self):
            return {"name": "guard", "version": "3", "needs": ["call", "arguments"]}
        def start(self, limits):
            self.steps, self.horizon = limits["max_steps"], limits["horizon"]
            self.turns, self.last, self.count = set(), None, 0
        def observe(self, seen):
            self.turns.add(seen["turn"])
            return {"decision": "continue"}
    def late():
        return Guard()
"""
FAULTS = """
    import os, time
    class Base:
        def start(self, limits):
            pass
        def observe(self, seen):
            return {"decision": "continue"}
    class Hangs(Base):
        def observe(self, seen):
            time.sleep(600)
    class Dies(Base):
        def observe(self, seen):
            os._exit(3)
    class Raises(Base):
        def observe(self, seen):
            raise ValueError("no idea")
    class Prints(Base):
        def observe(self, seen):
            print("looking at", seen["turn"])
            return {"decision": "continue"}
    class Nonsense(Base):
        def observe(self, seen):
            return {"decision": "stop", "reason": "because"}
    class Bare(Base):
        def observe(self, seen):
            return "continue"
    nothing = 3
    def half():
        return object()
    def fails():
        raise RuntimeError("no licence")
"""
SERVER = """
    import json, sys
    fault = sys.argv[1]
    for line in sys.stdin:
        asked = json.loads(line)
        answer = {"id": asked["id"]}
        if asked["op"] == "describe":
            answer |= {"protocol": "loopcore/controller/1", "name": "tiny", "version": "1",
                       "decides": "after", "effect": "stop", "needs": []}
        elif asked["op"] == "start":
            answer |= {"ok": True}
        elif fault == "order":
            answer |= {"id": 0, "decision": "continue", "reason": None, "strategy": None}
        elif fault == "flood":
            print("{}\\n" * 5000)
        elif fault == "refuses":
            answer |= {"ok": False, "error": {"code": "bad_request", "message": "no"}}
        else:
            answer |= {"decision": "continue", "reason": None, "strategy": None}
        print(json.dumps(answer), flush=True)
"""


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """A user's folder with controllers in modules and a server."""
    sources = {"right": RIGHT, "plain": PLAIN, "faults": FAULTS, "server": SERVER}
    for name, source in sources.items():
        (tmp_path / f"{name}.py").write_text(textwrap.dedent(source), encoding="utf-8")
    return tmp_path


def verify(folder: Path, *arguments: str) -> subprocess.CompletedProcess[str]:
    """One finished quick call in the user's folder; it has shown no traceback of ours."""
    words = ["verify", "--kind", "controller", "--profile", "quick", *arguments]
    done = subprocess.run(
        [sys.executable, "-m", "loopcore", *words],
        cwd=folder,
        capture_output=True,
        text=True,
        timeout=RUN_SECONDS_MAX,
        check=False,
    )
    assert "Traceback" not in done.stderr
    return done


def verdicts(folder: Path) -> dict[str, str]:
    """The verdicts in the result file of a call."""
    path = folder / "loopcore-out" / "verify" / "result.json"
    result = read_result(path, VerifyResult)
    assert result.kind == "controller"
    return {each.id: each.verdict for each in result.properties}


def opened(name: str) -> ControllerTarget:
    """A hosted controller of the modules in the working folder, which loses patience soon."""
    spec = TargetSpec(name=name, kind="controller", answer_seconds=HANG_SECONDS)
    return open_controller(spec)


@pytest.mark.slow
def test_a_level_by_name_a_factory_and_a_command_get_one_verdict(folder: Path) -> None:
    served = f"'{sys.executable}' -m loopcore serve --level D"
    rows: list[dict[str, str]] = []
    for words in (["D"], [], ["right:factory"], ["--command", served]):
        done = verify(folder, *words, "--only", "C01,C06")
        assert done.returncode == 0, done.stdout
        rows.append(verdicts(folder))
    assert rows == [{"C01": "held", "C06": "held"}] * 4


def test_a_factory_that_declares_nothing_is_not_judged_on_inputs(folder: Path) -> None:
    done = verify(folder, "right:factory", "--only", "C02,C09")
    assert (done.returncode, verdicts(folder)) == (
        0,
        {"C02": "not applicable", "C09": "not applicable"},
    )
    assert "does not declare that it needs progress" in done.stdout


@pytest.mark.slow
def test_a_wrong_controller_is_caught_with_a_file_that_reproduces_it(folder: Path) -> None:
    done = verify(folder, "plain:late", "--only", "C01,C07")
    assert done.returncode == 1, done.stdout
    assert verdicts(folder) == {"C01": "broken", "C07": "held"}
    (file,) = (folder / "loopcore-out" / "verify" / "counterexamples").iterdir()
    command = f"loopcore verify --kind controller plain:late --rerun {file.relative_to(folder)}"
    assert f"reproduce: {command}" in done.stdout
    again = verify(folder, "plain:late", "--rerun", str(file))
    assert (again.returncode, again.stdout.split()[:2]) == (1, ["C01", "broken:"])
    right = verify(folder, "D", "--rerun", str(file))
    assert (right.returncode, right.stdout) == (0, "C01 held\n")
    other = verify(folder, "A", "--rerun", str(file))
    assert (other.returncode, "not applicable" in other.stdout) == (0, True)


@pytest.mark.slow
def test_verdicts_do_not_depend_on_the_number_of_jobs(folder: Path) -> None:
    rows: list[dict[str, str]] = []
    for jobs in ("1", "2"):
        verify(folder, "consecutive-3", "--jobs", jobs, "--only", "C03,C06,C10")
        rows.append(verdicts(folder))
    assert rows == [{"C03": "broken", "C06": "broken", "C10": "held"}] * 2


@pytest.mark.slow
@pytest.mark.parametrize("name", ["Dies", "Raises", "Nonsense", "Bare"])
def test_a_fault_makes_the_property_unknown_and_breaks_e15(folder: Path, name: str) -> None:
    done = verify(folder, f"faults:{name}", "--only", "C07")
    assert done.returncode == 1, done.stdout
    assert verdicts(folder) == {"C07": "unknown", "E15": "broken"}
    (file,) = (folder / "loopcore-out" / "verify" / "counterexamples").iterdir()
    saved = json.loads(file.read_text(encoding="utf-8"))
    assert (saved["property"], saved["judged_by"]) == ("E15", "C07")
    assert '"op":"observe"' in saved["request"]
    again = verify(folder, f"faults:{name}", "--rerun", str(file))
    assert (again.returncode, again.stdout.split()[:2]) == (1, ["E15", "broken:"])
    assert verify(folder, "D", "--rerun", str(file)).stdout == "E15 held\n"


@pytest.mark.parametrize(
    ("fault", "kind"), [("order", "order"), ("flood", "flood|order"), ("refuses", "answer")]
)
def test_a_command_that_answers_wrongly_breaks_e15(folder: Path, fault: str, kind: str) -> None:
    command = f"'{sys.executable}' server.py {fault}"
    done = verify(folder, "--command", command, "--only", "C07")
    assert done.returncode == 1, done.stdout
    assert verdicts(folder) == {"C07": "unknown", "E15": "broken"}
    assert any(f"({name}:" in done.stdout for name in kind.split("|")), done.stdout


def test_a_controller_that_hangs_is_a_target_error_in_time(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(folder)
    target = opened("faults:Hangs")
    try:
        target.start({})
        with pytest.raises(TargetError) as raised:
            target.observe({"turn": 1, "action": 1})
    finally:
        target.close()
    assert raised.value.kind == "hang"
    assert '"turn":1' in str(raised.value.request)


def test_what_a_controller_prints_is_a_note_and_no_answer(folder: Path) -> None:
    done = verify(folder, "faults:Prints", "--jobs", "1", "--only", "C07")
    assert (done.returncode, verdicts(folder)) == (0, {"C07": "held"})
    assert "note: the target printed 'looking at" in done.stdout


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (["F"], "expected one of A, B, C, D"),
        (["nowhere:factory"], "no module nowhere"),
        (["right:nothing"], "right has no nothing"),
        (["faults:nothing"], "cannot be called"),
        (["faults:half"], "no method start"),
        (["faults:fails"], "no licence"),
        (["D", "--command", "true"], "not both"),
        (["--command", "true"], "does not start"),
        (["--command", "''"], "does not start"),
        (["D", "--only", "E01"], "there is no property 'E01'"),
    ],
)
def test_what_cannot_be_opened_is_one_sentence_and_status_2(
    folder: Path, arguments: list[str], words: str
) -> None:
    done = verify(folder, *arguments)
    assert done.returncode == 2, done.stdout
    assert words in done.stderr
    assert len(done.stderr.strip().splitlines()) == 1


def test_a_name_is_checked_without_a_process(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(UsageError, match="controller: expected"):
        open_controller(TargetSpec(name="D2", kind="controller"))
    assert main(["verify", "--kind", "controller", "--profile", "none"]) == 2
    assert "there is no profile" in capsys.readouterr().err
