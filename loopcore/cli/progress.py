"""Progress for a person at a terminal, silence in a pipe; texts that can always be written.

Theory of operation: a bar is drawn on standard error only when that is a terminal, and the library
that draws it is imported only then. Recorded texts may hold unpaired surrogates, which no encoding
takes; they are written as escapes.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Generator
from contextlib import contextmanager

from loopcore.results import printable

__all__ = ["Progress", "file_progress", "printable"]

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
