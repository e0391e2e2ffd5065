"""Where the suite's files are, and which target is under test.

Theory of operation: in a checkout the suite folders stand beside the package; in a wheel they stand
inside it. Both are tried, the installed place first, and nothing else is.

Source: design, section Packaging.
"""

from __future__ import annotations

from pathlib import Path

from loopcore.errors import EnvironmentFault
from loopcore.testing.targets import TargetSpec, load_target, open_target

__all__ = ["SUITE_FOLDERS", "TargetSpec", "load_target", "open_target", "suite_folder"]

SUITE_FOLDERS = ("properties", "mutations", "bench", "reports")


def suite_folder(name: str) -> Path:
    """Return one of the suite's folders, which exists.

    Raises EnvironmentFault when this installation does not have it.
    """
    if name not in SUITE_FOLDERS:
        raise ValueError(f"{name} is none of the suite's folders")
    package = Path(__file__).resolve().parent
    for place in (package, package.parent):
        folder = place / name
        if folder.is_dir():
            return folder
    raise EnvironmentFault(f"this installation has no folder {name} beside {package}")
