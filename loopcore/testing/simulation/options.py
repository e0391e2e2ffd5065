"""What is drawn before a simulated run begins: tools, budgets, rules, and which faults happen.

Theory of operation: every fault has a rate, and for each run about half of the rates are zero. Runs
in which everything fails at once hide what few faults do together, so each run has its own mixture.
All of it is one frozen value, which is printed when a run is replayed.

Source: spec runtime, section 9.
"""

from __future__ import annotations

from typing import Literal

import msgspec

from loopcore.models import Policy
from loopcore.runtime.amounts import Amounts
from loopcore.runtime.envelope import Envelope, Grant, Rules, ScopeUse, ToolRule, sealed
from loopcore.runtime.policies import run_policy
from loopcore.runtime.scopes import Scope
from loopcore.terminals import EXTENDED
from loopcore.testing.simulation.draws import Draws

START_MS = 1_000_000
# Of a call or an answer; of a question or an abort; of an append; of a tick.
RATES = (0.0, 0.0, 0.0, 0.1, 0.3)
QUESTION_RATES = (0.0, 0.0, 0.3, 0.6)
APPEND_RATES = (0.0, 0.0, 0.02, 0.1)
TICK_RATES = (0.0, 0.0, 0.01, 0.05)
_OF_TICKS = ("crash", "clock_jump", "intruder")
_CANCEL_RATES = (0.0, 0.0, 0.003, 0.02)
SCOPE_ID = "thread-1"
CHILD_TOOL = "child"


class ToolCase(msgspec.Struct, frozen=True, kw_only=True):
    """One tool, and what the system behind it does.

    Fields:
        enforces_keys: a second arrival under one key has no second effect.
        fences: a key can be refused for good.
        probes: it can be asked whether an effect happened, which proves nothing of its absence.
    """

    rule: ToolRule
    enforces_keys: bool
    fences: bool
    probes: bool


class Faults(msgspec.Struct, frozen=True, kw_only=True):
    """How often each fault happens, as a share of its opportunities.

    Fields:
        append_lost: not made and not answered. append_unanswered: made and not answered.
        request_late: the call arrives long after its caller stopped waiting; request_lost: never.
        request_twice: the network repeats it, where keys are enforced.
        no_answer: the caller waits until its deadline. deaf: an abort has no effect.
        careless: a reconciler says "no effect" without a fence, or with one for another key.
        intruder: an append with an old epoch on the present head, or with an old head.
    """

    crash: float
    append_lost: float
    append_unanswered: float
    response_late: float
    response_twice: float
    request_late: float
    request_lost: float
    request_twice: float
    no_answer: float
    deaf: float
    clock_jump: float
    cancel: float
    silent: float
    careless: float
    unsure: float
    intruder: float


NO_FAULTS = Faults(**dict.fromkeys(Faults.__struct_fields__, 0.0))


class Planning(msgspec.Struct, frozen=True, kw_only=True):
    """What the planner, who is not trusted, tends to propose."""

    batch_max: int
    finishes: float
    gives_up: float
    asks: float
    strange: float
    repeats: float
    variety: int


class Options(msgspec.Struct, frozen=True, kw_only=True):
    """Everything that was drawn before the run began.

    Fields:
        faulty_ticks: after so many moves no more faults happen, and the run has to end.
        grain: how often a worker goes on without anybody in between.
        reconciles: how often a worker has somebody to ask about effects.
        afterwards: what is tried once the run has its terminal.
    """

    seed: int
    workers_max: int
    faulty_ticks: int
    grain: float
    reconciles: float
    renews: bool
    skew_ms: int
    faults: Faults
    planning: Planning
    tools: tuple[ToolCase, ...]
    policy: Policy
    envelope: Envelope
    scope: Scope | None
    rival: bool
    afterwards: Literal["nothing", "reconcile", "resume", "both"]


def drawn(seed: int) -> tuple[Options, Draws]:
    """Return the options of a seed, and the generator that goes on behind them."""
    draws = Draws(seed)
    rules = _rules(draws)
    tools = _tools(draws)
    scope = _scope(draws) if draws.chance(0.15) else None
    envelope = Envelope(
        clients=("client",),
        tools=tuple(case.rule for case in tools),
        grants=tuple(
            Grant(tool=case.rule.name, maximum={"n": 4} if draws.chance(0.2) else {})
            for case in tools
        ),
        rules=rules,
        scopes=() if scope is None else (ScopeUse(scope_id=SCOPE_ID, kind="thread"),),
    )
    options = Options(
        seed=seed,
        workers_max=draws.pick((1, 2, 2, 3)),
        faulty_ticks=draws.pick((20, 60, 120, 240)),
        grain=draws.pick((0.0, 0.5, 0.9)),
        reconciles=draws.pick((0.0, 0.7, 1.0, 1.0)),
        renews=draws.chance(0.5),
        skew_ms=draws.pick((0, 0, 0, 20, -20)),
        faults=_faults(draws),
        planning=_planning(draws),
        tools=tools,
        policy=sealed(_policy(draws), envelope),
        envelope=envelope,
        scope=scope,
        rival=scope is not None and draws.chance(0.7),
        afterwards=draws.pick(("nothing", "reconcile", "resume", "both")),
    )
    return options, draws


def _rules(draws: Draws) -> Rules:
    return Rules(
        batch=draws.pick(("partial", "partial", "whole")),
        planning=draws.pick(("after_all", "after_each")),
        parallel_max=draws.pick((1, 2, 4)),
        refusals_max=draws.pick((0, 2, 6)),
        finish_refusals_max=draws.pick((0, 2)),
        verifier_faults_max=draws.pick((0, 2)),
        retries_max=draws.pick((0, 3, 6)),
        reconciliations_max=draws.pick((0, 1, 3)),
        reconcile_after_ms=draws.pick((0, 10)),
        shutdown_ms=draws.pick((0, 20, 200)),
        lease_ms=draws.pick((30, 100, 1_000)),
        clock_jump_ms_max=draws.pick((50, 1_000)),
        children_max=2,
        child_margin_ms=draws.pick((0, 20)),
    )


def _tools(draws: Draws) -> tuple[ToolCase, ...]:
    def pay(name: str) -> ToolCase:
        fences = draws.chance(0.6)
        return ToolCase(
            rule=ToolRule(
                name=name,
                effect=draws.pick(("unsafe", "unsafe", "idempotent")),
                cost_microunits_max=draws.pick((0, 5)),
                parameters=draws.pick((None, ("n",))),
                timeout_ms=draws.pick((None, 40, 120)),
                lifetime_ms=draws.pick((None, None, 60)),
            ),
            enforces_keys=draws.chance(0.5),
            fences=fences,
            probes=draws.chance(0.7),
        )

    look = ToolRule(name="look", effect="none", cost_microunits_max=1, timeout_ms=80)
    model = ToolRule(
        name="model",
        kind="model_generation",
        effect="none",
        cost_microunits_max=3,
        input_tokens_max=10,
        output_tokens_max=5,
    )
    tools = [pay("pay"), pay("post")]
    for rule in (look, model):
        if draws.chance(0.6):
            case = ToolCase(rule=rule, enforces_keys=False, fences=False, probes=False)
            tools.append(case)
    if draws.chance(0.15):
        rule = ToolRule(name=CHILD_TOOL, child=True)
        tools.append(ToolCase(rule=rule, enforces_keys=False, fences=False, probes=False))
    return tuple(tools)


def _policy(draws: Draws) -> Policy:
    cycle = draws.pick((None, 3))
    return run_policy(
        "simulated",
        started_at_unix_ms=START_MS,
        duration_ms=draws.pick((150, 600, 3_000)),
        release=EXTENDED,
        max_steps=draws.pick((2, 6, 12)),
        max_tool_calls=draws.pick((1, 5, 12)),
        max_model_calls=draws.pick((0, 3, 12)),
        max_cost_microunits=draws.pick((6, 20, 100)),
        max_input_tokens=draws.pick((None, 25)),
        max_output_tokens=draws.pick((None, 12)),
        max_consecutive_no_progress=draws.pick((2, 6, 12)),
        max_consecutive_repeated_actions=draws.pick((2, 4)),
        max_cycle_length=cycle,
        cycle_repeats=None if cycle is None else 2,
    )


def _scope(draws: Draws) -> Scope:
    return Scope(
        scope_id=SCOPE_ID,
        kind="thread",
        tool_calls=draws.pick((None, 3, 6)),
        cost_microunits=draws.pick((8, 30)),
    )


def _faults(draws: Draws) -> Faults:
    if draws.chance(0.05):
        return NO_FAULTS
    rates: dict[str, tuple[float, ...]] = dict.fromkeys(Faults.__struct_fields__, RATES)
    rates |= dict.fromkeys(("append_lost", "append_unanswered"), APPEND_RATES)
    rates |= dict.fromkeys(("deaf", "silent", "careless", "unsure"), QUESTION_RATES)
    rates |= dict.fromkeys(_OF_TICKS, TICK_RATES)
    rates["cancel"] = _CANCEL_RATES
    return Faults(**{name: draws.pick(choices) for name, choices in rates.items()})


def _planning(draws: Draws) -> Planning:
    return Planning(
        batch_max=draws.pick((1, 2, 4)),
        finishes=draws.pick((0.02, 0.15)),
        gives_up=draws.pick((0.0, 0.05)),
        asks=draws.pick((0.0, 0.03)),
        strange=draws.pick((0.0, 0.1)),
        repeats=draws.pick((0.0, 0.3)),
        variety=draws.pick((1, 3, 6)),
    )


def without_children(tools: tuple[ToolCase, ...]) -> tuple[ToolCase, ...]:
    """Return the tools that a child run has: all but more children."""
    return tuple(case for case in tools if not case.rule.child)


def carve(draws: Draws) -> Amounts:
    """Return what a planner wants a child run to have."""
    return Amounts(
        steps=draws.pick((0, 1, 3)),
        model_calls=draws.pick((0, 1)),
        tool_calls=draws.pick((1, 2)),
        cost_microunits=draws.pick((0, 6)),
        input_tokens=draws.pick((0, 10)),
        output_tokens=draws.pick((0, 5)),
    )
