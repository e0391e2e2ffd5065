"""A controller that answers request lines: every request is checked out, every answer checked in.

Theory of operation: an answer is checked for its shape here and for nothing else. A decision that
is none, a reason that nobody knows, the refusal of a request that is right, the id of another
request: each is a `TargetError`, after which whoever answers is forgotten, so that nothing that it
still says can be taken for an answer to a later request.

Choices: a stop, a warning, a recovery and a rejection have a reason; only a recovery has a
strategy.

Source: spec control, section 1; spec controllers, section 7.
"""

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal, NoReturn, Protocol

from loopcore.control.decisions import Decision, DecisionKind
from loopcore.control.wire import PROTOCOL
from loopcore.errors import TargetError
from loopcore.process import ChildProcess
from loopcore.terminals import PRECEDENCE
from loopcore.testing.answers import NO_OBJECT, as_object, cut, parsed, refuse
from loopcore.testing.resident import resident_bytes

if TYPE_CHECKING:
    from loopcore.testing.contract import Json
    from loopcore.testing.targets import TargetSpec

DECISIONS: dict[str, DecisionKind] = {
    "continue": "continue",
    "warn": "warn",
    "stop": "stop",
    "recover": "recover",
    "reject_finish": "reject_finish",
}
_OWN_REASONS = ("tool_failure", "stalled_verifier", "awaiting_input")
REASONS = frozenset(name for table in PRECEDENCE.values() for name in table) | {*_OWN_REASONS}
# A process grows by whole pages and arenas, which mean nothing.
_RESIDENT_NOISE_BYTES = 2**17


@dataclass(frozen=True, slots=True, kw_only=True)
class Facts:
    """What a controller says of itself."""

    name: str
    version: str
    decides: Literal["before", "after"]
    effect: Literal["stop", "warn"]
    needs: frozenset[str]


class Channel(Protocol):
    """Where request lines go and answer lines come from."""

    def ask(self, line: bytes) -> bytes:
        """Return the answer to a line; raise TargetError when there is none."""
        ...

    def discard(self) -> None:
        """Forget the run; the next request is answered as by a new controller."""
        ...

    def close(self) -> None:
        """End what answers."""
        ...


class LineController:
    """A controller that answers request lines; the base of all the others."""

    releases: tuple[str, ...] = (PROTOCOL,)
    wire: Literal["bytes", "values"] = "bytes"
    memory_noise_bytes = _RESIDENT_NOISE_BYTES

    def __init__(self, spec: TargetSpec, facts: Facts, channel: Channel) -> None:
        self.spec = spec
        self.name = facts.name
        self.version = facts.version
        self.decides: Literal["before", "after"] = facts.decides
        self.effect: Literal["stop", "warn"] = facts.effect
        self.needs = facts.needs
        self.notes: tuple[str, ...] = ()
        self._facts = facts
        self._channel = channel
        self._number = 0

    def start(self, limits: Json) -> None:
        """Begin a new run; these limits overlay the defaults."""
        said, asked = self._ask("start", "limits", _spelled(limits))
        if said.get("ok") is not True:
            self._refuse(f"its answer to start is not ok: {cut(said)}", asked)

    def propose(self, call: Json) -> Decision:
        """Return the decision on a call that is not dispatched yet."""
        return self._decided(*self._ask("propose", "call", _spelled(call)))

    def observe(self, observation: Json | bytes) -> Decision:
        """Return the decision on an observation; bytes are its raw JSON text."""
        raw = observation if isinstance(observation, bytes) else _spelled(observation)
        return self._decided(*self._ask("observe", "observation", raw))

    def memory(self) -> int | None:
        """Return the resident memory of the controller's processes, where that can be read."""
        pid = self._channel.pid if isinstance(self._channel, ChildProcess) else None
        return None if pid is None else resident_bytes(pid)

    def release_memory_meter(self) -> None:
        """Do nothing; reading the memory of a process costs nothing between readings."""

    def close(self) -> None:
        """End the process."""
        self._channel.close()

    def _ask(self, operation: str, field: str, raw: bytes) -> tuple[dict[str, object], bytes]:
        """Return the answer to one request without its id, and the request as it was sent."""
        self._number += 1
        line = b'{"id":%d,"op":"%b","%b":%b}' % (
            self._number,
            operation.encode(),
            field.encode(),
            raw,
        )
        return self._said(line), line

    def _said(self, line: bytes) -> dict[str, object]:
        data = self._channel.ask(line)
        said = as_object(parsed(data))
        if said is None:
            self._refuse(f"its answer is {NO_OBJECT}: {cut(data.decode('utf-8', 'replace'))}", line)
        identity = said.pop("id", None)
        if identity != self._number or isinstance(identity, bool):
            self._channel.discard()
            message = f"its answer has the id {cut(identity)}, which is not that of the request"
            raise TargetError("order", message, request=line.decode("utf-8", "backslashreplace"))
        return said

    def _decided(self, said: dict[str, object], asked: bytes) -> Decision:
        """Return an answer as a decision; raise TargetError where it is none."""
        kind = DECISIONS.get(str(said.get("decision")))
        if kind is None:
            self._refuse(f"its answer is no decision: {cut(said)}", asked)
        reason, strategy = said.get("reason"), said.get("strategy")
        if not (reason is None or (isinstance(reason, str) and reason in REASONS)):
            self._refuse(f"its decision has a reason that there is not: {cut(said)}", asked)
        if not (strategy is None or isinstance(strategy, str)):
            self._refuse(f"its decision has a strategy that is no text: {cut(said)}", asked)
        if (kind == "continue") != (reason is None):
            self._refuse(f"only continue has no reason: {cut(said)}", asked)
        if (kind == "recover") != (strategy is not None):
            self._refuse(f"only recover has a strategy: {cut(said)}", asked)
        return Decision(decision=kind, reason=reason, strategy=strategy)

    def _refuse(self, message: str, asked: bytes) -> NoReturn:
        # Nothing that it still says can be taken for an answer to a later request.
        self._channel.discard()
        refuse(message, asked)


def _spelled(value: object) -> bytes:
    """Return plain values as JSON text; ASCII, so that unpaired surrogates can be sent."""
    return json.dumps(value, separators=(",", ":")).encode()
