"""Claim: a seed drives a whole run of the runner, and no rule breaks under any mixture of faults.

The default tests play a few hundred seeds; ten thousand and more are played in the test marked
slow. That the ledger can say no is shown on journals that were doctored by hand; that the simulator
finds faults of the runner itself is shown by the mutants of `mutations/runner.json`.
"""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Callable
from functools import cache
from typing import TypeAlias

import msgspec
import pytest

from loopcore.store.journal import EMPTY_HEAD, Event, chain
from loopcore.testing.simulation import Simulation, SweepResult, simulate, sweep
from loopcore.testing.simulation.ledger import Ledger
from loopcore.testing.simulation.options import Faults
from loopcore.testing.simulation.tape import Broken

FIRST_SEED, RUNS = 640, 150
MANY_RUNS = 10_000
# Late usage reported twice; a finish that a deadline overtook, in a run that was continued.
ONCE_BROKEN = (5892, 8921)
# A run that reserves, dispatches, observes, settles and commits, and is resumed by another owner.
RICH_SEED = 1_000
PRINT_DIGESTS = """
from loopcore.testing.simulation import simulate
print([simulate(seed).journals_sha256 for seed in range(40, 52)])
"""


@cache
def swept() -> SweepResult:
    """Return the sweep that several tests look at."""
    return sweep(FIRST_SEED, RUNS)


def test_no_rule_breaks_in_the_first_seeds() -> None:
    assert [(each.seed, each.rule, each.reason) for each in swept().first_broken] == []
    assert swept().runs == RUNS


@pytest.mark.parametrize("seed", ONCE_BROKEN)
def test_no_rule_breaks_where_one_did(seed: int) -> None:
    outcome = simulate(seed)
    assert outcome.verdict == "held", outcome.reason


@pytest.mark.slow
def test_no_rule_breaks_in_many_thousand_runs() -> None:
    result = sweep(0, MANY_RUNS)
    assert [(each.seed, each.rule, each.reason) for each in result.first_broken] == []
    assert result.runs == MANY_RUNS
    assert result.effects > MANY_RUNS // 2
    assert min(result.faults.values()) > 20


def test_every_fault_happens_and_runs_end_in_many_ways() -> None:
    happened = {name for name, count in swept().faults.items() if count}
    assert happened == {*Faults.__struct_fields__, "lease_expired"}
    assert "none" not in swept().terminals
    assert len(swept().terminals) >= 12
    assert swept().effects > RUNS // 2


def test_the_same_seed_gives_the_same_bytes_in_every_process() -> None:
    here = str([simulate(seed).journals_sha256 for seed in range(40, 52)])
    for hash_seed in ("1", "2"):
        run = subprocess.run(
            [sys.executable, "-c", PRINT_DIGESTS],
            env={**os.environ, "PYTHONHASHSEED": hash_seed},
            capture_output=True,
            text=True,
            check=True,
        )
        assert run.stdout.strip() == here


def test_keeping_notes_changes_nothing() -> None:
    for seed in range(10):
        assert Simulation(seed, keeps=True).run() == simulate(seed)


def test_other_seeds_give_other_runs() -> None:
    assert len({simulate(seed).journals_sha256 for seed in range(20)}) == 20


@pytest.mark.slow
def test_the_number_of_processes_changes_no_result() -> None:
    assert sweep(0, 60, jobs=2) == sweep(0, 60)


def played() -> tuple[Simulation, tuple[Event, ...]]:
    """Return a finished simulation and the journal of its first run."""
    simulation = Simulation(RICH_SEED, keeps=False)
    assert simulation.run().verdict == "held"
    return simulation, tuple(simulation.world.runs["run-1"].events)


def first_place(events: tuple[Event, ...], kind: str) -> int:
    """Return where the first event of a kind stands."""
    return next(place for place, event in enumerate(events) if event.kind == kind)


def read(simulation: Simulation, events: tuple[Event, ...]) -> None:
    """Have a new ledger read events, each appended by whoever held the lease."""
    ledger = Ledger(simulation.world.effects)
    for event in events:
        by = str(event.payload["owner"]) if event.kind == "lease_acquired" else ledger.owner
        ledger.lease_until_ms = None
        ledger.take(event, by or "client", event.at_unix_ms)


def repeated(events: tuple[Event, ...], kind: str) -> tuple[Event, ...]:
    """Return the events with the first of a kind standing there twice."""
    place = first_place(events, kind)
    return (*events[: place + 1], *events[place:])


def changed(events: tuple[Event, ...], kind: str, **payload: object) -> tuple[Event, ...]:
    """Return the events with another payload in the first of a kind."""
    place = first_place(events, kind)
    event = events[place]
    other = msgspec.structs.replace(event, payload={**event.payload, **payload})
    return (*events[:place], other, *events[place + 1 :])


def without(events: tuple[Event, ...], kind: str) -> tuple[Event, ...]:
    """Return the events without the first of a kind."""
    place = first_place(events, kind)
    return (*events[:place], *events[place + 1 :])


def moved_behind_the_end(events: tuple[Event, ...], kind: str) -> tuple[Event, ...]:
    """Return the events with one more of a kind behind the terminal."""
    place = first_place(events, "terminal_committed")
    event = events[first_place(events, kind)]
    late = msgspec.structs.replace(event, at_unix_ms=events[place].at_unix_ms)
    return (*events[: place + 1], late)


def test_a_ledger_accepts_the_journal_that_was_made() -> None:
    simulation, events = played()
    read(simulation, events)


def test_a_ledger_refuses_a_journal_that_is_not_linked() -> None:
    simulation, events = played()
    for place in range(1, len(events)):
        with pytest.raises(Broken, match="R03"):
            read(simulation, (*events[: place - 1], *events[place:]))


Doctor: TypeAlias = Callable[[tuple[Event, ...], str], tuple[Event, ...]]
DOCTORED: dict[str, tuple[Doctor, str, str]] = {
    "a reservation is settled twice": (repeated, "reservation_settled", "R06"),
    "a reservation is made twice": (repeated, "action_reserved", "R06"),
    "an action is dispatched twice": (repeated, "action_dispatched", "R08"),
    "an outcome stands there twice": (repeated, "outcome_observed", "R06"),
    "a step is committed twice": (repeated, "state_committed", "R06"),
    "a settlement is missing": (without, "reservation_settled", "R06"),
    "a dispatch is missing": (without, "action_dispatched", "R06"),
    "an action is reserved behind the end": (moved_behind_the_end, "action_reserved", "R05"),
    "an action is dispatched behind the end": (moved_behind_the_end, "action_dispatched", "R05"),
    "a run ends twice": (moved_behind_the_end, "terminal_committed", "R05"),
}


@pytest.mark.parametrize("case", DOCTORED.values(), ids=DOCTORED)
def test_a_ledger_refuses_a_doctored_journal(case: tuple[Doctor, str, str]) -> None:
    doctor, kind, rule = case
    simulation, events = played()
    with pytest.raises(Broken) as broken:
        read(simulation, chain(EMPTY_HEAD, doctor(events, kind)))
    assert broken.value.rule == rule


CHANGED: dict[str, tuple[str, dict[str, object], str]] = {
    "a settlement at nothing": (
        "reservation_settled",
        {"charged": dict.fromkeys(("steps", "model_calls", "tool_calls", "repairs"), 0)
         | dict.fromkeys(("cost_microunits", "input_tokens", "output_tokens"), 0)},
        "R06",
    ),
    "a step with another number": ("state_committed", {"step": 7}, "R04"),
    "a reservation over every budget": (
        "action_reserved",
        {"reserved": dict.fromkeys(("steps", "model_calls", "tool_calls", "repairs"), 99)
         | dict.fromkeys(("cost_microunits", "input_tokens", "output_tokens"), 0)},
        "R02",
    ),
}  # fmt: skip


@pytest.mark.parametrize("case", CHANGED.values(), ids=CHANGED)
def test_a_ledger_refuses_a_changed_event(case: tuple[str, dict[str, object], str]) -> None:
    kind, payload, rule = case
    simulation, events = played()
    with pytest.raises(Broken) as broken:
        read(simulation, chain(EMPTY_HEAD, changed(events, kind, **payload)))
    assert broken.value.rule == rule


def test_a_worker_without_the_lease_may_write_nothing() -> None:
    simulation, events = played()
    ledger = Ledger(simulation.world.effects)
    ledger.take(events[0], "client", events[0].at_unix_ms)
    ledger.take(events[1], str(events[1].payload["owner"]), events[1].at_unix_ms)
    with pytest.raises(Broken, match="R07"):
        ledger.take(events[2], "another", events[2].at_unix_ms)
