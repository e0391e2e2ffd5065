"""A report's three forms show the same figures, the same bytes each time, and text as text.

Theory of operation: reports are made of results written by hand. The page is read back by the
standard library's parser, so that what is compared is what a browser would show.
"""

import os
import re
import subprocess
import sys
from pathlib import Path

import msgspec
import pytest

from loopcore.cli import main
from loopcore.lab import run_lab
from loopcore.reporting import html, markdown, report
from loopcore.reporting.inputs import Assessment, Results, Stage, read_results
from loopcore.reporting.view import Report
from loopcore.results import write_result
from properties.core.report_values import (
    everything,
    held,
    mixed_audit,
    mutant,
    mutated,
    parsed,
    verified,
)

COMMAND_SECONDS_MAX = 120
HOSTILE = "<script>alert(1)</script>\"'&$\\frac{$|`*\u202e]]>"
OUTSIDE = re.compile(
    r"https?://(?!www\.w3\.org/(?:2000/svg|1999/xlink)\b)|@import|url\((?!#)|<link|src="
)


def loopcore(*arguments: str, hash_seed: int = 0) -> subprocess.CompletedProcess[str]:
    """Return the finished process of a command."""
    return subprocess.run(
        [sys.executable, "-m", "loopcore", *arguments],
        capture_output=True,
        text=True,
        timeout=COMMAND_SECONDS_MAX,
        check=False,
        env=os.environ | {"PYTHONHASHSEED": str(hash_seed)},
    )


def put(folder: Path, results: Results) -> Path:
    """Write results as a folder of files, as an assessment leaves them."""
    for name, result in {"verify": results.verify, "mutate": results.mutate}.items():
        if result is not None:
            write_result(folder / name / "result.json", result)
    for number, audit in enumerate(results.audits):
        write_result(folder / f"audit-{number}" / "audit.json", audit)
    if results.samples is not None:
        write_result(folder / "samples" / "audit.json", results.samples)
        assessment = Assessment(
            loopcore_version="1",
            command="loopcore assess 'a log'",
            folder="out",
            target="",
            logs=("a log",),
            stages=(Stage(name="verify", file="verify/result.json", state="done"),),
        )
        write_result(folder / "assessment.json", assessment)
    return folder


def shown() -> Report:
    return report.build(everything())


def hostile_results() -> Results:
    audit = mixed_audit(HOSTILE)
    one = audit.sets[0]
    rows = tuple(
        msgspec.structs.replace(row, contestant=f"{HOSTILE}{n}") for n, row in enumerate(one.rows)
    )
    one = msgspec.structs.replace(
        one, rows=rows, models=(HOSTILE,), signals=(HOSTILE,), warnings={HOSTILE: 3}
    )
    audit = msgspec.structs.replace(audit, sets=(one,))
    broken = held("E07", verdict="broken", reason=HOSTILE, file=f"E07-{HOSTILE}.json")
    named = msgspec.structs.replace(mutant(HOSTILE), killed_by=("E01",), reason=HOSTILE)
    return Results(
        verify=verified(broken, name=HOSTILE),
        mutate=mutated(named, subset=HOSTILE),
        audits=(audit,),
    )


@pytest.mark.slow
def test_the_same_results_give_the_same_bytes_in_another_process(tmp_path: Path) -> None:
    put(tmp_path / "in", everything())
    for seed in (1, 2):
        done = loopcore(
            "report", str(tmp_path / "in"), "--out", str(tmp_path / str(seed)), hash_seed=seed
        )
        assert done.returncode == 0, done.stderr
        assert done.stderr == ""
    for name in report.FILES:
        first = (tmp_path / "1" / name).read_bytes()
        assert first
        assert first == (tmp_path / "2" / name).read_bytes()


def test_every_cell_of_the_page_stands_in_the_json_in_the_same_place() -> None:
    built = shown()
    document = msgspec.json.decode(report.as_json(built), type=Report)
    wanted = [
        [[column.label for column in table.columns]]
        + [[cell.text for cell in row] for row in table.rows]
        for section in document.sections
        for table in section.tables
    ]
    tables = parsed(html.render(built)).tables
    assert len(tables) > 10
    assert tables == wanted


def test_every_cell_of_the_json_stands_in_the_markdown_in_the_same_order() -> None:
    built = shown()
    text = markdown.render(built)
    lines = [line for line in text.splitlines() if line.startswith("| ")]
    wanted = [
        "| " + " | ".join(markdown.escaped(cell.text) for cell in row) + " |"
        for section in built.sections
        for table in section.tables
        for row in table.rows
    ]
    assert [line for line in lines if line in set(wanted)] == wanted


def test_the_number_behind_a_cell_is_the_number_that_it_shows() -> None:
    checked = 0
    for section in shown().sections:
        for table in section.tables:
            for cell in (cell for row in table.rows for cell in row if cell.value is not None):
                leading = re.match(r"[+-]?[\d,]+(?:\.\d+)?", cell.text)
                assert leading is not None, cell
                scale = 0.01 if cell.text.endswith("%") and "/" not in cell.text else 1
                read = float(leading.group().replace(",", "")) * scale
                assert cell.value is not None
                assert read == pytest.approx(cell.value, abs=0.006)
                checked += 1
    assert checked > 100


def test_hostile_text_is_shown_as_text_and_makes_no_element() -> None:
    built = report.build(hostile_results())
    page = parsed(html.render(built))
    names = {name for name, _ in page.elements}
    assert "script" not in names
    assert not [
        attributes for _, attributes in page.elements if any(a.startswith("on") for a in attributes)
    ]
    text = "".join(page.text)
    assert text.count(HOSTILE) > 10
    harmless = report.build(everything())
    assert names <= {name for name, _ in parsed(html.render(harmless)).elements}


def test_hostile_text_makes_no_element_in_markdown() -> None:
    text = markdown.render(report.build(hostile_results()))
    prose = "\n".join(line for line in text.splitlines() if not line.startswith("    "))
    assert re.search(r"(?<!\\)<", prose) is None
    assert "\\<script\\>" in prose
    rows = [line for line in prose.splitlines() if line.startswith("| ")]
    assert rows
    tables = re.split(r"\n\n", prose)
    for table in (part.splitlines() for part in tables if part.startswith("| ")):
        widths = {len(re.findall(r"(?<!\\)\|", line)) for line in table}
        assert len(widths) == 1, table[0]


def test_the_page_asks_for_nothing_outside_itself() -> None:
    text = html.render(shown())
    assert OUTSIDE.search(text) is None
    assert OUTSIDE.search('<img src="x">')
    assert OUTSIDE.search("https://example.org")


def test_the_page_has_no_id_twice_and_no_dead_link() -> None:
    elements = parsed(html.render(shown())).elements
    ids = [a["id"] for _, a in elements if "id" in a]
    assert len(ids) == len(set(ids))
    targets = [a.get("href") or a.get("xlink:href") or "" for _, a in elements]
    links = [target[1:] for target in targets if target.startswith("#")]
    assert links
    assert set(links) <= set(ids)


def test_every_table_has_a_caption_and_every_heading_a_scope() -> None:
    elements = parsed(html.render(shown())).elements
    names = [name for name, _ in elements]
    assert names.count("caption") == names.count("table") > 0
    assert all(a.get("scope") in ("row", "col") for name, a in elements if name == "th")
    assert all(
        a.get("role") == "img" and a.get("aria-label") for name, a in elements if name == "svg"
    )


def test_the_lab_report_is_shown(tmp_path: Path) -> None:
    write_result(tmp_path / "lab.json", run_lab())
    built = report.build(read_results(tmp_path))
    assert "11 of 11 lab cases ended as they should." in built.facts[-2].sentences


BAD_FILES = {
    "another program's file": b'{"schema": "other/1"}',
    "a later schema": b'{"schema": "loopcore/verify-result/2"}',
    "a file without a schema": b'{"a": 1}',
    "a list": b"[1]",
    "a cut file": b'{"schema": "loopcore/verify-result/1", "seed": ',
    "an empty file": b"",
    "a result without its fields": b'{"schema": "loopcore/mutate-result/1"}',
    "bytes": b"\xff\xfe\x00",
    "deep nesting": b"[" * 100_000,
}


@pytest.mark.parametrize("data", BAD_FILES.values(), ids=BAD_FILES.keys())
def test_a_file_that_is_no_result_is_refused_in_one_sentence_that_names_it(
    data: bytes, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    put(tmp_path / "in", Results(verify=verified()))
    (tmp_path / "in" / 'it\'s "bad".json').write_bytes(data)
    assert main(["report", str(tmp_path / "in"), "--out", str(tmp_path / "out")]) == 2
    printed = capsys.readouterr()
    assert printed.out == ""
    (line,) = printed.err.splitlines()
    assert 'it\'s "bad".json' in line
    assert not (tmp_path / "out").exists()


@pytest.mark.parametrize("options", [("--seed", "1"), ("--runs", "1")])
def test_what_simulate_wrote_is_passed_over(
    options: tuple[str, str], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    put(tmp_path / "in", Results(verify=verified()))
    assert main(["simulate", *options, "--out", str(tmp_path / "in")]) == 0
    assert main(["report", str(tmp_path / "in"), "--out", str(tmp_path / "out")]) == 0
    assert capsys.readouterr().err == ""


def test_a_missing_folder_an_empty_one_and_two_results_of_a_kind_are_refused(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "empty").mkdir()
    put(tmp_path / "two" / "a", Results(verify=verified()))
    put(tmp_path / "two" / "b", Results(verify=verified()))
    for name, said in {"none": "no such folder", "empty": "no result", "two": "two verify"}.items():
        assert main(["report", str(tmp_path / name), "--out", str(tmp_path / "out")]) == 2
        (line,) = capsys.readouterr().err.splitlines()
        assert said in line
        assert name in line


def test_counterexamples_beside_the_results_are_passed_over(tmp_path: Path) -> None:
    put(tmp_path, Results(verify=verified()))
    place = tmp_path / "verify" / "counterexamples"
    place.mkdir()
    text = (
        '{"schema": "loopcore/counterexample/1", "case": {"t": "\\ud800", "n": 1' + "0" * 30 + "}}"
    )
    (place / "E01-x.json").write_text(text)
    assert read_results(tmp_path).verify == verified()


def test_what_is_read_back_is_what_was_written(tmp_path: Path) -> None:
    results = everything()
    put(tmp_path, results)
    again = read_results(tmp_path)
    assert (again.verify, again.mutate, again.audits, again.samples) == (
        results.verify,
        results.mutate,
        results.audits,
        results.samples,
    )
