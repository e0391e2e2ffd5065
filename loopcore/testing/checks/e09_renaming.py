"""E09: digests are names; renaming all of them by a bijection changes no verdict."""

from __future__ import annotations

import hashlib
from collections.abc import Callable
from typing import cast

from hypothesis import strategies as st
from hypothesis.strategies import DrawFn

from loopcore.testing.building import (
    EXTENDED,
    Move,
    array_of,
    build_steps,
    object_of,
    roomy_policy,
)
from loopcore.testing.checks.verdicts import (
    VERDICT,
    difference,
    evaluate,
    is_undeclared,
    judged,
    part,
    steps_of,
)
from loopcore.testing.contract import Answer, Case, EvaluatorTarget, Judgement, Property
from loopcore.testing.naive_wire import DIGEST_LENGTH, RELEASES, Record
from loopcore.testing.steering import Choices, fire
from loopcore.testing.strategies import defective_traces, long_traces, traces, traces_firing

_FIELDS = (*VERDICT, "usage", "verified_progress_steps", "started_at_unix_ms", "ended_at_unix_ms")
_CHARACTERS = 8


def _hashed(number: int) -> str:
    return hashlib.sha256(f"renamed {number}".encode()).hexdigest()


# How the n-th distinct digest is renamed. The middle ones differ in one end only, and the last
# gives the numbers that programs like to treat as nothing to real values.
_STYLES: dict[str, Callable[[int], str]] = {
    "hashes": _hashed,
    "long common beginning": lambda n: (
        "7" * (DIGEST_LENGTH - _CHARACTERS) + _hashed(n)[:_CHARACTERS]
    ),
    "long common end": lambda n: _hashed(n)[:_CHARACTERS] + "7" * (DIGEST_LENGTH - _CHARACTERS),
    "order turned round": lambda n: f"{16**DIGEST_LENGTH - 1 - n:064x}",
    "from zero": lambda n: f"{n:064x}",
}


def _rename(value: object, names: dict[str, str], style: Callable[[int], str]) -> object:
    """Return a value with every digest replaced; `names` holds those met so far."""
    record = object_of(value)
    if record is not None:
        return {
            key: _rename(child, names, style) if _holds_digests(key) else child
            for key, child in record.items()
        }
    if isinstance(value, list):
        return [_rename(child, names, style) for child in array_of(cast("object", value))]
    if isinstance(value, str):
        return names.setdefault(value, style(len(names)))
    return value


def _holds_digests(key: str) -> bool:
    return key.endswith("sha256")


def _renamed(policy: object, steps: list[dict[str, object]], style: str) -> tuple[object, object]:
    names: dict[str, str] = {}
    rule = _STYLES[style]
    return _rename(policy, names, rule), [_rename(step, names, rule) for step in steps]


@st.composite
def _cases(draw: DrawFn) -> Case:
    trace = draw(traces() | traces_firing() | long_traces() | defective_traces())
    style = draw(st.sampled_from(tuple(_STYLES)))
    return {"policy": trace["policy"], "steps": trace["steps"], "style": style}


def _judge(target: EvaluatorTarget, case: Case) -> Judgement:
    if is_undeclared(target, case["policy"]):
        return Judgement(vacuous=True)
    style = str(case["style"])
    before = evaluate(target, case["policy"], case["steps"])
    after = evaluate(target, *_renamed(case["policy"], steps_of(case), style))
    context = f"with all digests renamed ({style})"
    finding = difference(_readable(before), after, _FIELDS)
    return judged(finding, before, after, (f"renamed:{style}",), context)


def _readable(answer: Answer) -> Answer:
    """Return an answer with every field that is compared, absent ones as null."""
    receipt, error = part(answer, "receipt"), part(answer, "error")
    if receipt is not None:
        return {"receipt": {**dict.fromkeys(_FIELDS), **receipt}}
    if error is not None:
        return {"error": {**dict.fromkeys(("code", "path", "step")), **error}}
    return answer


def _alternating() -> Record:
    """Return a run in which two actions alternate and no state comes again: no cycle."""
    policy = roomy_policy(EXTENDED)
    policy["max_cycle_length"] = policy["cycle_repeats"] = 2
    moves = [Move(action=n % 2, state=n, evidence=(n,)) for n in range(1, 5)]
    return {"policy": policy, "steps": build_steps(policy, moves)}


PROPERTY = Property(
    id="E09",
    name="renaming",
    statement=(
        "Replacing every digest by another one, different ones by different ones, changes no "
        "terminal, count or error."
    ),
    prevents=(
        "Two different actions are taken for one because their digests begin alike, or a digest of "
        "zeros is taken for none, and a run is stopped for a repetition that never was."
    ),
    mutants=("evaluator-digest-prefix-compared", "evaluator-pair-joined-as-text"),
    cases=_cases,
    judge=_judge,
    examples=tuple(
        {**fire(release, outcomes, Choices(prefix=2, tail=3)), "style": style}
        for release in RELEASES
        for outcomes in (("repeated_action",), ("completed",), ("step_budget_exhausted",))
        for style in _STYLES
    )
    + tuple({**_alternating(), "style": style} for style in _STYLES),
    goals=lambda target: frozenset(f"renamed:{style}" for style in _STYLES),
)
