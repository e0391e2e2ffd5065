"""Stores under test: ours by name, and what a Python factory makes.

Theory of operation: whichever store it is lives in a child process (`loopcore.testing.store_host`),
so that whatever it does becomes a `TargetError` in bounded time, with a folder of its own that is
removed at the end. A store object of this process can be held to the same properties as well, for
tests of the properties themselves.

Choices: a target has no specification from which worker processes of `verify` would open their own.
Such a process may be ended at any time, and would leave the folder, or a schema, behind; and the
stores would wait for the same disk.

Source: spec runtime, section 1; spec verification, section 1.
"""

from __future__ import annotations

import json
import re
import sys
import tempfile
from itertools import count
from typing import Literal

from loopcore import __version__
from loopcore.errors import TargetError, UsageError
from loopcore.process import ChildProcess
from loopcore.testing.answers import as_object, cut, hosted_result, parsed, refuse
from loopcore.testing.contract import Json
from loopcore.testing.store_builtin import BUILT_IN, postgres_dsn
from loopcore.testing.store_contract import PROTOCOL, StoreTarget
from loopcore.testing.store_serving import Make, ServedStore
from loopcore.testing.targets import TargetSpec

DEFAULT_STORE = "sqlite"
_NAME = re.compile(r"[^\W\d]\w*(\.[^\W\d]\w*)*:[^\W\d]\w*(\.[^\W\d]\w*)*")
_NOTES_MAX = 5


def open_store(spec: TargetSpec) -> StoreTarget:
    """Return the store of a specification; raise UsageError when it cannot be opened.

    Arguments:
        spec: a name with a colon is `package.module:factory`, one without is a built-in store;
            no name is the default one.
    """
    if spec.command is not None:
        raise UsageError("a store is named package.module:factory; --command is not for stores")
    name = DEFAULT_STORE if spec.name is None else spec.name
    if ":" not in name:
        if name not in BUILT_IN:
            known = ", ".join(BUILT_IN)
            raise UsageError(f"there is no store {name!r}; there are {known}, and factories")
        if name == "postgres":
            postgres_dsn()
        factory = f"loopcore.testing.store_builtin:{name}"
    elif _NAME.fullmatch(name) is None:
        raise UsageError(f"a store is named package.module:factory, not {name!r}")
    else:
        factory = name
    try:
        return HostedStoreTarget(spec, name, factory)
    except TargetError as error:
        # Nothing was held to a property yet, so a store that does not answer is a wrong argument.
        raise UsageError(f"the store does not start: {error.message}") from None


class _Named:
    """Numbers the cases, so that no two of them share a run."""

    def __init__(self) -> None:
        self._cases = count(1)

    def namespace(self) -> str:
        """Return a beginning of run ids that nobody used before."""
        return f"case-{next(self._cases)}/"


class HostedStoreTarget(_Named):
    """A store in a child process."""

    releases: tuple[str, ...] = (PROTOCOL,)
    wire: Literal["bytes", "values"] = "values"
    processes = True

    def __init__(self, spec: TargetSpec, name: str, factory: str) -> None:
        super().__init__()
        self.name = name
        self.notes: tuple[str, ...] = ()
        self._folder = tempfile.TemporaryDirectory(prefix="loopcore-store-")
        words = [sys.executable, "-m", "loopcore.testing.store_host"]
        place = f"{factory}@{self._folder.name}"
        self._channel = ChildProcess([*words, place], answer_seconds=spec.answer_seconds)
        try:
            facts = self._described(name)
        except BaseException:
            self.close()
            raise
        self.version = str(facts.get("version"))
        self.durable = facts.get("durable") is True

    def _described(self, name: str) -> dict[str, object]:
        reply = as_object(parsed(self._channel.ask(b'{"op":"describe"}'))) or {}
        told = as_object(reply.get("crash")) or {}
        facts = as_object(reply.get("result"))
        if facts is None:
            reason = reply.get("refused", reply.get("misfit", told.get("error")))
            raise UsageError(f"cannot open the store {name}: {reason}")
        return facts

    def perform(self, operation: dict[str, Json]) -> dict[str, object]:
        """Return the answer to one operation; raise TargetError where there is none."""
        line = json.dumps(operation, separators=(",", ":")).encode()
        reply = as_object(parsed(self._channel.ask(line))) or {}
        printed = reply.get("printed")
        if isinstance(printed, str) and len(self.notes) < _NOTES_MAX:
            note = f"the target printed {printed[:80]!r} on its standard output"
            self.notes += () if note in self.notes else (note,)
        given = hosted_result(reply, line)
        result = as_object(given)
        if result is None:
            refuse(f"its result is no answer: {cut(given)}", line)
        return result

    def close(self) -> None:
        """End the process, and remove what the store kept."""
        try:
            if self._channel.pid is not None:
                self._channel.ask(b'{"op":"destroy"}')
        except TargetError as error:
            self.notes += (f"the store does not close: {error.message[:80]}",)
        finally:
            self._channel.close()
            self._folder.cleanup()


class LocalStoreTarget(_Named):
    """A store in this process.

    Arguments:
        make: opens it, as a factory does; location: its folder.
    """

    version = __version__
    releases: tuple[str, ...] = (PROTOCOL,)
    wire: Literal["bytes", "values"] = "values"
    processes = True

    def __init__(self, name: str, make: Make, location: str = "") -> None:
        super().__init__()
        self.name = name
        self._served = ServedStore(make, location)
        self.durable = self._served.durable

    def perform(self, operation: dict[str, Json]) -> dict[str, object]:
        """Return the answer to one operation; whatever else the store raises is a crash."""
        try:
            return self._served.serve(operation)
        except Exception as error:  # noqa: BLE001 whatever it raises is the finding
            message = f"it raised {type(error).__name__}: {error}"
            raise TargetError("crash", message, request=json.dumps(operation)) from None

    def close(self) -> None:
        """Close the store, and remove what is not in its folder."""
        self._served.close(destroy=True)
