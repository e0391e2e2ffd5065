"""A cluster gives the bytes of one process, also when a worker is killed in the middle."""

import os
import signal
from pathlib import Path
from typing import Protocol, cast

import msgspec
import pytest

from loopcore.cli import EXIT_INPUT, main
from loopcore.comparison.bench_summary import conclude
from loopcore.comparison.sweep import sweep
from loopcore.comparison.sweep_chunks import Settings, chunks
from loopcore.comparison.sweep_contestants import default_entries
from loopcore.comparison.sweep_executors import SerialExecutor, executor
from loopcore.comparison.sweep_journal import Line
from loopcore.control.limits import Limits

SETTINGS = Settings(
    seed=5,
    applications=("coding", "etl", "jobs"),
    stepwise=250,
    columnar=0,
    resamples=40,
    entries=default_entries(),
    limits=Limits(),
)


class _Cluster(Protocol):
    scheduler_address: str


class _Client(Protocol):
    def run(self, function: object) -> dict[str, int]: ...

    def processing(self) -> dict[str, tuple[str, ...]]: ...

    def close(self) -> None: ...


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore")
def test_two_workers_of_which_one_is_killed_give_the_bytes_of_one_process() -> None:
    distributed = pytest.importorskip("distributed")
    cluster = distributed.LocalCluster(
        n_workers=2,
        threads_per_worker=1,
        processes=True,
        host="127.0.0.1",
        dashboard_address=None,
        silence_logs=60,
    )
    client = cast("_Client", distributed.Client(cluster, set_as_default=False))
    killed: list[tuple[int, bool]] = []

    def kill_one(done: int, whole: int, line: Line) -> None:
        """Kill the worker that has most to do, as soon as the first chunk is done."""
        if killed:
            return
        pids = client.run(os.getpid)
        assert len(pids) == 2
        busy = {worker: len(keys) for worker, keys in client.processing().items()}
        victim = max(pids, key=lambda worker: busy.get(worker, 0))
        os.kill(pids[victim], signal.SIGKILL)
        killed.append((done, busy.get(victim, 0) > 0))

    try:
        address = cast("_Cluster", cluster).scheduler_address
        assert address.startswith("tcp://127.0.0.1:")
        with executor(2, address) as pool:
            swept = sweep(SETTINGS, pool, jobs=2, on_chunk=kill_one)
    finally:
        client.close()
        cluster.close()
    assert killed == [(1, True)], "the worker was not killed in the middle of a chunk"
    assert swept.done == swept.chunks == len(chunks(SETTINGS))
    alone = sweep(SETTINGS, SerialExecutor())
    assert msgspec.json.encode(conclude(swept)) == msgspec.json.encode(conclude(alone))


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore")
def test_a_cluster_that_does_not_answer_is_one_sentence(
    capsys: pytest.CaptureFixture[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    pytest.importorskip("distributed")
    monkeypatch.setattr("loopcore.comparison.sweep_executors.CLUSTER_SECONDS_MAX", 1)
    words = ["bench", "--quick", "--cluster", "tcp://127.0.0.1:9", "--out", str(tmp_path)]
    assert main(words) == EXIT_INPUT
    said = capsys.readouterr().err
    assert "the cluster 'tcp://127.0.0.1:9' does not answer" in said
    assert len(said.splitlines()) == 1
