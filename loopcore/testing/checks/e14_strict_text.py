"""E14: text is decoded strictly: what is legal reads as it should, all else is refused in place."""

from __future__ import annotations

import json
from collections.abc import Iterator

from hypothesis import strategies as st
from hypothesis.strategies import DrawFn

from loopcore.testing import naive
from loopcore.testing.checks.verdicts import (
    RECEIPT_FIELDS,
    declared,
    describe,
    difference,
    is_undeclared,
    judged,
    part,
)
from loopcore.testing.contract import Case, EvaluatorTarget, Judgement, Property
from loopcore.testing.damage import (
    EDITS,
    KEYS,
    NO_TOKENS,
    NUMBERS,
    TEXTS,
    Tree,
    as_base64,
    damaged_texts,
    document,
    escape,
    from_base64,
    render,
    tree_of,
)
from loopcore.testing.naive_wire import DIGEST_LENGTH, RELEASES, Record
from loopcore.testing.steering import Choices, fire
from loopcore.testing.strategies import policies, terminated_traces, traces
from loopcore.testing.streams import (
    LINE_EDITS,
    document_of,
    stream_cases,
    stream_door,
    stream_examples,
    stream_of,
)

_LINE_EDITS = (
    "line with a byte-order mark",
    "line with more after it",
    "line with no space before it",
)
_PLACE_MAX = 4_000
# Of a request; None is no request but a document.
_IDENTITIES = (None, b"null", b"1")
_MORE = (b" 0", b"{}", b"\x00", b",", b"]", b"}")
# Policies with two defects, of which the first field's is told.
_TWO_DEFECTS = (
    ("number", {"max_steps": "true", "max_repairs": "-1"}),
    ("text", {"policy_id": '"\\ud800"', "max_steps": "-1"}),
)


def _line(policy: bytes, steps: bytes, edit: str, place: int, identity: bytes | None) -> Case:
    """Return a request, or a whole document, that is spoilt from outside; both must be refused.

    Arguments:
        identity: the id of the request, or None for a document. A target that takes a line that is
            no request and echoes its integer id has failed already; with null it is told here.
    """
    text = document(policy, steps)
    if identity is not None:
        request = (identity, policy, steps)
        text = b'{"id":%b,"op":"evaluate","policy":%b,"steps":%b}' % request
    lines = {
        "prefix": text[: place % len(text)],
        "line with a byte-order mark": b"\xef\xbb\xbf" + text,
        "line with more after it": text + _MORE[place % len(_MORE)],
        "line with no space before it": (b"\xc2\xa0", b"\x0b", b"\x0c")[place % 3] + text,
    }
    return {"edit": edit, "line": as_base64(lines[edit])}


@st.composite
def _lines(draw: DrawFn) -> Case:
    trace = draw(terminated_traces())
    texts = [json.dumps(trace[name]).encode() for name in ("policy", "steps")]
    edit = draw(st.sampled_from(("prefix", *_LINE_EDITS)))
    place = draw(st.integers(0, _PLACE_MAX))
    return _line(texts[0], texts[1], edit, place, draw(st.sampled_from(_IDENTITIES)))


@st.composite
def _lone_policies(draw: DrawFn) -> Record:
    return {"policy": draw(policies()), "steps": []}


def _cases() -> st.SearchStrategy[Case]:
    short = terminated_traces()
    texts = damaged_texts(short) | damaged_texts(traces() | _lone_policies())
    return texts | _lines() | stream_cases()


def _judge(target: EvaluatorTarget, case: Case) -> Judgement:
    edit = str(case["edit"])
    if "line" in case:
        line = from_base64(case["line"])
        got = target.evaluate_line(line)
        error = part(got, "error")
        refused = error is not None and error.get("code") == "malformed"
        finding = None if refused else f"{edit} of {len(line)} bytes gave {describe(got)}"
        return judged(finding, "malformed", got, (f"text:{edit}",))
    if "lines" in case:
        return _judge_stream(target, case)
    policy, steps = from_base64(case["policy_text"]), from_base64(case["steps_text"])
    expected = naive.evaluate_bytes(document(policy, steps))
    receipt = part(expected, "receipt")
    if _is_undeclared(target, policy) or (receipt is not None and is_undeclared(target, receipt)):
        return Judgement(vacuous=True)
    got = target.evaluate_text(policy, steps)
    fields = RECEIPT_FIELDS if receipt is not None else ()
    finding = difference(expected, got, fields)
    return judged(finding, expected, got, (f"text:{edit}",), f"after the edit “{edit}”")


def _judge_stream(target: EvaluatorTarget, case: Case) -> Judgement:
    """Judge a stream, or the document of the same lines where the target takes no stream."""
    policy, steps = document_of(case)
    if _is_undeclared(target, policy):
        return Judgement(vacuous=True)
    door = stream_door(target)
    if door is None:
        expected = naive.evaluate_bytes(document(policy, steps))
        got = target.evaluate_text(policy, steps)
    else:
        expected, got = naive.evaluate_stream(stream_of(case)), door(stream_of(case))
    receipt = part(expected, "receipt")
    if receipt is not None and is_undeclared(target, receipt):
        return Judgement(vacuous=True)
    finding = difference(expected, got, RECEIPT_FIELDS if receipt is not None else ())
    words = f"as lines with the edit “{case['edit']}”"
    return judged(finding, expected, got, (f"lines:{case['edit']}",), words)


def _is_undeclared(target: EvaluatorTarget, policy: bytes) -> bool:
    """Whether the text names a release that the target does not have."""
    missing = set(RELEASES) - set(declared(target))
    return any(release.encode() in policy for release in missing)


def _places(release: str) -> dict[str, tuple[Tree, Tree, Tree]]:
    """Return a policy and steps as trees, with the object to be damaged as the third one."""
    found: dict[str, tuple[Tree, Tree, Tree]] = {}
    trace = fire(release, ("completed",), Choices(prefix=1))
    for name in ("policy", "step"):
        policy, steps = tree_of(trace["policy"]), tree_of(trace["steps"])
        assert isinstance(policy, Tree)
        assert isinstance(steps, Tree)
        step = steps.children[-1]
        assert isinstance(step, Tree)
        found[name] = (policy, steps, policy if name == "policy" else step)
    return found


def _spell(release: str, edit: str, spelling: str, field: str) -> Iterator[Case]:
    """Yield cases with a leaf of the policy and one of a step in another spelling."""
    fields = {"number": ("max_steps", "sequence"), "text": ("policy_id", "action_sha256")}[field]
    places = _places(release).values()
    for (policy, steps, chosen), name in zip(places, fields, strict=True):
        chosen.children[chosen.keys.index(json.dumps(name))] = spelling
        yield _case(edit, render(policy).encode(), render(steps).encode())


def _spoil_digests(release: str) -> Iterator[Case]:
    """Yield cases with one digest of the policy or of a step in capitals, which is no digest."""
    for name, (_, _, whole) in _places(release).items():
        for place, key in enumerate(whole.keys):
            if key.endswith('sha256"'):
                policy, steps, chosen = _places(release)[name]
                is_array = isinstance(chosen.children[place], Tree)
                digest = json.dumps("A" * DIGEST_LENGTH)
                chosen.children[place] = f"[{digest}]" if is_array else digest
                yield _case("text", render(policy).encode(), render(steps).encode())


def _spoil_twice(release: str) -> Iterator[Case]:
    """Yield cases with two defects in a policy, of which the first in order is told."""
    for edit, spellings in _TWO_DEFECTS:
        policy, steps, _ = _places(release)["policy"]
        for name, spelling in spellings.items():
            policy.children[policy.keys.index(json.dumps(name))] = spelling
        yield _case(edit, render(policy).encode(), render(steps).encode())
    policy, steps, _ = _places(release)["policy"]
    policy.keys[-1] = '"extra"'
    yield _case("unknown key", render(policy).encode(), render(steps).encode())


def _edit_keys(release: str, edit: str) -> Iterator[Case]:
    """Yield cases with a member of the policy and one of a step repeated, added or dropped."""
    for policy, steps, chosen in _places(release).values():
        if edit == "missing key":
            del chosen.keys[-1], chosen.children[-1]
        else:
            key = {"unknown key": '"extra"', "escaped duplicate key": escape(chosen.keys[0])}
            chosen.keys.append(key.get(edit, chosen.keys[0]))
            chosen.children.append(chosen.children[0])
        yield _case(edit, render(policy).encode(), render(steps).encode())


def _unknown_keys(release: str) -> Iterator[Case]:
    """Yield policies with an unknown field of every odd name, whose path is told with it."""
    for key in KEYS:
        policy, steps, _ = _places(release)["policy"]
        policy.keys.append(key)
        policy.children.append("0")
        yield _case("unknown key", render(policy).encode(), render(steps).encode())


def _case(edit: str, policy: bytes, steps: bytes) -> Case:
    return {"edit": edit, "policy_text": as_base64(policy), "steps_text": as_base64(steps)}


def _edit_whole(release: str) -> Iterator[Case]:
    """Yield cases with something before, after or inside the text as a whole."""
    policy_tree, steps_tree, _ = _places(release)["policy"]
    policy, steps = render(policy_tree).encode(), render(steps_tree).encode()
    for edit, text in (
        ("trailing", steps + b" 0"),
        ("truncation", steps[:-1]),
        ("byte-order mark", b"\xef\xbb\xbf" + steps),
        ("no space", b"\xc2\xa0" + steps),
        ("bytes", steps.replace(b"a", b"\xff", 1)),
        ("nesting", b"[" * 15 + b"]" * 15),
        ("nesting", b"[" * 16 + b"]" * 16),
        ("white space", b" \t\r" + render(steps_tree, " ").encode()),
        ("nothing", steps),
        ("escapes", steps.replace(b'"schema"', b'"\\u0073chema"').replace(b'"b0', b'"\\u00620')),
    ):
        yield _case(edit, policy, text)
    for identity in _IDENTITIES:
        yield _line(policy, steps, "prefix", 0, identity)
        yield _line(policy, steps, "prefix", -1, identity)
        for edit in _LINE_EDITS:
            yield _line(policy, steps, edit, 0, identity)
        brace = _MORE.index(b"}")
        yield _line(policy, steps, "line with more after it", brace, identity)


def _examples() -> tuple[Case, ...]:
    """Return each wrong spelling in a policy and in a step, and the classic damages."""
    found: list[Case] = []
    for release in RELEASES:
        # First, since here a value that is let pass is told before it can do any harm.
        found += _spoil_twice(release)
        for spelling in NUMBERS:
            found += _spell(release, "number", spelling, "number")
        for spelling in NO_TOKENS:
            found += _spell(release, "no token", spelling, "number")
        for spelling in TEXTS:
            found += _spell(release, "text", spelling, "text")
        for edit in ("duplicate key", "escaped duplicate key", "unknown key", "missing key"):
            found += _edit_keys(release, edit)
        found += _unknown_keys(release)
        found += _spoil_digests(release)
        found += _edit_whole(release)
        found += stream_examples(release)
    # The shortest texts are the same under both releases.
    return tuple({json.dumps(case): case for case in found}.values())


_GOALS = (
    frozenset({f"text:{edit}" for edit in EDITS} | {"text:prefix"})
    | {f"text:{edit}" for edit in _LINE_EDITS}
    | {f"lines:{edit}" for edit in LINE_EDITS}
)

PROPERTY = Property(
    id="E14",
    name="strict-text",
    statement=(
        "Legal white space and escapes change nothing; every proper prefix, repeated, missing or "
        "unknown key, number that is no integer, bad text or trailing byte is refused, with the "
        "path of the first defect; a stream is read as the document of its lines."
    ),
    prevents=(
        "Two readers of one log see two policies, because one keeps the first of two equal keys "
        "and the other the last; or true, 1.0 and 1e0 pass for a limit of one."
    ),
    mutants=(
        "decoding-duplicate-key-last-wins",
        "decoding-minus-zero-accepted",
        "decoding-boolean-accepted",
        "decoding-unknown-field-accepted",
        "decoding-trailing-bytes-accepted",
        "decoding-byte-order-mark-accepted",
        "decoding-surrogate-accepted",
        "decoding-digest-newline-accepted",
        "decoding-policy-digests-not-checked",
        "decoding-evidence-digests-not-checked",
        "decoding-proof-digest-not-checked",
        "defects-order-of-checks",
        "defects-nesting-off-by-one",
        "decoding-step-line-not-vouched",
        "documents-first-defect-wins",
        "documents-line-index-one-based",
        "documents-blank-lines-skipped",
        "documents-post-terminal-lines-ignored",
    ),
    needs=frozenset({"bytes"}),
    cases=_cases,
    judge=_judge,
    examples=_examples(),
    goals=lambda target: _GOALS,
)
