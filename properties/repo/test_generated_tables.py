"""Claim: the reference tables of README.md are those that the evaluator really uses."""

from pathlib import Path

import pytest

from loopcore.documentation import PARTS, regenerate
from loopcore.errors import UsageError


def test_readme_holds_every_generated_table_as_it_is_today(root: Path) -> None:
    text = (root / "README.md").read_text(encoding="utf-8")
    for name in PARTS:
        assert f"<!-- generated: {name} -->" in text
    # Made anew by `python -m loopcore.documentation README.md`.
    assert regenerate(text) == text


def test_an_unknown_part_is_refused() -> None:
    with pytest.raises(UsageError, match="nonsense"):
        regenerate("<!-- generated: nonsense -->\n<!-- end of nonsense -->")
