"""One symbolic step of the evaluator from any state, beside what the specification demands of it.

Theory of operation: the attributes of a run are unknowns that satisfy an *invariant*; one step is
taken. What is proved of that step holds of every step of every run, because a new run satisfies
the invariant and a step keeps it, which is proved as well.
"""

from __future__ import annotations

from dataclasses import dataclass

from loopcore.testing.naive import precedence
from loopcore.testing.naive_wire import EVIDENCE_MAX, INTEGER_MAX, STEPS_MAX
from loopcore.verification.proofs.execution import Execution
from loopcore.verification.proofs.specification import Demand, demand, state_before
from loopcore.verification.proofs.subject import Subject
from loopcore.verification.proofs.terms import (
    NONE,
    Collection,
    Detector,
    Number,
    Row,
    Script,
    SetReference,
    UnknownShapeError,
    Value,
    between,
    conjunction,
    disjunction,
    equal,
    negation,
)
from loopcore.verification.proofs.translation import Environment
from loopcore.verification.proofs.unknowns import DIGEST_MAX, declare_policy, declare_step

STEP = "step"

# The parts of a run, in the order of the attributes that hold them.
PARTS: dict[str, tuple[str, ...]] = {
    "_calls": ("steps", "model_calls", "tool_calls", "repairs"),
    "_amounts": ("cost_microunits", "input_tokens", "output_tokens"),
    "_streaks": ("progress", "idle", "same", "last_action"),
}
_SINGLE = {"_state": "state", "_ended_at": "ended_at", "terminal": "terminal"}
_MEANINGS: dict[str, Number] = {
    "last_action": Number("run.last_action", "digest", True),
    "state": Number("run.state", "digest"),
    "terminal": Number("run.terminal", "name", True),
}


def declare_run(script: Script) -> Environment:
    """Return the attributes of an unknown run, as `self._calls` and so on."""
    names = [name for parts in PARTS.values() for name in parts] + list(_SINGLE.values())
    for name in (*names, "known"):
        script.declare(f"run.{name}", "Int")
    script.declare("run.seen", "(Array Int Bool)")
    numbers = {name: _MEANINGS.get(name, Number(f"run.{name}")) for name in names}
    return {
        **{f"self.{a}": Row(tuple(numbers[part] for part in PARTS[a])) for a in PARTS},
        **{f"self.{attribute}": numbers[name] for attribute, name in _SINGLE.items()},
        "self._seen": SetReference("heap seen"),
        "heap seen": Collection("run.seen", "run.known"),
        "self._cycles": Detector(negation(equal("policy.max_cycle_length", NONE))),
    }


def parts_of(env: Environment) -> dict[str, str]:
    """Return the terms of a run's parts from its attributes; raise where they are unlike it."""
    found: dict[str, str] = {}
    for attribute, parts in PARTS.items():
        row = env.get(f"self.{attribute}")
        if not isinstance(row, Row) or len(row.items) != len(parts):
            raise UnknownShapeError(f"the attribute {attribute} is not the tuple of {parts}")
        found.update({part: _term(item) for part, item in zip(parts, row.items, strict=True)})
    found.update({name: _term(env.get(f"self.{each}")) for each, name in _SINGLE.items()})
    reference = env.get("self._seen")
    held = env.get(reference.key) if isinstance(reference, SetReference) else None
    if not isinstance(held, Collection):
        raise UnknownShapeError("the attribute _seen is not a set")
    return {**found, "seen": held.array, "known": held.size}


def _term(value: Value | None) -> str:
    if not isinstance(value, Number):
        raise UnknownShapeError("an attribute of the run is not a number")
    return value.term


RUN_PARTS = {
    name: f"run.{name}"
    for name in (
        *(part for parts in PARTS.values() for part in parts),
        *_SINGLE.values(),
        "seen",
        "known",
    )
}


def invariant(parts: dict[str, str]) -> dict[str, str]:
    """Return what is true of every run, by a name for each, over the terms of its parts."""
    steps = parts["steps"]
    counted = {
        name: f"(<= 0 {parts[name]} {steps})"
        for name in ("model_calls", "tool_calls", "repairs", "progress", "idle", "same")
    }
    amounts = {name: between(0, parts[name], INTEGER_MAX) for name in PARTS["_amounts"]}
    return {
        **counted,
        **amounts,
        "steps": between(0, steps, STEPS_MAX),
        "known": f"(<= 0 {parts['known']} (* {EVIDENCE_MAX} {steps}))",
        "ended_at": conjunction(
            (
                f"(<= policy.started_at_unix_ms {parts['ended_at']})",
                f"(<= {parts['ended_at']} {INTEGER_MAX})",
            )
        ),
        "state": between(0, parts["state"], DIGEST_MAX),
        "last_action": between(-1, parts["last_action"], DIGEST_MAX),
        "same and last_action": equal(equal(parts["same"], "0"), equal(parts["last_action"], NONE)),
    }


@dataclass(slots=True, kw_only=True)
class SymbolicStep:
    """A step of the evaluator and the demand that it must meet.

    Fields:
        env: all attributes before; after: the run's attributes after a step that was taken.
        taken: whether it was; fired: each rule of the source, for a step that was taken.
        cycle: what the cycle detector answers, whatever that is.
    """

    script: Script
    release: str
    env: Environment
    execution: Execution
    after: Environment
    taken: str
    fired: dict[str, str]
    demand: Demand
    cycle: str


def symbolic_step(subject: Subject, release: str, evidence_max: int) -> SymbolicStep:
    """Return one step from any state; raise UnknownShapeError for a source that is not known."""
    script = Script()
    env = declare_policy(script, release)
    env.update(declare_run(script))
    env.update(declare_step(script, STEP, evidence_max))
    for term in invariant(RUN_PARTS).values():
        script.require(term)
    script.require(f"(< run.steps {STEPS_MAX})")
    script.require(
        disjunction(
            (
                equal("run.terminal", NONE),
                *(equal("run.terminal", script.code(rule)) for rule in precedence(release)),
            )
        )
    )
    execution = Execution(subject, script, release)
    after, taken = execution.decide(env, (STEP,))
    observations = execution.expressions.observations
    cycle = disjunction(conjunction((each.guard, each.found)) for each in observations)
    before = state_before(script, env, STEP, script.define(cycle, "Bool"))
    return SymbolicStep(
        script=script,
        release=release,
        env=env,
        execution=execution,
        after=after,
        taken=taken,
        fired=fired_rules(execution, STEP),
        demand=demand(script, env, release, STEP, before),
        cycle=cycle,
    )


def fired_rules(execution: Execution, step: str) -> dict[str, str]:
    """Return when each rule of the source fired on a step and was told to `Run._end`."""
    fired: dict[str, list[str]] = {}
    for ending in execution.endings:
        if ending.step == step:
            for rule, term in ending.fired.items():
                fired.setdefault(rule, []).append(conjunction((ending.guard, term)))
    if not fired:
        raise UnknownShapeError("no rule ever ends a run")
    return {
        rule: execution.script.define(disjunction(terms), "Bool") for rule, terms in fired.items()
    }


def unchanged(env: Environment) -> str:
    """Return the term of whether the attributes are those before the step."""
    after = parts_of(env)
    return conjunction(equal(after[name], term) for name, term in RUN_PARTS.items())
