"""Money and tokens of a recording: exact, disjoint, counted once, and unknown when not recorded.

Theory of operation: an amount is read from its decimal text and never becomes a float. Amounts are
added exactly and only then rounded to integer microunits, so that 10,000 small additions end where
the exact sum ends. What is not recorded is None, which is not zero. Cached tokens are a part of the
prompt's tokens. Records of one call replace each other or add up according to their kind.

Source: incidents 8.1 to 8.4 and 13.4; spec control, section 1.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field
from decimal import ROUND_HALF_EVEN, Context, Decimal
from typing import Literal

from loopcore.recordings.nodes import Node

MICROUNITS = Decimal(1_000_000)
AMOUNT_MAX = Decimal(10**12)
DECIMAL_PLACES_MAX = 60
# Wide enough for the largest amount with the most decimal places, summed over any file.
_EXACT = Context(prec=120, rounding=ROUND_HALF_EVEN)

UsageKind = Literal["delta", "cumulative"]


def amount(node: Node) -> Decimal:
    """Return an amount of money as written: finite, not negative, exact.

    A JSON number or a decimal written as text is taken. Errors: InputError `malformed` with the
    place for a negative, infinite or not-a-number amount, and for one beyond the limits.
    """
    try:
        value = Decimal(node.value) if isinstance(node.value, str) else node.number()
    except ArithmeticError:
        node.reject("expected an amount, got text that is not a decimal number")
    if not value.is_finite():
        node.reject("expected an amount, got a value that is not finite")
    if value < 0:
        node.reject("expected an amount, got a negative number")
    exponent = value.as_tuple().exponent
    if value > AMOUNT_MAX or not isinstance(exponent, int) or -exponent > DECIMAL_PLACES_MAX:
        node.reject(f"expected at most {AMOUNT_MAX} and {DECIMAL_PLACES_MAX} decimal places")
    return value


def microunits(value: Decimal) -> int:
    """Return the amount in integer microunits, rounded once, half to even."""
    return int(_EXACT.to_integral_value(_EXACT.multiply(value, MICROUNITS)))


@dataclass(slots=True)
class CostLedger:
    """Splits an exact running sum into integer microunits that add up to the rounded sum.

    Each entry is the growth of the rounded running sum, so that the remainder of one record is
    carried into the next one and never lost.
    """

    exact: Decimal = Decimal(0)
    entered: int = 0

    def enter(self, value: Decimal) -> int:
        """Add an amount and return the microunits that its record carries."""
        self.exact = _EXACT.add(self.exact, value)
        total = microunits(self.exact)
        share = total - self.entered
        self.entered = total
        return share


@dataclass(frozen=True, slots=True, kw_only=True)
class Prices:
    """Integer micro-prices of one token of each kind."""

    fresh: int
    read: int
    write: int
    output: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Priced:
    """A cost in microunits, or None when something is unknown, and what was odd about it."""

    cost_microunits: int | None
    fresh_tokens: int | None
    warnings: tuple[str, ...] = ()


def price_usage(
    total: int | None,
    read: int | None,
    write: int | None,
    output: int | None,
    prices: Prices | None,
) -> Priced:
    """Return the cost of disjoint buckets: fresh = total − read − write.

    Arguments: token counts; `total` is the prompt's and includes cache reads and writes, of which
    None means that the record names none; prices a token in microunits.
    Result: the cost is None when the prompt, the output or the prices are unknown. A negative
    remainder is taken as zero fresh tokens, with a warning.

    Source: incidents 8.1 and 8.3.
    """
    if total is None:
        return Priced(cost_microunits=None, fresh_tokens=None)
    read_tokens, write_tokens = read or 0, write or 0
    fresh = total - read_tokens - write_tokens
    warnings: tuple[str, ...] = ()
    if fresh < 0:
        warnings = (f"cached tokens exceed the prompt's {total} tokens by {-fresh}",)
        fresh = 0
    if output is None or prices is None:
        return Priced(cost_microunits=None, fresh_tokens=fresh, warnings=warnings)
    cost = (
        fresh * prices.fresh
        + read_tokens * prices.read
        + write_tokens * prices.write
        + output * prices.output
    )
    return Priced(cost_microunits=cost, fresh_tokens=fresh, warnings=warnings)


@dataclass(slots=True)
class UsageMeter:
    """The tokens of each call, whichever way its records are written.

    A cumulative record replaces the earlier one of its call and must not be smaller; a delta is
    added. One call does not mix the two.
    """

    totals: dict[str, int] = field(default_factory=dict[str, int])
    kinds: dict[str, UsageKind] = field(default_factory=dict[str, UsageKind])

    def record(self, call: str, kind: UsageKind, value: int, node: Node) -> None:
        """Enter one usage record; `node` is where it stands, for complaints."""
        if self.kinds.setdefault(call, kind) != kind:
            node.reject(f"the call {call!r} mixes cumulative and delta usage")
        before = self.totals.get(call, 0)
        if kind == "cumulative" and value < before:
            node.reject(f"the cumulative usage of the call {call!r} falls from {before} to {value}")
        self.totals[call] = value if kind == "cumulative" else before + value

    def total(self) -> int:
        """Return the tokens of all calls."""
        return sum(self.totals.values())


@dataclass(slots=True)
class CallBook:
    """Which calls were made, so that a copy is dropped and an impostor is refused.

    With `reusable` ids (a format whose producer hands out an id again) an answered id may open a
    new call; an id that is still waiting for its result may not.
    """

    file: str
    reusable: bool = False
    contents: dict[str, object] = field(default_factory=dict[str, object])
    answers: dict[str, object] = field(default_factory=dict[str, object])
    reused: int = 0

    def open(self, call: str, content: object, node: Node) -> bool:
        """Return True for a new call, False for an exact copy of a known one."""
        if call not in self.contents:
            self.contents[call] = content
            return True
        if self.reusable and call in self.answers:
            self.reused += 1
            self.contents[call] = content
            del self.answers[call]
            return True
        if self.contents[call] != content:
            node.reject(f"the call id {call!r} stands already for another call")
        return False

    def answer(self, call: str, content: object, node: Node) -> bool:
        """Return True for the first result of a known call, False for an exact copy of it."""
        if call not in self.contents:
            node.reject(f"the result names the call {call!r}, which was never made")
        if call not in self.answers:
            self.answers[call] = content
            return True
        if self.answers[call] != content:
            node.reject(f"the call {call!r} has two different results")
        return False


def total_or_unknown(values: Iterable[int | None]) -> int | None:
    """Return the sum, or None as soon as one value is unknown."""
    total = 0
    for value in values:
        if value is None:
            return None
        total += value
    return total


def optional_count(node: Node | None) -> int | None:
    """Return a recorded count, or None when nothing was recorded."""
    return None if node is None else node.count()
