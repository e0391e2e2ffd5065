"""Claim: memory, SQLite and PostgreSQL give the same answers, from one thread or many."""

from __future__ import annotations

import tempfile
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path
from threading import Thread

import pytest
from hypothesis import Phase, seed, settings
from hypothesis.stateful import run_state_machine_as_test

from loopcore.store.contract import StaleHead, Store
from loopcore.store.journal import chain
from loopcore.store.memory import MemoryStore
from loopcore.testing.bias import NO_HEALTH_CHECKS
from loopcore.testing.store_builtin import BUILT_IN, memory, postgres, sqlite
from loopcore.testing.store_contract import StoreTarget
from loopcore.testing.store_machine import StoreMachine
from loopcore.testing.store_serving import Make
from loopcore.testing.store_targets import LocalStoreTarget
from properties.core.journal_values import RUN, begin, draft
from properties.core.wrong_stores import EpochUnchecked

MACHINES = 15
STEPS = 20
THREADS = 6
EACH = 8
MAKES: dict[str, Make] = {"memory": memory, "sqlite": sqlite, "postgres": postgres}
NAMES = [
    pytest.param(name, marks=[pytest.mark.postgres] if name == "postgres" else [])
    for name in BUILT_IN
]


def run_machine(targets: list[StoreTarget], machines: int = MACHINES) -> None:
    """Let the machine ask all of the stores the same."""

    class Machine(StoreMachine):
        pass

    Machine.targets = targets
    wanted = settings(
        max_examples=machines,
        stateful_step_count=STEPS,
        database=None,
        deadline=None,
        phases=[Phase.generate],
        suppress_health_check=NO_HEALTH_CHECKS,
        print_blob=False,
        report_multiple_bugs=False,
    )
    run_state_machine_as_test(seed(7)(Machine), settings=wanted)


@pytest.fixture
def folder() -> Iterator[Path]:
    """Yield a folder whose name is another in every run, as a schema is named after it."""
    with tempfile.TemporaryDirectory() as name:
        yield Path(name)


def opened(name: str, folder: Path) -> StoreTarget:
    """Return a built-in store of this process."""
    return LocalStoreTarget(name, MAKES[name], str(folder))


def test_memory_and_sqlite_agree_with_the_model_on_anything(folder: Path) -> None:
    targets = [opened("memory", folder), opened("sqlite", folder)]
    run_machine(targets)
    for target in targets:
        target.close()


@pytest.mark.postgres
def test_all_three_stores_agree_with_the_model_on_anything(folder: Path) -> None:
    targets = [opened(name, folder) for name in BUILT_IN]
    run_machine(targets)
    for target in targets:
        target.close()


def test_the_machine_finds_a_store_that_disagrees(folder: Path) -> None:
    wrong = LocalStoreTarget("wrong", EpochUnchecked, str(folder))
    with pytest.raises(AssertionError, match="wrong: "):
        run_machine([opened("memory", folder), wrong], machines=50)


@pytest.mark.parametrize("name", NAMES)
def test_threads_that_share_one_store_lose_nothing(name: str, folder: Path) -> None:
    store = MAKES[name](str(folder), lambda: 0)
    with closing(store):
        begin(store)
        threads = [Thread(target=append_own, args=(store, number)) for number in range(THREADS)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        events = list(store.read(RUN))[2:]
        payloads = [(event.payload["thread"], event.payload["number"]) for event in events]
        assert sorted(payloads) == [(one, two) for one in range(THREADS) for two in range(EACH)]
        for own in range(THREADS):
            assert [two for one, two in payloads if one == own] == list(range(EACH))
        destroy = getattr(store, "destroy", lambda: None)
        destroy()


def append_own(store: Store, thread: int) -> None:
    """Append some events by compare-and-swap, as often as it takes."""
    for number in range(EACH):
        while True:
            head = store.head(RUN)
            try:
                events = chain(head, [draft(thread=thread, number=number)])
                store.append(RUN, head.digest, head.epoch, events)
            except StaleHead:
                continue
            break


def test_what_is_read_is_a_value_of_its_own() -> None:
    store = MemoryStore()
    begin(store)
    (event, *_) = store.read(RUN)
    event.payload["changed"] = True
    assert "changed" not in next(iter(store.read(RUN))).payload
