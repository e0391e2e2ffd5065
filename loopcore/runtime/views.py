"""What a planner and a verifier see of a run: bounded, read-only, and no handle on the runner.

Source: spec runtime, sections 1 and 2.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import msgspec

from loopcore.models import Outcome
from loopcore.runtime.amounts import BOUNDS
from loopcore.runtime.payloads import ActionRefused
from loopcore.runtime.state import Action, State


class Result(msgspec.Struct, frozen=True, kw_only=True):
    """What became of one proposal.

    Fields:
        outcome: None where nothing was called. refused: the code of a refusal, `not_called`, or
            None; of_action: the action that already is what was proposed.
    """

    tool: str
    arguments: str = "{}"
    action: str | None = None
    outcome: Outcome | None = None
    output: str = ""
    error_class: str | None = None
    refused: str | None = None
    reason: str = ""
    of_action: str | None = None


def as_result(entry: Action | ActionRefused) -> Result:
    """Return what a planner reads of an action or a refusal."""
    if isinstance(entry, ActionRefused):
        return Result(
            tool=entry.tool, refused=entry.code, reason=entry.reason, of_action=entry.of_action
        )
    reserved, seen, found = entry.reserved, entry.observed, entry.reconciled
    output = "" if seen is None else seen.output
    if found is not None:
        output = found.output or output
    return Result(
        tool=reserved.tool,
        arguments=reserved.arguments,
        action=entry.name,
        outcome="failed" if entry.finish_refused else entry.outcome,
        output=output,
        error_class=None if seen is None else seen.error_class,
        refused="not_called" if entry.status == "dropped" else None,
    )


class History:
    """Results in the order in which they were journalled; converted when they are looked at.

    Arguments:
        entries: a list that only grows. start, stop: the part of it that this is.
    """

    def __init__(self, entries: Sequence[Action | ActionRefused], start: int, stop: int) -> None:
        self._entries = entries
        self._range = range(start, stop)

    def __len__(self) -> int:
        return len(self._range)

    def __getitem__(self, index: int) -> Result:
        return as_result(self._entries[self._range[index]])

    def __iter__(self) -> Iterator[Result]:
        return (as_result(self._entries[place]) for place in self._range)


class View:
    """The run as a planner may know it.

    Fields:
        task: as the envelope has it. state_sha256: of the canonical state.
        history: every result of the run, earlier runs of the same chain included.
        last: the results since the planner was asked before.
    """

    def __init__(self, state: State, since: int) -> None:
        self.run_id = state.run_id
        self.task = state.envelope.task
        self.state_sha256 = state.state_sha256
        self.steps = state.progress.total.steps
        self.findings = tuple(state.findings)
        entries = state.results
        self.history = History(entries, 0, len(entries))
        self.last = History(entries, min(since, len(entries)), len(entries))
        self._charged = state.charged
        self._policy = state.policy

    def remaining(self, member: str) -> int | None:
        """Return how much of one budget is left, None where the policy has no such bound.

        Arguments:
            member: `steps`, `model_calls`, `tool_calls`, `repairs`, `cost_microunits`, …
        """
        for bound in BOUNDS:
            if bound.member == member:
                limit: int | None = getattr(self._policy, bound.field)
                return None if limit is None else max(0, limit - self._charged.value(member))
        raise KeyError(member)
