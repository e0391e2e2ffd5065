"""Hold a target to properties, one after another or on several cores; tell what happened by events.

Theory of operation: each property gives an outcome that depends on the target, the profile and the
seed alone, so it may be made anywhere. Afterwards one rule joins them: a `TargetError` that any
property met breaks E15, with the smallest case that can be found for it in bounded time. An
interruption keeps the outcomes so far.

Nothing is printed or written here; a caller gets the result and the counterexamples.

Source: spec verification, section 1.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import TypeAlias

from loopcore import __version__
from loopcore.results import PropertyResult, TargetFacts, VerifyResult, printable_text
from loopcore.testing.contract import Invariant, T
from loopcore.testing.examining import TOTALITY, Found, Outcome, examine
from loopcore.testing.profiles import Profile
from loopcore.verification.coverage import coverage
from loopcore.verification.rerun import Counterexample, file_name
from loopcore.verification.workers import examine_in_workers, workers_can_run

# Making such a trouble smaller would cost a time limit for each attempt.
_SLOW_TROUBLES = ("hang", "flood")
_TOTALITY_NAME = "totality"
# What totality says of a target, by its kind, where no property of the run has those words.
_TOTALITY_STATEMENTS: dict[str, str] = {
    "evaluator": "Any request gives a receipt or a typed error, in bounded time and memory.",
    "controller": "Any request gives a decision or a typed error, in bounded time and memory.",
    "store": "Any request gives an answer or a typed error, in bounded time and memory.",
}


@dataclass(frozen=True, slots=True, kw_only=True)
class Started:
    """A property is being examined; only told where one is examined at a time."""

    property_id: str
    name: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Finished:
    """A property has its outcome."""

    outcome: Outcome
    done: int
    total: int


Event: TypeAlias = "Started | Finished"
OnEvent: TypeAlias = "Callable[[Event], None]"


@dataclass(frozen=True, slots=True, kw_only=True)
class Verified:
    """The result of a run, its counterexamples by file name, and what targets did besides."""

    result: VerifyResult
    counterexamples: dict[str, Counterexample]
    notes: tuple[str, ...] = ()


def run(
    target: T,
    properties: Sequence[Invariant[T]],
    profile: Profile,
    *,
    kind: str = "evaluator",
    seed: int = 0,
    jobs: int = 1,
    on_event: OnEvent = lambda event: None,
) -> Verified:
    """Return the verdicts on a target, also when it was interrupted by KeyboardInterrupt.

    Arguments:
        kind: what the target is, a key of `loopcore.testing.kinds.KINDS`.
        jobs: processes to spread the properties over; the verdicts do not depend on it. One is
            used where the target or the properties cannot be opened in another process.

    Raises EnvironmentFault when a worker process was killed from outside.
    """
    reached: dict[str, Outcome] = {}
    interrupted = False
    try:
        for outcome in _outcomes(target, properties, profile, seed=seed, jobs=jobs, on=on_event):
            reached[outcome.property_id] = outcome
            on_event(Finished(outcome=outcome, done=len(reached), total=len(properties)))
    except KeyboardInterrupt:
        interrupted = True
    outcomes = [reached[each.id] for each in properties if each.id in reached]
    judges = {each.id: each for each in properties}
    met = next((each for each in outcomes if each.trouble is not None), None)
    own = reached.get(TOTALITY)
    if met is not None and met.trouble is not None and (own is None or own.broken is None):
        judges[TOTALITY] = judges[met.property_id]
        found = met.trouble
        if not interrupted:
            try:
                found = _smaller(found, judges[TOTALITY], target, profile, seed)
            except KeyboardInterrupt:
                interrupted = True
        outcomes = _break_totality(outcomes, found)
    facts = TargetFacts(
        name=printable_text(target.name),
        version=printable_text(target.version),
        releases=tuple(printable_text(release) for release in target.releases),
        wire=target.wire,
    )
    counterexamples: dict[str, Counterexample] = {}
    results: list[PropertyResult] = []
    known = {each.id: each for each in properties}
    for outcome in outcomes:
        name: str | None = None
        if outcome.broken is not None:
            names = (outcome.property_id, judges[outcome.property_id].id)
            saved = _saved(names, outcome.broken, facts, seed, profile)
            name = file_name(saved)
            counterexamples[name] = saved
        results.append(_result(outcome, known.get(outcome.property_id), name, kind))
    result = VerifyResult(
        loopcore_version=__version__,
        target=facts,
        kind=kind,
        profile=profile.name,
        seed=seed,
        properties=tuple(results),
        coverage=coverage(outcomes),
        interrupted=interrupted,
    )
    notes = dict.fromkeys(note for outcome in outcomes for note in outcome.notes)
    return Verified(result=result, counterexamples=counterexamples, notes=tuple(notes))


def _saved(
    names: tuple[str, str], broken: Found, facts: TargetFacts, seed: int, profile: Profile
) -> Counterexample:
    """Return a failed case of a property and its judge, by their ids, as the file to be saved."""
    return Counterexample(
        property=names[0],
        judged_by=names[1],
        target=facts,
        seed=seed,
        profile=profile.name,
        case=broken.case,
        finding=broken.finding,
        expected=broken.expected,
        got=broken.got,
        request=broken.request,
        loopcore_version=__version__,
    )


def _outcomes(
    target: T,
    properties: Sequence[Invariant[T]],
    profile: Profile,
    *,
    seed: int,
    jobs: int,
    on: OnEvent,
) -> Iterator[Outcome]:
    """Yield the outcome of every property, in no particular order."""
    if jobs > 1 and len(properties) > 1 and workers_can_run(target, properties):
        yield from examine_in_workers(target, properties, profile, seed, jobs)
        return
    for each in properties:
        on(Started(property_id=each.id, name=each.name))
        yield examine(each, target, profile, seed)


def _smaller(found: Found, judge: Invariant[T], target: T, profile: Profile, seed: int) -> Found:
    """Return the smallest case of a trouble that the same search finds in the shrinking time."""
    if found.kind in _SLOW_TROUBLES:
        return found
    return examine(judge, target, profile, seed, totality=True).broken or found


def _break_totality(outcomes: list[Outcome], found: Found) -> list[Outcome]:
    """Return the outcomes with E15 broken by a case, as a new one where it was not examined."""
    if all(each.property_id != TOTALITY for each in outcomes):
        broken = Outcome(property_id=TOTALITY, verdict="broken", examples=1)
        outcomes = [*outcomes, broken]
    return [
        replace(each, verdict="broken", reason=found.finding, broken=found)
        if each.property_id == TOTALITY
        else each
        for each in outcomes
    ]


def _result(
    outcome: Outcome, examined: Invariant[T] | None, counterexample: str | None, kind: str
) -> PropertyResult:
    return PropertyResult(
        id=outcome.property_id,
        name=_TOTALITY_NAME if examined is None else examined.name,
        statement=_TOTALITY_STATEMENTS[kind] if examined is None else examined.statement,
        verdict=outcome.verdict,
        reason=None if outcome.reason is None else printable_text(outcome.reason),
        examples=outcome.examples,
        vacuous=outcome.vacuous,
        support=f"sampled ({outcome.examples})",
        seconds=round(outcome.seconds, 3),
        labels=outcome.labels,
        missing=outcome.missing,
        counterexample=counterexample,
    )
