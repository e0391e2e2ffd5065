"""Progress for a person at a terminal, silence in a pipe; files that are whole or not there.

Theory of operation: a bar is drawn on standard error only when that is a terminal, and the library
that draws it is imported only then. A result is written beside its place and moved there, so that
an interruption leaves the old file or the new one.
"""

from __future__ import annotations

import os
import sys
import tempfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

Progress = Callable[[int, int], None]


@contextmanager
def file_progress(label: str) -> Iterator[Progress | None]:
    """Yield a function of (done, all) that draws a bar, or None when nobody would see it."""
    if not sys.stderr.isatty():
        yield None
        return
    from rich.console import Console
    from rich.progress import Progress as Bar

    with Bar(console=Console(stderr=True), transient=True) as bar:
        task = bar.add_task(label, total=None)

        def advance(done: int, whole: int) -> None:
            bar.update(task, completed=done, total=whole)

        yield advance


def write_atomically(path: Path, text: str) -> None:
    """Leave the whole text at the path, or the file that was there before.

    Errors: OSError when the folder cannot be made or written.
    """
    path.parent.mkdir(parents=True, exist_ok=True)
    handle, name = tempfile.mkstemp(dir=path.parent, prefix=f".{path.name}.")
    try:
        with os.fdopen(handle, "wb") as file:
            file.write(text.encode("utf-8", "backslashreplace"))
            file.flush()
            os.fsync(file.fileno())
        os.chmod(name, 0o666 & ~_umask())
        os.replace(name, path)
    except BaseException:
        os.unlink(name)
        raise


def _umask() -> int:
    mask = os.umask(0)
    os.umask(mask)
    return mask


def printable(value: object) -> object:
    """Return a JSON value whose texts can be encoded: unpaired surrogates become escapes."""
    if isinstance(value, str):
        return value.encode("utf-8", "backslashreplace").decode()
    if isinstance(value, dict):
        return {printable(key): printable(inner) for key, inner in value.items()}
    if isinstance(value, (list, tuple)):
        return [printable(inner) for inner in value]
    return value
