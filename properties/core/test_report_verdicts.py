"""A report's sentences follow from its results: the verdict, the first fact, what is unknown.

Theory of operation: results are made by hand so that each can be changed in one point, and what a
report says must change with it. Nothing that is unknown, interrupted or small reads like a pass.
"""

from collections import Counter
from collections.abc import Sequence

import msgspec
import pytest

from loopcore.recordings.load import load, samples
from loopcore.recordings.model import Run
from loopcore.reporting import html, report
from loopcore.reporting.inputs import Results
from loopcore.reporting.view import Outcome, Report, Section, Table
from properties.core.report_values import (
    audited,
    distinct,
    everything,
    held,
    mixed_audit,
    mutant,
    mutated,
    parsed,
    recorded,
    verified,
)

FINE = verified()
CUT = msgspec.structs.replace(FINE, interrupted=True)
UNMADE = msgspec.structs.replace(mutant("m9"), verdict="broken", killed_by=())
OUTCOMES: dict[str, tuple[Results, Outcome, str]] = {
    "all held": (Results(verify=FINE, mutate=mutated()), "held", "kept all 2 rules"),
    "held, no faults planted": (Results(verify=FINE), "held", "was not checked"),
    "one broken": (
        Results(verify=verified(held("E01"), held("E07", verdict="broken"))),
        "broken",
        "broke 1 of 2 rules",
    ),
    "one unknown": (
        Results(verify=verified(held("E01"), held("E07", verdict="unknown"))),
        "unknown",
        "1 of 2 rules could not be judged (E07)",
    ),
    "one not exercised": (
        Results(verify=verified(held("E01"), held("E02", verdict="not exercised"))),
        "unknown",
        "No verdict",
    ),
    "broken and unknown": (
        Results(verify=verified(held("E01", verdict="broken"), held("E02", verdict="unknown"))),
        "broken",
        "failed",
    ),
    "interrupted": (Results(verify=CUT, mutate=mutated()), "unknown", "interrupted"),
    "nothing tested": (
        Results(verify=msgspec.structs.replace(FINE, properties=())),
        "unknown",
        "No verdict",
    ),
    "one not applicable": (
        Results(verify=verified(held("E01"), held("E16", verdict="not applicable"))),
        "held",
        "kept the one rule that",
    ),
    "a survivor": (
        Results(verify=FINE, mutate=mutated(mutant("m1"), mutant("m2", survived=True))),
        "survived",
        "1 of 2 planted faults went unnoticed",
    ),
    "a wrong verdict on an altered trace": (
        Results(verify=FINE, mutate=mutated(agreed=False)),
        "survived",
        "1 altered trace got a wrong verdict",
    ),
    "a fault that could not be planted": (
        Results(verify=FINE, mutate=mutated(mutant("m1"), UNMADE)),
        "unknown",
        "caught all 1 planted fault",
    ),
    "only recordings": (Results(audits=(mixed_audit(),)), "nothing", "gives no verdict"),
    "only faults": (Results(mutate=mutated()), "unknown", "gives no verdict"),
}


def section(built: Report, name: str) -> Section:
    return next(one for one in built.sections if one.id == name)


def table(one: Section, ending: str) -> Table:
    return next(found for found in one.tables if found.id.endswith(ending))


def cells(one: Table, column: str) -> dict[str, str]:
    place = [head.label for head in one.columns].index(column)
    return {row[0].text: row[place].text for row in one.rows}


@pytest.mark.parametrize(("results", "outcome", "words"), OUTCOMES.values(), ids=OUTCOMES.keys())
def test_the_verdict_follows_from_the_results(
    results: Results, outcome: Outcome, words: str
) -> None:
    built = report.build(results)
    assert built.outcome == outcome
    assert words in built.verdict


def test_every_report_says_on_its_first_screen_that_completion_is_identity_only() -> None:
    for results, _, _ in OUTCOMES.values():
        built = report.build(results)
        assert "completion: identity only" in [s for fact in built.facts for s in fact.sentences]
        first_screen = html.render(built).partition("<nav")[0]
        assert "completion: identity only" in first_screen


def three_times_anywhere(runs: Sequence[Run]) -> tuple[int, int]:
    """Count the successes in which some call stands three times, and all successes."""
    good = [run for run in runs if run.success]
    stopped = 0
    for run in good:
        calls = Counter(
            (seen.tool, repr(seen.arguments)) for seen in run.observations if seen.tool is not None
        )
        stopped += max(calls.values(), default=0) >= 3
    return stopped, len(good)


def test_the_first_fact_is_the_count_of_coding_successes_that_repeat_a_call_three_times() -> None:
    runs = [
        recorded(f"t{n}", ["x", "y", "x", "z", "x", "end"] if n < 5 else distinct(6), success=True)
        for n in range(33)
    ]
    built = report.build(Results(audits=(audited(*runs),)))
    stopped, successes = three_times_anywhere(runs)
    (fact,) = [fact for fact in built.facts if fact.label == "Naive rule"]
    assert (stopped, successes) == (5, 33)
    assert f"stops {stopped} of {successes} successful runs" in fact.sentences[0]


def test_the_first_fact_on_the_samples_is_labelled_as_ours() -> None:
    found = load([samples()])
    built = report.build(Results(samples=audited(*found.runs)))
    (fact,) = [fact for fact in built.facts if fact.label == "Naive rule"]
    assert "no evidence about agents" in fact.sentences[0]
    for name, runs in found.sets():
        for sentence in fact.sentences[1:]:
            if sentence.startswith(f"{name}:"):
                stopped, successes = three_times_anywhere(runs)
                assert f"stops {stopped} of {successes} successful runs" in sentence


def test_the_samples_stand_apart_under_a_note_and_not_among_the_recordings() -> None:
    built = report.build(Results(samples=audited(recorded("ours", distinct(3), success=True))))
    assert "wrote these runs ourselves" in (section(built, "samples").note or "")
    assert not [one for one in built.sections if one.id in ("recordings", "set-0")]
    assert "No recorded runs of real agents were compared." in built.facts[-1].sentences


@pytest.mark.parametrize(("tasks", "known"), [(29, False), (30, True)])
def test_a_share_is_known_from_thirty_tasks_on(tasks: int, known: bool) -> None:
    built = report.build(Results(audits=(mixed_audit(tasks=tasks),)))
    one = section(built, "set-0")
    shares = cells(table(one, "-false-stops"), "share") | cells(table(one, "-saved"), "share")
    assert len(shares) > 10
    assert all((text == "unknown (n < 30)") != known for text in shares.values()), shares
    counts = cells(table(one, "-false-stops"), "runs")
    assert counts["total-3"] == f"{-(-tasks // 8)}/{tasks}"


def test_the_calibrated_cap_is_a_row_beside_the_contestants_in_every_table_of_a_set() -> None:
    one = section(report.build(everything()), "set-0")
    for found in one.tables:
        words = " ".join([found.caption, *(row[0].text for row in found.rows)])
        assert "calibrated" in words, found.id
    assert one.plots[0].rows[-1].label == "calibrated step cap"


def test_it_is_said_in_words_where_the_cap_beats_our_levels() -> None:
    runs = [recorded(f"good {n}", distinct(3), success=True) for n in range(40)]
    runs += [recorded(f"bad {n}", distinct(30), success=False) for n in range(40)]
    one = section(report.build(Results(audits=(audited(*runs),))), "set-0")
    assert any(
        "C, D, C without budgets, D without budgets: the cap beats it" in s for s in one.sentences
    )


def test_it_is_said_in_words_where_our_levels_beat_the_cap() -> None:
    runs = [recorded(f"good {n}", distinct(30), success=True) for n in range(40)]
    runs += [recorded(f"bad {n}", ["stuck"] * 30, success=False) for n in range(40)]
    one = section(report.build(Results(audits=(audited(*runs),))), "set-0")
    standing = cells(table(one, "-cap"), "standing")
    assert standing["C without budgets"] == standing["D without budgets"] == "beats the cap"


def test_blindness_censoring_and_the_signal_are_said() -> None:
    one = section(report.build(everything()), "set-0")
    text = " ".join(one.sentences)
    assert "Level D is blind to progress on 80 of 80 runs." in text
    assert "Censored: 20 of the failures" in text
    assert "Progress signal used: none." in text
    names = cells(table(one, "-false-stops"), "runs")
    assert "D (blind to progress on 80 runs)" in names


def test_a_subset_of_faults_is_called_one() -> None:
    built = report.build(everything())
    one = section(built, "mutations")
    assert "subset: two faults only" in (one.note or "")
    assert "subset" in table(one, "kill-matrix").caption
    assert "(a subset of all)" in built.verdict
    whole = report.build(Results(verify=FINE, mutate=mutated()))
    assert "subset" not in html.render(whole).partition("<body>")[2]


def test_what_was_never_met_stands_under_not_covered() -> None:
    built = report.build(Results(verify=FINE))
    assert "Never met among terminals: no_progress." in built.facts[-1].sentences
    assert (
        "Met among generated traces: 1 of 2 terminals, 1 of 1 pairs." in built.facts[-2].sentences
    )


def test_a_broken_rule_shows_its_finding_and_the_command_that_repeats_it() -> None:
    bad = held("E07", verdict="broken", reason="The finish was old.", file="E07-1.json")
    built = report.build(Results(verify=verified(bad)))
    text = "".join(parsed(html.render(built)).text)
    assert "The finish was old." in text
    assert "loopcore verify --rerun DIR/verify/counterexamples/E07-1.json" in text
