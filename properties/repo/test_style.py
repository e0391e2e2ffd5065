"""The linter and the formatter have nothing to say, and the linter would speak up if it had to."""

import json
from collections.abc import Callable
from pathlib import Path
from subprocess import CompletedProcess

import pytest

Tool = Callable[[list[str], Path, str], CompletedProcess[str]]

# A line that breaks a rule of the house, and the code under which the linter refuses it.
REFUSED = {
    "def f(value):\n    return value\n": "ANN001",
    '"""Say nothing."""\nprint(1)\n': "T201",
    "x = 1\n": "D100",
    "x: int = ''  # type: " + "ignore\n": "PGH003",
    "x = 1  # TO" + "DO: later\n": "FIX002",
    "from . import models\n": "TID252",
    "from loopcore.models import *\n": "F403",
    "try:\n    x = 1\nexcept Exception:\n    pass\n": "S110",
    "import typing\n\n\ndef f(x: typing.Any) -> None:\n    del x\n": "ANN401",
    "x = 1  # " + "x" * 100 + "\n": "E501",
}


def test_the_linter_finds_nothing(root: Path, tool: Tool) -> None:
    checked = tool(["ruff", "check", "--no-cache", "--output-format", "concise", "."], root, "")
    assert checked.returncode == 0, checked.stdout + checked.stderr


def test_the_formatter_changes_nothing(root: Path, tool: Tool) -> None:
    checked = tool(["ruff", "format", "--no-cache", "--check", "."], root, "")
    assert checked.returncode == 0, checked.stdout + checked.stderr


@pytest.mark.parametrize(("code", "rule"), REFUSED.items(), ids=REFUSED.values())
def test_the_linter_refuses_what_the_house_refuses(
    code: str, rule: str, root: Path, tool: Tool
) -> None:
    reading = ["--output-format", "json", "--stdin-filename", "loopcore/planted.py", "-"]
    checked = tool(["ruff", "check", "--no-cache", *reading], root, code)
    assert rule in {finding["code"] for finding in json.loads(checked.stdout)}
