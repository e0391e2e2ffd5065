"""What a search over thresholds comes to; read without NumPy, which the search itself needs."""

from __future__ import annotations

import msgspec

from loopcore.comparison.intervals import Interval


class Judged(msgspec.Struct, frozen=True, kw_only=True):
    """What a setting does to one part of the tasks.

    Fields:
        stopped, tasks: tasks with a good run of which one is stopped falsely, and how many there
            are; interval: exact, None without tasks; small: fewer than 30.
        saved, spent: of the failed runs; share and its bootstrap interval over tasks, None where
            nothing failed.
    """

    stopped: int
    tasks: int
    interval: Interval | None
    small: bool
    saved: int
    spent: int
    share: float | None
    share_interval: Interval | None


class Setting(msgspec.Struct, frozen=True, kw_only=True):
    """A setting of level D, by the names of the limits, with its figures on both parts."""

    limits: dict[str, int | None]
    choosing: Judged
    reporting: Judged


class Tuned(msgspec.Struct, frozen=True, kw_only=True):
    """The outcome of a search.

    Fields:
        ceiling: of the share of good tasks that are stopped. unit: of what is saved.
        settings: how many were searched. chosen: None where none is under the ceiling.
        default: level D as it is shipped. cap, cap_turns: the calibrated step cap, None where the
            choosing part has too few tasks for one.
        front: settings that none beats in both figures on the choosing part.
        choosing_tasks, reporting_tasks: all tasks of the parts. sentence: the outcome in words.
    """

    name: str
    seed: int
    ceiling: float
    unit: str
    settings: int
    choosing_tasks: int
    reporting_tasks: int
    chosen: Setting | None
    default: Setting
    cap_turns: int | None
    cap: Setting | None
    front: tuple[Setting, ...]
    sentence: str
