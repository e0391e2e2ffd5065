"""Implementation mutants: faults of the evaluator as data, hand-written and generated.

Theory of operation: a hand-written mutant names a module, a text that stands in it exactly once and
what stands there instead, the property that must kill it and the reason why it is a fault. A
generated one appends lines that change a table of `loopcore.terminals` after it was made. Either
way a mutant is a module and a whole source, so the engine knows one kind only.
"""

from __future__ import annotations

import re
from functools import cache

import msgspec

from loopcore.mutation.planting import source_of
from loopcore.mutation.values import DataError, array, record, text, text_of

# The modules that may be mutated.
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
# Judges besides the properties: the conformance vectors, and the receipt cases of `traces.json`.
VECTORS, RECEIPTS = "vectors", "receipts"
_KILLER = re.compile(r"E\d\d|vectors|receipts")


class Mutant(msgspec.Struct, frozen=True, kw_only=True):
    """One mutant.

    Fields:
        text, replacement: the change; for a generated mutant `text` is None and the replacement is
            appended to the source.
        killer: the judge that must kill it, or None where any may.
        equivalent: the argument why no answer can differ, or None.
    """

    id: str
    module: str
    text: str | None
    replacement: str
    killer: str | None
    reason: str
    equivalent: str | None = None

    @property
    def is_generated(self) -> bool:
        """Whether the mutant was made from a table and not written by hand."""
        return self.text is None


def mutated_source(mutant: Mutant) -> str:
    """Return the changed source; raise DataError when the text does not stand in it just once."""
    source = source_of(mutant.module)
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


def checked(value: object) -> tuple[Mutant, ...]:
    """Return mutants from their JSON form; raise DataError naming the first bad one."""
    mutants: list[Mutant] = []
    for item in (record(each, "a mutant") for each in array(value, "evaluator.json")):
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
        if mutant.module not in MODULES or _KILLER.fullmatch(mutant.killer or "") is None:
            raise DataError(f"mutant {mutant.id}: its module or its killer is not known.")
        mutated_source(mutant)
        mutants.append(mutant)
    if len({mutant.id for mutant in mutants}) != len(mutants):
        raise DataError("evaluator.json: an id stands twice.")
    return tuple(mutants)
