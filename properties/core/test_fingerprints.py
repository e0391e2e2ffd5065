"""Two values have one fingerprint exactly when a naive statement of equality calls them equal.

Killers: numbers compared as floats, booleans taken for numbers, key order that matters, volatile
names dropped at the top only, text parsed inside a value, a surrogate pair told from its character.
"""

from __future__ import annotations

import json
import sys
import time
from decimal import Decimal
from fractions import Fraction
from typing import TypeAlias

import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from loopcore.control.fingerprints import action_fingerprint, number_form, result_fingerprint
from loopcore.control.json_text import (
    JsonReader,
    JsonTextError,
    NumberText,
    exact_int,
    parse_json,
    write_json,
)

# Deeper than any recursion limit in use, and quick to build.
DEPTH = 30_000
SLOW_SECONDS = 5.0

_LOW = "\ude00"
_HIGH = "\ud83d"

Value: TypeAlias = "bool | int | float | Decimal | str | list[Value] | dict[str, Value] | None"

any_text = st.text(
    alphabet=st.one_of(
        st.characters(), st.sampled_from([_HIGH, _LOW, "😀", '"', "\\", "\n", "{", "1", "e", "."])
    ),
    max_size=8,
)
numbers = st.one_of(
    st.integers(-30, 30),
    st.sampled_from([0.0, -0.0, 1.5, 10.0, 1e22, 0.1, 1e-7]),
    st.sampled_from([Decimal("1.50"), Decimal("1E+1"), Decimal("-0.00"), Decimal("0.1")]),
)
values: st.SearchStrategy[Value] = st.recursive(
    st.one_of(st.none(), st.booleans(), numbers, st.sampled_from(["", "1", "a", "😀", _HIGH])),
    lambda inner: (
        st.lists(inner, max_size=3)
        | st.dictionaries(st.sampled_from(["a", "b", "", "😀"]), inner, max_size=3)
    ),
    max_leaves=6,
)


def equality_key(value: Value) -> object:
    """Return a hashable that says when values are equal, stated with exact fractions."""
    if isinstance(value, bool) or value is None:
        return ("constant", str(value))
    if isinstance(value, int | Decimal):
        return ("number", Fraction(value))
    if isinstance(value, float):
        return ("number", Fraction(Decimal(repr(value))))
    if isinstance(value, str):
        return ("string", value)
    if isinstance(value, list):
        return ("array", tuple(equality_key(item) for item in value))
    return ("object", frozenset((key, equality_key(item)) for key, item in value.items()))


def as_text(value: Value) -> str:
    """Return JSON text of a value by the standard library, decimals as they are written."""
    if isinstance(value, Decimal):
        return str(value)
    if isinstance(value, list):
        return "[" + " ,".join(as_text(item) for item in value) + "]"
    if isinstance(value, dict):
        pairs = [f"{json.dumps(key)} : {as_text(item)}" for key, item in value.items()]
        return "{" + ",\n".join(reversed(pairs)) + "}"
    return json.dumps(value)


@given(values, values)
def test_equal_values_and_only_they_have_one_fingerprint(one: Value, other: Value) -> None:
    assume(not isinstance(one, str) and not isinstance(other, str))
    same = result_fingerprint(one) == result_fingerprint(other)
    assert same == (equality_key(one) == equality_key(other))


@given(values)
def test_a_text_that_is_json_has_the_fingerprint_of_its_value(value: Value) -> None:
    assume(not isinstance(value, str))
    assert result_fingerprint(as_text(value)) == result_fingerprint(value)
    assert action_fingerprint("t", as_text(value)) == action_fingerprint("t", value)


@given(any_text)
def test_every_string_hashes_to_64_digits_and_always_to_the_same(text: str) -> None:
    digest = result_fingerprint(text)
    assert len(digest) == 64
    assert digest == result_fingerprint(text)
    assert action_fingerprint(text, {text: [text]}, (text,)) == action_fingerprint(text, {})


@given(any_text)
def test_strings_are_equal_by_their_utf_16_code_units(text: str) -> None:
    units = text.encode("utf-16-be", "surrogatepass")
    split = "".join(chr(int.from_bytes(units[i : i + 2])) for i in range(0, len(units), 2))
    assert result_fingerprint([text]) == result_fingerprint([split])
    assert result_fingerprint({text: 1}) == result_fingerprint({split: 1})
    assert result_fingerprint({text: 1}, (split,)) == result_fingerprint({})


@given(any_text)
def test_both_readers_agree_on_every_text(text: str) -> None:
    for candidate in (text, json.dumps(text), f"[{text}]", f'{{"a": {text}}}'):
        try:
            slow = JsonReader(candidate).read()
        except JsonTextError:
            with pytest.raises(JsonTextError):
                parse_json(candidate)
        else:
            assert result_fingerprint([slow]) == result_fingerprint([parse_json(candidate)])


@given(values)
def test_what_is_parsed_is_written_back_as_it_was_written(value: Value) -> None:
    parsed = parse_json(as_text(value))
    assert parse_json(write_json(parsed)) == parsed
    assert JsonReader(as_text(value)).read() == parsed


@given(st.integers(-(10**12), 10**12), st.integers(-40, 40), st.integers(0, 6))
def test_a_number_has_one_form_however_it_is_written(digits: int, power: int, zeros: int) -> None:
    texts = [f"{digits}e{power}", f"{digits}{'0' * zeros}E{power - zeros}", f"{digits}.0e+0"]
    assert number_form(texts[0]) == number_form(texts[1])
    assert (number_form(texts[2]) == number_form(texts[0])) == (power == 0 or digits == 0)


@pytest.mark.parametrize(
    ("one", "other", "equal"),
    [
        ("1", 1, True),
        ("1.0", 1, True),
        ("10e-1", "1", True),
        (0.1, "0.1", True),
        (1e16, "10000000000000000", True),
        ("-0", 0, True),
        ("0e999999999999", "-0.000", True),
        ("1e1000000000", "10e999999999", True),
        ("1e1000000000", "1e1000000001", False),
        ("9007199254740993", "9007199254740992", False),
        ("0.1000000000000000055511151231257827", 0.1, False),
        ("1", "true", False),
        (1, True, False),
        (0, False, False),
        ("null", None, True),
        ("null", "", False),
        ("{}", "", False),
        ("{}", "null", False),
        ('""', "", True),
        ('{"a": 1, "a": 2}', {"a": 2}, True),
        ('{"a": 1, "b": 0, "a": 2}', '{"b": 0, "a": 2}', True),
        ("[1, 2]", "[2, 1]", False),
        ("[1, 2]", "[1,2]", True),
        ('{"a": "[1, 2]"}', '{"a": "[1,2]"}', False),
        ('{"a": "1"}', '{"a": 1}', False),
        ("NaN", float("nan"), False),
        ("[NaN]", "[ NaN]", False),
        ("Infinity", "-Infinity", False),
        ("\ufeff{}", "{}", False),
        ("\ufeff1", "\ufeff1.0", False),
        ("01", "1", False),
        ("1.", "1", False),
        ("+1", "1", False),
        ("'a'", '"a"', False),
        ("\u00a01", "1", False),
        ("\u0661", "1", False),
        ('"\\ud83d\\ude00"', "😀", True),
        ('"\\ud83d\ude00"', "😀", True),
        ('"\\ud83d"', "\ud83d", True),
        ("\u00e9", "e\u0301", False),
        ('{"\\ud83d\ude00": 1, "b": 0, "😀": 2}', '{"b": 0, "😀": 2}', True),
        ('"a\tb"', '"a\\tb"', False),
    ],
)
def test_the_table_of_equalities_holds(one: object, other: object, equal: bool) -> None:
    assert (result_fingerprint(one) == result_fingerprint(other)) is equal


def test_depth_costs_no_recursion() -> None:
    text = "[" * DEPTH + "]" * DEPTH
    nested: object = []
    for _ in range(DEPTH - 1):
        nested = [nested]
    assert result_fingerprint(text) == result_fingerprint(nested)
    assert result_fingerprint(text) != result_fingerprint("[" * 2 + "]" * 2)
    objects = '{"a":' * DEPTH + "0" + "}" * DEPTH
    assert result_fingerprint(objects) != result_fingerprint(objects.replace("0", "1"))
    assert write_json(parse_json(text)) == text
    assert sys.getrecursionlimit() < DEPTH


def test_a_number_costs_its_digits_and_never_its_value() -> None:
    began = time.perf_counter()
    million = "9" * 1_000_000
    assert result_fingerprint(million) == result_fingerprint(million + ".0")
    assert result_fingerprint("1e" + million) != result_fingerprint("1e-" + million)
    assert result_fingerprint("1e" + "9" * 5_000) == result_fingerprint("10e" + "9" * 4_999 + "8")
    assert result_fingerprint("0.1e1" + "0" * 5_000) == result_fingerprint("1e" + "9" * 5_000)
    assert result_fingerprint(10**5_000) == result_fingerprint("1" + "0" * 5_000)
    assert exact_int(NumberText("-" + "7" * 5_000)) == int(Decimal("-" + "7" * 5_000))
    assert time.perf_counter() - began < SLOW_SECONDS


@given(values, st.sampled_from(["a", "b", "", "😀"]))
def test_volatile_names_are_dropped_at_every_depth_with_their_values(
    value: Value, name: str
) -> None:
    def without(item: Value) -> Value:
        if isinstance(item, list):
            return [without(member) for member in item]
        if isinstance(item, dict):
            return {key: without(member) for key, member in item.items() if key != name}
        return item

    assume(not isinstance(value, str))
    assert result_fingerprint(value, (name,)) == result_fingerprint(without(value))
    assert action_fingerprint("t", as_text(value), [name]) == action_fingerprint(
        "t", without(value)
    )


def test_volatile_names_leave_text_that_is_not_json_alone() -> None:
    assert result_fingerprint("pid 7", ("pid",)) == result_fingerprint("pid 7")
    assert result_fingerprint("pid 7", ("pid",)) != result_fingerprint("pid 8", ("pid",))


def test_the_tool_is_part_of_an_action_and_its_name_is_never_parsed() -> None:
    digests = {action_fingerprint(tool, {}) for tool in ("1", "1.0", "", None, "a")}
    assert len(digests) == 5
    assert action_fingerprint("ab", "c") != action_fingerprint("a", "bc")


def test_a_host_value_that_json_does_not_have_is_refused() -> None:
    for value in (b"x", {1: 2}, {"a": {1, 2}}, object()):
        with pytest.raises(TypeError):
            result_fingerprint(value)
    cyclic: list[object] = []
    cyclic.append(cyclic)
    with pytest.raises(ValueError, match="contains itself"):
        result_fingerprint(cyclic)
