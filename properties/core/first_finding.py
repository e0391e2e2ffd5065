"""The first finding of a property among explicit and drawn cases: the same cases in every run."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass

from hypothesis import Phase, given, seed, settings
from hypothesis.strategies import SearchStrategy

from loopcore.errors import TargetError
from loopcore.testing.bias import NO_HEALTH_CHECKS
from loopcore.testing.contract import Case, Judgement


@dataclass(frozen=True, slots=True, kw_only=True)
class Found:
    """What was found, in words, and how many cases had been judged by then."""

    words: str
    cases: int


class _Found(Exception):
    """A case showed that the target is wrong."""


def first_finding(
    judge: Callable[[Case], Judgement],
    explicit: Iterable[Case],
    drawn: SearchStrategy[Case] | None,
    cases: int,
) -> Found | None:
    """Return the first finding, or None; an error of the target is one.

    Arguments: explicit cases come first; at most `cases` are drawn after them, none from None.
    """
    judged = 0
    found: list[Found] = []

    def look(case: Case) -> None:
        nonlocal judged
        judged += 1
        try:
            words = judge(case).finding
        except TargetError as error:
            words = error.message
        if words is not None:
            found.append(Found(words=words, cases=judged))
            raise _Found

    def search(strategy: SearchStrategy[Case]) -> None:
        @seed(1)
        @settings(
            max_examples=cases,
            database=None,
            deadline=None,
            phases=[Phase.generate],
            suppress_health_check=NO_HEALTH_CHECKS,
            report_multiple_bugs=False,
        )
        @given(strategy)
        def each(case: Case) -> None:
            look(case)

        each()

    try:
        for case in explicit:
            look(case)
        if drawn is not None:
            search(drawn)
    except _Found:
        return found[0]
    return None
