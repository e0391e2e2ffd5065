"""What users need to test a loop: strategies, naive second models, machines, checks and faults.

`parametrize_checks` and `check` are the door for a user's own tests. They are imported when they
are called, so that a child process that hosts a target imports nothing of them.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import pytest

    from loopcore.testing.contract import EvaluatorTarget
    from loopcore.testing.controller_contract import ControllerTarget

__all__ = ["check", "parametrize_checks"]


def parametrize_checks(
    target: str | None = None,
    expected_failures: Mapping[str, str] | None = None,
    *,
    kind: str = "evaluator",
) -> pytest.MarkDecorator:
    """Return a decorator that runs a test once for every property, as its argument `check`.

    See `loopcore.testing.pytest_door.parametrize_checks`.
    """
    from loopcore.testing import pytest_door

    return pytest_door.parametrize_checks(target, expected_failures, kind=kind)


def check(
    property_id: str,
    target: EvaluatorTarget | ControllerTarget | str | None = None,
    profile: str | None = None,
    seed: int | None = None,
) -> None:
    """Hold a target to one property; return only when it is held.

    See `loopcore.testing.pytest_door.check`.
    """
    from loopcore.testing import pytest_door

    pytest_door.check(property_id, target, profile, seed)
