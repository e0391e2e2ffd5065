"""The journals of a simulated run, read back from the store and judged whole.

Theory of operation: what the store holds is what was appended; it folds to the state that the
workers had; the trace that it tells has the evaluator's verdict; every effect behind the boundary
stands in it; and neither a flipped bit nor a cut tail goes unnoticed.

Source: spec verification, section 2 (R01, R03, R04, R09, R12); spec runtime, sections 1 and 8.
"""

from __future__ import annotations

from hashlib import sha256

from loopcore.runtime.folding import fold_all
from loopcore.runtime.projection import agreement
from loopcore.store.contract import JournalBroken
from loopcore.store.journal import (
    Anchor,
    Event,
    InvalidEvent,
    decode_event,
    encode_event,
    verify_journal,
)
from loopcore.testing.simulation.draws import Draws
from loopcore.testing.simulation.ledger import naive_digest
from loopcore.testing.simulation.tape import Broken
from loopcore.testing.simulation.world import Run, World

_DAMAGED_SHARE = 0.2


def judge_journals(world: World, draws: Draws) -> None:
    """Raise Broken where a journal is not what it has to be at the end."""
    for run in world.runs.values():
        if not run.events:
            continue
        try:
            kept = list(world.store.read(run.run_id))
        except JournalBroken as error:
            raise Broken("R03", str(error)) from error
        # The last event's digest is one of everything before it, and reading verified each link.
        if len(kept) != len(run.events) or naive_digest(kept[-1]) != run.ledger.digest:
            raise Broken("R03", f"the store holds another journal of {run.run_id}")
        whole = [*_earlier(world, run), *kept]
        if fold_all(whole).fingerprint() != run.state.fingerprint():
            raise Broken("R04", f"the journal of {run.run_id} folds to another state")
        verdict = agreement(whole)
        if not verdict.agrees:
            raise Broken("R09", verdict.reason)
        if draws.chance(_DAMAGED_SHARE):
            _damage(kept, draws)
    _explain_effects(world)


def _earlier(world: World, run: Run) -> list[Event]:
    """Return the journals that a run continues, oldest first."""
    before = run.before
    return [] if before is None else [*_earlier(world, before), *before.events]


def _explain_effects(world: World) -> None:
    """Raise Broken for a crossing or an effect that no journal shows as settled or open."""
    known = {
        entry.key: entry for run in world.runs.values() for entry in run.ledger.entries.values()
    }
    for key in world.effects.crossings:
        if key not in known or not known[key].dispatched:
            raise Broken("R01", f"a call crossed the boundary that no journal dispatched: {key}")
    for key in sorted(world.effects.done):
        entry = known[key]
        if entry.outcome == "failed" or entry.status == "dropped" or entry.charged is None:
            raise Broken("R01", f"the effect of {entry.name} is neither settled nor open")


def _damage(events: list[Event], draws: Draws) -> None:
    """Flip one bit and cut one tail of a copy; raise Broken where that is not found."""
    last = events[-1]
    anchor = Anchor(
        run_id=last.run_id, sequence=last.sequence, digest=sha256(encode_event(last)).hexdigest()
    )
    if verify_journal(events, anchor).verdict != "valid":
        raise Broken("R12", "an undamaged journal is not valid against its anchor")
    cut = events[: draws.below(len(events))]
    if verify_journal(cut, anchor).verdict != "invalid" or verify_journal(cut).verdict == "valid":
        raise Broken("R12", f"{len(events) - len(cut)} events are cut off, and nobody notices")
    place = draws.below(len(events))
    data = bytearray(encode_event(events[place]))
    data[draws.below(len(data))] ^= 1 << draws.below(8)
    try:
        changed = decode_event(bytes(data))
    except InvalidEvent:
        return
    damaged = [*events[:place], changed, *events[place + 1 :]]
    if verify_journal(damaged, anchor).verdict != "invalid":
        raise Broken("R12", f"a bit of event {place + 1} is flipped, and nobody notices")


def journals_digest(world: World) -> str:
    """Return a digest of every journal to the byte, in the order in which the runs began."""
    return sha256("".join(run.ledger.digest for run in world.runs.values()).encode()).hexdigest()
