"""A child process that misbehaves becomes one error in bounded time, and never a hang of ours."""

import errno
import os
import selectors
import signal
import subprocess
import sys
import textwrap
import time
from pathlib import Path
from typing import Protocol

import pytest

from loopcore.errors import EnvironmentFault, TargetError
from loopcore.process import ChildProcess

# No misbehaviour may take longer than this, whatever the machine is doing.
BOUND_SECONDS = 20.0
ANSWER_SECONDS = 1.0


class Start(Protocol):
    """Makes a child of the source text of a Python script."""

    def __call__(self, source: str, **settings: int) -> ChildProcess: ...


ECHO = """
    import sys
    for line in sys.stdin:
        sys.stdout.write(line)
        sys.stdout.flush()
"""


@pytest.fixture
def start(tmp_path: Path) -> Start:
    """A function that makes a child of the source text of a Python script."""

    def make(source: str, **settings: int) -> ChildProcess:
        script = tmp_path / "child.py"
        script.write_text(textwrap.dedent(source), encoding="utf-8")
        return ChildProcess(
            [sys.executable, str(script)],
            env={"FOLDER": str(tmp_path)},
            answer_seconds=ANSWER_SECONDS,
            **settings,
        )

    return make


def fault(child: ChildProcess, *requests: bytes) -> TargetError:
    """The error of the last request; the ones before it are answered."""
    for request in requests[:-1]:
        child.ask(request)
    started = time.monotonic()
    with child, pytest.raises(TargetError) as caught:
        child.ask(requests[-1])
    assert time.monotonic() - started < BOUND_SECONDS
    return caught.value


def is_alive(process: int) -> bool:
    """Whether a process runs; one that has ended and waits for its parent does not."""
    try:
        return "\nState:\tZ" not in Path(f"/proc/{process}/status").read_text(encoding="utf-8")
    except FileNotFoundError:
        return False


def has_ended(process: int) -> bool:
    """Whether a process is gone, or goes within a moment."""
    for _ in range(100):
        if not is_alive(process):
            return True
        time.sleep(0.02)
    return False


def wait_for(file: Path) -> None:
    """Return when a child has made a file."""
    deadline = time.monotonic() + BOUND_SECONDS
    while not file.exists():
        assert time.monotonic() < deadline
        time.sleep(0.02)


def test_answers_come_in_order(start: Start) -> None:
    with start(ECHO) as child:
        assert [child.ask(b"%d" % number) for number in range(50)] == [
            b"%d" % number for number in range(50)
        ]


def test_a_request_larger_than_every_pipe_arrives_whole(start: Start) -> None:
    line = b"x" * 5_000_000
    with start(ECHO) as child:
        assert child.ask(line) == line


def test_a_command_may_be_a_text(start: Start) -> None:
    start(ECHO)
    with ChildProcess(f"'{sys.executable}' -c 'print(input()[::-1])'") as child:
        assert child.ask(b"abc") == b"cba"


def test_a_crash_tells_the_status_and_the_end_of_standard_error(start: Start) -> None:
    error = fault(
        start("import sys; input(); sys.stderr.write('x' * 300000 + 'the end'); sys.exit(7)"),
        b"question",
    )
    assert error.kind == "crash"
    assert "status 7" in error.message
    assert error.message.endswith("the end")
    assert len(error.message) < 4000
    assert error.request == "question"


def test_a_death_by_a_signal_names_the_signal(start: Start) -> None:
    error = fault(start("import os; input(); os.kill(os.getpid(), 11)"), b"q")
    assert error.kind == "crash"
    assert "SIGSEGV" in error.message


def test_a_command_that_does_not_exist_is_a_crash() -> None:
    error = fault(ChildProcess(["no-such-command-anywhere"]), b"q")
    assert error.kind == "crash"
    assert "No such file" in error.message


def test_silence_is_a_hang(start: Start) -> None:
    error = fault(start("import time; input(); time.sleep(600)"), b"q")
    assert (error.kind, error.request) == ("hang", "q")


def test_a_child_that_never_reads_is_a_hang(start: Start) -> None:
    assert fault(start("import time; time.sleep(600)"), b"x" * 1_000_000).kind == "hang"


def test_a_child_that_trickles_is_a_hang(start: Start) -> None:
    source = """
        import sys, time
        sys.stdin.readline()
        while True:
            sys.stdout.write("x")
            sys.stdout.flush()
            time.sleep(0.01)
    """
    assert fault(start(source), b"q").kind == "hang"


def test_an_endless_line_is_a_flood(start: Start) -> None:
    source = """
        import sys
        input()
        while True:
            sys.stdout.write("x" * 65536)
    """
    assert fault(start(source, output_bytes_max=10_000_000), b"q").kind == "flood"


def test_an_answer_that_is_too_long_is_a_flood(start: Start) -> None:
    assert fault(start(ECHO, output_bytes_max=100), b"y" * 101).kind == "flood"
    with start(ECHO, output_bytes_max=100) as child:
        assert child.ask(b"y" * 100) == b"y" * 100


def test_many_lines_that_nobody_asked_for_are_a_flood(start: Start) -> None:
    source = """
        import os
        while True:
            os.write(1, b"unasked\\n" * 500)
    """
    assert fault(start(source), b"q").kind in ("flood", "order")


def test_a_second_line_is_out_of_order_and_belongs_to_the_request_before(
    start: Start, tmp_path: Path
) -> None:
    source = """
        import os, sys, time
        input()
        print("one", flush=True)
        time.sleep(0.1)
        print("two", flush=True)
        open(os.environ["FOLDER"] + "/written", "w").close()
        input()
        print("three", flush=True)
    """
    child = start(source)
    assert child.ask(b"first") == b"one"
    wait_for(tmp_path / "written")
    error = fault(child, b"second")
    assert (error.kind, error.request) == ("order", "first")


def test_two_lines_at_once_are_out_of_order(start: Start) -> None:
    error = fault(start("input(); print('one\\ntwo', flush=True); input()"), b"first")
    assert (error.kind, error.request) == ("order", "first")


def test_an_answer_before_the_request_is_read_is_out_of_order(start: Start) -> None:
    source = """
        import time
        print("hello", flush=True)
        time.sleep(600)
    """
    assert fault(start(source), b"x" * 5_000_000).kind == "order"


def test_a_late_answer_is_never_taken_for_the_next_one(start: Start) -> None:
    source = """
        import sys, time
        for line in sys.stdin:
            if line.startswith("slow"):
                time.sleep(1.5)
            sys.stdout.write(line)
            sys.stdout.flush()
    """
    with start(source) as child:
        with pytest.raises(TargetError, match="no answer within"):
            child.ask(b"slow")
        time.sleep(1.0)
        assert child.ask(b"next") == b"next"


def test_closing_standard_output_is_a_crash(start: Start) -> None:
    error = fault(start("import os, time; input(); os.close(1); time.sleep(600)"), b"q")
    assert error.kind == "crash"
    assert "closed its standard output" in error.message


def test_closing_standard_input_is_a_hang_when_no_answer_comes(start: Start) -> None:
    source = "import os, time; os.close(0); time.sleep(600)"
    assert fault(start(source), b"x" * 1_000_000).kind == "hang"


def test_a_dead_child_is_noticed_though_a_grandchild_holds_its_pipes(start: Start) -> None:
    source = """
        import os, subprocess, sys
        input()
        sleeper = subprocess.Popen([sys.executable, "-c", "import time; time.sleep(600)"])
        open(os.environ["FOLDER"] + "/grandchild", "w").write(str(sleeper.pid))
        os._exit(3)
    """
    child = start(source)
    error = fault(child, b"q")
    assert error.kind == "crash"
    assert "status 3" in error.message


@pytest.mark.parametrize("error_first", [True, False])
def test_grandchildren_go_with_the_child(start: Start, tmp_path: Path, error_first: bool) -> None:
    source = """
        import os, subprocess, sys
        sleeper = subprocess.Popen([sys.executable, "-c", "import time; time.sleep(600)"])
        open(os.environ["FOLDER"] + "/grandchild", "w").write(str(sleeper.pid))
        print(input(), flush=True)
        print(input() and "", end="", flush=True)
        os._exit(0)
    """
    with start(source) as child:
        child.ask(b"q")
        grandchild = int((tmp_path / "grandchild").read_text(encoding="utf-8"))
        assert is_alive(grandchild)
        if error_first:
            with pytest.raises(TargetError):
                child.ask(b"q")
    assert has_ended(grandchild)


def test_a_child_that_ignores_sigterm_and_the_end_of_its_input_is_ended(
    start: Start, tmp_path: Path
) -> None:
    source = """
        import os, signal, sys, time
        signal.signal(signal.SIGTERM, signal.SIG_IGN)
        open(os.environ["FOLDER"] + "/child", "w").write(str(os.getpid()))
        print(input(), flush=True)
        while True:
            time.sleep(1)
    """
    child = start(source)
    child.ask(b"q")
    process = int((tmp_path / "child").read_text(encoding="utf-8"))
    started = time.monotonic()
    child.close()
    assert time.monotonic() - started < BOUND_SECONDS
    assert has_ended(process)


def test_a_child_may_tidy_up_at_the_end_of_its_input(start: Start, tmp_path: Path) -> None:
    with start(ECHO + '\n    open(__import__("os").environ["FOLDER"] + "/tidy", "w")') as child:
        child.ask(b"q")
    assert (tmp_path / "tidy").exists()


def test_standard_error_never_fills_up(start: Start) -> None:
    source = """
        import sys
        for line in sys.stdin:
            sys.stderr.write("e" * 1_000_000)
            sys.stdout.write(line)
            sys.stdout.flush()
    """
    with start(source) as child:
        assert [child.ask(b"q") for _ in range(5)] == [b"q"] * 5


def test_a_new_child_serves_after_a_fault_but_not_without_end(start: Start) -> None:
    source = """
        import sys
        for line in sys.stdin:
            if line.startswith("die"):
                sys.exit(1)
            sys.stdout.write(line)
            sys.stdout.flush()
    """
    with start(source, restarts_max=2) as child:
        for _ in range(2):
            with pytest.raises(TargetError, match="status 1"):
                child.ask(b"die")
            assert child.ask(b"live") == b"live"
        with pytest.raises(TargetError, match="status 1"):
            child.ask(b"die")
        with pytest.raises(TargetError, match="restarted too often"):
            child.ask(b"live")


def test_an_interruption_leaves_no_child(start: Start, tmp_path: Path) -> None:
    source = """
        import os, time
        open(os.environ["FOLDER"] + "/child", "w").write(str(os.getpid()))
        os.kill(os.getppid(), 2)
        time.sleep(600)
    """
    child = start(source)
    # A test runner may have switched the interrupt off in its workers.
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    try:
        with pytest.raises(KeyboardInterrupt):
            child.ask(b"q")
    finally:
        signal.signal(signal.SIGINT, before)
    assert has_ended(int((tmp_path / "child").read_text(encoding="utf-8")))


def test_a_request_is_one_line(start: Start) -> None:
    with start(ECHO) as child, pytest.raises(ValueError, match="one line"):
        child.ask(b"two\nlines")


@pytest.mark.parametrize("number", [errno.EMFILE, errno.ENFILE, errno.EAGAIN, errno.ENOMEM])
@pytest.mark.parametrize("part", [(subprocess, "Popen"), (selectors, "DefaultSelector")])
def test_a_machine_without_room_is_no_fault_of_the_child(
    start: Start, monkeypatch: pytest.MonkeyPatch, part: tuple[object, str], number: int
) -> None:
    def refuse(*_: object, **__: object) -> None:
        raise OSError(number, os.strerror(number))

    child = start(ECHO)
    with monkeypatch.context() as patched:
        patched.setattr(*part, refuse)
        with pytest.raises(EnvironmentFault, match=os.strerror(number)):
            child.ask(b"1")
    assert child.pid is None
    assert child.ask(b"2") == b"2"
    child.close()
