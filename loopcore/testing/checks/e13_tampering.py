"""E13: a replay finds every change of a value, and every flipped bit of its canonical bytes."""

from __future__ import annotations

from typing import cast

from hypothesis import strategies as st
from hypothesis.strategies import DrawFn

from loopcore.testing import naive
from loopcore.testing.building import array_of
from loopcore.testing.checks.verdicts import (
    evaluate,
    is_undeclared,
    judged,
    part,
    same,
    shown,
    spell,
    steps_of,
)
from loopcore.testing.contract import Case, EvaluatorTarget, Judgement, Property
from loopcore.testing.damage import as_base64, from_base64
from loopcore.testing.naive_wire import (
    INTEGER_MAX,
    KINDS,
    RELEASES,
    Record,
    as_record,
    canonical,
    digest_of,
)
from loopcore.testing.pairs import OUTCOMES
from loopcore.testing.steering import Choices, fire
from loopcore.testing.strategies import list_of, traces

_OWN = "receipt_sha256"
_BITS = 8
_LF = ord("\n")


def _other_value(value: object, way: int) -> object:
    """Return another value that the field may have; `way` says which."""
    if isinstance(value, int):
        return (value + 1, max(value - 1, 0), INTEGER_MAX, 0)[way % 4]
    if isinstance(value, list):
        listed = array_of(cast("object", value))
        return listed[:-1] if listed and way % 2 else [*listed, "c" * 64]
    if value is None:
        return (0, "c" * 64)[way % 2]
    text = str(value)
    for names in (OUTCOMES, KINDS, RELEASES):
        if text in names:
            return names[(names.index(text) + 1 + way) % len(names)]
    return (text[:-1] + ("0" if text[-1:] != "0" else "1"), None)[int(way % 5 == 4)]  # noqa: PLR2004


def _change(record: Record, field: str, way: int) -> Record:
    return {**record, field: _other_value(record[field], way)}


def _changed(trace: Record, part_name: str, index: int, field: int, way: int) -> Case:
    """Return a case in which one field of one part has another value."""
    policy, steps = as_record(trace["policy"]), list_of(trace["steps"])
    case: Case = {"policy": policy, "steps": steps, "part": part_name}
    if part_name == "policy":
        name = tuple(policy)[field % len(policy)]
        case["changed"] = _change(policy, name, way)
    elif part_name == "receipt":
        receipt = as_record(naive.evaluate(policy, steps)["receipt"])
        name = tuple(receipt)[field % len(receipt)]
        case["changed"] = _change(receipt, name, way)
    else:
        place = index % len(steps)
        name = tuple(steps[place])[field % len(steps[place])]
        case["changed"] = [*steps[:place], _change(steps[place], name, way), *steps[place + 1 :]]
    return case


def _flipped(trace: Record, part_name: str, place: int, bit: int) -> Case:
    """Return a case in which one bit of the canonical bytes of one part is turned."""
    policy, steps = trace["policy"], trace["steps"]
    value = policy if part_name == "policy" else steps
    if part_name == "receipt":
        value = naive.evaluate(policy, steps)["receipt"]
    data = bytearray(canonical(value))
    data[place % len(data)] ^= 1 << bit
    flipped = as_base64(bytes(data))
    return {"policy": policy, "steps": steps, "part": part_name, "flipped": flipped}


@st.composite
def _cases(draw: DrawFn) -> Case:
    trace = draw(traces())
    steps = list_of(trace["steps"])
    part_name = draw(st.sampled_from(("policy", "steps", "receipt")))
    if part_name == "steps" and not steps:
        part_name = "policy"
    number = st.integers(0, 2**16)
    if draw(st.booleans()):
        return _flipped(trace, part_name, draw(number), draw(st.integers(0, _BITS - 1)))
    return _changed(
        trace, part_name, draw(st.integers(0, 9)), draw(number), draw(st.integers(0, 9))
    )


def _judge(target: EvaluatorTarget, case: Case) -> Judgement:
    policy, steps, part_name = case["policy"], steps_of(case), str(case["part"])
    if is_undeclared(target, policy):
        return Judgement(vacuous=True)
    answer = evaluate(target, policy, steps)
    receipt = part(answer, "receipt")
    if receipt is None:
        return judged("a well formed trace gave no receipt", None, answer)
    finding = _binding(receipt, policy, steps)
    if finding is not None:
        return judged(finding, None, answer)
    way = "flipped" if "flipped" in case else "changed"
    label = f"tampered:{part_name} {way}"
    if part_name == "receipt":
        return _judge_claim(case, receipt, label)
    if way == "changed":
        value = case["changed"]
        if same(value, case[part_name]):
            return Judgement(vacuous=True)
        pair = (value, steps) if part_name == "policy" else (policy, value)
        after = evaluate(target, *pair)
    else:
        data = from_base64(case["flipped"])
        if target.wire != "bytes" or _LF in data:
            return Judgement(vacuous=True)
        texts = {"policy": canonical(policy), "steps": canonical(steps), part_name: data}
        after = target.evaluate_text(texts["policy"], texts["steps"])
    replayed = part(after, "receipt")
    if replayed is not None and same(replayed.get(_OWN), receipt.get(_OWN)):
        finding = (
            f"the {part_name} changed and the receipt's digest is still {shown(receipt[_OWN])}"
        )
    return judged(finding, answer, after, (label,))


def _binding(receipt: Record, policy: object, steps: list[Record]) -> str | None:
    """Return in words which digest of the receipt does not name what it should, or None."""
    body = {name: value for name, value in receipt.items() if name != _OWN}
    named = {
        "policy_sha256": ("the policy", policy),
        "steps_sha256": ("the steps", steps),
        _OWN: ("the receipt without it", body),
    }
    for name, (what, value) in named.items():
        if not same(receipt.get(name), digest_of(value)):
            return f"{name} is not the digest of {what}"
    return None


def _judge_claim(case: Case, receipt: Record, label: str) -> Judgement:
    """Return whether a changed receipt is told from the one that the target gives."""
    if "changed" in case:
        claimed = case["changed"]
        as_it_was = naive.evaluate(case["policy"], case["steps"])["receipt"]
        if same(claimed, as_it_was):
            return Judgement(vacuous=True)
        found = not same(claimed, receipt)
    else:
        # Only the same bytes could be taken for the receipt that was given.
        found = from_base64(case["flipped"]) != spell_canonical(receipt)
    finding = None if found else "a changed receipt is the one that the target gives"
    return judged(finding, None, receipt, (label,))


def spell_canonical(receipt: Record) -> bytes:
    """Return the canonical bytes of an answer's receipt, or other bytes where it has none."""
    try:
        return canonical(receipt)
    except (TypeError, ValueError):
        return spell(receipt).encode("utf-8", "replace")


def _goals(target: EvaluatorTarget) -> frozenset[str]:
    ways = ("changed", "flipped") if target.wire == "bytes" else ("changed",)
    goals = {f"tampered:{name} {way}" for name in ("policy", "steps") for way in ways}
    return frozenset({*goals, "tampered:receipt changed", "tampered:receipt flipped"})


def _examples() -> tuple[Case, ...]:
    found: list[Case] = []
    for release in RELEASES:
        trace = fire(release, ("completed",), Choices(prefix=1))
        policy, step = as_record(trace["policy"]), list_of(trace["steps"])[0]
        found += [_changed(trace, "policy", 0, field, 0) for field in range(len(policy))]
        found += [_changed(trace, "steps", 0, field, 0) for field in range(len(step))]
        found += [_changed(trace, "receipt", 0, field, 0) for field in range(14)]
        found += [_flipped(trace, name, 40, 0) for name in ("policy", "steps", "receipt")]
    return tuple(found)


PROPERTY = Property(
    id="E13",
    name="tampering",
    statement=(
        "Any change of a value in policy, steps or receipt, and any flipped bit of their canonical "
        "bytes, gives another receipt or an error: the three digests name exactly what they should."
    ),
    prevents=(
        "Somebody raises a bound, drops a charge or edits a verdict after the fact, and the "
        "receipt still fits."
    ),
    mutants=(
        "evaluator-policy-digest-of-bounds-only",
        "evaluator-steps-digest-unordered",
        "evaluator-receipt-digest-without-usage",
    ),
    cases=_cases,
    judge=_judge,
    examples=_examples(),
    goals=_goals,
)
