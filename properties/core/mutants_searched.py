"""Whether the default profile finds each hand-written mutant by a search of its own.

    python -m properties.core.mutants_searched

`loopcore mutate` judges mutants on saved cases. Here the property that a mutant names searches as
in `loopcore verify --profile default`, from nothing, until it finds the mutant; the exit status is
1 when one is not found. Of one that names totality, which answers for what no property can read,
all of them search in their order. Mutants that name vectors, receipt cases or doors, and those that
crash the check of a receipt, are not reachable through an evaluator's or a controller's protocol,
and are counted apart.
"""

import statistics
import sys
import time

from loopcore.mutation.control_judging import CONTROL_PROPERTIES
from loopcore.mutation.implementation import hunt
from loopcore.mutation.judging import PROPERTIES
from loopcore.mutation.mutants import TOTALITY, load_control_mutants, load_mutants
from loopcore.mutation.nursery import Nursery

# A bound for what hangs; a property that finds nothing may need minutes for each controller.
SECONDS_MAX = 3600


def main() -> int:
    """Write what was not found, and how long the others took; return the exit status."""
    spent: list[float] = []
    missed = apart = 0
    mutants = [each for each in (*load_mutants(), *load_control_mutants()) if not each.equivalent]
    with Nursery() as nursery:
        for mutant in mutants:
            killer = mutant.killer or ""
            searched = killer in PROPERTIES or killer in CONTROL_PROPERTIES
            if not searched or (mutant.module, killer) == ("receipts", TOTALITY):
                apart += 1
                continue
            began = time.perf_counter()
            judges = PROPERTIES if killer == TOTALITY else [killer]
            columns = hunt(mutant, list(judges), nursery, profile="default", seconds=SECONDS_MAX)
            if any(column["killed_by"] for column in columns):
                spent.append(time.perf_counter() - began)
            else:
                missed += 1
                sys.stdout.write(f"not found: {mutant.id} ({killer})\n")
                sys.stdout.flush()
    sys.stdout.write(
        f"{len(spent)} of {len(spent) + missed} hand-written mutants found by the property"
        f" that they name, default profile: median {statistics.median(spent):.2f} s,"
        f" worst {max(spent):.1f} s; {apart} out of its reach\n"
    )
    return 1 if missed else 0


if __name__ == "__main__":
    sys.exit(main())
