"""S11: a process that is killed leaves whole batches alone, among them all that were answered."""

from __future__ import annotations

from typing import cast

from hypothesis import strategies as st
from hypothesis.strategies import SearchStrategy

from loopcore.testing.checks_store.generating import append, do, goals, opening
from loopcore.testing.checks_store.playing import Player
from loopcore.testing.contract import Case, Json, Judgement
from loopcore.testing.store_contract import StoreProperty, StoreTarget
from loopcore.testing.store_model import spelled

BATCH_MAX = 8
PERCENT_MAX = 150


def _cases() -> SearchStrategy[Case]:
    """Draw how much is appended before and by the process that is killed, and when it is."""
    moments = st.none() | st.integers(0, PERCENT_MAX)
    return st.fixed_dictionaries(
        {
            "before": st.integers(0, 2),
            "batch": st.integers(1, BATCH_MAX),
            "bytes": st.sampled_from((0, 100, 5000)),
            "percent": moments,
        }
    )


def _judge(target: StoreTarget, case: Case) -> Judgement:
    player = Player(target)
    before: list[dict[str, Json]] = [append()] * cast("int", case["before"])
    played = player.play([opening(), *before])
    if played.finding is not None:
        return played.judgement(())
    run_id = player.name({})
    size = cast("int", case["batch"])
    text = "x" * cast("int", case["bytes"])
    kinds: list[Json] = ["state_committed"] * size
    request, events = player.request({"kinds": kinds, "payload": {"text": text}}, run_id)
    percent = cast("int | None", case["percent"])
    answer = player.ask({"do": "crash", **request, "percent": percent})
    known = [spelled(event) for event in player.model.run(run_id).events]
    whole = [*known, *(spelled(event) for event in events)]
    there = player.ask(do("read", run=run_id, after=0)).get("events")
    if there == whole:
        digest = str(request["expected_head"])
        player.model.append(run_id, digest, cast("int", request["epoch"]), events)
    acknowledged = answer.get("acknowledged") is True
    player.read_everything("after the crash")
    last: list[dict[str, Json]] = [append(), append("lease_released"), append("lease_acquired")]
    played = player.play(last)
    finding = played.finding
    if acknowledged and there != whole:
        finding = f"an append of {size} events was answered, and they are gone after a crash"
    label = "acknowledged" if acknowledged else "kept" if there == whole else "not kept"
    return Judgement(finding=finding, labels=(f"crash:{label}",), expected=whole, got=there)


PROPERTY = StoreProperty(
    id="S11",
    name="crashes",
    statement=(
        "When a process is killed while it appends, the journal afterwards holds all of the batch "
        "or none, verifies, and goes on; a batch whose append was answered is there."
    ),
    prevents=(
        "A dispatch was promised to be on record before the call, and after a crash it is not: the "
        "call is made a second time."
    ),
    mutants=(),
    cases=_cases,
    judge=_judge,
    examples=tuple(
        {"before": 1, "batch": size, "bytes": 100, "percent": percent}
        for size in (1, BATCH_MAX)
        for percent in (None, 0, 20, 40, 60, 80)
    ),
    goals=lambda target: goals("crash:acknowledged"),
    needs=frozenset({"durable", "processes"}),
)
