"""Level E on the habit model: where level D would stop at a detection, runs fork.

Theory of operation: a detection becomes a recovery while the budgets last, by the same table of
strategies and budgets as level E's own. A recovery takes a turn. It is won with the chance that the
caller assumes for the habit and the strategy, against a draw of the run and the recovery alone, so
a greater chance wins wherever a smaller one does. A run that left its mode goes on as a productive
run does from the turn of its onset on, taken from a fixed pool; any other goes on as it was, one
turn later. After a recovery the detectors see only what comes after it; steps, sums and the gate
see the whole run. Turns are spliced for all forked runs at once, round by round.

Choices: a run goes on with the productive run of the pool that has at least as many turns as the
onset, since its work was not yet done then. The context of what goes on is as long as the turn
says, from the last `smaller_context` on.

Source: spec control, sections 2, 3 and 4 (level E, ρ); spec controllers, section 5.
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import lru_cache
from itertools import product
from typing import cast

import msgspec
import numpy as np

from loopcore.batch.columns import UNKNOWN, Booleans, Columns, Floats, Int8s, Int32s, Int64s
from loopcore.batch.interning import USAGE_FIELDS
from loopcore.batch.stop_times import REASONS, Stops, stop_times
from loopcore.control.limits import Limits, ToolPolicy
from loopcore.control.precedence import RANKS
from loopcore.control.recovery import STRATEGIES, Recoveries
from loopcore.worlds.draws import uniforms
from loopcore.worlds.habit_model import HabitModel
from loopcore.worlds.habit_model_generation import Generated
from loopcore.worlds.habit_model_outcomes import (
    Column,
    Recovered,
    finish_states,
    recovery_turns,
    sums,
    typed,
    with_arrays,
)
from loopcore.worlds.habits import RELEVANT
from loopcore.worlds.model import HABITS

# Productive runs to go on with, the same for all runs of a seed.
POOL_RUNS = 2_048
# A run has at most so many recoveries, whatever its limits say.
RECOVERIES_MAX = 8
# Fingerprints of what a run goes on with are told from its own.
_FRESH_IDS = 1 << 16
# The turn of the draws, and their purposes: which run to go on with, and by strategy from LEAVING.
_DRAW_TURN = 1 << 20
_PICK, _LEAVING = 0, 1
# The reasons of a run's recoveries are the digits of its code.
_CODE_BASE = len(REASONS)


def recovered(
    model: HabitModel,
    application: str,
    made: Generated,
    *,
    seed: int,
    limits: Limits,
    leaving: Mapping[tuple[str, str], float],
    stops: Stops | None = None,
) -> Recovered:
    """Return what becomes of runs under level E.

    Arguments:
        made: runs of this model, application and seed. limits: with gate and tool policies.
        leaving: ρ by habit and strategy; 0 where it is missing or the strategy changes nothing
            relevant to the habit.
        stops: of level D under these limits on `made.columns`, when they are there already.

    Complexity: linear in the turns of the runs that level D stops by a detection, times rounds.
    """
    if stops is None:
        stops = stop_times(made.columns, limits, "D")
    forks = Forks(model, application, made, seed=seed, limits=limits, leaving=leaving)
    return forks.run(stops)


def curve(
    model: HabitModel,
    application: str,
    made: Generated,
    *,
    seed: int,
    limits: Limits,
    rhos: tuple[float, ...],
) -> tuple[Recovered, ...]:
    """Return level E's outcomes for each ρ, the same for every habit and relevant strategy.

    The draws are common: what a smaller ρ wins, a greater one wins too.
    """
    stops = stop_times(made.columns, limits, "D")
    return tuple(
        recovered(
            model,
            application,
            made,
            seed=seed,
            limits=limits,
            leaving=dict.fromkeys(product(HABITS, STRATEGIES), rho),
            stops=stops,
        )
        for rho in rhos
    )


class Forks:
    """The forked runs of one call, round by round; arrays are of the runs that ever forked."""

    def __init__(
        self,
        model: HabitModel,
        application: str,
        made: Generated,
        *,
        seed: int,
        limits: Limits,
        leaving: Mapping[tuple[str, str], float],
    ) -> None:
        self._made, self._seed, self._limits = made, seed, limits
        self._application = application
        self._growth = dict(zip(USAGE_FIELDS, model.tables(application).growth, strict=True))
        self._pool = _pool(model, application, seed, made.columns.turns)
        self._shortest_first = np.argsort(self._pool.columns.lengths, kind="stable")
        self._leaving = np.zeros((len(HABITS), len(STRATEGIES)))
        for (habit, strategy), chance in leaving.items():
            if strategy in RELEVANT.get(habit, ()):
                self._leaving[HABITS.index(habit), STRATEGIES.index(strategy)] = chance
        self._tried: dict[tuple[int, int], int] = {}
        # What ends a whole run: its finish, budgets and gate. Polls are a detector's affair.
        self._whole = msgspec.structs.replace(limits, max_waits=None, tools=_without_waits(limits))
        # What is detected in a part of a run.
        self._part = msgspec.structs.replace(
            limits,
            max_steps=None,
            horizon=None,
            max_refusals=None,
            **{f"max_{name}": None for name in USAGE_FIELDS if name != "latency_ms"},
            max_latency_ms=None,
        )

    @property
    def columns(self) -> Columns:
        """The forked runs as they went, once `run` is over, in the order of `forked`."""
        return with_arrays(self._made.columns, self._arrays, self._lengths)

    @property
    def forked(self) -> Int64s:
        """Which columns forked, or would have with budgets left."""
        return self._runs

    def run(self, stops: Stops) -> Recovered:
        """Return the outcomes, given where level D stops each run."""
        made = self._made
        runs = np.flatnonzero(stops.is_cause("detector"))
        self._runs = runs
        self._arrays: dict[str, Column] = {
            name: array[:, runs] for name, array in made.columns.arrays()
        }
        self._lengths = made.columns.lengths[runs].copy()
        self._onset, self._habit = made.onset[runs], made.habit[runs].astype(np.int64)
        size = len(runs)
        self._stuck = self._onset > 0
        self._context = np.zeros(size, np.int64)
        self._code = np.zeros(size, np.int64)
        self._counts = {
            name: np.zeros(size, np.int32) for name in ("recoveries", "won", "unneeded")
        }
        self._caught = np.zeros(size, np.int32)
        self._final_state = finish_states(made.columns, made.verified_turn)[runs]
        turn, reason = stops.turn[runs].copy(), stops.reason[runs].copy()
        active = np.arange(size)
        for number in range(RECOVERIES_MAX):
            at, why = turn[active], reason[active]
            self._catch(active, at)
            strategy = self._next(self._code[active], why)
            going = strategy >= 0
            active, at, why, strategy = active[going], at[going], why[going], strategy[going]
            if not active.size:
                break
            self._recover(active, at, why, strategy, number)
            turn[active], reason[active], detected = self._judge(active, at)
            active = active[detected]
        return self._outcomes(stops, turn, reason)

    def _next(self, code: Int64s, why: Int8s) -> Int64s:
        """Return the strategy that comes next after earlier reasons, -1 where there is none."""
        pairs, inverse = np.unique(np.stack([code, why]), axis=1, return_inverse=True)
        for earlier, now in pairs.T.tolist():
            if (earlier, now) not in self._tried:
                self._tried[earlier, now] = _next_strategy(self._limits, earlier, now)
        found = [self._tried[earlier, now] for earlier, now in pairs.T.tolist()]
        return np.array(found, np.int64)[inverse.reshape(-1)]

    def _catch(self, active: Int64s, at: Int32s) -> None:
        """Note the first detection at or after the onset."""
        onset = self._onset[active]
        first = (onset > 0) & (at >= onset) & (self._caught[active] == 0)
        self._caught[active[first]] = at[first]

    def _recover(
        self, active: Int64s, at: Int32s, why: Int8s, strategy: Int64s, number: int
    ) -> None:
        """Splice in the turn of a recovery, and after it what the run goes on with."""
        numbers = self._made.numbers[self._runs[active]]
        onset = self._onset[active]
        needed = self._stuck[active] & (at >= onset)
        chance = self._leaving[self._habit[active], strategy]
        place = np.empty(len(active))
        for one in np.unique(strategy):
            mine = strategy == one
            purpose = _LEAVING + int(one)
            place[mine] = self._uniforms(numbers[mine], number, purpose)
        won = needed & (place < chance)
        self._counts["recoveries"][active] += 1
        self._counts["won"][active] += won
        self._counts["unneeded"][active] += ~needed
        self._code[active] = self._code[active] * _CODE_BASE + why
        self._stuck[active[won]] = False
        before = self._context[active]
        smaller = strategy == STRATEGIES.index("smaller_context")
        self._context[active[smaller]] = at[smaller]
        picked = self._pick(numbers, onset)
        self._splice(active, at, won, picked, self._context[active] - before)
        self._write_recovery(active, at, strategy, before)

    def _uniforms(self, numbers: Int64s, number: int, purpose: int) -> Floats:
        stream = f"{self._application} forks"
        return uniforms(self._seed, stream, numbers, _DRAW_TURN + number, purpose)

    def _pick(self, numbers: Int64s, onset: Int32s) -> Int64s:
        """Return a run of the pool for each: one that is still open at the onset."""
        lengths = self._pool.columns.lengths[self._shortest_first]
        first = np.minimum(np.searchsorted(lengths, onset), len(lengths) - 1)
        share = self._uniforms(numbers, 0, _PICK)
        places: Int64s = first + (share * (len(lengths) - first)).astype(np.int64)
        picked: Int64s = self._shortest_first[places]
        return picked

    def _splice(
        self, active: Int64s, at: Int32s, won: Booleans, picked: Int64s, context: Int64s
    ) -> None:
        """Put what a run goes on with behind the turn of its recovery."""
        turns = self._made.columns.turns
        rows = np.arange(turns)[:, None]
        after = rows > at[None, :]
        # Turn n is row n - 1: the recovery takes row `at`, and what was there comes one later.
        later = np.where(after, np.maximum(rows - 1, 0), rows)
        skipped = np.maximum(self._onset[active] - 1, 0)
        other = np.minimum(np.maximum(rows - at - 1 + skipped, 0), turns - 1)
        calls = self._arrays["model_calls"]
        lengths = np.where(
            won,
            at + 1 + np.maximum(self._pool.columns.lengths[picked] - skipped, 1),
            self._lengths[active] + 1,
        )
        fresh = after & won[None, :]
        # By how many turns the context of a turn has grown beyond that of where it was taken from.
        delta = np.where(fresh, rows - other - self._context[active], 1 - context)
        delta[~after | (rows >= lengths)] = 0
        for name, pool in self._pool.columns.arrays():
            mine = np.take_along_axis(self._arrays[name][:, active], later, axis=0)
            value = pool[other, picked]
            if name in ("action", "result", "state"):
                value = np.where(value == UNKNOWN, UNKNOWN, value + _FRESH_IDS)
            self._arrays[name][:, active] = np.where(fresh, value, mine)
        moved = delta * calls[:, active]
        for name, growth in self._growth.items():
            if growth:
                more = np.rint(moved * growth).astype(np.int32)
                self._arrays[name][:, active] = np.maximum(self._arrays[name][:, active] + more, 0)
        self._lengths[active] = np.minimum(lengths, turns)
        final = finish_states(self._pool.columns, self._pool.verified_turn)
        self._final_state[active[won]] = final[picked[won]] + _FRESH_IDS

    def _write_recovery(
        self, active: Int64s, at: Int32s, strategy: Int64s, context: Int64s
    ) -> None:
        """Write the turn of the recovery, where the run still has one."""
        within = at < self._made.columns.turns
        chosen, turn = strategy[within], at[within]
        smaller = chosen == STRATEGIES.index("smaller_context")
        since = np.where(smaller, turn, context[within])
        for name, values in recovery_turns(chosen, turn + 1, since).items():
            self._arrays[name][turn, active[within]] = values

    def _judge(self, active: Int64s, at: Int32s) -> tuple[Int32s, Int8s, Booleans]:
        """Return where each run ends or is detected next, why, and whether it is a detection."""
        columns = with_arrays(
            self._made.columns,
            {name: array[:, active] for name, array in self._arrays.items()},
            self._lengths[active],
        )
        whole = stop_times(columns, self._whole, "B")
        rows = np.minimum(np.arange(columns.turns)[:, None] + at[None, :], columns.turns - 1)
        shifted: dict[str, Column] = {}
        for name, array in columns.arrays():
            shifted[name] = cast("Column", np.take_along_axis(array, rows, axis=0))
        part = stop_times(with_arrays(columns, shifted, columns.lengths - at), self._part, "D")
        detected = part.is_cause("detector")
        turn = part.turn + at
        ended = (whole.reason > 0) & (whole.turn <= turn)
        detected &= ~ended
        return (
            np.where(detected, turn, whole.turn).astype(np.int32),
            np.where(detected, part.reason, whole.reason).astype(np.int8),
            detected,
        )

    def _outcomes(self, stops: Stops, turn: Int32s, reason: Int8s) -> Recovered:
        """Return the outcomes of all runs: those of level D, and the forked ones in their place."""
        made, runs = self._made, self._runs
        final = finish_states(made.columns, made.verified_turn)
        base = sums(made.columns, stops.turn, stops.reason, made.onset, final)
        forked = sums(self.columns, turn, reason, self._onset, self._final_state)
        counts: dict[str, Int64s] = {
            name: values.astype(np.int64)
            for name, values in {"caught_turn": self._caught, **self._counts}.items()
        }
        for name in counts:
            base[name] = np.zeros(made.columns.runs, np.int64)
        for name, values in {**forked, **counts}.items():
            base[name][runs] = values
        if self._limits.gate != "verify":
            base["rejected"][:] = 0
        return typed(base)


@lru_cache(maxsize=8)
def _pool(model: HabitModel, application: str, seed: int, turns: int) -> Generated:
    """Return the productive runs to go on with."""
    numbers = range(POOL_RUNS)
    # Another seed than that of the runs, which would else go on with themselves.
    return model.generate(
        application, numbers, seed=seed + 1, turns=turns, mixture={"productive": 1.0}
    )


def _without_waits(limits: Limits) -> dict[str, ToolPolicy]:
    """Return the tools' policies without a bound on polls."""
    return {
        name: msgspec.structs.replace(policy, max_waits=None)
        for name, policy in limits.tools.items()
    }


def _next_strategy(limits: Limits, code: int, why: int) -> int:
    """Return the index of the strategy of level E after the reasons of a code, -1 for none."""
    earlier: list[int] = []
    while code:
        code, reason = divmod(code, _CODE_BASE)
        earlier.insert(0, reason)
    recoveries = Recoveries(limits)
    for reason in earlier:
        recoveries.begin(recoveries.answer(RANKS["stop", REASONS[reason]]))
    strategy = recoveries.answer(RANKS["stop", REASONS[why]]).strategy
    return -1 if strategy is None else STRATEGIES.index(strategy)
