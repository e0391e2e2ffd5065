"""What runs of the habit model come to under level E, and how their columns are put together.

Theory of operation: helpers of `habit_model_recovery` that know no round and no draw: columns with
other arrays, the turn that a recovery takes, and the sums of runs up to their ends.

Choices: under gate `trust` a claim that the verifier could not judge is true when the state there
is known and the same as at the verified finish of the run that was gone on with.

Source: spec control, sections 1 and 3.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import TypeAlias

import numpy as np

from loopcore.batch.columns import (
    UNKNOWN,
    Booleans,
    Columns,
    Int8s,
    Int16s,
    Int32s,
    Int64s,
)
from loopcore.batch.interning import USAGE_FIELDS
from loopcore.batch.stop_times import REASONS
from loopcore.control.recovery import STRATEGIES
from loopcore.worlds.playing import (
    INPUT_FIRST,
    INPUT_PRICE,
    INPUT_TURN,
    OUTPUT_PRICE,
    RECOVERY_COSTS,
)

Column: TypeAlias = "Booleans | Int8s | Int16s | Int32s"

_COMPLETED = REASONS.index("completed")
_STATE_NEVER = -2


@dataclass(frozen=True, slots=True, kw_only=True)
class Recovered:
    """What became of each run under level E; arrays (runs,) in the order of the columns.

    Fields:
        turn: the last executed one. reason: index into REASONS. verified: ended truly done.
        rejected: refused finishes. caught_turn: of the first detection at or after the onset, 0
            for none. model_calls … latency_ms: sums. cost_after_onset: from the onset on.
        recoveries, won, unneeded: as in `Played`.
    """

    turn: Int32s
    reason: Int8s
    verified: Booleans
    rejected: Int32s
    caught_turn: Int32s
    model_calls: Int64s
    tool_calls: Int64s
    input_tokens: Int64s
    output_tokens: Int64s
    cost_microunits: Int64s
    latency_ms: Int64s
    cost_after_onset: Int64s
    recoveries: Int32s
    won: Int32s
    unneeded: Int32s


def typed(values: Mapping[str, Int64s]) -> Recovered:
    """Return outcomes whose fields have these values."""
    return Recovered(
        turn=values["turn"].astype(np.int32),
        reason=values["reason"].astype(np.int8),
        verified=values["verified"].astype(np.bool_),
        rejected=values["rejected"].astype(np.int32),
        caught_turn=values["caught_turn"].astype(np.int32),
        cost_after_onset=values["cost_after_onset"],
        recoveries=values["recoveries"].astype(np.int32),
        won=values["won"].astype(np.int32),
        unneeded=values["unneeded"].astype(np.int32),
        **{name: values[name] for name in USAGE_FIELDS},
    )


def with_arrays(columns: Columns, arrays: Mapping[str, Column], lengths: Int32s) -> Columns:
    """Return columns with other arrays and lengths."""
    return replace(columns, lengths=lengths.astype(np.int32), **arrays)  # type: ignore[arg-type]


def finish_states(columns: Columns, verified_turn: Int32s) -> Int64s:
    """Return the state at each run's verified finish, and one that never is where it has none."""
    state = columns.state[np.maximum(verified_turn - 1, 0), np.arange(columns.runs)]
    return np.where((verified_turn > 0) & (state != UNKNOWN), state, _STATE_NEVER).astype(np.int64)


def recovery_turns(strategy: Int64s, turn: Int32s, since: Int64s) -> dict[str, Int64s]:
    """Return, by column, the turns that recoveries take.

    Arguments:
        strategy: index into STRATEGIES. turn: of the recovery. since: where its context begins.
    """
    costs = [RECOVERY_COSTS[name] for name in STRATEGIES]
    model = np.array([cost.model_calls for cost in costs], np.int64)[strategy]
    output = np.array([cost.output_tokens for cost in costs], np.int64)[strategy]
    tokens = (INPUT_FIRST + INPUT_TURN * (turn - since)) * model
    unknown, nothing = np.full_like(strategy, UNKNOWN), np.zeros_like(strategy)
    return {
        **dict.fromkeys(("tool", "action", "result", "state", "error", "verified"), unknown),
        **dict.fromkeys(("progress", "claims", "tool_calls"), nothing),
        "model_calls": model,
        "input_tokens": tokens,
        "output_tokens": output,
        "cost_microunits": tokens * INPUT_PRICE + output * OUTPUT_PRICE,
        "latency_ms": np.array([cost.latency_ms for cost in costs], np.int64)[strategy],
    }


def sums(
    columns: Columns, turn: Int32s, reason: Int8s, onset: Int32s, final: Int64s
) -> dict[str, Int64s]:
    """Return what runs come to that end at a turn for a reason, by field of `Recovered`."""
    runs = np.arange(columns.runs)
    rows = np.arange(1, columns.turns + 1)[:, None]
    executed = rows <= turn[None, :]
    after = executed & (onset > 0)[None, :] & (rows >= onset[None, :])
    last = np.maximum(turn - 1, 0)
    answer, state = columns.verified[last, runs], columns.state[last, runs]
    true = (answer == 1) | ((answer == UNKNOWN) & (state == final))
    refused = executed & columns.claims & (columns.verified == 0)
    found: dict[str, Int64s] = {
        "turn": turn.astype(np.int64),
        "reason": reason.astype(np.int64),
        "verified": ((reason == _COMPLETED) & true).astype(np.int64),
        "rejected": refused.sum(axis=0, dtype=np.int64),
        "cost_after_onset": np.where(after, columns.cost_microunits, 0).sum(axis=0, dtype=np.int64),
    }
    for name, array in columns.arrays():
        if name in USAGE_FIELDS:
            found[name] = np.where(executed, array, 0).sum(axis=0, dtype=np.int64)
    return found
