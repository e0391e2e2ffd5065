"""Planted faults of the runner and its stores, as data, and the seeds that find them.

Theory of operation: a mutant names a module, a text that stands in it exactly once, what stands
there instead, the rule that breaks, and seeds of the simulator on which it does. Each is judged in
a process of its own, where the changed module is made before anything imports it; the same seeds
break nothing in the unchanged runner.

Source: spec verification, section 3 (implementation mutants); spec runtime, section 9.
"""

from __future__ import annotations

import json
import re
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from functools import cache
from pathlib import Path
from typing import cast

import msgspec

from loopcore.mutation.cases import read_data
from loopcore.mutation.planting import source_of
from loopcore.mutation.values import DataError, array, record, text_of

FILE = "runner.json"
CHILD_SECONDS_MAX = 120.0
SEEDS_KEPT = 3
_ROOMS = ("runtime.", "store.")
_RULE = re.compile(r"R\d\d|liveness|crash")


class RunnerMutant(msgspec.Struct, frozen=True, kw_only=True):
    """One planted fault.

    Fields:
        killer: the rule that breaks on the first of the seeds. reason: why it is a fault.
    """

    id: str
    module: str
    text: str
    replacement: str
    killer: str
    reason: str
    seeds: tuple[int, ...]


class Kill(msgspec.Struct, frozen=True, kw_only=True):
    """A seed on which a rule broke."""

    seed: int
    rule: str
    reason: str


class Judged(msgspec.Struct, frozen=True, kw_only=True):
    """What the simulator said of a mutant: its kills, or why nothing can be said."""

    kills: tuple[Kill, ...] = ()
    broken: str | None = None


@cache
def load_runner_mutants() -> tuple[RunnerMutant, ...]:
    """Return the mutants; raise DataError for a bad one, or an id that stands twice."""
    mutants: list[RunnerMutant] = []
    for item in (record(each, "a mutant") for each in array(read_data(FILE), FILE)):
        mutant = RunnerMutant(
            id=text_of(item, "id"),
            module=text_of(item, "module"),
            text=text_of(item, "text"),
            replacement=text_of(item, "replacement"),
            killer=text_of(item, "killer"),
            reason=text_of(item, "reason"),
            seeds=_seeds(item["seeds"]),
        )
        if not mutant.module.startswith(_ROOMS) or _RULE.fullmatch(mutant.killer) is None:
            raise DataError(f"mutant {mutant.id}: its module or its killer is not known.")
        planted_source(mutant)
        mutants.append(mutant)
    if len({mutant.id for mutant in mutants}) != len(mutants):
        raise DataError(f"{FILE}: an id stands twice.")
    return tuple(mutants)


def _seeds(value: object) -> tuple[int, ...]:
    seeds = array(value, "seeds")
    if not seeds or not all(isinstance(seed, int) for seed in seeds):
        raise DataError("a mutant of the runner names the seeds that kill it.")
    return tuple(cast("list[int]", seeds))


def planted_source(mutant: RunnerMutant) -> str:
    """Return the changed source; raise DataError when the text does not stand in it just once."""
    source = source_of(mutant.module)
    count = source.count(mutant.text)
    if count != 1:
        raise DataError(
            f"mutant {mutant.id}: its text stands {count} times in loopcore/{mutant.module}.py, "
            "and once is due."
        )
    return source.replace(mutant.text, mutant.replacement)


def play(
    module: str | None,
    source: str | None,
    seeds: Sequence[int],
    *,
    wanted: int = 1,
    seconds: float = CHILD_SECONDS_MAX,
) -> Judged:
    """Return the first seeds that break a rule when a module is made from a source.

    Arguments:
        module, source: None for the unchanged runner. wanted: how many kills are enough.
        seconds: how long the process may take.
    """
    job = {"module": module, "source": source, "seeds": list(seeds), "wanted": wanted}
    with tempfile.TemporaryDirectory(prefix="loopcore-mutant-") as folder:
        path = Path(folder) / "job.json"
        path.write_text(json.dumps(job), encoding="utf-8")
        try:
            run = subprocess.run(
                [sys.executable, "-m", "loopcore.mutation.runner_child", str(path)],
                capture_output=True,
                timeout=seconds,
                check=False,
            )
        except subprocess.TimeoutExpired:
            return Judged(broken="out of time")
    if run.returncode != 0:
        complaint = run.stderr.decode("utf-8", "replace").strip().splitlines()
        return Judged(broken=complaint[-1] if complaint else f"exit status {run.returncode}")
    return msgspec.json.decode(run.stdout, type=Judged)


def judge_runner_mutant(mutant: RunnerMutant, *, wanted: int = 1) -> Judged:
    """Return what the simulator says of a mutant on its own seeds, in their order."""
    return play(mutant.module, planted_source(mutant), mutant.seeds, wanted=wanted)


def refreshed(mutant: RunnerMutant, seeds: Sequence[int], *, wanted: int = SEEDS_KEPT) -> Judged:
    """Return which of other seeds kill a mutant, for its data after the runner has changed."""
    return play(mutant.module, planted_source(mutant), seeds, wanted=wanted)
