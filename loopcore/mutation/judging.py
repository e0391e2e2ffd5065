"""Judges: what a mutant is held to in its own process, one column of the kill matrix each.

Theory of operation: a property is judged over its saved witness cases; `vectors` over the
conformance vectors; `receipts` over the receipt cases; `doors` over the other ways in; `agreement`
over saved runs of controllers, with the naive model's answers. Each judge stops at its first
finding. The target is the evaluator of this very process, so a planted module is what answers. A
crash of the evaluator is a finding of E15, and leaves the property that met it without a say.

Source: spec verification, sections 1 and 3.
"""

from __future__ import annotations

import json
import shlex
import sys
from collections.abc import Callable, Iterator
from functools import cache, partial
from pathlib import Path
from time import perf_counter
from typing import TypeVar

import msgspec

from loopcore.documents import evaluate_trace
from loopcore.errors import InputError, TargetError
from loopcore.mutation.cases import judge_trace_case, load_trace_cases
from loopcore.mutation.conformance import reference_result
from loopcore.mutation.mutants import AGREEMENT, DOORS, RECEIPTS, TOTALITY, VECTORS
from loopcore.mutation.values import DataError, Record, record
from loopcore.mutation.vectors import load_vectors
from loopcore.suite import suite_folder
from loopcore.testing.checks import CATALOGUE
from loopcore.testing.contract import Answer, Case, EvaluatorTarget, Invariant, Json, Property
from loopcore.testing.contract import T as S
from loopcore.testing.profiles import Profile
from loopcore.testing.targets import BuiltInTarget, CommandTarget, TargetSpec

T = TypeVar("T")

_NO_MORE = "no more"
PROPERTIES: dict[str, Property] = {each.id: each for each in CATALOGUE if each.id[0] == "E"}
JUDGES: tuple[str, ...] = (*PROPERTIES, RECEIPTS, DOORS, VECTORS)
# Judges of the control room; what they need is imported after a mutant was planted.
CONTROL_JUDGES: tuple[str, ...] = tuple(f"C{number:02}" for number in range(1, 11))
CONTROL_COLUMNS: tuple[str, ...] = (*CONTROL_JUDGES, AGREEMENT)


class Column(msgspec.Struct, frozen=True, kw_only=True):
    """What one judge said of one mutant.

    Fields:
        killed_by: the judge, or E15 when the evaluator crashed, or None.
        cases, seconds: until the kill, or in all; finding: what was wrong, in words.
        defect: the judge itself failed, so that it has no say.
    """

    judge: str
    killed_by: str | None
    cases: int
    seconds: float
    finding: str | None = None
    defect: str | None = None


class MutantTarget(BuiltInTarget):
    """The evaluator of this process, with whatever is planted in it.

    A document's text goes through the document decoder, with its fast path, and not through the
    protocol, which has the slow one only. Whatever the evaluator raises becomes a TargetError.
    """

    def __init__(self, job: str) -> None:
        super().__init__(TargetSpec())
        self._job = job

    def evaluate(self, policy: Json, steps: Json) -> Answer:
        """Return the answer to one trace of plain values."""
        return _guarded(lambda: super(MutantTarget, self).evaluate(policy, steps))

    def evaluate_text(self, policy: bytes, steps: bytes) -> Answer:
        """Return the answer to the document that the two raw texts make."""
        document = b'{"policy":%b,"schema":"loopcore/trace/1","steps":%b}' % (policy, steps)
        return _guarded(lambda: _document_answer(document))

    def evaluate_line(self, data: bytes) -> Answer:
        """Return the answer to any bytes without LF."""
        return _guarded(lambda: super(MutantTarget, self).evaluate_line(data))

    def evaluate_stream(self, data: bytes) -> Answer:
        """Return the answer to a stream."""
        return _guarded(lambda: super(MutantTarget, self).evaluate_stream(data))

    def advance(self, policy: Json, steps: Json) -> list[Answer]:
        """Return the answer after each prefix, the empty one first."""
        return _guarded(lambda: super(MutantTarget, self).advance(policy, steps))

    def fresh(self) -> EvaluatorTarget:
        """Return the same mutant in a process of its own."""
        words = [sys.executable, "-m", "loopcore.mutation.child", "serve", self._job]
        spec = TargetSpec(command=shlex.join(words))
        return CommandTarget(spec, self.name, self.version, self.releases, self.wire)


def _document_answer(document: bytes) -> Answer:
    try:
        return {"receipt": msgspec.to_builtins(evaluate_trace(document))}
    except InputError as error:
        return {"error": error.as_dict()}


def _guarded(call: Callable[[], T]) -> T:
    """Return what a call gives; raise TargetError for whatever the evaluator raises."""
    try:
        return call()
    except TargetError:
        raise
    except Exception as error:  # noqa: BLE001 whatever it raises is the finding
        raise TargetError("crash", f"it raised {type(error).__name__}: {error}") from None


class Witness(msgspec.Struct, frozen=True, kw_only=True):
    """A saved case of a property; `source` says where it is from (a mutant's id, or a seed)."""

    source: str
    case: dict[str, object]


def corpus_path(property_id: str) -> Path:
    """Return the file of a property's saved cases."""
    folder = "control-witnesses" if property_id in CONTROL_JUDGES else "witnesses"
    return suite_folder("mutations") / folder / f"{property_id}.jsonl"


@cache
def load_witnesses(property_id: str) -> tuple[Witness, ...]:
    """Return the saved cases of a property; raise DataError when there are none."""
    path = corpus_path(property_id)
    try:
        lines = path.read_bytes().splitlines()
        found = [record(json.loads(line), "a witness") for line in lines]
    except (OSError, ValueError) as error:
        raise DataError(f"{path}: {error}.") from None
    return tuple(Witness(source=str(w["source"]), case=record(w["case"])) for w in found)


def judge(name: str, target: EvaluatorTarget) -> Column:
    """Return what one judge says of the evaluator of this process; stops at the first finding."""
    started = perf_counter()
    count = 0
    killed_by: str | None = None
    finding: str | None = None
    try:
        for finding in _findings(name, target):
            count += 1
            if finding is not None:
                killed_by = name
                break
    except TargetError as error:
        count += 1
        killed_by, finding = TOTALITY, f"{error.kind}: {error.message}"
    except Exception as error:  # noqa: BLE001 a judge that fails has no say, and no mutant its life
        return Column(
            judge=name,
            killed_by=None,
            cases=count,
            seconds=perf_counter() - started,
            defect=f"{type(error).__name__}: {error}",
        )
    seconds = perf_counter() - started
    return Column(judge=name, killed_by=killed_by, cases=count, seconds=seconds, finding=finding)


def searched(examined: Invariant[S], target: S, profile: Profile) -> Column:
    """Return what a search by a property finds of the target in this process."""
    from loopcore.testing.examining import examine

    outcome = examine(examined, target, profile, 0)
    found = outcome.broken or outcome.trouble
    killer = TOTALITY if outcome.broken is None else examined.id
    return Column(
        judge=examined.id,
        killed_by=None if found is None else killer,
        cases=outcome.examples + outcome.vacuous,
        seconds=outcome.seconds,
        finding=None if found is None else found.finding,
    )


def _findings(name: str, target: EvaluatorTarget) -> Iterator[str | None]:
    """Yield for each case of a judge what is wrong, or None."""
    if name == VECTORS:
        for vector in load_vectors():
            result = _guarded(partial(reference_result, vector))
            wrong = f"vector {vector.id}: got {result.got}"
            yield None if result.verdict == "agreed" else wrong
    elif name == RECEIPTS:
        for case in load_trace_cases():
            if case.form == "receipt":
                row = _guarded(partial(judge_trace_case, case))
                yield None if row.agreed else f"case {row.id}: got {row.got}"
    elif name == AGREEMENT:
        from loopcore.mutation.agreement import agreement_findings

        yield from _each_guarded(agreement_findings())
    elif name == DOORS:
        from loopcore.mutation.doors import door_findings

        yield from _each_guarded(door_findings())
    elif name in CONTROL_JUDGES:
        from loopcore.mutation.control_judging import control_findings

        cases = (_copied(witness.case) for witness in load_witnesses(name))
        yield from control_findings(name, cases)
    else:
        for witness in load_witnesses(name):
            yield PROPERTIES[name].judge(target, _copied(witness.case)).finding


def _each_guarded(findings: Iterator[str | None]) -> Iterator[str | None]:
    """Yield the findings; whatever the code under test raises in between is a TargetError."""
    while (found := _guarded(lambda: next(findings, _NO_MORE))) != _NO_MORE:
        yield found


def _copied(case: Case) -> Case:
    """Return a copy that the target may change as it likes."""
    copy: Record = record(json.loads(json.dumps(case)))
    return copy
