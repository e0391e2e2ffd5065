"""Asking loopcore for its version or for help imports nothing heavy.

The interpreter itself reports its imports (``-X importtime``), in a fresh process for each
question. The last test asks for a heavy package on purpose, to show that it would be seen.
"""

import re
import subprocess
import sys

QUESTION_SECONDS_MAX = 60
IMPORTED = re.compile(r"^import time:[ 0-9|]+\| +(\S+)$", re.MULTILINE)
HEAVY = {
    "asyncio",
    "hypothesis",
    "importlib.metadata",
    "jinja2",
    "matplotlib",
    "numpy",
    "pandas",
    "pytest",
    "rich",
}
NEEDED_ONLY_FOR_DOCUMENTS = {"msgspec"}


def imports_of(*arguments: str) -> set[str]:
    """Return the names of the modules that one run of the interpreter imports."""
    run = subprocess.run(
        [sys.executable, "-X", "importtime", *arguments],
        capture_output=True,
        text=True,
        timeout=QUESTION_SECONDS_MAX,
        check=False,
    )
    assert run.returncode == 0, run.stderr[-2000:]
    return set(IMPORTED.findall(run.stderr))


def test_the_version_needs_neither_heavy_packages_nor_the_decoder() -> None:
    names = imports_of("-m", "loopcore", "--version")
    assert "loopcore.cli" in names
    assert names.isdisjoint(HEAVY | NEEDED_ONLY_FOR_DOCUMENTS)


def test_the_help_needs_neither_heavy_packages_nor_the_decoder() -> None:
    names = imports_of("-m", "loopcore", "--help")
    assert "loopcore.cli" in names
    assert names.isdisjoint(HEAVY | NEEDED_ONLY_FOR_DOCUMENTS)


def test_the_help_of_a_command_needs_no_heavy_package(commands: dict[str, str]) -> None:
    heavy = {name: imports_of("-m", "loopcore", name, "--help") & HEAVY for name in commands}
    assert heavy
    assert not {name: found for name, found in heavy.items() if found}


def test_loading_the_pytest_plugin_needs_no_heavy_package_of_ours() -> None:
    names = imports_of("-c", "import loopcore.pytest_plugin")
    assert names.isdisjoint({"hypothesis", "jinja2", "matplotlib", "msgspec", "numpy", "pandas"})


def test_a_heavy_import_would_be_seen() -> None:
    assert {"asyncio", "msgspec"} <= imports_of("-c", "import asyncio, msgspec")
