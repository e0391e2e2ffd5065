"""S05: what is read is what was appended, to the byte of its canonical form."""

from __future__ import annotations

from typing import cast

from hypothesis import strategies as st
from hypothesis.strategies import SearchStrategy

from loopcore.testing.checks_store.generating import (
    append,
    batches,
    filled,
    goals,
    one_of,
    opening,
    script,
    scripts,
)
from loopcore.testing.checks_store.playing import play, script_of
from loopcore.testing.contract import Case, Json, Judgement
from loopcore.testing.store_contract import StoreProperty, StoreTarget

INTEGER_MAX = 2**53 - 1
_TEXTS = ("", "\x00", "a\u0000b", '\n\t"\\/', "é", "e\u0301", "\u2028", "\ufeff", "😀", "\x7f")
_LARGE = "x" * 70_000
_KEYS: tuple[str, ...] = ("", "a", "A", "_", "b.c", "duration_ms", "~")
_NAMES = ("idempotency_key", "model_version", "prompt_version", "tool_version")


def _payloads() -> SearchStrategy[Json]:
    """Return a strategy for JSON objects that have a canonical form."""
    texts = st.sampled_from(_TEXTS) | st.text(st.characters(codec="utf-8"), max_size=6)
    numbers = st.sampled_from((0, -1, INTEGER_MAX, -INTEGER_MAX)) | st.integers(-300, 300)
    leaves: SearchStrategy[Json] = st.none() | st.booleans() | numbers | texts
    keys = st.sampled_from(_KEYS)
    values = st.recursive(
        leaves,
        lambda inner: st.lists(inner, max_size=3) | st.dictionaries(keys, inner, max_size=3),
        max_leaves=8,
    )
    return cast("SearchStrategy[Json]", st.dictionaries(keys, values, max_size=4))


def _cases() -> SearchStrategy[Case]:
    """Draw payloads of every shape, and optional fields with and without a value."""
    optional: SearchStrategy[Json] = st.sampled_from((None, "x", "é"))
    digests = ("policy_sha256", "state_sha256", "grant_sha256")
    members = {**dict.fromkeys(_NAMES, optional), **dict.fromkeys(digests, st.none())}
    fields: SearchStrategy[Json] = st.fixed_dictionaries({}, optional=members)
    drawn = filled("append", kinds=batches(2), payload=_payloads(), fields=fields)
    return scripts([opening()], drawn, filled("read", after=one_of((0, 1, 2))), most=4)


def _judge(target: StoreTarget, case: Case) -> Judgement:
    played = play(target, script_of(case))
    for operation in script_of(case):
        if "payload" in operation:
            played.labels += [f"payload:{name}" for name in _shapes(operation["payload"])]
    return played.judgement(("append",))


def _shapes(value: Json) -> list[str]:
    """Return in words what a payload has that a store could change."""
    text = str(value)
    shapes = {
        "empty": value == {},
        "zero byte": "\\x00" in text or "\x00" in text,
        "beyond the basic plane": any(character > "\uffff" for character in text),
        "largest integer": str(INTEGER_MAX) in text,
        "large": len(text) > len(_LARGE),
    }
    return [name for name, there in shapes.items() if there]


PROPERTY = StoreProperty(
    id="S05",
    name="exact-events",
    statement=(
        "Every event comes back with every field and the whole payload as they were appended, "
        "equal to the byte in canonical form, whatever characters and integers it holds."
    ),
    prevents=(
        "A text comes back cut at a zero byte, an integer rounded or a missing value as an empty "
        "one, and the journal no longer verifies."
    ),
    mutants=(),
    cases=_cases,
    judge=_judge,
    examples=(
        script(opening(), append(payload={})),
        script(opening(), append(payload={"text": list(_TEXTS)})),
        script(opening(), append(payload={"text": "a\x00b", "more": "😀"})),
        script(opening(), append(payload={"n": [INTEGER_MAX, -INTEGER_MAX, 0, True, None]})),
        script(opening(), append(payload={"large": _LARGE})),
        script(opening(), append(payload={"deep": [[[{"a": [{}]}]]], "A": 1, "a": 2, "": 3})),
    ),
    goals=lambda target: goals(
        "payload:empty",
        "payload:zero byte",
        "payload:beyond the basic plane",
        "payload:largest integer",
        "payload:large",
    ),
)
