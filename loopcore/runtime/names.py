"""Names that are derived, never drawn: replaying a journal gives the same ones.

Source: spec runtime, sections 2 and 4.
"""

from __future__ import annotations

from loopcore.canonical import digest


def child_run_id(run_id: str, action: str) -> str:
    """Return the run id of the child that an action of a run is."""
    return f"child-{digest(['loopcore/child/1', run_id, action])[:40]}"


def scope_entry(run_id: str, action: str) -> str:
    """Return the name under which a wider budget holds what an action reserved."""
    return f"{digest(['loopcore/scope-entry/1', run_id])[:24]}.{action}"
