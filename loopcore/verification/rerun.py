"""Counterexamples as files, and the judgement of exactly the case that such a file holds.

Theory of operation: a case is plain JSON and a property judges one case at a time, so a file is a
whole reproduction: no database of examples, no seed and no search take part in a rerun.

Source: spec verification, section 1.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

import msgspec

from loopcore.errors import InputError, TargetError, UsageError
from loopcore.files import write_whole
from loopcore.results import TargetFacts, Verdict
from loopcore.testing.contract import Invariant, T
from loopcore.testing.examining import TOTALITY, judge_case

FILE_BYTES_MAX = 2**28
_NAME_DIGITS = 12


class Counterexample(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A case that a target failed.

    Fields:
        property: the broken one; judged_by: the one whose check judges the case, another only
            where the target died or hung while it was held to that, which breaks E15.
        expected, got: the two sides of the finding, as JSON; request: what was being served.
    """

    schema: Literal["loopcore/counterexample/1"] = "loopcore/counterexample/1"
    property: str
    judged_by: str
    target: TargetFacts
    seed: int
    profile: str
    case: dict[str, object]
    finding: str
    expected: object = None
    got: object = None
    request: object = None
    loopcore_version: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Rerun:
    """What a saved case shows of a target now: broken, held, unknown or not applicable."""

    property_id: str
    verdict: Verdict
    reason: str | None = None
    expected: object = None
    got: object = None


def file_name(counterexample: Counterexample) -> str:
    """Return the name of a counterexample's file, which depends on its property and case alone."""
    case = json.dumps(counterexample.case, sort_keys=True, separators=(",", ":"))
    text = f"{counterexample.judged_by}/{case}"
    digits = hashlib.sha256(text.encode()).hexdigest()[:_NAME_DIGITS]
    return f"{counterexample.property}-{digits}.json"


def write_counterexample(path: Path, counterexample: Counterexample) -> None:
    """Put a counterexample in place, whole; raise EnvironmentFault when that cannot be done."""
    # The standard encoder writes unpaired surrogates and integers of any size, which cases have.
    text = json.dumps(msgspec.to_builtins(counterexample), indent=1)
    write_whole(path, text.encode() + b"\n")


def read_counterexample(path: Path) -> Counterexample:
    """Return the counterexample in a file; raise InputError naming the file when it has none."""
    try:
        if path.is_file() and path.stat().st_size > FILE_BYTES_MAX:
            raise InputError("unreadable", f"{path} is larger than {FILE_BYTES_MAX} bytes")
        value: object = json.loads(path.read_bytes())
        return msgspec.convert(value, Counterexample)
    except OSError as error:
        raise InputError("unreadable", f"{path}: {error.strerror or error}") from None
    except (msgspec.MsgspecError, ValueError, RecursionError) as error:
        words = " ".join(str(error).split())
        raise InputError("malformed", f"{path} is no counterexample: {words}") from None


def rerun(counterexample: Counterexample, target: T, properties: Sequence[Invariant[T]]) -> Rerun:
    """Return what the saved case shows of the target.

    Raises UsageError when there is no such property, and InputError when the case is not its own.
    """
    judge = next((each for each in properties if each.id == counterexample.judged_by), None)
    if judge is None:
        raise UsageError(f"there is no property {counterexample.judged_by!r}")
    name = counterexample.property
    if name not in (judge.id, TOTALITY):
        raise UsageError(f"{judge.id} does not judge for {name!r}")
    try:
        lack = judge.lack(target)
    except TargetError as error:
        return _failed(name, error)
    if lack is not None:
        return Rerun(property_id=name, verdict="not applicable", reason=lack)
    try:
        seen = judge_case(judge, target, counterexample.case)
    except Exception as error:  # noqa: BLE001 a check trips over a case that it did not make
        words = f"{type(error).__name__}: {' '.join(str(error).split())}"
        raise InputError("malformed", f"this is no case of {judge.id} ({words[:200]})") from None
    if isinstance(seen, TargetError):
        return _failed(name, seen)
    if name == TOTALITY != judge.id:
        return Rerun(property_id=name, verdict="held")
    if seen.finding is not None:
        return Rerun(
            property_id=name,
            verdict="broken",
            reason=seen.finding,
            expected=seen.expected,
            got=seen.got,
        )
    if seen.vacuous:
        return Rerun(
            property_id=name, verdict="unknown", reason="the case does not exercise the property"
        )
    return Rerun(property_id=name, verdict="held")


def _failed(name: str, error: TargetError) -> Rerun:
    verdict: Verdict = "broken" if name == TOTALITY else "unknown"
    return Rerun(property_id=name, verdict=verdict, reason=f"{error.kind}: {error.message}")
