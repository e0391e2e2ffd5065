"""Theorems that compare two runs of the evaluator's source with each other.

Theory of operation: a second run of the same source takes the same step, from the same state but
under another policy, at other times, or with no step at all; what must be alike in both, and what
may only go one way, are the obligations. What the cycle detector answers is the same in both.

Source: spec verification, section 2, E05, E10 and E16.
"""

from __future__ import annotations

from loopcore.testing.building import bounds_of
from loopcore.testing.naive_wire import INTEGER_MAX
from loopcore.verification.proofs.execution import Execution
from loopcore.verification.proofs.stepping import (
    STEP,
    SymbolicStep,
    fired_rules,
    parts_of,
    unchanged,
)
from loopcore.verification.proofs.terms import (
    NONE,
    TRUE,
    Number,
    conjunction,
    disjunction,
    equal,
    implies,
    negation,
)
from loopcore.verification.proofs.translation import Environment
from loopcore.verification.proofs.unknowns import declare_policy

Obligations = dict[str, str]


def storing(step: SymbolicStep) -> Obligations:
    """What a call of `decide` stores is what the next one loads: no steps, no change."""
    idle = Execution(step.execution.subject, step.script, step.release)
    env, guard = idle.decide(step.env, ())
    return {"nothing changes": unchanged(env), "nothing raises": equal(guard, TRUE)}


def _second(step: SymbolicStep, env: Environment) -> tuple[Execution, Environment, str]:
    """Return a second run of the source over other attributes; both detectors answer alike."""
    second = Execution(step.execution.subject, step.script, step.release)
    after, taken = second.decide(env, (STEP,))
    ours, theirs = step.execution.expressions.observations, second.expressions.observations
    for one, other in zip(ours, theirs, strict=True):
        step.script.require(equal(one.found, other.found))
    return second, after, taken


def loosening(step: SymbolicStep) -> Obligations:
    """A policy with looser bounds refuses the same steps and never ends a run earlier."""
    script, release = step.script, step.release
    loose = declare_policy(script, release, "loose")
    for field in bounds_of(release):
        wider = f"(<= policy.{field} loose.{field})"
        number = loose[f"loose.{field}"]
        if isinstance(number, Number) and number.nullable:
            both = conjunction((negation(equal(f"policy.{field}", NONE)), wider))
            wider = disjunction((equal(f"loose.{field}", NONE), both))
        script.require(wider)
    for field in ("started_at_unix_ms", "initial_state_sha256", "max_cycle_length"):
        script.require(equal(f"policy.{field}", f"loose.{field}"))
    script.require(equal("policy.cycle_repeats", "loose.cycle_repeats"))
    under = {f"policy.{name.partition('.')[2]}": value for name, value in loose.items()}
    second, after, taken = _second(step, {**step.env, **under})
    tight, wide = parts_of(step.after), parts_of(after)
    same = [
        equal(left.guard, right.guard)
        for left, right in zip(step.execution.exits, second.exits, strict=True)
    ]
    counters = [equal(tight[name], wide[name]) for name in tight if name != "terminal"]
    return {
        "the same steps are refused": conjunction((*same, equal(step.taken, taken))),
        "the counters are the same": implies(taken, conjunction(counters)),
        "no terminal earlier": implies(
            conjunction((taken, negation(equal(wide["terminal"], NONE)))),
            negation(equal(tight["terminal"], NONE)),
        ),
        "no rule more": implies(
            taken,
            conjunction(
                implies(term, step.fired[rule]) for rule, term in fired_rules(second, STEP).items()
            ),
        ),
    }


def shifting(step: SymbolicStep) -> Obligations:
    """Shifting every time by the same amount changes no decision."""
    script = step.script
    script.declare("shift", "Int")
    shifted = dict(step.env)
    for name in ("policy.started_at_unix_ms", "policy.deadline_unix_ms", "self._ended_at"):
        number = step.env[name]
        assert isinstance(number, Number)
        shifted[name] = Number(script.define(f"(+ {number.term} shift)", "Int"))
    time = f"{STEP}.completed_at_unix_ms"
    shifted[time] = Number(script.define(f"(+ {time} shift)", "Int"))
    for name in ("policy.started_at_unix_ms", time, "policy.deadline_unix_ms"):
        term = shifted[name]
        assert isinstance(term, Number)
        script.require(f"(<= 0 {term.term} {INTEGER_MAX})")
    second, after, taken = _second(step, shifted)
    ours, theirs = parts_of(step.after), parts_of(after)
    fired = fired_rules(second, STEP)
    return {
        "the same steps are refused": conjunction(
            (
                equal(step.taken, taken),
                *(
                    equal(left.guard, right.guard)
                    for left, right in zip(step.execution.exits, second.exits, strict=True)
                ),
            )
        ),
        "the same rules fire": conjunction(
            equal(term, fired[rule]) for rule, term in step.fired.items()
        ),
        "the same terminal": implies(taken, equal(ours["terminal"], theirs["terminal"])),
    }
