"""The report that ``loopcore assess`` writes is whole, and opens in a browser as expected.

Theory of operation: a copy of the page gets one script at its end, which measures the page after
layout and writes what it found into the page; the headless browser prints the page. A page with
planted defects shows that each measure can fail. The browser reaches no network.
"""

import html
import json
import re
import subprocess
import sys
from pathlib import Path

import msgspec
import pytest

from loopcore.reporting.inputs import read_results
from loopcore.reporting.view import Report

pytestmark = pytest.mark.slow

ASSESS_SECONDS_MAX = 900
FORMS = ("report.html", "report.md", "report.json")
BROWSER_SECONDS_MAX = 120
BROWSER = [
    "chromium",
    "--headless",
    "--no-sandbox",
    "--disable-gpu",
    "--disable-quic",
    "--no-first-run",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
    "--host-resolver-rules=MAP * ~NOTFOUND",
    "--window-size=1280,1024",
    "--virtual-time-budget=5000",
    "--dump-dom",
]
WATCH = """
<script>window.failures = []; addEventListener("error", e => failures.push(
  e.message || "cannot load " + (e.target.src || e.target.href)), true);</script>
"""
FINDINGS = """
<script>addEventListener("load", () => {
  const all = selector => [...document.querySelectorAll(selector)];
  const box = element => element.getBoundingClientRect();
  const found = {
    heading: (document.querySelector("h1") || {innerText: ""}).innerText,
    tables: all("table").length,
    empty_charts: all("svg, img").filter(e => box(e).width * box(e).height === 0).length,
    overflow_px: document.documentElement.scrollWidth - document.documentElement.clientWidth,
    dead_links: all("a[href^='#']").map(a => a.getAttribute("href"))
      .filter(href => href.length > 1 && !document.getElementById(href.slice(1))),
    outside: all("[src], link[href]").map(e => e.getAttribute("src") || e.getAttribute("href"))
      .filter(address => !address.startsWith("data:")),
    failures: window.failures,
  };
  const note = document.createElement("pre");
  note.id = "findings";
  note.textContent = JSON.stringify(found);
  document.body.append(note);
});</script>
"""
DEFECTIVE = """<!doctype html><title>x</title><h1></h1><svg width="0" height="0"></svg>
<a href="#nowhere">x</a><img src="missing.png" width="5" height="5"><script>nothing()</script>
<div style="width: 3000px">wide</div>"""


class Findings(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """What the browser measured on a page after layout."""

    heading: str
    tables: int
    empty_charts: int
    overflow_px: int
    dead_links: tuple[str, ...]
    outside: tuple[str, ...]
    failures: tuple[str, ...]


def measure(page: str, folder: Path) -> Findings:
    """Return what a browser finds on a page, opened from a folder of its own."""
    copy = folder / "measured.html"
    head, doctype, rest = page.partition("<title")
    copy.write_text(head + WATCH + doctype + rest + FINDINGS, encoding="utf-8")
    opened = subprocess.run(
        [*BROWSER, f"--user-data-dir={folder / 'profile'}", copy.as_uri()],
        capture_output=True,
        text=True,
        timeout=BROWSER_SECONDS_MAX,
        check=True,
    )
    written = re.search(r'<pre id="findings">(.*?)</pre>', opened.stdout, re.DOTALL)
    assert written, opened.stdout[-2000:] + opened.stderr[-2000:]
    return msgspec.convert(json.loads(html.unescape(written.group(1))), Findings)


def test_a_whole_assessment_writes_three_forms_of_one_report_and_a_page_that_is_whole(
    tmp_path: Path,
) -> None:
    done = subprocess.run(
        [sys.executable, "-m", "loopcore", "assess", "--out", str(tmp_path)],
        capture_output=True,
        text=True,
        timeout=ASSESS_SECONDS_MAX,
        check=False,
    )
    built = msgspec.json.decode((tmp_path / "report.json").read_bytes(), type=Report)
    assert done.returncode == {"held": 0, "broken": 1, "survived": 1, "unknown": 3}[built.outcome]
    assert done.stderr == ""
    lines = done.stdout.splitlines()
    assert len(lines) <= 8
    assert lines[0] == built.verdict
    assert "completion: identity only" in lines
    assert lines[-1] == f"report: {tmp_path / 'report.html'}"
    assert built.incomplete is None
    chapters = [one.id for one in built.sections if one.level == 2]
    assert chapters[:5] == ["properties", "coverage", "mutations", "worlds", "samples"]
    results = read_results(tmp_path)
    assert results.verify is not None
    assert results.verify.profile == "quick"
    assert results.mutate is not None
    assert results.mutate.subset is not None
    again = subprocess.run(
        [sys.executable, "-m", "loopcore", "report", str(tmp_path), "--out", str(tmp_path / "b")],
        capture_output=True,
        timeout=ASSESS_SECONDS_MAX,
        check=True,
    )
    assert again.stderr == b""
    for name in FORMS:
        assert (tmp_path / name).read_bytes() == (tmp_path / "b" / name).read_bytes()
    found = measure((tmp_path / "report.html").read_text(encoding="utf-8"), tmp_path)
    assert found.heading
    assert found.tables
    assert found == Findings(
        heading=found.heading,
        tables=found.tables,
        empty_charts=0,
        overflow_px=0,
        dead_links=(),
        outside=(),
        failures=(),
    )


def test_each_measure_sees_its_defect(tmp_path: Path) -> None:
    found = measure(DEFECTIVE, tmp_path)
    assert found.heading == ""
    assert found.tables == 0
    assert found.empty_charts == 1
    assert found.overflow_px > 0
    assert found.dead_links == ("#nowhere",)
    assert found.outside == ("missing.png",)
    assert any("nothing" in failure for failure in found.failures)
    assert any("missing.png" in failure for failure in found.failures)
