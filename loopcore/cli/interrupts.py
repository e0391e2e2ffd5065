"""An interrupt of the terminal ends the command with status 130, wherever it happens to arrive.

Theory of operation: Python raises an interrupt in whatever the main thread runs next. Where that is
a callback of the garbage collector or a finaliser, the interrupt is reported and then forgotten, so
it is sent once more. Where it is source that is being executed from a text, as dataclasses do, the
interpreter remembers it as unhandled although it was handled, and at its exit ends itself by the
signal instead of the status; executing another text makes it forget that.

Source: CPython 3.11, `run_eval_code_obj` in pythonrun.c and `pymain_exit_error` in main.c.
"""

from __future__ import annotations

import os
import signal
import sys
import threading
from collections.abc import Generator
from contextlib import contextmanager
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from sys import UnraisableHookArgs

# Long enough for the callback that lost the interrupt to be left.
_AGAIN_SECONDS = 0.02


@contextmanager
def lasting_interrupts() -> Generator[None]:
    """Send an interrupt again that was lost within the block; forget one that was raised in it."""
    before = sys.unraisablehook

    def notice(lost: UnraisableHookArgs) -> None:
        if issubclass(lost.exc_type, KeyboardInterrupt):
            timer = threading.Timer(_AGAIN_SECONDS, os.kill, (os.getpid(), signal.SIGINT))
            timer.daemon = True
            timer.start()
        else:
            before(lost)

    sys.unraisablehook = notice
    try:
        yield
    finally:
        sys.unraisablehook = before
        # Any text would do: that it ends without an interrupt is what the interpreter remembers.
        exec("")
