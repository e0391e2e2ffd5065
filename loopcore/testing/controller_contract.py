"""The contract between controllers under test and their properties.

Theory of operation: a controller is seen through its protocol alone: a run is begun with limits,
and each observation is answered by a decision. A property plays whole runs and judges what was
decided. A controller is never judged on inputs that it does not declare (`needs`), and a warning is
never a stop: where one of these leaves nothing to judge, the property is not applicable, with the
reason.

Choices: the protocol does not say whether a controller has a step bound or a gate of its own. A
target that describes itself by the name of a level (A to E) or of a variant (`consecutive-3`,
`step-cap-30`, …) is judged as what that name means; every other one is held to the limits that it
is given at `start`.

Source: spec control, section 1; spec controllers, section 7; spec verification, section 2.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Literal, Protocol

from loopcore.control.decisions import Decision
from loopcore.testing.contract import Invariant, Json

# What a controller can declare that it uses, in the order of the specification.
INPUTS = ("call", "arguments", "result", "error", "state", "progress")

Input = Literal["call", "arguments", "result", "error", "state", "progress"]
_REPEATED = re.compile(r"(consecutive|total)-[1-9][0-9]*(-result)?")
_STEP_CAP = re.compile(r"step-cap-([1-9][0-9]{0,8})")


class ControllerTarget(Protocol):
    """A controller under test, in this process or another, in any language."""

    name: str
    version: str
    # The protocol that it speaks.
    releases: tuple[str, ...]
    wire: Literal["bytes", "values"]
    decides: Literal["before", "after"]
    effect: Literal["stop", "warn"]
    needs: frozenset[str]
    # Its memory may grow by so many bytes in each of several measurements and mean nothing.
    memory_noise_bytes: int

    def start(self, limits: Json) -> None:
        """Begin a new run; these limits overlay the defaults."""
        ...

    def propose(self, call: Json) -> Decision:
        """Return the decision on a call that is not dispatched yet; only where it decides before.

        Arguments:
            call: tool, arguments and action_fingerprint, as in the observation that would follow.
        """
        ...

    def observe(self, observation: Json | bytes) -> Decision:
        """Return the decision on an observation; bytes are its raw JSON text, without LF."""
        ...

    def memory(self) -> int | None:
        """Return the bytes that the controller holds now, or None where nobody can tell."""
        ...

    def release_memory_meter(self) -> None:
        """End what measuring memory costs, until it is measured again."""
        ...

    def fresh(self) -> ControllerTarget:
        """Return the same controller in a new process with another hash seed."""
        ...

    def close(self) -> None:
        """Give back processes and pipes; the target is not used again."""
        ...


def is_level(target: ControllerTarget, names: str) -> bool:
    """Return whether the target says that it is one of these levels, such as `AB`."""
    return len(target.name) == 1 and target.name in names


def is_repetition_guard(target: ControllerTarget) -> bool:
    """Return whether the target says that it is `consecutive-K` or `total-K`, with any ending."""
    return _REPEATED.fullmatch(target.name) is not None


def step_cap(target: ControllerTarget) -> int | None:
    """Return N where the target says that it is `step-cap-N`, else None."""
    match = _STEP_CAP.fullmatch(target.name)
    return None if match is None else int(match[1])


@dataclass(frozen=True, slots=True, kw_only=True)
class ControllerProperty(Invariant[ControllerTarget]):
    """One property of controllers.

    Fields:
        inputs: what a target must declare, or it is not judged.
        judges_stops: a target that only warns is not judged.
        applies: why the property says nothing of a target, or None; may play runs.
    """

    inputs: frozenset[Input] = frozenset()
    judges_stops: bool = True
    applies: Callable[[ControllerTarget], str | None] = field(default=lambda target: None)

    def lack(self, target: ControllerTarget) -> str | None:
        """Return in words why the property is not applicable to the target, or None."""
        missing = [name for name in INPUTS if name in self.inputs and name not in target.needs]
        if missing:
            return f"the controller does not declare that it needs {', '.join(missing)}"
        if self.judges_stops and target.effect == "warn":
            return "the controller only warns, and a warning is never a stop"
        return self.applies(target)
