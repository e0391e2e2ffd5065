"""What was proved beyond sampling, recorded for the page of properties.

    loopcore verify --prove --out OUT
    python -m loopcore.verification.recorded OUT/verify/proofs.json

writes `properties/proofs.json`: each theorem with its kind, its bound and its count, without the
time that it took. Nothing that is not proved is recorded, and no run that was cut short.
"""

from __future__ import annotations

import sys
from pathlib import Path

import msgspec

from loopcore.errors import InputError, UsageError
from loopcore.files import write_whole
from loopcore.results import read_result
from loopcore.testing.catalogue import PROOFS, Recorded
from loopcore.verification.proofs.results import ProofResult, TheoremResult


def recorded(result: ProofResult) -> tuple[Recorded, ...]:
    """Return the theorems as they are recorded; raise InputError where one is not proved."""
    open_ones = [each.id for each in result.theorems if each.verdict != "proved"]
    if open_ones or result.interrupted:
        raise InputError("malformed", f"not proved: {', '.join(open_ones) or 'interrupted'}")
    return tuple(_recorded(each) for each in result.theorems)


def _recorded(theorem: TheoremResult) -> Recorded:
    return Recorded(
        id=theorem.id,
        properties=theorem.properties,
        kind=theorem.kind,
        count=theorem.count,
        unit=theorem.unit,
        bound=theorem.bound,
    )


def main(words: list[str]) -> None:
    """Write the record of the result file that is named."""
    if len(words) != 1:
        raise UsageError("name the proofs.json of a run of verify --prove")
    theorems = recorded(read_result(Path(words[0]), ProofResult))
    lines = b",\n".join(msgspec.json.encode(each) for each in theorems)
    write_whole(PROOFS, b"[\n" + lines + b"\n]\n")


if __name__ == "__main__":
    main(sys.argv[1:])
