"""What a journal costs a run beside the agent's own work: to append an event, to reconstruct a run.

    pytest bench --benchmark-only

Both are per event of one real run's journal, without the wait for a disk: the events are appended
to the store in memory as the runner appended them, one append for each batch of their own, and the
reconstruction reads them, verifies every link and folds. `store_ratios.py` shows what a disk adds.
"""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

from loopcore.runtime.folding import fold_all
from loopcore.runtime.messages import Proposal
from loopcore.runtime.policies import run_policy
from loopcore.runtime.runner import Runner
from loopcore.runtime.tools import Accepted, ToolCall, ToolResult, Verdict, act, finish, tool
from loopcore.runtime.views import View
from loopcore.store.journal import EMPTY_HEAD, Event
from loopcore.store.memory import MemoryStore

if TYPE_CHECKING:
    from bench.conftest import Measure

STEPS = 50
RUN_ID = "r"


async def nothing(call: ToolCall) -> ToolResult:
    """Do nothing, and say that the state changed, so that no rule ever stops the run."""
    return ToolResult(
        state_sha256=f"{int(call.action[1:]):064x}", evidence=(call.evidence(call.action),)
    )


def propose(view: View) -> Proposal:
    """Call as often as is wanted, then finish."""
    return finish() if view.steps >= STEPS else act("t", {"n": view.steps})


def accept(view: View, claim: str) -> Verdict:
    """Accept every finish."""
    del view, claim
    return Accepted(subject="done")


def journal() -> tuple[MemoryStore, list[Event]]:
    """Return a store with one finished run, and the run's events."""
    store = MemoryStore()
    bound = STEPS + 10
    runner = Runner(
        policy=run_policy("overhead", max_steps=bound, max_tool_calls=bound),
        planner=propose,
        tools=[tool("t", nothing)],
        verifier=accept,
        store=store,
        threads=False,
    )
    assert asyncio.run(runner.run(RUN_ID)).terminal == "completed"
    return store, list(store.read(RUN_ID))


def test_append(measure: Measure) -> None:
    _, events = journal()

    def append() -> None:
        store, head = MemoryStore(), EMPTY_HEAD
        for event in events:
            head = store.append(RUN_ID, head.digest, event.epoch, [event])

    measure(append, len(events))


def test_reconstruction(measure: Measure) -> None:
    store, events = journal()
    measure(lambda: fold_all(store.read(RUN_ID)), len(events))
