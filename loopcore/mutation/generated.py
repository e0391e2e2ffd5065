"""Generated mutants: those of the tables and of the function bodies, with what is known of them.

Theory of operation: `mutations/generated.json` tells of a body's mutation either why no answer can
differ (`equivalent`) or which judge kills it (`killer`, for those that only a search had found, so
that a witness is kept). An entry names module, function, source line and changes exactly, so an
edit of the code makes it an error instead of an argument about code that is gone. A mutation that
no entry tells of must die by any judge.

Functions that only put words into messages are left out, each with its reason: what a message says
is no part of an answer.
"""

from __future__ import annotations

from functools import cache

import msgspec

from loopcore.mutation.bodies import BodyMutation, mutations
from loopcore.mutation.mutants import Mutant
from loopcore.mutation.planting import source_of
from loopcore.mutation.tables import generate_mutants as table_mutants
from loopcore.mutation.values import DataError, Record, array, record, text, text_of

FILE = "generated.json"
# The decision modules.
BODY_MODULES = (
    "evaluator",
    "receipts",
    "decoding",
    "defects",
    "control.detectors",
    "control.gates",
    "control.levels",
    "control.recovery",
    "control.turns",
    "control.precedence",
    "control.variants",
)
ARGUMENT_CHARACTERS_MIN = 40


class Known(msgspec.Struct, frozen=True, kw_only=True):
    """What the file tells of one mutation; exactly one of the two is there."""

    equivalent: str | None
    killer: str | None


class GeneratedData(msgspec.Struct, frozen=True, kw_only=True):
    """The file: functions left out with the reason, and what is known of single mutations."""

    left_out: dict[tuple[str, str], str]
    known: dict[tuple[str, BodyMutation], Known]


def generate_mutants() -> tuple[Mutant, ...]:
    """Return all generated mutants, in a fixed order; raise DataError for a stale entry."""
    return (*table_mutants(), *body_mutants())


def body_mutants() -> tuple[Mutant, ...]:
    """Return the mutants of function bodies, in the order of the source."""
    return _joined(load_generated(), {name: source_of(name) for name in BODY_MODULES})


def _joined(data: GeneratedData, sources: dict[str, str]) -> tuple[Mutant, ...]:
    """Return every mutation of the sources with what is known of it."""
    made: list[Mutant] = []
    unused, functions = dict(data.known), set(data.left_out)
    for module, source in sources.items():
        for mutation in mutations(source):
            if (module, mutation.function) in data.left_out:
                functions.discard((module, mutation.function))
                continue
            known = unused.pop((module, mutation), None)
            made.append(
                Mutant(
                    id=mutation.name(module),
                    module=module,
                    text=None,
                    replacement="",
                    killer=None if known is None else known.killer,
                    reason=f"{mutation.function}, line {mutation.line!r}: {mutation.change}",
                    equivalent=None if known is None else known.equivalent,
                    body=mutation,
                )
            )
    for (module, mutation), _ in unused.items():
        raise DataError(
            f"{FILE}: loopcore/{module.replace('.', '/')}.py has no mutation {mutation.change!r} "
            f"of the line {mutation.line!r} in {mutation.function}; the entry is stale."
        )
    for module, function in sorted(functions):
        raise DataError(f"{FILE}: {module} has no function {function} that is left out.")
    if len({mutant.id for mutant in made}) != len(made):
        raise DataError("two generated mutants have one id.")
    return tuple(made)


@cache
def load_generated() -> GeneratedData:
    """Return what the file tells; raise DataError where it is not right."""
    from loopcore.mutation.cases import read_data

    return checked_data(read_data(FILE))


def checked_data(value: object) -> GeneratedData:
    """Return the file's data from its JSON form; raise DataError naming what is wrong."""
    data = record(value, FILE)
    left_out: dict[tuple[str, str], str] = {}
    for each in array(data.get("left_out"), "left_out"):
        item = record(each, "a function left out")
        left_out[text_of(item, "module"), text_of(item, "function")] = text_of(item, "reason")
    known: dict[tuple[str, BodyMutation], Known] = {}
    for each in array(data.get("mutations"), "mutations"):
        item = record(each, "a mutation")
        for change in array(item.get("changes"), "changes"):
            mutation = BodyMutation(
                function=text_of(item, "function"),
                line=text_of(item, "line"),
                change=text(change, "a change"),
            )
            place = (text_of(item, "module"), mutation)
            if place in known:
                raise DataError(f"{FILE}: {mutation.change!r} of {mutation.line!r} stands twice.")
            known[place] = _known(item, mutation)
    return GeneratedData(left_out=left_out, known=known)


def _known(item: Record, mutation: BodyMutation) -> Known:
    equivalent, killer = item.get("equivalent"), item.get("killer")
    if (equivalent is None) == (killer is None):
        raise DataError(f"{FILE}: {mutation.line!r} needs an argument or a killer, one of them.")
    if equivalent is not None and len(text(equivalent)) < ARGUMENT_CHARACTERS_MIN:
        raise DataError(f"{FILE}: the argument at {mutation.line!r} is too short to be one.")
    return Known(
        equivalent=None if equivalent is None else text(equivalent),
        killer=None if killer is None else text(killer),
    )
