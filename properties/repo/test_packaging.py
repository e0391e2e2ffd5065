"""Every dependency has a reason and a use, and the pins are those that the project asks for.

The pins install the same files everywhere: each carries its hashes, none names an address.
"""

import ast
import re
import sys
import tomllib
from collections.abc import Iterator
from pathlib import Path

import pytest
from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

REASON_WORDS_MIN = 3
USER_EXTRAS_IN_ALL = "loopcore"

# A distribution whose import name is not its own name.
IMPORT_NAMES = {
    "crosshair-tool": "crosshair",
    "import-linter": "importlinter",
    "z3-solver": "z3",
}
# A dependency that no file imports, and what calls for it instead.
RUN_NOT_IMPORTED = {
    "distributed": "a sweep loads it by name, since it ships no types",
    "ipykernel": "nbclient starts it as the kernel of the notebooks",
    "jupytext": "the notebooks' test loads it by name, since it ships no types",
}
# A package that loopcore may import when its user has it, and why it is no dependency.
BROUGHT_BY_THE_USER: dict[str, str] = {
    "_typeshed": "the type checkers bring it; nothing imports it when it runs",
}


class Declared:
    """The dependencies that pyproject.toml declares, by the group that declares them."""

    def __init__(self, root: Path) -> None:
        self.text = (root / "pyproject.toml").read_text(encoding="utf-8")
        settings = tomllib.loads(self.text)
        project = settings["project"]
        self.build: list[str] = settings["build-system"]["requires"]
        self.core: list[str] = project["dependencies"]
        self.extras: dict[str, list[str]] = project["optional-dependencies"]
        self.groups: dict[str, list[str]] = settings["dependency-groups"]

    def for_users(self) -> list[str]:
        """Return what an installation with all extras brings."""
        return [*self.core, *(line for extra in self.extras.values() for line in extra)]

    def all(self) -> list[str]:
        """Return every line that names a package."""
        return [*self.build, *self.for_users(), *(d for g in self.groups.values() for d in g)]


@pytest.fixture(scope="module")
def declared(root: Path) -> Declared:
    return Declared(root)


@pytest.fixture(scope="module")
def pins(root: Path) -> list[str]:
    """Return the blocks of the file of pins, one a package, hashes included."""
    text = (root / "requirements.txt").read_text(encoding="utf-8")
    return re.findall(r"^[a-z0-9].*(?:\n    --hash.*)*", text, re.MULTILINE)


def outside(lines: list[str]) -> list[Requirement]:
    """Return the requirements that name another package than our own."""
    requirements = [Requirement(line) for line in lines]
    return [found for found in requirements if found.name != USER_EXTRAS_IN_ALL]


def imports(tree: ast.Module) -> Iterator[str]:
    """Yield the top-level package of every import."""
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            yield from (alias.name.partition(".")[0] for alias in node.names)
        elif isinstance(node, ast.ImportFrom) and node.level == 0 and node.module:
            yield node.module.partition(".")[0]


def imported_by(root: Path, paths: tuple[Path, ...], folders: tuple[str, ...]) -> set[str]:
    """Return the packages from elsewhere that the Python files of some folders import."""
    ours = {"loopcore", *folders, *sys.stdlib_module_names}
    chosen = [path for path in paths if path.parts[0] in folders]
    trees = [ast.parse((root / path).read_bytes()) for path in chosen]
    return {name for tree in trees for name in imports(tree)} - ours


def import_names(requirements: list[Requirement]) -> set[str]:
    """Return the names under which requirements are imported."""
    return {IMPORT_NAMES.get(found.name, found.name.replace("-", "_")) for found in requirements}


def test_every_dependency_carries_its_reason(declared: Declared) -> None:
    without = [
        line
        for line in declared.all()
        if not re.search(
            re.escape(f'"{line}",') + r"  # " + r"\S+ " * (REASON_WORDS_MIN - 1) + r"\S",
            declared.text,
        )
    ]
    assert declared.all()
    assert not without


def test_the_extra_all_names_every_other_extra(declared: Declared) -> None:
    (everything,) = (Requirement(line) for line in declared.extras["all"])
    assert everything.name == USER_EXTRAS_IN_ALL
    assert everything.extras == declared.extras.keys() - {"all"}


def test_every_import_is_declared(
    root: Path, python_files: tuple[Path, ...], declared: Declared
) -> None:
    users = import_names(outside(declared.for_users())) | BROUGHT_BY_THE_USER.keys()
    everyone = users | import_names(outside(declared.all()))
    shipped = imported_by(root, python_files, ("loopcore", "mutations", "bench"))
    assert shipped <= users
    assert imported_by(root, python_files, ("properties", "notebooks", "reports")) <= everyone


def test_every_dependency_of_a_user_is_used(
    root: Path, python_files: tuple[Path, ...], declared: Declared
) -> None:
    folders = ("loopcore", "properties", "mutations", "bench", "notebooks", "reports")
    used = imported_by(root, python_files, folders) | RUN_NOT_IMPORTED.keys()
    requirements = outside(declared.for_users())
    unused = [
        found.name for found in requirements if not ({found.name} | import_names([found])) & used
    ]
    assert not unused


def test_each_pin_satisfies_what_the_project_asks_for(declared: Declared, pins: list[str]) -> None:
    pinned = [Requirement(block.partition("\\")[0]) for block in pins]
    for wanted in outside(declared.all()):
        here = [
            pin
            for pin in pinned
            if canonicalize_name(pin.name) == canonicalize_name(wanted.name)
            and (pin.marker is None or pin.marker.evaluate())
        ]
        assert len(here) == 1, f"{wanted} has {len(here)} pins"
        (exact,) = here[0].specifier
        assert exact.operator == "==", f"{here[0]} is not one version"
        assert wanted.specifier.contains(exact.version), f"{wanted} is pinned as {here[0]}"


def test_every_pin_has_hashes_and_none_an_address(root: Path, pins: list[str]) -> None:
    text = (root / "requirements.txt").read_text(encoding="utf-8")
    assert pins
    assert "\n".join(pins) == text.strip(), "a line stands outside every pin"
    assert not [block for block in pins if "--hash=sha256:" not in block]
    assert not re.search(r"https?:|--(?:index|extra-index|find-links)|@", text)


def test_no_lock_file_with_addresses_is_kept(root: Path, files: tuple[Path, ...]) -> None:
    assert Path("uv.lock") not in files
    assert "uv.lock" in (root / ".gitignore").read_text(encoding="utf-8").split()
