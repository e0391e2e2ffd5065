"""Runs as columns: one row a turn, one column a run, so that a turn of every run is one slice.

Theory of operation: a run of a world has one observation a turn, turns count from 1 without a gap,
and row i holds turn i + 1. What follows a run's end is padding, which no reader may look at;
`lengths` says where it begins. Fingerprints are small integers: equal integers are equal
fingerprints within a run, and say nothing across runs.

Source: spec control, sections 1 and 6.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, fields
from typing import TypeAlias, cast

import numpy as np

# Arrays of some element type; the shape stands in the documentation of each.
Booleans: TypeAlias = "np.ndarray[tuple[int, ...], np.dtype[np.bool_]]"
Int8s: TypeAlias = "np.ndarray[tuple[int, ...], np.dtype[np.int8]]"
Int16s: TypeAlias = "np.ndarray[tuple[int, ...], np.dtype[np.int16]]"
Int32s: TypeAlias = "np.ndarray[tuple[int, ...], np.dtype[np.int32]]"
Int64s: TypeAlias = "np.ndarray[tuple[int, ...], np.dtype[np.int64]]"
Floats: TypeAlias = "np.ndarray[tuple[int, ...], np.dtype[np.float64]]"

# A fingerprint, error class or verifier's answer that is not there; a tool of a turn without one.
UNKNOWN = -1
# A progress that cannot be measured.
PROGRESS_UNKNOWN = -128


@dataclass(frozen=True, slots=True, kw_only=True)
class Columns:
    """Observations of many runs, each array of shape (turns, runs) unless said otherwise.

    Fields:
        tools: names of the tools; `tool` indexes it, UNKNOWN where the turn dispatched nothing.
        errors: names of the error classes; `error` indexes it, UNKNOWN for none.
        lengths: shape (runs,), turns of each run.
        action, result, state: fingerprints as integers from 0, UNKNOWN when not known.
        progress: PROGRESS_UNKNOWN when not measurable; verified: UNKNOWN, 0 or 1.
        model_calls, tool_calls, input_tokens, output_tokens, cost_microunits, latency_ms: usage.
    """

    tools: tuple[str, ...]
    errors: tuple[str, ...]
    lengths: Int32s
    tool: Int16s
    action: Int32s
    result: Int32s
    state: Int32s
    progress: Int8s
    error: Int16s
    claims: Booleans
    verified: Int8s
    model_calls: Int32s
    tool_calls: Int32s
    input_tokens: Int32s
    output_tokens: Int32s
    cost_microunits: Int32s
    latency_ms: Int32s

    @property
    def turns(self) -> int:
        """The number of rows: turns of the longest run that fits."""
        return int(self.tool.shape[0])

    @property
    def runs(self) -> int:
        """The number of columns."""
        return int(self.tool.shape[1])

    def arrays(self) -> Iterator[tuple[str, Booleans | Int8s | Int16s | Int32s]]:
        """Yield the name and the array of every column that has one value a turn."""
        for field in fields(self):
            if field.name not in ("tools", "errors", "lengths"):
                yield field.name, cast("Int32s", getattr(self, field.name))
