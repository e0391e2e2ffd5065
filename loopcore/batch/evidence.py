"""Which evidence is fresh, in many traces at once: first seen in this step and in none before.

Theory of operation: a table holds, for every digest of every trace, the last step that named it. A
step's entries are taken place by place; in one place no trace stands twice, so a place is one
gathering read of the table and one scattering write. An entry is fresh when the table has no step
for it, and stands twice in its step when the table has this very step.

Source: spec evaluator, sections 2 and 3.
"""

from __future__ import annotations

from dataclasses import dataclass
from itertools import pairwise
from typing import TypeAlias

import numpy as np

from loopcore.batch.columns import Booleans, Int8s, Int16s, Int32s
from loopcore.batch.state import SHORT_TURNS_MAX
from loopcore.batch.traces import TraceColumns

Steps: TypeAlias = "Int16s | Int32s"

# No step has named it.
_UNSEEN = -1


@dataclass(frozen=True, slots=True, kw_only=True)
class Evidence:
    """What the evidence of each step is worth, each array of shape (steps, traces).

    Fields:
        fresh: how many digests are fresh. duplicate: a digest stands twice.
        proven: the completion receipt is named and fresh evidence of this very step.
    """

    fresh: Int8s
    duplicate: Booleans
    proven: Booleans


def evidence_of(traces: TraceColumns) -> Evidence:
    """Return the worth of all evidence, linear in its entries.

    Memory: 2 or 4 bytes for every trace and every number of a digest, besides the result.
    """
    shape = (traces.steps, traces.traces)
    made = Evidence(
        fresh=np.zeros(shape, np.int8),
        duplicate=np.zeros(shape, np.bool_),
        proven=np.zeros(shape, np.bool_),
    )
    numbers = int(traces.evidence.max(initial=-1)) + 1
    last_step: Steps = _unseen(numbers * traces.traces, traces.steps)
    for step in range(traces.steps):
        named = np.flatnonzero(traces.proof[step] >= 0)
        proof = traces.proof[step, named].astype(np.int64) * traces.traces + named
        unseen = last_step[proof] == _UNSEEN
        for place, (first, last) in enumerate(pairwise(traces.evidence_starts[step].tolist())):
            if first == last:
                break
            trace = traces.evidence_trace[first:last]
            entry = traces.evidence[first:last].astype(np.int64)
            entry *= traces.traces
            entry += trace
            seen = last_step[entry]
            if place == 0:
                # Nothing of this step was seen before it.
                made.fresh[step, trace] = seen == _UNSEEN
            else:
                made.fresh[step, trace] += seen == _UNSEEN
                made.duplicate[step, trace] |= seen == step
            last_step[entry] = step
        made.proven[step, named] = unseen & (last_step[proof] == step)
    return made


def _unseen(places: int, steps: int) -> Steps:
    """Return a table that can hold every step, and holds none."""
    if steps <= SHORT_TURNS_MAX:
        return np.full(places, _UNSEEN, np.int16)
    return np.full(places, _UNSEEN, np.int32)
