"""The process of one mutant: plant it, check that it is what runs, then judge, serve or look.

    python -m loopcore.mutation.child judge|serve|search|hunt JOB

JOB is a JSON file with `module` and `source` (null for the unchanged evaluator) and, to judge, the
judges in their order and whether to stop at the first kill. Answers are JSON lines on standard
output, each written as soon as it is known, so that a hang loses only the judge that hangs.

Nothing of loopcore that could be planted is imported before the mutant is.
"""

from __future__ import annotations

import json
import resource
import sys
from collections.abc import Iterator
from typing import cast

from loopcore.mutation.planting import PlantingError, check_planted, plant

# More than any honest answer needs; past it a mutant gets MemoryError, which is a crash.
_MEMORY_BYTES_MAX = 4 * 2**30


def main(words: list[str]) -> None:
    """Do what the command line says."""
    action, path = words
    limit = resource.getrlimit(resource.RLIMIT_AS)[1]
    resource.setrlimit(resource.RLIMIT_AS, (_MEMORY_BYTES_MAX, limit))
    with open(path, encoding="utf-8") as file:
        job = cast("dict[str, object]", json.load(file))
    module = job["module"]
    try:
        if isinstance(module, str):
            plant(module, str(job["source"]))
        run = {"judge": _judge, "serve": _serve, "search": _search, "hunt": _hunt}[action]
        run(job, path)
    except PlantingError as error:
        _say({"broken": str(error)})


def _say(value: object) -> None:
    sys.stdout.write(json.dumps(value) + "\n")
    sys.stdout.flush()


def _check(job: dict[str, object]) -> None:
    if isinstance(job["module"], str):
        check_planted(job["module"])


def _judge(job: dict[str, object], path: str) -> None:
    """Say what each judge finds; with `first_only`, nothing after the first kill."""
    import msgspec

    from loopcore.mutation.judging import MutantTarget, judge

    _check(job)
    target = MutantTarget(path)
    for name in cast("list[str]", job["judges"]):
        column = judge(name, target)
        _say(msgspec.to_builtins(column))
        if job["first_only"] is True and column.killed_by is not None:
            break
    _say({"done": True})


def _serve(job: dict[str, object], path: str) -> None:
    """Answer the target protocol on standard input and output."""
    from loopcore.serving import answer

    del path
    _check(job)
    for line in sys.stdin.buffer:
        sys.stdout.buffer.write(answer(line.removesuffix(b"\n")) + b"\n")
        sys.stdout.buffer.flush()


def _search(job: dict[str, object], path: str) -> None:
    """Say the smallest case by which a property refuses the mutant, or that there is none."""
    from loopcore.mutation.judging import CONTROL_JUDGES, PROPERTIES, MutantTarget
    from loopcore.mutation.mutants import AGREEMENT
    from loopcore.testing.examining import examine
    from loopcore.testing.profiles import PROFILES

    _check(job)
    if job["property"] == AGREEMENT:
        from loopcore.mutation.agreement_runs import shortest_killing

        restarts = job["restarts"] is True
        _say({"case": shortest_killing(str(job["pool"]), restarts=restarts)})
        return
    if str(job["property"]) in CONTROL_JUDGES:
        from loopcore.mutation.control_judging import search_controllers

        _say({"case": search_controllers(str(job["property"]), str(job["profile"]))})
        return
    examined = PROPERTIES[str(job["property"])]
    outcome = examine(examined, MutantTarget(path), PROFILES[str(job["profile"])], 0)
    found = outcome.broken or outcome.trouble
    _say({"case": None if found is None else found.case})


def _hunt(job: dict[str, object], path: str) -> None:
    """Say what each property finds by a search of its own, up to the first finding."""
    import msgspec

    from loopcore.mutation.judging import CONTROL_JUDGES, PROPERTIES, Column, MutantTarget, searched
    from loopcore.testing.profiles import PROFILES

    _check(job)
    profile = PROFILES[str(job["profile"])]
    for name in cast("list[str]", job["properties"]):
        if name in CONTROL_JUDGES:
            from loopcore.mutation.control_judging import CONTROL_PROPERTIES, controllers

            found: Iterator[Column] = (
                searched(CONTROL_PROPERTIES[name], each, profile) for each in controllers(name)
            )
        else:
            found = iter([searched(PROPERTIES[name], MutantTarget(path), profile)])
        for column in found:
            _say(msgspec.to_builtins(column))
            if column.killed_by is not None:
                return


if __name__ == "__main__":
    main(sys.argv[1:])
