"""Agreement is a second statement: it goes red when the journal's terminal is not its trace's."""

import msgspec
import pytest

from loopcore.canonical import digest
from loopcore.models import ActionKind
from loopcore.runtime.messages import Proposal
from loopcore.runtime.projection import agreement, project
from loopcore.runtime.tools import Refused, Verdict, act, finish, tool
from loopcore.runtime.views import View
from loopcore.store.journal import Event, InvalidEvent
from properties.core.runner_worlds import Ledger, agreed, policy, run, runner


def journal() -> list[Event]:
    """Return a journal of two calls and a refused third."""
    _, stores = run(
        lambda s: runner(
            s,
            [[act("t", {"n": n})] for n in range(3)],
            [tool("t", Ledger(), cost_microunits_max=2)],
            under=policy(max_tool_calls=2),
        )
    )
    return stores.events("r")


def _changed(kind: str, path: tuple[str, ...], value: object) -> list[Event]:
    """Return the journal with one member of the last payload of a kind changed."""
    events = journal()
    place = max(index for index, event in enumerate(events) if event.kind == kind)
    payload = msgspec.json.decode(msgspec.json.encode(events[place].payload))
    holder = payload
    for name in path[:-1]:
        holder = holder[name]
    holder[path[-1]] = value
    events[place] = msgspec.structs.replace(events[place], payload=payload)
    return events


@pytest.mark.parametrize(
    ("kind", "path", "value"),
    [
        ("terminal_committed", ("receipt", "terminal"), "model_budget_exhausted"),
        ("terminal_committed", ("receipt", "on_step"), 2),
        ("terminal_committed", ("receipt", "usage", "cost_microunits"), 3),
        ("terminal_committed", ("receipt", "verified_progress_steps"), 1),
        ("terminal_committed", ("receipt", "final_state_sha256"), "0" * 64),
        ("reservation_settled", ("charged", "cost_microunits"), 3),
        ("reservation_settled", ("charged", "tool_calls"), 0),
        ("outcome_observed", ("outcome",), "failed"),
        ("evidence_validated", ("accepted",), []),
        ("state_committed", ("step",), 7),
        ("action_refused", ("reserved", "tool_calls"), 0),
        ("action_refused", ("kind",), "model_generation"),
    ],
)
def test_a_journal_that_lies_does_not_agree(
    kind: str, path: tuple[str, ...], value: object
) -> None:
    assert agreement(journal()).agrees
    assert not agreement(_changed(kind, path, value)).agrees


def test_a_dropped_step_does_not_agree() -> None:
    events = journal()
    first = next(event for event in events if event.kind == "state_committed")
    assert not agreement([event for event in events if event is not first]).agrees


def test_a_refused_finish_is_a_failed_verification_and_a_poll_is_a_wait() -> None:
    def refuse(view: View, claim: str) -> Verdict:
        return Refused(reason="no")

    poll: ActionKind = "wait"
    _, stores = run(
        lambda s: runner(
            s,
            [[act("poll")], [finish()]],
            [tool("poll", Ledger(), kind=poll, effect="none")],
            verifier=refuse,
            under=policy(max_input_tokens=9),
        )
    )
    trace = project(stores.events("r"))
    assert [(step.action_kind, step.outcome) for step in trace.steps] == [
        ("wait", "succeeded"),
        ("verification", "failed"),
    ]
    agreed(stores.events("r"))


def test_polls_neither_hide_a_repetition_nor_are_one() -> None:
    async def same(call: object) -> str:
        return "running"

    polls: list[list[Proposal]] = [[act("poll")]] * 6
    receipt, _ = run(
        lambda s: runner(
            s,
            [*polls, [finish()]],
            [tool("poll", same, kind="wait", effect="none")],
            under=policy(max_consecutive_repeated_actions=2, max_input_tokens=9),
        )
    )
    assert receipt.terminal == "completed"
    mixed: list[list[Proposal]] = [[act("look")], [act("poll")], [act("look")], [finish()]]
    receipt, _ = run(
        lambda s: runner(
            s,
            mixed,
            [tool("poll", same, kind="wait", effect="none"), tool("look", same, effect="none")],
            under=policy(max_consecutive_repeated_actions=2, max_input_tokens=9),
        )
    )
    assert receipt.terminal == "repeated_action"


def test_a_nonproductive_cycle_is_found_by_both() -> None:
    states = {"a": "1" * 64, "b": "2" * 64}

    async def goes(call: object) -> object:
        from loopcore.runtime.tools import ToolResult

        return ToolResult(state_sha256=states[str(getattr(call, "arguments", {})["to"])])

    receipt, _ = run(
        lambda s: runner(
            s,
            [[act("go", {"to": "ab"[n % 2]})] for n in range(20)],
            [tool("go", goes, effect="idempotent")],
            under=policy(max_cycle_length=4, cycle_repeats=3),
        )
    )
    assert receipt.terminal == "nonproductive_cycle"


def test_every_prefix_of_a_journal_projects_and_the_last_step_decides() -> None:
    events = journal()
    for length in range(1, len(events)):
        assert agreement(events[:length]).agrees
    with pytest.raises(InvalidEvent):
        project(events[1:2])
    assert digest(project(events)) == digest(project(list(events)))
