"""After an append that nobody answered, made or not, a worker reads and decides again.

A dispatch that it finds in the journal and has not called may have crossed for all it knows, so it
is asked about and not called.
"""

from collections.abc import Sequence

import pytest

from loopcore.runtime.tools import tool
from loopcore.store.contract import AppendUnanswered
from loopcore.store.journal import Event, Head
from properties.core.runner_worlds import DyingStore, Effects, Stores, payer, run, runner

APPENDS = 12


class Unanswering(DyingStore):
    """A store of which one append gets no answer, and which lives on."""

    def append(self, run_id: str, expected_head: str, epoch: int, events: Sequence[Event]) -> Head:
        """Append, but leave one append without an answer."""
        number, self.appends = self.appends, self.appends + 1
        if number != self.dies_at:
            return self.store.append(run_id, expected_head, epoch, events)
        if self.made:
            self.store.append(run_id, expected_head, epoch, events)
        raise AppendUnanswered(run_id, "the connection was lost")


@pytest.mark.parametrize("made", [False, True])
@pytest.mark.parametrize("at", range(APPENDS))
def test_the_run_completes_with_each_effect_once(at: int, made: bool) -> None:
    stores, bank = Stores(), Effects()
    store = Unanswering(stores.store, dies_at=at, made=made)
    receipt, _ = run(
        lambda s: runner(
            s, payer(2), [tool("pay", bank.pay)], reconciler=bank.find_out, store=store
        ),
        stores=stores,
    )
    assert receipt.terminal == "completed"
    assert len(bank.effects) == 2
    assert bank.most_per_identity() == 1
    kinds = stores.kinds("r")
    assert kinds.count("terminal_committed") == 1
    # Creation and lease, then dispatch and outcome of each payment in turn.
    dispatch_unanswered = made and at in (2, 4)
    assert len(bank.asked) == dispatch_unanswered
    assert len(bank.arrivals) == 2
