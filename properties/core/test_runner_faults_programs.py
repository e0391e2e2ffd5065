"""Claim: a program whose runner was killed is ended before anybody says what became of its effect.

The kill leaves the program and its grandchild behind, in a session of their own and deaf to TERM.
The next owner finds them by the key that the journal holds, so it can tell for good that an effect
which did not happen yet will not happen any more.
"""

from __future__ import annotations

import asyncio
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from contextlib import closing
from pathlib import Path

from loopcore.runtime.messages import Finding, Reconcile
from loopcore.runtime.policies import run_policy
from loopcore.runtime.processes import alive, process_tool
from loopcore.runtime.runner import Runner
from loopcore.runtime.tools import Planned, act, finish, verified_no_effect, verified_success
from loopcore.runtime.views import View
from loopcore.store.memory import wall_clock_ms
from loopcore.store.sqlite import SqliteStore
from properties.core.killing_judge import receipt_of
from properties.core.killing_lives import HOUR_MS
from properties.core.runner_worlds import accept, agreed

SECONDS_MAX = 60
LOOK_SECONDS = 0.005
ROOT = Path(__file__).resolve().parents[2]

# The effect is a line in a file. The first program hangs before it, with a grandchild that would
# have the effect much later; any later one has its effect at once.
PROGRAM = """
import os, pathlib, signal, sys, time
folder = pathlib.Path(sys.argv[1])
def effect():
    with (folder / "effects").open("a") as file:
        file.write(sys.argv[2] + chr(10))
if (folder / "hung").exists():
    effect()
    sys.exit()
signal.signal(signal.SIGTERM, signal.SIG_IGN)
if os.fork() == 0:
    os.setsid()
    (folder / "hung").write_text(str(os.getpid()))
    time.sleep(600)
    effect()
    os._exit(0)
time.sleep(600)
"""
OWNER = """
import sys
from pathlib import Path
from properties.core.test_runner_faults_programs import ran
ran(Path(sys.argv[1]))
"""


def effects(folder: Path) -> list[str]:
    """Return the keys whose effect happened."""
    path = folder / "effects"
    return path.read_text().split() if path.exists() else []


def waited(until: Callable[[], bool]) -> None:
    """Wait for something, within a limit."""
    end = time.monotonic() + SECONDS_MAX
    while not until():
        assert time.monotonic() < end
        time.sleep(LOOK_SECONDS)


def ran(folder: Path, ahead_ms: int = 0) -> None:
    """Begin the run or go on with it."""

    def plan(view: View) -> Planned:
        done = any(r.tool == "program" and r.outcome == "succeeded" for r in view.history)
        return finish() if done else act("program")

    def find_out(question: Reconcile) -> Finding:
        key = question.idempotency_key
        for process in alive(key):
            os.kill(process, signal.SIGKILL)
        waited(lambda: not alive(key))
        # Nothing is left that could have the effect, so what the file says now stays true.
        return verified_success() if key in effects(folder) else verified_no_effect(key)

    program = process_tool(
        "program", lambda call: [sys.executable, "-c", PROGRAM, str(folder), call.idempotency_key]
    )
    with closing(SqliteStore(folder / "store", now_ms=lambda: wall_clock_ms() + ahead_ms)) as store:
        runner = Runner(
            policy=run_policy("programs"),
            planner=plan,
            tools=[program],
            verifier=accept,
            reconciler=find_out,
            store=store,
        )
        asyncio.run(runner.run("r"))


def test_what_a_killed_runner_leaves_running_is_ended_by_the_next_owner(tmp_path: Path) -> None:
    owner = subprocess.Popen([sys.executable, "-c", OWNER, str(tmp_path)], cwd=ROOT)
    waited((tmp_path / "hung").exists)
    owner.send_signal(signal.SIGKILL)
    assert owner.wait(SECONDS_MAX) == -signal.SIGKILL
    with closing(SqliteStore(tmp_path / "store")) as store:
        (dispatched,) = [e for e in store.read("r") if e.kind == "action_dispatched"]
        key = dispatched.idempotency_key or ""
        try:
            assert len(alive(key)) == 2, "program and grandchild outlive their runner"
            ran(tmp_path, HOUR_MS)
            assert not alive(key)
        finally:
            for process in alive(key):
                os.kill(process, signal.SIGKILL)
        events = list(store.read("r"))
    assert receipt_of(events).terminal == "completed"
    assert len(effects(tmp_path)) == 1
    assert key not in effects(tmp_path)
    found = [e.payload["finding"] for e in events if e.kind == "effect_reconciled"]
    assert found == ["verified_no_effect"]
    agreed(events)
