"""The evaluator that a proof is about: its source text, and the module that the text makes.

Theory of operation: a proof reads the text and a counterexample is run by the module, so both are
kept together. Usually that is `loopcore.evaluator` as it stands on the disk. For a planted fault
another text is run as a module of its own, and tables are put over those that it imported; nothing
that is loaded elsewhere changes.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cache
from types import ModuleType
from typing import Protocol, cast

import msgspec

from loopcore import evaluator
from loopcore.decoding import decode_values
from loopcore.errors import InputError
from loopcore.models import Policy, Receipt, Step
from loopcore.testing.naive_wire import Record


class RunUnderProof(Protocol):
    """What a proof uses of `loopcore.evaluator.Run`."""

    terminal: str | None
    violations: tuple[str, ...]

    def decide(self, new_steps: Sequence[object]) -> None:
        """Judge more steps."""
        ...


class DetectorUnderProof(Protocol):
    """What a proof uses of `loopcore.evaluator.CycleDetector`."""

    def observe(self, pair: tuple[str, str]) -> bool:
        """Take in the next pair; return whether a cycle ends at it."""
        ...


@dataclass(frozen=True, slots=True, kw_only=True)
class Subject:
    """An evaluator by its source; picklable, so that a worker process can make it again.

    Fields:
        source: the whole text of the module.
        tables: values that stand in the module in the place of those that it imports.
    """

    source: str
    tables: Mapping[str, object] = field(default_factory=dict[str, object])

    def names(self) -> dict[str, object]:
        """Return the names of the module that the source makes."""
        return _made(self.source, _Tables(self.tables))

    def run(self, policy: object) -> RunUnderProof:
        """Return a run with no steps."""
        return cast("Callable[[object], RunUnderProof]", self.names()["Run"])(policy)

    def detector(self, length_max: int, repeats: int) -> DetectorUnderProof:
        """Return a cycle detector that has seen nothing."""
        make = cast("Callable[[int, int], DetectorUnderProof]", self.names()["CycleDetector"])
        return make(length_max, repeats)

    def answer(self, policy: Record, steps: Sequence[Record]) -> Record:
        """Return the wire answer to plain values; a crash is an answer with the code `crash`."""
        try:
            trace = decode_values(policy, list(steps))
            return self.answer_decoded(trace.policy, trace.steps)
        except InputError as error:
            return {"error": error.as_dict()}

    def answer_decoded(self, policy: Policy, steps: Sequence[Step]) -> Record:
        """Return the wire answer to decoded values; a crash is an answer with the code `crash`."""
        evaluate = cast("Callable[[Policy, Sequence[Step]], Receipt]", self.names()["evaluate"])
        try:
            receipt = msgspec.structs.asdict(evaluate(policy, steps))
        except InputError as error:
            return {"error": error.as_dict()}
        except Exception as error:  # noqa: BLE001 a planted fault may crash in any way
            return {"error": {"code": "crash", "path": None, "step": None, "message": repr(error)}}
        receipt["usage"] = msgspec.structs.asdict(receipt["usage"])
        receipt["violations"] = list(receipt["violations"])
        return {"receipt": receipt}


class _Tables:
    """Tables beside their text, which tells one set of them from another."""

    def __init__(self, tables: Mapping[str, object]) -> None:
        self.tables = tables

    def __eq__(self, other: object) -> bool:
        return isinstance(other, _Tables) and repr(self.tables) == repr(other.tables)

    def __hash__(self) -> int:
        return hash(repr(self.tables))


@cache
def _made(source: str, tables: _Tables) -> dict[str, object]:
    module = ModuleType("loopcore_evaluator_under_proof")
    exec(compile(source, "<evaluator under proof>", "exec"), module.__dict__)
    names: dict[str, object] = module.__dict__
    names.update(tables.tables)
    return names


def present_subject() -> Subject:
    """Return the evaluator as its file is now."""
    return Subject(source=inspect.getsource(evaluator))


def comparable(answer: Record) -> object:
    """Return what two implementations must agree on: no message, and errors without nulls."""
    error = answer.get("error")
    if not isinstance(error, dict):
        return answer
    found = cast("dict[str, object]", error)
    return {name: value for name, value in found.items() if name != "message" and value is not None}
