"""A world changes only through its tools, and its verifier reads the state, not the agent's word.

Theory of operation: a `World` is the state of one task with the tools that change it, the reading
of its progress measure and its verifier. `Hands` say how an agent's intent is worded in that
application: which call is the next useful one, which is a look, which a repetition, which games the
measure. Hands read the state freely, as they stand for a model that has understood the task; what
an agent wants and when is not their business (see `agents`). Ground truth is in the state alone and
never in an answer.

Operations that take time are the same everywhere: each must be polled a number of times before it
is done, and one more never is. A tool can be out of order for a number of calls.

Source: spec control, section 4.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Hashable, Mapping
from typing import ClassVar, TypeAlias

import msgspec

from loopcore.control.progress import Reading
from loopcore.worlds.calls import Answer, Call, Toolbox, Value

Arguments: TypeAlias = Mapping[str, Value]
Handler: TypeAlias = Callable[[Arguments], Answer]

# An operation that is never done.
FROZEN = -1
# The error of a tool that is out of order; whether the next call works nobody can know.
UNAVAILABLE = "unavailable"


class Setup(msgspec.Struct, frozen=True, kw_only=True):
    """What a task's world is made of.

    Fields:
        size: amount of work, from 1. shape: 64 random bits for details.
        waits: polls until each operation is done. impossible: no sequence of actions verifies.
    """

    size: int
    shape: int
    waits: tuple[int, ...]
    impossible: bool


class World(ABC):
    """State, tools, measure and verifier of one task.

    Fields:
        waits: polls left of each operation; the last one is frozen.
        outage: so many calls from now on fail, those of waiting tools apart.
        changed: the state was changed since somebody set this to false.
    """

    box: ClassVar[Toolbox]
    wait_tool: ClassVar[str]

    def __init__(self, setup: Setup) -> None:
        self.setup = setup
        self.waits = [*setup.waits, FROZEN]
        self.outage = 0
        self.changed = False
        self.handlers: dict[str, Handler] = {}

    def execute(self, call: Call) -> Answer:
        """Return the answer to a call; its effect is then in the state."""
        if call.wait:
            return self.poll(call.arguments)
        if self.outage:
            self.outage -= 1
            return self.box.says("service unavailable, try again", UNAVAILABLE)
        return self.handlers[call.tool](call.arguments)

    def poll(self, arguments: Arguments) -> Answer:
        """Advance an operation by one poll; the odd ones tell how much is left."""
        operation = int(arguments["operation"])
        left = self.waits[operation]
        if left > 0:
            left -= 1
            self.waits[operation] = left
        if left == 0:
            return self.box.shows(operation=operation, status="done")
        if left > 0 and operation % 2:
            return self.box.shows(operation=operation, status="running", left=left)
        return self.box.shows(operation=operation, status="running")

    @abstractmethod
    def reading(self) -> Reading:
        """Return the reading of the progress measure on the state."""

    @abstractmethod
    def verified(self) -> bool:
        """Return whether the task is truly done."""

    @abstractmethod
    def state(self) -> Hashable | None:
        """Return all that the next answers may depend on, None when nobody can know it."""


class Hands(ABC):
    """How an agent's intents are worded as calls of one application.

    Fields:
        aware: the agent has learnt what it spoilt, and repairs it before it goes on.
    """

    def __init__(self, world: World) -> None:
        self._any = world
        self.aware = False

    def advance(self) -> Call | None:
        """Return the next useful call, None when nothing seems to be left to do."""
        repair = self.repair() if self.aware else None
        return repair if repair is not None else self.step()

    def poll(self, operation: int) -> Call:
        """Return a poll of an operation."""
        return self._any.box.call(self._any.wait_tool, operation=operation)

    def waiting(self) -> bool:
        """Return whether the next useful call is a poll."""
        return False

    def stall(self) -> Call:
        """Return a poll of something that will never be done."""
        return self.poll(len(self._any.waits) - 1)

    @abstractmethod
    def step(self) -> Call | None:
        """Return the next useful call for one who knows of nothing to repair."""

    @abstractmethod
    def repair(self) -> Call | None:
        """Return a call that takes back what the agent spoilt, None when there is nothing."""

    @abstractmethod
    def look(self, index: int) -> Call:
        """Return a harmless read, one of several."""

    @abstractmethod
    def check(self) -> Call:
        """Return the read that tells how far the work is."""

    @abstractmethod
    def mistake(self, index: int) -> Call:
        """Return a call that helps nothing and spoils nothing for good."""

    @abstractmethod
    def slip(self, index: int) -> Call:
        """Return a call that fails because of a slip of the pen."""

    @abstractmethod
    def effect(self, *, unsafe: bool) -> Call:
        """Return a call with an effect; twice made, an unsafe one spoils the task."""

    @abstractmethod
    def alternate(self, phase: int) -> Call:
        """Return one of several calls that undo or repeat each other; phases are from 0."""

    @abstractmethod
    def reword(self, index: int) -> Call:
        """Return a call with one intent in ever other words, and one answer."""

    @abstractmethod
    def fail(self, index: int) -> Call:
        """Return a call that fails with one class of error, whatever its arguments."""

    @abstractmethod
    def game(self, index: int) -> Call:
        """Return a call that makes the task look more done than it is."""
