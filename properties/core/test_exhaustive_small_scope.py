"""Claim: on every trace over a small alphabet the reference gives the naive model's answer, whole.

The alphabet has 24 letters that between them reach every rule and every step code. Bounds grow with
the length, so that long traces are not all cut by an early terminal. A cycle needs four steps, so
the shorter scope, of the release with more rules, does not reach `nonproductive_cycle`; the longer
one does, in both releases.
"""

import msgspec
import pytest

from loopcore.errors import InputError
from loopcore.evaluator import evaluate
from loopcore.models import Policy, Step
from loopcore.testing import naive
from loopcore.testing.alphabet import (
    ALPHABET,
    bounded_policy,
    every_verdict,
    grow,
    traces_up_to,
)
from loopcore.testing.building import EXTENDED, array_of
from loopcore.testing.naive_wire import RELEASES, as_record
from loopcore.verification.proofs.small_scope import exhaust_small_scope
from loopcore.verification.proofs.subject import present_subject

LETTERS = 24


def compare_all(release: str, length: int) -> tuple[int, set[str]]:
    """Return how many traces agree, and all terminals and codes met; raise at the first other."""
    policy = bounded_policy(release, length)
    typed_policy = msgspec.convert(policy, Policy)
    count = 0
    met: set[str] = set()
    for steps in grow(policy, length, []):
        count += 1
        expected = naive.evaluate(policy, steps)
        typed = msgspec.convert(steps, tuple[Step, ...])
        if "receipt" in expected:
            receipt = as_record(expected["receipt"])
            met.update(
                str(name) for name in (receipt["terminal"], *array_of(receipt["violations"]))
            )
            got = msgspec.json.decode(msgspec.json.encode(evaluate(typed_policy, typed)))
            assert got == receipt, steps
            continue
        due = as_record(expected["error"])
        met.add(str(due["code"]))
        with pytest.raises(InputError) as caught:
            evaluate(typed_policy, typed)
        refusal = caught.value.as_dict()
        for name in ("code", "path", "step", "terminal", "terminal_sequence"):
            assert refusal.get(name) == due.get(name), steps
    return count, met


def test_the_alphabet_has_as_many_letters_as_the_claim() -> None:
    assert len(ALPHABET) == len({letter.name for letter in ALPHABET}) == LETTERS


@pytest.mark.parametrize("release", [EXTENDED])
def test_reference_and_model_agree_on_every_trace_of_up_to_three_steps(release: str) -> None:
    count, met = compare_all(release, 3)
    assert count == 14_425
    assert every_verdict(release) - met == {"nonproductive_cycle"}


@pytest.mark.slow
@pytest.mark.parametrize("release", RELEASES)
def test_reference_and_model_agree_on_every_trace_of_up_to_four_steps(release: str) -> None:
    result = exhaust_small_scope(present_subject(), release, jobs=2)
    assert result.verdict == "proved", result.reason or result.counterexample
    assert result.count == traces_up_to(4) == 346_201
    assert set(result.reached) == every_verdict(release)
