"""S08: what one handle appended, every other handle sees, and is held to."""

from __future__ import annotations

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
    scripts,
)
from loopcore.testing.checks_store.playing import HEADS, play, script_of
from loopcore.testing.contract import Case, Json, Judgement
from loopcore.testing.store_contract import StoreProperty, StoreTarget

_HANDLES: tuple[Json, ...] = (0, 1, 2)


def _cases() -> SearchStrategy[Case]:
    """Draw operations through several handles of one store."""
    handles = one_of(_HANDLES)
    heads = one_of(("current", "current", *HEADS))
    return scripts(
        [opening()],
        filled("append", handle=handles, kinds=batches(), head=heads),
        filled("append", handle=handles, kinds=one_of((["lease_acquired"], ["lease_released"]))),
        filled("renew", handle=handles, shift=one_of((0, -1))),
        filled("read", handle=handles, after=one_of((0, 1, 3))),
        filled("head", handle=handles),
        filled("tick", ms=one_of((500, 1000))),
    )


def _judge(target: StoreTarget, case: Case) -> Judgement:
    return play(target, script_of(case)).judgement(("handle",))


PROPERTY = StoreProperty(
    id="S08",
    name="several-handles",
    statement=(
        "Stores that are opened twice, as two workers would, are one store: an append through one "
        "handle is read through the other, moves its head and epoch, and makes its old head stale."
    ),
    prevents=("Each worker keeps the head in its memory, so both are sure that they own it."),
    mutants=(),
    cases=_cases,
    judge=_judge,
    examples=(
        script(opening(), append(handle=1), append(handle=0), append(handle=1, head="earlier")),
        script(opening(), do("head", handle=1), append(), do("head", handle=1)),
        script(
            opening(),
            do("renew", handle=1, lease_ms=3000),
            do("tick", ms=2000),
            append("lease_acquired"),
        ),
        script(
            opening(),
            append("lease_released", handle=1),
            append("lease_acquired", handle=2),
            append(handle=0, shift=-1),
            do("read", handle=1, after=0),
        ),
        *(script(opening(), append(handle=1, head=head)) for head in HEADS),
    ),
    goals=lambda target: goals(
        "handle:another", "append:accepted", "append:StaleHead", "renewal:accepted"
    ),
)
