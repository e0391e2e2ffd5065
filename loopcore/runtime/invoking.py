"""A user's function, called so that it cannot hold the runner up.

Theory of operation: an `async` function is awaited. A plain one may block, so it runs in a thread
of its own, a daemon: one that never returns is left behind and keeps neither the event loop nor the
process from ending.

Source: spec runtime, sections 2 and 5.
"""

from __future__ import annotations

import asyncio
import inspect
import threading
from collections.abc import Callable


async def invoke(function: object, call: Callable[[], object], *, threads: bool) -> object:
    """Return what a call of a function returns; raises what it raises.

    Arguments:
        function: what is called, to see whether it is `async`. call: calls it.
        threads: False calls a plain function directly, for functions that never block.
    """
    answer = call() if not threads or _is_async(function) else await _in_thread(call)
    return await answer if inspect.isawaitable(answer) else answer


def _is_async(function: object) -> bool:
    call: object = getattr(type(function), "__call__", None)  # noqa: B004 an object may be async
    return inspect.iscoroutinefunction(function) or inspect.iscoroutinefunction(call)


async def _in_thread(call: Callable[[], object]) -> object:
    loop = asyncio.get_running_loop()
    answer: asyncio.Future[object] = loop.create_future()

    def settle(result: object, error: BaseException | None) -> None:
        if answer.done():
            return
        if error is None:
            answer.set_result(result)
        else:
            answer.set_exception(error)

    def run() -> None:
        result: object = None
        failure: BaseException | None = None
        try:
            result = call()
        except BaseException as error:  # noqa: BLE001 it is raised where the call was made
            failure = error
        if isinstance(failure, StopIteration):
            failure = RuntimeError("the function raised StopIteration")
        try:
            loop.call_soon_threadsafe(settle, result, failure)
        except RuntimeError:
            # The event loop has ended without waiting for this call; nobody wants its answer.
            return

    threading.Thread(target=run, daemon=True, name="loopcore-call").start()
    return await answer
