"""The proofs of `loopcore verify --prove`: run, written, and told in a line each.

They are about loopcore's own evaluator, whose source they read; another target can only be sampled.

Source: spec verification, section 4.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from loopcore.cli import EXIT_INTERRUPTED, EXIT_OK, EXIT_UNKNOWN, EXIT_WANTING
from loopcore.cli.progress import file_progress
from loopcore.errors import UsageError

if TYPE_CHECKING:
    from loopcore.results import VerifyResult
    from loopcore.verification.proofs import ProofEvent, ProofResult

ALL_KINDS = "all"


def chosen_kinds(words: str) -> tuple[str, ...]:
    """Return the kinds of proof that `--prove` names; raise UsageError for one there is not."""
    from loopcore.verification.proofs import KINDS

    if words == ALL_KINDS:
        return KINDS
    kinds = tuple(word.strip() for word in words.split(","))
    for kind in kinds:
        if kind not in KINDS:
            raise UsageError(f"there is no kind {kind!r} of proof; there are {', '.join(KINDS)}")
    return kinds


def prove(kinds: Sequence[str], folder: Path, jobs: int) -> ProofResult:
    """Return the verdicts of the proofs, written to FOLDER/proofs.json."""
    from loopcore.results import write_result
    from loopcore.verification.proofs import TheoremFinished, run_proofs

    with file_progress("proving") as on_theorem:

        def show(event: ProofEvent) -> None:
            if on_theorem is not None and isinstance(event, TheoremFinished):
                on_theorem(event.done, event.total)

        result = run_proofs(kinds, show, jobs)
    write_result(folder / "proofs.json", result)
    return result


def supported(result: VerifyResult, proofs: ProofResult) -> VerifyResult:
    """Return the verdicts with what the proofs add to how each property is supported."""
    import msgspec

    from loopcore.verification.proofs import supports

    more = supports(proofs)
    return msgspec.structs.replace(
        result,
        properties=tuple(
            msgspec.structs.replace(each, support="; ".join([each.support, *more.get(each.id, ())]))
            for each in result.properties
        ),
    )


def lines(proofs: ProofResult) -> list[str]:
    """Return a line for every theorem, with the bound that it holds within."""
    shown: list[str] = []
    for each in proofs.theorems:
        shown.append(
            f"{each.verdict:<8} {each.id:<26} {each.count:>9,} {each.unit:<12} "
            f"{each.seconds:>6.1f} s  {', '.join(each.properties)}: {each.bound}"
        )
        why = each.reason or each.finding
        shown += [f"         {why}"] if why else []
    counts = [
        f"{sum(each.verdict == verdict for each in proofs.theorems)} {verdict}"
        for verdict in ("proved", "refuted", "unknown")
    ]
    return [*shown, f"theorems: {', '.join(counts)}"]


def exit_status(proofs: ProofResult) -> int:
    """Return 1 where a theorem is refuted, 3 where one is unknown, 130 after an interruption."""
    if proofs.interrupted:
        return EXIT_INTERRUPTED
    verdicts = {each.verdict for each in proofs.theorems}
    if "refuted" in verdicts:
        return EXIT_WANTING
    return EXIT_UNKNOWN if "unknown" in verdicts else EXIT_OK
