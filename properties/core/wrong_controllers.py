"""Wrong controllers: level D (or C, E) with one fault each, and the property that must find it."""

from __future__ import annotations

import gc
import tracemalloc
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from typing import Literal, TypeAlias

import msgspec

from loopcore.control.decisions import Controller, Decision
from loopcore.control.levels import LEVELS, controller
from loopcore.control.limits import Limits, decode_limits
from loopcore.control.observations import Observation
from loopcore.control.wire import decode_observation
from loopcore.testing.contract import Json
from loopcore.testing.controller_contract import ControllerTarget

Tampering: TypeAlias = "Callable[[WrongController, Observation, Decision], Decision]"
DETECTIONS = ("repeated_action", "tool_failure", "nonproductive_cycle", "no_progress")


@dataclass(slots=True, kw_only=True)
class WrongController:
    """A level whose limits, observations or decisions something tampers with.

    `memory_of_runs` is for faults that remember; a fresh process does not have it.
    """

    fault: str
    killer: str
    level: str = "D"
    name: str = "own"
    limits: Callable[[Limits], Limits] = lambda limits: limits
    observation: Callable[[Observation], Observation] = lambda seen: seen
    decision: Tampering = lambda wrong, seen, said: said
    version: str = "0"
    releases: tuple[str, ...] = ()
    wire: Literal["bytes", "values"] = "bytes"
    decides: Literal["before", "after"] = "after"
    effect: Literal["stop", "warn"] = "stop"
    memory_noise_bytes: int = 2**11
    memory_of_runs: list[object] = field(default_factory=list[object])
    recovered: int = 0
    ours: Controller = field(init=False)
    needs: frozenset[str] = field(init=False)
    given: Limits = field(default_factory=Limits)

    def __post_init__(self) -> None:
        self.ours = controller(self.level)
        self.needs = frozenset(LEVELS[self.level].needs)

    def start(self, limits: Json) -> None:
        """Begin a new run."""
        self.given = self.limits(decode_limits(limits))
        self.recovered = 0
        self.ours.start(self.given)

    def propose(self, call: Json) -> Decision:
        """Refuse nothing."""
        del call
        return Decision(decision="continue")

    def observe(self, observation: Json | bytes) -> Decision:
        """Return the decision, tampered with."""
        if isinstance(observation, bytes):
            from loopcore.control.json_text import parse_json

            seen = decode_observation(parse_json(observation.decode()))
        else:
            seen = decode_observation(observation)
        return self.decision(self, seen, self.ours.observe(self.observation(seen)))

    def memory(self) -> int | None:
        """Return what this process has allocated."""
        if not tracemalloc.is_tracing():
            tracemalloc.start()
        gc.collect(1)
        return tracemalloc.get_traced_memory()[0]

    def release_memory_meter(self) -> None:
        """Stop counting."""
        tracemalloc.stop()

    def fresh(self) -> ControllerTarget:
        """Return the same controller without the memory of this process."""
        return replace(self, memory_of_runs=[])

    def close(self) -> None:
        """Do nothing."""


def _later_steps(limits: Limits) -> Limits:
    steps = limits.max_steps
    return msgspec.structs.replace(
        limits, max_steps=None if steps is None else steps + 1, horizon=limits.horizon_turns()
    )


def _without(**changes: object) -> Callable[[Limits], Limits]:
    return lambda limits: msgspec.structs.replace(limits, **changes)


def _own_waits_forgotten(limits: Limits) -> Limits:
    tools = {
        name: msgspec.structs.replace(policy, max_waits=10**6)
        for name, policy in limits.tools.items()
    }
    return msgspec.structs.replace(limits, tools=tools)


def _blind(seen: Observation) -> Observation:
    good = seen.progress is not None and seen.progress > 0
    return msgspec.structs.replace(seen, progress=0) if good else seen


def _as_written(seen: Observation) -> Observation:
    return msgspec.structs.replace(
        seen, action_fingerprint=repr(seen.arguments), result_fingerprint=repr(seen.result)
    )


def _finish_accepted(wrong: WrongController, seen: Observation, said: Decision) -> Decision:
    del wrong, seen
    rejected = said.decision == "reject_finish"
    return Decision(decision="stop", reason="completed") if rejected else said


def _finish_ends(wrong: WrongController, seen: Observation, said: Decision) -> Decision:
    del wrong, seen
    rejected = said.decision == "reject_finish"
    return Decision(decision="stop", reason="invalid_completion") if rejected else said


def _recovers(most: Callable[[Limits], int | None]) -> Tampering:
    """Return a fault that turns detections into replanning, up to a bound (None: without end)."""

    def decide(wrong: WrongController, seen: Observation, said: Decision) -> Decision:
        bound = most(wrong.given)
        if said.reason not in DETECTIONS or (bound is not None and wrong.recovered >= bound):
            return said
        wrong.recovered += 1
        # The level would only repeat its stop in every later turn.
        wrong.ours.start(wrong.given)
        return Decision(decision="recover", reason=said.reason, strategy="replan")

    return decide


def _remembers_runs(wrong: WrongController, seen: Observation, said: Decision) -> Decision:
    wrong.memory_of_runs.append(None)
    often = len(wrong.memory_of_runs) % 7 == 0
    return Decision(decision="stop", reason="no_progress") if often else said


def _hoards(wrong: WrongController, seen: Observation, said: Decision) -> Decision:
    wrong.memory_of_runs.append((seen.turn, seen.result))
    return said


def _text_resets(wrong: WrongController, seen: Observation, said: Decision) -> Decision:
    if seen.tool is None and not seen.claims_done:
        wrong.ours.start(wrong.given)
    return said


WRONG: tuple[WrongController, ...] = (
    WrongController(fault="steps one late", killer="C01", limits=_later_steps),
    WrongController(fault="no horizon", killer="C01", limits=_without(horizon=None)),
    WrongController(fault="blind to progress", killer="C02", observation=_blind),
    WrongController(fault="no tool policies", killer="C03", limits=_without(tools={})),
    WrongController(fault="C without policies", killer="C03", level="C", limits=_without(tools={})),
    WrongController(fault="no window", killer="C03", limits=_without(window=None)),
    WrongController(fault="refusals unbounded", killer="C04", limits=_without(max_refusals=None)),
    WrongController(fault="no deadline", killer="C04", limits=_without(max_latency_ms=None)),
    WrongController(fault="waits unbounded", killer="C04", limits=_own_waits_forgotten),
    WrongController(
        fault="B outlasts A", killer="C04", level="B", name="B", limits=_without(horizon=None)
    ),
    WrongController(
        fault="recovers for ever", killer="C05", decision=_recovers(lambda limits: None)
    ),
    WrongController(
        fault="replans up to the total",
        killer="C05",
        decision=_recovers(lambda limits: limits.max_recoveries),
    ),
    *(
        WrongController(
            fault=f"E without {budget}",
            killer="C05",
            level="E",
            name="E",
            limits=_without(**{budget: None}),
        )
        for budget in ("max_replans", "max_tool_retries", "max_critiques", "max_recoveries")
    ),
    WrongController(fault="D that calls itself E", killer="C05", name="E"),
    WrongController(fault="E recovers from gains", killer="C02", level="E", observation=_blind),
    WrongController(fault="word is enough", killer="C06", decision=_finish_accepted),
    WrongController(fault="first refusal ends", killer="C06", decision=_finish_ends),
    WrongController(fault="remembers runs", killer="C07", decision=_remembers_runs),
    WrongController(fault="hoards results", killer="C08", decision=_hoards),
    WrongController(fault="calls as written", killer="C09", observation=_as_written),
    WrongController(fault="C as written", killer="C09", level="C", observation=_as_written),
    WrongController(fault="text resets", killer="C10", decision=_text_resets),
)
# A right one that recovers within its budgets, to which every property but none is applicable.
RECOVERING = WrongController(
    fault="none",
    killer="C05",
    decision=_recovers(lambda limits: min(limits.max_replans or 0, limits.max_recoveries or 0)),
)
