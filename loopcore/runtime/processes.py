"""Tools that are programs: nothing they start outlives its call, or it is a finding.

Theory of operation: a program runs in a session of its own with a marker in its environment, which
every process that it starts inherits. When it ends, or is asked to stop, whatever still carries the
marker gets TERM, then a grace, then KILL, as a process group and one by one; a process that left
its group or was forked twice is found all the same. What cannot be ended is named in a finding.

Choices: an exit status other than 0 tells that the program failed, not that nothing happened, so it
is indeterminate unless the tool is without effect or declares that its failures are definite. Where
there is no /proc only the process group can be reached. A process that clears its environment and
leaves its group escapes.

Source: spec runtime, section 5.
"""

from __future__ import annotations

import asyncio
import os
import signal
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path
from typing import IO

from loopcore.control.limits import Effect
from loopcore.runtime.tools import Tool, ToolCall, ToolFailed, ToolResult, ToolStopped, tool

MARKER = "LOOPCORE_CALL"
OUTPUT_BYTES_MAX = 1_048_576
# How often a process that was asked to end is looked at.
LOOK_SECONDS = 0.01
_PROC = Path("/proc")


def process_tool(
    name: str,
    argv: Callable[[ToolCall], Sequence[str]],
    *,
    effect: Effect = "unsafe",
    grace_ms: int = 2_000,
    definite_failures: bool = False,
    timeout_ms: int | None = None,
    cost_microunits_max: int = 0,
) -> Tool:
    """Return a tool that runs a program for each call; its output is what the program prints.

    Arguments:
        argv: the program and its arguments for a call. grace_ms: between TERM and KILL.
        definite_failures: an exit status other than 0 means that nothing happened.
    """

    async def run(call: ToolCall) -> ToolResult:
        with tempfile.TemporaryFile() as output:
            status, findings = await _run(argv(call), call.idempotency_key, output, grace_ms)
            output.seek(0)
            text = output.read(OUTPUT_BYTES_MAX).decode("utf-8", "replace")
        if status != 0:
            message = f"exit status {status}: {text}"
            if definite_failures or effect == "none":
                raise ToolFailed(message, error_class=f"exit_{status}")
            raise ToolStopped(message, findings=findings)
        return ToolResult(output=text, findings=findings)

    return tool(
        name,
        run,
        effect=effect,
        timeout_ms=timeout_ms,
        cost_microunits_max=cost_microunits_max,
    )


async def _run(
    argv: Sequence[str], marker: str, output: IO[bytes], grace_ms: int
) -> tuple[int, tuple[str, ...]]:
    """Return a program's exit status and findings; raises ToolStopped when it is asked to stop."""
    process = await asyncio.create_subprocess_exec(
        *argv,
        stdin=subprocess.DEVNULL,
        stdout=output,
        stderr=subprocess.STDOUT,
        env={**os.environ, MARKER: marker},
        start_new_session=True,
    )
    try:
        status = await process.wait()
    except asyncio.CancelledError:
        findings = await _reap(process.pid, marker, grace_ms, process)
        raise ToolStopped("the program was stopped", findings=findings) from None
    left = alive(marker)
    findings = await _reap(process.pid, marker, grace_ms, process)
    if left:
        findings = (f"{len(left)} processes outlived their program and were ended", *findings)
    return status, findings


async def _reap(
    group: int, marker: str, grace_ms: int, process: asyncio.subprocess.Process
) -> tuple[str, ...]:
    """End everything that a call started; return what could not be ended, as findings."""
    for sign, wait_ms in ((signal.SIGTERM, grace_ms), (signal.SIGKILL, grace_ms)):
        _signal(group, alive(marker), sign)
        loop = asyncio.get_running_loop()
        until = loop.time() + wait_ms / 1_000
        while loop.time() < until and (alive(marker) or process.returncode is None):
            await asyncio.sleep(LOOK_SECONDS)
        if not alive(marker) and process.returncode is not None:
            return ()
    left = sorted(alive(marker))
    return (f"unreaped: processes {', '.join(map(str, left))} are still running",) if left else ()


def _signal(group: int, processes: Iterable[int], sign: signal.Signals) -> None:
    for send, target in ((os.killpg, group), *((os.kill, pid) for pid in processes)):
        try:
            send(target, sign)
        except ProcessLookupError:
            continue


def alive(marker: str) -> frozenset[int]:
    """Return the processes, zombies apart, that carry a call's marker; none where /proc is not."""
    if sys.platform != "linux":
        return frozenset()
    wanted = f"{MARKER}={marker}".encode()
    found: set[int] = set()
    for folder in _PROC.iterdir():
        if not folder.name.isdigit():
            continue
        try:
            environment = (folder / "environ").read_bytes()
        except OSError:
            # It ended meanwhile, or it is somebody else's.
            continue
        if wanted in environment.split(b"\0"):
            found.add(int(folder.name))
    return frozenset(found)
