"""Runs of the payment example with a plan of deaths each, carried out side by side and judged.

Theory of operation: a plan says at which moment each life of a run is killed. All runs that are not
over live at the same time, each on journals and a service of its own; after every round the judge
reads what each left behind, so a journal is looked at as a dead process left it. A life behind the
end of its plan, and one whose moment never comes, completes the run.
"""

from __future__ import annotations

import signal
from collections.abc import Generator, Sequence
from contextlib import closing, contextmanager
from dataclasses import dataclass
from pathlib import Path
from random import Random

import msgspec

from loopcore.runtime.payment_example_service import Ledger, PaymentService
from loopcore.store.contract import Store
from loopcore.store.journal import Event
from loopcore.store.sqlite import SqliteStore
from properties.core.killing_judge import judged, judged_as_completed
from properties.core.killing_lives import COMPLETED, Dies, Life, Nursery

KILLED = -signal.SIGKILL
SIDE_BY_SIDE = 8
# A run in this file has fewer moments of any kind than this.
MOMENTS_MAX = 64
# A drawn moment lies so near the beginning of a life that most lives reach it.
DRAWN_AT_MAX = 2
# So many that a run is seldom over before all of its deaths.
ORDERS_MANY = 6

Plan = tuple[tuple[Dies, int], ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Place:
    """Where the journals of a test are kept: files in a folder, or a PostgreSQL schema."""

    folder: Path
    dsn: str | None = None
    schema: str = ""

    def life(self, name: str) -> Life:
        """Return the first life of a run with this name, which is not killed."""
        journals = self.schema if self.dsn is not None else str(self.folder / f"{name}.journal")
        return Life(
            journals=journals, service=str(self.folder / f"{name}.bank"), run_id=name, dsn=self.dsn
        )

    @contextmanager
    def store(self, life: Life) -> Generator[Store]:
        """Yield the store of a life, opened by this process."""
        if self.dsn is None:
            with closing(SqliteStore(life.journals)) as files:
                yield files
            return
        from loopcore.store.postgres import PostgresStore

        with closing(PostgresStore(self.dsn, schema=self.schema)) as server:
            yield server

    def left(self, life: Life, *, over: bool = False) -> tuple[list[Event], Ledger]:
        """Return a run's journal and the service's ledger as they stand.

        Arguments:
            over: what is still under way to the service arrives first.
        """
        with (
            self.store(life) as store,
            closing(PaymentService(Path(life.service))) as service,
        ):
            if over:
                service.deliver()
            return list(store.read(life.run_id)), service.ledger()


def carried_out(nursery: Nursery, place: Place, runs: Sequence[tuple[Life, Plan]]) -> list[int]:
    """Return how often each run was killed, after all of them completed and were judged."""
    kills = [0] * len(runs)
    left = list(range(len(runs)))
    for number in range(max((len(plan) for _, plan in runs), default=0) + 1):
        lives: list[Life] = []
        for run in left:
            life, plan = runs[run]
            dies, at = plan[number] if number < len(plan) else (None, 0)
            lives.append(msgspec.structs.replace(life, number=number, dies=dies, at=at))
        ends = nursery.live(*lives)
        over: list[int] = []
        for run, life, end in zip(left, lives, ends, strict=True):
            assert end in (KILLED, COMPLETED), f"{life} ended with {end}"
            if end == KILLED:
                kills[run] += 1
                judged(*place.left(life))
            else:
                over.append(run)
                judged_as_completed(*place.left(life, over=True), life.orders)
        left = [run for run in left if run not in over]
        if not left:
            return kills
    raise AssertionError("a life without a death did not complete its run")


def killed_at_each(nursery: Nursery, place: Place, dies: Dies, seed: int) -> int:
    """Return how many runs were killed: one at each moment of a kind that the run has."""
    for first in range(0, MOMENTS_MAX, SIDE_BY_SIDE):
        runs: list[tuple[Life, Plan]] = []
        for at in range(first, first + SIDE_BY_SIDE):
            name = f"{seed}.{dies.replace(' ', '-')}.{at}"
            life = msgspec.structs.replace(place.life(name), seed=seed)
            runs.append((life, ((dies, at),)))
        kills = carried_out(nursery, place, runs)
        if kills[-1] == 0:
            count = first + sum(kills)
            assert kills == [1] * sum(kills) + [0] * (SIDE_BY_SIDE - sum(kills))
            return count
    raise AssertionError(f"more than {MOMENTS_MAX} moments of the kind {dies}")


def killed_again_and_again(
    nursery: Nursery, place: Place, kinds: Sequence[Dies], seeds: range, lives: int
) -> int:
    """Return how many kills there were in runs of which many lives are killed in turn.

    Arguments:
        seeds: one run each; lives: how many deaths are drawn for each run.
    """
    runs: list[tuple[Life, Plan]] = []
    for seed in seeds:
        draw = Random(f"deaths/{seed}")
        drawn: list[tuple[Dies, int]] = [
            (draw.choice(kinds), draw.randint(0, DRAWN_AT_MAX)) for _ in range(lives)
        ]
        plan: Plan = tuple(drawn)
        life = msgspec.structs.replace(place.life(f"again.{seed}"), seed=seed, orders=ORDERS_MANY)
        runs.append((life, plan))
    return sum(carried_out(nursery, place, runs))
