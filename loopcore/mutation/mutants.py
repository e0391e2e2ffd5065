"""Implementation mutants: faults of the evaluator and of the controllers, as data.

Theory of operation: a hand-written mutant names a module, a text that stands in it exactly once and
what stands there instead, the property that must kill it and the reason why it is a fault. A
generated one appends lines that change a table of `loopcore.terminals` after it was made, or
changes one node of a function body. Either way a mutant is a module and a whole source, so the
engine knows one kind only.
"""

from __future__ import annotations

import re
from functools import cache

import msgspec

from loopcore.mutation.bodies import BodyMutation, mutated
from loopcore.mutation.planting import source_of
from loopcore.mutation.values import DataError, array, record, text, text_of

# The modules that may be mutated, by the file that holds their mutants.
MODULES = (
    "evaluator",
    "terminals",
    "decoding",
    "defects",
    "canonical",
    "receipts",
    "documents",
    "models",
    "serving",
)
CONTROL_MODULES = (
    "control.detectors",
    "control.fingerprints",
    "control.gates",
    "control.levels",
    "control.limits",
    "control.precedence",
    "control.recovery",
    "control.turns",
    "control.variants",
)
# Judges besides the properties: the conformance vectors, the receipt cases of `traces.json`, the
# other doors of the evaluator, and the saved runs of controllers.
VECTORS, RECEIPTS, DOORS, AGREEMENT = "vectors", "receipts", "doors", "agreement"
# The property that answers for a crash or a hang, whichever judge meets it.
TOTALITY = "E15"
_KILLER = re.compile(r"E\d\d|vectors|receipts|doors")
_CONTROL_KILLER = re.compile(r"C\d\d|agreement")


class Mutant(msgspec.Struct, frozen=True, kw_only=True):
    """One mutant.

    Fields:
        text, replacement: the change; for a generated mutant `text` is None, and the replacement
            is appended to the source unless there is a `body`.
        killer: the judge that must kill it, or None where any may.
        equivalent: the argument why no answer can differ, or None.
        body: the change of a function body, or None.
    """

    id: str
    module: str
    text: str | None
    replacement: str
    killer: str | None
    reason: str
    equivalent: str | None = None
    body: BodyMutation | None = None

    @property
    def is_control(self) -> bool:
        """Whether it is a mutant of the control room, which controllers' properties judge."""
        return self.module in CONTROL_MODULES

    @property
    def is_generated(self) -> bool:
        """Whether the mutant was made from a table or a body and not written by hand."""
        return self.text is None


def mutated_source(mutant: Mutant) -> str:
    """Return the changed source; raise DataError when the text does not stand in it just once."""
    source = source_of(mutant.module)
    if mutant.body is not None:
        return mutated(source, mutant.body)
    if mutant.text is None:
        return f"{source}\n{mutant.replacement}\n"
    count = source.count(mutant.text)
    if count != 1:
        raise DataError(
            f"mutant {mutant.id}: its text stands {count} times in loopcore/{mutant.module}.py, "
            "and once is due."
        )
    return source.replace(mutant.text, mutant.replacement)


@cache
def load_mutants() -> tuple[Mutant, ...]:
    """Return the hand-written mutants; raise DataError for a bad one or an id that stands twice."""
    from loopcore.mutation.cases import read_data

    return checked(read_data("evaluator.json"))


@cache
def load_control_mutants() -> tuple[Mutant, ...]:
    """Return the hand-written mutants of the control room; errors as `load_mutants`."""
    from loopcore.mutation.cases import read_data

    return checked(read_data("control.json"), "control.json")


def checked(value: object, file: str = "evaluator.json") -> tuple[Mutant, ...]:
    """Return mutants from their JSON form; raise DataError naming the first bad one."""
    mutants: list[Mutant] = []
    for item in (record(each, "a mutant") for each in array(value, file)):
        argument = item.get("equivalent")
        mutant = Mutant(
            id=text_of(item, "id"),
            module=text_of(item, "module"),
            text=text_of(item, "text"),
            replacement=text_of(item, "replacement"),
            killer=text_of(item, "killer"),
            reason=text_of(item, "reason"),
            equivalent=None if argument is None else text(argument, "equivalent"),
        )
        pattern = _CONTROL_KILLER if mutant.is_control else _KILLER
        known = mutant.is_control or mutant.module in MODULES
        if not known or pattern.fullmatch(mutant.killer or "") is None:
            raise DataError(f"mutant {mutant.id}: its module or its killer is not known.")
        mutated_source(mutant)
        mutants.append(mutant)
    if len({mutant.id for mutant in mutants}) != len(mutants):
        raise DataError(f"{file}: an id stands twice.")
    return tuple(mutants)
