"""Building blocks of the cases: limits that are off, calls that are all new, drawn runs as JSON.

Theory of operation: a property that asks about one row must not meet the others, so its limits
begin with everything off and it turns on what it needs. Drawn runs and limits are those in which
rows really fire (`loopcore.testing.control_strategies`).
"""

from __future__ import annotations

from collections.abc import Sequence

from hypothesis import strategies as st
from hypothesis.strategies import SearchStrategy

from loopcore.testing.checks_controller.playing import Fields, plain_limits, plain_run
from loopcore.testing.control_strategies import controller_limits, observation_sequences

# Nothing here ends a run, but the gate, to a verified finish.
ALL_OFF: Fields = {
    "gate": "verify",
    "max_steps": None,
    "horizon": None,
    "max_model_calls": None,
    "max_tool_calls": None,
    "max_cost_microunits": None,
    "max_input_tokens": None,
    "max_output_tokens": None,
    "max_latency_ms": None,
    "repeat": None,
    "window": None,
    "error_streak": None,
    "cycle_max": None,
    "max_waits": None,
    "max_refusals": None,
    "tools": {},
}


def drawn_limits() -> SearchStrategy[Fields]:
    """Return limits with small thresholds, as JSON."""
    return controller_limits().map(plain_limits)


def drawn_runs() -> SearchStrategy[list[Fields]]:
    """Return whole runs, as JSON."""
    return observation_sequences().map(plain_run)


def new_call(turn: int, action: int = 1, **fields: object) -> Fields:
    """Return a call that equals no other: its tool, arguments, result and state are new."""
    name = f"{turn}.{action}"
    return {
        "turn": turn,
        "action": action,
        "tool": f"tool {name}",
        "arguments": {"place": name},
        "result": {"seen": name},
        "state_fingerprint": f"state {name}",
        **fields,
    }


def text(turn: int, action: int = 1, **fields: object) -> Fields:
    """Return the observation of a turn that dispatched nothing."""
    return {"turn": turn, "action": action, **fields}


def in_turns(observations: Sequence[Fields]) -> list[Fields]:
    """Return the observations with one turn each, from 1."""
    return [{**seen, "turn": turn, "action": 1} for turn, seen in enumerate(observations, start=1)]


def thresholds(least: int, most: int) -> SearchStrategy[int]:
    """Return small thresholds."""
    return st.integers(least, most)
