"""Whether hand-written mutants end as their data say."""

from collections.abc import Sequence

from loopcore.mutation.implementation import judge_mutant
from loopcore.mutation.mutants import TOTALITY, Mutant
from loopcore.mutation.nursery import Nursery


def check_each_ends_as_it_says(mutants: Sequence[Mutant], judges: Sequence[str]) -> None:
    """Assert that each dies by its killer, and each equivalent one by none of the judges.

    A killer is asked alone, but for totality, which answers for what another judge cannot read.
    """
    with Nursery() as nursery:
        for mutant in mutants:
            killer = mutant.killer or ""
            alone = mutant.equivalent is None and killer != TOTALITY
            result = judge_mutant(mutant, [killer] if alone else judges, nursery=nursery)
            if mutant.equivalent is not None:
                assert result.verdict == "equivalent", result
            else:
                assert result.verdict == "killed", result
                assert killer in result.killed_by, result
