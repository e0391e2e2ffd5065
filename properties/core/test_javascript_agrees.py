"""Claim: the worked example in JavaScript, written from the specification alone, agrees with ours.

It runs as any target does, as a child process that answers JSON lines. Its wire is `values`, so a
document that its parser would show otherwise (a repeated key, -0) is not sent. Collected only where
Node.js is on the path.
"""

from __future__ import annotations

import json
import shutil
import subprocess
from pathlib import Path
from typing import cast

import pytest

from loopcore.serving import answer
from properties.core.random_documents import Value, source

NODE = shutil.which("node")
TARGET = Path(__file__).parents[1] / "loop" / "targets" / "evaluator.mjs"
TRACES = 2_000
TRACES_SLOW = 50_000


def requests(seed: int, count: int) -> list[bytes]:
    """Return request lines: three in four well shaped, one with one value out of shape."""
    generator = source(seed)
    lines: list[bytes] = []
    while len(lines) < count:
        document: Value = generator.trace()
        if len(lines) % 4 == 0:
            document = generator.misshape(document)
        text = json.dumps({"id": len(lines), "op": "evaluate", **document})
        if "-0.0" not in text:
            lines.append(text.encode())
    return lines


def comparable(line: bytes) -> object:
    """Return an answer without the text that is for people."""
    reply = cast("dict[str, object]", json.loads(line))
    if "error" in reply:
        cast("dict[str, object]", reply["error"]).pop("message", None)
    return reply


def compare(seed: int, count: int) -> None:
    """Send the same requests to both and compare every answer whole."""
    assert NODE is not None
    lines = requests(seed, count)
    done = subprocess.run(
        [NODE, str(TARGET)],
        input=b"\n".join(lines) + b"\n",
        capture_output=True,
        timeout=600,
        check=True,
    )
    theirs = done.stdout.splitlines()
    assert len(theirs) == count
    for line, their in zip(lines, theirs, strict=True):
        assert comparable(their) == comparable(answer(line)), line


if NODE is not None:

    def test_javascript_and_reference_agree() -> None:
        compare(21, TRACES)

    @pytest.mark.slow
    def test_javascript_and_reference_agree_at_length() -> None:
        compare(22, TRACES_SLOW)
