"""Traces in which given outcomes fire together on the last step, by construction.

Theory of operation: the last step gets a shape that satisfies all wanted outcomes, the steps before
it supply what streaks and cycles need, and the bounds are fitted to the figures that come of it:
the wanted ones so that they fire on the last step and on none before, the others so that they pass.

Source: spec evaluator, sections 3 and 4.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

from loopcore.testing.building import (
    BOUND_OF,
    EXTENDED,
    ROOMY,
    Move,
    bounds_of,
    build_steps,
    firing_bound,
    fit_bound,
    measure,
    roomy_policy,
)
from loopcore.testing.naive_wire import Record
from loopcore.testing.pairs import Shape, shapes_firing, usage_rules

NEUTRAL_KINDS = ("model_generation", "tool_call", "verification", "repair")


@dataclass(frozen=True, slots=True, kw_only=True)
class Choices:
    """What steering leaves open; every value gives a trace that does what was wanted.

    Fields:
        prefix: productive steps before the tail; tail: steps of a streak.
        cycle_length, cycle_repeats: of the cycle, where one is wanted.
        shape: which of the fitting shapes; kinds: which kinds the earlier steps have.
        delta: how much the last step spends of the cost and tokens that shall run out.
        waits: how many waits stand before the last steps, where the release has them; after an
            odd number of them they take the action of the step that follows.
        room: 0 leaves the other bounds far away, n > 0 at n − 1 beyond what the run needs.
    """

    prefix: int = 0
    tail: int = 1
    cycle_length: int = 2
    cycle_repeats: int = 2
    shape: int = 0
    kinds: int = 0
    delta: int = 1
    waits: int = 0
    room: int = 0


def fire(release: str, outcomes: Sequence[str], choices: Choices | None = None) -> Record:
    """Return a trace, policy and steps, whose last step fires the outcomes and none above them.

    Raises ValueError when no step can fire them together.
    """
    choices = choices or Choices()
    fitting = shapes_firing(outcomes, usage_rules(release))
    if not fitting:
        raise ValueError(f"{' and '.join(outcomes)} cannot fire on one step")
    shape = fitting[choices.shape % len(fitting)]
    moves = [*_prefix(outcomes, choices), *_tail(outcomes, choices)]
    moves[-1] = _last(moves[-1], outcomes, shape, choices)
    if release == EXTENDED:
        moves = _with_waits(moves, choices.waits)
    policy = roomy_policy(release)
    steps = build_steps(policy, moves)
    _fit(policy, steps, outcomes, choices)
    return {"policy": policy, "steps": steps}


def _prefix(outcomes: Sequence[str], choices: Choices) -> list[Move]:
    """Return productive moves that share no action, state or evidence with anything else."""
    # One step is always permitted, so the step budget needs two.
    count = max(choices.prefix, int("step_budget_exhausted" in outcomes))
    return [_productive(100 + number, choices.kinds + number) for number in range(count)]


def _productive(number: int, kind: int) -> Move:
    return Move(
        kind=NEUTRAL_KINDS[kind % len(NEUTRAL_KINDS)],
        action=number,
        state=number,
        evidence=(number,),
    )


def _tail(outcomes: Sequence[str], choices: Choices) -> list[Move]:
    """Return the moves that build up the wanted streaks and cycle, as yet all productive."""
    is_cycle = "nonproductive_cycle" in outcomes
    is_repeat = "repeated_action" in outcomes
    count = choices.tail
    if is_cycle:
        count = choices.cycle_length * choices.cycle_repeats
    elif is_repeat:
        count = max(count, 2)
    moves: list[Move] = []
    for index in range(count):
        move = _productive(10 + index, choices.kinds + index)
        if is_cycle:
            place = 10 + index % choices.cycle_length
            move = replace(move, action=place, state=place)
        if is_repeat:
            move = replace(move, action=1)
        is_idle = "no_progress" in outcomes and index >= count - choices.tail
        moves.append(replace(move, evidence=()) if is_idle else move)
    return moves


def _last(move: Move, outcomes: Sequence[str], shape: Shape, choices: Choices) -> Move:
    """Return the last move in its shape, spending what shall run out."""
    fresh = (1,) if shape.proven or "evidence_budget_exhausted" in outcomes else move.evidence
    is_idle = "no_progress" in outcomes
    return replace(
        move,
        kind=shape.kind,
        deltas=shape.deltas,
        outcome=shape.outcome,
        evidence=fresh,
        # With fresh evidence only an unchanged state keeps a step from being progress.
        state=None if is_idle and fresh else move.state,
        proof=1 if shape.proven else None,
        cost=choices.delta if "cost_budget_exhausted" in outcomes else 0,
        input_tokens=choices.delta if "input_token_budget_exhausted" in outcomes else 0,
        output_tokens=choices.delta if "output_token_budget_exhausted" in outcomes else 0,
    )


def _with_waits(moves: list[Move], count: int) -> list[Move]:
    """Return the moves with a wait before each of the last `count` ones."""
    longer: list[Move] = []
    for index, move in enumerate(moves):
        if index >= len(moves) - count:
            longer.append(Move(kind="wait", action=move.action if count % 2 else 90 + index))
        longer.append(move)
    return longer


def _fit(policy: Record, steps: list[Record], outcomes: Sequence[str], choices: Choices) -> None:
    """Set the bounds in place so that the wanted outcomes fire last and all others pass."""
    release = str(policy["evaluator_release"])
    figures = measure(steps)
    wanted = {BOUND_OF[outcome] for outcome in outcomes if outcome in BOUND_OF}
    for field in bounds_of(release):
        if field in wanted:
            fit_bound(policy, field, firing_bound(field, figures[-1][field]))
        elif choices.room:
            highest = max(figure[field] for figure in figures)
            fit_bound(policy, field, firing_bound(field, highest) + choices.room)
        elif policy[field] is not None:
            fit_bound(policy, field, ROOMY)
    if "nonproductive_cycle" in outcomes:
        assert release == EXTENDED
        policy["max_cycle_length"] = choices.cycle_length
        policy["cycle_repeats"] = choices.cycle_repeats
