"""C06: under `verify` a premature finish is rejected, and the loop goes on within the limit."""

from __future__ import annotations

from typing import cast

from hypothesis import strategies as st
from hypothesis.strategies import DrawFn

from loopcore.testing.checks_controller.generating import ALL_OFF, new_call
from loopcore.testing.checks_controller.playing import (
    BUDGETS,
    COMPLETED,
    Fields,
    is_good,
    limits_for,
    play,
    run_of,
    shown,
    turn_of,
)
from loopcore.testing.contract import Case, Judgement
from loopcore.testing.controller_contract import ControllerProperty, ControllerTarget

_RUN_MAX = 16
_WORDS: dict[str, str] = {
    "claim:accepted": "a verified finish",
    "claim:rejected": "a refused finish within the limit",
    "claim:pending": "a finish that the verifier could not judge",
    "": "a new call",
}
_EVENTS = ("work", "work", "gain", "refused", "refused", "refused", "pending")


@st.composite
def _cases(draw: DrawFn) -> Case:
    """Draw a run of ever new calls in which the agent says again and again that it is done."""
    allowed = draw(st.none() | st.integers(0, 4))
    events = draw(st.lists(st.sampled_from(_EVENTS), min_size=1, max_size=_RUN_MAX))
    ends = draw(st.booleans())
    on_calls = draw(st.booleans())
    run = _run([*events, *(["verified"] if ends else [])], on_calls=on_calls)
    return {"limits": {**ALL_OFF, "max_refusals": allowed, "window": 3}, "run": run}


def _run(events: list[str], *, on_calls: bool) -> list[Fields]:
    """Return the run; a claim stands on a call, or on a turn that dispatches nothing."""
    run: list[Fields] = []
    for turn, event in enumerate(events, start=1):
        call = new_call(turn)
        if event == "work":
            run.append(call)
            continue
        if event == "gain":
            run.append({**call, "progress": 1})
            continue
        verified = {"refused": False, "pending": None, "verified": True}[event]
        bare: Fields = {name: call[name] for name in ("turn", "action", "state_fingerprint")}
        claim: Fields = {"claims_done": True, "verified": verified}
        run.append({**(call if on_calls else bare), **claim})
    return run


def _judge(target: ControllerTarget, case: Case) -> Judgement:
    limits, run = limits_for(target, case["limits"]), run_of(case)
    allowed = cast("int | None", limits["max_refusals"])
    refusals = 0
    labels: list[str] = []
    for seen, said in zip(run, play(target, limits, run), strict=True):
        if is_good(limits, seen):
            refusals = 0
        claims, verified = seen.get("claims_done") is True, seen.get("verified")
        refusals += claims and verified is False
        if said.decision == "stop" and said.reason in BUDGETS:
            break
        if allowed is not None and refusals > allowed:
            labels.append("claim:past the limit")
            break
        if claims and verified is True:
            due, label = f"stop({COMPLETED})", "claim:accepted"
        elif claims and verified is False:
            due, label = "reject_finish(invalid_completion)", "claim:rejected"
        else:
            due, label = "continue", "claim:pending" if claims else ""
        if shown(said) != due and not (label != "claim:rejected" and said.decision == "warn"):
            what = _WORDS[label]
            finding = f"{what} in turn {turn_of(seen)} is answered {shown(said)}, and {due} is due"
            return Judgement(finding=finding, expected=due, got=shown(said))
        labels += [label] if label else []
    return Judgement(labels=tuple(labels), vacuous=not labels)


PROPERTY = ControllerProperty(
    id="C06",
    name="rejected-finishes",
    statement=(
        "Under the gate verify a finish that the verifier refuses is answered by reject_finish, "
        "and the run goes on while refusals since the last progress are within max_refusals; a "
        "verified finish completes."
    ),
    prevents=(
        "An agent's word that it is done ends the run as a success although the check failed, or "
        "the first refused finish throws away a run that would have been repaired."
    ),
    mutants=(
        "gates-refusals-ge",
        "gates-false-claim-completes",
        "gates-good-keeps-refusals",
    ),
    cases=_cases,
    judge=_judge,
    examples=tuple(
        {
            "limits": {**ALL_OFF, "max_refusals": 2, "window": 3},
            "run": _run(
                ["refused", "work", "refused", "gain", "refused", "pending", "refused", last],
                on_calls=on_calls,
            ),
        }
        for last in ("verified", "refused")
        for on_calls in (True, False)
    ),
    goals=lambda target: frozenset({"claim:rejected", "claim:accepted", "claim:pending"}),
)
