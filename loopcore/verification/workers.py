"""Properties on several cores: one process a worker, each with a target of its own.

Theory of operation: a worker opens the target from its specification and finds properties in the
catalogue by their ids, so nothing but names and outcomes crosses the border.

Choices: processes, not threads, since drawing cases keeps Python's lock busy.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import as_completed
from functools import partial
from typing import TypeAlias

from loopcore.errors import LoopcoreError
from loopcore.suite import TargetSpec
from loopcore.testing.contract import Invariant, T
from loopcore.testing.examining import Outcome, examine
from loopcore.testing.kinds import CONTROLLERS, EVALUATORS, Kind
from loopcore.testing.profiles import Profile
from loopcore.worker_pool import worker_pool

# What holds the target of this worker to a property by its id.
_Examine: TypeAlias = "Callable[[str, Profile, int], Outcome]"
# The target of this worker is opened once and serves every property that comes here.
_opened: list[_Examine] = []


def workers_can_run(target: T, properties: Sequence[Invariant[T]]) -> bool:
    """Return whether another process can open the target and find the properties by name."""
    spec: object = getattr(target, "spec", None)
    if not isinstance(spec, TargetSpec):
        return False
    kind = CONTROLLERS if spec.kind == CONTROLLERS.name else EVALUATORS
    known = {each.id: each for each in kind.catalogue()}
    return all(known.get(each.id) is each for each in properties)


def examine_in_workers(
    target: T, properties: Sequence[Invariant[T]], profile: Profile, seed: int, jobs: int
) -> Iterator[Outcome]:
    """Yield the outcome of every property as it is ready.

    Raises EnvironmentFault when a worker was killed from outside.
    """
    spec: object = getattr(target, "spec", None)
    if not isinstance(spec, TargetSpec):
        raise ValueError("the target has no specification")
    with worker_pool(min(jobs, len(properties)), partial(_prepare, spec)) as pool:
        waiting = [pool.submit(_examine, each.id, profile, seed) for each in properties]
        for ready in as_completed(waiting):
            yield ready.result()


def _prepare(spec: TargetSpec) -> None:
    """Open this worker's target."""
    if spec.kind == CONTROLLERS.name:
        _opened.append(_examiner(CONTROLLERS, spec))
    else:
        _opened.append(_examiner(EVALUATORS, spec))


def _examiner(kind: Kind[T], spec: TargetSpec) -> _Examine:
    target, catalogue = kind.open(spec), {each.id: each for each in kind.catalogue()}
    return lambda name, profile, seed: examine(catalogue[name], target, profile, seed)


def _examine(property_id: str, profile: Profile, seed: int) -> Outcome:
    try:
        return _opened[0](property_id, profile, seed)
    except LoopcoreError as error:
        return Outcome(property_id=property_id, verdict="unknown", reason=str(error))
