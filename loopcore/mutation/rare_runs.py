"""Runs of controllers as data: letters, the alphabets they make, and runs that are drawn rarely.

Rule: a letter is an observation without its place; whoever puts letters together gives each a turn
of its own, unless the letter says where it stands.
"""

from __future__ import annotations

from loopcore.mutation.values import Record

# Observations without their place, from which runs are put together, one a turn.
_X: Record = {"tool": "x", "action_fingerprint": "x", "state_fingerprint": "s"}
_Y: Record = {**_X, "tool": "y", "action_fingerprint": "y"}
_RESULT: Record = {"tool": "x", "action_fingerprint": "x", "result_fingerprint": "r"}
_UNKNOWN: Record = {"tool": "x"}
_GOOD: Record = {"progress": 1}
_GOOD_X: Record = {**_X, "progress": 1}
_POLL: Record = {"tool": "poll"}
_FAILED: Record = {**_X, "error_class": "e"}
_REFUSED: Record = {"claims_done": True, "verified": False}
_PENDING: Record = {"claims_done": True, "progress": 0}
_DONE: Record = {"claims_done": True, "verified": True}
TIGHT: Record = {
    "repeat": 3,
    "window": 2,
    "error_streak": 3,
    "cycle_max": 3,
    "cycle_repeats": 2,
    "max_waits": 3,
    "max_refusals": 1,
    "tools": {"poll": {"wait": True}},
}
_SAID: Record = {**_REFUSED, "result_fingerprint": "r", "state_fingerprint": "s"}
_SAID_Q: Record = {**_SAID, "result_fingerprint": "q"}
_SAID_T: Record = {**_SAID, "state_fingerprint": "t"}
_SAID_R: Record = {**_REFUSED, "result_fingerprint": "r"}
_SAID_S: Record = {**_REFUSED, "state_fingerprint": "s"}
_ALIKE: Record = {"tool": "x", "action_fingerprint": "x", "result_fingerprint": "r"}
_RAW: Record = {"tool": "x", "arguments": {"p": 1}, "result": {"n": 1}}
_GIVEN: Record = {**_RAW, "action_fingerprint": "x", "result_fingerprint": "r"}
_NO_REFUSALS_MAX: Record = {"window": 2, "max_refusals": None}
# Runs that drawing meets rarely: what they show, the limits, the observations, one turn each unless
# they say where they stand.
RARE: tuple[tuple[str, Record, tuple[Record, ...]], ...] = (
    ("a good call is no part of a cycle", {}, (_GOOD_X, _Y, _X, _Y, _X)),
    ("what was before progress is no part of a cycle", {}, (_X, _Y, _X, _GOOD, _X, _Y, _X)),
    ("a poll is no part of a cycle", {}, (_X, _Y, _POLL, _X, _POLL, _Y)),
    ("a text is no part of a cycle", {}, (_X, _Y, {"progress": 0}, _X, {"progress": 0}, _Y)),
    ("the horizon ends a run", {"horizon": 3, "max_steps": None}, (_X, _Y, _X, _Y)),
    ("the steps end a run", {"horizon": None, "max_steps": 3}, (_X, _POLL, _Y, _X, _Y)),
    ("raw calls with one raw result", {}, (_RAW, _RAW, _RAW)),
    ("raw calls with other results", {}, (_RAW, {**_RAW, "result": {"n": 2}}, _RAW, _RAW)),
    (
        "raw calls whose fingerprints are given as well",
        {},
        (_GIVEN, {**_GIVEN, "arguments": {"p": 2}, "result": {"n": 2}}, {**_GIVEN, "result": 3}),
    ),
    (
        "two idle observations make one idle turn",
        {"window": 2},
        ({"progress": 0}, {"turn": 1, "action": 2, "progress": 0}, {"turn": 2, "progress": 0}),
    ),
    *(
        (f"refusals with {words}", _NO_REFUSALS_MAX, refusals)
        for words, refusals in (
            ("the same answer", (_SAID, _SAID, _SAID, _SAID)),
            ("another result", (_SAID, _SAID_Q, _SAID, _SAID_Q)),
            ("another state", (_SAID, _SAID_T, _SAID, _SAID_T)),
            ("a result that is not known", (_SAID, _SAID_S, _SAID, _SAID_S)),
            ("a state that is not known", (_SAID, _SAID_R, _SAID, _SAID_R)),
            ("nothing known", (_REFUSED, _REFUSED, _SAID, _REFUSED)),
        )
    ),
    (
        "a verified finish ends a streak of broken answers",
        {"error_streak": 2},
        (
            _PENDING,
            {**_DONE, "turn": 1, "action": 2},
            {**_PENDING, "turn": 1, "action": 3},
            {**_PENDING, "turn": 1, "action": 4},
        ),
    ),
    (
        "a refusal ends a streak of broken answers",
        {"error_streak": 2},
        (_PENDING, _REFUSED, _PENDING, _PENDING),
    ),
    (
        "polls without progress are not idle",
        {"window": 2, "max_waits": None},
        ({**_POLL, "progress": 0},) * 4,
    ),
    (
        "a turn with progress is not idle",
        {"window": 2},
        (_GOOD, {"turn": 1, "action": 2, "progress": 0}, {"progress": 0}, {"progress": 0}),
    ),
    ("three rounds make a cycle", {"cycle_repeats": 3}, (_X, _Y, _X, _Y, _X, _Y)),
    ("equal calls are no cycle", {"repeat": None}, (_X, _X, _X, _X, _X, _X, _X)),
    (
        "calls that repeat each other without being alike",
        {"repeat": None},
        (
            {**_ALIKE, "state_fingerprint": "s"},
            _ALIKE,
            {"tool": "x", "action_fingerprint": "x", "state_fingerprint": "s"},
            {**_ALIKE, "state_fingerprint": "s"},
        ),
    ),
)

# All runs of these lengths over these alphabets.
ALPHABETS: tuple[tuple[tuple[Record, ...], int], ...] = (
    ((_X, _GOOD, _POLL), 5),
    ((_X, _Y, _GOOD), 5),
    ((_X, _GOOD, _FAILED), 4),
    ((_FAILED, {"error_class": "e"}, {"error_class": "f"}, _GOOD), 4),
    ((_X, _POLL, {**_POLL, "progress": 1}), 4),
    ((_REFUSED, {**_REFUSED, "progress": 1}, _PENDING, _POLL, _DONE), 3),
    ((_X, {**_X, "state_fingerprint": "t"}, _RESULT, {**_RESULT, "result_fingerprint": "q"}), 4),
    ((_X, _UNKNOWN, {**_X, "progress": 0}, {**_X, "progress": 1}), 3),
)
