"""Controllers under test: our levels and variants, Python factories, commands in any language.

Theory of operation: a level or variant runs in this process behind the same wire as everybody else.
Everything else lives in a child process, so that whatever it does becomes a `TargetError` in
bounded time: a `--command` target speaks the controller wire, and what a Python factory makes is
hosted by `loopcore.testing.controller_host`.

Source: spec controllers, section 7; spec verification, section 1.
"""

from __future__ import annotations

import gc
import re
import shlex
import sys
import tracemalloc
from typing import TYPE_CHECKING, Literal, cast

from loopcore import __version__
from loopcore.control.variants import declared_needs
from loopcore.control.wire import PROTOCOL, ControllerSession
from loopcore.errors import TargetError, UsageError
from loopcore.testing.answers import (
    DESCRIBE,
    as_object,
    cut,
    description,
    hosted_result,
    parsed,
    refuse,
)
from loopcore.testing.children import TargetChild, target_child
from loopcore.testing.controller_contract import INPUTS
from loopcore.testing.controller_lines import Facts, LineController
from loopcore.testing.targets import TargetSpec

if TYPE_CHECKING:
    from loopcore.testing.controller_contract import ControllerTarget

DEFAULT_LEVEL = "E"
# In this process every byte is counted.
_TRACED_NOISE_BYTES = 2**11
_NAME = re.compile(r"[^\W\d]\w*(\.[^\W\d]\w*)*:[^\W\d]\w*(\.[^\W\d]\w*)*")
_NOTES_MAX = 5


def open_controller(spec: TargetSpec) -> ControllerTarget:
    """Return the controller of a specification; raise UsageError when it cannot be opened.

    Arguments:
        spec: a name with a colon is `package.module:factory`, one without is a level or variant;
            neither a name nor a command is level E.
    """
    if spec.name is not None and spec.command is not None:
        raise UsageError("name a target or give --command, not both")
    try:
        if spec.command is not None:
            return CommandController.open(spec)
        if spec.name is not None and ":" in spec.name:
            return PythonController.open(spec)
    except TargetError as error:
        # Nothing was held to a property yet, so a target that cannot answer is a wrong argument.
        raise UsageError(f"the target does not start: {error.message}") from None
    return BuiltInController(spec)


class _Session:
    """A level or variant in this process; whatever it raises is a crash of the target."""

    def __init__(self, name: str) -> None:
        self._name = name
        self._session = ControllerSession(name)

    def ask(self, line: bytes) -> bytes:
        """Return the answer to a line."""
        try:
            return self._session.answer(line)
        except Exception as error:  # noqa: BLE001 whatever it raises is the finding
            message = f"it raised {type(error).__name__}: {error}"
            raise TargetError("crash", message, request=line.decode()) from None

    def discard(self) -> None:
        """Take a new controller."""
        self._session = ControllerSession(self._name)

    def close(self) -> None:
        """Do nothing; there is no process."""


class BuiltInController(LineController):
    """A level or a variant, in this process."""

    memory_noise_bytes = _TRACED_NOISE_BYTES

    def __init__(self, spec: TargetSpec) -> None:
        name = DEFAULT_LEVEL if spec.name is None else spec.name
        facts = Facts(
            name=name,
            version=__version__,
            decides="after",
            effect="stop",
            needs=frozenset(declared_needs(name)),
        )
        super().__init__(spec, facts, _Session(name))

    def memory(self) -> int | None:
        """Return what this process has allocated since it was first asked."""
        if not tracemalloc.is_tracing():
            tracemalloc.start()
        # The young alone: a whole collection would take longer than the run that is measured.
        gc.collect(1)
        return tracemalloc.get_traced_memory()[0]

    def release_memory_meter(self) -> None:
        """Stop counting allocations, which makes everything slow."""
        tracemalloc.stop()

    def fresh(self) -> ControllerTarget:
        """Return the same controller in a process of its own."""
        words = [sys.executable, "-m", "loopcore", "serve", "--level", self.name]
        spec = TargetSpec(
            command=shlex.join(words), answer_seconds=self.spec.answer_seconds, kind=self.spec.kind
        )
        return CommandController(spec, self._facts, _child(words, spec))


class CommandController(LineController):
    """A controller in any language that speaks the controller wire."""

    @classmethod
    def open(cls, spec: TargetSpec) -> CommandController:
        """Return the target after it has described itself; raise UsageError or TargetError."""
        words = spec.command_words()
        with _child(words, spec) as child:
            said = description(child.ask(DESCRIBE), PROTOCOL)
        return cls(spec, _facts(said), _child(words, spec))

    def fresh(self) -> ControllerTarget:
        """Return the same target in a new process with another hash seed."""
        child = _child(shlex.split(self.spec.command or ""), self.spec)
        return CommandController(self.spec, self._facts, child)


class PythonController(LineController):
    """What a Python factory makes, hosted in a child process."""

    wire: Literal["bytes", "values"] = "values"

    @staticmethod
    def _words(spec: TargetSpec) -> list[str]:
        return [sys.executable, "-m", "loopcore.testing.controller_host", spec.name or ""]

    @classmethod
    def open(cls, spec: TargetSpec) -> PythonController:
        """Return the target after the factory was called; raise UsageError or TargetError."""
        name = spec.name or ""
        if _NAME.fullmatch(name) is None:
            raise UsageError(f"a controller is named package.module:factory, not {name!r}")
        with _child(cls._words(spec), spec) as child:
            reply = as_object(parsed(child.ask(b'{"op": "describe"}'))) or {}
        told = as_object(reply.get("crash")) or {}
        if "result" not in reply:
            reason = reply.get("refused", reply.get("misfit", told.get("error")))
            raise UsageError(f"cannot load {name}: {reason}")
        facts = as_object(reply["result"])
        if facts is None:
            raise UsageError(f"cannot load {name}: it cannot be described")
        defaults: dict[str, object] = {"decides": "after", "effect": "stop", "needs": []}
        return cls(spec, _facts({**defaults, **facts}), _child(cls._words(spec), spec))

    def fresh(self) -> ControllerTarget:
        """Return the same target in a new process with another hash seed."""
        return PythonController(self.spec, self._facts, _child(self._words(self.spec), self.spec))

    def _said(self, line: bytes) -> dict[str, object]:
        """Return the controller's own answer, out of what its host tells."""
        reply = as_object(parsed(self._channel.ask(line))) or {}
        printed = reply.get("printed")
        if isinstance(printed, str) and len(self.notes) < _NOTES_MAX:
            note = f"the target printed {printed[:80]!r} on its standard output"
            self.notes += () if note in self.notes else (note,)
        given = hosted_result(reply, line)
        result = as_object(given)
        if result is None:
            refuse(f"its result is no decision: {cut(given)}", line)
        return result


def _child(words: list[str], spec: TargetSpec) -> TargetChild:
    return target_child(words, spec.answer_seconds)


def _facts(said: dict[str, object]) -> Facts:
    """Return what a target says of itself; raise UsageError where it is wrong."""
    name, version = said.get("name"), said.get("version")
    if not isinstance(name, str) or not isinstance(version, str):
        raise UsageError("the target's describe has no text under name and version")
    decides, effect, needs = said.get("decides"), said.get("effect"), said.get("needs")
    if decides not in ("before", "after"):
        raise UsageError("the target's describe has neither before nor after under decides")
    if effect not in ("stop", "warn"):
        raise UsageError("the target's describe has neither stop nor warn under effect")
    listed = cast("list[object]", needs) if isinstance(needs, list) else [None]
    known = frozenset(item for item in listed if isinstance(item, str) and item in INPUTS)
    if len(known) != len(listed):
        raise UsageError(f"the target's describe needs a list under needs, of {', '.join(INPUTS)}")
    return Facts(
        name=name,
        version=version,
        decides="before" if decides == "before" else "after",
        effect="stop" if effect == "stop" else "warn",
        needs=known,
    )
