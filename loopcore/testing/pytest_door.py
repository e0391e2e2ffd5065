"""The checks inside a user's own pytest file, as plain functions that know nothing of pytest.

    from loopcore.testing import parametrize_checks

    @parametrize_checks("package.module:object", {"E08": "reused evidence counts until version 2"})
    def test_my_evaluator(check):
        check()

Theory of operation: `check` holds a target to one property, as `loopcore verify` does, and speaks
by exceptions: `CheckFailed` where it is broken, `CheckUnknown` where that cannot be told, and
`unittest.SkipTest`, which every test runner knows, where it is not applicable. A target that is
named is opened once and closed when the interpreter ends, or by `close_targets`.

An expected failure is `{id: reason}` and strict: a check that passes, or fails in another way than
by being broken, is a failure, and an id that names no property is an error.
"""

from __future__ import annotations

import atexit
import json
import unittest
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from loopcore.errors import LoopcoreError, UsageError

if TYPE_CHECKING:
    import pytest

    from loopcore.testing.contract import EvaluatorTarget, Property
    from loopcore.testing.examining import Outcome
    from loopcore.testing.targets import TargetSpec

_CASE_CHARACTERS_MAX = 4000


class CheckFailed(AssertionError):
    """The target breaks the property."""


class CheckUnknown(LoopcoreError):
    """Whether the property holds could not be told, which is not a pass."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Options:
    """What the options of the pytest plug-in say; a check without a target follows them."""

    name: str | None = None
    command: str | None = None
    profile: str = "quick"
    seed: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class BoundCheck:
    """One property of one target, ready to be called."""

    property_id: str
    target: str | None
    options: Options

    def __call__(self) -> None:
        """Hold the target to the property; raise as `check` does."""
        options = self.options
        if self.target is not None:
            options = replace(options, name=self.target, command=None)
        _check(self.property_id, _opened_target(options), options)


_options = [Options()]
_targets: dict[tuple[str | None, str | None], EvaluatorTarget] = {}


def use_options(options: Options) -> EvaluatorTarget:
    """Let every later check without a target follow the options; return their target, opened.

    Raises UsageError when the target or the profile cannot be had.
    """
    from loopcore.testing.profiles import find_profile

    find_profile(options.profile)
    target = _opened_target(options)
    _options[0] = options
    return target


def check(
    property_id: str,
    target: EvaluatorTarget | str | None = None,
    profile: str | None = None,
    seed: int | None = None,
) -> None:
    """Hold a target to one property; return only when it is held.

    Arguments:
        property_id: such as `E06`.
        target: an opened target, `package.module:object`, or None for what the options name.
        profile, seed: by default those of the options: quick and 0.

    Raises CheckFailed, CheckUnknown, `unittest.SkipTest` when not applicable, and UsageError.
    """
    options = _options[0]
    if profile is not None:
        options = replace(options, profile=profile)
    if seed is not None:
        options = replace(options, seed=seed)
    if isinstance(target, str):
        options = replace(options, name=target, command=None)
    if target is None or isinstance(target, str):
        target = _opened_target(options)
    _check(property_id, target, options)


def parametrize_checks(
    target: str | None = None, expected_failures: Mapping[str, str] | None = None
) -> pytest.MarkDecorator:
    """Return a decorator that runs a test once for every property, as its argument `check`.

    Arguments:
        target: `package.module:object`, or None for what the plug-in's options name.
        expected_failures: for each property that is known to be broken, the reason.

    Raises UsageError for an expected failure that names no property.
    """
    import pytest

    expected = dict(expected_failures or {})
    catalogue = _catalogue()
    for name in expected:
        if name not in catalogue:
            raise UsageError(f"an expected failure names {name!r}, and there is no such property")
    return pytest.mark.parametrize(
        "check",
        [
            pytest.param(
                BoundCheck(property_id=name, target=target, options=_options[0]),
                id=f"{name}-{each.name}",
                marks=[pytest.mark.xfail(reason=expected[name], strict=True, raises=CheckFailed)]
                if name in expected
                else [],
            )
            for name, each in catalogue.items()
        ],
    )


def close_targets() -> None:
    """End the processes of all targets that were opened by name."""
    while _targets:
        _targets.popitem()[1].close()


atexit.register(close_targets)


def _catalogue() -> dict[str, Property]:
    from loopcore.testing.checks import CATALOGUE

    return {each.id: each for each in CATALOGUE}


def _opened_target(options: Options) -> EvaluatorTarget:
    from loopcore.testing.targets import load_target

    key = (options.name, options.command)
    if key not in _targets:
        _targets[key] = load_target(*key)
    return _targets[key]


def _check(property_id: str, target: EvaluatorTarget, options: Options) -> None:
    from loopcore.testing.examining import examine
    from loopcore.testing.profiles import find_profile

    examined = _catalogue().get(property_id)
    if examined is None:
        raise UsageError(f"there is no property {property_id!r}")
    outcome = examine(examined, target, find_profile(options.profile), options.seed)
    if outcome.verdict == "held":
        return
    told = f"{property_id} {examined.name} is {outcome.verdict}: {outcome.reason}"
    if outcome.verdict == "not applicable":
        raise unittest.SkipTest(told)
    text = f"{told}\n{examined.statement}\n{_reproduction(property_id, target, options)}"
    if outcome.verdict == "broken":
        raise CheckFailed(f"{text}{_case(outcome)}")
    raise CheckUnknown(text)


def _reproduction(property_id: str, target: EvaluatorTarget, options: Options) -> str:
    """Return the command that comes to the same verdict."""
    spec: TargetSpec | None = getattr(target, "spec", None)
    words = "TARGET" if spec is None else spec.words()
    return (
        f"reproduce: loopcore verify {words}{' ' if words else ''}--only {property_id} "
        f"--profile {options.profile} --seed {options.seed}"
    )


def _case(outcome: Outcome) -> str:
    if outcome.broken is None:
        return ""
    found = outcome.broken
    parts = {"case": found.case, "expected": found.expected, "got": found.got}
    return "".join(
        f"\n{name}: {json.dumps(value, default=repr)[:_CASE_CHARACTERS_MAX]}"
        for name, value in parts.items()
    )
