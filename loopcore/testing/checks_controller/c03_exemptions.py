"""C03: repeatable tools are exempt from repetition and not from progress; waits are from both."""

from __future__ import annotations

from typing import cast

from hypothesis import strategies as st
from hypothesis.strategies import DrawFn

from loopcore.testing.checks_controller.generating import ALL_OFF, in_turns, new_call
from loopcore.testing.checks_controller.playing import (
    Fields,
    act_in,
    first_difference,
    is_detection,
    limits_for,
    play,
    run_of,
    shown,
    told,
)
from loopcore.testing.contract import Case, Judgement
from loopcore.testing.controller_contract import ControllerProperty, ControllerTarget

_READ: Fields = {"tool": "read", "arguments": {"path": "a"}, "result": "same"}
_POLL: Fields = {"tool": "poll", "arguments": {"job": 1}, "result": "running"}
_SLEEP: Fields = {"tool": "sleep", "arguments": {}, "result": "same"}
_EDIT: Fields = {"tool": "edit", "arguments": {"line": 1}, "result": "same"}
_TEST: Fields = {"tool": "test", "arguments": {}, "result": "failed"}
_TOOLS: Fields = {
    "read": {"repeatable": True},
    "poll": {"wait": True},
    "sleep": {"wait": True},
}
_RUN_MAX = 14
_FORMS = ("repeatable", "unproductive", "waits", "inserted")


def _limits(**changes: object) -> Fields:
    return {**ALL_OFF, "tools": _TOOLS, **changes}


@st.composite
def _cases(draw: DrawFn) -> Case:
    """Draw one of four forms: what must not be stopped, what must be, and waits thrown in."""
    form = draw(st.sampled_from(_FORMS))
    repeat, window = draw(st.integers(2, 4)), draw(st.integers(1, 6))
    cycles: Fields = {
        "cycle_max": draw(st.integers(2, 4)),
        "cycle_repeats": draw(st.integers(2, 3)),
    }
    state = draw(st.sampled_from(("s", None)))
    if form == "repeatable":
        steps = draw(
            st.lists(st.sampled_from((_READ, _READ, _READ, {})), min_size=4, max_size=_RUN_MAX)
        )
        limits = _limits(repeat=repeat, window=window, error_streak=2, **cycles)
        return {"form": form, "limits": limits, "run": _run(steps, None, state)}
    if form == "unproductive":
        length = draw(st.integers(window, window + 4))
        run = _run([_READ] * length, draw(st.sampled_from((0, 0, -1))), state)
        return {"form": form, "limits": _limits(repeat=repeat, window=window), "run": run}
    if form == "waits":
        stale = draw(st.sampled_from((None, 0)))
        steps = draw(
            st.lists(st.sampled_from((_POLL, _POLL, _SLEEP)), min_size=3, max_size=_RUN_MAX)
        )
        most = max(steps.count(_POLL), steps.count(_SLEEP)) + 1
        limits = _limits(repeat=repeat, window=window, max_waits=most, error_streak=2, **cycles)
        return {"form": form, "limits": limits, "run": _run(steps, stale, state)}
    kinds = st.sampled_from((_EDIT, _EDIT, _EDIT, _TEST, _READ, {}))
    steps = draw(st.lists(kinds, min_size=2, max_size=_RUN_MAX))
    run = _run(steps, draw(st.sampled_from((None, 0, 0))), state)
    places = draw(st.lists(st.integers(0, len(run) - 1), min_size=1, max_size=_RUN_MAX))
    limits = _limits(repeat=repeat, window=draw(st.none() | st.just(window)), **cycles)
    return {
        "form": form,
        "limits": limits,
        "run": run,
        "waits before": sorted(places),
        "waits bring": draw(st.sampled_from((0, 0, 1))),
    }


def _run(steps: list[Fields], progress: int | None, state: str | None) -> list[Fields]:
    fields: Fields = {} if progress is None else {"progress": progress}
    known: Fields = {} if state is None else {"state_fingerprint": state}
    return in_turns([{**step, **fields, **(known if step else {})} for step in steps])


def _judge(target: ControllerTarget, case: Case) -> Judgement:
    form, limits, run = str(case["form"]), limits_for(target, case["limits"]), run_of(case)
    if form == "unproductive" and "progress" not in target.needs:
        return Judgement(vacuous=True)
    answers = play(target, limits, run)
    # A controller that recovers from a detection has made it all the same.
    stop = act_in(run, answers)
    labels = (f"exempt:{form}",)
    if form == "inserted":
        return _judge_inserted(target, limits, case)
    if form == "unproductive":
        due = cast("int", limits["window"])
        if stop is None or stop.turn > due:
            finding = f"a repeatable tool without progress is not stopped by turn {due}, the window"
            return Judgement(finding=finding, expected={"turn": due}, got=told(stop))
        return Judgement(labels=labels)
    if stop is not None and is_detection(stop):
        what = "a repeatable tool" if form == "repeatable" else "a wait below its bound"
        finding = f"{what} is stopped in turn {stop.turn} by {stop.reason}"
        return Judgement(finding=finding, expected=None, got=told(stop))
    return Judgement(labels=labels)


def _judge_inserted(target: ControllerTarget, limits: Fields, case: Case) -> Judgement:
    """Judge whether waits between the calls change an answer to one of the calls."""
    run = run_of(case)
    places = cast("list[int]", case["waits before"])
    longer: list[Fields] = []
    kept: list[int] = []
    for index, seen in enumerate(run):
        longer += [{**_POLL, "progress": case["waits bring"]}] * places.count(index)
        kept.append(len(longer))
        longer.append(seen)
    without = play(target, limits, run)
    answers = play(target, limits, in_turns(longer))
    found = first_difference(without, [answers[place] for place in kept])
    if found is not None:
        left, right = shown(without[found]), shown(answers[kept[found]])
        finding = f"call {found + 1} is answered {left}, and {right} with waits before it"
        return Judgement(finding=finding, expected=left, got=right)
    stopped = act_in(run, without) is not None
    return Judgement(
        labels=("exempt:inserted", *(("exempt:inserted, stopped",) if stopped else ()))
    )


def _goals(target: ControllerTarget) -> frozenset[str]:
    names = [form for form in _FORMS if form != "unproductive" or "progress" in target.needs]
    return frozenset(f"exempt:{name}" for name in [*names, "inserted, stopped"])


_REPEATED = [_EDIT] * 5
PROPERTY = ControllerProperty(
    id="C03",
    name="exemptions",
    statement=(
        "A tool marked repeatable is never stopped for repetition, yet is stopped (or made to "
        "recover) by the window of turns without progress; a tool marked wait is stopped by "
        "neither, and neither extends nor resets a streak of other calls."
    ),
    prevents=(
        "Polling a slow job is taken for a loop, or one poll between two equal calls hides the "
        "loop that they are; and a tool once marked repeatable may be repeated for ever."
    ),
    mutants=(
        "detectors-repetition-repeatable-stopped",
        "detectors-run-repeatable-stopped",
        "detectors-cycle-of-one",
    ),
    inputs=frozenset({"call", "arguments"}),
    cases=_cases,
    judge=_judge,
    examples=(
        {
            "form": "repeatable",
            "limits": _limits(repeat=2, window=2, cycle_max=3, cycle_repeats=2),
            "run": _run([_READ] * 6, None, "s"),
        },
        {
            "form": "unproductive",
            "limits": _limits(repeat=2, window=3),
            "run": _run([_READ] * 6, 0, "s"),
        },
        {
            "form": "waits",
            "limits": _limits(repeat=2, window=2, max_waits=9, error_streak=2),
            "run": _run([_POLL] * 8, 0, "s"),
        },
        {
            "form": "inserted",
            "limits": _limits(repeat=4),
            "run": _run(_REPEATED, None, "s"),
            "waits before": [1, 1, 3],
            "waits bring": 1,
        },
        {
            "form": "inserted",
            "limits": _limits(window=5),
            "run": in_turns([new_call(turn, progress=0) for turn in range(1, 7)]),
            "waits before": [0, 2, 2],
            "waits bring": 0,
        },
    ),
    goals=_goals,
)
