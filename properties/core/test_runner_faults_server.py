"""Claim: a PostgreSQL server that restarts or goes away in the middle of a run doubles nothing."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Iterator
from contextlib import closing, suppress
from pathlib import Path

import psycopg
import pytest

from loopcore.runtime.payloads import RunReceipt
from loopcore.runtime.payment_example import payment_runner
from loopcore.runtime.payment_example_service import Moment, PaymentService
from loopcore.store.contract import StoreUnavailable
from loopcore.store.postgres import PostgresStore
from properties.core.killing_judge import judged, judged_as_completed
from properties.core.killing_lives import HOUR_MS, Life
from properties.core.killing_plans import Place
from properties.core.killing_server import PrivateServer, programs

pytestmark = [pytest.mark.slow, pytest.mark.postgres]
SCHEMA = "loopcore_faults"
FOLDER = programs()
# Where a payment and a question may stand: the service tells of each.
MOMENTS = 6
END_CONNECTIONS = (
    "SELECT pg_terminate_backend(pid) FROM pg_stat_activity"
    " WHERE pid <> pg_backend_pid() AND backend_type = 'client backend'"
)


@pytest.fixture(scope="module")
def server() -> Iterator[PrivateServer]:
    """Yield a server that runs; whoever selects these tests has its programs."""
    assert FOLDER is not None, "the programs of a PostgreSQL server are not installed here"
    with PrivateServer(FOLDER) as found:
        yield found


def ran(place: Place, life: Life, watch: Callable[[Moment], None], ahead_ms: int) -> RunReceipt:
    """Return the receipt of a run in this process."""

    def now_ms() -> int:
        return time.time_ns() // 1_000_000 + ahead_ms

    assert place.dsn is not None
    with (
        closing(PostgresStore(place.dsn, schema=SCHEMA, now_ms=now_ms)) as store,
        closing(PaymentService(Path(life.service), seed=life.seed, watch=watch)) as service,
    ):
        return asyncio.run(payment_runner(store, service, orders=life.orders).run(life.run_id))


def nothing(moment: Moment) -> None:
    """Let the moment pass."""
    del moment


def test_a_run_whose_server_restarts_at_every_kind_of_moment_pays_once(
    server: PrivateServer, tmp_path: Path
) -> None:
    place = Place(folder=tmp_path, dsn=server.dsn, schema=SCHEMA)
    life = place.life("restarted")
    restarted: set[Moment] = set()

    def watch(moment: Moment) -> None:
        if moment not in restarted:
            restarted.add(moment)
            server.restart()

    # A runner that looks at its journal while the server starts stops; one that does not goes on.
    for number in range(MOMENTS + 1):
        with suppress(StoreUnavailable):
            assert ran(place, life, watch, number * HOUR_MS).terminal == "completed"
            break
        # The call that restarts it is left behind and may still be about it.
        server.start()
        judged(*place.left(life))
    assert len(restarted) == MOMENTS
    judged_as_completed(*place.left(life, over=True), life.orders)


def test_a_run_whose_connection_is_cut_at_every_moment_goes_on(
    server: PrivateServer, tmp_path: Path
) -> None:
    place = Place(folder=tmp_path, dsn=server.dsn, schema=SCHEMA)
    life = place.life("cut")
    cuts: list[Moment] = []

    def watch(moment: Moment) -> None:
        cuts.append(moment)
        with psycopg.connect(server.dsn, autocommit=True) as other:
            other.execute(END_CONNECTIONS)

    assert ran(place, life, watch, 0).terminal == "completed"
    assert len(set(cuts)) == MOMENTS
    judged_as_completed(*place.left(life, over=True), life.orders)


@pytest.mark.parametrize("fatal", ["pay called", "pay done", "key refused"])
def test_a_run_whose_server_is_gone_stops_with_one_sentence_and_goes_on_later(
    fatal: Moment, server: PrivateServer, tmp_path: Path
) -> None:
    place = Place(folder=tmp_path, dsn=server.dsn, schema=SCHEMA)
    life = place.life(f"gone.{fatal.replace(' ', '-')}")
    gone: list[Moment] = []

    def watch(moment: Moment) -> None:
        if moment == fatal and not gone:
            gone.append(moment)
            server.stop()

    with pytest.raises(StoreUnavailable, match=r"^cannot reach PostgreSQL: ") as raised:
        ran(place, life, watch, 0)
    assert "\n" not in str(raised.value)
    server.start()
    judged(*place.left(life))
    assert ran(place, life, nothing, HOUR_MS).terminal == "completed"
    judged_as_completed(*place.left(life, over=True), life.orders)
