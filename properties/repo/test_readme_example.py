"""Claim: the loop that the README wraps runs as it stands there, and says what the README says."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

SECONDS_MAX = 60


def test_the_wrapped_loop_pays_both_orders_once(root: Path, tmp_path: Path) -> None:
    readme = (root / "README.md").read_text(encoding="utf-8")
    (example,) = [
        block
        for block in re.findall(r"```python\n(.*?)```", readme, re.DOTALL)
        if "Runner(" in block
    ]
    expected = re.findall(r"print\(.*\)\s+# (.+)", example)
    assert expected == ["completed 2 2"]
    ran = subprocess.run(
        [sys.executable, "-c", example],
        cwd=tmp_path,
        capture_output=True,
        text=True,
        timeout=SECONDS_MAX,
        check=False,
    )
    assert (ran.returncode, ran.stderr, ran.stdout.strip()) == (0, "", expected[0])
    again = subprocess.run(
        [sys.executable, "-c", example],
        cwd=tmp_path,
        capture_output=True,
        text=True,
        timeout=SECONDS_MAX,
        check=False,
    )
    # The bank of the example is new, and the run of the journal is over: nothing is paid again.
    assert again.stdout.strip() == "completed 2 0"
