"""A decision changes nothing, is the same each time, and has at most one append, in front."""

import pytest

from loopcore.runtime import driving
from loopcore.runtime.messages import Append, Decision, Input, Local
from loopcore.runtime.protocol import decide
from loopcore.runtime.state import State
from loopcore.runtime.tools import act, finish, tool
from loopcore.store.contract import EVENTS_PER_APPEND_MAX
from properties.core.runner_worlds import Effects, Ledger, run, runner


def test_decide_is_a_pure_function_of_state_memory_and_input(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    decisions: list[Decision] = []

    def watched(state: State, local: Local, received: Input) -> Decision:
        before = state.fingerprint()
        first = decide(state, local, received)
        assert state.fingerprint() == before
        assert decide(state, local, received) == first
        assert decide(state.copy(), local, received) == first
        decisions.append(first)
        return first

    monkeypatch.setattr(driving, "decide", watched)
    bank = Effects(lost=frozenset({1}), dropped=frozenset({2}))
    receipt, _ = run(
        lambda s: runner(
            s,
            [
                [act("pay", {"n": n}) for n in range(3)],
                [act("look"), act("nothing")],
                [act("pay", {"n": 2})],
                [finish()],
            ],
            [tool("pay", bank.pay), tool("look", Ledger(), effect="none")],
            reconciler=bank.find_out,
        )
    )
    assert receipt.terminal == "completed"
    assert len(decisions) > 20
    for decision in decisions:
        appends = [command for command in decision.commands if isinstance(command, Append)]
        assert len(appends) <= 1
        if appends:
            assert decision.commands[0] is appends[0]
            assert 1 <= len(appends[0].events) <= EVENTS_PER_APPEND_MAX
