"""The judge of controllers' bodies: saved runs, each with the naive model's answers.

Theory of operation: the properties of controllers are relations that hold for controllers of any
make, so a threshold of ours that is one too low may break none. Here every answer is exact. A saved
run has a controller's name, limits and observations, and what the naive model said to each of them;
a level or variant must say the same, and `turn_decision` the highest of each turn. Every run is
played after another one that leaves all that can be left, so that a `start` which forgets to forget
is found; a run without limits is played by a new controller, without `start`. One with `keys_max`
has room for so many keys.

The levels' second statement is `loopcore.testing.naive_controllers`; the variants' is here. The
runs are made by `loopcore.mutation.agreement_runs`.

Source: spec controllers, sections 2 to 6; spec control, section 2.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterator, Sequence
from functools import cache

import msgspec

from loopcore.control.decisions import Controller, Decision
from loopcore.control.limits import Limits, decode_limits
from loopcore.control.observations import Observation
from loopcore.control.wire import decode_observation
from loopcore.errors import UsageError
from loopcore.mutation.values import DataError, Record, array, record, text, text_of
from loopcore.suite import suite_folder
from loopcore.testing.naive_controllers import (
    NaiveController,
    rank,
    with_fingerprints,
)

FILE = "control-runs.jsonl"
LEVELS = ("A", "B", "C", "D", "E")
VARIANTS = (
    "consecutive-2",
    "consecutive-3",
    "consecutive-3-result",
    "total-2",
    "total-3-result",
    "step-cap-3",
)
# What names of controllers mean: the inputs that each declares, or None where there is none.
NAMES: tuple[tuple[str, tuple[str, ...] | None], ...] = (
    ("A", ()),
    ("B", ()),
    ("C", ("call", "arguments")),
    ("D", ("call", "arguments", "result", "error", "state", "progress")),
    ("E", ("call", "arguments", "result", "error", "state", "progress")),
    ("consecutive-2", ("call", "arguments")),
    ("consecutive-2-result", ("call", "arguments", "result")),
    ("total-2", ("call", "arguments")),
    ("total-2-result", ("call", "arguments", "result")),
    ("step-cap-1", ()),
    ("consecutive-1", None),
    ("total-1-result", None),
    ("step-cap-0", None),
    ("consecutive", None),
    ("Z", None),
)
_REPEATED = re.compile(r"(consecutive|total)-(\d+)(-result)?")
_STEP_CAP = re.compile(r"step-cap-(\d+)")
OUT_OF_ORDER = "out of order"
# Played before every run: something is left of it in every counter that there is.
_BEFORE_LIMITS: Record = {"gate": "verify", "tools": {"poll": {"wait": True}}}
_CALL: Record = {
    "tool": "x",
    "action_fingerprint": "x",
    "result_fingerprint": "r",
    "state_fingerprint": "s",
    "error_class": "e",
    "progress": 0,
    "usage": {"model_calls": 1, "tool_calls": 1, "cost_microunits": 1, "latency_ms": 1},
}
_BEFORE: tuple[Record, ...] = (
    {"turn": 1, "action": 1, **_CALL},
    {"turn": 2, "action": 1, **_CALL, "tool": "y", "action_fingerprint": "y"},
    {"turn": 3, "action": 1, **_CALL},
    {"turn": 4, "action": 1, "claims_done": True, "verified": False, "result_fingerprint": "r"},
    {"turn": 5, "action": 1, "claims_done": True},
    {"turn": 6, "action": 1, "tool": "poll"},
    {"turn": 6, "action": 2, **_CALL},
)


class PlayedRun(msgspec.Struct, frozen=True, kw_only=True):
    """A run and what is due.

    Fields:
        controller: its name; limits: those of `start`, or None to leave that call out.
        keys_max: how many keys `total-K` has room for, or None for what it has.
        expected: what is due to each observation, in words as `stop no_progress`.
    """

    source: str
    controller: str
    limits: Record | None
    observations: tuple[Record, ...]
    keys_max: int | None = None
    expected: tuple[str, ...] = ()


def worded(decision: Decision) -> str:
    """Return a decision in words."""
    return " ".join(filter(None, (decision.decision, decision.reason, decision.strategy)))


def due(run: PlayedRun) -> tuple[str, ...]:
    """Return what the naive model says to each observation of a run."""
    naive = _naive(run.controller, run.keys_max)
    naive.start(Limits() if run.limits is None else decode_limits(run.limits))
    said: list[str] = []
    turn: list[Decision] = []
    last = (0, 0)
    for seen in map(decode_observation, run.observations):
        if (seen.turn, seen.action) <= last:
            said.append(OUT_OF_ORDER)
            continue
        if seen.turn != last[0] and turn:
            highest = min(turn, key=rank)
            if highest.decision == "stop":
                # The run is over: this is the answer to everything, and nothing changes.
                said.append(worded(highest))
                continue
            turn = []
        turn.append(naive.observe(seen))
        said.append(worded(turn[-1]))
        last = (seen.turn, seen.action)
    return tuple(said)


class _NaiveVariant:
    """A variant that remembers the whole run and counts anew each time."""

    def __init__(self, name: str, keys_max: int | None) -> None:
        self._name = name
        self._keys_max = keys_max
        self.start(Limits())

    def start(self, limits: Limits) -> None:
        self._limits = limits
        self._keys: list[tuple[str, str | None] | None] = []

    def observe(self, seen: Observation) -> Decision:
        fired = self._fires(with_fingerprints(seen, self._limits))
        if seen.claims_done and seen.verified is True:
            return Decision(decision="stop", reason="completed")
        if not fired:
            return Decision(decision="continue", reason=None)
        capped = self._name.startswith("step-cap")
        reason = "step_budget_exhausted" if capped else "repeated_action"
        return Decision(decision="stop", reason=reason)

    def _fires(self, seen: Observation) -> bool:
        capped = _STEP_CAP.fullmatch(self._name)
        if capped is not None:
            return seen.turn >= int(capped[1])
        match = _REPEATED.fullmatch(self._name)
        assert match is not None
        action, result = seen.action_fingerprint, seen.result_fingerprint
        if seen.tool is None and action is None:
            return False
        known = action is not None and (match[3] is None or result is not None)
        key = (str(action), result if match[3] else None) if known else None
        self._keys.append(key)
        count = int(match[2])
        if key is None:
            return False
        if match[1] == "consecutive":
            return len(self._keys) >= count and set(self._keys[-count:]) == {key}
        remembered = list(dict.fromkeys(each for each in self._keys if each is not None))
        if self._keys_max is not None and key not in remembered[: self._keys_max]:
            return False
        return self._keys.count(key) >= count


def _naive(name: str, keys_max: int | None) -> NaiveController | _NaiveVariant:
    return NaiveController(name) if name in LEVELS else _NaiveVariant(name, keys_max)


@cache
def load_runs() -> tuple[PlayedRun, ...]:
    """Return the saved runs; raise DataError when there are none."""
    path = suite_folder("mutations") / FILE
    try:
        lines = path.read_bytes().splitlines()
        return tuple(decoded_run(record(json.loads(line), "a run")) for line in lines)
    except (OSError, ValueError) as error:
        raise DataError(f"{path}: {error}.") from None


def decoded_run(item: Record) -> PlayedRun:
    """Return a run from its JSON form; raise DataError where it is none."""
    limits, keys_max = item.get("limits"), item.get("keys_max")
    return PlayedRun(
        source=text_of(item, "source"),
        controller=text_of(item, "controller"),
        limits=None if limits is None else record(limits),
        observations=tuple(record(each) for each in array(item.get("observations"))),
        keys_max=keys_max if isinstance(keys_max, int) else None,
        expected=tuple(text(each) for each in array(item.get("expected"))),
    )


def agreement_findings() -> Iterator[str | None]:
    """Yield for every name, then for every saved run, what is wrong, or None."""
    for name, needs in NAMES:
        yield _name_finding(name, needs)
    for run in load_runs():
        yield finding(run)


def _name_finding(name: str, needs: tuple[str, ...] | None) -> str | None:
    from loopcore.control.levels import controller
    from loopcore.control.variants import declared_needs, named_controller, variant

    known, is_level = needs is not None, name in LEVELS
    # Only a level is made by the levels, and only a variant by the variants.
    makers: tuple[tuple[Callable[[str], object], bool], ...] = (
        (declared_needs, known),
        (named_controller, known),
        (controller, known and is_level),
        (variant, known and not is_level),
    )
    for make, wanted in makers:
        try:
            made = make(name)
        except UsageError:
            if wanted:
                return f"{make.__name__} refuses {name}"
            continue
        if not wanted:
            return f"{make.__name__} takes {name}"
        if make is declared_needs and made != needs:
            return f"{name} declares {made}"
        if make is not declared_needs and not callable(getattr(made, "observe", None)):
            return f"{make.__name__} makes no controller of {name}"
    return None


def finding(run: PlayedRun, *, restarts: bool = True) -> str | None:
    """Return what a controller says otherwise than is due in a run, or None.

    Arguments:
        restarts: whether the controller has played another run before.
    """
    said = _played(run, restarts=restarts)
    for place, (wanted, got) in enumerate(zip(run.expected, said, strict=True)):
        if wanted != got:
            return f"{run.controller} says {got} to observation {place}, and {wanted} is due"
    return _turn_finding(run)


def _played(run: PlayedRun, *, restarts: bool) -> list[str]:
    from loopcore.control import variants

    own = variants.KEYS_MAX
    player = variants.named_controller(run.controller)
    try:
        if run.keys_max is not None:
            setattr(variants, "KEYS_MAX", run.keys_max)  # noqa: B010 a million keys take too long
        if run.limits is not None:
            if restarts:
                player.start(decode_limits(_BEFORE_LIMITS))
                _answers(player, _BEFORE)
            player.start(decode_limits(run.limits))
        return _answers(player, run.observations)
    finally:
        setattr(variants, "KEYS_MAX", own)  # noqa: B010 as above


def _answers(player: Controller, observations: Sequence[Record]) -> list[str]:
    said: list[str] = []
    for seen in map(decode_observation, observations):
        try:
            said.append(worded(player.observe(seen)))
        except UsageError:
            said.append(OUT_OF_ORDER)
    return said


def _turn_finding(run: PlayedRun) -> str | None:
    """Return whether `turn_decision` gives another answer than the highest of some turn."""
    from loopcore.control.precedence import turn_decision

    turns: dict[object, list[str]] = {}
    for seen, words in zip(run.observations, run.expected, strict=True):
        if words != OUT_OF_ORDER:
            turns.setdefault(seen["turn"], []).append(words)
    for answers in ([], *turns.values()):
        decisions = [_decision(words) for words in answers]
        highest = worded(min(decisions, key=rank, default=_decision("continue")))
        got = worded(turn_decision(decisions))
        if got != highest:
            return f"the decision of a turn of {', '.join(answers)} is {got}, not {highest}"
    return None


def _decision(words: str) -> Decision:
    kind, reason, strategy, *_ = (*words.split(), None, None)
    return msgspec.convert({"decision": kind, "reason": reason, "strategy": strategy}, Decision)
