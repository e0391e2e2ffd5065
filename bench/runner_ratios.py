"""Measure what the runner itself costs: time a step on a store in memory, and resumption.

Run by path: `python bench/runner_ratios.py [--steps N] [--events N …]`. A step is one planner's
question, one call of a tool that does nothing, and two appends of six events in all. Resumption is
reading a journal, verifying every link and folding it; its time an event is printed for three
sizes, so that a cost that grows with the journal shows. Times are this thread's processor time.
"""

from __future__ import annotations

import argparse
import asyncio
import time
from collections.abc import Sequence

from loopcore.runtime.folding import fold_all
from loopcore.runtime.messages import Proposal
from loopcore.runtime.payloads import RunReceipt
from loopcore.runtime.policies import run_policy
from loopcore.runtime.projection import agreement
from loopcore.runtime.runner import Runner
from loopcore.runtime.tools import Accepted, ToolCall, ToolResult, Verdict, act, finish, tool
from loopcore.runtime.views import View
from loopcore.store.memory import MemoryStore

# One step is six events: reserved, dispatched, observed, validated, settled, committed.
EVENTS_PER_STEP = 6
RUN_ID = "r"


async def nothing(call: ToolCall) -> ToolResult:
    """Do nothing, and say that the state changed, so that no rule ever stops the run."""
    return ToolResult(
        output="ok",
        state_sha256=f"{call.at_unix_ms:032x}{int(call.action[1:]):032x}",
        evidence=(call.evidence(call.action),),
    )


def accept(view: View, claim: str) -> Verdict:
    """Accept every finish."""
    return Accepted(subject="done")


def counting(steps: int) -> Runner:
    """Return a runner of one run with so many calls and a finish."""

    def propose(view: View) -> Proposal:
        return finish() if view.steps >= steps else act("t", {"n": view.steps})

    bound = steps + 10
    return Runner(
        policy=run_policy("bench", max_steps=bound, max_tool_calls=bound),
        planner=propose,
        tools=[tool("t", nothing)],
        verifier=accept,
        store=MemoryStore(),
        threads=False,
    )


def timed_run(steps: int) -> tuple[Runner, RunReceipt, float]:
    """Return a run that is over, and its microseconds a step."""
    runner = counting(steps)
    started = time.thread_time()
    receipt = asyncio.run(runner.run(RUN_ID))
    return runner, receipt, (time.thread_time() - started) * 1e6 / steps


def timed_resumption(runner: Runner) -> tuple[int, float, float]:
    """Return a journal's events, and microseconds an event to read and to read, verify and fold."""
    store = runner.journals.store
    started = time.thread_time()
    events = list(store.read(RUN_ID))
    read = time.thread_time() - started
    fold_all(events)
    whole = time.thread_time() - started
    return len(events), read * 1e6 / len(events), whole * 1e6 / len(events)


def main(argv: Sequence[str] | None = None) -> int:
    """Print every figure, one a line; return 1 where runner and evaluator disagree."""
    parser = argparse.ArgumentParser(description=main.__doc__)
    parser.add_argument("--steps", type=int, default=2_000)
    parser.add_argument("--events", type=int, nargs="*", default=[1_000, 10_000, 100_000])
    options = parser.parse_args(argv)
    runner, receipt, each = timed_run(options.steps)
    print(
        f"runner's own time: {each:.0f} us a step over {options.steps} steps ({receipt.terminal})"
    )
    if not agreement(runner.journals.store.read(RUN_ID)).agrees:
        return 1
    for size in options.events:
        made, _, _ = timed_run(max(1, size // EVENTS_PER_STEP))
        events, read, whole = timed_resumption(made)
        print(f"resumption: {whole:.1f} us an event over {events} events ({read:.1f} to read)")
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
