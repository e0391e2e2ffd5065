"""How much memory the processes of a child hold, read from the kernel where it tells.

Theory of operation: a child of `loopcore.process` leads a session of its own, so a command that is
a wrapper and what it started are found together, by their session.
"""

from __future__ import annotations

import os
from pathlib import Path

_PROCESSES = Path("/proc")
# Places of fields in /proc/PID/stat, counted from the one after the name.
_SESSION, _RESIDENT_PAGES = 3, 21


def resident_bytes(leader: int) -> int | None:
    """Return the resident bytes of all processes of a session, or None where none can be read."""
    total: int | None = None
    try:
        folders = [folder for folder in _PROCESSES.iterdir() if folder.name.isdigit()]
    except OSError:
        return None
    for folder in folders:
        try:
            # The name stands in parentheses and may hold spaces and parentheses itself.
            fields = (folder / "stat").read_text("utf-8", "replace").rpartition(")")[2].split()
        except OSError:
            continue  # it ended meanwhile
        if int(fields[_SESSION]) == leader:
            pages = int(fields[_RESIDENT_PAGES])
            total = (total or 0) + pages * os.sysconf("SC_PAGE_SIZE")
    return total
