"""One JSON-lines child: a line goes in, a line comes out, in bounded time and memory.

Theory of operation: the child has its own session and three pipes, none of which blocks here. One
request is one loop over a selector that sends what is unsent, gathers standard output up to a line
end, keeps the tail of standard error, and looks at the clock. Whatever else happens (death,
silence, an endless line, output that nobody asked for) ends the child with its whole process group
and becomes one `TargetError`; the next request starts a new child. So an answer can never be
mistaken for that of a later request.

What is said in the lines is the caller's business.

Choices: a child is dead when its own process has ended, even when a grandchild still holds the
pipes. A grandchild that makes a session of its own escapes; nothing here waits for it.

Source: spec evaluator, section 7 (a target that dies, hangs or answers out of order).
"""

from __future__ import annotations

import errno
import os
import selectors
import shlex
import signal
import subprocess
from collections.abc import Mapping, Sequence
from time import monotonic
from types import TracebackType
from typing import IO

from loopcore.errors import EnvironmentFault, TargetError

ANSWER_SECONDS = 10.0
OUTPUT_BYTES_MAX = 2**26
RESTARTS_MAX = 500

# How often a waiting request looks whether the process has ended, with grandchildren in its pipes.
_TICK_SECONDS = 0.1
# How long a child that was asked to leave may take, for each way of asking.
_GRACE_SECONDS = 1.0
# A killed process is gone at once, unless the kernel itself is stuck.
_KILLED_SECONDS = 5.0
_PIECE_BYTES = 2**16
_ERRORS_BYTES_MAX = 2000
# Unasked output up to this size is an answer out of order; more is a flood.
_UNASKED_BYTES_MAX = 2**12
# What keeps a process from being started that is no fault of its command.
_MACHINE_FAULTS = (errno.EMFILE, errno.ENFILE, errno.EAGAIN, errno.ENOMEM)
# How often the pipes are looked into without waiting, before a request and after a death.
_LOOKS_MAX = 64

# Every child that this process has now, for the case that it must end without unwinding.
_running: set[_Child] = set()


def end_children() -> None:
    """Kill every child of this process with its group; for a process that is about to end."""
    while _running:
        _running.pop().leave(politely=False)


class _Child:
    """A running process with its pipes, what it has written, and what it was asked last."""

    def __init__(self, command: Sequence[str], environment: Mapping[str, str]) -> None:
        # First of all, since nobody would end the process if there were no selector for it.
        self._selector = selectors.DefaultSelector()
        try:
            self.process = subprocess.Popen(
                command,
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=subprocess.PIPE,
                bufsize=0,
                env=dict(environment),
                start_new_session=True,
            )
        except BaseException:
            self._selector.close()
            raise
        self.stdin = _descriptor(self.process.stdin)
        self.stdout = _descriptor(self.process.stdout)
        self.stderr = _descriptor(self.process.stderr)
        self.output = bytearray()
        self.errors = bytearray()
        self.output_ended = False
        self.previous: bytes | None = None
        self._selector.register(self.stdout, selectors.EVENT_READ)
        self._selector.register(self.stderr, selectors.EVENT_READ)
        self._sending = False
        _running.add(self)

    def send(self, data: memoryview) -> memoryview:
        """Send what the pipe takes now; return the rest, none when the child no longer reads."""
        try:
            data = data[os.write(self.stdin, data) :]
        except BrokenPipeError:
            data = data[:0]
        except BlockingIOError:
            data = data[:]  # The pipe is full; the selector tells when it takes more.
        if bool(data) != self._sending:
            self._sending = bool(data)
            if self._sending:
                self._selector.register(self.stdin, selectors.EVENT_WRITE)
            else:
                self._selector.unregister(self.stdin)
        return data

    def wait(self, seconds: float) -> bool:
        """Take in what arrives within the time; return whether anything happened."""
        events = self._selector.select(seconds)
        for key, _ in events:
            if key.fd == self.stdout:
                self._take(key.fd, self.output)
            elif key.fd == self.stderr:
                self._take(key.fd, self.errors)
                del self.errors[:-_ERRORS_BYTES_MAX]
        return bool(events)

    def _take(self, descriptor: int, buffer: bytearray) -> None:
        piece = os.read(descriptor, _PIECE_BYTES)
        buffer += piece
        if not piece:
            self._selector.unregister(descriptor)
            self.output_ended = self.output_ended or descriptor == self.stdout

    def leave(self, *, politely: bool) -> None:
        """End the process and its group: by end of input and SIGTERM first, where politely."""
        process = self.process
        _running.discard(self)
        self._selector.close()
        if process.stdin is not None:
            process.stdin.close()
        if politely and not _ended(process, _GRACE_SECONDS):
            _signal_group(process.pid, signal.SIGTERM)
            _ended(process, _GRACE_SECONDS)
        # The group is killed even after its leader has gone: grandchildren may be left in it.
        _signal_group(process.pid, signal.SIGKILL)
        _ended(process, _KILLED_SECONDS)
        for pipe in (process.stdout, process.stderr):
            if pipe is not None:
                pipe.close()


class ChildProcess:
    """A child process that answers lines; started at the first request, and again after a fault.

    Arguments:
        command: the words of the command, or a text that is split as a shell would.
        env: variables to set besides those of this process.
        answer_seconds: how long one answer may take.
        output_bytes_max: how long one answer may be.
        restarts_max: how many new children may follow the first one.
    """

    def __init__(
        self,
        command: Sequence[str] | str,
        *,
        env: Mapping[str, str] | None = None,
        answer_seconds: float = ANSWER_SECONDS,
        output_bytes_max: int = OUTPUT_BYTES_MAX,
        restarts_max: int = RESTARTS_MAX,
    ) -> None:
        self._command = shlex.split(command) if isinstance(command, str) else list(command)
        self._environment = {**os.environ, **(env or {})}
        self._answer_seconds = answer_seconds
        self._output_bytes_max = output_bytes_max
        self._starts_left = restarts_max + 1
        self._child: _Child | None = None

    def __enter__(self) -> ChildProcess:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        self.close()

    def ask(self, line: bytes) -> bytes:
        """Return the line that the child answers, without its line end.

        Raises TargetError of kind `crash`, `hang`, `flood` or `order`; then the child is gone.
        Raises EnvironmentFault when the machine has no room for another process.
        """
        if b"\n" in line:
            raise ValueError("a request is one line")
        child = self._running(line)
        try:
            self._refuse_unasked(child)
            child.previous = line
            return self._exchange(child, line)
        except BaseException:
            self.discard()
            raise

    @property
    def pid(self) -> int | None:
        """The process now running, which leads its session and group, or None."""
        return None if self._child is None else self._child.process.pid

    def discard(self) -> None:
        """Kill the child, if there is one; the next request starts another."""
        child, self._child = self._child, None
        if child is not None:
            child.leave(politely=False)

    def close(self) -> None:
        """End the child and everything in its process group, politely first."""
        child, self._child = self._child, None
        if child is not None:
            child.leave(politely=True)

    def _running(self, line: bytes) -> _Child:
        if self._child is None:
            if not self._starts_left:
                raise TargetError("crash", "it was restarted too often", request=_text(line))
            self._starts_left -= 1
            try:
                self._child = _Child(self._command, self._environment)
            except (OSError, ValueError, IndexError) as error:
                reason = error.strerror if isinstance(error, OSError) else str(error)
                sentence = f"{shlex.join(self._command)!r} cannot be started: {reason}"
                if isinstance(error, OSError) and error.errno in _MACHINE_FAULTS:
                    raise EnvironmentFault(sentence) from None
                raise TargetError("crash", sentence, request=_text(line)) from None
            for descriptor in (self._child.stdin, self._child.stdout, self._child.stderr):
                os.set_blocking(descriptor, False)
        return self._child

    def _refuse_unasked(self, child: _Child) -> None:
        """Raise TargetError when something stands in the pipe before anything was asked."""
        for _ in range(_LOOKS_MAX):
            if len(child.output) > _UNASKED_BYTES_MAX or not child.wait(0):
                break
        if child.output:
            kind = "flood" if len(child.output) > _UNASKED_BYTES_MAX else "order"
            raise TargetError(
                kind,
                f"it wrote what nobody had asked for: {_shown(child.output)}",
                request=_text(child.previous),
            )

    def _exchange(self, child: _Child, line: bytes) -> bytes:
        deadline = monotonic() + self._answer_seconds
        unsent = memoryview(line + b"\n")
        searched = 0
        while True:
            # Asked before reading, so that the last words of a process that has ended are read.
            ended = child.process.poll() is not None
            if unsent:
                unsent = child.send(unsent)
            left = deadline - monotonic()
            if left <= 0:
                raise TargetError(
                    "hang", f"no answer within {self._answer_seconds:g} s", request=_text(line)
                )
            happened = child.wait(0 if ended else min(left, _TICK_SECONDS))
            end = child.output.find(b"\n", searched)
            searched = len(child.output)
            if (end if end >= 0 else searched) > self._output_bytes_max:
                raise TargetError(
                    "flood",
                    f"an answer of more than {self._output_bytes_max} bytes",
                    request=_text(line),
                )
            if end >= 0:
                return self._taken(child, end, line, unsent)
            if child.output_ended or (ended and not happened):
                raise TargetError("crash", _last_words(child), request=_text(line))

    def _taken(self, child: _Child, end: int, line: bytes, unsent: memoryview) -> bytes:
        """Return the answer that ends at `end`, if it is the only one and the request was read."""
        answer, rest = bytes(child.output[:end]), child.output[end + 1 :]
        if unsent:
            raise TargetError(
                "order",
                f"it answered before it had read the request: {_shown(answer)}",
                request=_text(line),
            )
        if rest:
            kind = "flood" if len(rest) > _UNASKED_BYTES_MAX else "order"
            raise TargetError(
                kind, f"more than one line for one request: {_shown(rest)}", request=_text(line)
            )
        child.output.clear()
        return answer


def _descriptor(pipe: IO[bytes] | None) -> int:
    """Return the number of a pipe that was asked for."""
    if pipe is None:
        raise OSError("the process has no pipe")
    return pipe.fileno()


def _ended(process: subprocess.Popen[bytes], seconds: float) -> bool:
    try:
        process.wait(seconds)
    except subprocess.TimeoutExpired:
        return False
    return True


def _signal_group(leader: int, number: signal.Signals) -> None:
    try:
        os.killpg(leader, number)
    except (ProcessLookupError, PermissionError):
        return  # Nobody is left in the group.


def _last_words(child: _Child) -> str:
    """Return in words how the child ended, with the end of its standard error."""
    if _ended(child.process, _GRACE_SECONDS):
        status = child.process.returncode
        how = (
            f"it ended with status {status}" if status >= 0 else f"it was ended by {_name(status)}"
        )
    else:
        how = "it closed its standard output"
    for _ in range(_LOOKS_MAX):
        if not child.wait(0):
            break
    words = child.errors.decode("utf-8", "backslashreplace").strip()
    return f"{how} before it answered" + (f"; its standard error ends: {words}" if words else "")


def _name(status: int) -> str:
    try:
        return signal.Signals(-status).name
    except ValueError:
        return f"signal {-status}"


def _shown(data: bytes | bytearray) -> str:
    return repr(data[:80].decode("utf-8", "backslashreplace"))


def _text(line: bytes | None) -> str | None:
    return None if line is None else line.decode("utf-8", "backslashreplace")
