"""A target in any language is held to the protocol before it is held to anything else."""

import json
import sys
import textwrap
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Protocol

import pytest

from loopcore.errors import TargetError, UsageError
from loopcore.suite import load_target
from loopcore.testing.answers import checked_answer
from loopcore.testing.contract import EvaluatorTarget


class Speak(Protocol):
    """Opens a target that is given as the source text of a script."""

    def __call__(self, source: str, *, answer_seconds: float = 10.0) -> EvaluatorTarget: ...


@pytest.fixture
def spoken(tmp_path: Path) -> Iterator[Speak]:
    """A function that opens a script which speaks the target protocol."""
    targets: list[EvaluatorTarget] = []

    def make(source: str, *, answer_seconds: float = 10.0) -> EvaluatorTarget:
        script = tmp_path / "target.py"
        script.write_text(textwrap.dedent(source), encoding="utf-8")
        command = f"'{sys.executable}' '{script}'"
        targets.append(load_target(command=command, answer_seconds=answer_seconds))
        return targets[-1]

    yield make
    for target in targets:
        target.close()


def script(describe: str = "", answer: str = "") -> str:
    """A target in a few lines; `describe` changes the facts, `answer` is the body of an answer."""
    return f"""
import json, sys, os, time
facts = {{
    "protocol": "loopcore/target/1", "name": "theirs", "version": "1",
    "releases": ["loopcore-reference/1"], "wire": "bytes",
}}
number = 0
{describe}
def say(value):
    print(json.dumps(value), flush=True)
for line in sys.stdin:
    request = json.loads(line)
    number = request["id"]
    if request["op"] == "describe":
        say(facts | {{"id": number}})
    else:
        {answer or 'say({"id": number, "error": {}})'}
"""


REFUSALS = {
    "protocol": ("facts['protocol'] = 'loopcore/target/2'", "loopcore/target/2"),
    "no protocol": ("del facts['protocol']", "loopcore/target/1"),
    "name": ("facts['name'] = 1", "name and version"),
    "version": ("del facts['version']", "name and version"),
    "wire": ("facts['wire'] = 'pigeon'", "under wire"),
    "releases": ("facts['releases'] = ['other/1']", "releases"),
    "releases are no list": ("facts['releases'] = 'loopcore-reference/1'", "releases"),
    "banner": ("print('welcome', flush=True)", "describe|line"),
    "death": ("sys.exit(5)", "status 5"),
    "silence": ("time.sleep(600)", "no answer"),
}


@pytest.mark.parametrize(("change", "sentence"), REFUSALS.values(), ids=REFUSALS)
def test_a_command_that_does_not_describe_itself_is_refused(
    spoken: Speak, change: str, sentence: str
) -> None:
    with pytest.raises(UsageError, match=sentence):
        spoken(script(change), answer_seconds=3.0)


@pytest.mark.parametrize("command", ["", "no-such-command-anywhere", "an 'open quote", "/"])
def test_a_command_that_cannot_be_started_is_refused(command: str) -> None:
    with pytest.raises(UsageError):
        load_target(command=command)


ANSWERS = {
    "wrong id": ("say({'id': number + 1, 'error': {}})", "order"),
    "no id": ("say({'error': {}})", "order"),
    "id as text": ("say({'id': str(number), 'error': {}})", "order"),
    "true as id": ("say({'id': True, 'error': {}})", "order"),
    "twice": ("say({'id': number, 'error': {}}); say({'id': number, 'error': {}})", "order"),
    "both": ("say({'id': number, 'error': {}, 'receipt': {}})", "answer"),
    "neither": ("say({'id': number})", "answer"),
    "no object": ("say({'id': number, 'receipt': 5})", "answer"),
    "a list": ("say([])", "answer"),
    "no JSON": ("print('oh', flush=True)", "answer"),
    "no UTF-8": ("os.write(1, b'\\xff\\n')", "answer"),
    "too deep": ("print('[' * 100000, flush=True)", "answer"),
    "death": ("os._exit(6)", "crash"),
}


def first_error(target: EvaluatorTarget) -> TargetError:
    """The error of one of two requests; a second line may arrive after the first was taken."""
    for _ in range(2):
        try:
            target.evaluate({"policy_id": "marked"}, [])
        except TargetError as error:
            return error
        time.sleep(0.3)
    raise AssertionError("both requests were answered")


@pytest.mark.parametrize(("answer", "kind"), ANSWERS.values(), ids=ANSWERS)
def test_an_answer_that_breaks_the_protocol_is_an_error_of_its_kind(
    spoken: Speak, answer: str, kind: str
) -> None:
    target = spoken(script(answer=answer))
    error = first_error(target)
    assert error.kind == kind
    assert "marked" in str(error.request)


def test_any_bytes_get_an_answer_with_null_or_their_own_id(spoken: Speak) -> None:
    served = load_target(command=f"'{sys.executable}' -m loopcore serve")
    try:
        for data in (b"", b"{", b"\xff", b"[]", b'{"id":7}', b'{"id":"7"}', b'{"id":1,"id":2}'):
            assert set(served.evaluate_line(data)) == {"error"}
    finally:
        served.close()
    wrong = spoken(script(answer="say({'id': 5, 'error': {}})"))
    with pytest.raises(TargetError, match="id 5"):
        wrong.evaluate_line(b'{"id":7,"op":"evaluate"}')


@pytest.mark.parametrize("encoding", ["utf-16", "utf-16-le", "utf-32", "utf-8-sig", "latin-1"])
def test_an_answer_in_another_encoding_than_utf_8_is_refused(spoken: Speak, encoding: str) -> None:
    answer = (
        'data = json.dumps({"id": number, "error": {"code": "\\u00e9"}}, ensure_ascii=False)\n'
        f"        os.write(1, data.encode({encoding!r}) + b'\\n')"
    )
    target = spoken(script(answer=answer))
    with pytest.raises(TargetError) as caught:
        target.evaluate({}, [])
    assert caught.value.kind == "answer"


@pytest.mark.parametrize(
    "policy", [b"[" * 5_000 + b"]" * 5_000, b"9" * 5_000], ids=["deep", "long"]
)
def test_an_id_in_a_line_that_is_too_much_for_our_reader_may_be_answered_and_no_other(
    policy: bytes,
) -> None:
    asked = b'{"id":7,"op":"evaluate","policy":%b,"steps":[]}' % policy
    error = {"code": "malformed", "path": "$", "step": None}
    for identity in (7, None):
        answer = json.dumps({"id": identity, "error": error}).encode()
        assert checked_answer(answer, asked) == {"error": error}
    with pytest.raises(TargetError, match="has the id 8, which is not that of the request"):
        checked_answer(json.dumps({"id": 8, "error": error}).encode(), asked)
