"""Progress for a person at a terminal, silence in a pipe; texts that can always be written.

Theory of operation: a bar is drawn on standard error only when that is a terminal, and the library
that draws it is imported only then. Recorded texts may hold unpaired surrogates, which no encoding
takes; they are written as escapes.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Generator
from contextlib import contextmanager

from loopcore.recordings.nodes import as_elements, as_fields

Progress = Callable[[int, int], None]


@contextmanager
def file_progress(label: str) -> Generator[Progress | None, None, None]:
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


def printable(value: object) -> object:
    """Return a JSON value whose texts can be encoded: unpaired surrogates become escapes."""
    if isinstance(value, str):
        return value.encode("utf-8", "backslashreplace").decode()
    fields, elements = as_fields(value), as_elements(value)
    if fields is not None:
        return {str(printable(key)): printable(inner) for key, inner in fields.items()}
    return value if elements is None else [printable(inner) for inner in elements]
