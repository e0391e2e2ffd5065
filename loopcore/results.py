"""Typed result files: what an engine writes, and what a report reads. Nothing here measures.

Every file carries its `schema`, so that a report refuses what it does not know.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Literal, TypeVar, cast

import msgspec

from loopcore.errors import InputError
from loopcore.files import write_whole

Verdict = Literal["held", "broken", "unknown", "not applicable", "not exercised"]


class TargetFacts(msgspec.Struct, frozen=True, kw_only=True):
    """Which target was held to the properties."""

    name: str
    version: str
    releases: tuple[str, ...]
    wire: str


class PropertyResult(msgspec.Struct, frozen=True, kw_only=True):
    """How one property stood.

    Fields:
        examples: non-vacuous cases judged; vacuous: cases that did not exercise the property.
        labels: how often each thing was witnessed; missing: goals never witnessed.
        counterexample: file name below the output folder, where the verdict is broken.
    """

    id: str
    name: str
    statement: str
    verdict: Verdict
    reason: str | None
    examples: int
    vacuous: int
    support: str
    seconds: float
    labels: dict[str, int] = {}
    missing: tuple[str, ...] = ()
    counterexample: str | None = None


class VerifyResult(msgspec.Struct, frozen=True, kw_only=True):
    """The verdicts of one run of `loopcore verify`.

    Fields:
        coverage: for each kind of thing (terminal, error code, pair, boundary) how often each
            was met among generated traces; what was never met stands with 0.
        interrupted: properties after the last one listed were not run.
    """

    schema: Literal["loopcore/verify-result/1"] = "loopcore/verify-result/1"
    loopcore_version: str
    target: TargetFacts
    kind: str
    profile: str
    seed: int
    properties: tuple[PropertyResult, ...]
    coverage: dict[str, dict[str, int]] = {}
    interrupted: bool = False


class TraceCaseResult(msgspec.Struct, frozen=True, kw_only=True):
    """Whether one trace or receipt mutation got its exact expected verdict."""

    id: str
    operator: str
    expected: str
    got: str
    agreed: bool


class MutantResult(msgspec.Struct, frozen=True, kw_only=True):
    """What became of one implementation mutant.

    Fields:
        verdict: killed, survived, equivalent (with its argument in `reason`), or broken (the
            mutant could not be made or run).
        killer: the property that was named to kill it; killed_by: all properties that do.
        cases: cases judged until the first kill; seconds: until the first kill.
        refuted: the argument why it is equivalent, where something kills it all the same.
    """

    id: str
    module: str
    reason: str
    verdict: Literal["killed", "survived", "equivalent", "broken"]
    killer: str | None
    killed_by: tuple[str, ...]
    cases: int
    seconds: float
    refuted: str | None = None


class MutateResult(msgspec.Struct, frozen=True, kw_only=True):
    """The outcome of one run of `loopcore mutate`; `subset` says in words what was left out.

    Fields:
        seconds: how long this run took; resumed: mutants whose outcome an earlier run had left.
    """

    schema: Literal["loopcore/mutate-result/1"] = "loopcore/mutate-result/1"
    loopcore_version: str
    subset: str | None
    trace_cases: tuple[TraceCaseResult, ...]
    mutants: tuple[MutantResult, ...]
    properties: tuple[str, ...]
    interrupted: bool = False
    seconds: float = 0.0
    resumed: int = 0


T = TypeVar("T", bound=msgspec.Struct)


def printable_text(text: str) -> str:
    """Return a text that can be encoded: its unpaired surrogates become escapes."""
    return text.encode("utf-8", "backslashreplace").decode()


def printable(value: object) -> object:
    """Return a JSON value, tuples included, all of whose texts can be encoded."""
    if isinstance(value, str):
        return printable_text(value)
    if isinstance(value, dict):
        fields = cast("dict[str, object]", value)
        return {printable_text(key): printable(inner) for key, inner in fields.items()}
    if isinstance(value, list | tuple):
        return [printable(inner) for inner in cast("Sequence[object]", value)]
    return value


def write_result(path: Path, result: msgspec.Struct) -> None:
    """Put a result file in place, whole; raise EnvironmentFault when that cannot be done."""
    write_whole(path, msgspec.json.format(msgspec.json.encode(result), indent=1) + b"\n")


def read_result(path: Path, expected: type[T]) -> T:
    """Return the result in a file; raise InputError naming the file where it holds none."""
    try:
        return msgspec.json.decode(path.read_bytes(), type=expected)
    except OSError as error:
        raise InputError("unreadable", f"{path}: {error.strerror}.") from None
    except (msgspec.MsgspecError, UnicodeError, RecursionError) as error:
        raise InputError("malformed", f"{path}: {error}.", path="$") from None
