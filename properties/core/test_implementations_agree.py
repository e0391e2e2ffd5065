"""Claim: implementations written apart, from the specification alone, never disagree with ours.

The naive model is Python, recomputes everything and was written without sight of the evaluator.
Compared are whole answers: every field of the receipt, or code, path, step and kept terminal.
"""

from __future__ import annotations

import io
import json
from collections import Counter
from typing import cast

import msgspec
import pytest

from loopcore.documents import evaluate_stream, evaluate_trace
from loopcore.errors import InputError
from loopcore.models import Receipt
from loopcore.serving import answer
from loopcore.terminals import ERROR_CODES, PRECEDENCE
from loopcore.testing import naive
from properties.core.random_documents import source

DOCUMENTS = 2_000
DOCUMENTS_SLOW = 20_000


def comparable(reply: object) -> object:
    """Return an answer without what is for people or belongs to the protocol."""
    plain = json.loads(json.dumps(reply))
    plain.pop("id", None)
    if "error" in plain:
        plain["error"].pop("message", None)
    return plain


def ours(outcome: Receipt | InputError) -> object:
    """Return our answer in the form of the wire."""
    if isinstance(outcome, InputError):
        return comparable({"error": outcome.as_dict()})
    return comparable({"receipt": msgspec.to_builtins(outcome)})


def name(outcome: Receipt | InputError) -> str:
    """Return the terminal or the error code."""
    return outcome.code if isinstance(outcome, InputError) else outcome.terminal


def attempt(evaluate: object, data: object) -> Receipt | InputError:
    """Return the receipt or the error of a call."""
    assert callable(evaluate)
    try:
        return cast("Receipt", evaluate(data))
    except InputError as error:
        return error


def compare(seed: int, documents: int) -> Counter[str]:
    """Compare documents, values and streams of one seed; return what was met."""
    met: Counter[str] = Counter()
    generator = source(seed)
    for number in range(documents):
        data = generator.document()
        outcome = attempt(evaluate_trace, data)
        assert ours(outcome) == comparable(naive.evaluate_bytes(data)), data
        met[name(outcome)] += 1

        document = generator.trace()
        if number % 4 == 0:
            document = generator.misshape(document)
        stream = generator.stream(document)
        streamed = attempt(evaluate_stream, io.BytesIO(stream))
        assert ours(streamed) == comparable(naive.evaluate_stream(stream)), stream
        met[name(streamed)] += 1

        if "policy" in document and "steps" in document:
            request = {"id": number, "op": "evaluate", **document}
            reply = json.loads(answer(json.dumps(request).encode()))
            expected = naive.evaluate(document["policy"], document["steps"])
            assert comparable(reply) == comparable(expected), document
    return met


def test_reference_and_naive_model_agree() -> None:
    compare(1, DOCUMENTS)


@pytest.mark.slow
def test_reference_and_naive_model_agree_at_length() -> None:
    met = compare(2, DOCUMENTS_SLOW)
    everything = set(PRECEDENCE["loopcore-extended/1"]) | set(ERROR_CODES)
    never_from_bytes = {"unreadable"}
    assert everything - never_from_bytes - set(met) == set()


def test_every_prefix_of_an_incremental_run_agrees() -> None:
    from loopcore.decoding import decode_trace
    from loopcore.evaluator import start

    generator = source(3)
    compared = 0
    while compared < 200:
        document = generator.trace()
        trace = decode_trace(json.dumps(document).encode())
        run = start(trace.policy)
        for index, step in enumerate(trace.steps):
            prefix = cast("list[object]", document["steps"])[:index]
            expected = naive.evaluate(document["policy"], prefix)
            assert ours(run.finish()) == comparable(expected)
            refusal = attempt(run.advance, step)
            if isinstance(refusal, InputError):
                # A refused step changes nothing: the receipt is still that of the steps before.
                assert refusal.step == index
                assert ours(run.finish()) == comparable(expected)
                break
        compared += 1
