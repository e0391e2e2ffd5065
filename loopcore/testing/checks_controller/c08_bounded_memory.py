"""C08: the memory of a controller does not grow with the run."""

from __future__ import annotations

from itertools import pairwise
from typing import cast

from hypothesis import strategies as st
from hypothesis.strategies import DrawFn

from loopcore.testing.checks_controller.generating import ALL_OFF
from loopcore.testing.checks_controller.playing import Fields, go_on, limits_for
from loopcore.testing.contract import Case, Json, Judgement
from loopcore.testing.controller_contract import ControllerProperty, ControllerTarget

# Turns at which memory is read; what still grows in each part is not the warming up of anything.
_SHORT = (60, 120, 180, 240)
_LONG = (1_000, 6_000, 11_000, 16_000, 20_000)
# Where every byte is counted, which is slow, less is enough.
_LONG_COUNTED = (500, 1_500, 2_500, 4_000)
_COUNTED_NOISE_BYTES_MAX = 2**12
# One case in so many is long. Small things that pile up are seen in a child process only there.
_LONG_EVERY = 200
# The one of those draws, not at either end, which are drawn more often than the others.
_LONG_DRAW = 67
_BULK = (16, 256, 4_096)
# What else may be new in each turn, besides tool, arguments and result.
_OPTIONAL = ("state_fingerprint", "error_class")
_PROBE_TURNS = 200
_WAIT_EVERY = 10
_LIMITS: Fields = {
    **ALL_OFF,
    # Detectors are on, so that they remember, and can never fire on what is always new.
    "repeat": 3,
    "cycle_max": 6,
    "cycle_repeats": 3,
    "max_model_calls": 10**9,
    "tools": {"wait": {"wait": True}},
}


@st.composite
def _cases(draw: DrawFn) -> Case:
    """Draw what is new in each turn of a run, and how large it is."""
    return {
        "new": sorted(draw(st.sets(st.sampled_from(_OPTIONAL)))),
        "bytes": draw(st.sampled_from(_BULK)),
        "claims": draw(st.sampled_from((None, "refused", "pending"))),
        "progress": draw(st.sampled_from((None, 0, 1))),
        "step": draw(st.integers(1, 40)),
        "waits": draw(st.booleans()),
        "long": draw(st.integers(1, _LONG_EVERY)) == _LONG_DRAW,
    }


def _turn(case: Case, number: int) -> list[Fields]:
    """Return the observations of one turn."""
    new = cast("list[str]", case["new"])
    filling = "x" * cast("int", case["bytes"])
    seen: Fields = {
        "turn": number * cast("int", case["step"]),
        "action": 1,
        "tool": f"tool {number}",
        "arguments": {"place": number, "text": filling},
        "result": f"{number} {filling}",
        "usage": {"model_calls": 1},
        **{name: f"{name} {number}" for name in new},
    }
    if case["progress"] is not None:
        seen["progress"] = case["progress"]
    if case["claims"] is not None:
        seen["claims_done"] = True
        seen["verified"] = False if case["claims"] == "refused" else None
    wait: Fields = {"turn": seen["turn"], "action": 2, "tool": "wait"}
    return [seen, wait] if case["waits"] is True and number % _WAIT_EVERY == 0 else [seen]


def _judge(target: ControllerTarget, case: Case) -> Judgement:
    limits = limits_for(target, _LIMITS)
    counted = target.memory_noise_bytes <= _COUNTED_NOISE_BYTES_MAX
    marks = (_LONG_COUNTED if counted else _LONG) if case["long"] is True else _SHORT
    held: list[int] = []
    target.start(cast("Json", limits))
    number = 0
    try:
        for mark in marks:
            while number < mark:
                number += 1
                go_on(target, _turn(case, number))
            now = target.memory()
            assert now is not None
            held.append(now)
    finally:
        target.release_memory_meter()
    growth = [later - earlier for earlier, later in pairwise(held)]
    if all(grown > target.memory_noise_bytes for grown in growth):
        finding = (
            f"memory grew in every part between turns {', '.join(map(str, marks))}, by "
            f"{sum(growth):,} bytes in all"
        )
        expected = f"at most {target.memory_noise_bytes} bytes in some part"
        return Judgement(finding=finding, expected=expected, got=growth)
    return Judgement(labels=("run:long" if case["long"] is True else "run:short",))


def _applies(target: ControllerTarget) -> str | None:
    case = _example()
    target.start(cast("Json", limits_for(target, _LIMITS)))
    for number in range(1, _PROBE_TURNS + 1):
        if any(said.decision == "stop" for said in go_on(target, _turn(case, number))):
            return f"it ends every run, here in turn {number}, so that no run is long"
    known = target.memory() is not None
    target.release_memory_meter()
    return None if known else "the memory of a process cannot be read on this machine"


def _example(**changes: object) -> Case:
    case: Case = {
        "new": list(_OPTIONAL),
        "bytes": 16,
        "claims": None,
        "progress": 0,
        "step": 1,
        "waits": False,
        "long": False,
    }
    return {**case, **changes}


PROPERTY = ControllerProperty(
    id="C08",
    name="bounded-memory",
    statement="What a controller holds in memory does not grow with the length of the run.",
    prevents=(
        "A guard beside a long-running agent remembers every call and result, and the agent dies "
        "of its guard after a week."
    ),
    mutants=(
        "detectors-cycle-history-unbounded",
        "detectors-error-classes-kept",
        "levels-turn-actions-kept",
    ),
    judges_stops=False,
    cases=_cases,
    judge=_judge,
    examples=(
        _example(),
        _example(bytes=4_096, claims="refused", waits=True),
        _example(long=True),
    ),
    goals=lambda target: frozenset({"run:short", "run:long"}),
    applies=_applies,
)
