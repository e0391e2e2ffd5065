"""Nothing that a program starts outlives its call: not after its end, not after a cancellation.

These tests run real programs on the real clock; they wait for what happens, never for a time.
"""

import asyncio
import sys
from pathlib import Path

import pytest

from loopcore.control.limits import Effect
from loopcore.runtime.payloads import RunReceipt
from loopcore.runtime.policies import run_policy
from loopcore.runtime.processes import alive, process_tool
from loopcore.runtime.runner import Runner
from loopcore.runtime.tools import act, finish
from loopcore.store.memory import MemoryStore
from properties.core.runner_worlds import Script, accept, agreed

# A program that forks twice, so that its grandchild is nobody's child and in its own session.
ORPHAN = """
import os, pathlib, signal, sys, time
ready, stubborn, stay = sys.argv[1], sys.argv[2] == "stubborn", sys.argv[3] == "stay"
if os.fork() == 0:
    os.setsid()
    if os.fork() == 0:
        if stubborn:
            signal.signal(signal.SIGTERM, signal.SIG_IGN)
        pathlib.Path(ready).write_text(str(os.getpid()))
        time.sleep(600)
    os._exit(0)
while not pathlib.Path(ready).exists():
    time.sleep(0.005)
print("started", flush=True)
if stay:
    time.sleep(600)
"""


def _runner(ready: Path, *, stubborn: bool, stay: bool, effect: Effect = "unsafe") -> Runner:
    options = ["stubborn" if stubborn else "-", "stay" if stay else "-"]
    program = process_tool(
        "program",
        lambda call: [sys.executable, "-c", ORPHAN, str(ready), *options],
        effect=effect,
        grace_ms=300,
    )
    return Runner(
        policy=run_policy("processes"),
        planner=Script([[act("program")], [finish()]]),
        tools=[program],
        verifier=accept,
        store=MemoryStore(),
        threads=False,
    )


def _key(runner: Runner) -> str:
    store = runner.journals.store
    return next(e.idempotency_key or "" for e in store.read("r") if e.kind == "action_dispatched")


@pytest.mark.parametrize("stubborn", [False, True])
def test_a_cancelled_program_leaves_no_descendant(tmp_path: Path, stubborn: bool) -> None:
    ready = tmp_path / "ready"
    made = _runner(ready, stubborn=stubborn, stay=True)

    async def main() -> RunReceipt:
        run = asyncio.ensure_future(made.run("r"))
        while not ready.exists():
            await asyncio.sleep(0.005)
        assert alive(_key(made)), "the grandchild runs"
        await made.request_cancel("r")
        return await run

    receipt = asyncio.run(main())
    assert receipt.terminal == "cancelled"
    assert not alive(_key(made))
    assert [effect.tool for effect in receipt.open_effects] == ["program"]
    assert not any("unreaped" in finding for finding in receipt.findings)
    agreed(made.journals.store.read("r"))


def test_a_descendant_that_outlives_its_program_is_ended_and_is_a_finding(tmp_path: Path) -> None:
    made = _runner(tmp_path / "ready", stubborn=False, stay=False)
    receipt = asyncio.run(made.run("r"))
    assert receipt.terminal == "completed"
    assert not alive(_key(made))
    assert any("outlived" in finding for finding in receipt.findings)


def test_the_output_of_a_program_is_its_result() -> None:
    says = process_tool("says", lambda call: [sys.executable, "-c", "print('hello')"])
    script = Script([[act("says")]])
    made = Runner(
        policy=run_policy("processes"),
        planner=script,
        tools=[says],
        store=MemoryStore(),
        threads=False,
    )
    asyncio.run(made.run("r"))
    assert script.views[1].last[0].output == "hello\n"


@pytest.mark.parametrize(
    ("effect", "terminal"), [("none", "input_exhausted"), ("unsafe", "indeterminate_effect")]
)
def test_an_exit_status_is_no_proof_that_nothing_happened(effect: Effect, terminal: str) -> None:
    fails = process_tool(
        "fails", lambda call: [sys.executable, "-c", "raise SystemExit(3)"], effect=effect
    )
    made = Runner(
        policy=run_policy("processes"),
        planner=Script([[act("fails")]]),
        tools=[fails],
        store=MemoryStore(),
        threads=False,
    )
    assert asyncio.run(made.run("r")).terminal == terminal
