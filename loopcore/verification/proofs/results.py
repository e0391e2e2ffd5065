"""Typed results of proofs: which theorem, within which bound, and with which verdict."""

from __future__ import annotations

from typing import Literal

import msgspec

TheoremKind = Literal["exhausted", "proved", "compared"]
TheoremVerdict = Literal["proved", "refuted", "unknown"]


class Counterexample(msgspec.Struct, frozen=True, kw_only=True):
    """A trace on which the evaluator and the naive model differ, with both answers."""

    policy: dict[str, object]
    steps: list[dict[str, object]]
    expected: dict[str, object]
    got: dict[str, object]


class TheoremResult(msgspec.Struct, frozen=True, kw_only=True):
    """How one theorem stood.

    Fields:
        properties: ids of the invariants that it supports.
        kind: `exhausted` (every case was run), `proved` (for all integers in range, by a solver)
            or `compared` (every path of two functions was explored).
        bound: in words, what the statement is limited to; count: cases, obligations or paths.
        verdict: `proved` only when nothing was left open; reason: why it is unknown.
        reached: how often each thing was met, where that is counted.
    """

    id: str
    properties: tuple[str, ...]
    statement: str
    kind: TheoremKind
    bound: str
    count: int
    unit: str
    verdict: TheoremVerdict
    reason: str | None = None
    counterexample: Counterexample | None = None
    finding: str | None = None
    seconds: float
    reached: dict[str, int] = {}


class ProofResult(msgspec.Struct, frozen=True, kw_only=True):
    """The verdicts of one run of all proofs, or of some kinds of them."""

    schema: Literal["loopcore/proof-result/1"] = "loopcore/proof-result/1"
    loopcore_version: str
    kinds: tuple[str, ...]
    theorems: tuple[TheoremResult, ...]
    interrupted: bool = False
