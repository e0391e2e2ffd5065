"""Evaluators in Python and in other languages are reached alike, and cannot disturb the suite."""

import json
import sys
import textwrap
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Protocol

import msgspec
import pytest

from loopcore.errors import TargetError, UsageError
from loopcore.suite import SUITE_FOLDERS, load_target, suite_folder
from loopcore.testing import naive
from loopcore.testing.contract import EvaluatorTarget, Json

BOUND_SECONDS = 30.0


class Open(Protocol):
    """Opens a target that is given as source text."""

    def __call__(
        self, source: str, name: str = "evaluate", *, answer_seconds: float = 10.0
    ) -> EvaluatorTarget: ...


# The reference evaluator, as a user would wrap it.
WRAPPED = """
    import json
    from loopcore.suite import load_target

    ours = load_target()

    class Evaluator:
        version = "7"

        def evaluate(self, policy, steps):
            return ours.evaluate(policy, steps)

        def evaluate_bytes(self, data):
            return ours.evaluate_line(b'{"op":"evaluate",' + data[1:])

        def start(self, policy):
            return Run(policy)

    class Run:
        def __init__(self, policy):
            self.policy, self.steps = policy, []

        def advance(self, step):
            self.steps.append(step)

        def finish(self):
            return ours.evaluate(self.policy, self.steps)
"""


@pytest.fixture
def opened(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Open]:
    """A function that opens an object of a module whose source text is given."""
    targets: list[EvaluatorTarget] = []
    monkeypatch.chdir(tmp_path)

    def make(
        source: str, name: str = "evaluate", *, answer_seconds: float = 10.0
    ) -> EvaluatorTarget:
        (tmp_path / "theirs.py").write_text(textwrap.dedent(source), encoding="utf-8")
        targets.append(load_target(f"theirs:{name}", answer_seconds=answer_seconds))
        return targets[-1]

    yield make
    for target in targets:
        target.close()


POLICY: dict[str, Json] = {
    "schema": "loopcore/policy/1",
    "policy_id": "by hand",
    "evaluator_release": "loopcore-reference/1",
    "run_envelope_sha256": "a" * 64,
    "behavior_spec_sha256": "b" * 64,
    "initial_state_sha256": "0" * 64,
    "started_at_unix_ms": 1000,
    "deadline_unix_ms": 9000,
    "max_steps": 3,
    "max_model_calls": 10,
    "max_tool_calls": 10,
    "max_repairs": 10,
    "max_cost_microunits": 100,
    "max_consecutive_no_progress": 10,
    "max_consecutive_repeated_actions": 10,
    "max_input_tokens": None,
    "max_output_tokens": None,
    "max_evidence_receipts": None,
    "max_cycle_length": None,
    "cycle_repeats": None,
}


def step(number: int, **changes: Json) -> dict[str, Json]:
    """Step `number` of a run that makes progress."""
    fields: dict[str, Json] = {
        "sequence": number,
        "action_kind": "verification",
        "action_sha256": f"{number:064x}",
        "state_before_sha256": f"{number - 1:064x}",
        "state_after_sha256": f"{number:064x}",
        "new_evidence_receipt_sha256": [f"{number:064x}"],
        "outcome": "succeeded",
        "completed_at_unix_ms": 1000 + number,
        "model_calls_delta": 0,
        "tool_calls_delta": 0,
        "repairs_delta": 0,
        "cost_microunits_delta": 0,
        "input_tokens_delta": 0,
        "output_tokens_delta": 0,
        "completion_receipt_sha256": None,
    }
    return fields | changes


# A run that ends at its fourth step, with one step too many; a gap; a step that does not decode.
RUNS: dict[str, list[dict[str, Json]]] = {
    "late": [step(number) for number in range(1, 6)],
    "gap": [step(1), step(3), step(4)],
    "malformed": [step(1), step(2, outcome="fine"), step(3)],
}


def expected(steps: list[dict[str, Json]]) -> dict[str, object]:
    """The naive model's answer, without the sentence for people."""
    return plain(dict(naive.evaluate(POLICY, steps)))


def plain(answer: dict[str, object]) -> dict[str, object]:
    """An answer without the sentence for people, and without what is null in an error."""
    if "error" not in answer:
        return answer
    error = msgspec.convert(answer["error"], dict[str, object])
    return {"error": {k: v for k, v in error.items() if k != "message" and v is not None}}


@pytest.mark.parametrize("steps", RUNS.values(), ids=RUNS)
def test_every_target_gives_the_naive_answers(opened: Open, steps: list[dict[str, Json]]) -> None:
    served = load_target(command=f"'{sys.executable}' -m loopcore serve")
    ours = load_target()
    theirs = opened(WRAPPED, "Evaluator")
    texts = json.dumps(POLICY).encode(), json.dumps(steps).encode()
    try:
        for target in (ours, theirs, served, ours.fresh(), theirs.fresh()):
            assert plain(target.evaluate(POLICY, steps)) == expected(steps)
            assert plain(target.evaluate_text(*texts)) == expected(steps)
            target.close()
    finally:
        served.close()


@pytest.mark.parametrize("steps", RUNS.values(), ids=RUNS)
def test_an_incremental_form_answers_each_prefix(
    opened: Open, steps: list[dict[str, Json]]
) -> None:
    prefixes = [expected(steps[:length]) for length in range(len(steps) + 1)]
    for target in (load_target(), opened(WRAPPED, "Evaluator")):
        assert target.incremental
        assert [plain(answer) for answer in target.advance(POLICY, steps)] == prefixes


def test_an_error_that_advance_returns_stays(opened: Open) -> None:
    source = """
        class Run:
            def advance(self, step):
                return {"error": {"code": "sequence_gap"}} if step == 2 else None
            def finish(self):
                return {"receipt": {}}
        def start(policy):
            return Run()
        def evaluate(policy, steps):
            return {"receipt": {}}
        class Both:
            evaluate = staticmethod(evaluate)
            start = staticmethod(start)
    """
    answers = opened(source, "Both").advance({}, [1, 2, 3])
    gap = {"error": {"code": "sequence_gap"}}
    assert answers == [{"receipt": {}}, {"receipt": {}}, gap, gap]


def test_a_function_is_an_evaluator_of_values(opened: Open) -> None:
    target = opened("def evaluate(policy, steps): return {'receipt': {'got': [policy, steps]}}")
    assert (target.wire, target.incremental, target.version) == ("values", False, "unknown")
    assert target.evaluate({"a": 1}, [2]) == {"receipt": {"got": [{"a": 1}, [2]]}}
    with pytest.raises(UsageError, match="evaluate_bytes"):
        target.evaluate_line(b"{}")


def test_an_exception_is_a_crash_with_its_traceback_and_the_request(opened: Open) -> None:
    target = opened("def evaluate(policy, steps):\n    raise KeyError('no such thing')\n")
    with pytest.raises(TargetError, match="KeyError: 'no such thing'") as caught:
        target.evaluate({"policy_id": "marked"}, [])
    assert caught.value.kind == "crash"
    assert 'theirs.py", line 2' in caught.value.message
    assert "marked" in str(caught.value.request)


def test_an_exception_without_words_is_a_crash_and_the_target_lives_on(opened: Open) -> None:
    source = """
        import os

        class Wordless(BaseException):
            def __str__(self):
                raise SystemExit

        def evaluate(policy, steps):
            if policy == "raise":
                raise Wordless
            return {"error": {"process": os.getpid()}}
    """
    target = opened(source)
    before = target.evaluate("", [])
    with pytest.raises(TargetError, match="it raised Wordless: it cannot be put into words"):
        target.evaluate("raise", [])
    assert target.evaluate("", []) == before


@pytest.mark.parametrize("leaving", ["raise SystemExit(0)", "raise KeyboardInterrupt", "exit()"])
def test_leaving_the_interpreter_is_a_crash(opened: Open, leaving: str) -> None:
    with pytest.raises(TargetError) as caught:
        opened(f"def evaluate(policy, steps):\n    {leaving}\n").evaluate({}, [])
    assert caught.value.kind == "crash"


def test_a_target_that_dies_is_a_crash_and_is_started_again(opened: Open) -> None:
    target = opened(
        """
        import os
        def evaluate(policy, steps):
            if steps:
                os._exit(9)
            return {"receipt": {}}
        """
    )
    with pytest.raises(TargetError, match="status 9"):
        target.evaluate({}, [1])
    assert target.evaluate({}, []) == {"receipt": {}}


def test_a_target_that_hangs_is_given_up(opened: Open) -> None:
    source = "import time\ndef evaluate(policy, steps):\n    time.sleep(600)\n"
    target = opened(source, answer_seconds=2.0)
    started = time.monotonic()
    with pytest.raises(TargetError) as caught:
        target.evaluate({}, [])
    assert caught.value.kind == "hang"
    assert time.monotonic() - started < BOUND_SECONDS


PRINTING = """
    import os, sys
    print("at import")
    def evaluate(policy, steps):
        print('{"result": {"receipt": {"forged": true}}}')
        os.write(1, b"raw" * 100000)
        sys.__stdout__.write("more")
        return {"receipt": {"true": 1}}
"""


def test_what_a_target_prints_is_reported_and_disturbs_nothing(opened: Open) -> None:
    target = opened(PRINTING)
    assert [target.evaluate({}, []) for _ in range(3)] == [{"receipt": {"true": 1}}] * 3
    notes: tuple[str, ...] = target.__getattribute__("notes")
    assert any("forged" in note for note in notes)


def test_a_silent_target_has_no_notes(opened: Open) -> None:
    target = opened(WRAPPED, "Evaluator")
    target.evaluate({}, [])
    assert target.__getattribute__("notes") == ()


def test_a_target_that_reads_standard_input_reads_nothing(opened: Open) -> None:
    target = opened(
        """
        import os, sys
        def evaluate(policy, steps):
            return {"receipt": {"read": sys.stdin.read() + os.read(0, 100).decode()}}
        """
    )
    assert target.evaluate({}, []) == {"receipt": {"read": ""}}


def test_a_fresh_process_has_another_hash_seed(opened: Open) -> None:
    target = opened("def evaluate(policy, steps): return {'receipt': {'h': hash('loop')}}")
    again = target.fresh()
    try:
        assert target.evaluate({}, []) == target.evaluate({}, [])
        assert target.evaluate({}, []) != again.evaluate({}, [])
    finally:
        again.close()


MISFITS = [
    "{}",
    "[]",
    "None",
    "{'receipt': {}, 'error': {}}",
    "{'receipt': 1}",
    "{'receipt': set()}",
]


@pytest.mark.parametrize("result", [*MISFITS, "{'receipt': {'x': float('nan')}}"])
def test_a_result_without_the_right_shape_is_no_answer(opened: Open, result: str) -> None:
    with pytest.raises(TargetError) as caught:
        opened(f"def evaluate(policy, steps): return {result}").evaluate({}, [])
    assert caught.value.kind == "answer"


LOADING = {
    "no colon": ("theirs", "package.module:object"),
    "no object": ("theirs:", "package.module:object"),
    "an option": ("-c:x", "package.module:object"),
    "no module": ("nowhere_at_all:evaluate", "no module nowhere_at_all"),
    "no such object": ("theirs:missing", "has no missing"),
    "not callable": ("theirs:number", "neither callable"),
    "raises": ("raising:evaluate", "importing raising raises ZeroDivisionError"),
    "exits": ("exiting:evaluate", "importing exiting raises SystemExit"),
    "dies": ("dying:evaluate", "status 4"),
    "constructor": ("theirs:Costly", "making theirs:Costly raises TypeError"),
    "releases": ("theirs:Foreign", "releases"),
}


@pytest.mark.parametrize(("name", "sentence"), LOADING.values(), ids=LOADING)
def test_a_target_that_cannot_be_loaded_is_refused_in_one_sentence(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, name: str, sentence: str
) -> None:
    monkeypatch.chdir(tmp_path)
    theirs = """
        number = 3
        class Costly:
            def __init__(self, price): ...
            def evaluate(self, policy, steps): ...
        class Foreign:
            releases = ["theirs/1"]
            def evaluate(self, policy, steps): ...
    """
    (tmp_path / "theirs.py").write_text(textwrap.dedent(theirs), encoding="utf-8")
    (tmp_path / "raising.py").write_text("1 / 0\n", encoding="utf-8")
    (tmp_path / "exiting.py").write_text("raise SystemExit(0)\n", encoding="utf-8")
    (tmp_path / "dying.py").write_text("import os\nos._exit(4)\n", encoding="utf-8")
    with pytest.raises(UsageError, match=sentence) as caught:
        load_target(name)
    assert "\n" not in str(caught.value)


def test_a_name_and_a_command_are_one_too_many() -> None:
    with pytest.raises(UsageError, match="not both"):
        load_target("a:b", "c")


def test_the_built_in_evaluator_answers_every_line() -> None:
    ours = load_target()
    assert set(ours.evaluate_line(b'{"id":7}')) == {"error"}
    assert ours.wire == "bytes"


def test_the_suite_folders_of_a_checkout_are_found() -> None:
    assert suite_folder("properties").name == "properties"
    with pytest.raises(ValueError, match="none of the suite's folders"):
        suite_folder("notebooks")
    assert "mutations" in SUITE_FOLDERS
