"""Claim: a disk, a clock or another process that misbehaves may stop a run and doubles nothing.

A store that cannot be written ends the process's part with one clear error; the run has no terminal
then, and goes on from its journal once the fault is gone. Real files and real processes throughout.
"""

from __future__ import annotations

import asyncio
import os
import tempfile
import time
from collections.abc import Callable, Generator, Iterator
from contextlib import closing, contextmanager
from pathlib import Path

import msgspec
import pytest

from loopcore.errors import EnvironmentFault
from loopcore.runtime import payment_example
from loopcore.runtime.payloads import RunReceipt
from loopcore.runtime.payment_example import LEASE_MS, payment_runner
from loopcore.runtime.payment_example_service import Moment, PaymentService
from loopcore.store.contract import AppendUnanswered, Store, StoreFull, StoreReadOnly
from loopcore.store.sqlite import SqliteStore
from properties.core.killing_judge import judged, judged_as_completed, receipt_of
from properties.core.killing_lives import (
    COMPLETED,
    HOUR_MS,
    OTHER_TERMINAL,
    TAKEN,
    Dies,
    Life,
    Nursery,
)
from properties.core.killing_plans import KILLED, Place

ORDERS = 2
NOBODY = 65534
# A process that stalls for longer than a short lease loses the run, and tries again.
TAKEN_MAX = 200
# From no room for the first event to room for the whole run, in pages of 4,096 bytes.
PAGES = range(10, 22, 2)


@pytest.fixture(scope="module")
def nursery() -> Iterator[Nursery]:
    """Yield the process that starts lives."""
    with Nursery() as found:
        yield found


def an_hour_later() -> int:
    """Return a store's clock at which every earlier lease is over."""
    return time.time_ns() // 1_000_000 + HOUR_MS


def ran(store: Store, life: Life, watch: Callable[[Moment], None] | None = None) -> RunReceipt:
    """Return the receipt of a run in this process."""
    service = PaymentService(Path(life.service), seed=life.seed, watch=watch or (lambda _: None))
    with closing(service):
        return asyncio.run(payment_runner(store, service, orders=life.orders).run(life.run_id))


def finished(place: Place, life: Life) -> None:
    """Run to the end without the fault; assert that all was paid once."""
    with closing(SqliteStore(life.journals, now_ms=an_hour_later)) as store:
        ran(store, life)
    judged_as_completed(*place.left(life, over=True), life.orders)


def stopped_by_a_full_disk(life: Life, pages: int) -> StoreFull | None:
    """Return how a run ends in a file that may not grow over a size; None where it has room."""
    try:
        with closing(SqliteStore(life.journals, pages_max=pages)) as store:
            ran(store, life)
    except StoreFull as error:
        return error
    return None


def test_a_disk_that_fills_up_stops_the_run_with_one_sentence_and_it_goes_on_later(
    tmp_path: Path,
) -> None:
    place = Place(folder=tmp_path)
    stopped: list[int] = []
    for pages in PAGES:
        life = place.life(f"pages-{pages}")
        error = stopped_by_a_full_disk(life, pages)
        events, ledger = place.left(life)
        judged(events, ledger)
        if error is not None:
            assert str(error) == f"cannot use the store {life.journals}: there is no room left"
            stopped.append(len(events))
        finished(place, life)
    assert len(set(stopped)) >= 3, "the run was stopped at several of its events"


class Switched(SqliteStore):
    """A store that can be made read-only while it is open."""

    def switch(self, *, writable: bool) -> None:
        """Let nothing be written from now on, or let it be."""
        with self._lock:
            self._connection.execute(f"PRAGMA query_only = {'OFF' if writable else 'ON'}")


@pytest.mark.parametrize("moment", ["pay called", "pay crossed", "pay done", "key refused"])
def test_a_store_that_becomes_read_only_stops_the_run_and_it_goes_on_later(
    moment: Moment, tmp_path: Path
) -> None:
    place = Place(folder=tmp_path)
    life = place.life("r")
    with closing(Switched(life.journals)) as store:

        def watch(now: Moment) -> None:
            if now == moment:
                store.switch(writable=False)

        with pytest.raises(StoreReadOnly, match=r"^cannot use the store .*: it may not be written"):
            ran(store, life, watch)
        judged(*place.left(life))
        store.switch(writable=True)
    finished(place, life)


class Unanswered(SqliteStore):
    """A store whose renewals of a lease are made, and never answered."""

    def renew(self, run_id: str, epoch: int, duration_ms: int) -> None:
        """Renew, and lose the answer."""
        super().renew(run_id, epoch, duration_ms)
        raise AppendUnanswered(run_id, "the answer was lost")


def test_a_renewal_of_the_lease_that_is_not_answered_does_not_stop_the_run(
    tmp_path: Path,
) -> None:
    place = Place(folder=tmp_path)
    life = place.life("r")
    with closing(Unanswered(life.journals)) as store:
        assert ran(store, life).terminal == "completed"
    judged_as_completed(*place.left(life, over=True), life.orders)


def test_a_folder_that_became_read_only_after_a_kill_is_one_sentence_and_no_harm(
    nursery: Nursery, capsys: pytest.CaptureFixture[str]
) -> None:
    with tempfile.TemporaryDirectory() as name:
        os.chmod(name, 0o755)
        folder = Path(name) / "shop"
        folder.mkdir()
        life = Life(
            journals=str(folder / payment_example.JOURNAL),
            service=str(folder / payment_example.SERVICE),
            run_id=payment_example.RUN,
            # Its lease was over an hour ago.
            number=-1,
            lease_ms=LEASE_MS,
            dies="pay done",
        )
        assert nursery.live(life) == [KILLED]
        words = ["--folder", str(folder), "--orders", str(life.orders), "--pause-ms", "0"]
        with unprivileged(folder, *folder.iterdir()) as paths:
            for path in paths:
                path.chmod(0o555)
            assert payment_example.main(words) == 2
            said = capsys.readouterr()
            assert said.err.startswith(f"loopcore: cannot use the store {folder}")
            assert said.err.count("\n") == 1
            for path in paths:
                path.chmod(0o755)
            assert payment_example.main(words) == 0
        assert "0 paid twice" in capsys.readouterr().out
        judged_as_completed(*Place(folder=folder).left(life, over=True), life.orders)


@contextmanager
def unprivileged(*paths: Path) -> Generator[tuple[Path, ...]]:
    """Yield paths that belong to the user who is not root as whom this process acts meanwhile."""
    root = os.geteuid() == 0
    if root:
        for path in paths:
            os.chown(path, NOBODY, NOBODY)
        os.seteuid(NOBODY)
    try:
        yield paths
    finally:
        if root:
            os.seteuid(0)


@pytest.mark.parametrize("seed", range(3))
def test_two_processes_that_race_for_one_run_share_its_receipt(
    seed: int, nursery: Nursery, tmp_path: Path
) -> None:
    place = Place(folder=tmp_path)
    life = msgspec.structs.replace(place.life("r"), seed=seed)
    assert nursery.live(life, life) == [COMPLETED, COMPLETED]
    events, ledger = place.left(life, over=True)
    judged_as_completed(events, ledger, ORDERS)
    assert [event.kind for event in events].count("terminal_committed") == 1


@pytest.mark.parametrize("dies", ["pay crossed", "pay done"])
def test_processes_that_wait_for_a_killed_owner_share_the_receipt_of_the_one_that_takes_over(
    dies: Dies, nursery: Nursery, tmp_path: Path
) -> None:
    place = Place(folder=tmp_path)
    life = msgspec.structs.replace(place.life("r"), lease_ms=300, taken_max=TAKEN_MAX)
    assert nursery.live(msgspec.structs.replace(life, dies=dies)) == [KILLED]
    # Here all are on one clock, so the lease has to pass.
    assert nursery.live(life, life) == [COMPLETED, COMPLETED]
    events, ledger = place.left(life, over=True)
    judged_as_completed(events, ledger, ORDERS)
    assert events[-1].epoch >= 2
    assert [event.kind for event in events].count("terminal_committed") == 1


def test_processes_whose_leases_are_over_at_once_fence_each_other(
    nursery: Nursery, tmp_path: Path
) -> None:
    place = Place(folder=tmp_path)
    # Each takeover interrupts one step at most, and all of them leave steps to spare.
    life = msgspec.structs.replace(place.life("r"), lease_ms=1, taken_max=6, pause_ms=20, seed=1)
    ends = nursery.live(life, life, life)
    assert set(ends) <= {COMPLETED, TAKEN}
    assert COMPLETED in ends
    events, ledger = place.left(life, over=True)
    judged_as_completed(events, ledger, ORDERS)
    assert events[-1].epoch > 3, "the run changed hands"


@pytest.mark.parametrize(("back_ms", "end"), [(50_000, COMPLETED), (2 * HOUR_MS, OTHER_TERMINAL)])
def test_a_clock_that_is_set_back_between_two_lives_moves_no_stamp_back(
    back_ms: int, end: int, nursery: Nursery, tmp_path: Path
) -> None:
    place = Place(folder=tmp_path)
    life = msgspec.structs.replace(place.life("r"), seed=1)
    later = msgspec.structs.replace(life, number=1, wall_ms=-back_ms)
    assert nursery.live(msgspec.structs.replace(life, dies="pay done")) == [KILLED]
    assert nursery.live(later) == [end]
    events, ledger = place.left(life)
    judged(events, ledger)
    stamps = [event.at_unix_ms for event in events]
    assert stamps == sorted(stamps)
    assert "clamped" in {event.clock for event in events}
    receipt = receipt_of(events)
    assert receipt.terminal == ("completed" if end == COMPLETED else "awaiting_input")
    if end == OTHER_TERMINAL:
        assert "clock" in receipt.reason
        assert {effect.key for effect in ledger.effects} == {
            one.idempotency_key for one in receipt.open_effects
        }


def test_every_fault_here_is_one_of_the_environment() -> None:
    assert issubclass(StoreFull, EnvironmentFault)
    assert issubclass(StoreReadOnly, EnvironmentFault)
