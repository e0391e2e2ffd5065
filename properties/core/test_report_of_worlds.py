"""Claim: the chapter on worlds shows the benchmark's own figures, and says what they are not.

A small sweep is put through the report. Its cells are compared with the result that they were made
from; a cap that beats a level must be said in words, and so must a sweep that was cut short.
"""

from __future__ import annotations

import msgspec
import pytest

from loopcore.comparison.bench import default_settings, result_of
from loopcore.comparison.bench_results import BenchResult, Family
from loopcore.comparison.bench_tables import cap_in_words
from loopcore.comparison.sweep import sweep
from loopcore.comparison.sweep_executors import SerialExecutor
from loopcore.reporting import html, report
from loopcore.reporting.inputs import Results
from loopcore.reporting.worlds import worlds
from properties.core.report_values import mixed_audit

TASKS = 60


@pytest.fixture(scope="module")
def bench() -> BenchResult:
    """Return the result of a small sweep of one application in both tiers."""
    settings = msgspec.structs.replace(
        default_settings(stepwise=TASKS, columnar=TASKS), applications=("coding",), resamples=40
    )
    return result_of(sweep(settings, SerialExecutor()), ceiling=0.5)


def with_difference(family: Family, figure: str, low: float, high: float) -> Family:
    """Return the family with another difference of level D to the calibrated cap in one figure."""
    changed = [
        msgspec.structs.replace(
            one,
            difference=(low + high) / 2,
            interval=msgspec.structs.replace(one.interval, low=low, high=high),
        )
        if (one.first, one.second, one.figure) == ("D verify", "calibrated-cap verify", figure)
        and one.interval is not None
        else one
        for one in family.differences
    ]
    return msgspec.structs.replace(family, differences=tuple(changed))


def test_every_false_stop_rate_of_the_result_stands_in_its_familys_table(
    bench: BenchResult,
) -> None:
    tables = {table.id: table for section in worlds(bench) for table in section.tables}
    for tier in bench.tiers:
        for family in tier.families:
            rows = {row[0].text: row for row in tables[f"worlds-{tier.name}-{family.name}"].rows}
            assert set(rows) == {row.label for row in family.rows}
            for row in family.rows:
                value = row.figures["false_stop_rate"].value
                assert rows[row.label][1].value == value


def test_the_calibrated_cap_stands_in_every_table_and_its_verdict_in_words(
    bench: BenchResult,
) -> None:
    for tier in bench.tiers:
        for family in tier.families:
            assert any(row.name == "calibrated-cap" for row in family.rows)
            (words,) = cap_in_words(family)
            assert "calibrated step cap" in words


def test_a_cap_that_beats_a_level_is_said_to_and_a_level_that_beats_it_too(
    bench: BenchResult,
) -> None:
    family = bench.tiers[0].families[-1]
    cheaper_cap = with_difference(
        with_difference(family, "cost_per_success", 1.0, 2.0), "false_stop_rate", 0.1, 0.2
    )
    (words,) = cap_in_words(cheaper_cap)
    assert "beats level" in words
    assert "D" in words.split(" and is beaten by ")[0]
    cheaper_level = with_difference(
        with_difference(family, "cost_per_success", -2.0, -1.0), "false_stop_rate", -0.2, -0.1
    )
    (words,) = cap_in_words(cheaper_level)
    assert "D" in words.split(" and is beaten by ")[1].split(";")[0]


def test_the_report_of_a_sweep_that_was_cut_short_says_so(bench: BenchResult) -> None:
    cut = msgspec.structs.replace(bench, complete=False, chunks_done=1)
    built = report.build(Results(bench=cut))
    assert built.incomplete is not None
    assert "Interrupted: 1 of" in html.render(built)


def test_the_page_shows_the_curve_the_front_twins_and_recordings_beside(
    bench: BenchResult,
) -> None:
    audit = mixed_audit("a set")
    kinds = tuple(msgspec.structs.replace(one, kind="coding") for one in audit.sets)
    page = html.render(
        report.build(Results(bench=bench, audits=(msgspec.structs.replace(audit, sets=kinds),)))
    )
    for words in (
        "Worlds with known truth",
        "We built these worlds",
        "chance of recovery (rho)",
        "cost saved, % of level A",
        "Twins: pathologies",
        "Thresholds of level D, tuned on coding",
        "Worlds beside recorded runs",
    ):
        assert words in page, words


def test_the_same_result_gives_the_same_page(bench: BenchResult) -> None:
    pages = {html.render(report.build(Results(bench=bench))) for _ in range(2)}
    assert len(pages) == 1
