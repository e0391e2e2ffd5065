"""The engine gives each of five verdicts for its own reason, and never calls the unknown held."""

import itertools
import json
import time
from collections.abc import Callable

import pytest
from hypothesis import strategies as st

from loopcore.errors import InputError, TargetError, UsageError
from loopcore.results import PropertyResult
from loopcore.suite import load_target
from loopcore.testing.contract import Case, EvaluatorTarget, Judgement, Need, Property
from loopcore.testing.examining import examine
from loopcore.testing.profiles import PROFILES, Profile
from loopcore.verification.engine import Verified, run
from loopcore.verification.rerun import rerun

QUICK = PROFILES["quick"]
OURS = load_target()

Judge = Callable[[EvaluatorTarget, Case], Judgement]


def numbers() -> st.SearchStrategy[Case]:
    """Cases that hold one number."""
    return st.integers(0, 10**6).map(lambda number: {"number": number})


def number_of(case: Case) -> int:
    """The number of such a case."""
    return int(str(case["number"]))


def no_goals(target: EvaluatorTarget) -> frozenset[str]:
    """Nothing must be witnessed."""
    del target
    return frozenset()


def asking(
    judge: Judge,
    name: str = "E50",
    *,
    cases: Callable[[], st.SearchStrategy[Case]] = numbers,
    examples: tuple[Case, ...] = (),
    needs: frozenset[Need] = frozenset(),
    goals: Callable[[EvaluatorTarget], frozenset[str]] = no_goals,
) -> Property:
    """A property of such cases."""
    return Property(
        id=name,
        name=f"name-of-{name}",
        statement=f"What {name} says.",
        prevents="nothing",
        mutants=(),
        cases=cases,
        judge=judge,
        examples=examples,
        needs=needs,
        goals=goals,
    )


def holds(target: EvaluatorTarget, case: Case) -> Judgement:
    """Nothing is ever wrong."""
    del target, case
    return Judgement(labels=("seen",))


def finds_large(target: EvaluatorTarget, case: Case) -> Judgement:
    """Numbers from 1,000 on are wrong."""
    del target
    wrong = number_of(case) >= 1000
    return Judgement(finding="too large" if wrong else None, expected=999, got=case["number"])


def crashes_on_large(target: EvaluatorTarget, case: Case) -> Judgement:
    """The target dies of numbers from 1,000 on."""
    if number_of(case) >= 1000:
        raise TargetError("crash", "it died", request=f"request {case['number']}")
    return holds(target, case)


def hangs(target: EvaluatorTarget, case: Case) -> Judgement:
    """The target never answers."""
    del target, case
    raise TargetError("hang", "no answer", request="request")


def verdicts(verified: Verified) -> dict[str, str]:
    """The verdict of each property."""
    return {each.id: each.verdict for each in verified.result.properties}


def row(verified: Verified, name: str) -> PropertyResult:
    """The result of one property."""
    return next(each for each in verified.result.properties if each.id == name)


@pytest.mark.slow
@pytest.mark.parametrize("profile", PROFILES.values(), ids=PROFILES)
def test_held_needs_the_examples_of_the_profile(profile: Profile) -> None:
    outcome = examine(asking(holds), OURS, profile, 0)
    assert outcome.verdict == "held"
    assert outcome.examples >= {"quick": 50, "default": 500, "thorough": 5000}[profile.name]
    assert outcome.labels["seen"] == outcome.examples


def test_too_few_distinct_examples_are_unknown() -> None:
    few = asking(holds, cases=lambda: st.sampled_from([{"number": n} for n in range(49)]))
    outcome = examine(few, OURS, QUICK, 0)
    assert (outcome.verdict, outcome.examples) == ("unknown", 49)
    assert outcome.reason == "49 examples, and 50 are needed"


def test_vacuous_cases_are_no_examples() -> None:
    def judge(target: EvaluatorTarget, case: Case) -> Judgement:
        del target
        return Judgement(vacuous=number_of(case) > 10)

    outcome = examine(asking(judge), OURS, QUICK, 0)
    assert outcome.verdict == "unknown"
    assert outcome.examples <= 11
    assert outcome.vacuous >= 50


def test_a_goal_that_is_never_witnessed_is_not_exercised() -> None:
    goals = asking(holds, goals=lambda target: frozenset({"seen", "never", "nor this"}))
    outcome = examine(goals, OURS, QUICK, 0)
    assert (outcome.verdict, outcome.missing) == ("not exercised", ("never", "nor this"))
    assert outcome.reason == "never witnessed: never, nor this"


def test_the_search_goes_on_for_a_rare_goal() -> None:
    seen = itertools.count()

    def judge(target: EvaluatorTarget, case: Case) -> Judgement:
        del target, case
        return Judgement(labels=("rare",) if next(seen) == 120 else ())

    rare = asking(judge, goals=lambda target: frozenset({"rare"}))
    assert examine(rare, OURS, QUICK, 0).verdict == "held"


def test_a_finding_is_broken_with_the_smallest_case() -> None:
    outcome = examine(asking(finds_large), OURS, QUICK, 0)
    assert outcome.verdict == "broken"
    assert outcome.reason == "too large"
    assert outcome.broken is not None
    assert outcome.broken.case == {"number": 1000}
    assert (outcome.broken.expected, outcome.broken.got) == (999, 1000)


def test_an_explicit_case_that_fails_gives_way_to_a_smaller_one() -> None:
    explicit = asking(finds_large, examples=({"number": 10**9},))
    outcome = examine(explicit, OURS, QUICK, 0)
    assert outcome.broken is not None
    assert outcome.broken.case == {"number": 1000}


def test_an_explicit_case_alone_is_enough_to_break() -> None:
    small = asking(finds_large, examples=({"number": 10**9},), cases=lambda: st.just({"number": 1}))
    outcome = examine(small, OURS, QUICK, 0)
    assert outcome.verdict == "broken"
    assert outcome.broken is not None
    assert outcome.broken.case == {"number": 10**9}


def test_a_target_that_answers_one_case_in_two_ways_is_broken() -> None:
    answers = itertools.count()

    def judge(target: EvaluatorTarget, case: Case) -> Judgement:
        del target, case
        return Judgement(finding="sometimes" if next(answers) == 5 else None)

    assert examine(asking(judge), OURS, QUICK, 0).verdict == "broken"


def test_shrinking_ends_in_time() -> None:
    def judge(target: EvaluatorTarget, case: Case) -> Judgement:
        time.sleep(0.05)
        return finds_large(target, case)

    patient = Profile(name="quick", examples=50, shrink_seconds=0.2)
    started = time.monotonic()
    outcome = examine(asking(judge, examples=({"number": 10**9},)), OURS, patient, 0)
    assert outcome.verdict == "broken"
    assert time.monotonic() - started < 3.0


def test_a_check_that_raises_is_unknown_and_says_so() -> None:
    def judge(target: EvaluatorTarget, case: Case) -> Judgement:
        del target
        raise KeyError(f"oh {case}")

    outcome = examine(asking(judge), OURS, QUICK, 0)
    assert outcome.verdict == "unknown"
    assert outcome.reason is not None
    assert "the check itself failed (KeyError" in outcome.reason


def test_a_strategy_that_raises_is_unknown() -> None:
    def cases() -> st.SearchStrategy[Case]:
        raise ZeroDivisionError

    assert examine(asking(holds, cases=cases), OURS, QUICK, 0).verdict == "unknown"


def test_what_a_target_lacks_is_not_applicable_with_the_reason() -> None:
    target = load_target()
    target.wire = "values"
    target.incremental = False
    target.releases = ("loopcore-reference/1",)
    lacking: dict[Need, str] = {"bytes": "text", "incremental": "form", "extended": "release"}
    for need, words in lacking.items():
        outcome = examine(asking(holds, needs=frozenset({need})), target, QUICK, 0)
        assert outcome.verdict == "not applicable"
        assert words in str(outcome.reason)
        assert examine(asking(holds, needs=frozenset({need})), OURS, QUICK, 0).verdict == "held"


def test_a_target_error_makes_its_property_unknown_and_breaks_e15() -> None:
    properties = (asking(crashes_on_large, "E06"), asking(holds, "E15"), asking(holds, "E16"))
    verified = run(OURS, properties, QUICK)
    assert verdicts(verified) == {"E06": "unknown", "E15": "broken", "E16": "held"}
    assert row(verified, "E06").counterexample is None
    (counterexample,) = verified.counterexamples.values()
    assert (counterexample.property, counterexample.judged_by) == ("E15", "E06")
    assert counterexample.case == {"number": 1000}
    assert counterexample.request == "request 1000"
    assert rerun(counterexample, OURS, properties).verdict == "broken"
    fixed = (asking(holds, "E06"), asking(holds, "E15"))
    assert rerun(counterexample, OURS, fixed).verdict == "held"


def test_e15_is_broken_even_when_it_was_not_asked_for() -> None:
    verified = run(OURS, (asking(crashes_on_large, "E06"),), QUICK)
    assert verdicts(verified) == {"E06": "unknown", "E15": "broken"}


def test_e15_is_broken_by_its_own_case_when_it_finds_one() -> None:
    properties = (asking(hangs, "E06"), asking(crashes_on_large, "E15"))
    verified = run(OURS, properties, QUICK)
    assert verdicts(verified) == {"E06": "unknown", "E15": "broken"}
    (counterexample,) = verified.counterexamples.values()
    assert (counterexample.judged_by, counterexample.case) == ("E15", {"number": 1000})


def test_a_hang_is_not_repeated_to_make_its_case_smaller() -> None:
    asked: list[Case] = []

    def judge(target: EvaluatorTarget, case: Case) -> Judgement:
        asked.append(case)
        return hangs(target, case)

    verified = run(OURS, (asking(judge, "E06"), asking(holds, "E15")), QUICK)
    assert verdicts(verified) == {"E06": "unknown", "E15": "broken"}
    assert len(asked) == 1


def test_the_same_seed_gives_the_same_cases_and_another_seed_others() -> None:
    def cases_of(seed: int) -> list[str]:
        asked: list[str] = []

        def judge(target: EvaluatorTarget, case: Case) -> Judgement:
            asked.append(json.dumps(case))
            return holds(target, case)

        examine(asking(judge), OURS, QUICK, seed)
        return asked

    assert cases_of(1) == cases_of(1)
    assert cases_of(1) != cases_of(2)


def test_an_interruption_keeps_what_was_finished() -> None:
    def judge(target: EvaluatorTarget, case: Case) -> Judgement:
        raise KeyboardInterrupt

    properties = (asking(holds, "E01"), asking(judge, "E02"), asking(holds, "E03"))
    verified = run(OURS, properties, QUICK)
    assert verdicts(verified) == {"E01": "held"}
    assert verified.result.interrupted


def test_a_rerun_judges_the_saved_case_and_no_other() -> None:
    found = run(OURS, (asking(finds_large),), QUICK).counterexamples
    (counterexample,) = found.values()
    asked: list[Case] = []

    def judge(target: EvaluatorTarget, case: Case) -> Judgement:
        asked.append(case)
        return finds_large(target, case)

    again = rerun(counterexample, OURS, (asking(judge),))
    assert (again.verdict, again.reason) == ("broken", "too large")
    assert asked == [counterexample.case]


def test_a_rerun_that_proves_nothing_is_unknown() -> None:
    (counterexample,) = run(OURS, (asking(finds_large),), QUICK).counterexamples.values()
    vacuous = asking(lambda target, case: Judgement(vacuous=True))
    assert rerun(counterexample, OURS, (vacuous,)).verdict == "unknown"
    assert rerun(counterexample, OURS, (asking(hangs),)).verdict == "unknown"
    assert rerun(counterexample, OURS, (asking(holds),)).verdict == "held"


def test_a_rerun_refuses_what_it_cannot_judge() -> None:
    (counterexample,) = run(OURS, (asking(finds_large),), QUICK).counterexamples.values()
    with pytest.raises(UsageError, match="no property 'E50'"):
        rerun(counterexample, OURS, ())

    def judge(target: EvaluatorTarget, case: Case) -> Judgement:
        raise KeyError("policy")

    with pytest.raises(InputError, match="no case of E50"):
        rerun(counterexample, OURS, (asking(judge),))
