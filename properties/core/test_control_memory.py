"""What a level remembers is bounded by its limits: a thousand times the turns add no byte to it.

Killers: a history of calls without a bound, a set of actions that a new turn does not clear, a
dictionary of counts by action, a list of all recoveries.
"""

from __future__ import annotations

import pickle

import msgspec
import pytest

from loopcore.control.decisions import Controller
from loopcore.control.levels import LEVELS, controller
from loopcore.control.limits import Limits, ToolPolicy
from loopcore.control.observations import Observation, Usage

# The turns after which the state is measured.
MARKS = (100, 1_000, 100_000)
# A turn in which level E recovers makes all its detectors anew, which takes longer than any other.
RECOVERING_MARKS = (100, 1_000, 10_000)
POLL_EVERY = 10
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
    return [call, poll] if number % POLL_EVERY == 0 else [call]


# Level E remembers everything that the others do.
@pytest.mark.parametrize(
    "level",
    [pytest.param(one, marks=[] if one == "E" else pytest.mark.slow) for one in sorted(LEVELS)],
)
def test_the_state_of_a_level_does_not_grow_with_the_run(level: str) -> None:
    ours = controller(level)
    ours.start(LIMITS)
    assert grown(ours, MARKS) <= COUNTERS_BYTES


def test_the_state_of_level_e_does_not_grow_with_its_recoveries() -> None:
    ours = controller("E")
    limits = msgspec.structs.replace(
        LIMITS,
        window=1,
        max_replans=None,
        max_tool_retries=None,
        max_critiques=None,
        max_recoveries=None,
    )
    ours.start(limits)
    assert ours.observe(turn(1)[0]).decision == "recover"
    ours.start(limits)
    assert grown(ours, RECOVERING_MARKS) <= COUNTERS_BYTES


def grown(ours: Controller, marks: tuple[int, ...]) -> int:
    """Return how many bytes larger the state is at any later mark than at the first."""
    sizes: list[int] = []
    kinds: set[str] = set()
    for number in range(1, marks[-1] + 1):
        for seen in turn(number):
            kinds.add(ours.observe(seen).decision)
        if number in marks:
            sizes.append(len(pickle.dumps(ours)))
    # A level that had stopped would remember nothing more, and the test would show nothing.
    assert "stop" not in kinds
    return max(sizes) - sizes[0]
