"""`python -m loopcore.verification.proofs [KIND…]`: run the proofs; one line a theorem.

Exit status 0 all proved, 1 something refuted, 3 something unknown, 2 could not run, 130
interrupted. A refutation is followed by its counterexample as JSON.
"""

from __future__ import annotations

import os
import sys

import msgspec

from loopcore.errors import LoopcoreError
from loopcore.verification.proofs.running import KINDS, ProofEvent, TheoremFinished, run_proofs


def show(event: ProofEvent) -> None:
    """Write a theorem's line on standard output, and its counterexample if it has one."""
    if not isinstance(event, TheoremFinished):
        return
    found = event.theorem
    why = found.reason or found.finding
    lines = [
        f"{found.verdict:8} {found.id:24} {found.count:>9,} {found.unit:12} "
        f"{found.seconds:8.2f} s  {', '.join(found.properties)}"
    ]
    lines += [f"         {why}"] if why else []
    if found.counterexample is not None:
        lines.append(msgspec.json.encode(found.counterexample).decode())
    sys.stdout.write("\n".join(lines) + "\n")
    sys.stdout.flush()


def main(arguments: list[str]) -> int:
    """Run the proofs of the kinds that are named, or all; return the exit status."""
    try:
        result = run_proofs(arguments or KINDS, show, os.cpu_count() or 1)
    except LoopcoreError as error:
        sys.stderr.write(f"{error}\n")
        return 2
    verdicts = {theorem.verdict for theorem in result.theorems}
    if result.interrupted:
        return 130
    return 1 if "refuted" in verdicts else 3 if "unknown" in verdicts else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
