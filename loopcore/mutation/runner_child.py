"""The process of one mutant of the runner: plant it, check that it is what runs, then simulate.

    python -m loopcore.mutation.runner_child JOB

JOB is a JSON file with `module` and `source` (null for the unchanged runner), `seeds` and `wanted`.
The seeds are played in order until so many of them broke a rule; one JSON line tells of those.

Nothing of loopcore that could be planted is imported before the mutant is.
"""

from __future__ import annotations

import json
import sys
from typing import cast

from loopcore.mutation.planting import PlantingError, check_planted, plant


def main(path: str) -> None:
    """Play the seeds of a job."""
    with open(path, encoding="utf-8") as file:
        job = cast("dict[str, object]", json.load(file))
    module = job["module"]
    try:
        if isinstance(module, str):
            plant(module, str(job["source"]))
        kills = _played(cast("list[int]", job["seeds"]), cast("int", job["wanted"]))
        answer: dict[str, object] = {"kills": kills}
        if isinstance(module, str):
            check_planted(module)
    except PlantingError as error:
        answer = {"broken": str(error)}
    sys.stdout.write(json.dumps(answer) + "\n")


def _played(seeds: list[int], wanted: int) -> list[dict[str, object]]:
    """Return the first seeds that break a rule, each with the rule."""
    from loopcore.testing.simulation import simulate

    kills: list[dict[str, object]] = []
    for seed in seeds:
        outcome = simulate(seed)
        if outcome.verdict == "broken":
            kills.append({"seed": seed, "rule": outcome.rule, "reason": outcome.reason})
        if len(kills) >= wanted:
            break
    return kills


if __name__ == "__main__":
    main(sys.argv[1])
