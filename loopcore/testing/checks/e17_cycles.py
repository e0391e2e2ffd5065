"""E17: cycles are found exactly when the definition says; waits neither hide nor cause one."""

from __future__ import annotations

from dataclasses import dataclass

from hypothesis import strategies as st
from hypothesis.strategies import DrawFn

from loopcore.testing import naive
from loopcore.testing.building import EXTENDED, Move, build_steps, number_of, roomy_policy
from loopcore.testing.checks.verdicts import compare, part, steps_of
from loopcore.testing.contract import Case, EvaluatorTarget, Judgement, Property
from loopcore.testing.naive_wire import Record, as_record
from loopcore.testing.steering import NEUTRAL_KINDS
from loopcore.testing.strategies import CYCLE_LENGTH_MAX, CYCLE_REPEATS_MAX, cut

_LENGTH_MIN = 2
_WAITS_MAX = 3


@dataclass(frozen=True, slots=True, kw_only=True)
class _Plan:
    """A run that goes round a pattern of pairs, nearly or really.

    Fields:
        pattern: the pairs of action and state; rounds: how often it is gone round.
        missing: pairs left out at the end; spoilt: place of a pair that is another one.
        before: other pairs before the pattern; waits: places before which a wait stands.
        fresh: whether every step shows fresh evidence and is progress.
    """

    pattern: tuple[tuple[int, int], ...]
    rounds: int
    missing: int = 0
    spoilt: int | None = None
    before: int = 0
    waits: frozenset[int] = frozenset()
    fresh: bool = True
    length_max: int = CYCLE_LENGTH_MAX
    repeats: int = 2


def _build(plan: _Plan) -> Case:
    policy = roomy_policy(EXTENDED)
    policy["max_cycle_length"], policy["cycle_repeats"] = plan.length_max, plan.repeats
    pairs = [(300 + n, 300 + n) for n in range(plan.before)]
    turns = [plan.pattern[n % len(plan.pattern)] for n in range(len(plan.pattern) * plan.rounds)]
    if plan.spoilt is not None:
        # The action is the same and only the state differs: both belong to the pair.
        place = plan.spoilt % len(turns)
        turns[place] = (turns[place][0], 400)
    pairs += turns[: len(turns) - plan.missing]
    moves: list[Move] = []
    for index, (action, state) in enumerate(pairs):
        if index in plan.waits:
            moves.append(Move(kind="wait", action=action, state=None))
        moves.append(
            Move(
                kind=NEUTRAL_KINDS[index % len(NEUTRAL_KINDS)],
                action=action,
                state=state,
                evidence=(1_000 + index,) if plan.fresh else (),
            )
        )
    return cut({"policy": policy, "steps": build_steps(policy, moves)})


@st.composite
def _cases(draw: DrawFn) -> Case:
    length = draw(st.sampled_from((2, 3, 2, 4, 1, 5, 6, 7)))
    repeats = draw(st.sampled_from((2, 2, 3)))
    few = st.integers(1, 3)
    # Pairs may repeat inside the pattern, so that shorter periods and equal pairs arise.
    pattern = tuple(
        (draw(few), draw(few)) if draw(st.booleans()) else (10 + n, 10 + n) for n in range(length)
    )
    total = length * repeats
    plan = _Plan(
        pattern=pattern,
        rounds=draw(st.sampled_from((repeats, repeats, repeats + 1, repeats - 1))),
        missing=draw(st.sampled_from((0, 0, 1))),
        spoilt=draw(st.none() | st.integers(0, total - 1)),
        before=draw(st.integers(0, 2)),
        waits=frozenset(draw(st.sets(st.integers(0, total), max_size=_WAITS_MAX))),
        fresh=draw(st.booleans()),
        length_max=min(
            max(_LENGTH_MIN, length + draw(st.sampled_from((0, 1, -1)))), CYCLE_LENGTH_MAX
        ),
        repeats=repeats,
    )
    return _build(plan)


def _judge(target: EvaluatorTarget, case: Case) -> Judgement:
    steps = steps_of(case)
    acts = [step for step in steps if step["action_kind"] != "wait"]
    receipt = part(naive.evaluate(case["policy"], steps), "receipt")
    if receipt is None or EXTENDED not in target.releases:
        return Judgement(vacuous=True)
    labels: list[str] = []
    if receipt["terminal"] == "nonproductive_cycle":
        labels.append(f"cycle:of length {_period(acts, case)}")
        if len(acts) < len(steps):
            labels.append("cycle:with waits")
        context = f"a cycle ends at step {len(steps) - 1}"
    else:
        labels.append("cycle:none")
        context = f"{len(acts)} actions go round no cycle"
    return compare(target, case, labels=labels, context=context)


def _period(acts: list[Record], case: Case) -> int:
    """Return the smallest period of the last pairs that makes them a cycle."""
    policy = as_record(case["policy"])
    longest = number_of(policy, "max_cycle_length")
    repeats = number_of(policy, "cycle_repeats")
    pairs = [(act["action_sha256"], act["state_after_sha256"]) for act in acts]
    for length in range(_LENGTH_MIN, longest + 1):
        window = pairs[-length * repeats :]
        if len(window) < length * repeats:
            break
        if window[length:] == window[:-length] and len(set(window[:length])) > 1:
            return length
    return 0


def _examples() -> tuple[Case, ...]:
    found: list[_Plan] = []
    for length in range(_LENGTH_MIN, CYCLE_LENGTH_MAX + 1):
        pattern = tuple((n, n) for n in range(1, length + 1))
        whole = _Plan(pattern=pattern, rounds=2, length_max=length)
        found += [
            whole,
            _Plan(pattern=pattern, rounds=2, length_max=length, missing=1),
            _Plan(pattern=pattern, rounds=2, length_max=length, spoilt=0),
            _Plan(pattern=pattern, rounds=2, length_max=length, waits=frozenset({1, length})),
        ]
        if length > _LENGTH_MIN:
            found.append(_Plan(pattern=pattern, rounds=2, length_max=length - 1))
    equal = ((1, 1), (1, 1))
    states = ((1, 1), (1, 2))
    actions = ((1, 1), (2, 1))
    found += [
        _Plan(pattern=equal, rounds=4),
        _Plan(pattern=states, rounds=2),
        _Plan(pattern=actions, rounds=2),
        _Plan(pattern=states, rounds=CYCLE_REPEATS_MAX, repeats=CYCLE_REPEATS_MAX),
        _Plan(pattern=states, rounds=CYCLE_REPEATS_MAX, repeats=CYCLE_REPEATS_MAX, missing=1),
        # The initial state is no pair, so going back to it is not yet a round.
        _Plan(pattern=((1, 1), (2, 0)), rounds=2, missing=1),
        # Equal pairs at the end of a longer window that has a period all the same.
        _Plan(pattern=((1, 1), (1, 1), (2, 2)), rounds=2),
        _Plan(pattern=((2, 2), (1, 1), (1, 1)), rounds=2),
    ]
    return tuple(_build(plan) for plan in found)


def _goals(target: EvaluatorTarget) -> frozenset[str]:
    lengths = range(_LENGTH_MIN, CYCLE_LENGTH_MAX + 1)
    return frozenset(
        {f"cycle:of length {length}" for length in lengths} | {"cycle:none", "cycle:with waits"}
    )


PROPERTY = Property(
    id="E17",
    name="cycles",
    statement=(
        "nonproductive_cycle fires exactly when the last pairs of action and state after have a "
        "period of 2 to max_cycle_length for cycle_repeats rounds and are not all equal; waits "
        "neither hide nor cause one; the detector keeps a bounded number of pairs."
    ),
    prevents=(
        "An agent goes back and forth between two states for a night, each round with a fresh "
        "evidence id that fools the progress test; or polls in between hide it."
    ),
    mutants=(
        "evaluator-cycle-off-by-one",
        "evaluator-cycle-state-ignored",
        "evaluator-cycle-equal-pairs",
        "evaluator-cycle-longest-missed",
        "evaluator-wait-in-cycle",
        "evaluator-pair-joined-as-text",
        "evaluator-cycle-window-short",
    ),
    needs=frozenset({"extended"}),
    cases=_cases,
    judge=_judge,
    examples=_examples(),
    goals=_goals,
)
