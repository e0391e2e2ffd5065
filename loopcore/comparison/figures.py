"""Every figure of the benchmark is a ratio of two sums over tasks; both sums stand in tables here.

Theory of operation: `values` turns the outcomes of one contestant into one integer a task and
feature. Integers add up in any order and over any chunks, for the tasks as they are and for every
resample of them. `FIGURES` then names, for each figure, the feature above and the one below the
line, so figures, intervals, differences and tables all come from the same few sums.

Choices:
    "Before verification" and "for any reason" (spec control, section 3) are judged on S alone. A
    finish that gate `trust` accepts although it is wrong ends a run of S before its verification,
    so it is a false stop, shown apart from those of detectors, budgets and gate.
    Missed loops are counted to the letter: neither a detector's stop nor a recovery in
    [onset, cap). A run of those that was already ended before its onset is counted beside, as
    `missed_early`; `early` lists the stops before onset outside S, whatever the cap.
    The onset is that of the loop. A form of autonomy that works in another way has none that is
    known, so figures of the onset are unknown there; S is the same for all.
    "Failed tasks" are those without a verified success under this contestant; the steps on tasks
    outside S, the same tasks for every contestant, stand beside.

Source: spec control, section 3.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

import numpy as np

from loopcore.batch.columns import Booleans, Int64s
from loopcore.comparison.outcomes import BUDGET, DETECTOR, FINISH, GATE, Outcomes, Truth

Kind = Literal["rate", "mean"]
Better = Literal["lower", "higher", "neither"]

# Features of a task that no contestant changes.
SHARED = ("tasks", "in_s", "looped", "outside", "onset_outside")
# Features of a task under one contestant that are resampled, then those that are only counted.
RESAMPLED = (
    "verified",
    "false_stop",
    "harmed",
    "missed",
    "early",
    "caught",
    "delay",
    "cost_after_onset",
    "steps",
    "steps_on_success",
    "steps_outside",
    "model_calls",
    "tool_calls",
    "tokens",
    "latency_ms",
    "cost",
    "false_completions",
    "rejected",
    "recoveries",
    "won",
    "unneeded",
)
COUNTED = (
    "false_stop_detector",
    "false_stop_budget",
    "false_stop_gate",
    "false_stop_finish",
    "missed_early",
)
OWN = (*RESAMPLED, *COUNTED)
# A feature that is the difference of two others is not stored.
DERIVED = {
    "failed": ("tasks", "verified"),
    "steps_on_failed": ("steps", "steps_on_success"),
}


# Below the line of figures about the loop whose onset the world knows.
OF_THE_ONSET = ("looped", "caught", "onset_outside")


@dataclass(frozen=True, slots=True, kw_only=True)
class Figure:
    """A figure: above ÷ below, as an exact rate of tasks or as a mean with a bootstrap interval.

    `infinite` says that nothing below the line makes the figure infinite, not unknown.
    """

    name: str
    title: str
    above: str
    below: str
    kind: Kind
    better: Better
    unit: str
    infinite: bool = False


def _rate(name: str, title: str, share: tuple[str, str], better: Better) -> Figure:
    return Figure(
        name=name,
        title=title,
        above=share[0],
        below=share[1],
        kind="rate",
        better=better,
        unit="share",
    )


def _mean(name: str, title: str, share: tuple[str, str], better: Better, unit: str) -> Figure:
    return Figure(
        name=name,
        title=title,
        above=share[0],
        below=share[1],
        kind="mean",
        better=better,
        unit=unit,
    )


FIGURES = (
    _rate("false_stop_rate", "false stops", ("false_stop", "in_s"), "lower"),
    _rate("false_stops_by_detectors", "by detectors", ("false_stop_detector", "in_s"), "lower"),
    _rate("false_stops_by_budgets", "by budgets", ("false_stop_budget", "in_s"), "lower"),
    _rate("false_stops_by_gate", "by the gate", ("false_stop_gate", "in_s"), "lower"),
    _rate("false_stops_by_finish", "by a wrong finish", ("false_stop_finish", "in_s"), "lower"),
    _rate("harm_rate", "harm", ("harmed", "in_s"), "lower"),
    _rate("missed_loop_rate", "missed loops", ("missed", "looped"), "lower"),
    _rate("missed_early_rate", "missed, ended early", ("missed_early", "looped"), "neither"),
    _rate("early_stop_rate", "early stops", ("early", "onset_outside"), "neither"),
    _mean("delay", "delay of detection", ("delay", "caught"), "lower", "turns"),
    _mean(
        "cost_after_onset",
        "cost after onset",
        ("cost_after_onset", "looped"),
        "lower",
        "microunits",
    ),
    Figure(
        name="cost_per_success",
        title="cost per verified success",
        above="cost",
        below="verified",
        kind="mean",
        better="lower",
        unit="microunits",
        infinite=True,
    ),
    _rate("success_rate", "verified successes", ("verified", "tasks"), "higher"),
    _mean(
        "steps_to_success", "steps to success", ("steps_on_success", "verified"), "lower", "turns"
    ),
    _mean("steps", "steps", ("steps", "tasks"), "lower", "turns"),
    _mean(
        "steps_on_failed", "steps on failed tasks", ("steps_on_failed", "failed"), "lower", "turns"
    ),
    _mean("steps_outside_s", "steps outside S", ("steps_outside", "outside"), "lower", "turns"),
    _mean("model_calls", "model calls", ("model_calls", "tasks"), "lower", "calls"),
    _mean("tool_calls", "tool calls", ("tool_calls", "tasks"), "lower", "calls"),
    _mean("tokens", "tokens", ("tokens", "tasks"), "lower", "tokens"),
    _mean("latency_ms", "latency", ("latency_ms", "tasks"), "lower", "ms"),
    _mean("cost", "cost", ("cost", "tasks"), "lower", "microunits"),
    _rate("false_completion_rate", "false completions", ("false_completions", "tasks"), "lower"),
    _mean("rejected_finishes", "rejected finishes", ("rejected", "tasks"), "neither", "a run"),
    _mean("recoveries", "recoveries tried", ("recoveries", "tasks"), "neither", "a run"),
    _mean("recoveries_won", "recoveries won", ("won", "tasks"), "higher", "a run"),
    _mean("recoveries_unneeded", "recoveries unneeded", ("unneeded", "tasks"), "lower", "a run"),
)
BY_NAME = {figure.name: figure for figure in FIGURES}
# Figures whose paired differences between contestants are given.
COMPARED = (
    "false_stop_rate",
    "harm_rate",
    "missed_loop_rate",
    "success_rate",
    "cost_per_success",
    "cost",
    "cost_after_onset",
    "steps",
    "steps_on_failed",
    "tokens",
    "latency_ms",
    "false_completion_rate",
)


def shared_values(truth: Truth, cap: int) -> Int64s:
    """Return the features that every contestant shares, shape (tasks, len(SHARED)).

    Arguments: cap, the step cap before which an onset must lie to be one that can be missed.
    """
    in_s = truth.in_s
    features: dict[str, Booleans] = {
        "tasks": np.ones_like(in_s),
        "in_s": in_s,
        "looped": _looped(truth, cap),
        "outside": ~in_s,
        "onset_outside": ~in_s & (truth.onset > 0),
    }
    return np.stack([features[name] for name in SHARED], axis=1).astype(np.int64)


def own_values(truth: Truth, outcomes: Outcomes, cap: int) -> Int64s:
    """Return the features of every task under one contestant, shape (tasks, len(OWN))."""
    in_s, looped = truth.in_s, _looped(truth, cap)
    turn = outcomes.turn.astype(np.int64)
    stopped = in_s & ~outcomes.verified
    caught = looped & (outcomes.caught_turn > 0) & (outcomes.caught_turn < cap)
    before_onset = (turn < truth.onset) & (outcomes.cause > 0)
    features: dict[str, Int64s | Booleans] = {
        "verified": outcomes.verified,
        "false_stop": stopped & (outcomes.cause > 0),
        "harmed": stopped,
        "missed": looped & ~caught,
        "early": ~in_s & before_onset,
        "caught": caught,
        "delay": np.where(caught, outcomes.caught_turn - truth.onset, 0),
        "cost_after_onset": np.where(looped, outcomes.cost_after_onset, 0),
        "steps": turn,
        "steps_on_success": np.where(outcomes.verified, turn, 0),
        "steps_outside": np.where(in_s, 0, turn),
        "model_calls": outcomes.model_calls,
        "tool_calls": outcomes.tool_calls,
        "tokens": outcomes.input_tokens + outcomes.output_tokens,
        "latency_ms": outcomes.latency_ms,
        "cost": outcomes.cost_microunits,
        "false_completions": outcomes.false_completion,
        "rejected": outcomes.rejected.astype(np.int64),
        "recoveries": outcomes.recoveries.astype(np.int64),
        "won": outcomes.won.astype(np.int64),
        "unneeded": outcomes.unneeded.astype(np.int64),
        "false_stop_detector": stopped & (outcomes.cause == DETECTOR),
        "false_stop_budget": stopped & (outcomes.cause == BUDGET),
        "false_stop_gate": stopped & (outcomes.cause == GATE),
        "false_stop_finish": stopped & (outcomes.cause == FINISH),
        "missed_early": looped & ~caught & before_onset,
    }
    return np.stack([features[name].astype(np.int64) for name in OWN], axis=1)


def _looped(truth: Truth, cap: int) -> Booleans:
    """Return whether each task has an onset before the cap."""
    return (truth.onset > 0) & (truth.onset < cap)
