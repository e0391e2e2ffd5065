"""Claim: the target holds every property of the catalogue of controllers.

The target is the one that the plug-in's options name, and our level E without them:

    pytest --pyargs loopcore.properties.loop --loopcore-kind controller \
        --loopcore-target package.module:factory

Each test is one property; `properties/README.md` says what each means and why it matters.
"""

from collections.abc import Callable

import pytest

from loopcore.testing import parametrize_checks


# Every byte that a long run leaves behind is counted, which takes half a minute.
@pytest.mark.slow
@parametrize_checks(kind="controller")
def test_the_target_holds(check: Callable[[], None]) -> None:
    check()
