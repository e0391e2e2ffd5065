"""A benchmark from its settings to its result: the sweep, the twins, and thresholds if asked for.

Theory of operation: finished chunks are kept in a journal below the folder, so that the same
settings go on where an interruption left them; the journal is removed once the result is written.
Twins and the search for thresholds take seconds and are made when the sweep is complete.

Source: spec control, sections 3 to 6.
"""

from __future__ import annotations

from pathlib import Path

import msgspec

from loopcore.comparison.bench_results import BenchResult
from loopcore.comparison.bench_summary import conclude
from loopcore.comparison.bench_tuning import tune_worlds
from loopcore.comparison.discrimination import VARIANTS, default_contestants, discriminate
from loopcore.comparison.intervals import RESAMPLES
from loopcore.comparison.sweep import OnChunk, Swept, digest, sweep
from loopcore.comparison.sweep_chunks import Settings
from loopcore.comparison.sweep_contestants import default_entries
from loopcore.comparison.sweep_executors import executor
from loopcore.comparison.sweep_journal import Journal
from loopcore.control.limits import Limits
from loopcore.worlds.model import APPLICATIONS

JOURNAL_FILE = "bench.journal"
# A variant of the twins for so many step-wise tasks, and so many columnar ones count as one.
TASKS_A_VARIANT, COLUMNAR_AS_STEPWISE = 25, 40


def default_settings(*, stepwise: int, columnar: int, seed: int = 0) -> Settings:
    """Return the settings of every contestant on all six applications, with default limits.

    Arguments: tasks an application in each tier, 0 for none.
    """
    return Settings(
        seed=seed,
        applications=APPLICATIONS,
        stepwise=stepwise,
        columnar=columnar,
        resamples=RESAMPLES,
        entries=default_entries(),
        limits=Limits(),
    )


def swept_in(
    folder: Path,
    settings: Settings,
    *,
    jobs: int,
    cluster: str | None = None,
    on_chunk: OnChunk | None = None,
) -> tuple[Swept, str | None]:
    """Return the sweep, finished or interrupted, and a note on its journal where there is one.

    Arguments: cluster, the address of a scheduler whose workers are used instead of processes.
    """
    journal = Journal(path=folder / JOURNAL_FILE, settings_sha256=digest(settings))
    with executor(jobs, cluster) as pool:
        swept = sweep(settings, pool, jobs=jobs, journal=journal, on_chunk=on_chunk)
    return swept, journal.note


def result_of(swept: Swept, *, ceiling: float | None = None) -> BenchResult:
    """Return the result of a sweep; twins and tuned thresholds only when it is complete.

    Arguments: ceiling, the greatest share of good tasks that a tuned setting may stop; None: no
    search.
    """
    result = conclude(swept)
    if not result.complete:
        return result
    settings = swept.settings
    twins = discriminate(default_contestants(), variants=_variants(settings), seed=settings.seed)
    found = () if ceiling is None else tune_worlds(settings, ceiling)
    return msgspec.structs.replace(result, twins=twins, tuned=found)


def _variants(settings: Settings) -> int:
    """Return how many variants of each pair of twins fit a sweep of this size."""
    tasks = max(settings.stepwise, settings.columnar // COLUMNAR_AS_STEPWISE)
    return max(1, min(VARIANTS, tasks // TASKS_A_VARIANT))
