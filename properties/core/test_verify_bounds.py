"""Claim: a target that is slow, hungry, stuck or careless costs a run little and is told of.

Marked slow is what needs whole runs of `verify`, or a child that piles up memory for a while.
"""

from __future__ import annotations

import sys
import textwrap
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest
from hypothesis import strategies as st

from loopcore.errors import TargetError
from loopcore.suite import load_target
from loopcore.testing.checks import CATALOGUE
from loopcore.testing.checks.e15_totality import PROPERTY as TOTALITY
from loopcore.testing.checks_controller import CONTROLLER_CATALOGUE
from loopcore.testing.children import SECONDS_AFTER_HANG, target_child
from loopcore.testing.contract import Case, EvaluatorTarget, Judgement, Property
from loopcore.testing.controller_targets import open_controller
from loopcore.testing.examining import examine, judge_case
from loopcore.testing.profiles import PROFILES, Profile
from loopcore.testing.targets import TargetSpec

EVALUATORS = """
    from loopcore.suite import load_target
    ours = load_target()

    def careless(policy, steps):
        answer = ours.evaluate(policy, steps)
        if isinstance(steps, list) and steps:
            steps.pop()
        return answer

    def careful(policy, steps):
        return ours.evaluate(policy, steps)

    def hungry(policy, steps):
        pile = b"x" * (2**30 + 2**26)
        return ours.evaluate(policy, steps)

    def twice(policy, steps):
        return {"error": {1: "malformed", "1": "malformed"}}

    def stuck(policy, steps):
        import time
        time.sleep(60)
"""
CONTROLLERS = """
    class Leaks:
        def __init__(self):
            self.kept = []
        def start(self, limits):
            self.kept = []
        def observe(self, seen):
            self.kept.append(bytearray(b"x" * 2_000))
            return {"decision": "continue"}

    class Guard:
        "Stops the third call running with equal arguments, before it is dispatched."
        def describe(self):
            return {"decides": "before", "needs": ["call", "arguments"]}
        def start(self, limits):
            self.steps = limits["max_steps"]
            self.calls, self.seen = [], 0
        def propose(self, call):
            self.calls.append((call.get("tool"), str(call.get("arguments"))))
            last = self.calls[-3:]
            if len(last) == 3 and len(set(last)) == 1:
                return {"decision": "stop", "reason": "repeated_action"}
            return {"decision": "continue"}
        def observe(self, seen):
            self.seen += 1
            return {"decision": "continue"}

    class Deaf(Guard):
        "Was never asked: whoever dispatches without proposing finds a controller that stops."
        def observe(self, seen):
            if seen.get("tool") and not self.calls:
                raise RuntimeError("this call was not proposed")
            return {"decision": "continue"}
"""
FEW = Profile(name="few", examples=20, shrink_seconds=1.0, seconds=30.0)
BY_ID = {each.id: each for each in CATALOGUE}
CONTROL = {each.id: each for each in CONTROLLER_CATALOGUE}


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The working folder, with evaluators and controllers of a user."""
    (tmp_path / "theirs.py").write_text(textwrap.dedent(EVALUATORS), encoding="utf-8")
    (tmp_path / "guards.py").write_text(textwrap.dedent(CONTROLLERS), encoding="utf-8")
    monkeypatch.chdir(tmp_path)
    return tmp_path


@pytest.fixture
def opened(folder: Path) -> Iterator[dict[str, EvaluatorTarget]]:
    """Targets by name, opened when they are asked for and closed at the end."""
    del folder

    class Opening(dict[str, EvaluatorTarget]):
        def __missing__(self, name: str) -> EvaluatorTarget:
            self[name] = load_target(f"theirs:{name}", answer_seconds=20.0)
            return self[name]

    targets = Opening()
    yield targets
    for target in targets.values():
        target.close()


def counting(seconds: float) -> tuple[Property, list[float]]:
    """A property that holds, and a clock that its judge moves by so many seconds a case."""
    clock = [0.0]

    def judge(target: EvaluatorTarget, case: Case) -> Judgement:
        del target, case
        clock[0] += seconds
        return Judgement()

    asked = Property(
        id="E90",
        name="slow",
        statement="It holds.",
        prevents="Nothing.",
        mutants=(),
        cases=lambda: st.integers(0, 10**6).map(lambda number: {"number": number}),
        judge=judge,
    )
    return asked, clock


def test_a_slow_target_is_unknown_when_the_profile_s_time_is_up(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    asked, clock = counting(10.0)
    monkeypatch.setattr("loopcore.testing.examining.monotonic", lambda: clock[0])
    outcome = examine(asked, load_target(), PROFILES["quick"], 0)
    assert outcome.verdict == "unknown"
    assert outcome.reason == ("60 s were not enough for this target: 7 examples, and 50 are needed")
    assert clock[0] <= PROFILES["quick"].seconds + 10


def test_a_late_search_that_has_seen_enough_is_held(monkeypatch: pytest.MonkeyPatch) -> None:
    asked, clock = counting(1.0)
    monkeypatch.setattr("loopcore.testing.examining.monotonic", lambda: clock[0])
    outcome = examine(asked, load_target(), replace(FEW, seconds=25.0), 0)
    assert (outcome.verdict, outcome.examples) == ("held", 20)


def test_every_profile_bounds_the_time_of_a_property() -> None:
    assert [each.seconds for each in PROFILES.values()] == [60, 600, 3600]


def test_a_target_that_changes_its_arguments_breaks_replay(
    opened: dict[str, EvaluatorTarget],
) -> None:
    replay = BY_ID["E01"]
    broken = examine(replay, opened["careless"], replace(FEW, examples=1), 0)
    assert broken.verdict == "broken"
    assert broken.reason is not None
    assert "it changed the values that it was given" in broken.reason
    assert broken.broken is not None
    again = judge_case(replay, opened["careless"], broken.broken.case)
    assert isinstance(again, Judgement)
    assert again.finding == broken.reason
    careful = judge_case(replay, opened["careful"], broken.broken.case)
    assert isinstance(careful, Judgement)
    assert careful.finding is None


def test_a_target_in_this_process_that_changes_its_arguments_breaks_replay() -> None:
    class Careless:
        releases = ("loopcore-reference/1", "loopcore-extended/1")

        def __init__(self) -> None:
            self._ours = load_target()

        def __getattr__(self, name: str) -> object:
            return getattr(self._ours, name)

        def evaluate(self, policy: dict[str, object], steps: list[object]) -> object:
            answer = self._ours.evaluate(policy, steps)  # type: ignore[arg-type]
            policy["max_steps"] = 1
            return answer

    careless: EvaluatorTarget = Careless()  # type: ignore[assignment]
    seen = judge_case(BY_ID["E01"], careless, BY_ID["E01"].examples[0])
    assert isinstance(seen, Judgement)
    assert seen.finding is not None
    assert "changed the values" in seen.finding


def test_an_answer_in_which_a_key_stands_twice_is_a_bad_answer(
    opened: dict[str, EvaluatorTarget], tmp_path: Path
) -> None:
    with pytest.raises(TargetError, match="gave no result") as raised:
        opened["twice"].evaluate({}, [])
    assert raised.value.kind == "answer"
    script = tmp_path / "twice.py"
    script.write_text(
        "import json, sys\n"
        "facts = {'protocol': 'loopcore/target/1', 'name': 'n', 'version': '1', 'wire': 'values',"
        " 'releases': ['loopcore-reference/1']}\n"
        "for line in sys.stdin:\n"
        "    request = json.loads(line)\n"
        "    if request['op'] == 'describe':\n"
        "        print(json.dumps({**facts, 'id': request['id']}), flush=True)\n"
        "    else:\n"
        '        print(\'{"id":%d,"error":{"code":"a","code":"b"}}\' % request[\'id\'],'
        " flush=True)\n",
        encoding="utf-8",
    )
    target = load_target(command=f"'{sys.executable}' '{script}'")
    try:
        with pytest.raises(TargetError, match="no JSON object with each key once"):
            target.evaluate({}, [])
    finally:
        target.close()


def test_a_target_that_has_hung_is_given_less_time() -> None:
    child = target_child([sys.executable, "-c", "import time; time.sleep(60)"], 0.2)
    with child, pytest.raises(TargetError, match=r"no answer within 0\.2 s"):
        child.ask(b"{}")
    patient = target_child([sys.executable, "-c", "import time; time.sleep(60)"], 2.5)
    with patient:
        for seconds in ("2.5", f"{SECONDS_AFTER_HANG:g}"):
            with pytest.raises(TargetError, match=f"no answer within {seconds} s"):
                patient.ask(b"{}")


@pytest.mark.slow
def test_a_target_that_takes_a_gigabyte_breaks_totality(
    opened: dict[str, EvaluatorTarget],
) -> None:
    case = TOTALITY.examples[0]
    seen = judge_case(TOTALITY, opened["hungry"], case)
    assert isinstance(seen, Judgement)
    assert seen.finding is not None
    assert "bytes while it answered" in seen.finding
    modest = judge_case(TOTALITY, opened["careful"], case)
    assert isinstance(modest, Judgement)
    assert modest.finding is None


@pytest.mark.slow
def test_a_leak_in_a_child_process_breaks_bounded_memory(folder: Path) -> None:
    del folder
    leaking = open_controller(TargetSpec(name="guards:Leaks", kind="controller"))
    ours = open_controller(TargetSpec(kind="controller")).fresh()
    try:
        for target, verdict in ((leaking, "broken"), (ours, "held")):
            # Only a long run fills the room that a new process has left.
            (long,) = (case for case in CONTROL["C08"].examples if case["long"] is True)
            seen = judge_case(CONTROL["C08"], target, long)
            assert isinstance(seen, Judgement)
            assert (seen.finding is not None) == (verdict == "broken"), seen
    finally:
        leaking.close()
        ours.close()


def test_a_controller_that_decides_before_is_asked_about_each_call_first(folder: Path) -> None:
    del folder
    for name in ("Guard", "Deaf"):
        target = open_controller(TargetSpec(name=f"guards:{name}", kind="controller"))
        try:
            assert target.decides == "before"
            seen = judge_case(CONTROL["C07"], target, CONTROL["C07"].examples[0])
            assert isinstance(seen, Judgement), seen
            assert seen.finding is None
        finally:
            target.close()


def test_a_stop_before_dispatch_is_judged_like_a_stop(folder: Path) -> None:
    del folder
    target = open_controller(TargetSpec(name="guards:Guard", kind="controller"))
    try:
        # It stops at the third equal call and knows no repeatable tool.
        outcome = examine(CONTROL["C03"], target, FEW, 0)
    finally:
        target.close()
    assert outcome.verdict == "broken"
    assert outcome.reason is not None
    assert "repeated_action" in outcome.reason
