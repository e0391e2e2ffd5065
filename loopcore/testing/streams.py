"""Streams with damage: a header line and one step a line, spoilt in a line or between lines.

Theory of operation: a case holds the policy's text and the step lines apart, so that a target that
reads streams is given the stream, and any other the document with the same texts. Either way the
naive model reads the same bytes. A stream differs from its document in what a line is: a blank one,
one that is cut, one after the terminal, an end that is missing.

Source: spec evaluator, sections 1 and 2.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from hypothesis import strategies as st
from hypothesis.strategies import DrawFn

from loopcore.testing.contract import Answer, Case
from loopcore.testing.damage import as_base64, damaged_texts, from_base64
from loopcore.testing.damage import render as rendered
from loopcore.testing.damage import tree_of as tree
from loopcore.testing.naive_wire import Record, as_record
from loopcore.testing.steering import Choices, fire
from loopcore.testing.strategies import list_of, terminated_traces, traces

# What is done to the lines as a whole, besides an edit of one text. A lone LF ends a line.
LINE_EDITS: dict[str, Callable[[list[bytes]], list[bytes]]] = {
    "as they are": lambda lines: lines,
    "blank line inside": lambda lines: [*lines[:1], b"", *lines[1:]],
    "blank line at the end": lambda lines: [*lines, b""],
    "line repeated": lambda lines: [*lines, *lines[-1:]],
    "no JSON at the end": lambda lines: [*lines, b"{"],
    "white space around": lambda lines: [b" " + line + b"\t\r" for line in lines],
    "two on a line": lambda lines: [b"".join(lines[:2]), *lines[2:]],
    "too deep at the end": lambda lines: [*lines, b"[" * 15],
    "too deep and closed": lambda lines: [*lines, b"[" * 15 + b"]" * 15],
}
Evaluate = Callable[[bytes], Answer]


def _text(value: object) -> bytes:
    return rendered(tree(value)).encode("utf-8")


def _case(edit: str, policy: bytes, lines: Sequence[bytes], *, ended: bool) -> Case:
    return {
        "edit": edit,
        "policy_text": as_base64(policy),
        "lines": [as_base64(line) for line in lines],
        "ended": ended,
    }


@st.composite
def stream_cases(draw: DrawFn) -> Case:
    """Draw a stream of which one text is damaged, or its lines, or both, or nothing."""
    trace = draw(terminated_traces() | traces())
    steps = list_of(trace["steps"])
    lines = [_text(step) for step in steps]
    policy = _text(trace["policy"])
    if draw(st.booleans()) and steps:
        place = draw(st.integers(0, len(steps) - 1))
        spoilt: Record = {"policy": trace["policy"], "steps": steps[place]}
        damaged = draw(damaged_texts(st.just(spoilt)))
        policy = from_base64(damaged["policy_text"])
        lines[place] = from_base64(damaged["steps_text"])
    edit = draw(st.sampled_from(tuple(LINE_EDITS)))
    return _case(edit, policy, LINE_EDITS[edit](lines), ended=draw(st.booleans()))


def stream_examples(release: str) -> list[Case]:
    """Return each edit of the lines of a trace, and defects that stand in the wrong order."""
    trace = fire(release, ("completed",), Choices(prefix=2))
    policy, lines = _text(trace["policy"]), [_text(step) for step in list_of(trace["steps"])]
    found = [
        _case(edit, policy, change(list(lines)), ended=ended)
        for edit, change in LINE_EDITS.items()
        for ended in (True, False)
    ]
    late = _text({**as_record(trace["policy"]), "deadline_unix_ms": 0})
    for spoilt in (policy, late, policy.replace(b'"max_steps":', b'"max_steps":-')):
        for bad in (lines, [b'{"sequence":0}', *lines[1:]], [lines[0], b"{}", b"nul"]):
            found.append(_case("as they are", spoilt, bad, ended=True))
    # What a parser hides: a key that stands twice, and a zero with a sign.
    twice = lines[0][:-1] + b',"sequence":1}'
    signed = lines[0].replace(b'"cost_microunits_delta":0', b'"cost_microunits_delta":-0')
    found += [
        _case("as they are", policy, [bad, *lines[1:]], ended=True) for bad in (twice, signed)
    ]
    return found


def stream_of(case: Case) -> bytes:
    """Return the stream that a case spells."""
    lines = [from_base64(line) for line in _lines(case)]
    header = b'{"schema":"loopcore/trace/1","policy":%b}' % from_base64(case["policy_text"])
    return b"\n".join([header, *lines]) + (b"\n" if case["ended"] is True else b"")


def document_of(case: Case) -> tuple[bytes, bytes]:
    """Return the texts of policy and steps of the document with the same lines."""
    lines = [from_base64(line) for line in _lines(case)]
    return from_base64(case["policy_text"]), b"[" + b",".join(lines) + b"]"


def stream_door(target: object) -> Evaluate | None:
    """Return how a target evaluates a stream, or None where it takes none."""
    if getattr(target, "streams", False) is not True:
        return None
    door: Evaluate = getattr(target, "evaluate_stream")  # noqa: B009 few targets have it
    return door


def _lines(case: Case) -> list[Record]:
    return list_of(case["lines"])
