"""Plain JSON values with types: what operators and data files are read through.

Rule: a value of the wrong type is a defect of our own data, named in one sentence by `DataError`;
nothing is guessed or converted.
"""

from __future__ import annotations

from collections.abc import Mapping
from hashlib import sha256
from typing import TypeAlias, TypeGuard

from loopcore.errors import InputError

Record: TypeAlias = "dict[str, object]"
Parameters: TypeAlias = "Mapping[str, object]"


class DataError(InputError):
    """The suite's own data is at fault: a case, mutant or witness that makes no sense."""

    def __init__(self, message: str) -> None:
        super().__init__("malformed", message)


def is_record(value: object) -> TypeGuard[Record]:
    """Return whether a value is an object."""
    return isinstance(value, dict)


def is_array(value: object) -> TypeGuard[list[object]]:
    """Return whether a value is an array."""
    return isinstance(value, list)


def record(value: object, what: str = "the value") -> Record:
    """Return the value as an object with text keys, the same one; raise DataError otherwise."""
    if not is_record(value):
        raise DataError(f"{what} is not an object.")
    return value


def array(value: object, what: str = "the value") -> list[object]:
    """Return the value as an array, the same one; raise DataError otherwise."""
    if not is_array(value):
        raise DataError(f"{what} is not an array.")
    return value


def text(value: object, what: str = "the value") -> str:
    """Return the value as text; raise DataError otherwise."""
    if not isinstance(value, str):
        raise DataError(f"{what} is not text.")
    return value


def number(value: object, what: str = "the value") -> int:
    """Return the value as an integer; raise DataError otherwise, for booleans too."""
    if type(value) is not int:
        raise DataError(f"{what} is not an integer.")
    return value


def text_of(parameters: Parameters, name: str, default: str | None = None) -> str:
    """Return a parameter that is text; raise DataError when it is absent or something else."""
    return text(parameters.get(name, default), f"the parameter {name}")


def number_of(parameters: Parameters, name: str, default: int | None = None) -> int:
    """Return a parameter that is an integer; raise DataError when absent or something else."""
    return number(parameters.get(name, default), f"the parameter {name}")


def steps_of(document: Record) -> list[Record]:
    """Return the steps of a trace document, the same objects."""
    return [record(step, "a step") for step in array(document.get("steps"), "steps")]


def policy_of(document: Record) -> Record:
    """Return the policy of a trace document, the same object."""
    return record(document.get("policy"), "policy")


def step_at(document: Record, index: int) -> Record:
    """Return one step of a trace document, the same object; -1 is the last one."""
    steps = steps_of(document)
    if not -len(steps) <= index < len(steps):
        raise DataError(f"there is no step {index} among {len(steps)}.")
    return steps[index]


def named(name: str) -> str:
    """Return the digest that stands for something named by a text."""
    return sha256(name.encode()).hexdigest()
