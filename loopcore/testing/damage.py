"""Damage at the level of JSON text, which values alone cannot carry.

Theory of operation: a value becomes a tree whose leaves are raw JSON text and whose objects are
lists of members, so that a key may stand twice and a number may be spelled in any way. One edit is
made at a drawn place and the tree is printed again. What the edit means is not decided here: the
naive model reads the same bytes. Some edits are legal on purpose (escapes, white space), because
a decoder that refuses them is as wrong as one that lets damage pass.

The texts of a policy and of steps are kept apart, since targets take them inside a request. An
edit therefore never closes the object or array around it and opens another: `},"x":{` would mean
one thing in a request and another in a document.

Source: spec evaluator, section 1; RFC 8259.
"""

from __future__ import annotations

import base64
import json
from dataclasses import dataclass, field
from typing import cast

from hypothesis import strategies as st
from hypothesis.strategies import DrawFn, SearchStrategy

from loopcore.testing.building import array_of, object_of
from loopcore.testing.naive_wire import Record, as_record

# The last character that one escape can spell.
_ONE_ESCAPE_MAX = 0xFFFF
NESTING_MAX = 16


@dataclass(slots=True)
class Tree:
    """An array or object whose children are trees or raw JSON text; keys are raw text as well."""

    is_object: bool
    keys: list[str] = field(default_factory=list[str])
    children: list[Tree | str] = field(default_factory=list["Tree | str"])


def tree_of(value: object) -> Tree | str:
    """Return a JSON value as a tree of raw text."""
    record = object_of(value)
    if record is not None:
        return Tree(
            is_object=True,
            keys=[json.dumps(key) for key in record],
            children=[tree_of(child) for child in record.values()],
        )
    if isinstance(value, list):
        children = [tree_of(child) for child in array_of(cast("object", value))]
        return Tree(is_object=False, children=children)
    return json.dumps(value, ensure_ascii=False)


def render(tree: Tree | str, space: str = "") -> str:
    """Return the text of a tree, with white space between all tokens."""
    if isinstance(tree, str):
        return f"{space}{tree}{space}"
    children = [render(child, space) for child in tree.children]
    if tree.is_object:
        pairs = zip(tree.keys, children, strict=True)
        return space + "{" + ",".join(f"{space}{key}{space}:{text}" for key, text in pairs) + "}"
    return space + "[" + ",".join(children) + "]" + space


def document(policy: bytes, steps: bytes) -> bytes:
    """Return the trace document that the two texts spell."""
    return b'{"schema":"loopcore/trace/1","policy":%b,"steps":%b}' % (policy, steps)


def as_base64(data: bytes) -> Record:
    """Return bytes as they stand in a case."""
    return {"base64": base64.b64encode(data).decode("ascii")}


def from_base64(value: object) -> bytes:
    """Return the bytes that a case holds."""
    return base64.b64decode(str(as_record(value)["base64"]))


# Spellings of a number that are not an integer of the wire, whatever their value.
NUMBERS = (
    "-0", "-1", "1.0", "1e0", "1E3", "0.5", "9007199254740992", "1" + "0" * 400, "true", "null",
    '"1"', "[]", "{}", "1e400", "-0.0",
)  # fmt: skip
# Tokens that JSON does not have at all.
NO_TOKENS = ("01", "+1", "NaN", "Infinity", "0x1", ".5", "1.", "'a'", "", "nul", "1_000", "\u0661")
TEXTS = (
    '"\\ud800"', '"\\udc00\\ud800"', '"p\\ud83d"', '""', "0", "null", '"\\u0000"', '"\\u00"',
    '"\t"', '"\\x41"', f'"{"A" * 64}"', f'"{"a" * 63}"', f'"{"a" * 65}"', f'"{"a" * 63}\\n"',
)  # fmt: skip
KEYS = ('"extra"', '"a key"', '"\u00e9"', '""', '"\\ud800"', '"policy_id "', '"__proto__"')
SPACES = (" ", "\n", "\t", "\r", " \n\t\r ")
NO_SPACES = ("\u00a0", "\ufeff", "\x0b", "\x0c", "\u2028")
TRAILERS = ("0", "null", "{}", "]", "\x00", "#", "//", ",")
# LF separates requests, so white space with it is kept for whole documents.
_LINE_SPACES = tuple(space for space in SPACES if "\n" not in space)

EDITS = (
    "duplicate key",
    "escaped duplicate key",
    "unknown key",
    "missing key",
    "number",
    "text",
    "no token",
    "truncation",
    "trailing",
    "no space",
    "byte-order mark",
    "nesting",
    "bytes",
    "escapes",
    "white space",
    "nothing",
)


def _containers(tree: Tree | str) -> list[Tree]:
    """Return all arrays and objects of a tree, the outermost first."""
    if isinstance(tree, str):
        return []
    found = [tree]
    for child in tree.children:
        found += _containers(child)
    return found


def escape(text: str) -> str:
    """Return a JSON string with its first character spelled as an escape, or other text as is."""
    if not text.startswith('"') or text[1] in '"\\':
        return text
    code = ord(text[1])
    return text if code > _ONE_ESCAPE_MAX else f'"\\u{code:04x}{text[2:]}'


def _edit_object(draw: DrawFn, edit: str, root: Tree) -> None:
    """Repeat, add or drop one member of one object of the tree, in place."""
    objects = [found for found in _containers(root) if found.is_object and found.children]
    if not objects:
        return
    chosen = draw(st.sampled_from(objects))
    index = draw(st.integers(0, len(chosen.keys) - 1))
    if edit == "missing key":
        del chosen.keys[index], chosen.children[index]
        return
    place = draw(st.sampled_from((len(chosen.keys), index, 0)))
    key, child = chosen.keys[index], chosen.children[index]
    if edit == "escaped duplicate key":
        key = escape(key)
    elif edit == "unknown key":
        key, child = draw(st.sampled_from(KEYS)), draw(st.sampled_from(("0", "null", "[]")))
    chosen.keys.insert(place, key)
    chosen.children.insert(place, child)


def _edit_leaf(draw: DrawFn, edit: str, root: Tree) -> None:
    """Replace one leaf of the tree, in place."""
    leaves = [
        (found, index)
        for found in _containers(root)
        for index, child in enumerate(found.children)
        if isinstance(child, str) and (edit != "text" or child.startswith('"'))
        and (edit != "number" or child[:1].isdigit())
    ]  # fmt: skip
    if not leaves:
        return
    chosen, index = draw(st.sampled_from(leaves))
    if edit == "nesting":
        depth = draw(st.sampled_from((NESTING_MAX - 4, NESTING_MAX - 1, NESTING_MAX, 2_000)))
        chosen.children[index] = "[" * depth + "]" * depth
    else:
        table = {"number": NUMBERS, "text": TEXTS, "no token": NO_TOKENS}
        chosen.children[index] = draw(st.sampled_from(table[edit]))


def _edit_text(draw: DrawFn, edit: str, text: str) -> bytes:
    """Return the printed text with one edit that no tree can hold."""
    data = text.encode("utf-8")
    place = draw(st.integers(0, len(data) - 1))
    if edit == "truncation":
        return data[:place]
    if edit == "trailing":
        return data + draw(st.sampled_from(TRAILERS)).encode()
    if edit == "no space":
        space = draw(st.sampled_from(NO_SPACES)).encode()
        return draw(st.sampled_from((space + data, data + space)))
    if edit == "byte-order mark":
        return b"\xef\xbb\xbf" + data
    bad = draw(st.sampled_from((b"\xff", b"\xc0\x80", b"\xed\xa0\x80", b"\x00", b"\x1f")))
    return data[:place] + bad + data[place:]


def _spell_escapes(draw: DrawFn, root: Tree) -> None:
    """Spell the first character of drawn keys and texts as escapes, in place; this is legal."""
    for found in _containers(root):
        found.keys = [escape(key) if draw(st.booleans()) else key for key in found.keys]
        found.children = [
            escape(child) if isinstance(child, str) and draw(st.booleans()) else child
            for child in found.children
        ]


@st.composite
def damaged_texts(draw: DrawFn, trace: SearchStrategy[Record]) -> Record:
    """Draw a trace as two texts of which one has one edit, harmful or legal.

    The result has `policy_text` and `steps_text` as base64 and `edit`, the edit's name.
    """
    value = draw(trace)
    edit = draw(st.sampled_from(EDITS))
    spoilt = draw(st.sampled_from(("policy", "steps")))
    texts: dict[str, bytes] = {}
    for part in ("policy", "steps"):
        root = tree_of(value[part])
        assert isinstance(root, Tree)
        if part != spoilt:
            texts[part] = render(root).encode("utf-8")
        elif edit in ("truncation", "trailing", "no space", "byte-order mark", "bytes"):
            texts[part] = _edit_text(draw, edit, render(root))
        else:
            space = draw(st.sampled_from(_LINE_SPACES)) if edit == "white space" else ""
            if edit.endswith("key"):
                _edit_object(draw, edit, root)
            elif edit in ("number", "text", "no token", "nesting"):
                _edit_leaf(draw, edit, root)
            elif edit == "escapes":
                _spell_escapes(draw, root)
            texts[part] = render(root, space).encode("utf-8")
    return {
        "edit": edit,
        "policy_text": as_base64(texts["policy"]),
        "steps_text": as_base64(texts["steps"]),
    }
