"""Imports run downward only, the pure core is pure, and the suite folders never import each other.

The contracts stand in pyproject.toml. Each is also broken on purpose in a copy, since a contract
that cannot fail says nothing.
"""

import ast
import re
import shutil
import tomllib
from collections.abc import Callable, Iterator
from pathlib import Path
from subprocess import CompletedProcess

SUITE_FOLDERS = {"bench", "mutations", "notebooks", "properties", "reports"}
# In the wheel this folder has another name, so its files cannot import even each other by theirs.
SHIPPED = ("properties", "loop")
HIGHEST_PURE_LAYER = "control"

Tool = Callable[[list[str], Path, str], CompletedProcess[str]]


def imported_names(tree: ast.Module) -> Iterator[str]:
    """Yield the top-level package of every import, however deep in the code it stands."""
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            yield from (alias.name.partition(".")[0] for alias in node.names)
        elif isinstance(node, ast.ImportFrom) and node.level == 0 and node.module:
            yield node.module.partition(".")[0]


def test_the_contracts_hold(root: Path, tool: Tool) -> None:
    checked = tool(["lint-imports", "--no-cache"], root, "")
    assert checked.returncode == 0, checked.stdout + checked.stderr
    assert re.search(r"Contracts: \d+ kept, 0 broken", checked.stdout), checked.stdout


def test_each_contract_breaks_on_a_planted_import(root: Path, tmp_path: Path, tool: Tool) -> None:
    shutil.copytree(root / "loopcore", tmp_path / "loopcore")
    shutil.copy(root / "pyproject.toml", tmp_path)
    with (tmp_path / "loopcore" / "errors.py").open("a", encoding="utf-8") as module:
        module.write("\nimport loopcore.evaluator\n")
    with (tmp_path / "loopcore" / "canonical.py").open("a", encoding="utf-8") as module:
        module.write("\nimport time\n")
    checked = tool(["lint-imports", "--no-cache"], tmp_path, "")
    assert checked.returncode == 1, checked.stdout
    assert "Contracts: 0 kept, 2 broken" in checked.stdout


def test_the_purity_contract_names_every_pure_module(root: Path) -> None:
    settings = tomllib.loads((root / "pyproject.toml").read_text(encoding="utf-8"))
    layers, purity = settings["tool"]["importlinter"]["contracts"]
    rows: list[str] = layers["layers"]
    pure = {
        f"loopcore.{name}"
        for row in rows[rows.index(HIGHEST_PURE_LAYER) :]
        for name in re.findall(r"\w+", row)
        if (root / "loopcore" / name).is_dir() or (root / "loopcore" / f"{name}.py").is_file()
    }
    # Rooms with a driver in them, whose core is pure all the same.
    for name in ("runtime/protocol", "store/journal"):
        if (root / "loopcore" / f"{name}.py").is_file():
            pure.add(f"loopcore.{name.replace('/', '.')}")
    assert set(purity["source_modules"]) == pure


def test_no_file_imports_a_suite_folder_that_is_not_its_own(
    root: Path, python_files: tuple[Path, ...]
) -> None:
    crossing = [
        f"{path} imports {name}"
        for path in python_files
        for name in imported_names(ast.parse((root / path).read_bytes()))
        if name in SUITE_FOLDERS and (name != path.parts[0] or path.parts[:2] == SHIPPED)
    ]
    assert not crossing
