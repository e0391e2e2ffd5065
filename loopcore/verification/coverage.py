"""What generated cases reached: terminals, error codes, pairs, boundaries, counted over a run.

Theory of operation: a check labels what a case witnessed. A label belongs to the first kind whose
test it passes; labels are counted over all properties, and a goal that was never witnessed stands
with 0.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable

from loopcore.terminals import ERROR_CODES, PRECEDENCE
from loopcore.testing.examining import Outcome

_TERMINALS = frozenset(str(name) for table in PRECEDENCE.values() for name in table)


def _name(label: str) -> str:
    """Return a label without the release or the kind before it."""
    return label.rpartition(":")[2]


# A pair is written with its winner first; a boundary tells a field and a distance.
KINDS: tuple[tuple[str, Callable[[str], bool]], ...] = (
    ("pair", lambda label: ">" in label),
    ("terminal", lambda label: _name(label) in _TERMINALS),
    ("error code", lambda label: _name(label) in ERROR_CODES or _name(label) == "unreadable"),
    ("boundary", lambda label: True),
)


def coverage(outcomes: Iterable[Outcome]) -> dict[str, dict[str, int]]:
    """Return for each kind of label how often each was witnessed."""
    counted: dict[str, dict[str, int]] = {}
    for outcome in outcomes:
        for label, times in (*outcome.labels.items(), *((name, 0) for name in outcome.missing)):
            kind = next(name for name, belongs in KINDS if belongs(label))
            labels = counted.setdefault(kind, {})
            labels[label] = labels.get(label, 0) + times
    return {kind: dict(sorted(labels.items())) for kind, labels in sorted(counted.items())}
