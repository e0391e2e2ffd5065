"""C10: text, turn borders, compaction and restart marks change nothing."""

from __future__ import annotations

from collections.abc import Callable
from typing import cast

from hypothesis import strategies as st
from hypothesis.strategies import DrawFn

from loopcore.control.decisions import Decision
from loopcore.testing.checks_controller.generating import ALL_OFF, in_turns, new_call
from loopcore.testing.checks_controller.playing import (
    BUDGETS,
    Fields,
    act_in,
    first_difference,
    go_on,
    limits_for,
    play,
    run_of,
    shown,
    turn_of,
)
from loopcore.testing.contract import Case, Judgement
from loopcore.testing.controller_contract import ControllerProperty, ControllerTarget

_RUN_MAX = 16
_EDIT: Fields = {
    "tool": "edit",
    "arguments": {"line": 1},
    "result": "same",
    "state_fingerprint": "s",
}
_TEST: Fields = {"tool": "test", "arguments": {}, "result": "failed", "state_fingerprint": "s"}
_READ: Fields = {"tool": "read", "arguments": {"path": "a"}, "result": "same"}
_FAILED: Fields = {**_EDIT, "error_class": "syntax"}
_TEST_FAILED: Fields = {**_TEST, "error_class": "syntax"}
_REFUSED: Fields = {"claims_done": True, "verified": False}
# A field that no protocol knows: whoever compacts a context or restarts a run may leave its mark.
_MARKS: tuple[Fields, ...] = ({"mark": "compaction"}, {"mark": "restart", "context": "cut"})


@st.composite
def _cases(draw: DrawFn) -> Case:
    """Draw a run, a change that says nothing of its calls, and the places of the change."""
    kinds: tuple[Fields, ...] = (_EDIT, _EDIT, _TEST, _TEST, _READ, _REFUSED, {"new": True})
    cycle = draw(st.lists(st.sampled_from(kinds), min_size=1, max_size=4))
    length = draw(st.integers(2, _RUN_MAX))
    steps = [cycle[place % len(cycle)] for place in range(length)]
    if draw(st.booleans()):
        error = draw(st.sampled_from(("syntax", "auth")))
        steps = [{**step, "error_class": error} if "tool" in step else step for step in steps]
    for place in draw(st.lists(st.integers(0, length - 1), max_size=2)):
        steps[place] = {**steps[place], "progress": draw(st.sampled_from((0, 1)))}
    run = [
        new_call(turn) if "new" in seen else seen
        for turn, seen in enumerate(in_turns(steps), start=1)
    ]
    limits: Fields = {
        **ALL_OFF,
        # Off now and then, since row r hides the others.
        "repeat": draw(st.none() | st.integers(2, 4)),
        "error_streak": draw(st.none() | st.integers(2, 3)),
        "cycle_max": draw(st.integers(2, 4)),
        "cycle_repeats": draw(st.integers(2, 3)),
        "max_refusals": draw(st.none() | st.integers(0, 3)),
        "window": draw(st.none() | st.integers(2, 4)),
    }
    change = draw(st.sampled_from(sorted(_CHANGES)))
    places = draw(st.lists(st.integers(0, length - 1), min_size=1, max_size=4))
    return {"limits": limits, "run": run, "change": change, "places": sorted(places)}


def _judge(target: ControllerTarget, case: Case) -> Judgement:
    run, change = run_of(case), str(case["change"])
    limits = dict(limits_for(target, case["limits"]))
    if change == "borders":
        # The window counts turns, and an error class counts once in a turn.
        limits |= {"window": None, "error_streak": None}
    before = play(target, limits, run)
    after = _CHANGES[change](target, limits, run, cast("list[int]", case["places"]))
    stop = act_in(run, before)
    index = first_difference(before, after)
    if change == "borders" and stop is not None and index is not None and index > stop.index:
        # In a longer turn the observations after a stop are still answered on their own, and a
        # recovery takes effect later.
        index = None
    if index is not None:
        left, right = before[index], after[index]
        if left.reason in BUDGETS or right.reason in BUDGETS:
            return Judgement(vacuous=True)
        finding = (
            f"observation {index + 1} is answered {shown(left)}, and {shown(right)} when only "
            f"{change} changes"
        )
        return Judgement(finding=finding, expected=shown(left), got=shown(right))
    stopped = (f"nothing changed:{change}, stopped",) if stop is not None else ()
    return Judgement(labels=(f"nothing changed:{change}", *stopped))


def _with_text(
    target: ControllerTarget, limits: Fields, run: list[Fields], places: list[int]
) -> list[Decision]:
    return _with_inserted(target, limits, run, [(place, {}) for place in places])


def _with_marks(
    target: ControllerTarget, limits: Fields, run: list[Fields], places: list[int]
) -> list[Decision]:
    marks = [(place, _MARKS[place % len(_MARKS)]) for place in places]
    return _with_inserted(target, limits, [{**seen, **_MARKS[0]} for seen in run], marks)


def _with_inserted(
    target: ControllerTarget, limits: Fields, run: list[Fields], inserted: list[tuple[int, Fields]]
) -> list[Decision]:
    """Return the answers to the run's own observations, with turns of text before some of them."""
    longer: list[Fields] = []
    kept: list[int] = []
    for index, seen in enumerate(run):
        longer += [fields for place, fields in inserted if place == index]
        kept.append(len(longer))
        longer.append(seen)
    answers = play(target, limits, in_turns(longer))
    return [answers[place] for place in kept]


def _with_skips(
    target: ControllerTarget, limits: Fields, run: list[Fields], places: list[int]
) -> list[Decision]:
    """Return the answers when numbers of turns are skipped before some of them."""
    skipped = [sum(place <= index for place in places) for index in range(len(run))]
    moved = [
        {**seen, "turn": turn_of(seen) + more} for seen, more in zip(run, skipped, strict=True)
    ]
    return play(target, limits, moved)


def _with_borders(
    target: ControllerTarget, limits: Fields, run: list[Fields], places: list[int]
) -> list[Decision]:
    """Return the answers when calls share a turn with the one before."""
    moved: list[Fields] = []
    for index, seen in enumerate(run):
        turn = turn_of(moved[-1]) if moved else 0
        together = [other for other in moved if turn_of(other) == turn]
        if index in places and together and all(_may_share(seen, other) for other in together):
            moved.append({**seen, "turn": turn, "action": len(together) + 1})
        else:
            moved.append({**seen, "turn": turn + 1, "action": 1})
    return play(target, limits, moved)


def _may_share(one: Fields, other: Fields) -> bool:
    """Return whether two observations count alike in one turn: different calls, equal progress."""
    both = "tool" in one and "tool" in other and one["tool"] != other["tool"]
    return both and one.get("progress") == other.get("progress")


def _with_restarts(
    target: ControllerTarget, limits: Fields, run: list[Fields], places: list[int]
) -> list[Decision]:
    """Return the answers when the run is begun anew and played again up to some places."""
    answers = play(target, limits, run[: places[0]])
    for place, following in zip(places, [*places[1:], len(run)], strict=True):
        play(target, limits, run[:place])
        answers += go_on(target, run[place:following])
    return answers


_Change = Callable[[ControllerTarget, Fields, list[Fields], list[int]], list[Decision]]
_CHANGES: dict[str, _Change] = {
    "text": _with_text,
    "marks": _with_marks,
    "skips": _with_skips,
    "borders": _with_borders,
    "restarts": _with_restarts,
}


def _example(change: str, steps: list[Fields], places: list[int], **limits: object) -> Case:
    return {
        "limits": {**ALL_OFF, **limits},
        "run": in_turns(steps),
        "change": change,
        "places": places,
    }


def _goals(target: ControllerTarget) -> frozenset[str]:
    # A controller that is told of no call has no streak that a change could touch.
    endings = ("", ", stopped") if "arguments" in target.needs else ("",)
    return frozenset(f"nothing changed:{change}{end}" for change in _CHANGES for end in endings)


PROPERTY = ControllerProperty(
    id="C10",
    name="marks",
    statement=(
        "Turns of text, the borders of turns, marks of compaction and restarts neither reset nor "
        "extend a streak: every other observation is answered as without them."
    ),
    prevents=(
        "A loop of a hundred equal calls is never seen because the context was compacted, or the "
        "process restarted, before each threshold was reached."
    ),
    mutants=(
        "detectors-text-resets-repetition",
        "detectors-text-resets-run",
        "detectors-text-resets-cycle",
    ),
    judges_stops=False,
    cases=_cases,
    judge=_judge,
    examples=tuple(
        _example(change, steps, [1, 2, 4], repeat=3, cycle_max=2, cycle_repeats=2)
        for change in _CHANGES
        for steps in ([_EDIT] * 12, [_EDIT, _TEST] * 6)
    )
    + tuple(
        _example(change, [_FAILED, _TEST_FAILED] * 4, [1, 2, 4], error_streak=4)
        for change in _CHANGES
    ),
    goals=_goals,
)
