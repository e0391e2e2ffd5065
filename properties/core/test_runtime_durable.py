"""The same run on a durable store, with threads and the real clock: the same journal, and it lasts.

Nothing here waits for a time; what is slow is the disk.
"""

import asyncio
import threading
import time
from pathlib import Path

from loopcore.runtime.policies import run_policy
from loopcore.runtime.runner import Runner
from loopcore.runtime.tools import Tool, ToolCall, act, finish, tool
from loopcore.store.sqlite import SqliteStore
from properties.core.runner_worlds import Script, accept, agreed

THREADS: list[str] = []


def plain(call: ToolCall) -> str:
    """Answer from whatever thread it is called in."""
    THREADS.append(threading.current_thread().name)
    return f"answer {call.arguments['n']}"


def _runner(store: SqliteStore, tools: list[Tool], count: int = 3) -> Runner:
    return Runner(
        policy=run_policy("durable"),
        planner=Script([*[[act("t", {"n": n})] for n in range(count)], [finish()]]),
        tools=tools,
        verifier=accept,
        store=store,
    )


def test_a_run_on_sqlite_completes_and_another_process_reads_the_same_receipt(
    tmp_path: Path,
) -> None:
    path = tmp_path / "journal.db"
    store = SqliteStore(path)
    made = _runner(store, [tool("t", plain, effect="none")])
    receipt = asyncio.run(made.run("r"))
    store.close()
    assert receipt.terminal == "completed"
    assert set(THREADS) == {"loopcore-call"}
    again = SqliteStore(path)
    second = asyncio.run(_runner(again, [tool("t", plain, effect="none")]).run("r"))
    assert second == receipt
    agreed(again.read("r"))
    again.close()


def test_a_plain_function_that_never_returns_holds_up_neither_run_nor_process(
    tmp_path: Path,
) -> None:
    started = threading.Event()

    def never(call: ToolCall) -> str:
        started.set()
        while True:
            time.sleep(60)

    store = SqliteStore(tmp_path / "journal.db")
    made = _runner(store, [tool("t", never)])

    async def main() -> str:
        run = asyncio.ensure_future(made.run("r"))
        while not started.is_set():
            await asyncio.sleep(0.001)
        await made.request_cancel("r")
        return (await run).terminal

    assert asyncio.run(main()) == "cancelled"
    store.close()
