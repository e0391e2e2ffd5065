"""The one place that talks to z3: a script goes in, a verdict and values come out.

Theory of operation: a fresh solver for each script, with a limit of its own on time, and in a
context of its own, since nothing in a context may be touched while z3 works, not even by a garbage
collector. `unsat` is the only answer that proves anything; a time-out or a question that z3 gives
up on is `unknown`. z3 takes an interrupt of the terminal for such a question, if it notices it at
all, so it is told to leave interrupts alone: the main thread waits for the answer, has the
interrupt, and stops z3.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from typing import Literal, Protocol, cast

SECONDS_MAX = 60
_UNKNOWN = re.compile(r"\(declare-const (\S+) (?:Int|Bool)\)")


class _Term(Protocol):
    def sexpr(self) -> str: ...


class _Constant(Protocol):
    def __call__(self) -> _Term: ...

    def name(self) -> str: ...


class _Model(Protocol):
    def decls(self) -> Sequence[_Constant]: ...

    def eval(self, term: _Term, model_completion: bool, /) -> _Term: ...


class _Parameters(Protocol):
    def set_param(self, name: str, value: bool, /) -> None: ...


class _Solver(Protocol):
    def set(self, name: str, value: int) -> None: ...

    def from_string(self, text: str) -> None: ...

    def check(self) -> object: ...

    def interrupt(self) -> None: ...

    def model(self) -> _Model: ...


@dataclass(frozen=True, slots=True, kw_only=True)
class Answer:
    """What a solver said; `values` are those of the integers and (as 0 and 1) of the booleans."""

    status: Literal["sat", "unsat", "unknown"]
    values: dict[str, int]


def solve(script: str, seconds: int = SECONDS_MAX) -> Answer:
    """Return whether the assertions of a script can all be true, with values if they can."""
    import z3  # type: ignore[import-untyped]  # pyright: ignore[reportMissingTypeStubs]

    leave_interrupts_alone()
    solver = cast("_Solver", z3.Solver(ctx=z3.Context()))
    solver.set("timeout", seconds * 1000)
    solver.from_string(script)
    status = str(_checked(solver))
    if status == "sat":
        model = solver.model()
        unknowns = frozenset(_UNKNOWN.findall(script))
        return Answer(status="sat", values=dict(_values(model, unknowns)))
    return Answer(status="unsat" if status == "unsat" else "unknown", values={})


def leave_interrupts_alone() -> None:
    """Have z3, whoever calls it, install no handler of its own for interrupts."""
    import z3  # pyright: ignore[reportMissingTypeStubs]

    cast("_Parameters", z3).set_param("ctrl_c", False)


def _checked(solver: _Solver) -> object:
    with ThreadPoolExecutor(1) as pool:
        answer = pool.submit(solver.check)
        try:
            return answer.result()
        except BaseException:
            solver.interrupt()
            raise


def _values(model: _Model, unknowns: frozenset[str]) -> list[tuple[str, int]]:
    """Return the values of unknowns; a model has every definition too, as long as it is."""
    return [
        (constant.name(), _number(model.eval(constant(), True).sexpr()))
        for constant in model.decls()
        if constant.name() in unknowns
    ]


def _number(text: str) -> int:
    """Return the integer of a value's text; a boolean is 0 or 1."""
    if text in ("true", "false"):
        return int(text == "true")
    return int(text.replace("(- ", "-").rstrip(")"))
