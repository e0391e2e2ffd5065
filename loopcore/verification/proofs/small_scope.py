"""Every trace of up to four steps over the small alphabet is evaluated twice and compared.

Theory of operation: nothing is cut, not even below a terminal or a refused step: each of the
346,201 traces of a release is given to the evaluator and, as a whole and separately, to the naive
model, and the two answers must be equal, receipts with all their digests. Only the steps' decoded
values are shared between traces with a common prefix. The work is spread over processes by the
first letter; the number of traces is counted where they are compared, and then demanded.

Source: spec verification, section 4.
"""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field

import msgspec

from loopcore.models import Policy, Step
from loopcore.testing.alphabet import (
    ALPHABET,
    append_letter,
    bounded_policy,
    every_verdict,
    traces_up_to,
)
from loopcore.testing.building import SHORT_NAMES
from loopcore.testing.naive import evaluate
from loopcore.testing.naive_wire import Record, as_record, is_array
from loopcore.verification.proofs.results import Counterexample, TheoremResult
from loopcore.verification.proofs.subject import Subject, comparable
from loopcore.worker_pool import worker_pool

LENGTH_MAX = 4
# A cycle of two pairs, twice, needs four steps.
_NEEDS_FOUR_STEPS = frozenset({"nonproductive_cycle"})


@dataclass(slots=True)
class Compared:
    """What comparing some traces gave: how many, what they reached, and the first difference."""

    count: int = 0
    reached: Counter[str] = field(default_factory=Counter[str])
    difference: Counterexample | None = None

    def add(self, other: Compared) -> None:
        """Take in what comparing other traces gave."""
        self.count += other.count
        self.reached.update(other.reached)
        self.difference = self.difference or other.difference


def exhaust_small_scope(
    subject: Subject,
    release: str,
    *,
    length: int = LENGTH_MAX,
    jobs: int = 1,
    on_part: Callable[[int, int], None] = lambda done, total: None,
) -> TheoremResult:
    """Return whether an evaluator and the naive model agree on every trace of up to `length`.

    Arguments:
        jobs: processes to use; on_part: is told how many of the first letters are done.
    """
    started = time.perf_counter()
    compared = Compared()
    for done, part in enumerate(_parts(subject, release, length, jobs), start=1):
        compared.add(part)
        on_part(done, len(ALPHABET) + 1)
        if compared.difference is not None:
            break
    wanted = every_verdict(release) - (_NEEDS_FOUR_STEPS if length < LENGTH_MAX else frozenset())
    reason = None
    if compared.difference is None and compared.count != traces_up_to(length):
        reason = f"{compared.count} traces were compared, and {traces_up_to(length)} are due"
    elif compared.difference is None and (missing := sorted(wanted - set(compared.reached))):
        reason = f"never reached: {', '.join(missing)}"
    refuted = compared.difference is not None
    return TheoremResult(
        id=f"small-scope:{SHORT_NAMES[release]}",
        properties=("E02", "E03", "E04", "E06", "E07", "E08", "E11", "E17", "E18"),
        statement="The evaluator gives the naive model's whole answer, digests included.",
        kind="exhausted",
        bound=f"every trace of up to {length} steps over {len(ALPHABET)} letters that reach every "
        "rule and code",
        count=compared.count,
        unit="traces",
        verdict="refuted" if refuted else "unknown" if reason else "proved",
        reason=reason,
        finding="the two differ on a trace" if refuted else None,
        counterexample=compared.difference,
        seconds=round(time.perf_counter() - started, 3),
        reached=dict(sorted(compared.reached.items())),
    )


def _parts(subject: Subject, release: str, length: int, jobs: int) -> Iterable[Compared]:
    """Yield the comparisons by the first letter, and that of the empty trace."""
    firsts = [None, *range(len(ALPHABET))]
    if jobs == 1:
        yield from (compare_traces(subject, release, length, first) for first in firsts)
        return
    with worker_pool(jobs) as pool:
        futures = [pool.submit(compare_traces, subject, release, length, first) for first in firsts]
        yield from (future.result() for future in futures)


def compare_traces(subject: Subject, release: str, length: int, first: int | None) -> Compared:
    """Return what comparing all traces with a first letter gave, or the empty one for None."""
    policy = bounded_policy(release, length)
    typed = msgspec.convert(policy, Policy)
    compared = Compared()

    def visit(steps: list[Record], decoded: tuple[Step, ...]) -> None:
        expected = evaluate(policy, steps)
        got = subject.answer_decoded(typed, decoded)
        compared.count += 1
        compared.reached.update(_verdicts(expected))
        if comparable(expected) != comparable(got):
            compared.difference = Counterexample(
                policy=policy, steps=steps, expected=expected, got=got
            )
            return
        if not steps or len(steps) == length:
            return
        for letter in ALPHABET:
            step = append_letter(policy, steps, letter)
            visit([*steps, step], (*decoded, msgspec.convert(step, Step)))
            if compared.difference is not None:
                return

    if first is None:
        visit([], ())
    else:
        step = append_letter(policy, [], ALPHABET[first])
        visit([step], (msgspec.convert(step, Step),))
    return compared


def _verdicts(answer: Record) -> set[str]:
    """Return the terminals and the code that an answer tells."""
    if "error" in answer:
        return {str(as_record(answer["error"])["code"])}
    receipt = as_record(answer["receipt"])
    violations = receipt["violations"]
    assert is_array(violations)
    return {str(receipt["terminal"]), *map(str, violations)}
