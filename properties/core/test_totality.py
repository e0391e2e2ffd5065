"""Claim: `evaluate --batch` answers any line with a receipt or a typed error, never a traceback.

Ten thousand random documents and as many random byte strings go through one call of the command.
"""

from __future__ import annotations

import json
import random
import subprocess
import sys
from collections import Counter

from loopcore.terminals import ERROR_CODES
from properties.core.random_documents import source

COUNT = 10_000
BYTES_MAX = 200


def answers(data: bytes) -> list[dict[str, object]]:
    """Return the answers of one batch call, which must end well and say nothing else."""
    done = subprocess.run(
        [sys.executable, "-m", "loopcore", "evaluate", "--batch", "-"],
        input=data,
        capture_output=True,
        timeout=300,
        check=False,
    )
    assert (done.returncode, done.stderr) == (0, b"")
    return [json.loads(line) for line in done.stdout.splitlines()]


def test_random_documents_get_a_receipt_or_a_typed_error() -> None:
    generator = source(11)
    # A line feed inside a document would make two lines of it.
    lines = [generator.document().replace(b"\n", b" ") for _ in range(COUNT)]
    met: Counter[str] = Counter()
    replies = answers(b"\n".join(lines))
    assert len(replies) == COUNT
    for reply in replies:
        error = reply.get("error")
        if isinstance(error, dict):
            assert error["code"] in ERROR_CODES
            met["error"] += 1
        else:
            assert reply["schema"] == "loopcore/receipt/1"
            met["receipt"] += 1
    # Neither side of the claim is empty.
    assert min(met["error"], met["receipt"]) > COUNT // 20, met


def test_random_bytes_get_a_typed_error() -> None:
    draw = random.Random(12)
    shapes = ('{"schema":', "[", '"', "1e", "\\u", "null", "\x00", "\ufeff")
    lines: list[bytes] = []
    for number in range(COUNT):
        line = draw.randbytes(draw.randrange(1, BYTES_MAX))
        if number % 2:
            line = "".join(draw.choice(shapes) for _ in range(draw.randrange(1, 30))).encode()
        lines.append(line.replace(b"\n", b"\r"))
    replies = answers(b"\n".join(lines) + b"\n")
    assert len(replies) == COUNT
    for reply in replies:
        error = reply["error"]
        assert isinstance(error, dict)
        assert error["code"] == "malformed"
