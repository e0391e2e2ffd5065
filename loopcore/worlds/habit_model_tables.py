"""A fitted model as lookup tables: one packed word says what follows, small arrays what is seen.

Theory of operation: rows of all habits of an application stand in one table. A row has `SLOTS`
words of 64 bits made by the alias method: a random slot holds a threshold of 16 bits and two rows,
of which one is taken when 16 more random bits are below the threshold. So a step of a chain is one
gather, one comparison and one choice. Rows are ordered, those of polls and claims last, so that a
comparison says what needs care. Rows that look the same share an event, and what is seen of an
event are tables small enough to stay in cache.

Choices: what followed a state more rarely than its `SLOTS` most frequent successors is left out.

Source: Walker, "An efficient method for generating discrete random variables with general
distributions", ACM TOMS 3 (1977); Vose, IEEE TSE 17 (1991).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TypeAlias

import numpy as np

from loopcore.batch.columns import UNKNOWN, Booleans, Int8s, Int16s, Int32s, Int64s
from loopcore.batch.interning import USAGE_FIELDS
from loopcore.errors import UsageError
from loopcore.worlds.habit_model_data import MILLION, ApplicationModel, Chain
from loopcore.worlds.habit_model_events import (
    CALL,
    HIDDEN,
    NO_CLAIM,
    NO_ERROR,
    NONE,
    NOTHING,
    OTHER,
    OTHER_ERROR,
    REFUSED,
    REPEATABLE,
    SAME,
    SEEN_UNIT,
    VERIFIED,
    WAIT,
    part,
)
from loopcore.worlds.model import HABITS

# Arrays of unsigned integers, whose arithmetic wraps.
UInt32s: TypeAlias = "np.ndarray[tuple[int, ...], np.dtype[np.uint32]]"
UInt64s: TypeAlias = "np.ndarray[tuple[int, ...], np.dtype[np.uint64]]"

SLOT_BITS = 6
SLOTS = 1 << SLOT_BITS
# Of a word: the threshold, the row beyond it, the row below it.
THRESHOLD_BITS = 16
ROW_BITS = 24
PADDING = 0
# Turns are remembered in bytes.
TURNS_MAX = 255
BYTE = 8
_ERROR_NAMES = 2


@dataclass(frozen=True, slots=True, kw_only=True)
class Plans:
    """What the runs that were counted planned, as rows to go to; arrays (runs counted,).

    Fields:
        start: the row before the first turn.
        turns, rows: (2, runs) up to two turns, 0 for none, and the rows before them.
        onset, finish: turns, 0 for none.
    """

    start: Int64s
    turns: Int64s
    rows: Int64s
    onset: Int64s
    finish: Int64s


@dataclass(frozen=True, slots=True, kw_only=True)
class Tables:
    """One application's chains, ready to be run.

    Fields:
        words: (rows × SLOTS,) packed. first_special: where the rows of polls and claims begin.
        event: (rows,). All that follow are by event unless said otherwise.
        tool, progress, claims, verified: as in the columns.
        error_flip: 1 where the class is another than the last; error_mask: -1 for no error, else 0.
        wait: it is a poll. uncalled: the bits of a turn, unless it is a call.
        shift: bits by which the turns of the last calls are shifted to find whence to copy.
        kept: of a packed fingerprint that is copied the bytes that stay. new: 1 in the bytes that
            come for the first time. like: of a poll or a claim the bytes that are copied.
        usage: first row of the usage. amounts: (turns + 1, 6, usage rows), by turn.
        plans: by index into HABITS, for the habits that the model has.
        unmeasured: a threshold of 16 bits. growth: of a call's usage, a turn and model call.
    """

    application: str
    tools: tuple[str, ...]
    errors: tuple[str, ...]
    words: Int64s
    first_special: int
    event: Int64s
    tool: Int16s
    progress: Int8s
    claims: Booleans
    verified: Int8s
    error_flip: Int16s
    error_mask: Int16s
    wait: Booleans
    uncalled: UInt64s
    shift: UInt64s
    kept: UInt32s
    new: UInt32s
    like: UInt32s
    usage: Int64s
    amounts: Int32s
    plans: dict[int, Plans]
    unmeasured: int
    growth: tuple[float, ...]


def compiled(model: ApplicationModel, application: str, horizon: int) -> Tables:
    """Return the lookup tables of one application's model.

    Errors: UsageError when the model's runs are longer than a byte can count.
    """
    if horizon > TURNS_MAX:
        raise UsageError(f"habits: a horizon of at most {TURNS_MAX} turns, got {horizon}")
    chains = {HABITS.index(habit): chain for habit, chain in model.chains.items()}
    states = np.array([s for chain in chains.values() for s in chain.states], np.int64)
    extra = sum(len(chain.starts) for chain in chains.values())
    order, first_special = _order(states, extra)
    row = np.empty(len(order), np.int64)
    row[order] = np.arange(1, len(order) + 1)
    choices: list[tuple[Sequence[int], Sequence[int]]] = [((PADDING,), (1,))] * (len(order) + 1)
    plans: dict[int, Plans] = {}
    first, start = 0, len(states)
    for habit, chain in chains.items():
        mine = row[first : first + len(chain.rows)]
        for index, pairs in enumerate(chain.rows):
            # A state that nothing followed goes on.
            own = ([int(mine[index])], [1])
            choices[mine[index]] = (mine[pairs[::2]].tolist(), pairs[1::2]) if pairs else own
        begins: dict[tuple[str, int], int] = {}
        for index, one in enumerate(chain.starts):
            begins[one.what, one.manner] = int(row[start + index])
            choices[row[start + index]] = (
                mine[one.successors[::2]].tolist(),
                one.successors[1::2],
            )
        plans[habit] = _plans(chain, begins)
        first, start = first + len(chain.rows), start + len(chain.starts)
    seen, event_of = np.unique(states % SEEN_UNIT, return_inverse=True)
    event = np.full(len(order) + 1, len(seen), np.int64)
    event[row[: len(states)]] = event_of
    # The last event is that of a row at which no run ever is.
    return _tables(
        model,
        np.append(seen, 0),
        application=application,
        words=alias_words(choices).reshape(-1),
        first_special=first_special,
        event=event,
        plans=plans,
        horizon=horizon,
    )


def alias_words(choices: Sequence[tuple[Sequence[int], Sequence[int]]]) -> Int64s:
    """Return (choices, SLOTS) packed words that choose a successor with these weights.

    Arguments:
        choices: successors, rows below 2 ** ROW_BITS, of which the SLOTS heaviest are kept, and
            their weights, integers from 1.

    Each chance is exact to SLOTS⁻¹ × 2⁻¹⁶.
    """
    rows = np.zeros((len(choices), SLOTS), np.int64)
    share = np.zeros((len(choices), SLOTS))
    for place, (successors, weights) in enumerate(choices):
        if len(successors) == 1:
            rows[place], share[place] = successors[0], 1.0
            continue
        ranked = sorted(zip(weights, successors, strict=True), key=lambda p: (-p[0], p[1]))[:SLOTS]
        scale = SLOTS / sum(weight for weight, _ in ranked)
        rows[place, : len(ranked)] = [successor for _, successor in ranked]
        share[place, : len(ranked)] = [weight * scale for weight, _ in ranked]
    alias, below = rows.copy(), np.ones_like(share)
    every = np.arange(len(choices))
    # In each round the lightest open slot of every choice is filled up by the heaviest.
    open_low, open_high = share.copy(), share.copy()
    for _ in range(SLOTS - 1):
        low, high = open_low.argmin(axis=1), open_high.argmax(axis=1)
        rest = np.minimum(open_low[every, low], 1.0)
        below[every, low], alias[every, low] = rest, rows[every, high]
        open_low[every, high] -= 1 - rest
        open_high[every, high] -= 1 - rest
        open_low[every, low], open_high[every, low] = np.inf, -np.inf
    unit = 1 << THRESHOLD_BITS
    words = np.minimum(np.rint(below * unit).astype(np.int64), unit - 1)
    # A slot that is all its own has one row on either side of its threshold.
    words |= np.where(below < 1, alias, rows) << THRESHOLD_BITS
    words |= rows << (THRESHOLD_BITS + ROW_BITS)
    return words


def _order(states: Int64s, starts: int) -> tuple[Int64s, int]:
    """Return the order of rows, and the row at which the special ones begin."""
    special = np.zeros(len(states) + starts, np.bool_)
    special[: len(states)] = (part(states, "kind") == WAIT) | (part(states, "claim") != NO_CLAIM)
    # Row 0 is the padding.
    return np.argsort(special, kind="stable"), 1 + int((~special).sum())


def _plans(chain: Chain, begins: dict[tuple[str, int], int]) -> Plans:
    """Return the plans of one habit as rows."""
    start: list[int] = []
    turns: list[tuple[int, int]] = []
    rows: list[tuple[int, int]] = []
    for close, onset, manner, finish in chain.plans:
        first, second = (0, PADDING), (0, PADDING)
        begin = begins.get(("start", 0 if onset else manner), PADDING)
        if onset:
            name = "moving" if close > onset else "ceasing" if close == onset else "stuck"
            first = (onset, begins[name, manner])
            if close > onset:
                second = (close, begins["ceasing", manner])
        elif finish:
            second = (finish, begins["finish", manner])
            if close:
                first = (close, begins["close", manner])
            elif finish > 1:
                begin = begins["closed", manner]
        start.append(begin)
        turns.append((first[0], second[0]))
        rows.append((first[1], second[1]))
    return Plans(
        start=np.array(start, np.int64),
        turns=np.array(turns, np.int64).T.copy(),
        rows=np.array(rows, np.int64).T.copy(),
        onset=np.array([onset for _, onset, _, _ in chain.plans], np.int64),
        finish=np.array([finish for _, _, _, finish in chain.plans], np.int64),
    )


def _tables(
    model: ApplicationModel,
    seen: Int64s,
    *,
    application: str,
    words: Int64s,
    first_special: int,
    event: Int64s,
    plans: dict[int, Plans],
    horizon: int,
) -> Tables:
    """Return the tables with what is seen of each event."""
    kind, claim, error = part(seen, "kind"), part(seen, "claim"), part(seen, "error")
    call = (kind == CALL) | (kind == REPEATABLE)
    back = BYTE * part(seen, "back")
    result, state = (
        np.where(call, part(seen, name), part(seen, f"like_{name}")) for name in ("result", "state")
    )
    names = [name for name in dict.fromkeys(model.tools) if name]
    tools = np.array([names.index(name) if name else UNKNOWN for name in model.tools], np.int16)
    answers = np.full(4, UNKNOWN, np.int8)
    answers[[VERIFIED, REFUSED]] = 1, 0
    spans = np.cumsum([0, *(len(usage.rows) for usage in model.usage)])
    # One byte a fingerprint, of action, result and state.
    action_like = np.where(kind == WAIT, part(seen, "like"), part(seen, "back")) > 0
    relations = (
        np.where(kind == NOTHING, HIDDEN, np.where(action_like, SAME, OTHER)),
        result,
        state,
    )

    def chosen(relation: int) -> UInt32s:
        word = np.zeros(len(seen), np.uint32)
        for place, each in enumerate(relations):
            word |= (each == relation).astype(np.uint32) << np.uint32(BYTE * place)
        return word

    copied = chosen(SAME) * np.uint32((1 << BYTE) - 1)
    return Tables(
        application=application,
        tools=tuple(names),
        errors=tuple((*model.errors, "error", "other error")[:_ERROR_NAMES]),
        words=words,
        first_special=first_special,
        event=event,
        tool=tools[kind],
        progress=(part(seen, "progress") - NONE).astype(np.int8),
        claims=claim != NO_CLAIM,
        verified=answers[claim],
        error_flip=(error == OTHER_ERROR).astype(np.int16),
        error_mask=np.where(error == NO_ERROR, -1, 0).astype(np.int16),
        wait=kind == WAIT,
        uncalled=np.where(call, 0, BYTE).astype(np.uint64),
        shift=np.where(call, back, 0).astype(np.uint64),
        kept=np.where(call, copied, 0).astype(np.uint32),
        new=chosen(OTHER),
        like=np.where(call, 0, copied).astype(np.uint32),
        usage=spans[:-1][kind],
        amounts=_amounts(model, horizon),
        plans=plans,
        growth=tuple(each / MILLION for each in model.usage[CALL].growth),
        unmeasured=round(model.unmeasured / MILLION * (1 << THRESHOLD_BITS)),
    )


def _amounts(model: ApplicationModel, horizon: int) -> Int32s:
    """Return (horizon + 1, 6, usage rows): what the rows of usage are at each turn."""
    rows = [row for usage in model.usage for row in usage.rows]
    # What grows does so for each model call of the turn.
    growth = [
        [each * max(row[0], 1) for each in usage.growth]
        for usage in model.usage
        for row in usage.rows
    ]
    shape = (-1, len(USAGE_FIELDS))
    base, more = np.array(rows, np.int64).reshape(shape), np.array(growth, np.int64).reshape(shape)
    turns = np.arange(horizon + 1)[:, None, None]
    return np.maximum(base.T + more.T * turns // MILLION, 0).astype(np.int32)
