"""The child process that hosts a Python target: `python -m loopcore.testing.host MODULE:OBJECT`.

Theory of operation: the pipes of the protocol are moved away from descriptors 0 and 1 before the
target is imported. What the target prints then goes to a pipe that a thread keeps empty and reports
with the next answer, and what it reads is the end of a file. An exception in the target is an
answer about the target, with its traceback; the process goes on.

One JSON line in, one out: `{"op": "describe" | "evaluate" | "evaluate_bytes" | "advance", …}` →
`{"result": …}`, `{"crash": …}`, `{"refused": …}` or `{"misfit": …}` (the result is not JSON), with
`printed` where the target printed, and `changed` where it changed the values given to it. This
protocol is private to `loopcore.testing.targets`. The operations of other kinds of targets are in
modules that call `main` with a host of their own.

Only the standard library is imported, since a process is started for every fresh hash seed.
"""

from __future__ import annotations

import base64
import contextlib
import fcntl
import importlib
import json
import os
import struct
import sys
import termios
import threading
import time
import traceback
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import Protocol, cast

PRINTED_BYTES_MAX = 200
TRACEBACK_LINES_MAX = 12
_PIECE_BYTES = 2**16
_SETTLE_LOOKS = 20
_SETTLE_SECONDS = 0.001
_WATCH_SECONDS = 1.0


class _Run(Protocol):
    """What a target's `start(policy)` gives back."""

    def advance(self, step: object) -> object:
        """Take in one step."""
        ...

    def finish(self) -> object:
        """Return the answer to the steps so far."""
        ...


class Hosting(Protocol):
    """A target that is hosted."""

    def serve(self, request: Mapping[str, object]) -> object:
        """Return what the target says to one request; raises whatever the target raises."""
        ...


class Refused(Exception):
    """The name does not lead to a target."""


class Printed:
    """Collects what the target writes on standard output, keeping only its beginning."""

    def __init__(self) -> None:
        self._source, sink = os.pipe()
        os.dup2(sink, 1)
        os.close(sink)
        self._text = b""
        threading.Thread(target=self._drain, daemon=True).start()

    def _drain(self) -> None:
        while piece := os.read(self._source, _PIECE_BYTES):
            self._text += piece[: PRINTED_BYTES_MAX - len(self._text)]

    def take(self) -> str:
        """Return the beginning of what was printed since the last call."""
        with contextlib.suppress(OSError, ValueError, AttributeError):
            # The target may have closed or replaced sys.stdout.
            sys.stdout.flush()
        for _ in range(_SETTLE_LOOKS):
            waiting = fcntl.ioctl(self._source, termios.FIONREAD, struct.pack("i", 0))
            if waiting == struct.pack("i", 0):
                break
            time.sleep(_SETTLE_SECONDS)
        text, self._text = self._text, b""
        return text.decode("utf-8", "backslashreplace")


class Hosted:
    """A target behind the few operations of the private protocol."""

    def __init__(self, name: str) -> None:
        self._name = name
        self.changed = False
        found = find_object(name)
        if isinstance(found, type) and hasattr(found, "evaluate"):
            found = cast("Callable[[], object]", found)()
        self._target: object = found
        evaluate: object = getattr(found, "evaluate", found)
        if not callable(evaluate):
            raise Refused(f"{name} is neither callable nor has it a method evaluate")
        self._evaluate = cast("Callable[[object, object], object]", evaluate)

    def describe(self) -> dict[str, object]:
        """Return the facts of the target; `releases` is None where it does not say."""
        module = sys.modules[self._name.partition(":")[0]]
        version: object = getattr(self._target, "version", getattr(module, "__version__", None))
        releases: object = getattr(self._target, "releases", None)
        return {
            "version": version if isinstance(version, str) else "unknown",
            "releases": releases,
            "bytes": callable(getattr(self._target, "evaluate_bytes", None)),
            "incremental": callable(getattr(self._target, "start", None)),
        }

    def serve(self, request: Mapping[str, object]) -> object:
        """Return what the target says to one request; raises whatever the target raises."""
        operation = request["op"]
        if operation == "describe":
            return self.describe()
        if operation == "evaluate":
            given = json.dumps([request["policy"], request["steps"]])
            try:
                return self._evaluate(request["policy"], request["steps"])
            finally:
                self.changed = not _is_still([request["policy"], request["steps"]], given)
        if operation == "evaluate_bytes":
            evaluate_bytes: object = getattr(self._target, "evaluate_bytes", None)
            data = base64.b64decode(cast("str", request["data"]))
            return cast("Callable[[bytes], object]", evaluate_bytes)(data)
        return self._advance(request["policy"], cast("Sequence[object]", request["steps"]))

    def _advance(self, policy: object, steps: Sequence[object]) -> list[object]:
        """Return the answer after each prefix; an error that `advance` returns stays."""
        start: object = getattr(self._target, "start", None)
        run = cast("Callable[[object], _Run]", start)(policy)
        answers = [run.finish()]
        for index, step in enumerate(steps):
            said = run.advance(step)
            if isinstance(said, dict) and "error" in said:
                return answers + [cast("object", said)] * (len(steps) - index)
            answers.append(run.finish())
        return answers


def _is_still(values: object, spelled: str) -> bool:
    """Return whether values are spelled as they were before the target had them."""
    try:
        return json.dumps(values) == spelled
    except (TypeError, ValueError, RecursionError):
        return False


def find_object(name: str) -> object:
    """Return the object that `package.module:object` names; raise Refused in one sentence."""
    module_name, _, path = name.partition(":")
    try:
        found: object = importlib.import_module(module_name)
    except ModuleNotFoundError as error:
        raise Refused(f"there is no module {error.name}") from None
    except BaseException as error:  # noqa: BLE001 whatever an import raises is the target's fault
        raise Refused(f"importing {module_name} raises {_one_line(error)}") from None
    for part in path.split("."):
        try:
            found = getattr(found, part)
        except AttributeError:
            raise Refused(f"{module_name} has no {path}") from None
    return found


def _one_line(error: BaseException) -> str:
    try:
        text = " ".join(str(error).split())
    except BaseException:  # noqa: BLE001 the text of an exception is the target's own code
        text = "it cannot be put into words"
    return f"{type(error).__name__}: {text[:200]}" if text else type(error).__name__


def _answer(serve: Callable[[], object]) -> str:
    """Return the JSON members that tell what a call gave or raised."""
    try:
        result = serve()
    except BaseException as error:  # noqa: BLE001 whatever the target raises is an answer
        lines = traceback.format_exception(error)
        text = "".join(lines[-TRACEBACK_LINES_MAX:])
        return '"crash": ' + json.dumps({"error": _one_line(error), "traceback": text})
    try:
        return '"result": ' + json.dumps(result, allow_nan=False)
    except (TypeError, ValueError, RecursionError) as error:
        return '"misfit": ' + json.dumps(f"its result is not JSON: {_one_line(error)}")


def _watch_parent(parent: int) -> None:
    """End this process when its parent has gone, even while the target hangs."""
    while os.getppid() == parent:
        time.sleep(_WATCH_SECONDS)
    os._exit(1)


def main(name: str, host: Callable[[str], Hosting] = Hosted) -> None:
    """Host the target until the input ends; `host` makes it from its name."""
    threading.Thread(target=_watch_parent, args=(os.getppid(),), daemon=True).start()
    requests = os.fdopen(os.dup(0), "rb")
    answers = os.fdopen(os.dup(1), "wb")
    nothing = os.open(os.devnull, os.O_RDONLY)
    os.dup2(nothing, 0)
    os.close(nothing)
    printed = Printed()
    # As for `python -m`: modules beside the user are found, and so are installed ones.
    sys.path.insert(0, os.getcwd())
    refusal = ""
    hosted: Hosting | None = None
    try:
        hosted = host(name)
    except Refused as refused:
        refusal = str(refused)
    except BaseException as error:  # noqa: BLE001 the target's own constructor was called
        refusal = f"making {name} raises {_one_line(error)}"
    for line in requests:
        request = cast("dict[str, object]", json.loads(line))
        if hosted is None:
            members = '"refused": ' + json.dumps(refusal)
        else:
            members = _answer(partial(hosted.serve, request))
        text = printed.take()
        told = f', "printed": {json.dumps(text)}' if text else ""
        told += ', "changed": true' if getattr(hosted, "changed", False) is True else ""
        answers.write(f"{{{members}{told}}}\n".encode())
        answers.flush()


if __name__ == "__main__":
    main(sys.argv[1])
