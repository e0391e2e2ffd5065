"""An interrupt ends a command with status 130 wherever in the interpreter it arrives."""

import subprocess
import sys
import textwrap
from pathlib import Path

import pytest

RUN_SECONDS_MAX = 60

# What a command does when the interrupt arrives, and whether Python would lose it.
PLACES = {
    "a callback of the collector": """
        import gc

        def callback(phase, info):
            gc.callbacks.remove(callback)
            interrupt()

        gc.callbacks.append(callback)
        gc.collect()
        time.sleep(3600)
    """,
    "a finaliser": """
        class Ends:
            def __del__(self):
                interrupt()

        Ends()
        time.sleep(3600)
    """,
    "a text that is executed": """
        exec("interrupt()")
    """,
    "plain code": """
        interrupt()
    """,
}

COMMAND = """
import signal, sys, time
import loopcore.cli as cli

def interrupt():
    signal.raise_signal(signal.SIGINT)
    sys.stdout.write("")

def work(words):
{work}

cli._answered = work
sys.exit(cli.main([]))
"""


@pytest.mark.parametrize("place", PLACES)
def test_an_interrupt_is_answered_with_its_status_and_one_sentence(
    tmp_path: Path, place: str
) -> None:
    work = textwrap.indent(textwrap.dedent(PLACES[place]).strip(), "    ")
    (tmp_path / "interrupted.py").write_text(COMMAND.format(work=work), encoding="utf-8")
    done = subprocess.run(
        [sys.executable, "-m", "interrupted"],
        cwd=tmp_path,
        capture_output=True,
        text=True,
        timeout=RUN_SECONDS_MAX,
        check=False,
    )
    assert (done.returncode, done.stderr) == (130, "loopcore: interrupted\n")
