"""Generated mutants of the normative tables: rows swapped, rows dropped, single figures flipped.

Theory of operation: the tables of `loopcore.terminals` are read and each small change is spelled as
lines that are appended to that module. Where no answer can differ the mutant says so, with an
argument that is derived from the table of deltas and not from running anything: two budgets can
pass their bounds on one step only if one step can charge both.

`TERMINALS` (class, owner, resumability) stands in no receipt and no error, so no property of an
evaluator can see it; the tests of `loopcore.terminals` hold it against the specification.
"""

from __future__ import annotations

from itertools import pairwise

from loopcore.mutation.mutants import Mutant

# How the id of every generated mutant begins.
GENERATED = "table-"
_UNFIRED = "input_exhausted"
# The properties that must see an order of rows changed, and a bound that is not told as it should.
_ORDER_KILLER, _BOUND_KILLER = "E02", "E18"
# The counted rules, each with the place of its figure in a row of deltas.
_COUNTED = {
    "model_budget_exhausted": 0,
    "tool_budget_exhausted": 1,
    "repair_budget_exhausted": 2,
}
_FINISH = ("completed", "invalid_completion")


def generate_mutants() -> tuple[Mutant, ...]:
    """Return all generated mutants, in a fixed order."""
    return (*_precedence_mutants(), *_usage_mutants(), *_bound_mutants(), *_code_mutants())


def _mutant(
    name: str,
    lines: str,
    reason: str,
    equivalent: str | None = None,
    killer: str | None = None,
) -> Mutant:
    return Mutant(
        id=f"{GENERATED}{name}",
        module="terminals",
        text=None,
        replacement=lines,
        killer=None if equivalent else killer,
        reason=reason,
        equivalent=equivalent,
    )


def _precedence_mutants() -> list[Mutant]:
    """Every two neighbouring rows swapped, and every row dropped."""
    from loopcore.terminals import PRECEDENCE

    mutants: list[Mutant] = []
    for release, table in PRECEDENCE.items():
        label = release.partition("-")[2].partition("/")[0]
        for index, (upper, lower) in enumerate(pairwise(table)):
            rows = [*table]
            rows[index], rows[index + 1] = rows[index + 1], rows[index]
            mutants.append(
                _mutant(
                    f"{label}-swap-{upper}",
                    f"PRECEDENCE[{release!r}] = {tuple(rows)!r}",
                    f"{lower} stands before {upper}",
                    _swap_argument(upper, lower),
                    _ORDER_KILLER,
                )
            )
        for name in table:
            rows = [row for row in table if row != name]
            argument = None
            if name == _UNFIRED:
                argument = "The row names what is told when nothing fired; no step ever fires it."
            mutants.append(
                _mutant(
                    f"{label}-drop-{name}",
                    f"PRECEDENCE[{release!r}] = {tuple(rows)!r}",
                    f"{name} is no rule of the release",
                    argument,
                )
            )
    return mutants


def _swap_argument(upper: str, lower: str) -> str | None:
    """Return why the order of two neighbours cannot be seen, or None where it can."""
    if lower == _UNFIRED:
        return "The last row is told only when nothing fired, so it never meets another."
    if (upper, lower) == _FINISH:
        return "A finish is proven or it is not; the two never fire together."
    if (upper, lower) == ("indeterminate_effect", "completed"):
        return "A finish completes only when it succeeded, and then its outcome is not unknown."
    if upper in _COUNTED and lower in _COUNTED and not _charged_together(upper, lower):
        return (
            "A run ends at the step that passes a bound, so both can pass theirs only on one "
            "step, and no row of the table of deltas charges both."
        )
    return None


def _charged_together(upper: str, lower: str) -> bool:
    from loopcore.terminals import USAGE_RULES

    rows = (row for kinds in USAGE_RULES.values() for rule in kinds.values() for row in rule)
    return any(row[_COUNTED[upper]] and row[_COUNTED[lower]] for row in rows)


def _usage_mutants() -> list[Mutant]:
    """Every kind dropped, and every figure of every row flipped between 0 and 1."""
    from loopcore.terminals import USAGE_RULES

    mutants: list[Mutant] = []
    for release, kinds in USAGE_RULES.items():
        label = release.partition("-")[2].partition("/")[0]
        place = f"USAGE_RULES[{release!r}]"
        for kind, rows in kinds.items():
            rest = {name: rule for name, rule in kinds.items() if name != kind}
            lines = f"{place} = {rest!r}"
            mutants.append(_mutant(f"{label}-kind-{kind}", lines, f"there is no kind {kind}"))
            for number, row in enumerate(rows):
                for figure in range(len(row)):
                    flipped = [*row]
                    flipped[figure] = 1 - flipped[figure]
                    changed = [*rows]
                    changed[number] = (flipped[0], flipped[1], flipped[2])
                    lines = f"{place} = { ({**kinds, kind: tuple(changed)})!r}"
                    name = f"{label}-{kind}-{number}-{figure}"
                    reason = f"{kind} may charge {tuple(flipped)} instead of {row}"
                    mutants.append(_mutant(name, lines, reason))
    return mutants


def _bound_mutants() -> list[Mutant]:
    """Every extended bound dropped, and every two neighbours swapped."""
    from loopcore.terminals import EXTENDED_BOUNDS

    mutants: list[Mutant] = []
    for index, name in enumerate(EXTENDED_BOUNDS):
        rest = tuple(bound for bound in EXTENDED_BOUNDS if bound != name)
        lines = f"EXTENDED_BOUNDS = {rest!r}"
        argument = None
        if name == EXTENDED_BOUNDS[-1]:
            argument = (
                "Repeats without a length break the relation of the two, which has the same path; "
                "repeats with a length are told at the length, which stands first."
            )
        mutants.append(
            _mutant(
                f"bound-{name}",
                lines,
                f"the reference release takes {name}",
                argument,
                _BOUND_KILLER,
            )
        )
        if index:
            rows = [*EXTENDED_BOUNDS]
            rows[index - 1], rows[index] = rows[index], rows[index - 1]
            mutants.append(
                _mutant(
                    f"bound-swap-{name}",
                    f"EXTENDED_BOUNDS = {tuple(rows)!r}",
                    f"{name} is tested before the bound above it",
                    killer=_BOUND_KILLER,
                )
            )
    return mutants


def _code_mutants() -> list[Mutant]:
    """Every step code dropped from the table of errors."""
    from loopcore.terminals import STEP_ERRORS

    return [
        _mutant(f"code-{code}", f"del ERROR_CODES[{code!r}]", f"the table lacks {code}")
        for code, _ in STEP_ERRORS
    ]
