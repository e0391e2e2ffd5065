"""What a level remembers is bounded by its limits: a hundred times the turns add no byte to it.

Killers: a history of calls without a bound, a set of actions that a new turn does not clear, a
dictionary of counts by action.
"""

from __future__ import annotations

import pickle

import pytest

from loopcore.control.decisions import Decision
from loopcore.control.levels import LEVELS, controller
from loopcore.control.limits import Limits, ToolPolicy
from loopcore.control.observations import Observation, Usage

SHORT_TURNS = 1_000
LONG_TURNS = 100_000
# Counters have more digits after a longer run; anything else that grows would be far more.
COUNTERS_BYTES = 120

LIMITS = Limits(
    max_steps=None,
    horizon=None,
    max_model_calls=10**9,
    repeat=None,
    window=None,
    error_streak=None,
    cycle_max=6,
    cycle_repeats=1_000_000_000,
    max_waits=None,
    max_refusals=None,
    tools={"poll": ToolPolicy(wait=True)},
)


def turn(number: int) -> list[Observation]:
    """Return a turn in which every input that a level remembers something of is new."""
    digest = f"{number:064d}"
    call = Observation(
        turn=number,
        action=1,
        tool=f"tool{number}",
        action_fingerprint=digest,
        result_fingerprint=digest,
        state_fingerprint=digest,
        error_class=f"error{number}",
        progress=0,
        claims_done=number % 2 == 0,
        verified=False if number % 4 == 0 else None,
        usage=Usage(model_calls=1),
    )
    poll = Observation(turn=number, action=2, tool="poll", progress=0)
    return [call, poll]


@pytest.mark.parametrize("level", sorted(LEVELS))
def test_the_state_of_a_level_does_not_grow_with_the_run(level: str) -> None:
    ours = controller(level)
    ours.start(LIMITS)
    sizes: dict[int, int] = {}
    answers: set[Decision] = set()
    for number in range(1, LONG_TURNS + 1):
        answers |= {ours.observe(seen) for seen in turn(number)}
        if number in (SHORT_TURNS, LONG_TURNS):
            sizes[number] = len(pickle.dumps(ours))
    # A level that had stopped would remember nothing more, and the test would show nothing.
    assert "stop" not in {answer.decision for answer in answers}
    assert sizes[LONG_TURNS] <= sizes[SHORT_TURNS] + COUNTERS_BYTES
