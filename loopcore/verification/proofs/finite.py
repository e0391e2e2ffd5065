"""What is finite is run case by case: the choice of the winner, and the cycle detector.

Theory of operation: `Run._end` sees a tuple of booleans, so every tuple is given to it. The cycle
detector sees pairs of which only equality matters, so every sequence of pairs up to renaming, of a
bounded length, is shown to it, under every bound that could fire within that length; what it says
after each pair is compared with the definition, and looser bounds with tighter ones.

Source: spec evaluator, section 3, *cycle*, and section 4; spec verification, section 4.
"""

from __future__ import annotations

import time
from collections.abc import Iterator, Mapping, Sequence
from itertools import product
from typing import cast

import msgspec

from loopcore.models import Policy
from loopcore.testing.building import (
    EXTENDED,
    SHORT_NAMES,
    Move,
    build_steps,
    name_digest,
    roomy_policy,
)
from loopcore.testing.naive import evaluate, precedence
from loopcore.verification.proofs.results import Counterexample, TheoremResult
from loopcore.verification.proofs.subject import Subject, comparable

PAIRS_MAX = 10
SYMBOLS_MAX = 3
BOUNDS: tuple[tuple[int, int], ...] = tuple(product(range(2, 6), range(2, 6)))
# How many tuples that went wrong are tried until a trace makes one of them.
_ATTEMPTS_MAX = 20


def exhaust_winner(subject: Subject, release: str) -> TheoremResult:
    """Return whether `Run._end` gives the specification's terminal for every tuple of rules."""
    started = time.perf_counter()
    policy = msgspec.convert(roomy_policy(release), Policy)
    rules = cast("Sequence[str]", subject.names()["_RULES"])
    possible = [rule for rule in rules if rule in precedence(release)]
    wrong: list[dict[str, bool]] = []
    number = 0
    for hits in product((False, True), repeat=len(possible)):
        fired = dict(zip(possible, hits, strict=True))
        if not any(hits):
            continue
        number += 1
        if not _ends_rightly(subject, policy, rules, fired):
            wrong.append(fired)
    found = None
    if wrong:
        found = _trace_of(subject, release, sorted(wrong, key=lambda each: sum(each.values())))
    return TheoremResult(
        id=f"winner:{SHORT_NAMES[release]}",
        properties=("E02",),
        statement="Whatever fired together, the terminal is the first row of the table that fired "
        "and the violations are all of them in order, without completed.",
        kind="exhausted",
        bound="all combinations of the release's rules, at least one",
        count=number,
        unit="combinations",
        verdict="proved" if not wrong else "unknown" if found is None else "refuted",
        reason=f"{len(wrong)} combinations go wrong, and no short trace makes one of them"
        if wrong and found is None
        else None,
        finding=f"{len(wrong)} combinations go wrong" if found is not None else None,
        counterexample=found,
        seconds=round(time.perf_counter() - started, 3),
    )


def _ends_rightly(
    subject: Subject, policy: Policy, rules: Sequence[str], fired: Mapping[str, bool]
) -> bool:
    run = subject.run(policy)
    ordered = [rule for rule in precedence(policy.evaluator_release) if fired.get(rule, False)]
    proof = name_digest("evidence", 1)
    end = getattr(run, "_end")  # noqa: B009 the name is private, and the proof is about it
    try:
        returned = end(tuple(fired.get(rule, False) for rule in rules), proof)
    except Exception:  # noqa: BLE001 a planted fault may crash in any way
        return False
    kept = proof if ordered[0] == "completed" else None
    return (
        returned == run.terminal == ordered[0]
        and list(run.violations) == [rule for rule in ordered if rule != "completed"]
        and getattr(run, "_proof") == kept  # noqa: B009 as above
    )


def _trace_of(
    subject: Subject, release: str, wrong: Sequence[dict[str, bool]]
) -> Counterexample | None:
    """Return a trace whose last step makes one of the combinations; some cannot happen at all."""
    from loopcore.verification.proofs.symbolic import search

    for fired in wrong[:_ATTEMPTS_MAX]:
        found = search(subject, release, fired)
        if found is not None:
            return found
    return None


def sequences(length: int, symbols: int) -> Iterator[tuple[int, ...]]:
    """Yield every sequence of a length over some symbols, one of each set that renaming joins."""

    def grow(sequence: tuple[int, ...], used: int) -> Iterator[tuple[int, ...]]:
        if len(sequence) == length:
            yield sequence
            return
        for symbol in range(min(used + 1, symbols)):
            yield from grow((*sequence, symbol), max(used, symbol + 1))

    return grow((), 0)


def is_cycle(pairs: Sequence[int], length_max: int, repeats: int) -> bool:
    """Return whether a cycle ends with the last pair, by the words of the definition."""
    for length in range(2, length_max + 1):
        window = pairs[-length * repeats :]
        is_whole = len(window) == length * repeats
        is_mixed = len(set(window[:length])) > 1
        if is_whole and is_mixed and list(window) == list(window[:length]) * repeats:
            return True
    return False


def exhaust_cycles(subject: Subject) -> TheoremResult:
    """Return whether the cycle detector answers as defined on all short sequences of pairs."""
    started = time.perf_counter()
    number = 0
    wrong: tuple[tuple[int, ...], int, int] | None = None
    for sequence in sequences(PAIRS_MAX, SYMBOLS_MAX):
        first: dict[tuple[int, int], int] = {}
        for length_max, repeats in BOUNDS:
            detector = subject.detector(length_max, repeats)
            for place, symbol in enumerate(sequence):
                said = detector.observe((f"action {symbol}", f"state {symbol}"))
                number += 1
                if said != is_cycle(sequence[: place + 1], length_max, repeats):
                    wrong = (sequence[: place + 1], length_max, repeats)
                    break
                if said:
                    first.setdefault((length_max, repeats), place)
        if wrong is None and not _looser_is_later(first):
            wrong = (sequence, *BOUNDS[0])
        if wrong is not None:
            break
    found = None if wrong is None else _cycle_trace(subject, *wrong)
    return TheoremResult(
        id="cycles:extended",
        properties=("E05", "E17"),
        statement="A cycle is found exactly when the definition says so; a smaller length or more "
        "repeats never find one earlier.",
        kind="exhausted",
        bound=f"all sequences of {PAIRS_MAX} pairs and their prefixes, up to renaming of up to "
        f"{SYMBOLS_MAX} different pairs; lengths and repeats from 2 to 5",
        count=number,
        unit="answers",
        verdict="proved" if wrong is None else "unknown" if found is None else "refuted",
        reason="the evaluator itself does not differ on a trace of these pairs"
        if wrong is not None and found is None
        else None,
        finding=None if found is None or wrong is None else f"wrong on the pairs {wrong[0]}",
        counterexample=found,
        seconds=round(time.perf_counter() - started, 3),
    )


def _looser_is_later(first: Mapping[tuple[int, int], int]) -> bool:
    """Return whether no looser bound found a cycle before a tighter one."""
    never = PAIRS_MAX
    return all(
        first.get((loose_length, loose_repeats), never) >= first.get((length, repeats), never)
        for length, repeats in BOUNDS
        for loose_length, loose_repeats in BOUNDS
        if loose_length <= length and loose_repeats >= repeats
    )


def _cycle_trace(
    subject: Subject, pairs: Sequence[int], length_max: int, repeats: int
) -> Counterexample | None:
    """Return a trace of these pairs with fresh evidence each time, where the answers differ."""
    policy = {
        **roomy_policy(EXTENDED),
        "max_cycle_length": length_max,
        "cycle_repeats": repeats,
    }
    moves = [
        Move(action=symbol, state=symbol + 1, evidence=(place,))
        for place, symbol in enumerate(pairs)
    ]
    steps = build_steps(policy, moves)
    expected, got = evaluate(policy, steps), subject.answer(policy, steps)
    if comparable(expected) == comparable(got):
        return None
    return Counterexample(policy=policy, steps=steps, expected=expected, got=got)
