"""Absent, empty, unknown and redacted are four different states, and no two share a digest."""

import itertools

import pytest

from loopcore.errors import UsageError
from loopcore.runtime.canonical_state import UNKNOWN, Redacted, state_digest

SECRET = "a" * 64
FORMS: list[dict[str, object]] = [
    {},
    {"a": None},
    {"a": ""},
    {"a": []},
    {"a": {}},
    {"a": 0},
    {"a": False},
    {"a": UNKNOWN},
    {"a": Redacted(SECRET)},
    {"a": Redacted("b" * 64)},
    {"a": {"is": "unknown"}},
    {"a": {"is": "redacted", "sha256": SECRET}},
    {"a": "unknown"},
    {"b": UNKNOWN},
]


def test_no_two_forms_share_a_digest() -> None:
    digests = [state_digest(form) for form in FORMS]
    assert len(set(digests)) == len(FORMS)


def test_the_order_of_members_plays_no_part() -> None:
    members = {"a": 1, "b": [1, 2], "c": UNKNOWN}
    digests = {state_digest(dict(order)) for order in itertools.permutations(members.items())}
    assert len(digests) == 1


@pytest.mark.parametrize("value", [1.5, [1, {"x": 0.1}], object(), {"x": b"bytes"}, "\ud83d"])
def test_what_has_no_canonical_form_is_refused(value: object) -> None:
    with pytest.raises(UsageError, match="state"):
        state_digest({"a": value})
