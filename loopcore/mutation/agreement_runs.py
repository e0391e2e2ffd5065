"""The saved runs of controllers: made from a pool, of which each was needed by something.

    python -m loopcore.mutation.agreement_runs

writes `mutations/control-runs.jsonl` again: the runs below, then drawn ones of which a controller
says something that no shorter one had said, then for every mutant of a body that those runs let
live the shortest run of the pool that kills it.

Theory of operation: the pool holds drawn runs of every controller, and all short runs over small
alphabets, in which a lone reset is met that drawing meets rarely. What is due in a run is the naive
model's answer in this process, where nothing is planted; the pool is played in the process of each
mutant.
"""

from __future__ import annotations

import json
import sys
import tempfile
from collections.abc import Iterable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from itertools import product
from pathlib import Path
from queue import SimpleQueue
from threading import Lock
from typing import cast

import hypothesis
import msgspec
from hypothesis import HealthCheck, Phase, given, settings
from hypothesis import strategies as st

from loopcore.control.limits import Limits
from loopcore.control.observations import Observation, Usage
from loopcore.files import write_whole
from loopcore.mutation.agreement import (
    FILE,
    LEVELS,
    VARIANTS,
    PlayedRun,
    decoded_run,
    due,
    finding,
)
from loopcore.mutation.generated import body_mutants
from loopcore.mutation.mutants import AGREEMENT, Mutant, mutated_source
from loopcore.mutation.nursery import Nursery
from loopcore.mutation.rare_runs import ALPHABETS, RARE, TIGHT
from loopcore.mutation.values import Record, record
from loopcore.suite import suite_folder
from loopcore.testing.control_strategies import controller_limits, observation_sequences

SEED = 20_261
DRAWN = 200
_SEARCH_SECONDS = 60.0
_NO_HEALTH_CHECK = (
    HealthCheck.data_too_large,
    HealthCheck.filter_too_much,
    HealthCheck.large_base_example,
    HealthCheck.too_slow,
)


def plain_limits(limits: Limits) -> Record:
    """Return limits as short JSON, from which `decode_limits` makes them again."""
    return _without_defaults(limits, Limits())


def plain_observation(seen: Observation) -> Record:
    """Return an observation as short JSON; turn and action always stand in it."""
    short = _without_defaults(seen, Observation(turn=-1, action=-1))
    usage = _without_defaults(seen.usage, Usage())
    return {**short, "usage": usage} if usage else short


def _without_defaults(value: msgspec.Struct, default: msgspec.Struct) -> Record:
    plain = cast("Record", msgspec.json.decode(msgspec.json.encode(value)))
    known = cast("Record", msgspec.json.decode(msgspec.json.encode(default)))
    return {name: item for name, item in plain.items() if name not in known or known[name] != item}


def played(
    name: str,
    limits: Record | None,
    observations: Iterable[Record],
    source: str,
    keys_max: int | None = None,
) -> PlayedRun:
    """Return a run with what is due in it."""
    run = PlayedRun(
        source=source,
        controller=name,
        limits=limits,
        observations=tuple(observations),
        keys_max=keys_max,
    )
    return msgspec.structs.replace(run, expected=due(run))


@st.composite
def _runs(draw: st.DrawFn, name: str) -> PlayedRun:
    """Draw a run of a controller; in one of eight an observation stands twice, which is refused."""
    limits = draw(controller_limits())
    observations = [plain_observation(seen) for seen in draw(observation_sequences())]
    if observations and draw(st.integers(0, 7)) == 0:
        place = draw(st.integers(0, len(observations) - 1))
        observations.insert(place, observations[place])
    keys_max = draw(st.sampled_from((None, 1, 2))) if name.startswith("total") else None
    return played(name, plain_limits(limits), observations, "", keys_max)


def shortest_killing(pool: str, *, restarts: bool) -> Record | None:
    """Return the first run of a pool file that this process does not answer as is due, or None."""
    with open(pool, "rb") as file:
        for line in file:
            run = decoded_run(record(json.loads(line)))
            try:
                wrong = finding(run, restarts=restarts)
            except Exception as error:  # noqa: BLE001 a crash is an answer otherwise than due
                wrong = str(error)
            if wrong is not None:
                return cast("Record", msgspec.to_builtins(run))
    return None


def _written() -> Iterator[PlayedRun]:
    """Yield the runs that no drawing makes: without limits, and out of order."""
    calls: list[Record] = [
        {"turn": turn, "action": 1, "tool": "x", "action_fingerprint": "x"} for turn in range(1, 7)
    ]
    claim: Record = {"turn": 7, "action": 1, "claims_done": True, "verified": False}
    for name in (*LEVELS, *VARIANTS):
        yield played(name, None, [*calls, claim], "by hand: without start")
        again = [calls[0], calls[0], calls[2], calls[1], {**calls[2], "action": 2}, calls[3]]
        yield played(name, {}, again, "by hand: out of order")
        # A call of which nothing is known, right after as many equal ones as would stop the run.
        unknown: Record = {"turn": 4, "action": 1, "tool": "y"}
        exempt: Record = {"repeat": 3, "tools": {"x": {"repeatable": True}}}
        yield played(name, exempt, [*calls[:3], unknown], "by hand: unknown after a streak")


def _rare(name: str) -> Iterator[PlayedRun]:
    """Yield the rare runs of a controller."""
    for words, changes, observations in RARE:
        limits = {**TIGHT, "window": None, **changes}
        run = [{"turn": turn, "action": 1, **seen} for turn, seen in enumerate(observations, 1)]
        yield played(name, limits, run, f"by hand: {words}")


def _drawn(name: str) -> list[PlayedRun]:
    """Return drawn runs of a controller."""
    pool: list[PlayedRun] = []

    @hypothesis.seed(SEED)
    @settings(
        max_examples=DRAWN,
        database=None,
        deadline=None,
        phases=(Phase.generate,),
        suppress_health_check=_NO_HEALTH_CHECK,
    )
    @given(_runs(name))
    def draw(run: PlayedRun) -> None:
        pool.append(msgspec.structs.replace(run, source=f"seed {SEED}"))

    draw()
    return pool


# Of these controllers the rare runs are kept, and all short runs are tried.
_RARE_OF = ("B", "D", "E", "consecutive-3-result")
_SHORT_RUNS_OF = ("C", "D", "E", "consecutive-3", "total-2")


def _short_runs(name: str) -> Iterator[PlayedRun]:
    for alphabet, length in ALPHABETS:
        for letters in product(alphabet, repeat=length):
            observations = [
                {"turn": turn, "action": 1, **seen} for turn, seen in enumerate(letters, start=1)
            ]
            yield played(name, TIGHT, observations, "all short runs")


def _by_size(runs: Iterable[PlayedRun]) -> list[PlayedRun]:
    return sorted(runs, key=lambda run: (len(msgspec.json.encode(run)), msgspec.json.encode(run)))


def _new_words(runs: Iterable[PlayedRun]) -> Iterator[PlayedRun]:
    """Yield the runs of one controller of which something is said that was not said so far."""
    seen: set[tuple[str, bool]] = set()
    for run in runs:
        said = {(words, place > 1) for place, words in enumerate(run.expected)}
        if not seen.issuperset(said):
            seen |= said
            yield run


def _lines(runs: Iterable[PlayedRun]) -> bytes:
    spelled = (json.dumps(msgspec.to_builtins(run), separators=(",", ":")) for run in runs)
    return "".join(f"{each}\n" for each in spelled).encode()


class _Hunt:
    """Looks for the run that kills a mutant: among those that were needed, then in the pool."""

    def __init__(self, folder: Path, kept: Sequence[PlayedRun], pool: Sequence[PlayedRun]) -> None:
        self._kept = list(kept)
        self._front = folder / "kept.jsonl"
        self._pool = folder / "pool.jsonl"
        self._pool.write_bytes(_lines(pool))
        self._lock = Lock()

    def needed(self, mutants: Sequence[Mutant]) -> list[PlayedRun]:
        """Return the runs that kill the mutants, each needed by one that those before let live."""
        free: SimpleQueue[Nursery] = SimpleQueue()
        with Nursery() as one, Nursery() as other, ThreadPoolExecutor(max_workers=2) as workers:
            free.put(one)
            free.put(other)

            def look(mutant: Mutant) -> None:
                self._look(mutant, free)

            list(workers.map(look, mutants))
        return self._kept

    def _look(self, mutant: Mutant, free: SimpleQueue[Nursery]) -> None:
        with self._lock:
            front = self._front.with_suffix(f".{mutant.id}")
            front.write_bytes(_lines(self._kept))
        nursery = free.get()
        try:
            if self._killing(mutant, nursery, front, restarts=True) is not None:
                return
            found = self._killing(mutant, nursery, self._pool, restarts=False)
        finally:
            free.put(nursery)
            front.unlink()
        if found is None:
            sys.stderr.write(f"{mutant.id}: no run tells it; {mutant.reason}\n")
        else:
            with self._lock:
                self._kept.append(msgspec.structs.replace(found, source=mutant.id))

    @staticmethod
    def _killing(
        mutant: Mutant, nursery: Nursery, pool: Path, *, restarts: bool
    ) -> PlayedRun | None:
        job: Record = {
            "module": mutant.module,
            "source": mutated_source(mutant),
            "property": AGREEMENT,
            "pool": str(pool),
            "restarts": restarts,
        }
        lines, _, _ = nursery.run("search", job, _SEARCH_SECONDS)
        case = lines[-1].get("case") if lines else None
        return None if case is None else decoded_run(record(case))


def main() -> None:
    """Write the runs again."""
    names = (*LEVELS, *VARIANTS)
    drawn = {name: _by_size(_drawn(name)) for name in names}
    kept = [*_written(), *(run for name in _RARE_OF for run in _rare(name))]
    kept += [run for name in names for run in _new_words(drawn[name])]
    short = [run for name in _SHORT_RUNS_OF for run in _short_runs(name)]
    others = _by_size([*(run for name in names for run in drawn[name]), *short])
    mutants = [each for each in body_mutants() if each.is_control and each.equivalent is None]
    with tempfile.TemporaryDirectory() as folder:
        kept = _Hunt(Path(folder), kept, others).needed(mutants)
    distinct = {msgspec.json.encode(msgspec.structs.replace(run, source="")): run for run in kept}
    write_whole(suite_folder("mutations") / FILE, _lines(distinct.values()))


if __name__ == "__main__":
    main()
