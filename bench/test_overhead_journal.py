"""What a journal costs a run beside the agent's own work: to append an event, to reconstruct a run.

    pytest bench --benchmark-only

Both are per event of one real run's journal, without the wait for a disk: each event is appended to
the store in memory by itself, and the reconstruction reads all, verifies every link and folds.
`store_ratios.py` shows what a disk adds.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from bench.runner_ratios import RUN_ID, timed_run
from loopcore.runtime.folding import fold_all
from loopcore.store.journal import EMPTY_HEAD
from loopcore.store.memory import MemoryStore

if TYPE_CHECKING:
    from bench.conftest import Measure
    from loopcore.store.contract import Store

STEPS = 50


def finished() -> Store:
    """Return a store with the journal of one run that is over."""
    runner, receipt, _ = timed_run(STEPS)
    assert receipt.terminal == "completed"
    return runner.journals.store


def test_append(measure: Measure) -> None:
    events = list(finished().read(RUN_ID))

    def append() -> None:
        store, head = MemoryStore(), EMPTY_HEAD
        for event in events:
            head = store.append(RUN_ID, head.digest, event.epoch, [event])

    measure(append, len(events))


def test_reconstruction(measure: Measure) -> None:
    store = finished()
    measure(lambda: fold_all(store.read(RUN_ID)), store.head(RUN_ID).sequence)
