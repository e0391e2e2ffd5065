"""Proofs beyond sampling that loopcore's evaluator does what the specification says.

Theory of operation: four kinds, each with a bound that its results state in words. `small_scope`
runs every short trace over a small alphabet; `finite` runs every case of what is finite; `symbolic`
translates the evaluator's own source and asks z3 about all integers; `concolic` has CrossHair take
every path of the real code. All compare with a second statement of the specification, and none says
*proved* about a source that it does not understand.

`python -m loopcore.verification.proofs` runs them all.

Source: spec verification, section 4.
"""

from loopcore.verification.proofs.results import ProofResult, TheoremResult
from loopcore.verification.proofs.running import (
    KINDS,
    ProofEvent,
    ProofProgress,
    TheoremFinished,
    run_proofs,
    supports,
)

__all__ = [
    "KINDS",
    "ProofEvent",
    "ProofProgress",
    "ProofResult",
    "TheoremFinished",
    "TheoremResult",
    "run_proofs",
    "supports",
]
