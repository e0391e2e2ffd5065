"""What an importer hands over: a run with a known outcome, or the reason why there is none.

Theory of operation: a `Run` holds two kinds of things apart. Its observations are all that a
controller may see. Outcome, censoring and the oracle's rewards are for the evaluation only and are
never copied into an observation.

Source: spec control, sections 1 and 5.
"""

from __future__ import annotations

from collections.abc import Iterator

import msgspec

from loopcore.control.observations import Observation


class Run(msgspec.Struct, frozen=True, kw_only=True):
    """One recorded run.

    Fields:
        set: name of the set that it belongs to; figures never pool sets.
        run_id: unique within its set. task: the cluster of intervals. trial: from 0.
        success: whether it verified, or None when the record does not tell.
        outcome: the record's own words for how it ended.
        censored: it ended at a cap of its own set, so it is not known to fail beyond it.
        signal: which progress signal its observations carry, in words.
        observations: in order; never empty, and at least one is a call.
        source: the file it came from. cost_known: whether every model call has a recorded cost.
        warnings: what the importer had to decide.
        oracle_rewards: a reward a turn that only an oracle knows; for evaluation only.
    """

    set: str
    format: str
    run_id: str
    task: str
    trial: int
    model: str | None
    success: bool | None
    outcome: str
    censored: bool
    signal: str
    observations: tuple[Observation, ...]
    source: str
    cost_known: bool
    warnings: tuple[str, ...] = ()
    oracle_rewards: tuple[str, ...] | None = None


class Listed(msgspec.Struct, frozen=True, kw_only=True):
    """A run or a file that gives no run, with the reason; it is listed and never dropped.

    `success` is the outcome of a run without an agent call, None for a file.
    """

    source: str
    item: str
    reason: str
    set: str | None = None
    success: bool | None = None


class Problem(msgspec.Struct, frozen=True, kw_only=True):
    """A file that could not be read, with the error's code, place and sentence."""

    source: str
    code: str
    place: str
    message: str


class Loaded(msgspec.Struct, frozen=True, kw_only=True):
    """Everything that a set of paths gave."""

    runs: tuple[Run, ...]
    listed: tuple[Listed, ...]
    problems: tuple[Problem, ...]

    def sets(self) -> Iterator[tuple[str, tuple[Run, ...]]]:
        """Yield each set's name and its runs, by name."""
        for name in sorted({run.set for run in self.runs}):
            yield name, tuple(run for run in self.runs if run.set == name)


def is_call(observation: Observation) -> bool:
    """Return whether the observation dispatched something."""
    return observation.tool is not None or observation.action_fingerprint is not None
