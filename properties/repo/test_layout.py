"""The repository's shape: exact names at the top, small files, small functions, nothing foreign.

The two tables of exceptions are ratchets: an entry needs a reason, and one that no file or
function needs any more fails the test, so that the tables only shrink.
"""

import ast
import re
from collections.abc import Iterator
from pathlib import Path

TOP_LEVEL = {
    "CHANGELOG.md",
    "LICENSE",
    "README.md",
    "bench",
    "loopcore",
    "mutations",
    "notebooks",
    "properties",
    "pyproject.toml",
    "reports",
    "requirements.txt",
}
SUITE_FOLDERS = ("bench", "mutations", "notebooks", "properties", "reports")

FILE_LINES_MAX = 400
FUNCTION_LINES_MAX = 70
# Path of a longer file, and why it reads better whole.
LONG_FILES: dict[str, str] = {}
# "path::name" of a longer function, and why it reads better whole.
LONG_FUNCTIONS: dict[str, str] = {
    "loopcore/evaluator.py::decide": (
        "one loop over the steps with all counters in local variables: refuse, count, test. Calls "
        "between the three would cost a third of its speed and hide their order"
    ),
}

# A bracket round one letter keeps each pattern from finding itself.
FOREIGN = {
    "a path of one machine": re.compile(r"(?<![\w./])/(?:[w]ork|[r]oot|[U]sers)/\w"),
    "an address of a package registry": re.compile(
        r"[p]ypi\.org|[p]ythonhosted\.org|[n]pmjs\.(?:org|com)|[d]eb\.debian\.org|[c]rates\.io"
    ),
    "a tool that is not part of the project": re.compile(r"\b[f]arm-\w|/tmp/[b]rief"),
    "work left for later": re.compile(r"\b(?:[T]ODO|[F]IXME|[X]XX)\b"),
    "a silenced checker without the rule's name": re.compile(
        r"#\s*(?:[t]ype|[p]yright):\s*ignore(?!\[)|#\s*[n]oqa(?!:)"
    ),
}


def texts(root: Path, files: tuple[Path, ...]) -> Iterator[tuple[Path, str]]:
    """Yield each file that is text, with its text."""
    for path in files:
        try:
            yield path, (root / path).read_text(encoding="utf-8")
        except UnicodeDecodeError:
            continue  # a picture or a database has no words


def functions(tree: ast.Module) -> Iterator[ast.FunctionDef | ast.AsyncFunctionDef]:
    """Yield every function and method of a module, nested ones too."""
    for node in ast.walk(tree):
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
            yield node


def test_the_top_level_holds_exactly_the_agreed_names(files: tuple[Path, ...]) -> None:
    found = {path.parts[0] for path in files if not path.parts[0].startswith(".")}
    assert found == TOP_LEVEL


def test_loopcore_has_no_room_that_the_wheel_fills_with_a_suite_folder(
    files: tuple[Path, ...],
) -> None:
    rooms = {path.parts[1].removesuffix(".py") for path in files if path.parts[0] == "loopcore"}
    assert rooms.isdisjoint(SUITE_FOLDERS)


def test_every_folder_of_properties_is_a_package_with_an_empty_init(
    root: Path, python_files: tuple[Path, ...]
) -> None:
    folders = {path.parent for path in python_files if path.parts[0] == "properties"}
    inits = {folder: root / folder / "__init__.py" for folder in folders}
    assert not [str(folder) for folder, init in inits.items() if not init.is_file()]
    assert not [str(folder) for folder, init in inits.items() if init.read_bytes()]


def test_no_python_file_is_longer_than_the_limit(
    root: Path, python_files: tuple[Path, ...]
) -> None:
    lines = {str(path): len((root / path).read_bytes().splitlines()) for path in python_files}
    long = {path for path, count in lines.items() if count > FILE_LINES_MAX}
    assert long == set(LONG_FILES), {path: lines.get(path) for path in long ^ set(LONG_FILES)}


def test_no_function_is_longer_than_the_limit(root: Path, python_files: tuple[Path, ...]) -> None:
    long: dict[str, int] = {}
    for path in python_files:
        for function in functions(ast.parse((root / path).read_bytes())):
            count = (function.end_lineno or function.lineno) - function.lineno + 1
            if count > FUNCTION_LINES_MAX:
                long[f"{path}::{function.name}"] = count
    assert set(long) == set(LONG_FUNCTIONS), long


def test_no_file_mentions_what_is_not_the_projects(root: Path, files: tuple[Path, ...]) -> None:
    found = [
        f"{path}:{text.count(chr(10), 0, match.start()) + 1}: {what}: {match.group()}"
        for path, text in texts(root, files)
        for what, pattern in FOREIGN.items()
        for match in pattern.finditer(text)
    ]
    assert not found, "\n".join(found)


def test_each_pattern_of_foreign_text_finds_an_example() -> None:
    examples = {
        "a path of one machine": "/" + "work/main",
        "an address of a package registry": "py" + "pi.org",
        "a tool that is not part of the project": "far" + "m-report",
        "work left for later": "TO" + "DO",
        "a silenced checker without the rule's name": "# type: " + "ignore",
    }
    assert examples.keys() == FOREIGN.keys()
    assert not [what for what, text in examples.items() if not FOREIGN[what].search(text)]
