"""Replay says where a contestant would have stopped, and only what the recording can tell."""

from collections.abc import Sequence
from functools import partial

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from loopcore.comparison.audit import AuditResult, SetResult, audit, conclude
from loopcore.comparison.cap import cap_over_splits
from loopcore.comparison.contestants import contestants
from loopcore.comparison.replay import Contestant, Phase, Stop, replay, with_fingerprints
from loopcore.comparison.tables import markdown
from loopcore.control.decisions import Decision
from loopcore.control.limits import Limits
from loopcore.control.observations import Observation, Usage
from loopcore.control.variants import variant
from loopcore.recordings.load import load, samples
from loopcore.recordings.model import Loaded, Run

OFF = Limits(max_steps=None, horizon=None)


def observation(turn: int, action: int = 1, name: str = "a", **usage: int | None) -> Observation:
    first: dict[str, int | None] = {"model_calls": 1, "cost_microunits": 10} if action == 1 else {}
    return Observation(
        turn=turn,
        action=action,
        tool="tool",
        arguments={"name": name},
        result="same",
        usage=Usage(**(first | usage)),
    )


def run_of(
    seen: Sequence[Observation], *, success: bool | None = False, task: str = "t", name: str = "r"
) -> Run:
    return Run(
        set="s",
        format="f",
        run_id=name,
        task=task,
        trial=0,
        model=None,
        success=success,
        outcome="",
        censored=False,
        signal="none",
        observations=tuple(seen),
        source="here",
        cost_known=True,
    )


def naive(name: str, phase: Phase) -> Contestant:
    return Contestant(name=name, make=partial(variant, name), limits=OFF, phase=phase)


class Scripted:
    """Answers what it is told to at each place."""

    def __init__(self, answers: dict[tuple[int, int], Decision]) -> None:
        self.answers = answers

    def start(self, limits: Limits) -> None:
        """Keep nothing of the limits."""

    def observe(self, observation: Observation) -> Decision:
        """Return the answer that stands for this place."""
        place = (observation.turn, observation.action)
        return self.answers.get(place, Decision(decision="continue"))


def scripted(phase: Phase = "after", **answers: Decision) -> Contestant:
    places = {(int(key[1]), int(key[3])): answer for key, answer in answers.items()}
    return Contestant(name="scripted", make=lambda: Scripted(places), limits=OFF, phase=phase)


def stop_for(reason: str) -> Decision:
    return Decision(decision="stop", reason=reason)


FIVE = [observation(turn) for turn in range(1, 6)]


def test_before_blocks_the_action_and_after_has_executed_its_turn() -> None:
    before = replay(run_of(FIVE), naive("consecutive-3", "before"))
    after = replay(run_of(FIVE), naive("consecutive-3", "after"))
    assert (before.turn, before.steps_saved, before.phase) == (3, 3, "before")
    assert (after.turn, after.steps_saved, after.phase) == (3, 2, "after")
    # The model call that proposed the blocked action is paid for in both.
    assert before.cost_saved_microunits == after.cost_saved_microunits == 20
    assert before.cost_microunits == 50


def test_before_blocks_in_the_middle_of_a_turn_and_after_lets_the_turn_end() -> None:
    seen = [observation(1), observation(1, 2), observation(1, 3, "b"), observation(2, 1, "c")]
    before = replay(run_of(seen), naive("consecutive-2", "before"))
    after = replay(run_of(seen), naive("consecutive-2", "after"))
    assert (before.turn, before.action, before.steps_saved) == (1, 2, 3)
    assert (after.turn, after.action, after.steps_saved) == (1, 2, 1)


@pytest.mark.parametrize(("success", "expected"), [(True, True), (False, False), (None, None)])
def test_a_stop_before_the_end_is_false_only_on_a_verified_run(
    success: bool | None, expected: bool | None
) -> None:
    found = replay(run_of(FIVE, success=success), naive("consecutive-3", "before"))
    assert found.false_stop is expected


def test_a_stop_after_the_last_turn_cut_nothing_off() -> None:
    found = replay(run_of(FIVE[:3], success=True), naive("consecutive-3", "after"))
    assert (found.turn, found.false_stop, found.steps_saved) == (None, False, 0)
    blocked = replay(run_of(FIVE[:3], success=True), naive("consecutive-3", "before"))
    assert (blocked.turn, blocked.false_stop, blocked.steps_saved) == (3, True, 1)


def test_one_unknown_cost_after_the_stop_makes_the_saved_cost_unknown() -> None:
    late = [*FIVE[:4], observation(5, cost_microunits=None)]
    found = replay(run_of(late), naive("consecutive-3", "after"))
    assert (found.steps_saved, found.cost_saved_microunits, found.cost_microunits) == (
        2,
        None,
        None,
    )
    early = [observation(1, cost_microunits=None), *FIVE[1:]]
    found = replay(run_of(early), naive("consecutive-3", "after"))
    assert (found.cost_saved_microunits, found.cost_microunits) == (20, None)


def test_a_turn_that_called_no_model_costs_a_true_zero() -> None:
    free = [observation(1, model_calls=0, cost_microunits=None), *FIVE[1:]]
    assert replay(run_of(free), naive("total-9", "after")).cost_microunits == 40


def test_the_turns_highest_stop_counts_whatever_its_action() -> None:
    seen = [observation(1), observation(1, 2, "b"), observation(2)]
    found = replay(
        run_of(seen),
        scripted(t1a1=stop_for("no_progress"), t1a2=stop_for("step_budget_exhausted")),
    )
    assert (found.reason, found.cause, found.action) == ("step_budget_exhausted", "budget", 2)


def test_who_decides_before_dispatch_stops_at_the_first_word() -> None:
    seen = [observation(1), observation(1, 2, "b"), observation(2)]
    found = replay(
        run_of(seen),
        scripted("before", t1a1=stop_for("no_progress"), t1a2=stop_for("step_budget_exhausted")),
    )
    assert (found.reason, found.action, found.steps_saved) == ("no_progress", 1, 3)


def test_a_warning_and_a_recovery_are_no_stop() -> None:
    found = replay(
        run_of(FIVE, success=True),
        scripted(
            t2a1=Decision(decision="warn", reason="no_progress"),
            t3a1=Decision(decision="recover", strategy="replan", reason="no_progress"),
            t4a1=Decision(decision="reject_finish", reason="invalid_completion"),
        ),
    )
    assert (found.turn, found.false_stop, found.recovery_turn) == (None, False, 3)


def test_level_d_is_blind_where_progress_is_unknown_throughout_and_only_there() -> None:
    level_d = next(one for one in contestants() if one.name == "D")
    assert replay(run_of(FIVE), level_d).blind
    known = [*FIVE[:4], msgspec.structs.replace(FIVE[4], progress=0)]
    assert not replay(run_of(known), level_d).blind
    assert not replay(run_of(FIVE), naive("total-3", "before")).blind


SAMPLES = load([samples()])


def test_fingerprints_computed_once_change_no_decision() -> None:
    for run in SAMPLES.runs:
        for contestant in contestants():
            assert replay(run, contestant) == replay(with_fingerprints(run), contestant)


NAMES = st.lists(st.sampled_from("ab"), min_size=1, max_size=12)


def slow_stop(names: Sequence[str], k: int, *, anywhere: bool) -> int | None:
    """Return the index of the K-th identical call, stated the slow way."""
    for index in range(len(names)):
        window = names[: index + 1] if anywhere else names[max(0, index + 1 - k) : index + 1]
        if window.count(names[index]) >= k:
            return index
    return None


@given(NAMES, st.integers(2, 4), st.booleans())
def test_the_naive_rules_stop_where_the_slow_statement_says(
    names: list[str], k: int, anywhere: bool
) -> None:
    seen = [observation(turn, name=name) for turn, name in enumerate(names, start=1)]
    rule = f"{'total' if anywhere else 'consecutive'}-{k}"
    expected = slow_stop(names, k, anywhere=anywhere)
    found = replay(run_of(seen), naive(rule, "before"))
    assert found.turn == (None if expected is None else expected + 1)
    assert found.steps_saved == (0 if expected is None else len(names) - expected)


@given(NAMES, st.integers(1, 5), st.integers(0, 12), st.sampled_from(["consecutive-2", "total-3"]))
def test_what_was_executed_and_what_was_saved_add_up(
    names: list[str], width: int, text_turns: int, rule: str
) -> None:
    seen = [
        observation(index // width + 1, index % width + 1, name) for index, name in enumerate(names)
    ]
    last = seen[-1].turn
    seen += [Observation(turn=last + extra, action=1) for extra in range(1, text_turns + 1)]
    for phase in ("before", "after"):
        found: Stop = replay(run_of(seen), naive(rule, "before" if phase == "before" else "after"))
        assert found.steps == len(names)
        assert 0 <= found.steps_saved < len(names)


RESULT = audit(SAMPLES)


def one_set(name: str, result: AuditResult = RESULT) -> SetResult:
    return next(one for one in result.sets if one.name == name)


def test_no_figure_pools_sets() -> None:
    alone = audit(
        Loaded(runs=tuple(run for run in SAMPLES.runs if run.set == "tau2"), listed=(), problems=())
    )
    assert one_set("tau2", alone) == one_set("tau2")
    assert [one.name for one in RESULT.sets] == [name for name, _ in SAMPLES.sets()]


def test_the_first_fact_is_counted_on_each_coding_set() -> None:
    facts = {fact.set: (fact.stopped.hits, fact.stopped.n) for fact in RESULT.first_fact}
    assert facts == {"InterCode": (1, 4), "mini-swe-agent 1": (1, 1), "mini-swe-agent 1.1": (1, 1)}
    assert all(fact.stopped.small and "unknown" in fact.sentence for fact in RESULT.first_fact)


def test_censored_failures_are_counted_apart_and_causes_add_up() -> None:
    for one in RESULT.sets:
        for row in one.rows:
            assert row.saved_ended.runs + row.saved_censored.runs == row.saved.runs
            assert row.saved_censored.runs == one.censored
            whole = row.saved_ended.steps_saved + row.saved_censored.steps_saved
            assert whole == row.saved.steps_saved
            causes = (row.false_stops_by_detectors, row.false_stops_by_budgets)
            assert sum(causes) + row.false_stops_by_gates == row.false_stops.hits


def test_an_unknown_cost_is_never_shown_as_zero() -> None:
    saved = one_set("InterCode").rows[0].saved
    assert (saved.cost_saved_microunits, saved.cost_microunits) == (None, None)
    priced = one_set("mini-swe-agent 1.1").rows[0].saved
    assert priced.cost_known_runs == priced.runs
    assert priced.cost_saved_microunits


def test_a_run_without_an_outcome_takes_no_part_in_any_figure() -> None:
    runs = [run_of(FIVE, success=None, name=str(number)) for number in range(3)]
    one = audit(Loaded(runs=tuple(runs), listed=(), problems=())).sets[0]
    assert (one.runs, one.unknown, one.successes, one.failures) == (3, 3, 0, 0)
    assert all(row.false_stops.n == 0 and row.saved.runs == 0 for row in one.rows)
    assert all(row.saved.share is None for row in one.rows)


def test_the_same_audit_twice_is_the_same_and_is_json() -> None:
    again = audit(SAMPLES)
    assert again == RESULT
    text = msgspec.json.encode(RESULT)
    assert msgspec.json.decode(text, type=AuditResult) == RESULT
    assert RESULT.schema == "loopcore/audit/1"


def test_the_tables_say_what_is_not_known() -> None:
    text = markdown(RESULT)
    for name, _ in SAMPLES.sets():
        assert f"## {name}\n" in text
    assert "unknown: n < 30" in text
    assert "blind to progress" in text
    assert "censored" in text
    assert "Interrupted" not in text
    assert "Interrupted" in markdown(conclude(SAMPLES, RESULT.sets[:1], complete=False))


def test_the_cap_lets_about_one_success_in_twenty_go_on_too_long() -> None:
    runs = [
        run_of(
            [observation(turn) for turn in range(1, 2 + (number * 7) % 40)],
            success=True,
            task=str(number),
            name=str(number),
        )
        for number in range(200)
    ]
    found = cap_over_splits(runs, splits=60)
    assert found.splits_without_cap == 0
    assert found.false_stop_share is not None
    assert 0 <= found.false_stop_share.mean <= 0.05
    assert found.saved_share is None


def test_the_cap_is_judged_on_tasks_that_it_was_not_calibrated_on() -> None:
    # With 20 calibration tasks the cap is their longest run, so only other tasks can exceed it.
    runs = [
        run_of(
            [observation(turn) for turn in range(1, number + 2)],
            success=True,
            task=str(number),
            name=str(number),
        )
        for number in range(40)
    ]
    found = cap_over_splits(runs, splits=40)
    assert found.false_stop_share is not None
    assert found.false_stop_share.mean > 0


def test_without_nineteen_tasks_there_is_no_cap_and_nothing_is_stopped() -> None:
    runs = [run_of(FIVE, success=n % 2 == 0, task=str(n), name=str(n)) for n in range(30)]
    found = cap_over_splits(runs, splits=20)
    assert found.splits_without_cap == 20
    assert found.cap_turns is None
    assert found.false_stop_share is not None
    assert found.false_stop_share.high == 0
