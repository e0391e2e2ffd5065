"""Claim: the target holds every property of the evaluator catalogue.

The target is the one that the plug-in's options name, and the built-in evaluator without them:

    pytest --pyargs loopcore.properties.loop --loopcore-target package.module:object

Each test is one property; `properties/README.md` says what each means and why it matters.
"""

from collections.abc import Callable

from loopcore.testing import parametrize_checks


@parametrize_checks()
def test_the_target_holds(check: Callable[[], None]) -> None:
    check()
