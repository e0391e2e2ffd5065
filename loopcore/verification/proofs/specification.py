"""What the specification demands of a step, as terms that owe nothing to the evaluator's source.

Theory of operation: a step is judged from what stood before it, which is given in one of two ways.
`state_before` is the state that any run may have, so that one step stands for every step of every
run; its counters are moved by the definitions of section 3. `prefix_before` has the earlier steps
themselves: totals are sums over the whole prefix, evidence is compared with all earlier evidence,
idle and repeated steps are counted backwards, and no counter is carried at all. Both are then
judged by the same list of checks and table of rules.

The tables are those of the naive model, which were written from the specification too.

Source: spec evaluator, sections 2 to 4.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from loopcore.testing.naive import BOUNDS, TOTALS, precedence
from loopcore.testing.naive_wire import INTEGER_MAX
from loopcore.testing.pairs import usage_rules
from loopcore.verification.proofs.terms import (
    NONE,
    Listing,
    Script,
    choose,
    conjunction,
    count,
    disjunction,
    equal,
    negation,
    total,
)
from loopcore.verification.proofs.translation import Environment
from loopcore.verification.proofs.unknowns import EVIDENCE, PROOF


@dataclass(frozen=True, slots=True, kw_only=True)
class Before:
    """What stood before a step, and the counters after it, all as terms.

    Fields:
        index: the number of steps before; ended: whether a terminal was reached by them.
        time, state: of the step before, or of the policy.
        totals: sums of the deltas before the step; fresh: whether each digest of the step's
            evidence is new to the run (and stands in the step).
        known, idle, same: after the step; cycle: whether one ends at the step.
    """

    index: str
    ended: str
    time: str
    state: str
    totals: dict[str, str]
    fresh: tuple[str, ...]
    known: str
    idle: str
    same: str
    progress: str
    cycle: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Demand:
    """What must become of a step.

    Fields:
        refusals: each code with the condition of its own check, in the order of the checks.
        figures: totals after the step, if it is taken; fired: each rule, on its own.
        winner: the code of the terminal, or None.
    """

    refusals: dict[str, str]
    figures: dict[str, str]
    fired: dict[str, str]
    winner: str
    before: Before

    def first_refusal(self, code: str) -> str:
        """Return the term of whether the step is refused with just this code."""
        codes = list(self.refusals)
        earlier = (negation(self.refusals[each]) for each in codes[: codes.index(code)])
        return conjunction((*earlier, self.refusals[code]))

    def accepted(self) -> str:
        """Return the term of whether the step is taken."""
        return negation(disjunction(self.refusals.values()))


def demand(script: Script, env: Environment, release: str, step: str, before: Before) -> Demand:
    """Return what the specification demands of a step that follows on what stood before."""
    figures = {
        name: script.define(total((before.totals[name], f"{step}.{field}")), "Int")
        for name, field in TOTALS.items()
    }
    refusals = _refusals(script, env, release, step, before, figures)
    figures = {"steps": f"(+ {before.index} 1)", **figures, "evidence_receipts": before.known}
    facts = _facts(script, env, step, before, figures)
    table = [name for name in precedence(release) if name != "input_exhausted"]
    fired = {name: script.define(facts[name], "Bool") for name in table}
    winner = NONE
    for name in reversed(table):
        winner = choose(fired[name], script.code(name), winner)
    return Demand(
        refusals=refusals,
        figures=figures,
        fired=fired,
        winner=script.define(winner, "Int"),
        before=before,
    )


def _refusals(  # noqa: PLR0917 the same things as `demand`, and what it made of them
    script: Script,
    env: Environment,
    release: str,
    step: str,
    before: Before,
    figures: dict[str, str],
) -> dict[str, str]:
    listing = evidence_of(env, step)
    deltas = [f"{step}.{name}_delta" for name in ("model_calls", "tool_calls", "repairs")]
    kinds = usage_rules(release)
    fits = disjunction(
        conjunction((is_kind(script, step, kind), *(map(equal, deltas, map(str, row)))))
        for kind, rows in kinds.items()
        for row in rows
    )
    tokens = f"(> (+ {step}.input_tokens_delta {step}.output_tokens_delta) 0)"
    twice = disjunction(
        conjunction((f"(< {second} {listing.length})", equal(item, listing.items[first])))
        for second, item in enumerate(listing.items)
        for first in range(second)
    )
    checks = {
        "post_terminal_step": before.ended,
        "sequence_gap": negation(equal(f"{step}.sequence", f"(+ {before.index} 1)")),
        "time_regression": f"(< {step}.completed_at_unix_ms {before.time})",
        "state_chain_broken": negation(equal(f"{step}.state_before_sha256", before.state)),
        "duplicate_evidence": twice,
        "unsupported_kind": negation(disjunction(is_kind(script, step, kind) for kind in kinds)),
        "usage_mismatch": disjunction(
            (negation(fits), conjunction((tokens, equal(deltas[0], "0"))))
        ),
        "unexpected_completion_receipt": conjunction(
            (negation(equal(f"{step}.{PROOF}", NONE)), negation(is_kind(script, step, "finish")))
        ),
        "usage_overflow": disjunction(f"(> {figures[name]} {INTEGER_MAX})" for name in TOTALS),
    }
    return {code: script.define(condition, "Bool") for code, condition in checks.items()}


def _facts(
    script: Script, env: Environment, step: str, before: Before, figures: dict[str, str]
) -> dict[str, str]:
    listing = evidence_of(env, step)
    is_finish = is_kind(script, step, "finish")
    is_proven = conjunction(
        (
            is_outcome(script, step, "succeeded"),
            disjunction(
                conjunction((fresh, equal(item, f"{step}.{PROOF}")))
                for fresh, item in zip(before.fresh, listing.items, strict=True)
            ),
        )
    )
    exceeded = {
        rule: conjunction(
            (
                negation(equal(f"policy.{bound}", NONE)),
                f"(> {figures[name]} policy.{bound})",
            )
        )
        for rule, (name, bound) in BOUNDS.items()
    }
    return {
        **exceeded,
        "deadline_exceeded": f"(>= {step}.completed_at_unix_ms policy.deadline_unix_ms)",
        "indeterminate_effect": is_outcome(script, step, "indeterminate"),
        "completed": conjunction((is_finish, is_proven)),
        "invalid_completion": conjunction((is_finish, negation(is_proven))),
        "repeated_action": f"(>= {before.same} policy.max_consecutive_repeated_actions)",
        "nonproductive_cycle": before.cycle,
        "no_progress": f"(>= {before.idle} policy.max_consecutive_no_progress)",
    }


def evidence_of(env: Environment, step: str) -> Listing:
    """Return a step's evidence."""
    listing = env[f"{step}.{EVIDENCE}"]
    assert isinstance(listing, Listing)
    return listing


def is_kind(script: Script, step: str, kind: str) -> str:
    """Return the term of whether a step is of a kind."""
    return equal(f"{step}.action_kind", script.code(kind))


def is_outcome(script: Script, step: str, outcome: str) -> str:
    """Return the term of whether a step had an outcome."""
    return equal(f"{step}.outcome", script.code(outcome))


def _makes_progress(script: Script, step: str, fresh: Sequence[str]) -> str:
    return script.define(
        conjunction(
            (
                negation(is_kind(script, step, "wait")),
                is_outcome(script, step, "succeeded"),
                negation(equal(f"{step}.state_before_sha256", f"{step}.state_after_sha256")),
                disjunction(fresh),
            )
        ),
        "Bool",
    )


def _fresh(script: Script, listing: Listing, is_seen: Sequence[str]) -> tuple[str, ...]:
    """Return for each place whether a digest that nothing showed before stands in it first."""
    found: list[str] = []
    for place, item in enumerate(listing.items):
        again = disjunction(equal(item, earlier) for earlier in listing.items[:place])
        here = f"(< {place} {listing.length})"
        parts = (here, negation(again), negation(is_seen[place]))
        found.append(script.define(conjunction(parts), "Bool"))
    return tuple(found)


def state_before(script: Script, env: Environment, step: str, cycle: str) -> Before:
    """Return what stood before a step, given by the unknowns `run.…` of any running state."""
    listing = evidence_of(env, step)
    fresh = _fresh(script, listing, [f"(select run.seen {item})" for item in listing.items])
    progress = _makes_progress(script, step, fresh)
    is_wait = is_kind(script, step, "wait")
    idle = choose(is_wait, "run.idle", choose(progress, "0", "(+ run.idle 1)"))
    again = equal("run.last_action", f"{step}.action_sha256")
    same = choose(is_wait, "run.same", choose(again, "(+ run.same 1)", "1"))
    return Before(
        index="run.steps",
        ended=negation(equal("run.terminal", NONE)),
        time="run.ended_at",
        state="run.state",
        totals={name: f"run.{name}" for name in TOTALS},
        fresh=fresh,
        known=script.define(total(("run.known", count(fresh))), "Int"),
        idle=script.define(idle, "Int"),
        same=script.define(same, "Int"),
        progress=progress,
        cycle=conjunction((negation(is_wait), cycle)),
    )


def prefix_before(
    script: Script, env: Environment, steps: Sequence[str], earlier: Sequence[Demand]
) -> Before:
    """Return what stood before the last of some steps, from the steps before it alone.

    No cycle can end among so few steps: fewer than four pairs never repeat twice.
    """
    step, prefix = steps[-1], steps[:-1]
    listing = evidence_of(env, step)
    shown = [
        disjunction(
            conjunction((f"(< {place} {other.length})", equal(item, theirs)))
            for other in (evidence_of(env, each) for each in prefix)
            for place, theirs in enumerate(other.items)
        )
        for item in listing.items
    ]
    fresh = _fresh(script, listing, shown)
    all_fresh = [flag for each in earlier for flag in each.before.fresh] + list(fresh)
    progress = _makes_progress(script, step, fresh)
    made = [*(each.before.progress for each in earlier), progress]
    acts = [negation(is_kind(script, each, "wait")) for each in steps]
    idle = [
        conjunction((acts[place], *(negation(each) for each in made[place:])))
        for place in range(len(steps))
    ]
    same = [
        conjunction((acts[place], _only_action(steps, acts, place))) for place in range(len(steps))
    ]
    return Before(
        index=str(len(prefix)),
        ended=disjunction(flag for each in earlier for flag in each.fired.values()),
        time=f"{prefix[-1]}.completed_at_unix_ms" if prefix else "policy.started_at_unix_ms",
        state=f"{prefix[-1]}.state_after_sha256" if prefix else "policy.initial_state_sha256",
        totals={
            name: total(f"{each}.{field}" for each in prefix) for name, field in TOTALS.items()
        },
        fresh=fresh,
        known=script.define(count(all_fresh), "Int"),
        idle=script.define(count(idle), "Int"),
        same=script.define(count(same), "Int"),
        progress=progress,
        cycle="false",
    )


def _only_action(steps: Sequence[str], acts: Sequence[str], place: int) -> str:
    """Return the term of whether every act from a place on has that place's action."""
    return conjunction(
        disjunction(
            (negation(acts[later]), equal(f"{steps[later]}.action_sha256", action)),
        )
        for action in [f"{steps[place]}.action_sha256"]
        for later in range(place, len(steps))
    )
