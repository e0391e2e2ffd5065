"""Claim: a journal that was changed anywhere is found; one that was cut, only against an anchor.

Incidents 13.2 (a cut tail passes verification), 13.3 (canonical form) and 13.5 (lone surrogates).
"""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from itertools import pairwise
from pathlib import Path

import msgspec
import pytest
import rfc8785
from hypothesis import given
from hypothesis import strategies as st

from loopcore.canonical import canonical
from loopcore.errors import InputError
from loopcore.store.anchors import advance_anchor, read_anchor, write_anchor
from loopcore.store.journal import (
    EMPTY_HEAD,
    GENESIS,
    KINDS,
    PAYLOAD_DEPTH_MAX,
    Anchor,
    Event,
    Head,
    InvalidEvent,
    chain,
    decode_event,
    encode_event,
    event_digest,
    follow,
    verify_journal,
)
from properties.core.journal_values import RUN, draft, journal

EVENTS = journal(6)


def anchor_of(events: Sequence[Event]) -> Anchor:
    """Return the anchor at the last of some events."""
    digest = event_digest(events[-1]) if events else GENESIS
    return Anchor(run_id=RUN, sequence=len(events), digest=digest)


def verdict(events: Sequence[Event], anchor: Anchor | None = None) -> tuple[str, int | None]:
    """Return the verdict in two words: what it is, and where."""
    said = verify_journal(events, anchor)
    return said.verdict, said.sequence


def test_the_kinds_are_those_of_the_specification() -> None:
    assert len(KINDS) == len(set(KINDS)) == 18


def test_a_digest_is_over_canonical_json_as_another_library_writes_it() -> None:
    for event in EVENTS:
        value: dict[str, object] = msgspec.to_builtins(event)
        text = rfc8785.dumps(value)  # type: ignore[arg-type]
        assert text == encode_event(event)
        assert event_digest(event) == hashlib.sha256(text).hexdigest()


def test_a_chain_counts_from_one_and_raises_the_epoch_with_each_lease_alone() -> None:
    assert [event.sequence for event in EVENTS] == [1, 2, 3, 4, 5, 6]
    assert [event.epoch for event in EVENTS] == [0, 1, 1, 1, 1, 1]
    assert EVENTS[0].previous_event_sha256 == GENESIS
    for before, after in pairwise(EVENTS):
        assert after.previous_event_sha256 == event_digest(before)


def test_a_whole_journal_is_valid_against_its_anchor_and_not_without() -> None:
    assert verdict(EVENTS, anchor_of(EVENTS)) == ("valid", None)
    assert verdict(EVENTS) == ("cannot tell", None)
    assert verdict(()) == ("cannot tell", None)
    assert verdict((), anchor_of(())) == ("valid", None)


def test_a_longer_journal_is_complete_up_to_its_anchor() -> None:
    said = verify_journal(EVENTS, anchor_of(EVENTS[:4]))
    assert (said.verdict, said.complete_through, said.head.sequence) == ("valid", 4, 6)


@pytest.mark.parametrize("kept", range(6))
def test_a_cut_tail_is_invalid_against_the_anchor_and_cannot_be_told_without(kept: int) -> None:
    assert verdict(EVENTS[:kept], anchor_of(EVENTS)) == ("invalid", kept + 1)
    assert verdict(EVENTS[:kept]) == ("cannot tell", None)


@pytest.mark.parametrize("place", range(5))
def test_an_event_left_out_or_swapped_is_invalid_with_and_without_anchor(place: int) -> None:
    without = EVENTS[:place] + EVENTS[place + 1 :]
    swapped = (*EVENTS[:place], EVENTS[place + 1], EVENTS[place], *EVENTS[place + 2 :])
    for events in (without, swapped, (*EVENTS[: place + 1], EVENTS[place])):
        for anchor in (None, anchor_of(EVENTS)):
            assert verify_journal(events, anchor).verdict == "invalid"


def test_a_journal_that_was_replaced_whole_is_told_by_the_anchor_alone() -> None:
    others = chain(EMPTY_HEAD, [draft("run_created", other=True), *EVENTS[1:]])
    assert verdict(others) == ("cannot tell", None)
    assert verdict(others, anchor_of(EVENTS)) == ("invalid", 6)


def test_the_journal_of_another_run_is_invalid_against_the_anchor() -> None:
    other = journal(6, run="run-2")
    assert verdict(other, anchor_of(EVENTS)) == ("invalid", 1)


@given(st.integers(0, 5), st.sampled_from(Event.__struct_fields__))
def test_any_changed_field_breaks_the_journal_at_it_or_behind_it(place: int, name: str) -> None:
    event = EVENTS[place]
    value: object = getattr(event, name)
    other = value + 1 if isinstance(value, int) else {"x": 1} if name == "payload" else "4" * 64
    changed = msgspec.structs.replace(event, **{name: other})
    events = (*EVENTS[:place], changed, *EVENTS[place + 1 :])
    said = verify_journal(events, anchor_of(EVENTS))
    assert said.verdict == "invalid"
    assert said.sequence in (place + 1, place + 2)


def test_an_epoch_that_rises_without_a_lease_is_invalid() -> None:
    head = Head(sequence=5, digest=event_digest(EVENTS[4]), epoch=1)
    for kind, epoch in (("state_committed", 2), ("lease_acquired", 1), ("lease_acquired", 3)):
        event = msgspec.structs.replace(EVENTS[5], kind=kind, epoch=epoch)
        with pytest.raises(InvalidEvent, match="epoch"):
            follow(RUN, head, event)


# Incident 13.3: what two texts of one payload are to each other.
EQUAL = (
    ('{"a":1,"b":2}', '{"b":2,"a":1}'),
    ('{"a":"é"}', '{"a":"\\u00e9"}'),
    ('{"a":-0}', '{"a":0}'),
)
DIFFERENT = (('{"a":"é"}', '{"a":"e\\u0301"}'), ('{"a":1}', '{"a":"1"}'), ('{"a":null}', "{}"))
REFUSED = (
    '{"a":1.0}',
    '{"a":1e-7}',
    '{"a":-0.0}',
    '{"a":9007199254740993}',
    '{"\\ud83d\\ude00":1}',
    '{"a":{"é":1}}',
)


def named(text: str) -> str:
    """Return the digest of an event with this payload."""
    payload = msgspec.json.decode(text, type=dict[str, object])
    event = msgspec.structs.replace(EVENTS[0], payload=payload)
    return hashlib.sha256(encode_event(event)).hexdigest()


def test_equal_payloads_have_equal_digests_and_others_not() -> None:
    assert all(named(one) == named(other) for one, other in EQUAL)
    assert all(named(one) != named(other) for one, other in DIFFERENT)


@pytest.mark.parametrize("text", REFUSED)
def test_a_payload_without_canonical_form_is_refused(text: str) -> None:
    with pytest.raises(InvalidEvent):
        named(text)


def test_half_a_character_is_refused_with_a_typed_error() -> None:
    for payload in ({"text": "\ud83d"}, {"text": ["\udc00x"]}):
        with pytest.raises(InvalidEvent):
            encode_event(msgspec.structs.replace(EVENTS[0], payload=payload))


def test_a_payload_may_be_so_deep_and_no_deeper() -> None:
    value: object = 1
    for _ in range(PAYLOAD_DEPTH_MAX - 1):
        value = [value]
    encode_event(msgspec.structs.replace(EVENTS[0], payload={"a": value}))
    with pytest.raises(InvalidEvent, match="deeper"):
        encode_event(msgspec.structs.replace(EVENTS[0], payload={"a": [value]}))


TEXT = canonical(EVENTS[0])
DAMAGED = (
    TEXT.replace(b'"kind":"run_created"', b'"kind":"run_created" '),
    TEXT.replace(b'"epoch":0', b'"epoch":0,"epoch":0'),
    TEXT.replace(b'"epoch":0', b'"epoch":0,"extra":0'),
    TEXT.replace(b'"epoch":0,', b""),
    TEXT.replace(b'"epoch":0', b'"epoch":-1'),
    TEXT.replace(b'"run-1"', b'"run 1"'),
    TEXT.replace(b'"run-1"', b'"run-1\\n"'),
    TEXT.replace(b"0" * 64, b"G" * 64),
    TEXT.replace(b"1" * 64, b"A" * 64),
    TEXT + b" ",
    TEXT[:-1],
    b"\xff" + TEXT,
)


@pytest.mark.parametrize("changed", DAMAGED, ids=range(len(DAMAGED)))
def test_bytes_that_are_not_the_canonical_form_are_refused(changed: bytes) -> None:
    assert decode_event(TEXT) == EVENTS[0]
    assert changed != TEXT
    with pytest.raises(InvalidEvent):
        decode_event(changed)


def test_an_anchor_moves_forward_over_what_it_verified_and_never_back(tmp_path: Path) -> None:
    path = tmp_path / "elsewhere" / "run.anchor"
    assert advance_anchor(path, RUN, EVENTS[:3]).verdict == "cannot tell"
    assert read_anchor(path) == anchor_of(EVENTS[:3])
    assert advance_anchor(path, RUN, EVENTS).verdict == "valid"
    assert read_anchor(path) == anchor_of(EVENTS)
    assert advance_anchor(path, RUN, EVENTS[:5]).verdict == "invalid"
    assert read_anchor(path) == anchor_of(EVENTS)
    with pytest.raises(InputError, match="not of run-2"):
        advance_anchor(path, "run-2", ())


def test_a_damaged_or_missing_anchor_is_one_clear_sentence(tmp_path: Path) -> None:
    path = tmp_path / "run.anchor"
    with pytest.raises(InputError, match=r"run\.anchor: No such file"):
        read_anchor(path)
    write_anchor(path, anchor_of(EVENTS))
    whole = path.read_bytes()
    for damaged in (whole[:-2], whole.replace(b'"sequence":6', b'"sequence": 6'), b"x" * 5000):
        path.write_bytes(damaged)
        with pytest.raises(InputError, match="is no anchor"):
            read_anchor(path)
