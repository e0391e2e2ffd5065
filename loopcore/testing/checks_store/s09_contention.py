"""S09: of those who append at once on one head one wins, and none of what they append is lost."""

from __future__ import annotations

import json
from typing import cast

from hypothesis import strategies as st
from hypothesis.strategies import SearchStrategy

from loopcore.testing.checks_store.generating import do, goals
from loopcore.testing.checks_store.playing import Player, draft, linked
from loopcore.testing.contract import Case, Json, Judgement
from loopcore.testing.store_contract import StoreProperty, StoreTarget
from loopcore.testing.store_model import GENESIS

WORKERS_MAX = 4
EACH_MAX = 3
_LEASE: Json = {"duration_ms": 1000}


def _cases() -> SearchStrategy[Case]:
    """Draw a race for an empty journal and one for its lease, and workers that add their share."""
    return st.fixed_dictionaries(
        {
            "racers": st.integers(2, WORKERS_MAX),
            "batch": st.integers(1, 3),
            "workers": st.integers(1, WORKERS_MAX),
            "each": st.integers(1, EACH_MAX),
            "kind": st.sampled_from(("state_committed", "action_reserved", "outcome_observed")),
            "lease": st.booleans(),
        }
    )


def _judge(target: StoreTarget, case: Case) -> Judgement:
    player = Player(target)
    run_id = player.name({"run": "a"})
    finding = _race(player, run_id, case)
    if finding is None:
        finding = _contention(player, run_id, case)
    labels = ("race:lease" if case["lease"] else "race:events", "workers:several")
    several = cast("int", case["workers"]) > 1
    return Judgement(finding=finding, labels=labels if several else labels[:1])


def _race(player: Player, run_id: str, case: Case) -> str | None:
    """Let batches of different content race for one head; return what is wrong, or None."""
    racers, size = cast("int", case["racers"]), cast("int", case["batch"])
    batches: list[Json] = []
    for racer in range(racers):
        drafts = [
            draft(run_id, str(case["kind"]), {"racer": racer, "number": number})
            for number in range(size)
        ]
        if case["lease"]:
            drafts = [draft(run_id, "lease_acquired", _LEASE, {"principal": str(racer)}), *drafts]
        batches.append(cast("Json", linked(drafts, 0, GENESIS, 0)))
    epoch = 1 if case["lease"] else 0
    request: dict[str, Json] = {"run": run_id, "expected_head": GENESIS, "epoch": epoch}
    answer = player.ask({"do": "race", **request, "batches": batches})
    won = cast("list[int]", answer.get("won", []))
    if len(won) != 1:
        return f"{len(won)} of {racers} appends on the same head were accepted"
    events = cast("list[dict[str, object]]", batches[won[0]])
    player.model.append(run_id, GENESIS, epoch, events)
    player.read_everything("after the race")
    return player.played.finding


def _contention(player: Player, run_id: str, case: Case) -> str | None:
    """Let workers add their events by compare-and-swap; return what is wrong, or None."""
    workers, each = cast("int", case["workers"]), cast("int", case["each"])
    before = player.model.run(run_id)
    event: dict[str, object] = {**draft(run_id, "state_committed", {}), "sequence": 1}
    share = cast("Json", event)
    player.ask(do("contend", run=run_id, workers=workers, each=each, event=share))
    answer = player.ask(do("read", run=run_id, after=len(before.events)))
    texts = cast("list[str]", answer.get("events", []))
    added = [cast("dict[str, object]", json.loads(text)) for text in texts]
    shares = [cast("dict[str, int]", one["payload"]) for one in added]
    for worker in range(workers):
        numbers = [share["number"] for share in shares if share["worker"] == worker]
        if numbers != list(range(each)):
            return f"worker {worker} appended {each} events, and {numbers} are in the journal"
    player.model.append(run_id, before.digest(), before.epoch(), added)
    player.read_everything("after the contention")
    return player.played.finding


PROPERTY = StoreProperty(
    id="S09",
    name="contention",
    statement=(
        "When several workers append on the same head at the same moment, exactly one is accepted. "
        "When each reads the head and tries again until it is accepted, every event of every "
        "worker is in the journal, once, linked, and in that worker's order."
    ),
    prevents=(
        "The test for the head and the write are two steps, and under load a worker's events are "
        "overwritten by another's."
    ),
    mutants=(),
    cases=_cases,
    judge=_judge,
    examples=tuple(
        {
            "racers": racers,
            "batch": 2,
            "workers": workers,
            "each": EACH_MAX,
            "kind": "state_committed",
            "lease": lease,
        }
        for racers, workers in ((2, 2), (WORKERS_MAX, WORKERS_MAX))
        for lease in (False, True)
    ),
    goals=lambda target: goals("race:lease", "race:events", "workers:several"),
)
