"""The one place that talks to z3: a script goes in, a verdict and values come out.

Theory of operation: a fresh solver for each script, with a limit of its own on time. `unsat` is
the only answer that proves anything; a time-out or a question that z3 gives up on is `unknown`.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal, Protocol, cast

SECONDS_MAX = 60


class _Constant(Protocol):
    def name(self) -> str: ...


class _Term(Protocol):
    def as_long(self) -> int: ...


class _Model(Protocol):
    def decls(self) -> Sequence[_Constant]: ...

    def __getitem__(self, constant: _Constant) -> object: ...


class _Solver(Protocol):
    def set(self, name: str, value: int) -> None: ...

    def from_string(self, text: str) -> None: ...

    def check(self) -> object: ...

    def model(self) -> _Model: ...


@dataclass(frozen=True, slots=True, kw_only=True)
class Answer:
    """What a solver said; `values` are those of the integers and (as 0 and 1) of the booleans."""

    status: Literal["sat", "unsat", "unknown"]
    values: dict[str, int]


def solve(script: str, seconds: int = SECONDS_MAX) -> Answer:
    """Return whether the assertions of a script can all be true, with values if they can."""
    import z3  # type: ignore[import-untyped]  # pyright: ignore[reportMissingTypeStubs]

    solver = cast("_Solver", z3.Solver())
    solver.set("timeout", seconds * 1000)
    solver.from_string(script)
    status = str(solver.check())
    if status == "sat":
        model = solver.model()
        return Answer(status="sat", values=dict(_values(model)))
    return Answer(status="unsat" if status == "unsat" else "unknown", values={})


def _values(model: _Model) -> list[tuple[str, int]]:
    found: list[tuple[str, int]] = []
    for constant in model.decls():
        value = model[constant]
        if hasattr(value, "as_long"):
            found.append((constant.name(), cast("_Term", value).as_long()))
        elif str(value) in ("True", "False"):
            found.append((constant.name(), int(str(value) == "True")))
    return found
