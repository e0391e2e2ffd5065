"""What generated cases reached: terminals, error codes, pairs, boundaries, counted over a run.

Theory of operation: a label that a check gives is `kind:name`; each is counted over all properties,
and a goal that was never witnessed stands with 0.
"""

from __future__ import annotations

from collections.abc import Iterable

from loopcore.testing.examining import Outcome

_SEPARATOR = ":"


def coverage(outcomes: Iterable[Outcome]) -> dict[str, dict[str, int]]:
    """Return for each kind of label how often each name was witnessed."""
    counted: dict[str, dict[str, int]] = {}
    for outcome in outcomes:
        for label, times in (*outcome.labels.items(), *((name, 0) for name in outcome.missing)):
            kind, separator, name = label.partition(_SEPARATOR)
            if separator:
                names = counted.setdefault(kind, {})
                names[name] = names.get(name, 0) + times
    return {kind: dict(sorted(names.items())) for kind, names in sorted(counted.items())}
