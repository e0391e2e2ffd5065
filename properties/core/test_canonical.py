"""Claim: our canonical bytes are RFC 8785, byte for byte, for every value that we can hold.

The oracle is the package rfc8785, an implementation that shares nothing with ours.
"""

from __future__ import annotations

import hashlib

import msgspec
import pytest
import rfc8785
from hypothesis import given
from hypothesis import strategies as st

from loopcore.canonical import INTEGER_MAX, canonical, digest
from loopcore.evaluator import evaluate
from loopcore.lab import baseline_policy, baseline_steps

# Every Unicode scalar value, controls and characters beyond the basic plane included.
TEXT = st.text(st.characters(codec="utf-8"))
# Keys of loopcore's values are ASCII, where order by code unit and by code point agree.
KEYS = st.text(st.characters(max_codepoint=127))
VALUES = st.recursive(
    st.none() | st.booleans() | st.integers(0, INTEGER_MAX) | TEXT,
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(KEYS, inner, max_size=4),
    max_leaves=12,
)


@given(VALUES)
def test_canonical_bytes_are_rfc_8785(value: object) -> None:
    assert canonical(value) == rfc8785.dumps(value)  # type: ignore[arg-type]


@pytest.mark.parametrize("code", [*range(0x20), 0x22, 0x2F, 0x5C, 0x7F, 0xE9, 0x2028, 0x1F600])
def test_every_escape_is_the_shortest(code: int) -> None:
    assert canonical(chr(code)) == rfc8785.dumps(chr(code))


def test_structs_and_their_plain_values_have_one_digest() -> None:
    policy, steps = baseline_policy(), baseline_steps()
    for value in (policy, steps, evaluate(policy, steps)):
        plain = msgspec.to_builtins(value)
        assert digest(value) == digest(plain) == hashlib.sha256(rfc8785.dumps(plain)).hexdigest()
