"""Claim: an audit that was altered by hand is one sentence that names its file, or a report."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from loopcore.comparison.audit import audit
from loopcore.errors import InputError
from loopcore.recordings.load import load, samples
from loopcore.reporting import report
from loopcore.reporting.inputs import read_results
from loopcore.results import write_result

# Where in the audit a value is replaced, and by what; every one of them can be read as typed.
ALTERATIONS: dict[str, tuple[tuple[str | int, ...], object]] = {
    "a contestant by another name": (("sets", 1, "rows", 0, "contestant"), "x"),
    "two contestants of one name": (("sets", 0, "rows", 0, "contestant"), "D"),
    "a set without contestants": (("sets", 1, "rows"), []),
    "another phase": (("sets", 1, "rows", 0, "phase"), "x"),
    "more hits than runs": (("sets", 0, "rows", 0, "false_stops", "hits"), 10**30),
    "fewer hits than none": (("sets", 0, "rows", 0, "false_stops", "hits"), -1),
    "fewer runs than none": (("sets", 0, "rows", 0, "false_stops", "n"), -1),
    "too many runs": (("sets", 0, "rows", 0, "false_stops", "n"), 10**30),
}


@pytest.fixture(scope="module")
def audited(tmp_path_factory: pytest.TempPathFactory) -> bytes:
    path = tmp_path_factory.mktemp("audit") / "audit.json"
    write_result(path, audit(load([samples()])))
    return path.read_bytes()


def test_the_audit_itself_is_reported(audited: bytes, tmp_path: Path) -> None:
    (tmp_path / "audit.json").write_bytes(audited)
    assert report.build(read_results(tmp_path)).verdict


@pytest.mark.parametrize("name", ALTERATIONS)
def test_an_altered_audit_is_refused_by_name(name: str, audited: bytes, tmp_path: Path) -> None:
    place, value = ALTERATIONS[name]
    document = json.loads(audited)
    inner = document
    for key in place[:-1]:
        inner = inner[key]
    inner[place[-1]] = value
    (tmp_path / "audit.json").write_text(json.dumps(document), encoding="utf-8")
    with pytest.raises(InputError, match=r"audit\.json: ") as raised:
        report.build(read_results(tmp_path))
    assert "\n" not in str(raised.value)
