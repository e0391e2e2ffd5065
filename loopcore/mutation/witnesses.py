"""Witnesses: a small saved corpus of cases for every property, over which mutants are judged.

Theory of operation: the explicit examples of a property come first, then what its strategy draws
from a fixed seed; each case must exercise the property and hold for the reference evaluator. Of the
cases drawn, those that witness something new are taken first and small ones before large ones,
until the corpus has enough of them or is large enough. Last, for every mutant that names the
property as its killer, or that the property names, and that the corpus does not kill yet, the
smallest counterexample that a search finds is put in front.

    python -m loopcore.mutation.witnesses [E06 …]

writes the corpora of the properties named, or of all, again.
"""

from __future__ import annotations

import json
import sys
from concurrent.futures import ThreadPoolExecutor

import hypothesis
from hypothesis import HealthCheck, Phase, given, settings

from loopcore.errors import TargetError
from loopcore.files import write_whole
from loopcore.mutation.control_judging import CONTROL_PROPERTIES
from loopcore.mutation.generated import generate_mutants
from loopcore.mutation.implementation import judge_source
from loopcore.mutation.judging import PROPERTIES, MutantTarget, corpus_path
from loopcore.mutation.mutants import (
    Mutant,
    load_control_mutants,
    load_mutants,
    mutated_source,
)
from loopcore.mutation.nursery import Nursery
from loopcore.mutation.values import Record, record
from loopcore.testing.checks import CATALOGUE
from loopcore.testing.checks_controller import CONTROLLER_CATALOGUE
from loopcore.testing.contract import Case, Invariant, T
from loopcore.testing.controller_targets import open_controller
from loopcore.testing.targets import TargetSpec

SEED = 20_260
CASES_MAX = 60
# Measuring memory takes longer than anything else, and two cases show all there is to see.
_EXAMPLES_ONLY = ("C08",)
CORPUS_BYTES_MAX = 100_000
# A larger case is left to random search.
_CASE_BYTES_MAX = 12_000
_DRAWN = 400
_FRESH_MAX = 2
_NO_HEALTH_CHECK = (
    HealthCheck.data_too_large,
    HealthCheck.filter_too_much,
    HealthCheck.large_base_example,
    HealthCheck.too_slow,
)
_SEARCH_SECONDS = 240.0
_SEARCH_PROFILE = "default"


def draw_cases(examined: Invariant[T], target: T) -> list[tuple[str, Case]]:
    """Return the cases that the corpus begins with, each with where it is from."""
    pool: list[tuple[str, str, tuple[str, ...]]] = []

    def look(source: str, case: Case) -> None:
        text = json.dumps(case, sort_keys=True, separators=(",", ":"))
        if len(text) > _CASE_BYTES_MAX or any(text == known for _, known, _ in pool):
            return
        if case.get("fresh") is True and _count_fresh(pool) >= _FRESH_MAX:
            return
        if examined.id in CONTROL_PROPERTIES and (case.get("fresh") or case.get("long")):
            return  # a mutant of a controller is one process, and judged in little time
        try:
            judgement = examined.judge(target, record(json.loads(text)))
        except TargetError:
            return  # another process cannot be opened from here
        if judgement.finding is not None:
            raise AssertionError(f"{examined.id} refuses the reference: {judgement.finding}")
        if not judgement.vacuous:
            pool.append((source, text, judgement.labels))

    for case in examined.examples:
        look("example", case)

    @hypothesis.seed(SEED)
    @settings(
        max_examples=_DRAWN,
        database=None,
        deadline=None,
        phases=(Phase.generate,),
        suppress_health_check=_NO_HEALTH_CHECK,
    )
    @given(examined.cases())
    def draw(case: Case) -> None:
        look(f"seed {SEED}", case)

    if examined.id not in _EXAMPLES_ONLY:
        draw()
    return [(source, record(json.loads(text))) for source, text in _chosen(pool)]


def _count_fresh(pool: list[tuple[str, str, tuple[str, ...]]]) -> int:
    return sum('"fresh":true' in text for _, text, _ in pool)


def _chosen(pool: list[tuple[str, str, tuple[str, ...]]]) -> list[tuple[str, str]]:
    """Return cases that witness all that was witnessed, then small ones, within the limits."""
    seen: set[str] = set()
    first: list[tuple[str, str]] = []
    rest: list[tuple[str, str]] = []
    for source, text, labels in sorted(pool, key=lambda item: (len(item[1]), item[1])):
        is_new = not seen.issuperset(labels)
        seen.update(labels)
        (first if is_new else rest).append((source, text))
    # Every other one of the rest, so that middling sizes are met as well as the smallest.
    return _within(first + rest[::2])


def _within(cases: list[tuple[str, str]]) -> list[tuple[str, str]]:
    kept: list[tuple[str, str]] = []
    size = 0
    for source, text in cases:
        if len(kept) < CASES_MAX and size + len(text) <= CORPUS_BYTES_MAX:
            kept.append((source, text))
            size += len(text)
    return kept


def write_corpus(property_id: str, cases: list[tuple[str, Case]]) -> None:
    """Put the corpus of a property in place, each case once."""
    spelled = {
        json.dumps(case, sort_keys=True, separators=(",", ":")): source
        for source, case in reversed(cases)
    }
    lines = [
        b'{"source":%b,"case":%b}\n' % (json.dumps(source).encode(), text.encode())
        for text, source in reversed(spelled.items())
    ]
    write_whole(corpus_path(property_id), b"".join(lines))


def searched_pairs(names: list[str]) -> list[tuple[str, Mutant]]:
    """Return each of these properties with every mutant that it is to kill."""
    named = {each.id: each.mutants for each in CATALOGUE}
    named |= {each.id: each.mutants for each in CONTROLLER_CATALOGUE}
    known = {each.id: each for each in (*load_mutants(), *load_control_mutants())}
    return [
        (name, mutant)
        for name in names
        for mutant in (*known.values(), *generate_mutants())
        if mutant.equivalent is None and (mutant.killer == name or mutant.id in named[name])
    ]


def find_counterexample(killer: str, mutant: Mutant) -> tuple[str, Case] | None:
    """Return a small case by which a property refuses a mutant, when its corpus has none.

    None when the corpus kills the mutant already, or when the search finds nothing.
    """
    source = mutated_source(mutant)
    answered = judge_source(mutant.module, source, [killer], first_only=True)
    # A crash that another case brings about first leaves the property without a say.
    if any(column["killed_by"] == killer for column in answered.columns) or answered.timed_out:
        return None
    job: Record = {
        "module": mutant.module,
        "source": source,
        "property": killer,
        "profile": _SEARCH_PROFILE,
    }
    with Nursery() as nursery:
        lines, _, complaint = nursery.run("search", job, _SEARCH_SECONDS)
    case = lines[-1].get("case") if lines else None
    if case is None:
        sys.stderr.write(f"{mutant.id}: {killer} finds nothing {complaint}\n")
        return None
    return mutant.id, record(case)


def main(words: list[str]) -> None:
    """Write the corpora of the properties named, or of all."""
    names = words or [*PROPERTIES, *CONTROL_PROPERTIES]
    for name in names:
        write_corpus(name, _first_cases(name))
    pairs = searched_pairs(names)
    with ThreadPoolExecutor(max_workers=2) as pool:
        found = list(pool.map(find_counterexample, *zip(*pairs, strict=True))) if pairs else []
    for name in names:
        front = [case for (own, _), case in zip(pairs, found, strict=True) if case and own == name]
        if front:
            write_corpus(name, front + _first_cases(name))


def _first_cases(name: str) -> list[tuple[str, Case]]:
    """Return the cases that the corpus of a property begins with."""
    if name in CONTROL_PROPERTIES:
        # Only one of our levels recovers.
        level = "E" if name == "C05" else "D"
        target = open_controller(TargetSpec(name=level, kind="controller"))
        return draw_cases(CONTROL_PROPERTIES[name], target)
    return draw_cases(PROPERTIES[name], MutantTarget(""))


if __name__ == "__main__":
    main(sys.argv[1:])
