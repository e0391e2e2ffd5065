"""Incidents 13.1, 13.4 and 13.5: torn tails, records written again, and half characters."""

import json
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from loopcore.control.fingerprints import action_fingerprint, result_fingerprint
from loopcore.control.variants import variant
from loopcore.errors import InputError
from loopcore.recordings import observation_log
from loopcore.recordings.load import load, samples
from loopcore.recordings.model import Loaded
from loopcore.recordings.observation_log import read_log
from loopcore.recordings.reading import parse_lines, separate_tail

RECORDS: list[dict[str, object]] = [
    {"record": "run", "name": "ä😀"},
    {"record": "observation", "text": "x" * 20},
    {"record": "observation", "text": "ü😀ü"},
]


def log_of(records: list[dict[str, object]]) -> bytes:
    """Return a log whose characters beyond ASCII are bytes of several, not escapes."""
    return b"".join(json.dumps(r, ensure_ascii=False).encode() + b"\n" for r in records)


NEW = log_of([{"record": "observation", "text": "new"}])
WHOLE = log_of(RECORDS)
LAST = len(log_of(RECORDS[:-1]))


# 13.1


def test_incident_13_1_a_log_cut_at_any_byte_of_its_last_record_keeps_the_earlier_ones() -> None:
    for end in range(LAST + 1, len(WHOLE) - 1):
        found = parse_lines(WHOLE[:end], "log.jsonl")
        assert [node.value for node in found.records] == RECORDS[:-1]
        assert len(found.findings) == 1
        assert found.findings[0].startswith(f"torn tail: {end - LAST} bytes")


def test_incident_13_1_a_record_appended_after_a_cut_does_not_fuse_with_the_tail() -> None:
    for end in range(LAST, len(WHOLE) + 1):
        appended = separate_tail(WHOLE[:end]) + NEW
        found = parse_lines(appended, "log.jsonl")
        kept = RECORDS if end >= len(WHOLE) - 1 else RECORDS[:-1]
        assert [node.value for node in found.records] == [*kept, json.loads(NEW)]
        assert found.findings == ()


def test_incident_13_1_a_last_record_that_only_lacks_its_newline_is_no_torn_one() -> None:
    found = parse_lines(WHOLE[:-1], "log.jsonl")
    assert (len(found.records), found.findings) == (3, ())


@given(st.integers(0, 2), st.data())
def test_incident_13_1_a_finished_line_that_is_bad_stays_fatal_and_is_named(
    number: int, data: st.DataObject
) -> None:
    lines = WHOLE.splitlines(keepends=True)
    cut = data.draw(st.integers(1, len(lines[number]) - 2))
    lines[number] = lines[number][:cut] + b"\n"
    with pytest.raises(InputError) as caught:
        parse_lines(b"".join(lines), "log.jsonl")
    assert caught.value.code == "malformed"
    assert caught.value.path == f"log.jsonl: line {number + 1}"


def test_incident_13_1_the_importer_lists_the_torn_tail_and_keeps_the_run(tmp_path: Path) -> None:
    data = (samples() / "loopcore/night-jobs.jsonl").read_bytes()
    file = tmp_path / "log.jsonl"
    file.write_bytes(data[:-40])
    loaded = load([file])
    assert not loaded.problems
    assert [len(run.observations) for run in loaded.runs] == [9, 15]
    assert [one.reason.split(":")[0] for one in loaded.listed] == ["torn tail"]


# 13.4


def own_log() -> list[str]:
    """Return a log of one run with seven observations."""
    lines = (samples() / "loopcore/night-jobs.jsonl").read_text().splitlines(keepends=True)
    return lines[:8]


def imported(lines: list[str], tmp_path: Path) -> Loaded:
    file = tmp_path / "log.jsonl"
    file.write_text("".join(lines))
    return load([file])


@given(st.integers(0, 8), st.integers(0, 8))
def test_incident_13_4_records_written_again_on_resume_count_once(start: int, end: int) -> None:
    lines = own_log()
    resumed = lines[:end] + lines[min(start, end) : end] + lines[end:]
    plain = read_log("".join(lines).encode(), "log.jsonl").runs[0]
    again = read_log("".join(resumed).encode(), "log.jsonl").runs[0]
    assert len(again.observations) == 7
    assert again == plain
    assert sum(seen.usage.cost_microunits or 0 for seen in again.observations) == 1400


@pytest.mark.parametrize("line", range(1, 8))
def test_incident_13_4_the_same_place_with_other_content_is_malformed(
    line: int, tmp_path: Path
) -> None:
    other = own_log()[line].replace('"job": 7', '"job": 8')
    loaded = imported([*own_log(), other], tmp_path)
    assert loaded.problems[0].code == "malformed"
    assert loaded.problems[0].place.endswith("log.jsonl: line 9.observation")


def test_incident_13_4_a_record_of_a_run_that_was_never_opened_is_malformed(
    tmp_path: Path,
) -> None:
    stray = own_log()[1].replace("poll-advancing", "nobody")
    loaded = imported([*own_log(), stray], tmp_path)
    assert loaded.problems[0].place.endswith("log.jsonl: line 9")


def test_incident_13_4_a_chat_that_was_written_again_counts_once(tmp_path: Path) -> None:
    document = json.loads((samples() / "tau2/meters.json").read_text())
    plain = load([samples() / "tau2/meters.json"]).runs[1]
    for again in (1, 3, 5, 20):
        messages = document["simulations"][1]["messages"]
        resumed = json.loads(json.dumps(document))
        resumed["simulations"][1]["messages"] = messages[:again] + messages
        file = tmp_path / "t.json"
        file.write_text(json.dumps(resumed))
        run = load([file]).runs[1]
        assert run.observations == plain.observations
        assert run.warnings == (f"{again} messages were exact copies and count once",)


@pytest.mark.parametrize("fault", ["other arguments", "other result", "unknown call"])
def test_incident_13_4_a_call_id_that_means_two_things_is_malformed(
    fault: str, tmp_path: Path
) -> None:
    source = samples() / "mini-swe-agent-1.1/runs/harbour__tide-1/harbour__tide-1.traj.json"
    document = json.loads(source.read_text())
    messages = document["messages"]
    call, result = json.loads(json.dumps(messages[5])), json.loads(json.dumps(messages[6]))
    if fault == "other arguments":
        call["extra"]["actions"][0]["command"] = "rm -r /"
        messages.append(call)
        place = "$.messages[23].extra.actions[0].tool_call_id"
    elif fault == "other result":
        result["content"] = "other"
        messages.append(result)
        place = "$.messages[23].tool_call_id"
    else:
        result["tool_call_id"] = "never made"
        messages.append(result)
        place = "$.messages[23].tool_call_id"
    at = len(messages) - 1
    file = tmp_path / "t.json"
    file.write_text(json.dumps(document))
    problem = load([file]).problems[0]
    assert problem.code == "malformed"
    assert problem.place.endswith(place.replace("[23]", f"[{at}]"))


def test_incident_13_4_an_exact_copy_of_a_trajectorys_messages_counts_once(tmp_path: Path) -> None:
    source = samples() / "mini-swe-agent-1.1/runs/harbour__tide-1/harbour__tide-1.traj.json"
    document = json.loads(source.read_text())
    document["messages"] = document["messages"][:9] + document["messages"][2:]
    file = tmp_path / "t.json"
    file.write_text(json.dumps(document))
    run, plain = load([file]).runs[0], load([source]).runs[0]
    assert run.observations == plain.observations


def test_incident_13_4_an_id_that_is_still_open_may_not_be_handed_out_again(
    tmp_path: Path,
) -> None:
    document = json.loads((samples() / "tau-bench/front-desk.json").read_text())
    calls = document[0]["traj"][2]["tool_calls"]
    calls.append(json.loads(json.dumps(calls[0])))
    calls[1]["function"]["name"] = "cancel_stay"
    file = tmp_path / "t.json"
    file.write_text(json.dumps(document))
    problem = load([file]).problems[0]
    assert problem.place.endswith("$[0].traj[2].tool_calls[1].id")


# 13.5

HALF = st.sampled_from(["\ud83d", "\ude00", "a\ud83d", "\ude00\ud83d", "😀\udfff"])


@given(HALF, st.text())
def test_incident_13_5_a_half_character_hashes_and_is_written_alike_each_time(
    half: str, text: str
) -> None:
    document = json.loads((samples() / "intercode/multi-turn.json").read_text())
    history = document["0"]["turn_history"]
    history["actions"] = [half + text] * 3
    history["observations"] = [text + half] * 3
    history["rewards"], history["valid_action"] = [0, 0, 1], [True] * 3
    from loopcore.recordings import intercode
    from loopcore.recordings.reading import parse_json

    run = intercode.read(parse_json(json.dumps({"0": document["0"]}), "log.json")).runs[0]
    first, second, _ = run.observations
    assert action_fingerprint("sql", first.arguments) == action_fingerprint("sql", second.arguments)
    assert result_fingerprint(first.result) == result_fingerprint(second.result)
    guard = variant("consecutive-3")
    reasons = [guard.observe(seen).reason for seen in run.observations]
    assert reasons == [None, None, "repeated_action"]
    written = "".join(observation_log.lines([run])).encode("ascii")
    assert read_log(written, "log.jsonl").runs == [run]


def test_incident_13_5_a_half_character_is_not_its_whole_nor_its_replacement() -> None:
    names = ["\ud83d", "\ude00", "😀", "�", "\\ud83d", ""]
    assert len({action_fingerprint("t", name) for name in names}) == len(names)


def test_incident_13_5_an_audit_of_half_characters_prints_and_writes_its_verdict(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    from loopcore.cli import main

    document = json.loads((samples() / "tau2/meters.json").read_text())
    for simulation in document["simulations"]:
        simulation["termination_reason"] = "\ud83d"
        simulation["id"] += "\ud83d"
    document["info"]["agent_info"]["llm"] = "half \ud83d"
    file = tmp_path / "t.json"
    file.write_text(json.dumps(document))
    assert main(["audit", str(file), "--out", str(tmp_path / "out")]) == 0
    assert "half \\ud83d" in capsys.readouterr().out
    assert json.loads((tmp_path / "out/audit.json").read_text())["complete"] is True
    assert main(["import", str(file), "--out", str(tmp_path / "out")]) == 0
    assert len(load([tmp_path / "out/tau2.jsonl"]).runs) == 3
