"""Evaluators under test, each seen through JSON values alone: ours, in Python, in any language.

Theory of operation: the built-in evaluator runs in this process. Everything else lives in a child
process, so that whatever it does becomes a `TargetError` in bounded time: a `--command` target
speaks the target protocol itself, and a Python object is hosted by `loopcore.testing.host`. Every
answer is checked for its shape here and for nothing else.

What a Python evaluator offers, all on one object (or module, or as one function):

- `evaluate(policy: dict, steps: list) -> {"receipt": …} or {"error": …}`; a function is this;
- optional `evaluate_bytes(data: bytes)`, the same for a whole document;
- optional `start(policy)`, giving an object with `advance(step)` and `finish()`, where `finish` may
  be called after any step and answers like `evaluate`; `advance` may return `{"error": …}`;
- optional `releases` and `version`; without `releases` it is held to every release.

Source: spec verification, section 1; spec evaluator, section 7.
"""

from __future__ import annotations

import base64
import io
import json
import re
import shlex
import sys
from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal, cast

import msgspec

from loopcore import __version__
from loopcore.decoding import decode_values
from loopcore.documents import evaluate_stream, evaluate_trace
from loopcore.errors import InputError, TargetError, UsageError
from loopcore.evaluator import evaluate, start
from loopcore.models import Receipt
from loopcore.process import ANSWER_SECONDS
from loopcore.serving import PROTOCOL, answer
from loopcore.terminals import PRECEDENCE
from loopcore.testing.answers import (
    DESCRIBE,
    as_object,
    checked_answer,
    cut,
    description,
    hosted_result,
    one_of,
    parsed,
    refuse,
)
from loopcore.testing.children import TargetChild, target_child

if TYPE_CHECKING:
    from loopcore.testing.contract import Answer, EvaluatorTarget, Json

_NAME = re.compile(r"[^\W\d]\w*(\.[^\W\d]\w*)*:[^\W\d]\w*(\.[^\W\d]\w*)*")
_NOTES_MAX = 5


@dataclass(frozen=True, slots=True, kw_only=True)
class TargetSpec:
    """How a target was named, from which another process can open the same one."""

    name: str | None = None
    command: str | None = None
    answer_seconds: float = ANSWER_SECONDS
    kind: str = "evaluator"

    def command_words(self) -> list[str]:
        """Return the words of the command line; raise UsageError where it is none."""
        try:
            words = shlex.split(self.command or "")
        except ValueError as error:
            raise UsageError(f"--command {self.command!r}: {error}") from None
        if not words:
            raise UsageError("--command is empty")
        return words

    def words(self) -> str:
        """Return the arguments that name the target on a command line."""
        words = [] if self.kind == "evaluator" else ["--kind", self.kind]
        if self.command is not None:
            words += ["--command", self.command]
        elif self.name is not None:
            words += [self.name]
        return shlex.join(words)


def load_target(
    name: str | None = None, command: str | None = None, *, answer_seconds: float = ANSWER_SECONDS
) -> EvaluatorTarget:
    """Return the evaluator that is named, ready to be asked.

    Arguments:
        name: `package.module:object`; command: a command line; neither: the built-in evaluator.
        answer_seconds: how long one answer may take.

    Raises UsageError when both are given, or the target cannot be opened.
    """
    spec = TargetSpec(name=name, command=command, answer_seconds=answer_seconds)
    return open_target(spec)


def open_target(spec: TargetSpec) -> EvaluatorTarget:
    """Return the evaluator of a specification; raise UsageError when it cannot be opened."""
    if spec.name is not None and spec.command is not None:
        raise UsageError("name a target or give --command, not both")
    try:
        if spec.command is not None:
            return CommandTarget.open(spec)
        if spec.name is not None:
            return PythonTarget.open(spec)
    except TargetError as error:
        # Nothing was held to a property yet, so a target that cannot answer is a wrong argument.
        raise UsageError(f"the target does not start: {error.message}") from None
    return BuiltInTarget(spec)


class BuiltInTarget:
    """The reference evaluator, in this process."""

    name = "loopcore reference evaluator"
    version = __version__
    releases = tuple(str(release) for release in PRECEDENCE)
    wire: Literal["bytes", "values"] = "bytes"
    incremental = True
    streams = True
    notes: tuple[str, ...] = ()

    def __init__(self, spec: TargetSpec) -> None:
        self.spec = spec

    def evaluate(self, policy: Json, steps: Json) -> Answer:
        """Return the answer to one trace of plain values."""
        try:
            trace = decode_values(policy, steps)
            receipt = evaluate(trace.policy, trace.steps, steps_sha256=trace.steps_sha256)
        except InputError as error:
            return {"error": error.as_dict()}
        return {"receipt": _plain(receipt)}

    def evaluate_text(self, policy: bytes, steps: bytes) -> Answer:
        """Return the answer to the document that the two raw texts make, as a file would hold it.

        A document takes the fast path of decoding, which a request line never does.
        """
        document = b'{"policy":%b,"schema":"loopcore/trace/1","steps":%b}' % (policy, steps)
        try:
            return {"receipt": _plain(evaluate_trace(document))}
        except InputError as error:
            return {"error": error.as_dict()}

    def evaluate_line(self, data: bytes) -> Answer:
        """Return the answer to any bytes without LF."""
        return checked_answer(answer(data), data)

    def evaluate_stream(self, data: bytes) -> Answer:
        """Return the answer to a stream."""
        try:
            return {"receipt": _plain(evaluate_stream(io.BytesIO(data)))}
        except InputError as error:
            return {"error": error.as_dict()}

    def advance(self, policy: Json, steps: Json) -> list[Answer]:
        """Return the answer after each prefix, the empty one first."""
        items = list(steps) if isinstance(steps, (list, tuple)) else []
        try:
            trace = decode_values(policy, steps)
        except InputError:
            # Which prefixes a defect spoils is the decoder's to say.
            return [self.evaluate(policy, items[:length]) for length in range(len(items) + 1)]
        run = start(trace.policy)
        answers: list[Answer] = [{"receipt": _plain(run.finish())}]
        for index, step in enumerate(trace.steps):
            try:
                run.advance(step)
            except InputError as error:
                refusal: Answer = {"error": error.as_dict()}
                return answers + [refusal] * (len(items) - index)
            answers.append({"receipt": _plain(run.finish())})
        return answers

    def fresh(self) -> EvaluatorTarget:
        """Return the same evaluator in a process of its own."""
        command = shlex.join([sys.executable, "-m", "loopcore", "serve"])
        spec = TargetSpec(command=command, answer_seconds=self.spec.answer_seconds)
        return CommandTarget(spec, self.name, self.version, self.releases, self.wire)

    def close(self) -> None:
        """Do nothing; there is no process."""


class CommandTarget:
    """An evaluator in any language that speaks the target protocol."""

    incremental = False
    notes: tuple[str, ...] = ()

    def __init__(
        self,
        spec: TargetSpec,
        name: str,
        version: str,
        releases: tuple[str, ...],
        wire: Literal["bytes", "values"],
    ) -> None:
        self.spec = spec
        self.name = name
        self.version = version
        self.releases = releases
        self.wire: Literal["bytes", "values"] = wire
        self._child = _child(shlex.split(spec.command or ""), spec)
        self._number = 0

    @classmethod
    def open(cls, spec: TargetSpec) -> CommandTarget:
        """Return the target after it has described itself; raise UsageError or TargetError."""
        with _child(spec.command_words(), spec) as child:
            facts = description(child.ask(DESCRIBE), PROTOCOL)
        name, version, wire = facts.get("name"), facts.get("version"), facts.get("wire")
        if not isinstance(name, str) or not isinstance(version, str):
            raise UsageError("the target's describe has no text under name and version")
        if wire not in ("bytes", "values"):
            raise UsageError("the target's describe has neither bytes nor values under wire")
        releases = _releases(facts.get("releases"))
        return cls(spec, name, version, releases, "bytes" if wire == "bytes" else "values")

    def evaluate(self, policy: Json, steps: Json) -> Answer:
        """Return the answer to one trace of plain values."""
        return self.evaluate_text(_spelled(policy), _spelled(steps))

    def evaluate_text(self, policy: bytes, steps: bytes) -> Answer:
        """Return the answer to a trace whose two parts are raw JSON text."""
        self._number += 1
        return self._ask(_request(self._number, policy, steps), self._number)

    def evaluate_line(self, data: bytes) -> Answer:
        """Return the answer to any bytes without LF."""
        return self._ask(data)

    def advance(self, policy: Json, steps: Json) -> list[Answer]:
        """Refuse: the target protocol has no incremental form."""
        raise UsageError("the target protocol has no incremental form")

    def fresh(self) -> EvaluatorTarget:
        """Return the same target in a new process with another hash seed."""
        return CommandTarget(self.spec, self.name, self.version, self.releases, self.wire)

    @property
    def child(self) -> TargetChild:
        """The process of the target, for who looks at its memory."""
        return self._child

    def close(self) -> None:
        """End the process."""
        self._child.close()

    def _ask(self, line: bytes, number: int | None = None) -> Answer:
        data = self._child.ask(line)
        try:
            return checked_answer(data, line, number)
        except TargetError:
            self._child.discard()
            raise


class PythonTarget:
    """A Python evaluator, hosted in a child process."""

    def __init__(
        self, spec: TargetSpec, facts: dict[str, object], releases: tuple[str, ...]
    ) -> None:
        self.spec = spec
        self.name = spec.name or ""
        self.version = str(facts.get("version"))
        self.releases = releases
        self.wire: Literal["bytes", "values"] = "bytes" if facts.get("bytes") else "values"
        self.incremental = facts.get("incremental") is True
        self.notes: tuple[str, ...] = ()
        # Whether the target has changed values that it was given; whoever asks sets it back.
        self.changed_values = False
        self._facts = facts
        self._child = _child(self._words(self.name), spec)

    @staticmethod
    def _words(name: str) -> list[str]:
        return [sys.executable, "-m", "loopcore.testing.host", name]

    @classmethod
    def open(cls, spec: TargetSpec) -> PythonTarget:
        """Return the target after its import; raise UsageError or TargetError."""
        name = spec.name or ""
        if _NAME.fullmatch(name) is None:
            raise UsageError(f"a target is named package.module:object, not {name!r}")
        with _child(cls._words(name), spec) as child:
            reply = as_object(parsed(child.ask(b'{"op": "describe"}'))) or {}
        if "refused" in reply:
            raise UsageError(f"cannot load {name}: {reply['refused']}")
        facts = as_object(reply.get("result"))
        if facts is None:
            raise UsageError(f"cannot load {name}: it cannot be described")
        said = facts.get("releases")
        releases = BuiltInTarget.releases if said is None else _releases(said)
        return cls(spec, facts, releases)

    def evaluate(self, policy: Json, steps: Json) -> Answer:
        """Return the answer to one trace of plain values."""
        return self._shaped(*self._ask({"op": "evaluate", "policy": policy, "steps": steps}))

    def evaluate_text(self, policy: bytes, steps: bytes) -> Answer:
        """Return the answer to the document that the two raw texts make."""
        document = b'{"policy":%b,"schema":"loopcore/trace/1","steps":%b}' % (policy, steps)
        return self.evaluate_line(document)

    def evaluate_line(self, data: bytes) -> Answer:
        """Return the answer of `evaluate_bytes` to any bytes."""
        if self.wire != "bytes":
            raise UsageError(f"{self.name} has no evaluate_bytes")
        encoded = base64.b64encode(data).decode()
        return self._shaped(*self._ask({"op": "evaluate_bytes", "data": encoded}))

    def advance(self, policy: Json, steps: Json) -> list[Answer]:
        """Return the answer after each prefix, the empty one first."""
        result, asked = self._ask({"op": "advance", "policy": policy, "steps": steps})
        answers = cast("list[object]", result) if isinstance(result, list) else []
        return [self._shaped(each, asked) for each in answers]

    def fresh(self) -> EvaluatorTarget:
        """Return the same target in a new process with another hash seed."""
        return PythonTarget(self.spec, self._facts, self.releases)

    @property
    def child(self) -> TargetChild:
        """The process of the target, for who looks at its memory."""
        return self._child

    def close(self) -> None:
        """End the process."""
        self._child.close()

    def _ask(self, request: dict[str, object]) -> tuple[object, bytes]:
        """Return the target's own result, and the request as it was sent."""
        line = _spelled(request)
        reply = as_object(parsed(self._child.ask(line))) or {}
        printed = reply.get("printed")
        if isinstance(printed, str) and len(self.notes) < _NOTES_MAX:
            note = f"the target printed {printed[:80]!r} on its standard output"
            self.notes += () if note in self.notes else (note,)
        self.changed_values = self.changed_values or reply.get("changed") is True
        return hosted_result(reply, line), line

    def _shaped(self, result: object, asked: bytes) -> Answer:
        shaped = as_object(result)
        if shaped is None:
            refuse(f"its result is no object: {cut(result)}", asked)
        return one_of(shaped, asked)


def _plain(receipt: Receipt) -> object:
    """Return a receipt as the JSON value that a reader of the wire gets, lists and all."""
    value: object = msgspec.json.decode(msgspec.json.encode(receipt))
    return value


def _child(words: list[str], spec: TargetSpec) -> TargetChild:
    return target_child(words, spec.answer_seconds)


def _releases(value: object) -> tuple[str, ...]:
    """Return the releases that a target says it has; raise UsageError when we know none of them."""
    listed = cast("list[object]", value) if isinstance(value, (list, tuple)) else []
    releases = tuple(item for item in listed if isinstance(item, str))
    if len(releases) != len(listed) or not set(releases) & set(BuiltInTarget.releases):
        known = ", ".join(BuiltInTarget.releases)
        raise UsageError(f"the target's releases name none of {known}")
    return releases


def _request(number: int, policy: bytes, steps: bytes) -> bytes:
    return b'{"id":%d,"op":"evaluate","policy":%b,"steps":%b}' % (number, policy, steps)


def _spelled(value: object) -> bytes:
    """Return plain values as JSON text; ASCII, so that unpaired surrogates can be sent."""
    return json.dumps(value, separators=(",", ":")).encode()
