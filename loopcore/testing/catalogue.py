"""The catalogue of properties as a page, `properties/README.md`, made from the properties alone.

    python -m loopcore.testing.catalogue > properties/README.md

A test holds that the page in the repository is the one made here.
"""

from __future__ import annotations

import sys

from loopcore.testing.checks import CATALOGUE
from loopcore.testing.checks_controller import CONTROLLER_CATALOGUE
from loopcore.testing.contract import Invariant, T
from loopcore.testing.controller_contract import INPUTS, ControllerProperty
from loopcore.testing.controller_targets import open_controller
from loopcore.testing.profiles import PROFILES
from loopcore.testing.targets import TargetSpec, load_target

_OPENING = """\
# Properties

Each property below is one invariant of an evaluator (E) or of a controller (C), and one file in
`loopcore/testing/checks/` or `loopcore/testing/checks_controller/`. The same checks serve `loopcore
verify`, a saved counterexample and a corpus of witnesses; those of evaluators also a pytest run of
your own:

```
loopcore verify package.module:object --only E06
loopcore verify --kind controller package.module:factory --only C03
pytest --pyargs loopcore.properties.loop --loopcore-target package.module:object
```

| folder | what is in it |
|---|---|
| `loop/` | the properties, held to any target; shipped with the package |
| `core/` | tests of loopcore itself, among them that every check goes red |
| `incidents/` | small cases from public reports, each with the right verdict |
| `repo/` | tests of this repository |

A property is *held* when its cases found nothing and met all its goals; *broken* comes with the
smallest counterexample; a crash or too small a sample is *unknown*. Explicit cases come first, then
generated ones; the oracle is the naive second model or a relation between two answers of the target
itself, never the reference evaluator. A goal is something that must be witnessed, such as a pair of
outcomes on one step, or the property is *not exercised*.

This page is made by `python -m loopcore.testing.catalogue`.
"""

_BOTH_RELEASES = "a target with both releases"
_LEVEL = "level D"
# Our own levels never do what such a property bounds.
_NO_MUTANT = "a wrong controller in `core/`, since no level of ours recovers"


def page() -> str:
    """Return the whole page."""
    evaluator = load_target()
    level = open_controller(TargetSpec(kind="controller"))
    return "\n".join(
        [
            _OPENING,
            _overview(),
            *(_section(each, evaluator, _BOTH_RELEASES) for each in CATALOGUE),
            *(_section(each, level, _LEVEL) for each in CONTROLLER_CATALOGUE),
        ]
    )


def _overview() -> str:
    rows = ["| id | property | applies to targets with |", "|---|---|---|"]
    for each in CATALOGUE:
        needs = ", ".join(sorted(each.needs)) or "anything"
        rows.append(f"| [{each.id}](#{_anchor(each)}) | {_words(each.name)} | {needs} |")
    for judged in CONTROLLER_CATALOGUE:
        link = f"[{judged.id}](#{_anchor(judged)})"
        rows.append(f"| {link} | {_words(judged.name)} | {_inputs(judged)} |")
    return "\n".join(rows) + "\n"


def _inputs(examined: ControllerProperty) -> str:
    """Return what a controller must declare, and do, to be judged."""
    words: list[str] = [name for name in INPUTS if name in examined.inputs]
    words += ["effect stop"] if examined.judges_stops else []
    return ", ".join(words) or "anything"


def _section(examined: Invariant[T], target: T, which: str) -> str:
    goals = len(examined.goals(target))
    sizes = " / ".join(f"{profile.examples:,}" for profile in PROFILES.values())
    names = " / ".join(PROFILES)
    mutants = ", ".join(f"`{name}`" for name in examined.mutants)
    return "\n".join(
        (
            f"## {examined.id} {_words(examined.name)}",
            "",
            examined.statement,
            "",
            f"- Why it matters: {examined.prevents}",
            f"- Supported by: {len(examined.examples)} explicit cases, at least {sizes} cases "
            f"in all ({names}), and {goals} goals for {which}.",
            f"- Shown able to fail by: {mutants or _NO_MUTANT}.",
            "",
        )
    )


def _words(name: str) -> str:
    return name.replace("-", " ")


def _anchor(examined: Invariant[T]) -> str:
    return f"{examined.id.lower()}-{examined.name}"


def main() -> None:
    """Write the page to standard output."""
    sys.stdout.write(page())


if __name__ == "__main__":
    main()
