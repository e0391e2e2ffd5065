"""What happened in a simulated run, move by move; kept only where somebody wants to read it.

Theory of operation: a note is a moment and a sentence made when it is kept. Keeping notes draws
nothing and changes nothing, so a replay with notes is the run without them.
"""

from __future__ import annotations

from collections.abc import Callable


class Broken(AssertionError):
    """A rule did not hold; `rule` is its id in the catalogue."""

    def __init__(self, rule: str, reason: str) -> None:
        super().__init__(f"{rule}: {reason}")
        self.rule = rule
        self.reason = reason


class Tape:
    """The notes of one run."""

    def __init__(self, *, keeps: bool) -> None:
        self.keeps = keeps
        self.lines: list[str] = []

    def note(self, at_ms: int, sentence: Callable[[], str]) -> None:
        """Keep a sentence, if anything is kept."""
        if self.keeps:
            self.lines.append(f"{at_ms} {sentence()}")
