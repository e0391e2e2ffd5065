"""Appends that no store may take: an old epoch on the present head, an old head, a held lease.

Theory of operation: epoch and head mask each other in every honest history, since whoever raised
the epoch also moved the head. So each guard is tried by itself, with everything else right.

Source: spec runtime, section 1; spec verification, section 2 (R07).
"""

from __future__ import annotations

from collections.abc import Callable

from loopcore.runtime.drafting import Batch, Stamp
from loopcore.runtime.payloads import LeaseAcquired, LeaseReleased
from loopcore.store.contract import AppendRefused, LeaseHeld, StaleEpoch, StaleHead
from loopcore.store.journal import Event, Head, chain
from loopcore.testing.simulation.draws import Draws
from loopcore.testing.simulation.tape import Broken
from loopcore.testing.simulation.world import Run, World

OWNER = "intruder"


def intrude(world: World, draws: Draws, run_id: str) -> None:
    """Try one append that has to be refused; raise Broken where it is not."""
    run = world.runs[run_id]
    attempt = draws.pick(ATTEMPTS)
    try:
        expected = attempt(world, run)
    except AppendRefused as refused:
        kind = type(refused).__name__
        world.note(lambda: f"{OWNER}: refused, {kind}")
        return
    if expected is not None:
        raise Broken("R07", f"an append or a renewal was made that is due {expected}")


def _drafts(run: Run, world: World, *, acquires: bool) -> tuple[Event, ...]:
    batch = Batch(run.state, Stamp(at_unix_ms=world.now_ms))
    batch.add(
        LeaseAcquired(owner=OWNER, duration_ms=10) if acquires else LeaseReleased(owner=OWNER)
    )
    return batch.events()


def _try(
    world: World, run: Run, head: Head, epoch: int, *, acquires: bool, due: type[AppendRefused]
) -> str:
    """Append at a head and an epoch; the refusal that is due counts, another does not."""
    events = chain(head, _drafts(run, world, acquires=acquires))
    try:
        world.store.append(run.run_id, head.digest, epoch, events)
    except AppendRefused as refused:
        if not isinstance(refused, due):
            raise Broken(
                "R07", f"{type(refused).__name__} where {due.__name__} is due"
            ) from refused
        raise
    return due.__name__


def _old_epoch(world: World, run: Run) -> str | None:
    head = run.state.head
    if head.epoch == 0:
        return None
    old = Head(sequence=head.sequence, digest=head.digest, epoch=head.epoch - 1)
    return _try(world, run, old, old.epoch, acquires=False, due=StaleEpoch)


def _old_head(world: World, run: Run) -> str | None:
    last = run.events[-1]
    if last.sequence == 1:
        return None
    epoch = run.state.head.epoch
    old = Head(sequence=last.sequence - 1, digest=last.previous_event_sha256, epoch=epoch)
    return _try(world, run, old, epoch, acquires=False, due=StaleHead)


def _held_lease(world: World, run: Run) -> str | None:
    until_ms, head = run.ledger.lease_until_ms, run.state.head
    if until_ms is None or world.now_ms >= until_ms:
        return None
    return _try(world, run, head, head.epoch + 1, acquires=True, due=LeaseHeld)


def _old_renewal(world: World, run: Run) -> str | None:
    epoch = run.state.head.epoch
    if epoch == 0:
        return None
    world.store.renew(run.run_id, epoch - 1, 1_000_000)
    return StaleEpoch.__name__


ATTEMPTS: tuple[Callable[[World, Run], str | None], ...] = (
    _old_epoch,
    _old_head,
    _held_lease,
    _old_renewal,
)
