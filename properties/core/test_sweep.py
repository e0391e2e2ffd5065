"""A sweep gives the same bytes however it is cut, ordered, spread over processes or interrupted."""

import os
import signal
from collections.abc import Callable
from concurrent.futures import Executor, Future
from pathlib import Path
from typing import ParamSpec, TypeVar

import msgspec
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from loopcore.comparison import sweep_chunks
from loopcore.comparison.bench_summary import conclude
from loopcore.comparison.figures import FIGURES, OF_THE_ONSET
from loopcore.comparison.outcomes import from_played, truth_of
from loopcore.comparison.sweep import AHEAD, Swept, digest, sweep
from loopcore.comparison.sweep_chunks import Chunk, Settings, chunks, recovered, run_chunk
from loopcore.comparison.sweep_contestants import Entry, default_entries, form_of, leaving_chances
from loopcore.comparison.sweep_executors import SerialExecutor, executor
from loopcore.comparison.sweep_journal import Journal, packed, unpacked
from loopcore.control.levels import controller
from loopcore.control.limits import Limits
from loopcore.errors import EnvironmentFault, UsageError
from loopcore.worlds.playing import play, tool_policies, trajectory
from loopcore.worlds.tasks import tasks
from properties.core.sweep_values import entry

P = ParamSpec("P")
T = TypeVar("T")


def settings(stepwise: int = 24, columnar: int = 0) -> Settings:
    """Return a small sweep of two applications and a few contestants."""
    some = ("A", "B", "D", "E", "total-3")
    return Settings(
        seed=3,
        applications=("coding", "jobs"),
        stepwise=stepwise,
        columnar=columnar,
        resamples=40,
        entries=tuple(
            one
            for one in default_entries()
            if one.name in some and one.gate == "verify" and one.rho in (None, 0.0, 0.5)
        ),
        limits=Limits(),
    )


@pytest.fixture(autouse=True)
def small_chunks(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sweep_chunks, "CHUNK_TASKS", {"stepwise": 12, "columnar": 60})
    monkeypatch.setattr(sweep_chunks, "BLOCK_TASKS", {"stepwise": 12, "columnar": 25})


_lines: dict[tuple[bytes, Chunk], bytes] = {}


def remembered(given_settings: Settings, chunk: Chunk) -> bytes:
    """Return the chunk's line, computed once for all tests of what is done with lines."""
    key = (msgspec.json.encode(given_settings), chunk)
    if key not in _lines:
        _lines[key] = run_chunk(given_settings, chunk)
    return _lines[key]


def result(swept: Swept) -> bytes:
    """Return the bytes of a sweep's result."""
    return msgspec.json.encode(conclude(swept))


def tiers(swept: Swept) -> bytes:
    """Return the bytes of all figures, without how many chunks there were."""
    return msgspec.json.encode(conclude(swept).tiers)


def whole() -> Swept:
    """Return the sweep as it is in one process."""
    return sweep(settings(), SerialExecutor(), work=remembered)


class Backwards(Executor):
    """Finishes what it was given last first, and counts what it holds."""

    def __init__(self) -> None:
        self.held: list[tuple[Future[object], Callable[[], object]]] = []
        self.most = 0

    def submit(self, fn: Callable[P, T], /, *args: P.args, **kwargs: P.kwargs) -> Future[T]:
        future: Future[T] = Future()
        self.held.append((future, lambda: fn(*args, **kwargs)))  # type: ignore[arg-type]
        self.most = max(self.most, len(self.held))
        if len(self.held) == AHEAD * 2:
            self.release()
        return future

    def release(self) -> None:
        while self.held:
            future, call = self.held.pop()
            future.set_result(call())


def test_the_order_in_which_chunks_end_changes_no_byte() -> None:
    backwards = Backwards()
    assert len(chunks(settings())) == AHEAD * 2
    assert result(sweep(settings(), backwards, jobs=2, work=remembered)) == result(whole())
    assert backwards.most == AHEAD * 2


@pytest.mark.slow
def test_worker_processes_change_no_byte() -> None:
    # A worker does not see the small chunks of these tests; it is told where a chunk begins.
    with executor(2) as pool:
        spread = sweep(settings(24, 60), pool, jobs=2)
    assert result(spread) == result(sweep(settings(24, 60), SerialExecutor()))


@pytest.mark.slow
def test_the_sizes_of_chunks_and_blocks_change_no_figure(monkeypatch: pytest.MonkeyPatch) -> None:
    expected = tiers(sweep(settings(24, 150), SerialExecutor()))
    monkeypatch.setattr(sweep_chunks, "CHUNK_TASKS", {"stepwise": 11, "columnar": 1_000})
    monkeypatch.setattr(sweep_chunks, "BLOCK_TASKS", {"stepwise": 3, "columnar": 49})
    assert tiers(sweep(settings(24, 150), SerialExecutor())) == expected


def test_another_seed_gives_another_result() -> None:
    other = msgspec.structs.replace(settings(), seed=4)
    assert tiers(sweep(other, SerialExecutor())) != tiers(whole())


def test_chunks_cover_every_task_once() -> None:
    found = chunks(settings(21, 130))
    for tier, count in (("stepwise", 21), ("columnar", 130)):
        for application in ("coding", "jobs"):
            numbers = [
                number
                for chunk in found
                if (chunk.tier, chunk.application) == (tier, application)
                for number in range(chunk.first, chunk.first + chunk.count)
            ]
            assert sorted(numbers) == list(range(count))
    assert len({chunk.name for chunk in found}) == len(found)


def test_the_sums_of_all_habits_are_those_of_all_tasks() -> None:
    swept = whole()
    for sums in swept.sums.values():
        assert np.array_equal(sums.totals[1:].sum(axis=0), sums.totals[0])


class Interrupted:
    """Works on so many chunks and is then interrupted, as by a key."""

    def __init__(self, chunks_done: int) -> None:
        self.left = chunks_done
        self.worked: list[str] = []

    def __call__(self, given_settings: Settings, chunk: Chunk) -> bytes:
        if self.left == 0:
            raise KeyboardInterrupt
        self.left -= 1
        self.worked.append(chunk.name)
        return remembered(given_settings, chunk)


def journal(folder: Path, of: Settings) -> Journal:
    return Journal(path=folder / "bench.journal", settings_sha256=digest(of))


def test_an_interrupted_sweep_goes_on_with_what_is_missing(tmp_path: Path) -> None:
    first, second = Interrupted(3), Interrupted(100)
    half = sweep(settings(), SerialExecutor(), journal=journal(tmp_path, settings()), work=first)
    assert half.interrupted
    # The third chunk was handed out beside the one that was interrupted, and is not merged.
    assert half.done == 2
    assert not conclude(half).complete
    assert conclude(half).chunks_done == 2
    rest = sweep(settings(), SerialExecutor(), journal=journal(tmp_path, settings()), work=second)
    assert rest.resumed == 2
    assert {*first.worked[:2], *second.worked} == {chunk.name for chunk in chunks(settings())}
    assert len(second.worked) == rest.chunks - 2
    assert result(rest) == result(whole())


def test_a_torn_last_line_is_said_and_its_chunk_run_again(tmp_path: Path) -> None:
    sweep(settings(), SerialExecutor(), journal=journal(tmp_path, settings()), work=remembered)
    path = tmp_path / "bench.journal"
    before = path.read_bytes()
    path.write_bytes(before[:-40])
    kept, again = journal(tmp_path, settings()), Interrupted(100)
    swept = sweep(settings(), SerialExecutor(), journal=kept, work=again)
    assert len(again.worked) == 1
    assert kept.note is not None
    assert "torn" in kept.note
    assert result(swept) == result(whole())
    assert path.read_bytes() == before


def test_a_journal_of_other_settings_is_begun_anew(tmp_path: Path) -> None:
    sweep(settings(), SerialExecutor(), journal=journal(tmp_path, settings()), work=remembered)
    other = msgspec.structs.replace(settings(), limits=Limits(repeat=3))
    kept = journal(tmp_path, other)
    swept = sweep(other, SerialExecutor(), journal=kept, work=Interrupted(100))
    assert swept.resumed == 0
    assert kept.note is not None
    assert "other settings" in kept.note
    again = sweep(other, SerialExecutor(), journal=journal(tmp_path, other), work=Interrupted(0))
    assert (again.resumed, again.interrupted) == (again.chunks, False)


def dies(given_settings: Settings, chunk: Chunk) -> bytes:
    """End the worker process as the system does when memory is short."""
    os.kill(os.getpid(), signal.SIGKILL)
    return b""


@pytest.mark.slow
def test_a_worker_that_is_ended_is_the_machines_fault_and_keeps_what_was_done(
    tmp_path: Path,
) -> None:
    sweep(settings(), SerialExecutor(), journal=journal(tmp_path, settings()), work=Interrupted(3))
    with executor(2) as pool, pytest.raises(EnvironmentFault, match="goes on with the rest"):
        sweep(settings(), pool, jobs=2, journal=journal(tmp_path, settings()), work=dies)
    rest = sweep(
        settings(), SerialExecutor(), journal=journal(tmp_path, settings()), work=remembered
    )
    assert rest.resumed == 2


@pytest.mark.parametrize("gate", ["trust", "verify"])
def test_level_e_is_what_playing_every_task_at_every_chance_gives(gate: str) -> None:
    policies = tool_policies("coding")
    under = Limits(gate="trust" if gate == "trust" else "verify", tools=policies, horizon=120)
    stuck: dict[str, float] = dict.fromkeys(
        ("exact_repeater", "alternator", "reworder", "slow_starter"), 1.0
    )
    some = tasks("coding", 40, 9, mixture=stuck)
    onsets = truth_of("coding", [trajectory(task, 120) for task in some]).onset.tolist()
    level_d = from_played([play(task, controller("D"), under, {}) for task in some], onsets)
    curve = [
        Entry(name="E", gate=under.gate, kind="recovery", rho=rho) for rho in (0.0, 0.3, 0.6, 1.0)
    ]
    found, turns = recovered(some, onsets, level_d, under, curve)
    for one in curve:
        leaving = leaving_chances(one.rho or 0.0)
        runs = [play(task, controller("E"), under, leaving) for task in some]
        every = from_played(runs, onsets)
        for name in ("turn", "cause", "verified", "cost_microunits", "caught_turn", "won"):
            assert np.array_equal(getattr(found[one], name), getattr(every, name)), name
    # It played fewer turns than all runs have, or the shortcut would be of no use.
    assert 0 < turns < sum(int(found[one].turn.sum()) for one in curve)


def test_an_entry_has_its_own_limits_and_a_form_its_own_way() -> None:
    tuned = Entry(name="D", gate="verify", overlay='{"repeat": 2, "window": 5}')
    form = Entry(
        name="as level B",
        gate="verify",
        kind="form",
        maker="properties.core.sweep_values:as_level_b",
    )
    some = msgspec.structs.replace(
        settings(12), applications=("jobs",), entries=(entry("B"), entry("D"), tuned, form)
    )
    rows = conclude(sweep(some, SerialExecutor())).tiers[0].families[-1].rows
    by_label = {row.label: row.figures for row in rows}
    played, stopped = by_label["as level B verify"], by_label["B verify"]
    same = [one.name for one in FIGURES if one.below not in OF_THE_ONSET]
    assert [played[name] for name in same] == [stopped[name] for name in same]
    assert len(same) > len(FIGURES) / 2
    changed = msgspec.structs.replace(
        some, entries=(entry("D"),), limits=Limits(repeat=2, window=5)
    )
    alone = conclude(sweep(changed, SerialExecutor())).tiers[0].families[-1].rows[0]
    assert by_label[tuned.label] == alone.figures != by_label["D verify"]


@pytest.mark.parametrize("maker", [None, "", "loopcore.nothing:f", "loopcore.files:DEFAULT_FOLDER"])
def test_a_form_without_a_function_is_refused_by_name(maker: str | None) -> None:
    with pytest.raises(UsageError, match="my form"):
        form_of(Entry(name="my form", gate="trust", kind="form", maker=maker))


matrices = st.integers(0, 5).flatmap(
    lambda columns: st.lists(
        st.lists(st.integers(-(2**62), 2**62), min_size=columns, max_size=columns), max_size=6
    ).map(lambda rows: np.array(rows, dtype=np.int64).reshape(len(rows), columns))
)


@given(matrices)
def test_packed_integers_come_back(matrix: np.ndarray[tuple[int, ...], np.dtype[np.int64]]) -> None:
    assert np.array_equal(unpacked(packed(matrix)), matrix)
