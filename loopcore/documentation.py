"""The reference tables of README.md, made from the tables that the evaluator really uses.

    python -m loopcore.documentation README.md      rewrites the generated parts in place

A generated part stands between `<!-- generated: NAME -->` and `<!-- end of NAME -->`; a test holds
README.md to what this module says.
"""

from __future__ import annotations

import re
import sys
from collections.abc import Callable, Sequence
from pathlib import Path

from loopcore.defects import POLICY_RELATIONS
from loopcore.errors import UsageError
from loopcore.files import write_whole
from loopcore.models import Release
from loopcore.terminals import (
    DOCUMENT_ERRORS,
    EXTENDED,
    PRECEDENCE,
    REFERENCE,
    STEP_ERRORS,
    TERMINALS,
    USAGE_RULES,
)

_PART = re.compile(r"(<!-- generated: ([a-z-]+) -->\n).*?(<!-- end of \2 -->)", re.DOTALL)


def _table(header: tuple[str, ...], rows: Sequence[tuple[str, ...]]) -> str:
    lines = [header, ("---",) * len(header), *rows]
    return "\n".join(f"| {' | '.join(line)} |" for line in lines)


def precedence_table() -> str:
    """Return the order of terminals of both releases, side by side by place."""

    def place(release: Release, terminal: str) -> str:
        # The two outcomes of finish validation share one place: they never fire together.
        names = [name for name in PRECEDENCE[release] if name != "invalid_completion"]
        shared = "completed" if terminal == "invalid_completion" else terminal
        return next((str(index) for index, name in enumerate(names, 1) if name == shared), "—")

    rows = [
        (f"`{terminal}`", place(REFERENCE, terminal), place(EXTENDED, terminal))
        for terminal in PRECEDENCE[EXTENDED]
    ]
    return _table(("terminal", f"place in `{REFERENCE}`", f"place in `{EXTENDED}`"), rows)


def terminals_table() -> str:
    """Return class, next owner and resumability of every terminal."""
    rows = [
        (
            f"`{fact.terminal}`",
            fact.terminal_class,
            fact.next_owner,
            fact.resumable.replace("_", " "),
        )
        for fact in TERMINALS
    ]
    return _table(("terminal", "class", "next owner", "resumable under a new policy"), rows)


def usage_table() -> str:
    """Return the deltas that each kind of action may charge."""
    rows = [
        (
            f"`{kind}`",
            " or ".join(", ".join(map(str, deltas)) for deltas in allowed),
            "both" if kind in USAGE_RULES[REFERENCE] else f"`{EXTENDED}`",
        )
        for kind, allowed in USAGE_RULES[EXTENDED].items()
    ]
    return _table(("action kind", "model calls, tool calls, repairs", "releases"), rows)


def errors_table() -> str:
    """Return every error code in the order in which it is looked for."""
    rows = [(f"`{code}`", condition) for code, condition in (*DOCUMENT_ERRORS, *STEP_ERRORS)]
    return _table(("code", "condition"), rows)


def relations_table() -> str:
    """Return the relations between fields of a policy, in the order in which they are tested."""
    rows = [(f"`$.policy.{field}`", message) for field, message, _ in POLICY_RELATIONS]
    return _table(("path of `invalid_policy`", "what must hold"), rows)


PARTS: dict[str, Callable[[], str]] = {
    "precedence": precedence_table,
    "terminals": terminals_table,
    "usage": usage_table,
    "errors": errors_table,
    "relations": relations_table,
}


def regenerate(text: str) -> str:
    """Return a text with its generated parts made anew; raise UsageError for an unknown part."""

    def part(match: re.Match[str]) -> str:
        name = match.group(2)
        if name not in PARTS:
            raise UsageError(f"there is no generated part {name!r}")
        return f"{match.group(1)}{PARTS[name]()}\n{match.group(3)}"

    return _PART.sub(part, text)


def main() -> None:
    """Rewrite the generated parts of the files named as arguments."""
    for name in sys.argv[1:]:
        path = Path(name)
        write_whole(path, regenerate(path.read_text(encoding="utf-8")).encode())


if __name__ == "__main__":
    main()
