"""Claim: within small bounds every interleaving of two workers keeps the rules, and faults show.

The whole search takes a minute or more and is marked slow. By default faults are planted, in the
reconciler and in the protocol itself, and each is found with the shortest way there.
"""

from __future__ import annotations

from pathlib import Path

import pytest

from loopcore.cli import main
from loopcore.runtime import moves, settlement
from loopcore.runtime.drafting import Batch
from loopcore.runtime.messages import Finding, Observation
from loopcore.runtime.settlement import add_zero
from loopcore.runtime.state import Action, State
from loopcore.testing import exploration
from loopcore.testing.exploration import Exploration, Explorer, explore

PART = 1_000


def test_no_effect_that_is_answered_without_a_fence_is_found() -> None:
    found = explore(planted="no fence")
    assert found.finding == "R01: one invocation has its effect twice"
    assert any("calls a1: delayed" in move for move in found.moves)
    assert any("asks about a1: no effect" in move for move in found.moves)
    assert not found.complete


def test_a_protocol_that_believes_without_a_fence_is_found(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    def believes(action: Action, found: Finding, at_unix_ms: int) -> bool:
        del action, found, at_unix_ms
        return True

    monkeypatch.setattr(settlement, "_is_verified", believes)
    found = explore()
    assert found.finding is not None
    assert any("no effect, no fence" in move for move in found.moves)


def test_a_settlement_at_zero_of_a_call_that_was_made_is_found(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    def not_called(batch: Batch, state: State, name: str, seen: Observation, *, ends: bool) -> None:
        del seen, ends
        add_zero(batch, state.actions[name], because="not_called")

    monkeypatch.setattr(moves, "add_outcome", not_called)
    found = explore()
    assert found.finding == "R06: a1 is settled at zero, and it was called"


def test_a_part_of_the_search_is_not_called_complete_and_always_the_same() -> None:
    first, second = (Explorer().explore(PART) for _ in range(2))
    assert first == second
    assert not first.complete
    assert first.finding is None
    assert first.states >= PART


@pytest.mark.slow
def test_the_whole_search_ends_and_finds_nothing() -> None:
    found = explore()
    assert found.complete, found
    assert found.finding is None
    assert found.states > 10 * PART
    assert found.transitions > 2 * found.states
    assert 0 < found.stuck < found.ended < found.states


def test_the_command_tells_states_transitions_and_the_planted_fault(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    whole = Exploration(states=7, transitions=9, complete=True, ended=2, stuck=1)
    broken = Exploration(
        states=3, transitions=4, complete=False, ended=0, stuck=0, finding="R01: x", moves=("m",)
    )
    answers: dict[str | None, Exploration] = {None: whole, "no fence": broken}

    def told(planted: str | None = None) -> Exploration:
        return answers[planted]

    monkeypatch.setattr(exploration, "explore", told)
    assert main(["simulate", "--explore", "--out", str(tmp_path)]) == 0
    text = capsys.readouterr().out
    assert "complete: 7 states, 9 transitions" in text
    assert "planted fault: R01: x\n    m\n" in text
    answers["no fence"] = whole
    assert main(["simulate", "--explore", "--out", str(tmp_path)]) == 3
    assert "planted fault: not found" in capsys.readouterr().out
    answers[None] = broken
    assert main(["simulate", "--explore", "--out", str(tmp_path)]) == 1
    assert main(["simulate", "--explore", "--seed", "1", "--out", str(tmp_path)]) == 2
