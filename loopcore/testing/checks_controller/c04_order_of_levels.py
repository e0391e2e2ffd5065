"""C04: without recovery, B stops no later than A, and C and D no later than B."""

from __future__ import annotations

from hypothesis import strategies as st
from hypothesis.strategies import DrawFn

from loopcore.control.limits import decode_limits
from loopcore.control.wire import decode_observation
from loopcore.testing.checks_controller.generating import (
    ALL_OFF,
    drawn_limits,
    drawn_runs,
    in_turns,
    new_call,
)
from loopcore.testing.checks_controller.playing import (
    BUDGETS,
    COMPLETED,
    GATE,
    Fields,
    limits_for,
    play,
    run_of,
    stop_in,
    told,
    turn_of,
)
from loopcore.testing.contract import Case, Judgement
from loopcore.testing.controller_contract import (
    ControllerProperty,
    ControllerTarget,
    is_level,
    is_repetition_guard,
    step_cap,
)
from loopcore.testing.naive_controllers import NaiveController

_REFUSED: Fields = {"claims_done": True, "verified": False}


@st.composite
def _cases(draw: DrawFn) -> Case:
    """Draw limits and a run; most horizons are within reach, so that A stops as well."""
    limits, run = draw(drawn_limits()), draw(drawn_runs())
    # Only where the earlier level stops is there anything to see.
    reached = st.integers(1, turn_of(run[-1]))
    horizon = draw(st.none() | reached | reached)
    changes: Fields = {} if horizon is None else {"horizon": horizon}
    if horizon is not None and draw(st.booleans()):
        # A refused finish stands where a bound is reached, and must not hide it.
        claim: Fields = {"turn": horizon, "action": 1, **_REFUSED}
        others = [seen for seen in run if turn_of(seen) != horizon]
        run = sorted([*others, claim], key=turn_of)
    return {"limits": {**limits, **changes}, "run": run}


def _judge(target: ControllerTarget, case: Case) -> Judgement:
    # Only without recovery are levels ordered, so none is allowed.
    limits = {**limits_for(target, case["limits"]), "max_recoveries": 0}
    run = run_of(case)
    level = "A" if is_level(target, "B") else "B"
    naive = NaiveController(level)
    naive.start(decode_limits(limits))
    latest = stop_in(run, [naive.observe(decode_observation(seen)) for seen in run])
    answers = play(target, limits, run)
    recovers = any(said.decision == "recover" for said in answers)
    if latest is None or recovers:
        return Judgement(vacuous=True)
    stop = stop_in(run, answers)
    if stop is None or stop.turn > latest.turn:
        finding = (
            f"level {level} stops in turn {latest.turn} by {latest.reason}, and this controller "
            + ("never" if stop is None else f"in turn {stop.turn}")
        )
        return Judgement(finding=finding, expected=told(latest), got=told(stop))
    return Judgement(labels=(f"{level} stops:{latest.reason}",))


def _applies(target: ControllerTarget) -> str | None:
    if is_level(target, "A"):
        return "level A is the last to stop: there is no level that it must not outlast"
    if is_repetition_guard(target) or step_cap(target) is not None:
        return f"{target.name} is none of the levels that are ordered"
    return None


def _goals(target: ControllerTarget) -> frozenset[str]:
    if is_level(target, "B"):
        return frozenset({"A stops:completed", "A stops:step_budget_exhausted"})
    reasons = [COMPLETED, *BUDGETS, *GATE, *(["no_progress"] if "call" in target.needs else [])]
    return frozenset(f"B stops:{reason}" for reason in reasons)


def _example(steps: list[Fields], **limits: object) -> Case:
    return {"limits": {**ALL_OFF, **limits}, "run": in_turns(steps)}


def _spending(name: str, bound: str) -> Case:
    steps = [{**new_call(turn), "usage": {name: 2}} for turn in range(1, 5)]
    return _example(steps, **{bound: 4})


_CALLS = [new_call(turn) for turn in range(1, 7)]
_PENDING: Fields = {"claims_done": True}
_USES = (
    "latency_ms",
    "model_calls",
    "tool_calls",
    "cost_microunits",
    "input_tokens",
    "output_tokens",
)
PROPERTY = ControllerProperty(
    id="C04",
    name="order-of-levels",
    statement=(
        "Where no recovery is tried, level B stops no later than level A, and every other "
        "controller with a step bound no later than level B."
    ),
    prevents=(
        "A cleverer controller is adopted and lets runs go on that the plain budgets, the verifier "
        "or the bound on waits had stopped."
    ),
    mutants=(
        "detectors-waits-late",
        "gates-refusals-never-stop",
        "gates-pending-stops-late",
    ),
    cases=_cases,
    judge=_judge,
    examples=(
        _example(_CALLS, max_steps=3),
        _example(_CALLS, horizon=3),
        _example([*_CALLS[:2], {**_REFUSED, "verified": True}, *_CALLS[2:]]),
        *(_spending(name, f"max_{name}") for name in _USES),
        _example([_REFUSED] * 4, max_refusals=1),
        # A refused finish in the very turn in which the steps are used up.
        _example([*_CALLS[:2], _REFUSED, *_CALLS[3:]], max_steps=3),
        _example([_PENDING] * 4, error_streak=2),
        _example(
            [{"tool": "poll", "result": {"at": turn}} for turn in range(5)],
            max_waits=3,
            tools={"poll": {"wait": True}},
        ),
    ),
    goals=_goals,
    applies=_applies,
)
