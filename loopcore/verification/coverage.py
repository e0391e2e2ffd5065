"""What generated cases reached: terminals, error codes, pairs, boundaries, counted over a run.

Theory of operation: a check labels what a case witnessed with a word, a colon and a name. The words
of the table below are the kinds that many properties share; they are counted over all properties,
and a goal that was never witnessed stands with 0. Other labels stay with their property.
"""

from __future__ import annotations

from collections.abc import Iterable

from loopcore.testing.building import SHORT_NAMES
from loopcore.testing.examining import Outcome

# The word before the colon, and the kind that it stands for. A pair's word is its release.
KINDS: dict[str, str] = {
    "terminal": "terminal",
    "code": "error code",
    "defect": "defect",
    "boundary": "boundary",
    **dict.fromkeys(SHORT_NAMES.values(), "pair"),
}


def coverage(outcomes: Iterable[Outcome]) -> dict[str, dict[str, int]]:
    """Return for each shared kind of label how often each was witnessed."""
    counted: dict[str, dict[str, int]] = {}
    for outcome in outcomes:
        for label, times in (*outcome.labels.items(), *((name, 0) for name in outcome.missing)):
            word, _, name = label.partition(":")
            kind = KINDS.get(word)
            if kind is not None:
                names = counted.setdefault(kind, {})
                name = f"{word} {name}" if kind == "pair" else name
                names[name] = names.get(name, 0) + times
    return {kind: dict(sorted(names.items())) for kind, names in sorted(counted.items())}
