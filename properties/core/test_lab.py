"""Claim: the lab's eleven cases end as they should, and its four digests never move.

The digests are the same in every process, whatever the hash seed; a change of any of them is a
change of the wire format and needs a new release name.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import msgspec

from loopcore.canonical import digest
from loopcore.evaluator import evaluate
from loopcore.lab import LabReport, cases, run_lab
from loopcore.models import Policy, Receipt, Step

POLICY = "ec1fdb859112922f5736115ccb570e4783d01851936f5e8c7fa16ab0dc0725e3"
STEPS = "2a7d45c201c9be9d2be2990dc8276bf907a3ddb02c60f8f9a8102c29f3232b92"
RECEIPT = "48804b49212c342479756e45af5568ece151182cc1a437e5deff9298a6009fd0"
REPORT = "c3330a751629334d11d18f7f5619d166af37e04d774f79465e7c59121d8967ed"


def test_the_lab_prints_eleven_of_eleven_and_its_digests_in_any_process(tmp_path: Path) -> None:
    for seed in ("0", "1", "4242"):
        done = subprocess.run(
            [sys.executable, "-m", "loopcore", "lab", "--out", str(tmp_path)],
            env={**os.environ, "PYTHONHASHSEED": seed},
            capture_output=True,
            check=True,
            text=True,
            timeout=60,
        )
        assert "11 / 11" in done.stdout
        for value in (POLICY, STEPS, RECEIPT, REPORT):
            assert value in done.stdout
        written = json.loads((tmp_path / "lab" / f"{POLICY}.json").read_bytes())
        assert digest(written) == REPORT
        assert msgspec.convert(written, LabReport) == run_lab()


def test_every_case_ends_at_its_last_step() -> None:
    for case in cases():
        receipt = evaluate(case.policy, case.steps)
        assert receipt.terminal == case.expected, case.name
        if case.expected != "input_exhausted":
            assert receipt.terminal_sequence == len(case.steps), case.name


def test_an_evaluator_that_is_wrong_fails_the_lab() -> None:
    def forgets_repetition(policy: Policy, steps: tuple[Step, ...]) -> Receipt:
        lax = msgspec.structs.replace(policy, max_consecutive_repeated_actions=9)
        return evaluate(lax, steps)

    report = run_lab(forgets_repetition)
    assert [row.name for row in report.cases if not row.passed] == ["repeated action"]
    assert (report.passed, report.total) == (10, 11)
