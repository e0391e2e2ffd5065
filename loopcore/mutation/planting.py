"""Planting: make one module of loopcore from a changed source, in this process and nowhere else.

Theory of operation: an import hook stands before all others and makes the one module from the given
source when it is imported for the first time. Nothing on the disk changes and no compiled file is
read or written. `check_planted` then looks at every loaded module of loopcore and refuses to go on
where one of them still holds something of an original, so that no verdict is ever given on a
mutant that was not used.

This file imports nothing of loopcore but its errors: whatever it imported could not be planted.
"""

from __future__ import annotations

import importlib
import sys
from collections.abc import Sequence
from importlib.abc import Loader, MetaPathFinder
from importlib.machinery import ModuleSpec
from importlib.util import find_spec, spec_from_loader
from types import ModuleType
from typing import cast

from loopcore.errors import LoopcoreError

_MARK = "__planted__"


class PlantingError(LoopcoreError):
    """The mutant could not be planted, so nothing can be said about it."""


class _PlantedLoader(Loader):
    """Makes a module from a source that is given."""

    def __init__(self, source: str, path: str) -> None:
        self._source = source
        self._path = path

    def create_module(self, spec: ModuleSpec) -> None:
        """Leave the making of the empty module to Python."""

    def exec_module(self, module: ModuleType) -> None:
        """Run the given source in the module, and mark the module."""
        setattr(module, _MARK, True)
        exec(compile(self._source, self._path, "exec"), module.__dict__)


class _PlantingFinder(MetaPathFinder):
    """Finds one module, with a loader of its own."""

    def __init__(self, name: str, loader: _PlantedLoader) -> None:
        self._name = name
        self._loader = loader

    def find_spec(
        self, fullname: str, path: Sequence[str] | None, target: ModuleType | None = None
    ) -> ModuleSpec | None:
        """Return the planted module's specification, or None for every other module."""
        del path, target
        return spec_from_loader(fullname, self._loader) if fullname == self._name else None


def source_of(module: str) -> str:
    """Return the original source of a module of loopcore, given by its last name."""
    spec = find_spec(f"loopcore.{module}")
    if spec is None or spec.origin is None:
        raise PlantingError(f"there is no module loopcore.{module}")
    with open(spec.origin, encoding="utf-8") as file:
        return file.read()


def plant(module: str, source: str) -> None:
    """Import a module of loopcore from the given source; whoever imports it later gets this one.

    Raises PlantingError when the module was imported before, or its source cannot be run.
    """
    name = f"loopcore.{module}"
    if name in sys.modules:
        raise PlantingError(f"{name} was imported before the mutant could be planted")
    sys.meta_path.insert(0, _PlantingFinder(name, _PlantedLoader(source, f"<planted {name}>")))
    try:
        importlib.import_module(name)
    except Exception as error:  # noqa: BLE001 whatever a mutant raises makes it unusable
        raise PlantingError(f"{name} cannot be made: {type(error).__name__}: {error}") from None


def check_planted(module: str) -> None:
    """Return only when every loaded module of loopcore uses the planted module's own objects.

    Raises PlantingError naming the first one that does not.
    """
    name = f"loopcore.{module}"
    planted = sys.modules[name]
    if getattr(planted, _MARK, False) is not True:
        raise PlantingError(f"{name} is the original")
    own = vars(planted)
    for other_name, other in list(sys.modules.items()):
        if other_name == name or not other_name.startswith("loopcore."):
            continue
        for attribute, value in cast("dict[str, object]", vars(other)).items():
            made_in = getattr(value, "__module__", None)
            label = getattr(value, "__name__", None)
            if made_in == name and isinstance(label, str) and own.get(label) is not value:
                raise PlantingError(f"{other_name}.{attribute} is of the original {name}")
