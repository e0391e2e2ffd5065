"""Speed of the evaluator and of the stop times over columns, beside the scalar ones and the memory.

    python bench/batch_ratios.py            the whole table, about a minute
    python bench/batch_ratios.py --check    exit status 1 when the stated bound does not hold

Theory of operation: a few hundred traces (runs of the worlds) are decided one at a time and as
columns; the two must agree, or nothing is measured. Then their columns are repeated side by side to
the size that is stated, so the scalar and the batch figure are of the same steps. The pieces are
timed in turn, round after round, in the thread's own processor time; minimum and median are
printed. The memory floor is what nobody can avoid: to read the same bytes once, and to copy them.

A step of a trace that has ended does not count, so shorter traces make a counted step dearer.
"""

from __future__ import annotations

import argparse
import hashlib
import random
import statistics
import sys
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, fields, replace
from functools import partial
from typing import TypeAlias, cast

import msgspec
import numpy as np

from loopcore.batch.columns import Columns, Int32s, Int64s
from loopcore.batch.evaluator import TERMINALS, decide
from loopcore.batch.evidence import evidence_of
from loopcore.batch.interning import columns
from loopcore.batch.stop_times import STOP_LEVELS, stop_times
from loopcore.batch.traces import PolicyColumns, TraceColumns, columns_of
from loopcore.control.levels import controller
from loopcore.control.limits import Limits
from loopcore.control.observations import Observation
from loopcore.evaluator import Run
from loopcore.models import ActionKind, Outcome, Policy, Step
from loopcore.terminals import EXTENDED, REFERENCE
from loopcore.worlds.model import APPLICATIONS
from loopcore.worlds.playing import tool_policies, trajectory
from loopcore.worlds.tasks import tasks

TRACES = 256
COPIES = 64
STEPS = 64
RUNS = 64
RUN_COPIES = 256
HORIZON = 120
ROUNDS = 15
DECISION_NS_MAX = 25

Trace: TypeAlias = "tuple[Policy, tuple[Step, ...]]"

# A kind with the calls that it charges: model, tool, repairs.
Charge: TypeAlias = "tuple[ActionKind, tuple[int, int, int]]"

_MODEL: Charge = ("model_generation", (1, 0, 0))
_TOOL: Charge = ("tool_call", (0, 1, 0))
_VERIFICATION: Charge = ("verification", (0, 0, 0))
_REPAIR: Charge = ("repair", (0, 0, 1))
_MODEL_REPAIR: Charge = ("repair", (1, 0, 1))
_WAIT: Charge = ("wait", (0, 1, 0))
# As often as they are drawn.
_DRAWN = (*(_MODEL, _TOOL) * 8, _VERIFICATION, _VERIFICATION, _REPAIR, _MODEL_REPAIR)


def name(text: str) -> str:
    """Return a digest that stands for a text."""
    return hashlib.sha256(text.encode()).hexdigest()


def policy(release: str) -> Policy:
    """Return a policy whose every bound can be met by a trace of STEPS steps."""
    extended = release == EXTENDED
    return msgspec.convert(
        {
            "schema": "loopcore/policy/1",
            "policy_id": "bench",
            "evaluator_release": release,
            "run_envelope_sha256": name("envelope"),
            "behavior_spec_sha256": name("specification"),
            "initial_state_sha256": name("state 0"),
            "started_at_unix_ms": 1_700_000_000_000,
            "deadline_unix_ms": 1_700_000_000_000 + 1_000 * STEPS,
            "max_steps": STEPS - 1,
            "max_model_calls": 36,
            "max_tool_calls": 36,
            "max_repairs": 12,
            "max_cost_microunits": 1_250 * STEPS,
            "max_consecutive_no_progress": 12,
            "max_consecutive_repeated_actions": 4,
            "max_input_tokens": 40_000 if extended else None,
            "max_output_tokens": 6_000 if extended else None,
            "max_evidence_receipts": 2 * STEPS if extended else None,
            "max_cycle_length": 6 if extended else None,
            "cycle_repeats": 3 if extended else None,
        },
        Policy,
    )


def random_trace(draw: random.Random, release: str) -> Trace:
    """Return a well formed trace that ends at its terminal, or after STEPS steps."""
    rules = policy(release)
    run = Run(rules)
    steps: list[Step] = []
    state, now = rules.initial_state_sha256, rules.started_at_unix_ms
    while len(steps) < STEPS and run.terminal is None:
        index = len(steps)
        waits = release == EXTENDED and draw.random() < 0.02
        kind, deltas = _WAIT if waits else draw.choice(_DRAWN)
        moves = draw.random() < 0.9
        evidence = {f"{index}" if draw.random() < 0.9 else f"{draw.randrange(index + 1)}"}
        evidence |= {f"{index} too"} if draw.random() < 0.1 else set()
        outcome: Outcome = "succeeded" if draw.random() < 0.9 else "failed"
        now += draw.randrange(1_000)
        step = Step(
            sequence=index + 1,
            action_kind=kind,
            action_sha256=name(f"action {index if draw.random() < 0.9 else 0}"),
            state_before_sha256=state,
            state_after_sha256=name(f"state {index + 1}") if moves else state,
            new_evidence_receipt_sha256=tuple(name(each) for each in sorted(evidence)),
            outcome=outcome,
            completed_at_unix_ms=now,
            model_calls_delta=deltas[0],
            tool_calls_delta=deltas[1],
            repairs_delta=deltas[2],
            cost_microunits_delta=draw.randrange(2_500),
            input_tokens_delta=deltas[0] * draw.randrange(1_800),
            output_tokens_delta=deltas[0] * draw.randrange(300),
            completion_receipt_sha256=None,
        )
        run.advance(step)
        steps.append(step)
        state = step.state_after_sha256
    return rules, tuple(steps)


def repeated_traces(made: TraceColumns, copies: int) -> TraceColumns:
    """Return the columns of the same traces that many times, side by side."""
    counts = np.diff(made.evidence_starts.ravel(), append=len(made.evidence))
    group = np.tile(np.repeat(np.arange(len(counts)), counts), copies)
    trace = (made.evidence_trace + made.traces * np.arange(copies)[:, None]).ravel()
    order = np.lexsort((trace, group))
    wide = {
        field.name: np.tile(cast("Int32s", getattr(made, field.name)), (1, copies))
        for field in fields(made)
        if not field.name.startswith(("evidence", "lengths"))
    }
    return replace(
        made,
        lengths=np.tile(made.lengths, copies),
        evidence_trace=trace[order].astype(np.int32),
        evidence=cast("Int32s", np.tile(made.evidence, copies)[order]),
        evidence_starts=made.evidence_starts * copies,
        **wide,  # type: ignore[arg-type]  # each name keeps its own type
    )


def repeated_policies(made: PolicyColumns, copies: int) -> PolicyColumns:
    """Return the policies of the repeated traces."""
    wide = {
        field.name: np.tile(cast("Int64s", getattr(made, field.name)), copies)
        for field in fields(made)
        if field.name != "bounds"
    }
    bounds = np.tile(made.bounds, (1, copies))
    return replace(made, bounds=bounds, **wide)  # type: ignore[arg-type]  # as above


def decision_bytes(made: TraceColumns) -> list[Int64s]:
    """Return the bytes of the columns that the decision reads, as words."""
    arrays = (cast("Int64s", getattr(made, field.name)) for field in fields(made))
    return [array.ravel().view(np.int64) for array in arrays if array.shape == made.kind.shape]


@dataclass(frozen=True, slots=True, kw_only=True)
class Piece:
    """Something to time: a call, and how many steps (turns) one call is of."""

    label: str
    call: Callable[[], object]
    per: int


def measure(pieces: Sequence[Piece], unit: str) -> dict[str, float]:
    """Print nanoseconds a step of each piece, the pieces taking turns; return the minima."""
    times: dict[str, list[float]] = {piece.label: [] for piece in pieces}
    for _ in range(ROUNDS):
        for piece in pieces:
            began = time.thread_time_ns()
            piece.call()
            times[piece.label].append((time.thread_time_ns() - began) / piece.per)
    print(f"{'piece':<52}{f'ns a {unit}: min':>16}{'median':>9}")
    for label, rounds in times.items():
        print(f"{label:<52}{min(rounds):>16.1f}{statistics.median(rounds):>9.1f}")
    return {label: min(rounds) for label, rounds in times.items()}


def decide_one_by_one(traces: Sequence[Trace]) -> list[str]:
    """Return the terminals, by the scalar evaluator."""
    terminals: list[str] = []
    for rules, steps in traces:
        run = Run(rules)
        run.decide(steps)
        terminals.append(run.terminal or "input_exhausted")
    return terminals


def bench_evaluator() -> bool:
    """Print the cost of deciding traces; return whether the bound holds."""
    draw = random.Random(1)
    reference = [random_trace(draw, REFERENCE) for _ in range(TRACES)]
    extended = [random_trace(draw, EXTENDED) for _ in range(TRACES)]
    both = [(columns_of(traces), traces) for traces in (reference, extended)]
    for (made, rules), traces in both:
        found = [TERMINALS[int(index)] for index in decide(made, rules).terminal]
        if found != decide_one_by_one(traces):
            raise AssertionError("the evaluator over columns and the scalar one do not agree")
    (plain, plain_rules), (full, full_rules) = (
        (repeated_traces(made, COPIES), repeated_policies(rules, COPIES))
        for (made, rules), _ in both
    )
    without_cycles = replace(full_rules, cycle_length=full_rules.cycle_length * 0)
    plain_worth, full_worth = evidence_of(plain), evidence_of(full)
    steps, full_steps = int(plain.lengths.sum()), int(full.lengths.sum())
    words = decision_bytes(plain)
    size = sum(word.nbytes for word in words)
    print(
        f"{plain.traces:,} traces, {steps / plain.traces:.1f} steps each of at most {plain.steps}; "
        f"{size / plain.steps / plain.traces:.0f} bytes of columns a step\n"
    )
    decision = "decision over given columns, reference"
    minima = measure(
        [
            Piece(label="reading the same bytes", call=lambda: [w.max() for w in words], per=steps),
            Piece(
                label="copying the same bytes", call=lambda: [w.copy() for w in words], per=steps
            ),
            Piece(label=decision, call=lambda: decide(plain, plain_rules, plain_worth), per=steps),
            Piece(label="evidence freshness alone", call=lambda: evidence_of(plain), per=steps),
            Piece(
                label="decision with evidence freshness",
                call=lambda: decide(plain, plain_rules),
                per=steps,
            ),
            Piece(
                label="decision, extended: waits, tokens, evidence bound",
                call=lambda: decide(full, without_cycles, full_worth),
                per=full_steps,
            ),
            Piece(
                label="the same with cycles to 6",
                call=lambda: decide(full, full_rules, full_worth),
                per=full_steps,
            ),
            Piece(
                label="the same with cycles and evidence freshness",
                call=lambda: decide(full, full_rules),
                per=full_steps,
            ),
            Piece(
                label="scalar decision, reference",
                call=lambda: decide_one_by_one(reference),
                per=steps // COPIES,
            ),
            Piece(
                label="scalar decision, extended with cycles to 6",
                call=lambda: decide_one_by_one(extended),
                per=full_steps // COPIES,
            ),
        ],
        "step",
    )
    print(f"\ndecision over given columns {minima[decision]:.1f} ns (at most {DECISION_NS_MAX})")
    return minima[decision] <= DECISION_NS_MAX


def repeated_runs(made: Columns, copies: int) -> Columns:
    """Return the columns of the same runs that many times, side by side."""
    wide = {label: np.tile(array, (1, copies)) for label, array in made.arrays()}
    lengths = np.tile(made.lengths, copies)
    return replace(made, lengths=lengths, **wide)  # type: ignore[arg-type]  # as above


@dataclass(frozen=True, slots=True, kw_only=True)
class World:
    """Runs of one application, one at a time and repeated as columns, with its limits."""

    limits: Limits
    runs: Sequence[Sequence[Observation]]
    few: Columns
    many: Columns


def world(application: str) -> World:
    """Return RUNS runs of an application, and RUN_COPIES times as many."""
    limits = Limits(tools=tool_policies(application))
    runs = [trajectory(task, HORIZON).observations for task in tasks(application, RUNS, seed=1)]
    few = columns(runs, limits)
    return World(limits=limits, runs=runs, few=few, many=repeated_runs(few, RUN_COPIES))


def stop_one_by_one(level: str, each: World) -> list[int]:
    """Return the turns of the stops, by the scalar controllers."""
    turns: list[int] = []
    for run in each.runs:
        one = controller(level)
        one.start(each.limits)
        stops = (seen.turn for seen in run if one.observe(seen).decision == "stop")
        turns.append(next(stops, len(run)))
    return turns


def bench_stop_times() -> None:
    """Print the cost of the stop times of levels A to D on runs of the worlds."""
    worlds = [world(application) for application in APPLICATIONS]

    def stop_all(level: str) -> None:
        for each in worlds:
            stop_times(each.many, each.limits, level)

    def stop_all_one_by_one(level: str) -> None:
        for each in worlds:
            stop_one_by_one(level, each)

    pieces: list[Piece] = []
    for level in STOP_LEVELS:
        turns = 0
        for each in worlds:
            found = stop_times(each.few, each.limits, level).turn
            if found.tolist() != stop_one_by_one(level, each):
                raise AssertionError(f"the stop times of level {level} do not agree")
            turns += int(found.sum())
        together, alone = partial(stop_all, level), partial(stop_all_one_by_one, level)
        pieces += [
            Piece(label=f"level {level}, together", call=together, per=turns * RUN_COPIES),
            Piece(label=f"level {level}, one at a time", call=alone, per=turns),
        ]
    runs = sum(each.many.runs for each in worlds)
    print(f"\n{runs:,} runs of {len(worlds)} applications, turns up to the stop\n")
    measure(pieces, "turn")


def main() -> int:
    """Print all tables; return 1 when the bound does not hold and that was asked for."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("--check", action="store_true", help="exit 1 when the bound is passed")
    options = parser.parse_args()
    holds = bench_evaluator()
    bench_stop_times()
    print("\nthe bound holds" if holds else "\nthe bound does not hold")
    return 0 if holds or not options.check else 1


if __name__ == "__main__":
    sys.exit(main())
