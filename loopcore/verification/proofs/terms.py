"""Terms of SMT-LIB as text, and the values that a symbolic run of the evaluator computes with.

Theory of operation: a term is text, so that a whole proof is a file which any solver can read, and
none is needed to build it. Integers, digests and names are one sort, `Int`: a digest is its number,
a name (a kind, an outcome, a terminal) has a code, and None is -1, which no other value is. What a
number stands for is kept beside it, so that a digest is never added and a count never compared
with a name.

Source: SMT-LIB, version 2.6.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Literal, TypeAlias

Meaning = Literal["integer", "digest", "name", "none"]

TRUE, FALSE, NONE = "true", "false", "(- 1)"
# The set of no digests.
EMPTY = "((as const (Array Int Bool)) false)"


class UnknownShapeError(Exception):
    """The source has a shape that is not translated, so nothing is proved about it."""


@dataclass(frozen=True, slots=True)
class Number:
    """An integer, a digest or a name; `nullable` where it may be None."""

    term: str
    meaning: Meaning = "integer"
    nullable: bool = False


@dataclass(frozen=True, slots=True)
class Flag:
    """A boolean."""

    term: str


@dataclass(frozen=True, slots=True)
class Row:
    """A tuple of values."""

    items: tuple[Value, ...]


@dataclass(frozen=True, slots=True)
class Listing:
    """A step's evidence: the first `length` of some terms."""

    items: tuple[str, ...]
    length: str


@dataclass(frozen=True, slots=True)
class Distinct:
    """`set(...)` of a step's evidence."""

    of: Listing


@dataclass(frozen=True, slots=True)
class Collection:
    """What a set holds: an array from digests to booleans, and how many."""

    array: str
    size: str


@dataclass(frozen=True, slots=True)
class SetReference:
    """A set that may have several names; what it holds stands in the heap under `key`."""

    key: str


@dataclass(frozen=True, slots=True)
class SetMethod:
    """A method of a set, such as `seen.add`, that has a name of its own."""

    reference: SetReference
    method: str


@dataclass(frozen=True, slots=True)
class Table:
    """A constant dict of the module."""

    rows: Mapping[str, object]


@dataclass(frozen=True, slots=True)
class Choice:
    """The row of a table that a name picks."""

    table: Table
    key: str


@dataclass(frozen=True, slots=True)
class Detector:
    """A cycle detector, or None where the term is false."""

    present: str


@dataclass(frozen=True, slots=True)
class Named:
    """An object that is only called, or whose attributes are values of their own."""

    name: str


Value: TypeAlias = (
    Number
    | Flag
    | Row
    | Listing
    | Distinct
    | Collection
    | SetReference
    | SetMethod
    | Table
    | Choice
    | Detector
    | Named
)

NO_VALUE = Number(NONE, "none", True)


@dataclass(slots=True)
class Script:
    """The declarations and definitions of a proof, in order; every name is made once."""

    lines: list[str] = field(default_factory=list[str])
    names: dict[str, int] = field(default_factory=dict[str, int])
    _count: int = 0

    def declare(self, name: str, sort: str) -> str:
        """Return the symbol of a new unknown."""
        self.lines.append(f"(declare-const {name} {sort})")
        return name

    def define(self, term: str, sort: str) -> str:
        """Return a symbol for a term, so that using it twice does not write it twice."""
        if " " not in term:
            return term
        name = self.fresh("t")
        self.lines.append(f"(define-fun {name} () {sort} {term})")
        return name

    def fresh(self, stem: str) -> str:
        """Return a symbol that is not used yet."""
        self._count += 1
        return f"{stem}.{self._count}"

    def require(self, term: str) -> None:
        """Assume a term."""
        if term != TRUE:
            self.lines.append(f"(assert {term})")

    def code(self, name: str) -> str:
        """Return the number that stands for a name, the same for the same name."""
        return str(self.names.setdefault(name, len(self.names)))

    def text(self) -> str:
        """Return the script."""
        return "\n".join(self.lines) + "\n"


def conjunction(terms: Iterable[str]) -> str:
    """Return a term that is true when all are."""
    parts = [term for term in dict.fromkeys(terms) if term != TRUE]
    if FALSE in parts:
        return FALSE
    return parts[0] if len(parts) == 1 else f"(and {' '.join(parts)})" if parts else TRUE


def disjunction(terms: Iterable[str]) -> str:
    """Return a term that is true when any is."""
    parts = [term for term in dict.fromkeys(terms) if term != FALSE]
    if TRUE in parts:
        return TRUE
    return parts[0] if len(parts) == 1 else f"(or {' '.join(parts)})" if parts else FALSE


def negation(term: str) -> str:
    """Return a term that is true when the other is false."""
    return {TRUE: FALSE, FALSE: TRUE}.get(term, f"(not {term})")


def equal(left: str, right: str) -> str:
    """Return a term that is true when two are the same."""
    return TRUE if left == right else f"(= {left} {right})"


def choose(condition: str, then: str, otherwise: str) -> str:
    """Return the one term or the other."""
    if condition in (TRUE, FALSE) or then == otherwise:
        return then if condition == TRUE or then == otherwise else otherwise
    return f"(ite {condition} {then} {otherwise})"


def total(terms: Iterable[str]) -> str:
    """Return the sum of terms."""
    parts = [term for term in terms if term != "0"]
    return parts[0] if len(parts) == 1 else f"(+ {' '.join(parts)})" if parts else "0"


def count(conditions: Iterable[str]) -> str:
    """Return how many conditions are true."""
    return total(choose(condition, "1", "0") for condition in conditions)


def integer(value: int) -> str:
    """Return the numeral of an integer."""
    return str(value) if value >= 0 else f"(- {-value})"


def between(low: int, term: str, high: int) -> str:
    """Return a term that is true when an integer lies in a range, both ends included."""
    return f"(<= {integer(low)} {term} {integer(high)})"


def implies(condition: str, conclusion: str) -> str:
    """Return the term that a condition brings a conclusion."""
    return disjunction((negation(condition), conclusion))
