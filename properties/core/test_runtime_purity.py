"""Nothing that the protocol rests on reads a clock, a file, the network or a random number.

Every module of loopcore that can be reached from the pure core by imports is looked at, not only
the one that the contract of the import linter names.
"""

import ast
from functools import cache
from pathlib import Path

import pytest

import loopcore

FORBIDDEN = {"asyncio", "os", "random", "secrets", "socket", "sqlite3", "subprocess", "threading",
             "time"}  # fmt: skip
ROOT = Path(loopcore.__file__).parent.parent
MODULES_MIN = 20


@cache
def imported(name: str) -> set[str]:
    """Return what a module of loopcore imports."""
    path = ROOT / f"{name.replace('.', '/')}.py"
    if not path.is_file():
        path = ROOT / name.replace(".", "/") / "__init__.py"
    found: set[str] = set()
    for node in ast.walk(ast.parse(path.read_bytes())):
        if isinstance(node, ast.Import):
            found |= {alias.name for alias in node.names}
        elif isinstance(node, ast.ImportFrom) and node.module is not None:
            found.add(node.module)
    return found


def reached(start: str) -> dict[str, set[str]]:
    """Return every module of loopcore that an import of one brings in, with its imports."""
    found: dict[str, set[str]] = {}
    waiting = [start]
    while waiting:
        name = waiting.pop()
        if name not in found:
            found[name] = imported(name)
            waiting += [module for module in found[name] if module.split(".")[0] == "loopcore"]
    return found


@pytest.mark.parametrize(
    "start",
    [
        "loopcore.runtime.protocol",
        "loopcore.runtime.projection",
        "loopcore.runtime.continuation",
        "loopcore.runtime.cancelling",
        "loopcore.runtime.scopes",
    ],
)
def test_the_core_is_pure_as_far_as_its_imports_reach(start: str) -> None:
    modules = reached(start)
    impure = {
        name: sorted(names & FORBIDDEN) for name, names in modules.items() if names & FORBIDDEN
    }
    assert impure == {}


def test_the_search_sees_impurity_where_it_is() -> None:
    assert len(reached("loopcore.runtime.protocol")) > MODULES_MIN
    assert "asyncio" in reached("loopcore.runtime.runner")["loopcore.runtime.driving"]
