"""A report opens in a browser without asking for anything, without a complaint, wide and narrow.

Theory of operation: the page is opened from a file by a headless browser whose names all resolve to
nothing and whose log is on. The screenshot shows that something was drawn; a page that does ask for
something, and has a script that fails, shows that both would be seen.
"""

import os
import re
import shutil
import subprocess
from pathlib import Path

import pytest

from loopcore.reporting import html, report
from properties.core.report_values import everything

pytestmark = pytest.mark.slow

BROWSER_SECONDS_MAX = 120
COMPLAINT = re.compile(r"CONSOLE|ERR_[A-Z_]+")
# A request in the browser's log; those that the browser makes for itself have no page behind them.
REQUEST = re.compile(r'"initiator":"([^"]*)".*?"url":"(https?://[^"]*)"')
OWN = "not an origin"
PNG = b"\x89PNG\r\n\x1a\n"
# A blank page of either size makes a smaller picture than this.
PICTURE_BYTES_MIN = 30_000
ASKING = """<!doctype html><title>x</title>
<img src="http://127.0.0.1:48111/x.png"><script>nothing()</script>"""


def browser() -> str:
    """Return the browser that the environment names, or the one that is installed."""
    found = os.environ.get("LOOPCORE_CHROMIUM") or shutil.which("chromium")
    assert found, "LOOPCORE_CHROMIUM names no browser and none is installed as chromium"
    return found


def opened(page: str, folder: Path, width: int) -> tuple[bytes, str]:
    """Return the picture of a page and what the browser logged."""
    source, picture = folder / "page.html", folder / f"{width}.png"
    source.write_text(page, encoding="utf-8")
    done = subprocess.run(
        [
            browser(),
            "--headless",
            "--no-sandbox",
            "--disable-gpu",
            "--disable-quic",
            "--no-first-run",
            "--disable-background-networking",
            "--disable-component-update",
            "--disable-sync",
            "--host-resolver-rules=MAP * ~NOTFOUND",
            "--enable-logging=stderr",
            "--v=0",
            f"--user-data-dir={folder / f'profile-{width}'}",
            f"--log-net-log={folder / f'net-{width}.json'}",
            f"--screenshot={picture}",
            f"--window-size={width},2400",
            source.as_uri(),
        ],
        capture_output=True,
        text=True,
        timeout=BROWSER_SECONDS_MAX,
        check=True,
    )
    net = (folder / f"net-{width}.json").read_text(encoding="utf-8", errors="replace")
    asked = [url for initiator, url in REQUEST.findall(net) if initiator != OWN]
    complaints = [line for line in done.stderr.splitlines() if COMPLAINT.search(line)]
    return picture.read_bytes(), "\n".join([*complaints, *asked])


@pytest.mark.parametrize("width", [1200, 500])
def test_the_report_is_drawn_and_asks_for_nothing(width: int, tmp_path: Path) -> None:
    picture, said = opened(html.render(report.build(everything())), tmp_path, width)
    assert picture.startswith(PNG)
    assert len(picture) > PICTURE_BYTES_MIN
    assert said == ""


def test_a_page_that_asks_and_fails_is_seen(tmp_path: Path) -> None:
    picture, said = opened(ASKING, tmp_path, 800)
    assert len(picture) < PICTURE_BYTES_MIN
    assert "nothing is not defined" in said
    assert "http://127.0.0.1:48111/x.png" in said
