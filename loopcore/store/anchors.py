"""Anchors: heads of journals, noted in a file outside the store.

Theory of operation: whoever can cut a journal's tail can cut it in the store's own bookkeeping as
well, so a head is noted where the store is not: on another disk, with another owner. A noted anchor
only ever moves forward, and only over events that were verified from the beginning.

Source: spec runtime, section 1; spec verification, R12.
"""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path
from typing import Literal

import msgspec

from loopcore.canonical import canonical
from loopcore.errors import InputError
from loopcore.files import write_whole
from loopcore.store.journal import Anchor, Event, JournalVerdict, verify_journal

ANCHOR_BYTES_MAX = 2**12


class _Noted(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """What stands in an anchor's file."""

    schema: Literal["loopcore/anchor/1"] = "loopcore/anchor/1"
    anchor: Anchor


def write_anchor(path: Path, anchor: Anchor) -> None:
    """Put an anchor in place, whole; raise EnvironmentFault when it cannot be written."""
    write_whole(path, canonical(_Noted(anchor=anchor)) + b"\n")


def read_anchor(path: Path) -> Anchor:
    """Return the anchor in a file; raise InputError naming the file when there is none."""
    try:
        data = path.read_bytes()
        if len(data) > ANCHOR_BYTES_MAX:
            raise InputError("malformed", f"{path} is no anchor: it has {len(data)} bytes")
        noted = msgspec.json.decode(data, type=_Noted, strict=True)
    except OSError as error:
        raise InputError("unreadable", f"{path}: {error.strerror or error}") from None
    except (msgspec.MsgspecError, UnicodeError) as error:
        raise InputError("malformed", f"{path} is no anchor: {error}") from None
    if canonical(noted) + b"\n" != data:
        raise InputError("malformed", f"{path} is no anchor: it is not in canonical form")
    return noted.anchor


def advance_anchor(path: Path, run_id: str, events: Iterable[Event]) -> JournalVerdict:
    """Verify a whole journal against the anchor in a file, and note its head there if it holds.

    Arguments:
        path: may not exist yet; then the first head is taken on trust, and the verdict says so.
        events: of this run, from the first.

    Returns the verdict against the anchor that was there; an invalid journal changes no file.
    """
    before = read_anchor(path) if path.exists() else None
    if before is not None and before.run_id != run_id:
        message = f"{path} is the anchor of run {before.run_id}, not of {run_id}"
        raise InputError("malformed", message)
    verdict = verify_journal(events, before)
    if verdict.verdict != "invalid":
        head = verdict.head
        write_anchor(path, Anchor(run_id=run_id, sequence=head.sequence, digest=head.digest))
    return verdict
