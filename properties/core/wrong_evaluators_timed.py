"""How long the quick profile takes on each wrong evaluator, and which properties it breaks.

    python -m properties.core.wrong_evaluators_timed

Each gets the whole run that `loopcore verify --profile quick` makes, not the fitting property
alone; the exit status is 1 when that property was not among those broken.
"""

import statistics
import sys
import time

from loopcore.testing.checks import CATALOGUE
from loopcore.testing.profiles import PROFILES
from loopcore.verification.engine import run
from properties.core.wrong_evaluators import wrong_evaluators


def main() -> int:
    """Write a line for each wrong evaluator, then the median and the worst; return the status."""
    spent: list[float] = []
    missed: list[str] = []
    for wrong in wrong_evaluators():
        began = time.perf_counter()
        result = run(wrong, CATALOGUE, PROFILES["quick"], kind="evaluator", seed=0, jobs=1).result
        spent.append(time.perf_counter() - began)
        broken = [each.id for each in result.properties if each.verdict == "broken"]
        if wrong.killer not in broken:
            missed.append(wrong.name)
        ids = ", ".join(broken)
        sys.stdout.write(f"{spent[-1]:6.1f} s  {wrong.name}: {wrong.killer}, of {ids} broken\n")
        sys.stdout.flush()
    sys.stdout.write(
        f"{len(spent)} wrong evaluators, a whole quick run each, in one process:"
        f" median {statistics.median(spent):.1f} s, worst {max(spent):.1f} s;"
        f" not found by the fitting property: {', '.join(missed) or 'none'}\n"
    )
    return 1 if missed else 0


if __name__ == "__main__":
    sys.exit(main())
