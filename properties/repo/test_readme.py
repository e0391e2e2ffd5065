"""The README lists the commands that exist, and its one-line set-ups run as they stand.

The test command below the marker is also what .ci/run runs, so that the two cannot drift apart.
"""

import re
import shlex
from pathlib import Path

import pytest

FENCED_AFTER = r"<!-- {} -->\n```\w+\n(.*?)^```$"
COMMAND_ROW = re.compile(r"^\| `([a-z-]+)` \| (.*) \|$", re.MULTILINE)
LINK = re.compile(r"\]\((?!https?:|#)([^)#]+)")
# What each marked command ends with: the program that it is there to run.
MARKED_COMMANDS = {"assess": ".venv/bin/loopcore assess", "test": ".venv/bin/pytest"}


@pytest.fixture(scope="module")
def readme(root: Path) -> str:
    return (root / "README.md").read_text(encoding="utf-8")


def fenced(readme: str, marker: str) -> str:
    """Return the text of the one fenced block that follows a marker."""
    blocks = re.findall(FENCED_AFTER.format(re.escape(marker)), readme, re.DOTALL | re.MULTILINE)
    assert len(blocks) == 1, f"{len(blocks)} blocks follow the marker {marker!r}"
    return str(blocks[0])


@pytest.mark.parametrize(("name", "program"), MARKED_COMMANDS.items(), ids=MARKED_COMMANDS.keys())
def test_a_marked_command_is_one_line_from_nothing_to_its_program(
    name: str, program: str, readme: str
) -> None:
    (line,) = fenced(readme, f"command: {name}").splitlines()
    steps = line.split(" && ")
    assert steps[0] == "python3 -m venv .venv"
    assert steps[-1].startswith(program)
    assert all(shlex.split(step) for step in steps)


def test_the_first_command_is_followed_by_its_output(readme: str) -> None:
    assert fenced(readme, "output: assess").strip()


def test_the_readme_lists_the_commands_that_exist(readme: str, commands: dict[str, str]) -> None:
    _, _, section = readme.partition("<!-- commands -->\n")
    table, _, _ = section.partition("\n\n")
    assert commands
    assert COMMAND_ROW.findall(table) == list(commands.items())


def test_every_link_to_a_file_finds_it(readme: str, root: Path) -> None:
    assert not [link for link in LINK.findall(readme) if not (root / link).exists()]
