"""The JavaScript target keeps the protocol: one answer a line, in order, whatever the line holds.

Each case is a line of bytes beside the id and the path of its answer, worked out by hand. Without
`node` this module collects nothing, and the project's own run requires it.
Source: spec evaluator, section 7.
"""

import shutil
import subprocess
from pathlib import Path

import msgspec
import pytest

NODE = shutil.which("node")
__test__ = NODE is not None

TARGET = Path(__file__).resolve().parents[1] / "loop" / "targets" / "evaluator.mjs"
COMMAND = [str(NODE), str(TARGET)]
SECONDS_MAX = 30
INTEGER_MAX = 2**53 - 1


class Error(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """An error object without a verdict."""

    code: str
    path: str | None
    step: int | None
    message: str


class Answer(msgspec.Struct, frozen=True, kw_only=True):
    """An answer, of which the id and the error are read."""

    id: int | None
    error: Error | None = None


# A line, the id of its answer, the path of its error; None where there is no error.
LINES: list[tuple[bytes, int | None, str | None]] = [
    (b'{"id": 1, "op": "describe"}', 1, None),
    (b"", None, "$"),
    (b"not json", None, "$"),
    (b'{"id": 2, "op": "describe"} x', None, "$"),
    (b'\xef\xbb\xbf{"id": 2, "op": "describe"}', None, "$"),
    (b'{"id": 2, "op": "describe", "x": "\xff"}', None, "$"),
    (b'{"id": NaN, "op": "describe"}', None, "$"),
    (b"[" * 100_000 + b"]" * 100_000, None, "$"),
    (b'[{"id": 2, "op": "describe"}]', None, "$"),
    (b"null", None, "$"),
    (b"{}", None, "$.op"),
    (b'{"id": 3}', 3, "$.op"),
    (b'{"id": 4, "op": "stop"}', 4, "$.op"),
    (b'{"id": 5, "op": null}', 5, "$.op"),
    (b'{"id": "6", "op": "describe"}', None, None),
    (b'{"id": 6.5, "op": "describe"}', None, None),
    (b'{"id": true, "op": "stop"}', None, "$.op"),
    (b'{"op": "evaluate", "steps": 5}', None, "$.policy"),
    (b'{"id": 7, "op": "evaluate", "steps": 5}', 7, "$.policy"),
    (b'{"id": 8, "op": "evaluate", "policy": 5}', 8, "$.steps"),
    (b' \t{"id": 9, "op": "describe", "more": [[[[[[[[[[[[[[[[[[1]]]]]]]]]]]]]]]]]]}\r', 9, None),
    (b'{"id": 9007199254740991, "op": "describe"}', INTEGER_MAX, None),
    (b'{"id": 10, "op": "describe"}', 10, None),
]


@pytest.mark.parametrize("ending", [b"\n", b""])
def test_each_line_has_one_answer_in_order_and_the_process_goes_on(ending: bytes) -> None:
    data = b"\n".join(line for line, _, _ in LINES) + ending
    done = subprocess.run(
        COMMAND, input=data, capture_output=True, timeout=SECONDS_MAX, check=False
    )
    assert (done.returncode, done.stderr) == (0, b"")
    answers = [msgspec.json.decode(line, type=Answer) for line in done.stdout.splitlines()]
    found = [(answer.id, answer.error and answer.error.path) for answer in answers]
    assert found == [(identity, path) for _, identity, path in LINES]
    errors = [answer.error for answer in answers if answer.error is not None]
    assert {(error.code, error.step, error.message == "") for error in errors} == {
        ("malformed", None, False)
    }


def test_the_target_describes_itself_before_it_is_asked_anything_else() -> None:
    with subprocess.Popen(COMMAND, stdin=subprocess.PIPE, stdout=subprocess.PIPE) as process:
        assert process.stdin is not None
        assert process.stdout is not None
        process.stdin.write(b'{"id": 1, "op": "describe"}\n')
        process.stdin.flush()
        answer = msgspec.json.decode(process.stdout.readline(), type=dict[str, object])
        process.stdin.close()
        assert process.wait(timeout=SECONDS_MAX) == 0
    assert answer == {
        "id": 1,
        "protocol": "loopcore/target/1",
        "name": "loopcore-javascript",
        "version": "1",
        "releases": ["loopcore-reference/1", "loopcore-extended/1"],
        "wire": "values",
    }
