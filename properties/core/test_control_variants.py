"""A naive guard stops exactly on the K-th identical call that a count over the whole run finds.

Killers: stopping after the K-th, text that ends a run of calls, a result left out of the key, an
unknown key that equals another, a step cap off by one.
"""

from __future__ import annotations

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from loopcore.control.limits import Limits
from loopcore.control.observations import Observation
from loopcore.control.variants import declared_needs, named_controller
from loopcore.errors import UsageError
from loopcore.testing.control_strategies import controller_limits, observation_sequences
from loopcore.testing.naive_controllers import with_fingerprints


def expected(name: str, limits: Limits, run: list[Observation]) -> tuple[int, str] | None:
    """Return (turn, reason) of the stop of a repetition variant, by recounting each prefix."""
    scope, count = name.split("-", maxsplit=1)[0], int(name.split("-")[1])
    full = [with_fingerprints(seen, limits) for seen in run]
    for turn in sorted({seen.turn for seen in run}):
        reasons: set[str] = set()
        for index, now in enumerate(full):
            if now.turn != turn:
                continue
            calls = [
                (seen.action_fingerprint, seen.result_fingerprint if "result" in name else "")
                for seen in full[: index + 1]
                if seen.tool is not None or seen.action_fingerprint is not None
            ]
            spoken = now.tool is None and now.action_fingerprint is None
            same = calls[-count:] if scope == "consecutive" else calls
            known = bool(calls) and None not in calls[-1] and not spoken
            if known and same.count(calls[-1]) >= count:
                reasons.add("repeated_action")
            if now.claims_done and now.verified is True:
                reasons.add("completed")
        if reasons:
            return turn, min(reasons)
    return None


@settings(max_examples=60, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(
    st.sampled_from(["consecutive", "total"]),
    st.integers(2, 5),
    st.sampled_from(["", "-result"]),
    controller_limits(),
    observation_sequences(),
)
def test_a_repetition_variant_stops_at_the_turn_of_the_kth_identical_call(
    scope: str, count: int, result: str, limits: Limits, run: list[Observation]
) -> None:
    name = f"{scope}-{count}{result}"
    guard = named_controller(name)
    guard.start(limits)
    answers = [(seen.turn, guard.observe(seen)) for seen in run]
    stops = [(turn, answer.reason) for turn, answer in answers if answer.decision == "stop"]
    found = expected(name, limits, run)
    if found is None:
        assert stops == []
        return
    turn, reason = found
    assert min(stops)[0] == turn
    assert reason in {stop for at, stop in stops if at == turn}
    # Whatever comes later is answered by that turn's decision.
    assert {answer.reason for at, answer in answers if at > turn} <= {reason}


@given(st.integers(1, 50), st.integers(1, 60))
def test_a_step_cap_stops_at_its_turn_and_a_verified_finish_there_comes_first(
    cap: int, finish: int
) -> None:
    guard = named_controller(f"step-cap-{cap}")
    for turn in range(1, cap + 1):
        done = turn == finish
        seen = Observation(turn=turn, action=1, claims_done=done, verified=done or None)
        answer = guard.observe(seen)
        if done:
            assert answer.reason == "completed"
            return
        assert answer.reason == ("step_budget_exhausted" if turn == cap else None)


@pytest.mark.parametrize(
    "name",
    ["consecutive-1", "total-0", "total-03", "total", "step-cap-0", "F", "e", "", "total-3-x"],
)
def test_a_name_that_is_no_controller_is_refused(name: str) -> None:
    with pytest.raises(UsageError, match="expected one of"):
        named_controller(name)


def test_a_variant_declares_what_its_key_is_made_of() -> None:
    assert declared_needs("total-3") == ("call", "arguments")
    assert declared_needs("consecutive-3-result") == ("call", "arguments", "result")
    assert declared_needs("step-cap-9") == ()
    assert declared_needs("D")[-1] == "progress"
