"""Progress is positive for a new best alone, only so often, and never for gaming the measure.

Killers: a best that follows the last reading, a violated reading that becomes a best, a component
that may be negative, required tests counted from those that are left, sources counted by page,
rows counted after they were deleted, a confirmation that is believed.
"""

from __future__ import annotations

from functools import cache
from itertools import pairwise, product

import pytest
from hypothesis import given
from hypothesis import strategies as st

from loopcore.control.progress import (
    ProgressMeter,
    Reading,
    browser_reading,
    coding_reading,
    etl_reading,
    improvements_max,
    jobs_reading,
    research_reading,
    support_reading,
)
from loopcore.errors import UsageError

Remaining = tuple[int, ...]
READINGS_MAX = 40


def progress_of(readings: list[Reading | None]) -> list[int | None]:
    """Return what a new meter says of these readings, one after another."""
    meter = ProgressMeter()
    return [meter.update(reading) for reading in readings]


def of(*tuples: Remaining) -> list[Reading | None]:
    """Return sound readings."""
    return [Reading(remaining=remaining) for remaining in tuples]


def violated(*remaining: int) -> Reading:
    """Return a reading that nobody may believe."""
    return Reading(remaining=remaining, integrity=("checker_changed",))


@st.composite
def chains(draw: st.DrawFn) -> list[Remaining]:
    """Draw readings of one length, small so that ground is often lost and regained."""
    length = draw(st.integers(1, 4))
    component = st.integers(0, 3)
    return draw(st.lists(st.tuples(*[component] * length), min_size=1, max_size=READINGS_MAX))


@given(chains())
def test_progress_is_positive_exactly_for_a_new_best_of_the_run(chain: list[Remaining]) -> None:
    said = progress_of(of(*chain))
    for place, now in enumerate(chain):
        is_best = place > 0 and now < min(chain[:place])
        is_worse = place > 0 and now > chain[place - 1]
        assert said[place] == (1 if is_best else -1 if is_worse else 0)


@given(chains())
def test_progress_is_positive_no_more_often_than_the_first_reading_allows(
    chain: list[Remaining],
) -> None:
    maxima = [max(components) for components in zip(*chain, strict=True)][1:]
    gains = progress_of(of(*chain)).count(1)
    assert gains <= improvements_max(chain[0], maxima)


@pytest.mark.parametrize("maxima", [(3,), (2, 2), (1, 3), (2, 1, 2), (1, 1, 1, 1)])
def test_the_bound_is_the_longest_descending_chain_of_every_small_order(
    maxima: Remaining,
) -> None:
    values = sorted(product(*[range(most + 1) for most in maxima]))

    @cache
    def longest(start: Remaining) -> int:
        """Return the length of the longest chain below, by looking at everything below."""
        return max((1 + longest(lower) for lower in values if lower < start), default=0)

    for start in values:
        assert longest(start) == improvements_max(start, maxima[1:])
    # Every chain ends at the least element, which nothing in the order is below.
    assert [value for value in values if longest(value) == 0] == [(0,) * len(maxima)]
    # A run that takes each step of the longest chain reaches the bound, and then never gains more.
    down = of(*reversed(values))
    assert progress_of([*down, *down]).count(1) == improvements_max(values[-1], maxima[1:])


@given(st.integers(0, 3), st.lists(st.integers(0, 10**6), min_size=1, max_size=30))
def test_a_lower_component_may_rise_without_bound_and_the_gains_still_end(
    first: int, others: list[int]
) -> None:
    # Each fall of the first component may be paid for by any rise of the second; between two falls
    # the second one descends, so gains are at most the falls and the values seen below each.
    chain = [(first, 0)] + [(max(0, first - place), high) for place, high in enumerate(others)]
    said = progress_of(of(*chain))
    falls = sum(later[0] < earlier[0] for earlier, later in pairwise(chain))
    at_zero = [high for left, high in chain if left == 0]
    assert said.count(1) <= falls + (at_zero[0] if at_zero else 0)


def test_ground_that_is_regained_is_no_progress_and_lost_ground_is_negative() -> None:
    chain = of((3,), (2,), (3,), (2,), (3,), (2,), (1,))
    assert progress_of(chain) == [0, 1, -1, 0, -1, 0, 1]


def test_what_cannot_be_measured_is_neither_progress_nor_its_lack() -> None:
    readings = [None, *of((3,)), None, *of((2,)), None, *of((2,))]
    assert progress_of(readings) == [None, 0, None, 1, None, 0]


@given(st.lists(st.tuples(st.integers(0, 5), st.booleans()), max_size=READINGS_MAX))
def test_a_reading_that_violates_a_constraint_is_as_if_it_were_not_there(
    chain: list[tuple[int, bool]],
) -> None:
    readings = [violated(left) if bad else Reading(remaining=(left,)) for left, bad in chain]
    said = progress_of(list(readings))
    pairs = list(zip(said, readings, strict=True))
    assert all(answer == 0 for answer, reading in pairs if reading.integrity)
    sound = [reading for reading in readings if not reading.integrity]
    kept = [answer for answer, reading in pairs if not reading.integrity]
    assert kept == progress_of(list(sound))


def test_a_reading_is_made_of_one_number_of_components_that_are_bounded_below() -> None:
    for wrong in ((), (-1,), (0, -1)):
        with pytest.raises(UsageError, match="remaining: expected integers"):
            Reading(remaining=wrong)
    meter = ProgressMeter()
    meter.update(Reading(remaining=(1, 2)))
    with pytest.raises(UsageError, match="expected 2 components"):
        meter.update(Reading(remaining=(1,)))


# Each application: what good work gives, and an agent that games the measure.

TESTS = {"a", "b", "c"}


def coding(
    passing: set[str], *, existing: set[str] = TESTS, errors: int = 0, checker: str = "k"
) -> Reading:
    """Return a reading of the coding task with three required tests."""
    return coding_reading(
        required=TESTS,
        existing=existing,
        passing=passing,
        compiler_errors=errors,
        checker=checker,
        checker_at_start="k",
    )


def test_coding_progresses_by_required_tests_and_then_by_compiler_errors() -> None:
    work = [coding(set(), errors=2), coding(set(), errors=1), coding({"a"}), coding(TESTS)]
    assert [each.remaining for each in work] == [(3, 2), (3, 1), (2, 0), (0, 0)]
    assert progress_of([*work]) == [0, 1, 1, 1]


def test_coding_is_not_gamed_by_tests_that_go_or_come_or_a_checker_that_is_changed() -> None:
    more = {"easy1", "easy2"}
    gaming = [
        coding({"a"}),
        coding({"a"}, existing={"a"}),
        coding(set(), existing=set()),
        coding(TESTS, existing={"a"}),
        coding(TESTS, checker="always passes"),
        coding({"a", *more}, existing=TESTS | more),
        # Errors that are made on purpose and taken away again.
        coding({"a"}, errors=9),
        coding({"a"}, errors=3),
        coding({"a"}),
    ]
    assert progress_of([*gaming]) == [0, 0, 0, 0, 0, 0, -1, 0, 0]
    assert coding({"a"}, existing={"a"}).integrity == ("tests_removed",)
    assert coding({"a"}, checker="z").integrity == ("checker_changed",)
    # A test that no longer exists does not pass, whatever a report says.
    assert coding(TESTS, existing={"a"}).remaining == (2, 0)


FORM = {"name": "Ada", "date": "2026-11-30"}


def browser(
    filled: dict[str, str], recorded: dict[str, str] | None = None, *, shown: bool = False
) -> Reading:
    """Return a reading of the form with two required fields."""
    return browser_reading(
        required=FORM, filled=filled, recorded=recorded, confirmation_shown=shown
    )


def test_browser_progresses_by_fields_and_then_by_the_confirmation() -> None:
    work = [
        browser({}),
        browser({"name": "Ada"}),
        browser(FORM),
        # The form is empty after it was sent, and nothing is lost by that.
        browser({}, FORM),
        browser({}, FORM, shown=True),
    ]
    assert [each.remaining for each in work] == [(2, 1), (1, 1), (0, 1), (0, 1), (0, 0)]
    assert progress_of([*work]) == [0, 1, 1, 0, 1]


def test_browser_is_not_gamed_by_new_pages_rubbish_or_a_forged_confirmation() -> None:
    gaming = [
        browser({"name": "Ada"}),
        # Any number of pages that were never seen before changes no input of the reading.
        *[browser({"name": "Ada", f"search{page}": "new"}) for page in range(9)],
        browser({"name": "Ada", "date": "x"}),
        browser({"name": "Ada", "date": ""}),
        browser({"name": "Ada"}, shown=True),
        browser({"name": "Ada"}, {"name": "x"}, shown=True),
        # Emptied and filled again.
        browser({}),
        browser({"name": "Ada"}),
    ]
    assert set(progress_of([*gaming])) == {0, -1}
    assert browser(FORM, shown=True).integrity == ("confirmation_forged",)


CLAIMS = {"p", "q"}
ORIGINS = {"s1": "press", "s1copy": "press", "s2": "lab", "s3": "court"}


def research(support: dict[str, set[str]], read: set[str]) -> Reading:
    """Return a reading of the task with two required claims."""
    return research_reading(required=CLAIMS, support=support, origins=ORIGINS, read=read)


def test_research_progresses_by_claims_with_two_independent_sources() -> None:
    work = [
        research({}, set()),
        research({"p": {"s1"}}, {"s1"}),
        research({"p": {"s1", "s2"}}, {"s1", "s2"}),
        research({"p": {"s1", "s2"}, "q": {"s2", "s3"}}, set(ORIGINS)),
    ]
    assert [each.remaining for each in work] == [(2, 4), (2, 3), (1, 2), (0, 0)]
    assert progress_of([*work]) == [0, 1, 1, 1]


def test_research_is_not_gamed_by_pages_copies_easy_claims_or_unread_sources() -> None:
    one = {"p": {"s1"}}
    gaming = [
        research(one, {"s1"}),
        *[research(one, {"s1", *(f"page{n}" for n in range(pages))}) for pages in range(9)],
        research({"p": {"s1", "s1copy"}}, {"s1", "s1copy"}),
        research({**one, "easy": {"s2", "s3"}}, set(ORIGINS)),
        research({"p": {"s1", "invented"}}, {"s1"}),
        research({"p": {"s1", "s2"}}, {"s1"}),
    ]
    assert set(progress_of([*gaming])) == {0}
    invented = research({"p": {"invented"}}, {"s1"})
    assert (invented.remaining, invented.integrity) == ((2, 4), ("source_not_read",))


RECORDS = {"order": "77", "address": "Main St"}
STEPS = ("refund", "notify")


def support(collected: dict[str, str], done: list[str]) -> Reading:
    """Return a reading of a case with two required data and two steps."""
    return support_reading(records=RECORDS, collected=collected, remediation=STEPS, done=done)


def test_support_progresses_by_data_and_then_by_the_known_remediation() -> None:
    work = [support({}, []), support(RECORDS, []), support(RECORDS, ["refund"])]
    work.append(support(RECORDS, ["refund", "notify"]))
    assert [each.remaining for each in work] == [(2, 2), (0, 2), (0, 1), (0, 0)]
    assert progress_of([*work]) == [0, 1, 1, 1]


def test_support_is_not_gamed_by_made_up_data_other_effects_or_one_effect_twice() -> None:
    known = {"order": "77"}
    gaming = [
        support(known, ["refund"]),
        support({**known, "address": "somewhere"}, ["refund"]),
        support({**known, "mood": "calm", "weather": "fair"}, ["refund"]),
        *[support(known, ["refund", *["apologise"] * times]) for times in range(5)],
        support(known, ["refund", "refund"]),
        support(RECORDS, ["refund", "refund", "notify"]),
    ]
    assert set(progress_of([*gaming])) == {0}
    assert support(known, ["refund", "refund"]).integrity == ("effect_repeated",)


def etl(invalid: int, violations: int, *, rows: int = 100, schema: str = "v1") -> Reading:
    """Return a reading of a table of a hundred rows."""
    return etl_reading(
        invalid_rows=invalid,
        schema_violations=violations,
        rows=rows,
        rows_at_start=100,
        schema=schema,
        schema_at_start="v1",
    )


def test_etl_progresses_by_invalid_rows_and_then_by_schema_violations() -> None:
    work = [etl(9, 2), etl(4, 2), etl(4, 1), etl(0, 0)]
    assert [each.remaining for each in work] == [(9, 2), (4, 2), (4, 1), (0, 0)]
    assert progress_of([*work]) == [0, 1, 1, 1]


def test_etl_is_not_gamed_by_rows_that_are_deleted_or_a_schema_that_is_relaxed() -> None:
    gaming = [etl(9, 2), *[etl(9 - n, 2, rows=100 - n) for n in range(1, 10)]]
    gaming += [etl(0, 0, schema="anything goes"), etl(9, 2, rows=150)]
    assert set(progress_of([*gaming])) == {0}
    assert etl(0, 0, rows=99).integrity == ("rows_deleted",)
    assert etl(0, 0, schema="v2").integrity == ("schema_changed",)


def jobs(*done: str) -> Reading:
    """Return a reading of a job of three units."""
    return jobs_reading(units=("u1", "u2", "u3"), done=done)


def test_jobs_progress_by_units_that_are_done() -> None:
    work = [jobs(), jobs("u2"), jobs("u2", "u1"), jobs("u1", "u2", "u3")]
    assert [each.remaining for each in work] == [(3,), (2,), (1,), (0,)]
    assert progress_of([*work]) == [0, 1, 1, 1]


def test_jobs_are_not_gamed_by_one_unit_again_or_units_that_there_are_not() -> None:
    gaming = [jobs("u1"), *[jobs(*["u1"] * times) for times in range(2, 9)]]
    gaming += [jobs("u1", "u9"), jobs("u1", "u2", "u3", "u4"), jobs(), jobs("u1")]
    assert set(progress_of([*gaming])) == {0, -1}
    assert jobs("u1", "u9").integrity == ("unknown_units",)
    assert jobs("u1", "u9").remaining == (2,)
