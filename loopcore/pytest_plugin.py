"""The pytest plug-in: options that name the target of the shipped checks.

Theory of operation: this loads in every pytest of an environment, so it imports nothing until one
of its options is given. Then the target is opened before collection, a header line names it, and a
run that collected none of our tests fails: a forgotten argument must not look like a pass.

Source: design, section Packaging; spec verification, section 1.
"""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING, cast

if TYPE_CHECKING:
    from collections.abc import Mapping

    import pytest

    from loopcore.testing.pytest_door import BoundCheck

_DOOR = "loopcore.testing.pytest_door"
# Each option with its metavariable and help; the name without dashes is its destination.
OPTIONS: tuple[tuple[str, str, str], ...] = (
    ("--loopcore-target", "MODULE:OBJECT", "the Python target that the checks are held to"),
    ("--loopcore-command", "COMMAND", "a target in any language, by its command line"),
    ("--loopcore-profile", "NAME", "quick (default), default or thorough"),
    ("--loopcore-seed", "N", "seed of every draw (default: 0)"),
    ("--loopcore-kind", "KIND", "what the target is: evaluator (default) or controller"),
)
# What is meant where no target is named.
_OWN = {"evaluator": "loopcore reference evaluator", "controller": "loopcore level E"}


def pytest_addoption(parser: pytest.Parser) -> None:
    """Add the options, in a group of their own."""
    group = parser.getgroup("loopcore", "loopcore: invariants of agent loops")
    for option, metavar, text in OPTIONS:
        group.addoption(option, metavar=metavar, default=None, help=text)


def pytest_configure(config: pytest.Config) -> None:
    """Open the target that the options name; an argument that is wrong ends the run at once."""
    # The shipped checks of controllers bear this mark, whatever a user's own settings know.
    config.addinivalue_line("markers", "slow: takes half a minute or more")
    if not _given(config):
        return
    import pytest

    from loopcore.errors import UsageError
    from loopcore.testing.pytest_door import Options, use_options

    name, command, profile, seed, kind = (_value(config, option) for option, _, _ in OPTIONS)
    if seed is not None and not (seed.isascii() and seed.isdigit()):
        raise pytest.UsageError(f"--loopcore-seed takes an integer from 0, not {seed!r}")
    try:
        use_options(
            Options(
                name=name,
                command=command,
                profile=profile or "quick",
                seed=int(seed or 0),
                kind=kind or "evaluator",
            )
        )
    except UsageError as error:
        raise pytest.UsageError(f"loopcore: {error}") from None


def pytest_report_header(config: pytest.Config) -> str | None:
    """Return a line that names target, kind and profile, where an option was given."""
    if not _given(config):
        return None
    name, command, profile, seed, kind = (_value(config, option) for option, _, _ in OPTIONS)
    kind = kind or "evaluator"
    target = command or name or _OWN[kind]
    return f"loopcore: target {target}, kind {kind}, profile {profile or 'quick'}, seed {seed or 0}"


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Leave out the checks of another kind than the target that the options name."""
    if not _given(config):
        return
    others = [item for item in items if _is_ours(item) and not _is_meant(item)]
    if others:
        items[:] = [item for item in items if item not in others]
        config.hook.pytest_deselected(items=others)


def pytest_collection_finish(session: pytest.Session) -> None:
    """Fail a run that was given a target and has no test that would use one."""
    config = session.config
    if not _given(config) or config.pluginmanager.hasplugin("dsession"):
        return  # The controller of pytest-xdist collects nothing; its workers look for themselves.
    if not any(_is_ours(item) for item in session.items):
        import pytest

        raise pytest.UsageError(
            "loopcore: options were given, but no test of loopcore's checks was collected"
        )


def pytest_unconfigure() -> None:
    """End the processes of the targets, where any were opened."""
    door = sys.modules.get(_DOOR)
    if door is not None:
        door.close_targets()


def _given(config: pytest.Config) -> bool:
    return any(_value(config, option) is not None for option, _, _ in OPTIONS)


def _value(config: pytest.Config, option: str) -> str | None:
    value: object = config.getoption(option)
    return value if isinstance(value, str) else None


def _is_ours(item: pytest.Item) -> bool:
    """Return whether a test is one of the checks, by what it is parametrised with."""
    return bool(_checks(item))


def _is_meant(item: pytest.Item) -> bool:
    """Return whether a check can follow the options, by the kind of their target."""
    return all(check.is_meant() for check in _checks(item))


def _checks(item: pytest.Item) -> list[BoundCheck]:
    parameters: Mapping[str, object] = getattr(getattr(item, "callspec", None), "params", {})
    # By name, since the module is imported only where an option is given.
    ours = [value for value in parameters.values() if type(value).__module__ == _DOOR]
    return cast("list[BoundCheck]", ours)
