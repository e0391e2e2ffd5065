"""Claim: a stream of too many steps is refused as the document that it spells would be.

The limit of a million is lowered here, in the stream's reader alone, so that it can be passed in no
time. The order is that of a document: text, header, length of the array, and only then its values.
"""

from __future__ import annotations

import io

import pytest

from loopcore import documents
from loopcore.canonical import canonical
from loopcore.errors import InputError
from loopcore.lab import baseline_policy, baseline_steps

STEPS_MAX = 3
HEADER = canonical({"schema": "loopcore/trace/1", "policy": baseline_policy()})
BAD_HEADER = HEADER.replace(b'"max_steps":', b'"max_steps":-')
STEPS = [canonical(step) for step in baseline_steps()]
BAD_STEP = STEPS[0].replace(b'"succeeded"', b'"perhaps"')

CASES: dict[str, tuple[list[bytes], str]] = {
    "one too many": ([HEADER, *STEPS], "$.steps"),
    "length before a value": ([HEADER, BAD_STEP, *STEPS[1:]], "$.steps"),
    "length before the last value": ([HEADER, *STEPS[:3], BAD_STEP], "$.steps"),
    "header before length": ([BAD_HEADER, *STEPS], "$.policy.max_steps"),
    "text before length": ([HEADER, *STEPS[:3], b"{"], "$.steps[3]"),
    "a limit before length": ([HEADER, *STEPS[:3], b"[" * 15 + b"]" * 15], "$"),
    "nothing after it is read": ([HEADER, *STEPS, b"{"], "$.steps"),
}


@pytest.mark.parametrize("name", CASES)
def test_the_highest_defect_of_a_stream_that_is_too_long(
    name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(documents, "STEPS_MAX", STEPS_MAX)
    lines, path = CASES[name]
    with pytest.raises(InputError) as raised:
        documents.evaluate_stream(io.BytesIO(b"\n".join(lines)))
    assert (raised.value.code, raised.value.path) == ("malformed", path)


def test_the_longest_stream_is_taken(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(documents, "STEPS_MAX", len(STEPS))
    receipt = documents.evaluate_stream(io.BytesIO(b"\n".join([HEADER, *STEPS])))
    assert receipt.usage.steps == len(STEPS)
