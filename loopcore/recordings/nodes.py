"""A JSON value that knows where it stands, so that every complaint names file and place.

Theory of operation: an importer never touches a bare decoded value. It walks from node to node, and
each step states what it expects; what does not fit raises `InputError("malformed")` with the file
and the JSON path. The path is only put together when a complaint is made.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from decimal import Decimal
from typing import NoReturn, cast

from loopcore.errors import InputError

_NAMES: dict[type[object], str] = {
    type(None): "null",
    bool: "a boolean",
    int: "a number",
    Decimal: "a number",
    str: "text",
    list: "a list",
    dict: "an object",
}


def kind_of(value: object) -> str:
    """Return the JSON name of a decoded value's type, with its article."""
    return _NAMES.get(type(value), type(value).__name__)


def malformed(file: str, place: str, message: str) -> InputError:
    """Return the error that names this file and this place in it."""
    return InputError("malformed", f"{file}: {place}: {message}", path=f"{file}: {place}")


def as_fields(value: object) -> dict[str, object] | None:
    """Return a decoded object, None for any other value."""
    return cast("dict[str, object]", value) if isinstance(value, dict) else None


def as_elements(value: object) -> list[object] | None:
    """Return a decoded list (or a tuple of ours) as a list, None for any other value."""
    if isinstance(value, list):
        return cast("list[object]", value)
    return list(cast("tuple[object, ...]", value)) if isinstance(value, tuple) else None


@dataclass(frozen=True, slots=True)
class Node:
    """A decoded JSON value with its file and its way down from the root."""

    value: object
    file: str
    parent: Node | None = None
    key: str | int = "$"

    def place(self) -> str:
        """Return the JSON path of this value, such as `$.messages[3].role`."""
        parts: list[str] = []
        node: Node = self
        while node.parent is not None:
            parts.append(f"[{node.key}]" if isinstance(node.key, int) else f".{node.key}")
            node = node.parent
        root = "$" if node.key == "$" else str(node.key)
        return root + "".join(reversed(parts))

    def reject(self, message: str) -> NoReturn:
        """Raise a complaint about this value."""
        raise malformed(self.file, self.place(), message)

    def _expected(self, wanted: str) -> NoReturn:
        self.reject(f"expected {wanted}, got {kind_of(self.value)}")

    def fields(self) -> dict[str, object] | None:
        """Return the fields of an object, None for any other value."""
        return as_fields(self.value)

    def elements(self) -> list[object] | None:
        """Return the elements of a list, None for any other value."""
        return as_elements(self.value)

    def mapping(self) -> dict[str, object]:
        """Return the value as an object."""
        fields = self.fields()
        if fields is None:
            self._expected("an object")
        return fields

    def field(self, name: str) -> Node:
        """Return the named field, which must be there (it may be null)."""
        fields = self.mapping()
        if name not in fields:
            self.reject(f"the field {name!r} is missing")
        return Node(fields[name], self.file, self, name)

    def optional(self, name: str) -> Node | None:
        """Return the named field, or None when it is missing or null."""
        value = self.mapping().get(name)
        return None if value is None else Node(value, self.file, self, name)

    def array(self) -> list[Node]:
        """Return the elements of a list."""
        elements = self.elements()
        if elements is None:
            self._expected("a list")
        return [Node(element, self.file, self, i) for i, element in enumerate(elements)]

    def entries(self) -> Iterator[tuple[str, Node]]:
        """Yield the fields of an object in the order of the file."""
        for name, value in self.mapping().items():
            yield name, Node(value, self.file, self, name)

    def text(self) -> str:
        """Return the value as text."""
        if not isinstance(self.value, str):
            self._expected("text")
        return self.value

    def boolean(self) -> bool:
        """Return the value as a boolean."""
        if not isinstance(self.value, bool):
            self._expected("a boolean")
        return self.value

    def number(self) -> Decimal:
        """Return the value as an exact decimal."""
        if isinstance(self.value, bool) or not isinstance(self.value, (int, Decimal)):
            self._expected("a number")
        return Decimal(self.value)

    def count(self) -> int:
        """Return the value as an integer that is not negative."""
        if isinstance(self.value, bool) or not isinstance(self.value, int):
            self._expected("an integer")
        if self.value < 0:
            self.reject("expected a count, got a negative number")
        return self.value

    def label(self) -> str:
        """Return a name that may be written as text or as an integer."""
        if isinstance(self.value, bool) or not isinstance(self.value, (str, int)):
            self._expected("text or an integer")
        return str(self.value)


def text_of(node: Node | None) -> str:
    """Return the node's text, or the empty text for none."""
    return "" if node is None else node.text()
