"""Importers read their samples as they are meant and keep what they cannot tell unknown."""

import json
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from loopcore.recordings import observation_log
from loopcore.recordings.exact import exact_json
from loopcore.recordings.load import load, samples
from loopcore.recordings.model import Loaded, Run, is_call

SAMPLES = load([samples()])
TRAJECTORY = "mini-swe-agent-1.1/runs/harbour__tide-1/harbour__tide-1.traj.json"


def run_named(name: str, loaded: Loaded = SAMPLES) -> Run:
    found = [run for run in loaded.runs if run.run_id == name]
    assert len(found) == 1, [run.run_id for run in loaded.runs]
    return found[0]


def written(folder: Path, name: str, data: bytes | str) -> Path:
    file = folder / name
    file.write_bytes(data if isinstance(data, bytes) else data.encode())
    return file


# Set: runs, successes, failures without a call are not counted, censored runs.
EXPECTED = {
    "InterCode": (7, 4, 2),
    "WebShop": (4, 1, 1),
    "mini-swe-agent 1": (2, 1, 0),
    "mini-swe-agent 1.1": (3, 1, 1),
    "night jobs": (2, 1, 1),
    "tau-bench": (5, 2, 1),
    "tau2": (3, 2, 1),
}


def test_the_samples_hold_the_runs_that_they_were_written_to_hold() -> None:
    counts = {
        name: (len(runs), sum(run.success is True for run in runs), sum(r.censored for r in runs))
        for name, runs in SAMPLES.sets()
    }
    assert counts == EXPECTED
    assert SAMPLES.problems == ()


def test_a_run_without_a_call_is_listed_with_its_outcome_and_never_counted() -> None:
    without = [(one.set, one.success) for one in SAMPLES.listed if one.reason == "no agent call"]
    assert sorted(without, key=str) == [
        ("InterCode", False),
        ("WebShop", False),
        ("mini-swe-agent 1.1", None),
        ("tau-bench", False),
        ("tau-bench", True),
        ("tau2", False),
    ]
    assert all(any(map(is_call, run.observations)) for run in SAMPLES.runs)


def test_observations_are_numbered_upward_and_usage_stands_on_the_first_of_a_turn() -> None:
    for run in SAMPLES.runs:
        places = [(seen.turn, seen.action) for seen in run.observations]
        assert places == sorted(set(places))
        assert all(seen.action == 1 or seen.usage.model_calls is None for seen in run.observations)


def test_parallel_calls_share_a_turn_and_each_gets_its_own_result() -> None:
    run = run_named("s-parallel")
    pair = [seen for seen in run.observations if seen.turn == 2]
    assert [(seen.action, seen.tool) for seen in pair] == [(1, "get_meter"), (2, "get_meter")]
    assert [json.loads(str(seen.result))["year"] for seen in pair] == [2019, 2027]
    assert pair[0].usage.tool_calls == 2
    both = run_named("harbour__tide-1").observations[:2]
    assert [(seen.turn, seen.action) for seen in both] == [(1, 1), (1, 2)]


def test_the_simulated_users_calls_are_not_the_agents() -> None:
    assert all(seen.tool != "check_display" for seen in run_named("s-parallel").observations)


def test_a_call_that_is_marked_as_the_users_is_not_the_agents_whoever_says_it(
    tmp_path: Path,
) -> None:
    document = json.loads((samples() / "tau2/meters.json").read_text())
    pair = document["simulations"][0]["messages"][2]["tool_calls"]
    pair[1]["requestor"] = "user"
    run = run_named("s-parallel", load([written(tmp_path, "log.json", json.dumps(document))]))
    assert [seen.action for seen in run.observations if seen.turn == 2] == [1]


def test_a_write_that_succeeds_is_progress_and_one_that_fails_is_an_error() -> None:
    calls = [seen for seen in run_named("s-parallel").observations if seen.tool == "send_bill"]
    assert [(seen.progress, seen.error_class) for seen in calls] == [
        (0, "error_no_bill_is_open_for"),
        (1, None),
    ]
    text = [seen for seen in run_named("s-parallel").observations if seen.tool is None]
    assert text
    assert all(seen.progress is None for seen in text)


def test_the_oracles_reward_reaches_no_observation() -> None:
    for run in SAMPLES.runs:
        if run.set == "InterCode":
            assert run.oracle_rewards is not None
            assert len(run.oracle_rewards) == len(run.observations)
            assert all(seen.progress is None for seen in run.observations)
            assert all(seen.verified is None for seen in run.observations)


def test_changing_the_oracles_rewards_changes_no_observation(tmp_path: Path) -> None:
    document = json.loads((samples() / "intercode/multi-turn.json").read_text())
    before = load([written(tmp_path, "a.json", json.dumps(document))])
    for entry in document.values():
        history = entry["turn_history"]
        history["rewards"] = [0.25 for _ in history["rewards"]]
    after = load([written(tmp_path, "a.json", json.dumps(document))])
    assert [run.observations for run in before.runs] == [run.observations for run in after.runs]


def test_a_text_that_is_no_observation_text_becomes_its_json() -> None:
    assert run_named("multi-turn:4").observations[0].result == "4"


def test_a_format_error_is_a_turn_without_a_call() -> None:
    wrong = [
        seen
        for seen in run_named("mill__grain-1").observations
        if seen.error_class == "format_error"
    ]
    assert [(seen.turn, seen.tool) for seen in wrong] == [(5, None)]


def test_a_timeout_and_an_exit_status_are_error_classes() -> None:
    classes = {seen.error_class for seen in run_named("mill__grain-2").observations}
    assert classes == {None, "timeout"}
    assert {s.error_class for s in run_named("harbour__tide-2").observations} == {None, "exit_1"}


def test_a_thought_in_the_shop_is_not_a_call() -> None:
    assert [seen.tool for seen in run_named("0").observations] == [
        "search",
        None,
        "click",
        "click",
        "click",
    ]


def test_costs_are_exact_microunits_and_an_unpriced_model_is_unknown() -> None:
    priced = run_named("harbour__tide-3")
    assert priced.cost_known
    costs = [seen.usage.cost_microunits for seen in priced.observations]
    assert sum(cost or 0 for cost in costs) == 4 * 312 + 415
    unpriced = run_named("s-unpriced")
    assert not unpriced.cost_known
    assert [s.usage.cost_microunits for s in unpriced.observations] == [0, None, None, None]
    assert "3 model calls have tokens and no price" in unpriced.warnings[0]


def test_the_shell_heuristic_is_off_unless_it_is_asked_for_and_says_what_it_is() -> None:
    file = samples() / TRAJECTORY
    assert all(seen.progress is None for seen in run_named("harbour__tide-1").observations)
    guessed = load([file], shell_progress=True).runs[0]
    assert guessed.signal.startswith("heuristic")
    advanced = [str(s.arguments) for s in guessed.observations if s.progress == 1]
    assert len(advanced) == len(set(advanced)) == 5
    assert not any("pytest" in command for command in advanced)


def test_a_trajectory_without_a_report_has_an_unknown_outcome() -> None:
    run = load([samples() / TRAJECTORY]).runs[0]
    assert run.success is None
    assert run.warnings[-1] == "no report among the named paths tells its outcome"


def test_the_nearest_report_counts_and_equals_that_contradict_leave_it_unknown(
    tmp_path: Path,
) -> None:
    near = tmp_path / "a" / "runs"
    near.mkdir(parents=True)
    written(near, "t.traj.json", (samples() / TRAJECTORY).read_bytes())
    name = "harbour__tide-1"
    written(tmp_path, "far.json", json.dumps({"resolved_ids": [name]}))
    written(tmp_path / "a", "near.json", json.dumps({"resolved_ids": [], "error_ids": [name]}))
    assert run_named(name, load([tmp_path])).success is False
    written(tmp_path / "a", "other.json", json.dumps({"resolved_ids": [name]}))
    contradicted = run_named(name, load([tmp_path]))
    assert contradicted.success is None
    assert "contradict" in contradicted.warnings[-1]


def test_files_beside_the_logs_are_listed_and_do_no_harm(tmp_path: Path) -> None:
    written(tmp_path, "LICENSE", "text")
    written(tmp_path, "notes.json", '{"a": 1}')
    written(tmp_path, "log.json", (samples() / "tau2/meters.json").read_bytes())
    loaded = load([tmp_path])
    assert len(loaded.runs) == 3
    assert not loaded.problems
    reasons = {Path(one.source).name: one.reason for one in loaded.listed}
    assert reasons["LICENSE"] == "not a log by its name"
    assert reasons["notes.json"] == "no known format"


def test_one_bad_file_does_not_lose_the_others(tmp_path: Path) -> None:
    written(tmp_path, "bad.json", '{"simulations": [')
    written(tmp_path, "good.json", (samples() / "tau2/meters.json").read_bytes())
    loaded = load([tmp_path, tmp_path / "missing.json"])
    assert len(loaded.runs) == 3
    assert sorted(problem.code for problem in loaded.problems) == ["malformed", "unreadable"]


def test_a_file_named_twice_is_read_once_and_equal_names_are_told_apart(tmp_path: Path) -> None:
    file = samples() / "tau2/meters.json"
    assert len(load([file, file]).runs) == 3
    copy = written(tmp_path, "copy.json", file.read_bytes())
    names = [run.run_id for run in load([file, copy]).runs]
    assert len(names) == len(set(names)) == 6


def test_our_own_log_gives_every_run_back(tmp_path: Path) -> None:
    file = written(tmp_path, "all.jsonl", "".join(observation_log.lines(SAMPLES.runs)))
    again = load([file])
    assert not again.problems
    assert again.runs == SAMPLES.runs


JSON_VALUES = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text() | st.sampled_from(["\udc00", "\ud83d"]),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(), inner, max_size=3),
)


@given(JSON_VALUES)
def test_exact_json_is_one_ascii_line_with_the_same_value(value: object) -> None:
    text = exact_json(value)
    assert text.isascii()
    assert "\n" not in text
    assert json.loads(text) == value


@pytest.mark.parametrize("text", ["1.50", "1E-7", "0.10000000000000000000000000001", "-0.0"])
def test_exact_json_keeps_every_digit(text: str) -> None:
    from loopcore.recordings.reading import parse_json

    assert json.loads(exact_json(parse_json(f"[{text}]", "f").value), parse_float=str) == [text]


def test_a_long_result_is_cut_and_keeps_the_fingerprint_of_the_whole(tmp_path: Path) -> None:
    from loopcore.control.fingerprints import result_fingerprint

    document = json.loads((samples() / "intercode/multi-turn.json").read_text())
    long = "é\ud83d" * 40_000
    document["4"]["turn_history"]["observations"] = [long]
    loaded = load([written(tmp_path, "log.json", json.dumps(document))])
    seen = run_named("log:4", loaded).observations[0]
    assert len(str(seen.result).encode("utf-8", "surrogatepass")) <= 64 * 1024
    assert long.startswith(str(seen.result))
    assert seen.result_fingerprint == result_fingerprint(long)


def test_what_an_importer_handed_over_cannot_be_changed() -> None:
    run = run_named("0/0")
    with pytest.raises(AttributeError):
        run.observations[0].turn = 9  # type: ignore[misc]
