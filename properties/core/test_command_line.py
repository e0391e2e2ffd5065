"""Claim: no file that a user can name brings out a traceback, and each gets its documented status.

Every case runs the real command in a process of its own and looks at all that a shell sees: the
exit status, standard output and standard error.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import threading
from pathlib import Path
from typing import cast

import pytest

from loopcore.canonical import canonical
from loopcore.evaluator import evaluate
from loopcore.lab import baseline_policy, baseline_steps
from loopcore.models import Trace

TRACE = canonical(
    Trace(schema="loopcore/trace/1", policy=baseline_policy(), steps=baseline_steps())
)
RECEIPT = canonical(evaluate(baseline_policy(), baseline_steps()))
STREAM = b"\n".join(
    [
        canonical({"schema": "loopcore/trace/1", "policy": baseline_policy()}),
        *(canonical(step) for step in baseline_steps()),
    ]
)
MEGABYTE = 2**20


def loopcore(*words: str, given: bytes = b"") -> subprocess.CompletedProcess[bytes]:
    """Run a command as a shell would; fail on any traceback."""
    done = subprocess.run(
        [sys.executable, "-m", "loopcore", *words],
        input=given,
        capture_output=True,
        timeout=120,
        check=False,
    )
    assert b"Traceback" not in done.stderr, done.stderr.decode()
    return done


def error_of(done: subprocess.CompletedProcess[bytes]) -> dict[str, object]:
    """Return the error object of a call that must have ended with an input error."""
    assert done.returncode == 2, done
    # One sentence for people, and nothing else.
    assert done.stderr.startswith(b"loopcore: ")
    assert done.stderr.count(b"\n") == 1
    return cast("dict[str, object]", json.loads(done.stdout)["error"])


HOSTILE: dict[str, tuple[bytes, str]] = {
    "empty": (b"", "$"),
    "blank": (b" \n", "$"),
    "binary": (bytes(range(256)) * 64, "$"),
    "truncated": (TRACE[:-7], "$"),
    "trailing": (TRACE + b"x", "$"),
    "brackets": (b"[" * (100 * MEGABYTE), "$"),
    "deep-object": (b'{"a":' * 100_000, "$"),
    "nested-17": (b"[" * 17 + b"]" * 17, "$"),
    "byte-order-mark": (b"\xef\xbb\xbf" + TRACE, "$"),
    "utf-16": (TRACE.decode().encode("utf-16"), "$"),
    "latin-1": (TRACE.replace(b"mp-24", b"\xe9"), "$"),
    "nul": (TRACE + b"\x00", "$"),
    "other-json": (b"[1, 2]", "$"),
    "other-object": (b'{"schema": "loopcore/trace/1"}', "$.policy"),
    "huge-integer": (TRACE.replace(b'":8', b'":' + b"9" * 5000), "$.policy.max_steps"),
}  # fmt: skip


@pytest.mark.parametrize("name", HOSTILE)
def test_a_hostile_file_is_an_input_error(name: str, tmp_path: Path) -> None:
    data, path = HOSTILE[name]
    file = tmp_path / f"{name}.json"
    file.write_bytes(data)
    error = error_of(loopcore("evaluate", str(file)))
    assert (error["code"], error["path"], error["step"]) == ("malformed", path, None)
    # The same text as a stream, as standard input and as a receipt is refused as well.
    stream = tmp_path / f"{name}.jsonl"
    stream.write_bytes(data)
    assert error_of(loopcore("evaluate", str(stream)))["code"] == "malformed"
    assert error_of(loopcore("evaluate", "-", given=data))["code"] == "malformed"
    receipt = error_of(loopcore("replay", "-", str(file), given=TRACE))
    assert receipt["code"] == "malformed"


def test_a_sentence_quotes_only_the_beginning_of_a_long_key(tmp_path: Path) -> None:
    file = tmp_path / "long.json"
    file.write_bytes(b'{"' + b"k" * MEGABYTE + b'": 1}')
    done = loopcore("evaluate", str(file))
    error = error_of(done)
    assert error["path"] == "$." + "k" * MEGABYTE
    assert len(done.stderr) < 1000
    assert len(str(error["message"])) < 1000


def test_a_file_that_cannot_be_read_is_unreadable(tmp_path: Path) -> None:
    (tmp_path / "folder.json").mkdir()
    for name in ("missing.json", "folder.json", "missing.jsonl", "a\nb.json", "\udcff.json"):
        error = error_of(loopcore("evaluate", str(tmp_path / name)))
        assert (error["code"], error["path"], error["step"]) == ("unreadable", None, None)
        assert error_of(loopcore("evaluate", "--batch", str(tmp_path / name)))["code"] == (
            "unreadable"
        )
        assert error_of(loopcore("replay", str(tmp_path / name), "-", given=RECEIPT))["code"] == (
            "unreadable"
        )


def test_a_named_pipe_is_read_like_standard_input(tmp_path: Path) -> None:
    for data in (TRACE, STREAM):
        pipe = tmp_path / "pipe"
        os.mkfifo(pipe)
        writer = threading.Thread(target=pipe.write_bytes, args=(data,))
        writer.start()
        done = loopcore("evaluate", str(pipe))
        writer.join()
        assert done.returncode == 0
        assert done.stdout == RECEIPT + b"\n"
        pipe.unlink()


def test_document_stream_and_standard_input_give_one_receipt(tmp_path: Path) -> None:
    document, stream = tmp_path / "trace.json", tmp_path / "trace.jsonl"
    pretty = json.dumps(json.loads(TRACE), indent=2).encode()
    document.write_bytes(pretty)
    stream.write_bytes(STREAM + b"\n")
    calls = [
        loopcore("evaluate", str(document)),
        loopcore("evaluate", str(stream)),
        loopcore("evaluate", "-", given=TRACE),
        loopcore("evaluate", "-", given=b"\n\n" + pretty),
        loopcore("evaluate", "-", given=STREAM),
    ]
    for done in calls:
        assert done.returncode == 0
        assert done.stdout == RECEIPT + b"\n"
        assert done.stderr == b"loopcore: completion: identity only\n"


def test_a_bad_line_spoils_only_its_own_answer(tmp_path: Path) -> None:
    batch = tmp_path / "batch.jsonl"
    lines = [TRACE, b"", b"{", TRACE + b" ", b"\xff", TRACE]
    batch.write_bytes(b"\n".join(lines))
    done = loopcore("evaluate", "--batch", str(batch))
    assert done.returncode == 0
    answers = done.stdout.split(b"\n")[:-1]
    assert len(answers) == len(lines)
    assert [answer == RECEIPT for answer in answers] == [True, False, False, True, False, True]
    for answer in (answers[1], answers[2], answers[4]):
        assert json.loads(answer)["error"]["code"] == "malformed"


def test_replay_tells_damage_from_another_trace(tmp_path: Path) -> None:
    trace, receipt = tmp_path / "trace.json", tmp_path / "receipt.json"
    trace.write_bytes(TRACE)
    receipt.write_bytes(RECEIPT)
    done = loopcore("replay", str(trace), str(receipt))
    assert done.returncode == 0
    assert done.stdout.count(b"\n") == 1

    receipt.write_bytes(RECEIPT.replace(b'"tool_calls":1', b'"tool_calls":2'))
    done = loopcore("replay", str(trace), str(receipt))
    assert done.returncode == 1
    assert done.stdout == b"usage.tool_calls\n"
    assert b"altered" in done.stderr

    shorter = canonical(evaluate(baseline_policy(), baseline_steps()[:3]))
    receipt.write_bytes(shorter)
    done = loopcore("replay", str(trace), str(receipt), "--json")
    assert done.returncode == 1
    answer = json.loads(done.stdout)
    assert answer["self_consistent"] is True
    assert "steps_sha256" in answer["differing"]


@pytest.mark.parametrize(
    "words",
    [
        (),
        ("unknown",),
        ("--unknown",),
        ("evaluate",),
        ("evaluate", "a", "b"),
        ("replay", "-", "-"),
        ("serve", "--limits", "x"),
        ("evaluate", "\x1b[31m"),
    ],
)
def test_a_wrong_call_is_exit_2_with_words(words: tuple[str, ...]) -> None:
    done = loopcore(*words)
    assert done.returncode == 2
    assert done.stderr or words == ()
    assert b"\x1b" not in done.stderr


def test_a_reader_that_leaves_early_is_no_error(tmp_path: Path) -> None:
    batch = tmp_path / "batch.jsonl"
    batch.write_bytes((TRACE + b"\n") * 2_000)
    process = subprocess.Popen(
        [sys.executable, "-m", "loopcore", "evaluate", "--batch", str(batch)],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
    )
    assert process.stdout is not None
    assert process.stderr is not None
    process.stdout.readline()
    process.stdout.close()
    assert process.stderr.read() == b""
    assert process.wait(timeout=60) == 0
    process.stderr.close()


def test_serve_speaks_for_a_control_level_under_limits_of_a_file(tmp_path: Path) -> None:
    limits = tmp_path / "limits.json"
    limits.write_bytes(b'{"repeat": 2}')
    call = {"turn": 1, "action": 1, "tool": "look", "arguments": "{}", "result": "same"}
    lines: list[dict[str, object]] = [
        {"id": 1, "op": "describe"},
        {"id": 2, "op": "start", "limits": {}},
        {"id": 3, "op": "observe", "observation": call},
        {"id": 4, "op": "observe", "observation": {**call, "turn": 2, "arguments": "{ }"}},
    ]
    given = "\n".join(json.dumps(line) for line in lines).encode()
    done = loopcore("serve", "--level", "D", "--limits", str(limits), given=given)
    assert done.returncode == 0
    answers = [json.loads(line) for line in done.stdout.split(b"\n")[:-1]]
    assert [answer["id"] for answer in answers] == [1, 2, 3, 4]
    assert answers[0]["protocol"] == "loopcore/controller/1"
    assert (answers[3]["decision"], answers[3]["reason"]) == ("stop", "repeated_action")

    limits.write_bytes(b'{"repeat": 1}')
    refused = loopcore("serve", "--level", "D", "--limits", str(limits))
    assert (refused.returncode, refused.stdout) == (2, b"")
    assert b"limits.repeat" in refused.stderr


def test_serve_answers_every_line_in_order() -> None:
    request = {"op": "evaluate", **{key: json.loads(TRACE)[key] for key in ("policy", "steps")}}
    lines = [
        json.dumps({"id": 1, "op": "describe"}).encode(),
        b"not json",
        json.dumps({"id": 3, **request, "extra": [1]}).encode(),
        json.dumps({"id": 4, "op": "fly"}).encode(),
        b"",
        json.dumps({"id": True, **request}).encode(),
        json.dumps({"id": 7, **request}).replace('"max_steps": 8', '"max_steps": 8.0').encode(),
        b'{"id": 8, "op": "evaluate", "policy": {}, "policy": {}}',
        b"[" * 100_000,
    ]
    done = loopcore("serve", given=b"\n".join(lines))
    assert done.returncode == 0
    answers = [json.loads(line) for line in done.stdout.splitlines()]
    assert [answer["id"] for answer in answers] == [1, None, 3, 4, None, None, 7, 8, None]
    assert answers[0]["wire"] == "bytes"
    assert answers[2]["receipt"] == json.loads(RECEIPT) == answers[5]["receipt"]
    paths = [answer["error"]["path"] for answer in answers if "error" in answer]
    assert paths == ["$", "$.op", "$", "$.policy.max_steps", "$.policy", "$"]


def test_a_request_that_nests_too_deep_is_answered_under_its_id() -> None:
    deep = b"[" * 30 + b"]" * 30
    lines = [
        b'{"id":1,"op":"evaluate","steps":[],"policy":' + deep + b"}",
        b'{"steps":' + deep + b',"op":"evaluate","policy":{},"id":2}',
        b'{"id":3,"op":"describe","ignored":' + deep + b"}",
        b'{"id":4,"op":"describe","ignored":' + deep + b"} x",
        b"[" * 17 + b"]" * 17,
    ]
    done = loopcore("serve", given=b"\n".join(lines))
    answers = [json.loads(line) for line in done.stdout.splitlines()]
    assert [answer["id"] for answer in answers] == [1, 2, 3, None, None]
    errors = [(answer["error"]["code"], answer["error"]["path"]) for answer in answers]
    assert errors == [("malformed", "$")] * len(lines)


@pytest.mark.parametrize(
    "words",
    [
        ("lab", "--out=--"),
        ("audit", "--seed=--"),
        ("audit", "--seed=-1"),
        ("audit", "--seed=1_0"),
        ("audit", "--seed=\u0663"),
        ("audit", "--seed="),
        ("audit", f"--seed={2**63}"),
        ("audit", "--seed=" + "0" * 20 + "9" * 20),
        ("audit", "--seed=" + "9" * 6000),
    ],
)
def test_a_value_that_an_option_does_not_take_is_one_sentence(
    words: tuple[str, ...], tmp_path: Path
) -> None:
    done = subprocess.run(
        [sys.executable, "-m", "loopcore", *words], capture_output=True, cwd=tmp_path, check=False
    )
    assert (done.returncode, done.stdout, done.stderr.count(b"\n")) == (2, b"", 1), done
    assert words[1].partition("=")[0].encode() in done.stderr
    assert len(done.stderr) < 300
    assert not list(tmp_path.iterdir())


def test_the_largest_seed_is_taken_with_leading_zeros() -> None:
    done = loopcore("audit", "--json", "--seed", "0" * 6000 + str(2**63 - 1))
    assert done.returncode == 0
    assert json.loads(done.stdout)["seed"] == 2**63 - 1


def test_limits_that_are_too_long_are_refused_at_once(tmp_path: Path) -> None:
    limits = tmp_path / "limits.json"
    limits.write_bytes(b"[" * (100 * MEGABYTE))
    done = loopcore("serve", "--level", "D", "--limits", str(limits))
    assert (done.returncode, done.stdout, done.stderr.count(b"\n")) == (2, b"", 1)


@pytest.mark.parametrize("encoding", ["utf-8:strict", "ascii:strict"])
def test_any_folder_can_be_printed_in_any_encoding(encoding: str, tmp_path: Path) -> None:
    done = subprocess.run(
        [sys.executable, "-m", "loopcore", "lab", "--out", os.fsdecode(b"o\xff\xc3\xa9")],
        capture_output=True,
        cwd=tmp_path,
        check=False,
        env=os.environ | {"PYTHONIOENCODING": encoding},
    )
    assert (done.returncode, done.stderr) == (0, b"")
    assert b"written to o\\udcff" in done.stdout
