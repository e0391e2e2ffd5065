"""The contract between targets, properties and the engine that brings them together.

Theory of operation: a *target* is whatever is under test, seen through JSON values alone. A
*property* draws JSON-like *cases* and judges a target on one case at a time, without raising. So
the same property serves random search, a saved counterexample, a corpus of witnesses and a user's
own pytest run, and a case written to a file is a whole reproduction.

Only `TargetError` may come out of a target's methods: it died, hung, flooded or answered nonsense.
An engine reports that against E15 and makes the property under test unknown.

Source: spec verification, sections 1 and 2.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Generic, Literal, Protocol, TypeAlias, TypeVar

from hypothesis.strategies import SearchStrategy

Json: TypeAlias = "bool | int | float | str | Sequence[Json] | Mapping[str, Json] | None"

# `{"receipt": {...}}` or `{"error": {"code", "path", "step", ...}}`, as on the wire, without id.
Answer: TypeAlias = "dict[str, object]"

# Plain JSON. Bytes stand in it as {"base64": "..."}.
Case: TypeAlias = "dict[str, object]"

Need = Literal["bytes", "incremental", "extended", "processes"]
Verdict = Literal["held", "broken", "unknown", "not applicable", "not exercised"]


class Target(Protocol):
    """What targets of every kind have in common.

    `releases` are the releases or protocols that a target speaks, for the record.
    """

    name: str
    version: str
    releases: tuple[str, ...]
    wire: Literal["bytes", "values"]

    def close(self) -> None:
        """Give back processes and pipes; the target is not used again."""
        ...


T = TypeVar("T", bound=Target)


class EvaluatorTarget(Protocol):
    """An evaluator under test, in this process or another, in any language."""

    name: str
    version: str
    releases: tuple[str, ...]
    # "values": the target's JSON parser hides duplicate keys, number spelling and the like.
    wire: Literal["bytes", "values"]
    # Whether `advance` may be called.
    incremental: bool

    def evaluate(self, policy: Json, steps: Json) -> Answer:
        """Return the answer to one trace of plain values."""
        ...

    def evaluate_text(self, policy: bytes, steps: bytes) -> Answer:
        """Return the answer to a trace whose two parts are given as raw JSON text, without LF.

        Only for wire `bytes`: repeated keys, number spelling, white space and escapes arrive.
        """
        ...

    def evaluate_line(self, data: bytes) -> Answer:
        """Return the answer to any bytes without LF where a whole trace or request should stand."""
        ...

    def advance(self, policy: Json, steps: Json) -> list[Answer]:
        """Return the answer after each prefix, the empty one first; only when `incremental`."""
        ...

    def fresh(self) -> EvaluatorTarget:
        """Return the same target in a new process with another hash seed (where it has one)."""
        ...

    def close(self) -> None:
        """Give back processes and pipes; the target is not used again."""
        ...


@dataclass(frozen=True, slots=True, kw_only=True)
class Judgement:
    """What one case showed of a target.

    Fields:
        finding: None, or one sentence in words on what is wrong with the answer.
        vacuous: the case did not exercise the property, so it does not count as an example.
        labels: what the case witnessed (a terminal, a code, a pair), counted by the engine.
        expected, got: the two sides of a finding, as JSON.
    """

    finding: str | None = None
    vacuous: bool = False
    labels: tuple[str, ...] = ()
    expected: object = None
    got: object = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Invariant(Generic[T]):
    """One property of targets of one kind: named, documented, separately runnable.

    Fields:
        id: `E01` and so on; name: the short name, words joined by hyphens.
        statement: what holds; prevents: the real failure that it keeps away.
        mutants: ids of implementation mutants that show that it can fail.
        cases: makes the strategy; examples: explicit cases, run first.
        judge: judges one case; raises nothing but TargetError.
        goals: the labels that must be witnessed, or the property is *not exercised*.
    """

    id: str
    name: str
    statement: str
    prevents: str
    mutants: tuple[str, ...]
    cases: Callable[[], SearchStrategy[Case]]
    judge: Callable[[T, Case], Judgement]
    examples: tuple[Case, ...] = ()
    goals: Callable[[T], frozenset[str]] = field(default=lambda target: frozenset())

    def lack(self, target: T) -> str | None:
        """Return in words why the property is not applicable to a target, or None.

        May ask the target, and so raise TargetError.
        """
        del target
        return None


@dataclass(frozen=True, slots=True, kw_only=True)
class Property(Invariant[EvaluatorTarget]):
    """One property of evaluators; `needs` is what a target must have for it to be applicable."""

    needs: frozenset[Need] = frozenset()

    def lack(self, target: EvaluatorTarget) -> str | None:
        """Return in words what the target lacks for this property, or None."""
        if "bytes" in self.needs and target.wire != "bytes":
            return "the target is given values, so damage to the JSON text never reaches it"
        if "incremental" in self.needs and not target.incremental:
            return "the target has no incremental form"
        if "extended" in self.needs and "loopcore-extended/1" not in target.releases:
            return "the target does not have the release loopcore-extended/1"
        if "processes" in self.needs and getattr(target, "processes", True) is False:
            return "the target cannot be started in another process"
        return None
