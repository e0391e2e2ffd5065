"""Runs of a habit model, one turn of many runs at a time, straight into columns.

Theory of operation: all draws of a run are functions of seed, application, number and turn
(SplitMix64 on counters, as in `draws`), so a number gives the same run in any range. Runs are first
ordered by their length, which their plans name, then taken in groups that fit a processor's cache;
the open runs of a group are always its first ones. Within a group each turn is one random word a
run: its bits choose the next row of the chain, the row of usage, and whether progress is measured.
Turns that a plan names are lists made beforehand, and one comparison finds the few rows that need
care.

A fingerprint is the turn at which its value first came, so it fits a byte, and those of action,
result and state fit a word. One that comes again is copied from the turn of one of the last calls,
whose turns are the bytes of another word. A byte of 0 is not known.

Source: spec control, section 4 (the columnar tier) and section 3 (counter-based generator).
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np

from loopcore.batch.columns import PROGRESS_UNKNOWN, Columns, Int8s, Int32s, Int64s
from loopcore.batch.interning import USAGE_FIELDS
from loopcore.errors import UsageError
from loopcore.worlds.draws import Draws, uniforms
from loopcore.worlds.habit_model_tables import (
    BYTE,
    ROW_BITS,
    SLOT_BITS,
    SLOTS,
    THRESHOLD_BITS,
    Tables,
    UInt32s,
    UInt64s,
)
from loopcore.worlds.model import HABITS
from loopcore.worlds.purposes import HABIT, PLAN_TURN
from loopcore.worlds.tasks import habit_bounds

GROUP_RUNS = 32_768
# The words of a run: its plan, and from the second on its turns.
_PLAN_WORD = 0
# Bits of a turn's word, from the lowest: slot, threshold, usage, measured.
_USAGE_BITS = 6
_THRESHOLD_MASK = (1 << THRESHOLD_BITS) - 1
_ROW_MASK = (1 << ROW_BITS) - 1
_HALF = np.uint64(32)
_BYTE_MASK = (1 << BYTE) - 1
_WIDTH_MORE = 16
_SIGN_BIT = 63
# SplitMix64: increment, multipliers and shifts.
_GOLDEN = 0x9E3779B97F4A7C15
_FACTORS = (np.uint64(0xBF58476D1CE4E5B9), np.uint64(0x94D049BB133111EB), None)
_SHIFTS = (np.uint64(30), np.uint64(27), np.uint64(31))
_MASK = (1 << 64) - 1


@dataclass(frozen=True, slots=True, kw_only=True)
class Generated:
    """Runs of a habit model, with the truth about them; every array but the columns is (runs,).

    Fields:
        columns: of the runs, up to the verified finish or the horizon.
        numbers: which run each column is; the longest runs come first.
        habit: index into HABITS. onset, verified_turn: 0 for none.
    """

    columns: Columns
    numbers: Int64s
    habit: Int8s
    onset: Int32s
    verified_turn: Int32s


class Words:
    """64 random bits for each run and counter, by SplitMix64.

    Arguments:
        seed, stream: name the stream. numbers: of the runs, from 0.
    """

    def __init__(self, seed: int, stream: str, numbers: Int64s) -> None:
        origin = np.uint64(Draws(seed, stream, 0).word(0, 0))
        states: UInt64s = numbers.astype(np.uint64) * np.uint64(_GOLDEN) + origin
        self._starts = shuffled(states, np.empty_like(states))

    def ordered(self, order: Int64s) -> None:
        """Put the runs in another order."""
        self._starts = self._starts[order]

    def write(
        self, counter: int, runs: slice[int, int, None], out: UInt64s, scratch: UInt64s
    ) -> None:
        """Write the words of a slice of the runs to `out`, of which `scratch` has the size."""
        starts: UInt64s = self._starts[runs]
        np.add(starts, np.uint64((counter + 1) * _GOLDEN & _MASK), out=out)
        shuffled(out, scratch)


def shuffled(states: UInt64s, scratch: UInt64s) -> UInt64s:
    """Return the output of SplitMix64 for these states, which it overwrites."""
    for shift, factor in zip(_SHIFTS, _FACTORS, strict=True):
        np.right_shift(states, shift, out=scratch)
        np.bitwise_xor(states, scratch, out=states)
        if factor is not None:
            np.multiply(states, factor, out=states)
    return states


@dataclass(frozen=True, slots=True, kw_only=True)
class Drawn:
    """What runs draw before their first turn; arrays (runs,), the longest first.

    Fields: turns, rows: (2, runs), as in `Plans`; the others as in `Generated` and `Plans`.
    """

    numbers: Int64s
    habit: Int8s
    onset: Int32s
    lengths: Int32s
    verified_turn: Int32s
    start: Int64s
    turns: Int64s
    rows: Int64s


def generated(
    tables: Tables, numbers: range, seed: int, turns: int, mixture: Mapping[str, float]
) -> Generated:
    """Return the runs of these numbers; see `HabitModel.generate`."""
    ids = np.arange(numbers.start, numbers.stop, numbers.step, dtype=np.int64)
    words = Words(seed, f"{tables.application} columns", ids)
    drawn = _draw(tables, ids, words, seed=seed, horizon=turns, mixture=mixture)
    sink = Sink(turns, len(ids))
    for first in range(0, len(ids), GROUP_RUNS):
        group = slice(first, min(first + GROUP_RUNS, len(ids)))
        Group(tables, drawn, words, sink, group).run()
    return Generated(
        columns=sink.columns(tables, drawn.lengths),
        numbers=drawn.numbers,
        habit=drawn.habit,
        onset=drawn.onset,
        verified_turn=drawn.verified_turn,
    )


def _draw(
    tables: Tables,
    numbers: Int64s,
    words: Words,
    *,
    seed: int,
    horizon: int,
    mixture: Mapping[str, float],
) -> Drawn:
    """Return the plans of runs, the longest first; the words are ordered alike."""
    bounds = habit_bounds(mixture)
    places = uniforms(seed, tables.application, numbers, PLAN_TURN, HABIT)
    chosen = np.searchsorted(np.array([end for end, _ in bounds]), places, side="right")
    indexes = np.array([HABITS.index(name) for _, name in bounds], np.int8)
    habit = indexes[np.minimum(chosen, len(bounds) - 1)]
    size = len(numbers)
    word = np.empty(size, np.uint64)
    words.write(_PLAN_WORD, slice(0, size), word, np.empty_like(word))
    onset, start, finish = (np.empty(size, np.int64) for _ in range(3))
    turns, rows = np.empty((2, size), np.int64), np.empty((2, size), np.int64)
    for one in np.unique(habit):
        plans = tables.plans.get(int(one))
        if plans is None:
            raise UsageError(f"habits: {tables.application} has no runs of {HABITS[one]} to go by")
        mine = np.flatnonzero(habit == one)
        picked = ((word[mine] >> _HALF) * np.uint64(len(plans.start)) >> _HALF).astype(np.int64)
        onset[mine], start[mine] = plans.onset[picked], plans.start[picked]
        turns[:, mine], rows[:, mine] = plans.turns[:, picked], plans.rows[:, picked]
        finish[mine] = plans.finish[picked]
    # What the horizon cuts off does not happen.
    onset[onset > horizon] = 0
    finish[finish > horizon] = 0
    lengths = np.where(finish > 0, finish, horizon)
    order = np.argsort(-lengths, kind="stable")
    words.ordered(order)
    return Drawn(
        numbers=numbers[order],
        habit=habit[order],
        onset=onset[order].astype(np.int32),
        lengths=lengths[order].astype(np.int32),
        verified_turn=finish[order].astype(np.int32),
        start=start[order],
        turns=turns[:, order],
        rows=rows[:, order],
    )


class Sink:
    """The columns under construction, and the packed fingerprints of the group at work."""

    def __init__(self, turns: int, runs: int) -> None:
        shape = (turns, runs)
        self.action, self.result, self.state = (np.zeros(shape, np.int32) for _ in range(3))
        # A width that is no power of two keeps turns apart in the processor's cache.
        self.width = min(runs, GROUP_RUNS) + _WIDTH_MORE
        self.packed = np.zeros((turns + 1, self.width), np.uint32)
        self.tool, self.error = np.zeros(shape, np.int16), np.zeros(shape, np.int16)
        self.progress, self.verified = np.zeros(shape, np.int8), np.zeros(shape, np.int8)
        self.claims = np.zeros(shape, np.bool_)
        self.usage = {name: np.zeros(shape, np.int32) for name in USAGE_FIELDS}

    def columns(self, tables: Tables, lengths: Int32s) -> Columns:
        """Return the finished columns."""
        return Columns(
            tools=tables.tools,
            errors=tables.errors,
            lengths=lengths,
            tool=self.tool,
            action=self.action,
            result=self.result,
            state=self.state,
            progress=self.progress,
            error=self.error,
            claims=self.claims,
            verified=self.verified,
            **self.usage,
        )


class Group:
    """One group of runs, the longest first."""

    def __init__(
        self, tables: Tables, drawn: Drawn, words: Words, sink: Sink, group: slice[int, int, None]
    ) -> None:
        self._tables, self._words, self._sink = tables, words, sink
        self._first, size = group.start, group.stop - group.start
        self._row = drawn.start[group].copy()
        self._named = _named(drawn.turns[:, group], drawn.rows[:, group])
        self._lengths = drawn.lengths[group]
        self._error = np.zeros(size, np.int16)
        self._place = np.arange(size, dtype=np.int64)
        # Turns of the last calls as bytes, and of the last poll and the last claim.
        self._calls = np.zeros(size, np.uint64)
        self._last = np.zeros((2, size), np.int64)
        self._words_of = [np.empty(size, np.uint64) for _ in range(4)]
        self._signed = [np.empty(size, np.int64) for _ in range(3)]
        self._packed = [np.empty(size, np.uint32) for _ in range(2)]
        self._small = np.empty(size, np.int16)
        self._flags = np.empty(size, np.bool_)

    def run(self) -> None:
        """Write all turns of the group's runs."""
        row = self._row
        # How many runs have a turn: the open ones are the first ones.
        open_at = np.searchsorted(-self._lengths, -np.arange(1, int(self._lengths[0]) + 1), "right")
        for turn, open_ in enumerate(open_at.tolist(), start=1):
            for runs, rows in self._named.get(turn, ()):
                row[runs] = rows
            word = self._step(turn, open_)
            flags = self._flags[:open_]
            np.greater_equal(row[:open_], self._tables.first_special, out=flags)
            self._write(turn, open_, word, np.flatnonzero(flags))

    def _step(self, turn: int, open_: int) -> UInt64s:
        """Move every open run to its next row; return the rest of the turn's words."""
        row = self._row[:open_]
        word, scratch, entry = (array[:open_] for array in self._words_of[:3])
        index, own = self._signed[0][:open_], self._signed[1][:open_]
        runs = slice(self._first, self._first + open_)
        self._words.write(turn, runs, word, scratch)
        np.bitwise_and(word, np.uint64(SLOTS - 1), out=scratch)
        np.left_shift(row, SLOT_BITS, out=index)
        np.add(index, scratch.view(np.int64), out=index)
        packed = entry.view(np.int64)
        np.take(self._tables.words, index, out=packed, mode="clip")
        np.right_shift(word, np.uint64(SLOT_BITS), out=word)
        np.bitwise_and(word, np.uint64(_THRESHOLD_MASK), out=scratch)
        np.bitwise_and(packed, _THRESHOLD_MASK, out=index)
        # All bits set where the draw is below the threshold: a choice without a branch.
        np.subtract(scratch.view(np.int64), index, out=index)
        np.right_shift(index, _SIGN_BIT, out=index)
        np.right_shift(packed, THRESHOLD_BITS + ROW_BITS, out=own)
        np.right_shift(packed, THRESHOLD_BITS, out=row)
        np.bitwise_and(row, _ROW_MASK, out=row)
        np.bitwise_xor(own, row, out=own)
        np.bitwise_and(own, index, out=own)
        np.bitwise_xor(row, own, out=row)
        np.right_shift(word, np.uint64(THRESHOLD_BITS), out=word)
        return word

    def _write(self, turn: int, open_: int, word: UInt64s, special: Int64s) -> None:
        """Write what is seen of a turn."""
        tables, sink = self._tables, self._sink
        here = (turn - 1, slice(self._first, self._first + open_))
        event = self._signed[2][:open_]
        np.take(tables.event, self._row[:open_], out=event, mode="clip")
        np.take(tables.tool, event, out=sink.tool[here], mode="clip")
        np.take(tables.claims, event, out=sink.claims[here], mode="clip")
        np.take(tables.verified, event, out=sink.verified[here], mode="clip")
        np.take(tables.progress, event, out=sink.progress[here], mode="clip")
        small, error = self._small[:open_], self._error[:open_]
        np.take(tables.error_flip, event, out=small, mode="clip")
        np.bitwise_xor(error, small, out=error)
        np.take(tables.error_mask, event, out=small, mode="clip")
        np.bitwise_or(error, small, out=sink.error[here])
        self._write_usage(turn, open_, word, event)
        self._write_calls(turn, open_, event, special)

    def _write_usage(self, turn: int, open_: int, word: UInt64s, event: Int64s) -> None:
        """Write usage, and hide the progress of turns that were not measured."""
        tables, sink = self._tables, self._sink
        here = (turn - 1, slice(self._first, self._first + open_))
        scratch, index = self._words_of[1][:open_], self._signed[0][:open_]
        np.bitwise_and(word, np.uint64((1 << _USAGE_BITS) - 1), out=scratch)
        np.take(tables.usage, event, out=index, mode="clip")
        np.add(index, scratch.view(np.int64), out=index)
        for name, amounts in zip(USAGE_FIELDS, tables.amounts[turn], strict=True):
            np.take(amounts, index, out=sink.usage[name][here], mode="clip")
        np.right_shift(word, np.uint64(_USAGE_BITS), out=word)
        np.bitwise_and(word, np.uint64(_THRESHOLD_MASK), out=word)
        flags = np.less(word, np.uint64(tables.unmeasured), out=self._flags[:open_])
        progress = sink.progress[here]
        missing = np.flatnonzero(flags)
        progress[missing[progress[missing] <= 0]] = PROGRESS_UNKNOWN

    def _write_calls(self, turn: int, open_: int, event: Int64s, special: Int64s) -> None:
        """Write fingerprints, new or copied, and remember the turns of calls."""
        tables, sink = self._tables, self._sink
        calls, turns, shifts = (a[:open_] for a in (self._calls, *self._words_of[1:3]))
        index, packed = self._signed[0][:open_], self._packed[0][:open_]
        part = self._packed[1][:open_]
        np.left_shift(calls, np.uint64(BYTE), out=turns)
        np.bitwise_or(turns, np.uint64(turn), out=turns)
        # Of what is no call the turn is taken off again.
        np.take(tables.uncalled, event, out=shifts, mode="clip")
        np.right_shift(turns, shifts, out=calls)
        np.take(tables.shift, event, out=shifts, mode="clip")
        np.right_shift(turns, shifts, out=turns)
        np.bitwise_and(turns, np.uint64(_BYTE_MASK), out=turns)
        np.multiply(turns.view(np.int64), sink.width, out=index)
        np.add(index, self._place[:open_], out=index)
        np.take(sink.packed.reshape(-1), index, out=packed, mode="clip")
        np.take(tables.kept, event, out=part, mode="clip")
        np.bitwise_and(packed, part, out=packed)
        np.take(tables.new * np.uint32(turn), event, out=part, mode="clip")
        np.bitwise_or(packed, part, out=packed)
        if special.size:
            self._relate(turn, special, event[special], packed)
        sink.packed[turn, :open_] = packed
        here = (turn - 1, slice(self._first, self._first + open_))
        for place, ids in enumerate((sink.action, sink.result, sink.state)):
            if place:
                np.right_shift(packed, np.uint32(BYTE), out=packed)
            np.bitwise_and(packed, np.uint32(_BYTE_MASK), out=part)
            # What is unknown, 0, becomes -1.
            np.subtract(part.view(np.int32), 1, out=ids[here])

    def _relate(self, turn: int, special: Int64s, event: Int64s, packed: UInt32s) -> None:
        """Copy what polls and spoken claims have of the last poll or claim."""
        tables = self._tables
        poll, claim = self._last
        before = self._last.reshape(-1)[special + (~tables.wait[event]) * poll.size]
        packed[special] |= self._sink.packed[before, special] & tables.like[event]
        poll[special[tables.wait[event]]] = turn
        claim[special[tables.claims[event]]] = turn


def _named(turns: Int64s, rows: Int64s) -> dict[int, list[tuple[Int64s, Int64s]]]:
    """Return for each turn that plans name the runs that do, and the rows they go to."""
    named: dict[int, list[tuple[Int64s, Int64s]]] = {}
    for turn_of, row_of in zip(turns, rows, strict=True):
        order = np.argsort(turn_of, kind="stable")
        values, firsts = np.unique(turn_of[order], return_index=True)
        for turn, runs in zip(values.tolist(), np.split(order, firsts[1:]), strict=True):
            if turn:
                named.setdefault(turn, []).append((runs, row_of[runs]))
    return named
