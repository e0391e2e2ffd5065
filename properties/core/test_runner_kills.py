"""Claim: whenever the runner is killed, nothing is paid twice and no payment is forgotten.

Real processes, ended by SIGKILL right before, within and right after each append, and on both
sides of each effect and of each fence. The service's own ledger is the judge.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path

import pytest

from properties.core.killing_lives import AT_APPENDS, AT_CALLS, Dies, Nursery
from properties.core.killing_plans import (
    Place,
    Plan,
    carried_out,
    killed_again_and_again,
    killed_at_each,
)

EVERYWHERE: tuple[Dies, ...] = (*AT_APPENDS, "within append", *AT_CALLS)
# PostgreSQL has no statement between the last event and COMMIT at which its client could stop.
ON_A_SERVER: tuple[Dies, ...] = (*AT_APPENDS, *AT_CALLS)
# What comes early in every life that has something left to pay.
EARLY: tuple[Dies, ...] = (*AT_APPENDS, "pay called", "pay crossed", "pay done")
# Each run's moments are known from its seed: a change of the protocol shows here.
AT_EACH_MIN = {0: 60, 1: 35, 2: 45}
AGAIN_MIN = 290
SERVER_MIN = 100


@pytest.fixture(scope="module")
def nursery() -> Iterator[Nursery]:
    """Yield the process that starts lives."""
    with Nursery() as found:
        yield found


def test_a_run_that_is_killed_at_one_moment_of_each_kind_in_turn_pays_once(
    nursery: Nursery, tmp_path: Path
) -> None:
    place = Place(folder=tmp_path)
    # Life by life, the run comes further before it is killed.
    plan: Plan = (
        ("after append", 0),
        ("within append", 1),
        ("before append", 2),
        ("pay called", 0),
        ("question called", 0),
        ("pay crossed", 0),
        ("key refused", 0),
        ("pay done", 0),
        ("question answered", 0),
        ("after append", 3),
        ("before append", 3),
    )
    assert carried_out(nursery, place, [(place.life("r"), plan)]) >= [9]


@pytest.mark.slow
@pytest.mark.parametrize("seed", AT_EACH_MIN)
def test_a_run_on_sqlite_survives_a_kill_at_every_moment(
    seed: int, nursery: Nursery, tmp_path: Path
) -> None:
    place = Place(folder=tmp_path)
    kills = sum(killed_at_each(nursery, place, dies, seed) for dies in EVERYWHERE)
    assert kills >= AT_EACH_MIN[seed]


@pytest.mark.slow
def test_a_run_on_sqlite_survives_many_kills(nursery: Nursery, tmp_path: Path) -> None:
    place = Place(folder=tmp_path)
    kills = sum(
        killed_again_and_again(nursery, place, EARLY, range(first, first + 8), 16)
        for first in range(100, 140, 8)
    )
    assert kills >= AGAIN_MIN


@pytest.mark.slow
@pytest.mark.postgres
def test_a_run_on_postgresql_survives_kills_everywhere(nursery: Nursery, tmp_path: Path) -> None:
    from loopcore.testing.store_postgres import PassingPostgresStore

    dsn = os.environ["LOOPCORE_POSTGRES_DSN"]
    schema = f"loopcore_kills_{os.getpid()}"
    store = PassingPostgresStore(dsn, schema=schema)
    place = Place(folder=tmp_path, dsn=dsn, schema=schema)
    try:
        kills = sum(killed_at_each(nursery, place, dies, 1) for dies in ON_A_SERVER)
        kills += killed_again_and_again(nursery, place, EARLY, range(200, 208), 16)
    finally:
        store.destroy()
    assert kills >= SERVER_MIN
