"""Run all proofs or some kinds of them: events out, one typed result back.

Theory of operation: a proof is a call that gives one theorem's verdict; they run one after another,
the quick ones first. Only the small scope is spread over processes. An interruption keeps the
verdicts so far.

Source: spec verification, section 4.
"""

from __future__ import annotations

import importlib.util
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Literal, TypeAlias, get_args

from loopcore import __version__
from loopcore.errors import EnvironmentFault, UsageError
from loopcore.testing.naive_wire import RELEASES
from loopcore.verification.proofs.results import ProofResult, TheoremResult
from loopcore.verification.proofs.subject import Subject, present_subject

ProofKind = Literal["symbolic", "finite", "concolic", "small-scope"]
KINDS: tuple[ProofKind, ...] = get_args(ProofKind)
# What has to be installed for a kind of proof.
_NEEDS: dict[str, str] = {"symbolic": "z3", "finite": "z3", "concolic": "crosshair"}

Proof: TypeAlias = "Callable[[], TheoremResult]"


@dataclass(frozen=True, slots=True, kw_only=True)
class ProofProgress:
    """A part of the small scope is done, of a theorem that takes long."""

    theorem: str
    done: int
    total: int


@dataclass(frozen=True, slots=True, kw_only=True)
class TheoremFinished:
    """A theorem has its verdict."""

    theorem: TheoremResult
    done: int
    total: int


ProofEvent: TypeAlias = "ProofProgress | TheoremFinished"
OnProofEvent: TypeAlias = "Callable[[ProofEvent], None]"


def run_proofs(
    kinds: Sequence[str] = KINDS,
    on_event: OnProofEvent = lambda event: None,
    jobs: int = 1,
    subject: Subject | None = None,
) -> ProofResult:
    """Return the verdicts of all theorems of some kinds about loopcore's own evaluator.

    Arguments:
        kinds: of `KINDS`; jobs: processes for the small scope, about three minutes on two cores.
        subject: another evaluator's source, such as one with a planted fault.

    Raises UsageError for a kind that there is not, and EnvironmentFault where the extra `prove` is
    not installed.
    """
    for kind in kinds:
        if kind not in KINDS:
            raise UsageError(f"there is no kind {kind!r} of proof; there are {', '.join(KINDS)}")
        needed = _NEEDS.get(kind)
        if needed is not None and importlib.util.find_spec(needed) is None:
            raise EnvironmentFault("proofs need the extra: pip install 'loopcore[prove]'")
    proofs = _proofs(subject or present_subject(), kinds, jobs, on_event)
    theorems: list[TheoremResult] = []
    interrupted = False
    try:
        for proof in proofs:
            theorems.append(proof())
            on_event(TheoremFinished(theorem=theorems[-1], done=len(theorems), total=len(proofs)))
    except KeyboardInterrupt:
        interrupted = True
    return ProofResult(
        loopcore_version=__version__,
        kinds=tuple(kind for kind in KINDS if kind in kinds),
        theorems=tuple(theorems),
        interrupted=interrupted,
    )


def _proofs(
    subject: Subject, kinds: Sequence[str], jobs: int, on_event: OnProofEvent
) -> list[Proof]:
    from loopcore.verification.proofs import concolic, finite, small_scope, symbolic

    def exhaust(release: str) -> TheoremResult:
        def on_part(done: int, total: int) -> None:
            on_event(ProofProgress(theorem=f"small-scope {release}", done=done, total=total))

        return small_scope.exhaust_small_scope(subject, release, jobs=jobs, on_part=on_part)

    made: dict[str, list[Proof]] = {
        "symbolic": list(symbolic.prove(subject)),
        "finite": [
            *(partial(finite.exhaust_winner, subject, release) for release in RELEASES),
            partial(finite.exhaust_cycles, subject),
        ],
        "concolic": list(concolic.compare(subject)),
        "small-scope": [partial(exhaust, release) for release in RELEASES],
    }
    return [proof for kind in KINDS if kind in kinds for proof in made[kind]]


def supports(result: ProofResult) -> dict[str, tuple[str, ...]]:
    """Return for each property what supports it beyond sampling, in words with the bound."""
    found: dict[str, list[str]] = {}
    for theorem in result.theorems:
        if theorem.verdict == "proved":
            how_many = f"{theorem.count:,} {theorem.unit}"
            words = f"{theorem.kind} {theorem.id} ({how_many}: {theorem.bound})"
            for each in theorem.properties:
                found.setdefault(each, []).append(words)
    return {each: tuple(words) for each, words in sorted(found.items())}
