"""What the tests about the repository share: where it is, what it holds, how to run a tool on it.

Only files that git knows, or would add, belong to the repository. A virtual environment, a cache
or a result folder beside them is nobody's claim.
"""

import re
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
TOOL_SECONDS_MAX = 300
HELP_COMMAND_LINE = re.compile(r"^ {2,4}([a-z][a-z-]+) +(.*)$", re.MULTILINE)

Run = subprocess.CompletedProcess[str]


def run_tool(arguments: list[str], folder: Path, stdin: str) -> Run:
    """Return the finished process of one tool of this environment, with its output as text.

    The first argument is the tool's name as it stands beside the interpreter.
    """
    tool = Path(sys.executable).parent / arguments[0]
    return subprocess.run(
        [str(tool), *arguments[1:]],
        cwd=folder,
        input=stdin,
        capture_output=True,
        text=True,
        timeout=TOOL_SECONDS_MAX,
        check=False,
    )


@pytest.fixture(scope="session")
def root() -> Path:
    """Return the folder of the checkout."""
    return ROOT


@pytest.fixture(scope="session")
def tool() -> Callable[[list[str], Path, str], Run]:
    """Return the function that runs a tool of this environment."""
    return run_tool


@pytest.fixture(scope="session")
def files() -> tuple[Path, ...]:
    """Return every file of the repository, relative to its root, in order."""
    listing = subprocess.run(
        ["git", "ls-files", "-z", "--cached", "--others", "--exclude-standard"],
        cwd=ROOT,
        capture_output=True,
        text=True,
        timeout=TOOL_SECONDS_MAX,
        check=True,
    )
    names = sorted({name for name in listing.stdout.split("\0") if name})
    return tuple(Path(name) for name in names if (ROOT / name).is_file())


@pytest.fixture(scope="session")
def python_files(files: tuple[Path, ...]) -> tuple[Path, ...]:
    """Return every Python file of the repository, relative to its root."""
    return tuple(path for path in files if path.suffix == ".py")


@pytest.fixture(scope="session")
def commands() -> dict[str, str]:
    """Return what ``loopcore --help`` says of each command, in its order."""
    shown = run_tool(["python", "-m", "loopcore", "--help"], ROOT, "")
    assert shown.returncode == 0, shown.stderr
    _, _, listed = shown.stdout.partition("commands:\n")
    assert listed, f"loopcore --help has no line 'commands:'\n{shown.stdout}"
    section, _, _ = listed.partition("\n\n")
    return dict(HELP_COMMAND_LINE.findall(section))
