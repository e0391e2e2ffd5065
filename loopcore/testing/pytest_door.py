"""The checks inside a user's own pytest file, as plain functions that know nothing of pytest.

    from loopcore.testing import parametrize_checks

    @parametrize_checks("package.module:object", {"E08": "reused evidence counts until version 2"})
    def test_my_evaluator(check):
        check()

    @parametrize_checks("package.module:factory", kind="controller")
    def test_my_controller(check):
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
from typing import TYPE_CHECKING, cast

from loopcore.errors import LoopcoreError, UsageError

if TYPE_CHECKING:
    import pytest

    from loopcore.testing.contract import EvaluatorTarget, Invariant, T, Target
    from loopcore.testing.controller_contract import ControllerTarget
    from loopcore.testing.examining import Outcome
    from loopcore.testing.kinds import Kind
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
    kind: str = "evaluator"


@dataclass(frozen=True, slots=True, kw_only=True)
class BoundCheck:
    """One property of one target, ready to be called; without a target it follows the options."""

    property_id: str
    kind: str
    target: str | None
    options: Options

    def __call__(self) -> None:
        """Hold the target to the property; raise as `check` does."""
        check(self.property_id, self.target, self.options.profile, self.options.seed)

    def is_meant(self) -> bool:
        """Return whether the options name no target of another kind for it to follow."""
        named = self.options.name is not None or self.options.command is not None
        return self.target is not None or not named or self.options.kind == self.kind


_options = [Options()]
_targets: dict[tuple[str, str | None, str | None], Target] = {}


def use_options(options: Options) -> Target:
    """Let every later check without a target follow the options; return their target, opened.

    Raises UsageError when the kind, the target or the profile cannot be had.
    """
    from loopcore.testing.profiles import find_profile

    find_profile(options.profile)
    if options.kind == "controller":
        target: Target = _opened(_controllers(), options)
    else:
        _refuse_kind(options.kind)
        target = _opened(_evaluators(), options)
    _options[0] = options
    return target


def check(
    property_id: str,
    target: EvaluatorTarget | ControllerTarget | str | None = None,
    profile: str | None = None,
    seed: int | None = None,
) -> None:
    """Hold a target to one property; return only when it is held.

    Arguments:
        property_id: such as `E06` of evaluators or `C03` of controllers.
        target: an opened target of that kind, its name as on the command line, or None for what
            the options name: `package.module:object`, `package.module:factory`, a level.
        profile, seed: by default those of the options: quick and 0.

    Raises CheckFailed, CheckUnknown, `unittest.SkipTest` when not applicable, and UsageError.
    """
    options = _options[0]
    if profile is not None:
        options = replace(options, profile=profile)
    if seed is not None:
        options = replace(options, seed=seed)
    for kind in (_evaluators().name, _controllers().name):
        if property_id in _names(kind):
            if isinstance(target, str):
                options = replace(options, name=target, command=None, kind=kind)
            elif target is None and options.kind != kind:
                if options.name is not None or options.command is not None:
                    raise unittest.SkipTest(f"{property_id} judges no {options.kind}")
                options = replace(options, kind=kind)
            opened = None if isinstance(target, str) else target
            if kind == "controller":
                _check(
                    _controllers(), property_id, cast("ControllerTarget | None", opened), options
                )
            else:
                evaluator = cast("EvaluatorTarget | None", opened)
                _check(_evaluators(), property_id, evaluator, options)
            return
    raise UsageError(f"there is no property {property_id!r}")


def parametrize_checks(
    target: str | None = None,
    expected_failures: Mapping[str, str] | None = None,
    *,
    kind: str = "evaluator",
) -> pytest.MarkDecorator:
    """Return a decorator that runs a test once for every property, as its argument `check`.

    Arguments:
        target: `package.module:object`, for a controller `package.module:factory` or a level; or
            None for what the plug-in's options name.
        expected_failures: for each property that is known to be broken, the reason.
        kind: evaluator or controller.

    Raises UsageError for an expected failure that names no property of the kind.
    """
    import pytest

    _refuse_kind(kind)
    expected = dict(expected_failures or {})
    names = _names(kind)
    for name in expected:
        if name not in names:
            raise UsageError(
                f"an expected failure names {name!r}, and there is no such property of {kind}s"
            )
    return pytest.mark.parametrize(
        "check",
        [
            pytest.param(
                BoundCheck(property_id=name, kind=kind, target=target, options=_options[0]),
                id=f"{name}-{words}",
                marks=[pytest.mark.xfail(reason=expected[name], strict=True, raises=CheckFailed)]
                if name in expected
                else [],
            )
            for name, words in names.items()
        ],
    )


def close_targets() -> None:
    """End the processes of all targets that were opened by name."""
    while _targets:
        _targets.popitem()[1].close()


atexit.register(close_targets)


def _evaluators() -> Kind[EvaluatorTarget]:
    from loopcore.testing.kinds import EVALUATORS

    return EVALUATORS


def _controllers() -> Kind[ControllerTarget]:
    from loopcore.testing.kinds import CONTROLLERS

    return CONTROLLERS


def _refuse_kind(kind: str) -> None:
    if kind not in ("evaluator", "controller"):
        raise UsageError(f"there is no kind {kind!r} of target; checks take evaluator, controller")


def _names(kind: str) -> dict[str, str]:
    """Return the ids of the properties of a kind, each with its short name."""
    if kind == "controller":
        return {each.id: each.name for each in _controllers().catalogue()}
    return {each.id: each.name for each in _evaluators().catalogue()}


def _opened(kind: Kind[T], options: Options) -> T:
    from loopcore.testing.targets import TargetSpec

    key = (kind.name, options.name, options.command)
    if key not in _targets:
        spec = TargetSpec(name=options.name, command=options.command, kind=kind.name)
        _targets[key] = kind.open(spec)
    return cast("T", _targets[key])


def _check(kind: Kind[T], property_id: str, target: T | None, options: Options) -> None:
    from loopcore.testing.examining import examine
    from loopcore.testing.profiles import find_profile

    profile = find_profile(options.profile)
    if target is None:
        target = _opened(kind, options)
    examined: Invariant[T] = {each.id: each for each in kind.catalogue()}[property_id]
    outcome = examine(examined, target, profile, options.seed)
    if outcome.verdict == "held":
        return
    told = f"{property_id} {examined.name} is {outcome.verdict}: {outcome.reason}"
    if outcome.verdict == "not applicable":
        raise unittest.SkipTest(told)
    text = f"{told}\n{examined.statement}\n{_reproduction(property_id, target, options)}"
    if outcome.verdict == "broken":
        raise CheckFailed(f"{text}{_case(outcome)}")
    raise CheckUnknown(text)


def _reproduction(property_id: str, target: Target, options: Options) -> str:
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
