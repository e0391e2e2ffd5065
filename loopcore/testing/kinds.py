"""The kinds of targets that `verify` takes: how each is opened, and what it is held to.

Theory of operation: the engine knows targets and properties only by a type that they share; a kind
binds the two. The checks of a kind are imported when they are used.

Source: spec verification, section 1.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Generic

from loopcore.testing.contract import EvaluatorTarget, Invariant, T
from loopcore.testing.controller_contract import ControllerTarget
from loopcore.testing.store_contract import StoreTarget
from loopcore.testing.targets import TargetSpec, open_target


@dataclass(frozen=True, slots=True, kw_only=True)
class Kind(Generic[T]):
    """One kind of targets.

    Fields:
        name: as `--kind` takes it; catalogue: its properties, in order.
        open: returns the target of a specification, or raises UsageError.
    """

    name: str
    catalogue: Callable[[], tuple[Invariant[T], ...]]
    open: Callable[[TargetSpec], T]


def _evaluator_catalogue() -> tuple[Invariant[EvaluatorTarget], ...]:
    from loopcore.testing.checks import CATALOGUE

    return CATALOGUE


def _controller_catalogue() -> tuple[Invariant[ControllerTarget], ...]:
    from loopcore.testing.checks_controller import CONTROLLER_CATALOGUE

    return CONTROLLER_CATALOGUE


def _open_controller(spec: TargetSpec) -> ControllerTarget:
    from loopcore.testing.controller_targets import open_controller

    return open_controller(spec)


def _store_catalogue() -> tuple[Invariant[StoreTarget], ...]:
    from loopcore.testing.checks_store import STORE_CATALOGUE

    return STORE_CATALOGUE


def _open_store(spec: TargetSpec) -> StoreTarget:
    from loopcore.testing.store_targets import open_store

    return open_store(spec)


EVALUATORS: Kind[EvaluatorTarget] = Kind(
    name="evaluator", catalogue=_evaluator_catalogue, open=open_target
)
CONTROLLERS: Kind[ControllerTarget] = Kind(
    name="controller", catalogue=_controller_catalogue, open=_open_controller
)
STORES: Kind[StoreTarget] = Kind(name="store", catalogue=_store_catalogue, open=_open_store)
