"""The theorems about one step from any state, as obligations over a symbolic step.

Theory of operation: a theorem is a function from a symbolic step to named terms, each of which must
be true whatever the unknowns are. What is compared is always the evaluator's source on one side and
the specification's demand on the other, or two runs of the source under policies that differ.

Source: spec evaluator, sections 2 to 5; spec verification, sections 2 and 4.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from loopcore.terminals import STEP_ERRORS
from loopcore.testing.naive import BOUNDS, TOTALS, precedence
from loopcore.testing.naive_wire import INTEGER_MAX
from loopcore.verification.proofs.execution import Execution
from loopcore.verification.proofs.relations import Obligations, loosening, shifting, storing
from loopcore.verification.proofs.specification import evidence_of, is_kind, is_outcome
from loopcore.verification.proofs.stepping import (
    STEP,
    SymbolicStep,
    invariant,
    parts_of,
    unchanged,
)
from loopcore.verification.proofs.terms import (
    NONE,
    Number,
    Row,
    conjunction,
    count,
    disjunction,
    equal,
    implies,
    negation,
)
from loopcore.verification.proofs.unknowns import PROOF


@dataclass(frozen=True, slots=True, kw_only=True)
class Theorem:
    """A statement about one step, with the obligations that amount to it."""

    name: str
    properties: tuple[str, ...]
    statement: str
    obligations: Callable[[SymbolicStep], Obligations]


def totality(step: SymbolicStep) -> Obligations:
    """Nothing raises by accident, and each step is refused, or ends the run, or goes on."""
    faults = {
        f"no fault {place}: {what}": negation(condition)
        for place, (condition, what) in enumerate(step.execution.expressions.faults)
    }
    guards = [left.guard for left in step.execution.exits] + [step.taken]
    terminal = parts_of(step.after)["terminal"]
    table = precedence(step.release)
    return {
        **faults,
        "exactly one way out": equal(count(guards), "1"),
        "ended exactly with a terminal": implies(
            step.taken,
            equal(negation(equal(terminal, NONE)), disjunction(step.fired.values())),
        ),
        "the terminal is of the release": disjunction(
            (equal(terminal, NONE), *(equal(terminal, step.script.code(name)) for name in table))
        ),
    }


def refusals(step: SymbolicStep) -> Obligations:
    """Each code is given exactly when the specification's first failing check says so."""
    exits = step.execution.exits
    codes = [code for code, _ in STEP_ERRORS]
    given = {code: disjunction(left.guard for left in exits if left.code == code) for code in codes}
    found = {
        code: equal(given[code], step.demand.first_refusal(code)) for code in step.demand.refusals
    }
    return {
        **found,
        **{
            f"{left.code} has its index": implies(left.guard, equal(left.index, "run.steps"))
            for left in exits
        },
        **{
            f"{left.code} changes nothing": implies(left.guard, unchanged(left.env))
            for left in exits
        },
        **{f"no code {e.code}": negation(e.guard) for e in exits if e.code not in codes},
    }


def precedence_holds(step: SymbolicStep) -> Obligations:
    """The terminal is the first row of the specification's table that fired."""
    terminal = parts_of(step.after)["terminal"]
    return {"the winner": implies(step.taken, equal(terminal, step.demand.winner))}


def rules(step: SymbolicStep) -> Obligations:
    """Each rule fires exactly when its own row of the specification says so."""
    return {
        rule: implies(step.taken, equal(term, step.demand.fired.get(rule, "false")))
        for rule, term in step.fired.items()
    }


def boundaries(step: SymbolicStep) -> Obligations:
    """The exact bound passes and one over stops; the deadline and the streaks stop when reached."""
    figures, before = step.demand.figures, step.demand.before
    reached = {
        "deadline_exceeded": (f"{STEP}.completed_at_unix_ms", "policy.deadline_unix_ms"),
        "repeated_action": (before.same, "policy.max_consecutive_repeated_actions"),
        "no_progress": (before.idle, "policy.max_consecutive_no_progress"),
    }
    found: Obligations = {}
    for rule, term in step.fired.items():
        if rule in BOUNDS:
            name, field = BOUNDS[rule]
            figure, bound, last = figures[name], f"policy.{field}", 0
        elif rule in reached:
            (figure, bound), last = reached[rule], -1
        else:
            continue
        is_bounded = conjunction((step.taken, negation(equal(bound, NONE))))
        passes = conjunction((is_bounded, equal(figure, f"(+ {bound} {last})")))
        stops = conjunction((is_bounded, equal(figure, f"(+ {bound} {last + 1})")))
        found[f"{rule} passes at its last value"] = implies(passes, negation(term))
        found[f"{rule} stops one over"] = implies(stops, term)
    return found


def arithmetic(step: SymbolicStep) -> Obligations:
    """Every total is the exact sum, stays in range, and every counter is as defined."""
    after, before = parts_of(step.after), step.demand.before
    exact = {name: step.demand.figures[name] for name in ("steps", *TOTALS)}
    exact["known"] = before.known
    exact["idle"], exact["same"] = before.idle, before.same
    exact["state"] = f"{STEP}.state_after_sha256"
    exact["ended_at"] = f"{STEP}.completed_at_unix_ms"
    exact["progress"] = f"(+ run.progress {count([before.progress])})"
    is_wait = is_kind(step.script, STEP, "wait")
    exact["last_action"] = f"(ite {is_wait} run.last_action {STEP}.action_sha256)"
    return {
        **{name: implies(step.taken, equal(after[name], term)) for name, term in exact.items()},
        **{
            f"{name} in range": implies(step.taken, f"(<= 0 {after[name]} {INTEGER_MAX})")
            for name in ("steps", *TOTALS, "known")
        },
        **{
            f"invariant of {name}": implies(step.taken, term)
            for name, term in invariant(after).items()
        },
        "evidence is remembered": implies(
            step.taken,
            conjunction(
                implies(f"(< {place} {listing.length})", f"(select {after['seen']} {item})")
                for listing in [evidence_of(step.env, STEP)]
                for place, item in enumerate(listing.items)
            ),
        ),
    }


def beginning(step: SymbolicStep) -> Obligations:
    """A new run satisfies the invariant, and its counters are zero."""
    started = Execution(step.execution.subject, step.script, step.release)
    env = started.start(step.env)
    parts = parts_of(env)
    zeros = ("steps", *TOTALS, "progress", "idle", "same", "known")
    detectors = started.expressions.detectors
    made = conjunction(
        step.execution.expressions.same(
            row,
            Row((step.env["policy.max_cycle_length"], step.env["policy.cycle_repeats"])),
            is_identity=False,
        )
        for row in detectors
    )
    present = step.execution.expressions.same(
        env["self._cycles"], Number(NONE, "none", True), is_identity=False
    )
    return {
        **{f"invariant of {name}": term for name, term in invariant(parts).items()},
        **{f"{name} is zero": equal(parts[name], "0") for name in zeros},
        "no terminal": equal(parts["terminal"], NONE),
        "the initial state": equal(parts["state"], "policy.initial_state_sha256"),
        "the start": equal(parts["ended_at"], "policy.started_at_unix_ms"),
        "the detector has the policy's bounds": made,
        "a detector exactly when bounded": equal(present, equal("policy.max_cycle_length", NONE)),
    }


def completion(step: SymbolicStep) -> Obligations:
    """Completed needs a fresh proof on this very step; evidence seen before never counts."""
    after, listing = parts_of(step.after), evidence_of(step.env, STEP)
    proof, completed = f"{STEP}.{PROOF}", step.fired["completed"]
    held = disjunction(
        conjunction((f"(< {place} {listing.length})", equal(item, proof)))
        for place, item in enumerate(listing.items)
    )
    stale = conjunction(
        implies(f"(< {place} {listing.length})", f"(select run.seen {item})")
        for place, item in enumerate(listing.items)
    )
    won = conjunction((step.taken, equal(after["terminal"], step.script.code("completed"))))
    table = precedence(step.release)
    above = [rule for rule in table[: table.index("completed")] if rule in step.fired]
    return {
        "a finish": implies(completed, is_kind(step.script, STEP, "finish")),
        "that succeeded": implies(completed, is_outcome(step.script, STEP, "succeeded")),
        "with a proof": implies(completed, negation(equal(proof, NONE))),
        "among its own evidence": implies(completed, held),
        "not seen before": implies(completed, negation(f"(select run.seen {proof})")),
        "nothing above fired": implies(won, negation(disjunction(step.fired[r] for r in above))),
        "reused evidence is no progress": implies(
            conjunction((step.taken, stale)),
            conjunction(equal(after[name], f"run.{name}") for name in ("progress", "known")),
        ),
    }


def waiting(step: SymbolicStep) -> Obligations:
    """A wait leaves the streaks and the cycle window alone; any other step is shown to them."""
    after = parts_of(step.after)
    is_wait = is_kind(step.script, STEP, "wait")
    observed = disjunction(each.guard for each in step.execution.expressions.observations)
    pair = Row((step.env[f"{STEP}.action_sha256"], step.env[f"{STEP}.state_after_sha256"]))
    return {
        **{
            f"{name} stays": implies(
                conjunction((step.taken, is_wait)), equal(after[name], f"run.{name}")
            )
            for name in ("idle", "same", "last_action", "progress")
        },
        "a pair is observed": equal(
            observed,
            conjunction(
                (step.taken, negation(is_wait), negation(equal("policy.max_cycle_length", NONE)))
            ),
        ),
        "the pair is the step's": conjunction(
            implies(each.guard, step.execution.expressions.same(each.pair, pair, is_identity=False))
            for each in step.execution.expressions.observations
        ),
    }


THEOREMS: tuple[Theorem, ...] = (
    Theorem(
        name="totality",
        properties=("E15",),
        statement="Every step is refused, ends the run or goes on, exactly one of these, and "
        "nothing raises by accident.",
        obligations=totality,
    ),
    Theorem(
        name="refusals",
        properties=("E04", "E11"),
        statement="A step is refused with the code of the first check that it fails, its index, "
        "and no change to the run; after a terminal every step is.",
        obligations=refusals,
    ),
    Theorem(
        name="rules",
        properties=("E02", "E06", "E07", "E17"),
        statement="Each rule fires exactly when its own row of the table says so.",
        obligations=rules,
    ),
    Theorem(
        name="precedence",
        properties=("E02",),
        statement="The terminal is the first row of the release's table that fired.",
        obligations=precedence_holds,
    ),
    Theorem(
        name="boundaries",
        properties=("E06",),
        statement="The exact bound passes and one over stops; a millisecond before the deadline "
        "passes and the deadline stops; n-1 repeats pass and n stop.",
        obligations=boundaries,
    ),
    Theorem(
        name="arithmetic",
        properties=("E06", "E15"),
        statement="Totals are exact sums that never exceed 2^53-1, counters are as defined, and "
        "the invariant of runs is kept.",
        obligations=arithmetic,
    ),
    Theorem(
        name="beginning",
        properties=("E03",),
        statement="A new run satisfies the invariant of runs, with all counters at zero.",
        obligations=beginning,
    ),
    Theorem(
        name="completion",
        properties=("E07", "E08"),
        statement="Completed needs a finish that succeeded with a fresh proof of its own, and "
        "nothing above; evidence seen before never counts.",
        obligations=completion,
    ),
    Theorem(
        name="waiting",
        properties=("E17",),
        statement="A wait leaves the streaks and the cycle window alone; every other step that is "
        "taken is shown to the cycle detector once.",
        obligations=waiting,
    ),
    Theorem(
        name="storing",
        properties=("E16",),
        statement="Deciding step by step is deciding all at once: what one call stores, the next "
        "loads.",
        obligations=storing,
    ),
    Theorem(
        name="loosening",
        properties=("E05",),
        statement="Loosening any bounds but the cycle's gives no terminal at an earlier step, and "
        "no rule fires more.",
        obligations=loosening,
    ),
    Theorem(
        name="shifting",
        properties=("E10",),
        statement="Shifting all times by one amount changes no refusal, no rule and no terminal.",
        obligations=shifting,
    ),
)
