"""Receipts that replay: compare a stored receipt with the one that its trace gives today.

Source: spec evaluator, section 5.
"""

from __future__ import annotations

from collections.abc import Sequence

import msgspec

from loopcore.evaluator import evaluate, receipt_digest
from loopcore.models import Policy, Receipt, Step, Usage


class Comparison(msgspec.Struct, frozen=True, kw_only=True):
    """How a stored receipt stands to the one that a replay gives.

    Fields:
        differing: names of the fields that differ, in table order; empty when it verifies.
        self_consistent: the receipt's own digest matches its content, so that a difference means
            that it belongs to another trace rather than that it was damaged.
    """

    differing: tuple[str, ...]
    self_consistent: bool


def verify_receipt(policy: Policy, steps: Sequence[Step], receipt: Receipt) -> Comparison:
    """Replay the trace and return how the receipt differs from the replayed one.

    Raises InputError when the trace itself is not well formed.
    """
    replayed = evaluate(policy, steps)
    return compare_receipts(replayed, receipt)


def compare_receipts(replayed: Receipt, receipt: Receipt) -> Comparison:
    """Return the fields in which two receipts differ, those of `usage` by their full names."""
    differing: list[str] = []
    for name in Receipt.__struct_fields__:
        expected, found = getattr(replayed, name), getattr(receipt, name)
        if expected == found:
            continue
        if isinstance(expected, Usage):
            parts = Usage.__struct_fields__
            differing += [
                f"{name}.{part}"
                for part in parts
                if getattr(expected, part) != getattr(found, part)
            ]
        else:
            differing.append(name)
    consistent = receipt_digest(receipt) == receipt.receipt_sha256
    return Comparison(differing=tuple(differing), self_consistent=consistent)
