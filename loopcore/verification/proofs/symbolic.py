"""Proofs with z3 that the evaluator's source does what the specification demands, for all integers.

Theory of operation: the source of `Run.decide` is translated, not modelled: its own checks, counter
updates and rules become terms (`translation`, `execution`), and the tables are read from the
module. Twelve theorems speak about one step from any state, which by the invariant that they prove
is every step of every run. One more speaks about whole traces of up to three steps from the start,
judged from their prefixes without any counter; where a theorem fails, that one gives a trace.

A theorem is *proved* only on `unsat`. It is *refuted* only with a trace on which the evaluator,
run for real, and the naive model differ. Everything else is *unknown*, with the reason: a source
that is not understood, a time-out, or a failure that no short trace confirms.

Bounds: at most four digests of evidence a step (two in the unrolled traces), at most 1,000,000
steps. What the cycle detector answers is left open here; it is exhausted in `finite`.

Source: spec verification, section 4.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from functools import partial

from loopcore.testing.building import SHORT_NAMES
from loopcore.testing.naive import TOTALS, evaluate
from loopcore.testing.naive_wire import RELEASES
from loopcore.verification.proofs.execution import Execution
from loopcore.verification.proofs.relations import Obligations
from loopcore.verification.proofs.results import Counterexample, TheoremResult
from loopcore.verification.proofs.solver import Answer, solve
from loopcore.verification.proofs.specification import Demand, demand, prefix_before
from loopcore.verification.proofs.stepping import fired_rules, parts_of, symbolic_step
from loopcore.verification.proofs.subject import Subject, comparable
from loopcore.verification.proofs.terms import (
    TRUE,
    Script,
    UnknownShapeError,
    conjunction,
    disjunction,
    equal,
    implies,
    negation,
)
from loopcore.verification.proofs.theorems import THEOREMS, Theorem
from loopcore.verification.proofs.unknowns import declare_policy, declare_step, trace_of

EVIDENCE_A_STEP_MAX = 4
UNROLLED_STEPS_MAX = 3
UNROLLED_EVIDENCE_MAX = 2
STEP_BOUND = (
    "one step from any state of the invariant, all integers in range, at most "
    f"{EVIDENCE_A_STEP_MAX} digests of evidence a step"
)
UNROLLED_BOUND = (
    f"all traces of 1 to {UNROLLED_STEPS_MAX} steps from the start, all integers in range, at most "
    f"{UNROLLED_EVIDENCE_MAX} digests of evidence a step"
)
UNROLLED_STATEMENT = (
    "Refusals, rules, terminal and totals of a whole trace are those that its prefixes give by "
    "definition, with no counter carried."
)


def prove(
    subject: Subject, releases: tuple[str, ...] = RELEASES
) -> Iterator[Callable[[], TheoremResult]]:
    """Yield the proofs, each of which gives its verdict when it is called."""
    for release in releases:
        for theorem in THEOREMS:
            yield partial(prove_step, subject, release, theorem)
        yield partial(prove_unrolled, subject, release)


def prove_step(subject: Subject, release: str, theorem: Theorem) -> TheoremResult:
    """Return whether a theorem about one step from any state is true of an evaluator."""
    started = time.perf_counter()
    obligations: Obligations = {}
    answer: Answer | None = None
    reason: str | None = None
    found: Counterexample | None = None
    try:
        step = symbolic_step(subject, release, EVIDENCE_A_STEP_MAX)
        obligations = theorem.obligations(step)
        answer = _ask(step.script, obligations)
        reason = _reason(answer, obligations)
        if answer.status == "sat":
            found = search(subject, release)
            if found is None:
                reason = f"{reason}; no trace of {UNROLLED_STEPS_MAX} steps shows it"
    except UnknownShapeError as shape:
        reason = f"the source has a shape that is not translated: {shape}"
    return _result(
        f"{theorem.name}:{SHORT_NAMES[release]}",
        theorem.properties,
        theorem.statement,
        STEP_BOUND,
        (len(obligations), answer, reason, found, started),
    )


def prove_unrolled(subject: Subject, release: str) -> TheoremResult:
    """Return whether whole traces of up to three steps are judged as their prefixes demand."""
    started = time.perf_counter()
    answer: Answer | None = None
    reason: str | None = None
    found: Counterexample | None = None
    number = 0
    try:
        for length in range(1, UNROLLED_STEPS_MAX + 1):
            trace = unrolled(subject, release, length)
            number += len(trace.obligations)
            answer = _ask(trace.script, trace.obligations)
            reason = _reason(answer, trace.obligations)
            if answer.status == "sat":
                found = _confirmed(subject, trace.script, answer, release, length)
                if found is None:
                    reason = f"{reason}; the evaluator itself does not differ on that trace"
            if answer.status != "unsat":
                break
    except UnknownShapeError as shape:
        answer, reason = None, f"the source has a shape that is not translated: {shape}"
    return _result(
        f"traces:{SHORT_NAMES[release]}",
        ("E02", "E03", "E04", "E06", "E07", "E08", "E11"),
        UNROLLED_STATEMENT,
        UNROLLED_BOUND,
        (number, answer, reason, found, started),
    )


def search(
    subject: Subject, release: str, fired: Mapping[str, bool] | None = None
) -> Counterexample | None:
    """Return a short trace on which an evaluator differs from the naive model, or None.

    Arguments:
        fired: which rules fire on the last step, which is then taken; without it any difference
            between the source and the specification is looked for.
    """
    for length in range(1, UNROLLED_STEPS_MAX + 1):
        trace = unrolled(subject, release, length)
        if fired is None:
            answer = _ask(trace.script, trace.obligations)
        else:
            trace.script.require(trace.taken)
            for rule, term in trace.last.fired.items():
                trace.script.require(term if fired.get(rule, False) else negation(term))
            answer = solve(trace.script.text())
        if answer.status == "sat":
            found = _confirmed(subject, trace.script, answer, release, length)
            if found is not None:
                return found
    return None


@dataclass(frozen=True, slots=True, kw_only=True)
class Unrolled:
    """A trace of unknown steps from the start: what it has to meet, and its last step's demand."""

    script: Script
    obligations: Obligations
    last: Demand
    taken: str


def unrolled(subject: Subject, release: str, length: int) -> Unrolled:
    """Return what a trace of so many steps has to meet, from the start and prefix by prefix."""
    script = Script()
    env = declare_policy(script, release)
    names = tuple(f"s{place}" for place in range(length))
    for name in names:
        env.update(declare_step(script, name, UNROLLED_EVIDENCE_MAX))
    execution = Execution(subject, script, release)
    env = execution.start(env)
    after, taken = execution.decide(env, names)
    # Fewer than four pairs are never a cycle, which `finite` exhausts.
    for each in execution.expressions.observations:
        script.require(negation(each.found))
    demands: list[Demand] = []
    obligations: Obligations = {
        f"no fault {place}: {what}": negation(condition)
        for place, (condition, what) in enumerate(execution.expressions.faults)
    }
    reached = TRUE
    for place, name in enumerate(names):
        before = prefix_before(script, env, names[: place + 1], demands)
        wanted = demand(script, env, release, name, before)
        demands.append(wanted)
        for code in wanted.refusals:
            given = disjunction(
                conjunction((left.guard, equal(left.index, str(place))))
                for left in execution.exits
                if (left.step, left.code) == (name, code)
            )
            due = conjunction((reached, wanted.first_refusal(code)))
            obligations[f"step {place}: {code}"] = equal(given, due)
        reached = script.define(conjunction((reached, wanted.accepted())), "Bool")
        for rule, term in fired_rules(execution, name).items():
            due = conjunction((reached, wanted.fired.get(rule, "false")))
            obligations[f"step {place}: {rule}"] = equal(term, due)
    parts, last = parts_of(after), demands[-1]
    figures = {name: last.figures[name] for name in ("steps", *TOTALS)}
    figures.update(terminal=last.winner, idle=last.before.idle, same=last.before.same)
    figures.update(known=last.before.known)
    obligations["taken"] = equal(taken, reached)
    for name, term in figures.items():
        obligations[f"at the end: {name}"] = implies(reached, equal(parts[name], term))
    return Unrolled(script=script, obligations=obligations, last=last, taken=reached)


def _ask(script: Script, obligations: Obligations) -> Answer:
    """Return the solver's answer to whether any obligation can fail; no answer if none could.

    Assumptions that contradict each other would prove anything, so they are tried alone first.
    """
    if solve(script.text()).status != "sat":
        return Answer(status="unknown", values={})
    goals: list[str] = []
    for place, term in enumerate(obligations.values()):
        goals.append(script.declare(f"goal.{place}", "Bool"))
        script.require(equal(goals[-1], term))
    script.require(negation(conjunction(goals)))
    return solve(script.text())


def _reason(answer: Answer, obligations: Obligations) -> str | None:
    """Return in words what a solver's answer leaves open, or None after a proof."""
    if answer.status == "unknown":
        return "the assumptions have no example, or the solver ran out of time"
    failed = [
        name
        for place, name in enumerate(obligations)
        if answer.status == "sat" and answer.values.get(f"goal.{place}") == 0
    ]
    return f"these fail: {', '.join(failed)}" if answer.status == "sat" else None


def _confirmed(
    subject: Subject, script: Script, answer: Answer, release: str, length: int
) -> Counterexample | None:
    """Return the trace of a solver's values where both evaluators, run on it, really differ."""
    names = [f"s{place}" for place in range(length)]
    policy, steps = trace_of(script, answer.values, release, names)
    expected, got = evaluate(policy, steps), subject.answer(policy, steps)
    if comparable(expected) == comparable(got):
        return None
    return Counterexample(policy=policy, steps=steps, expected=expected, got=got)


def _result(
    name: str,
    properties: tuple[str, ...],
    statement: str,
    bound: str,
    outcome: tuple[int, Answer | None, str | None, Counterexample | None, float],
) -> TheoremResult:
    number, answer, reason, found, started = outcome
    proved = answer is not None and answer.status == "unsat"
    return TheoremResult(
        id=name,
        properties=properties,
        statement=statement,
        kind="proved",
        bound=bound,
        count=number,
        unit="obligations",
        verdict="proved" if proved else "unknown" if found is None else "refuted",
        reason=None if found is not None else reason,
        finding=reason if found is not None else None,
        counterexample=found,
        seconds=round(time.perf_counter() - started, 3),
    )
