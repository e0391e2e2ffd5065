"""The catalogue of properties as a page, `properties/README.md`, made from the properties alone.

    python -m loopcore.testing.catalogue > properties/README.md

What is proved beyond sampling stands in `properties/proofs.json`, which a run of proofs writes
(`loopcore.verification.recorded`). A test holds that the page in the repository is the one made
here.
"""

from __future__ import annotations

import sys
from functools import cache
from pathlib import Path

import msgspec

from loopcore.testing.checks import CATALOGUE
from loopcore.testing.checks_controller import CONTROLLER_CATALOGUE
from loopcore.testing.checks_store import STORE_CATALOGUE
from loopcore.testing.contract import Invariant, T
from loopcore.testing.controller_contract import INPUTS, ControllerProperty
from loopcore.testing.controller_targets import open_controller
from loopcore.testing.profiles import PROFILES
from loopcore.testing.store_builtin import memory
from loopcore.testing.store_contract import StoreProperty
from loopcore.testing.store_targets import LocalStoreTarget
from loopcore.testing.targets import TargetSpec, load_target

_OPENING = """\
# Properties

Each property below is one invariant of an evaluator (E), of a controller (C) or of a store of
journals (S), and one file in `loopcore/testing/checks/`, `loopcore/testing/checks_controller/` or
`loopcore/testing/checks_store/`. The same checks serve `loopcore verify`, a saved counterexample
and a corpus of witnesses; those of evaluators also a pytest run of your own:

```
loopcore verify package.module:object --only E06
loopcore verify --kind controller package.module:factory --only C03
loopcore verify --kind store package.module:factory --only S01
pytest --pyargs loopcore.properties.loop --loopcore-target package.module:object
pytest --pyargs loopcore.properties.loop --loopcore-kind controller --loopcore-target NAME
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

Support is *sampled* (so many cases), *exhausted* (every case within a bound was run), *proved* (for
all integers in range, by a solver) or *compared* (every path of our decision function and of the
naive one, for inputs within a bound). Whatever is beyond sampling is about loopcore's own
evaluator, whose source the proofs read; another target is sampled only.

This page is made by `python -m loopcore.testing.catalogue`.
"""

# The record of the proofs, in a checkout.
PROOFS = Path(__file__).parents[2] / "properties" / "proofs.json"
_BOTH_RELEASES = "a target with both releases"
_LEVEL = "level D"
_ANY_STORE = "any store"
# A store's faults are whole stores, since what a mutant changes may be another store's code.
_WRONG_STORE = "a wrong store in `core/wrong_stores.py`"
# Our own levels never do what such a property bounds.
_NO_MUTANT = "a wrong controller in `core/`, since no level of ours recovers"


class Recorded(msgspec.Struct, frozen=True, kw_only=True):
    """A theorem that was proved: how, for how many cases or obligations, and within which bound."""

    id: str
    properties: tuple[str, ...]
    kind: str
    count: int
    unit: str
    bound: str


@cache
def recorded_proofs() -> tuple[Recorded, ...]:
    """Return what is on record as proved."""
    return msgspec.json.decode(PROOFS.read_bytes(), type=tuple[Recorded, ...])


def page() -> str:
    """Return the whole page."""
    evaluator = load_target()
    level = open_controller(TargetSpec(kind="controller"))
    store = LocalStoreTarget("memory", memory)
    return "\n".join(
        [
            _OPENING,
            _overview(),
            *(_section(each, evaluator, _BOTH_RELEASES) for each in CATALOGUE),
            *(_section(each, level, _LEVEL) for each in CONTROLLER_CATALOGUE),
            *(_section(each, store, _ANY_STORE, _WRONG_STORE) for each in STORE_CATALOGUE),
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
    for kept in STORE_CATALOGUE:
        rows.append(f"| [{kept.id}](#{_anchor(kept)}) | {_words(kept.name)} | {_having(kept)} |")
    return "\n".join(rows) + "\n"


def _having(examined: StoreProperty) -> str:
    """Return what a store must have to be judged."""
    return ", ".join(sorted(examined.needs)) or "anything"


def _inputs(examined: ControllerProperty) -> str:
    """Return what a controller must declare, and do, to be judged."""
    words: list[str] = [name for name in INPUTS if name in examined.inputs]
    words += ["effect stop"] if examined.judges_stops else []
    return ", ".join(words) or "anything"


def _section(examined: Invariant[T], target: T, which: str, otherwise: str = _NO_MUTANT) -> str:
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
            f"- Sampled: {len(examined.examples)} explicit cases, at least {sizes} cases "
            f"in all ({names}), and {goals} goals for {which}.",
            *_beyond_sampling(examined.id),
            f"- Shown able to fail by: {mutants or otherwise}.",
            "",
        )
    )


def _beyond_sampling(property_id: str) -> list[str]:
    """Return a line for each kind of proof that the property has."""
    kinds: dict[tuple[str, str, str], list[Recorded]] = {}
    for each in recorded_proofs():
        if property_id in each.properties:
            kinds.setdefault((each.kind, each.unit, each.bound), []).append(each)
    return [
        f"- {kind.capitalize()}: {sum(each.count for each in found):,} {unit} "
        f"({', '.join(each.id for each in found)}), for {bound}."
        for (kind, unit, bound), found in kinds.items()
    ]


def _words(name: str) -> str:
    return name.replace("-", " ")


def _anchor(examined: Invariant[T]) -> str:
    return f"{examined.id.lower()}-{examined.name}"


def main() -> None:
    """Write the page to standard output."""
    sys.stdout.write(page())


if __name__ == "__main__":
    main()
