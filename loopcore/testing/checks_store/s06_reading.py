"""S06: reading gives every event in order, from any place on, as soon as it was appended."""

from __future__ import annotations

from hypothesis import strategies as st
from hypothesis.strategies import SearchStrategy

from loopcore.testing.checks_store.generating import (
    append,
    batches,
    do,
    filled,
    goals,
    one_of,
    opening,
    script,
)
from loopcore.testing.checks_store.playing import Script, play, script_of
from loopcore.testing.contract import Case, Json, Judgement
from loopcore.testing.store_contract import StoreProperty, StoreTarget

_READS: tuple[Json, ...] = (0, 1, 2, 3, 5, 8, 1000)


def _cases() -> SearchStrategy[Case]:
    """Draw batches, each followed by reading from somewhere."""
    seen = st.one_of(filled("read", after=one_of(_READS)), filled("head"))
    pairs = st.lists(st.tuples(filled("append", kinds=batches(6)), seen), min_size=1, max_size=5)
    return pairs.map(lambda drawn: script(opening(), *(each for two in drawn for each in two)))


def _long(count: int) -> Script:
    """Return a run of many events, read around the sizes at which a store may turn a page."""
    batch = append(*["state_committed"] * count)
    places = (0, 1, 999, 1000, 1001, count, count + 1, count + 2)
    return [opening(), batch, *(do("read", after=place) for place in places)]


def _judge(target: StoreTarget, case: Case) -> Judgement:
    return play(target, script_of(case)).judgement(("read",))


PROPERTY = StoreProperty(
    id="S06",
    name="reading",
    statement=(
        "Reading behind a sequence gives exactly the events after it, in the order in which they "
        "were appended and linked to each other, at once after the append; behind the last there "
        "are none, and the head is the last event."
    ),
    prevents=(
        "A worker folds a journal that lacks its newest events, and takes an action again that was "
        "dispatched already."
    ),
    mutants=(),
    cases=_cases,
    judge=_judge,
    examples=(
        script(do("read", after=0), do("head"), opening(), do("read", after=0)),
        script(opening(), append("action_reserved", "state_committed"), do("read", after=1)),
        script(opening(), do("read", after=2), do("read", after=3)),
        {"script": _long(1100)},
    ),
    goals=lambda target: goals("read:whole", "read:behind", "read:beyond the end", "read:empty"),
)
