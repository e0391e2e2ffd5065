"""The report that ``loopcore assess`` writes opens in a browser as its reader expects.

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

pytestmark = pytest.mark.slow

ASSESS_SECONDS_MAX = 900
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


def test_the_report_of_an_assessment_is_whole(root: Path, tmp_path: Path) -> None:
    subprocess.run(
        [sys.executable, "-m", "loopcore", "assess", "--profile", "quick", "--out", str(tmp_path)],
        cwd=root,
        capture_output=True,
        timeout=ASSESS_SECONDS_MAX,
        check=True,
    )
    (report,) = tmp_path.glob("*.html")
    found = measure(report.read_text(encoding="utf-8"), tmp_path)
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
