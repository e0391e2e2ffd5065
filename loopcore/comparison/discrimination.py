"""How many pairs of twins a contestant tells apart, of those that its inputs let it tell apart.

Theory of operation: a contestant is shown the observations without the inputs that it does not
declare. It has the pathology right when its first act is a detection (a detector's or the gate's
stop, or a recovery; never a budget) no later than two thresholds after the onset and not before
it, and the twin when it never acts by a detection. Where both streams are equal after that loss,
no answer can be right on both: the pair is beyond the contestant, which is computed here and not
declared, and at most one side can be right. Discrimination is the share of pairs within reach of
which both sides are right; each pair comes in many variants, over which the exact interval runs.

Choices: the act counts, as for recordings, because a stream cannot answer a recovery; level E is
therefore judged as what it detects. A pair as a kind is right when every variant within reach is.
A warning is no act. The threshold of a cycle is that of the shortest cycle that the calls up to
the act complete; a reason that no row of ours has is given the largest threshold of the limits.

Source: spec control, section 4; spec controllers, section 5.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Literal

import msgspec

from loopcore.comparison.intervals import Interval, clopper_pearson
from loopcore.comparison.tables import span, table
from loopcore.control.decisions import Controller
from loopcore.control.detectors import Call, repeats
from loopcore.control.fingerprints import action_fingerprint, result_fingerprint
from loopcore.control.levels import LEVELS
from loopcore.control.limits import Limits
from loopcore.control.observations import Observation
from loopcore.control.precedence import PRECEDENCE
from loopcore.control.variants import RepeatedCall, declared_needs, named_controller, variant
from loopcore.worlds.twins import TWINS, Pair, Streams, setting

VARIANTS = 20
# The act must come within so many thresholds of the onset.
THRESHOLDS = 2
OTHERS = (
    "consecutive-3",
    "total-3",
    "consecutive-3-result",
    "total-3-result",
    "step-cap-30",
)
_SHORTEST_CYCLE = 2
_BUDGETS = frozenset(answer.reason for answer in PRECEDENCE if answer.source == "budget")
# The fields of an observation that each declared input stands for.
INPUTS: dict[str, tuple[str, ...]] = {
    "call": ("tool",),
    "arguments": ("arguments", "action_fingerprint"),
    "result": ("result", "result_fingerprint"),
    "error": ("error_class",),
    "state": ("state_fingerprint",),
    "progress": ("progress",),
}

Act = Literal["detection", "budget", "finish", "none"]


class Judged(msgspec.Struct, frozen=True, kw_only=True):
    """A contestant of the twins.

    Fields:
        name: in tables. make: a new controller. needs: the inputs that it declares.
        count: the K of a rule that brings its own; None where the limits hold the threshold.
    """

    name: str
    make: Callable[[], Controller]
    needs: tuple[str, ...]
    count: int | None = None


class First(msgspec.Struct, frozen=True, kw_only=True):
    """The first act of a contestant on a stream; turn and reason are None where it never acts."""

    act: Act
    turn: int | None = None
    reason: str | None = None


class PairScore(msgspec.Struct, frozen=True, kw_only=True):
    """One contestant on one pair, over its variants.

    Fields:
        variants: judged; within_reach: of these, where the declared inputs differ.
        pathology_right, twin_right: over all variants.
        both_right: within reach; interval: exact, of both_right among within_reach.
        early, late, budget, missed, twin_stopped: why sides were wrong, counts over all variants.
    """

    pair: str
    variants: int
    within_reach: int
    pathology_right: int
    twin_right: int
    both_right: int
    interval: Interval | None
    early: int
    late: int
    budget: int
    missed: int
    twin_stopped: int


class ContestantScore(msgspec.Struct, frozen=True, kw_only=True):
    """One contestant on all pairs; `right` of `within_reach` kinds, `beyond` are out of reach.

    `both_right` and `reachable` count variants, and the interval is of the first among the second.
    It says how sure the share is for these kinds; it says nothing about kinds that are not here.
    `sides_right` counts both sides of every variant apart; `ceiling` is what no contestant with
    these needs can pass: two sides within reach, one beyond.
    """

    contestant: str
    needs: tuple[str, ...]
    right: int
    within_reach: int
    beyond: int
    both_right: int
    reachable: int
    interval: Interval | None
    sides_right: int
    ceiling: int
    pairs: tuple[PairScore, ...]


class Discrimination(msgspec.Struct, frozen=True, kw_only=True):
    """The discrimination table: contestants on the same variants of the same pairs."""

    variants: int
    seed: int
    contestants: tuple[ContestantScore, ...]


def judged(name: str) -> Judged:
    """Return a level or a variant by its name as a contestant; UsageError when there is none."""
    named_controller(name)
    count = None
    if name not in LEVELS:
        found = variant(name)
        count = found.count if isinstance(found, RepeatedCall) else None
    return Judged(
        name=name, make=lambda: named_controller(name), needs=declared_needs(name), count=count
    )


def default_contestants() -> tuple[Judged, ...]:
    """Return the levels that there are, the naive rules and the default step cap."""
    return tuple(judged(name) for name in (*LEVELS, *OTHERS))


def discriminate(
    contestants: Sequence[Judged],
    *,
    variants: int = VARIANTS,
    seed: int = 0,
    pairs: Sequence[Pair] = TWINS,
) -> Discrimination:
    """Return how each contestant fares on `variants` variants of each pair, the same for all.

    Complexity: linear in contestants × pairs × variants × turns.
    """
    shown = {pair.name: [_shown(pair, seed + n) for n in range(variants)] for pair in pairs}
    return Discrimination(
        variants=variants,
        seed=seed,
        contestants=tuple(
            _contestant_score(one, [_pair_score(one, name, all_) for name, all_ in shown.items()])
            for one in contestants
        ),
    )


def project(observation: Observation, needs: Sequence[str]) -> Observation:
    """Return the observation without the inputs that are not among the needs."""
    lost = {name: None for key, names in INPUTS.items() if key not in needs for name in names}
    return msgspec.structs.replace(observation, **lost) if lost else observation


def is_within_reach(streams: Streams, needs: Sequence[str]) -> bool:
    """Return whether the two streams differ in what a contestant with these needs is shown."""
    return any(
        project(one, needs) != project(other, needs)
        for one, other in zip(streams.pathology, streams.twin, strict=True)
    )


def first_act(contestant: Judged, observations: Sequence[Observation], limits: Limits) -> First:
    """Return the contestant's first act on a stream, shown only what it declares."""
    controller = contestant.make()
    controller.start(limits)
    for observation in observations:
        decision = controller.observe(project(observation, contestant.needs))
        if decision.decision not in ("stop", "recover"):
            continue
        act: Act = "detection"
        if decision.reason == "completed":
            act = "finish"
        elif decision.reason in _BUDGETS:
            act = "budget"
        return First(act=act, turn=observation.turn, reason=decision.reason)
    return First(act="none")


def threshold(
    contestant: Judged, reason: str, observations: Sequence[Observation], limits: Limits
) -> int:
    """Return the threshold of the row that fired on the last of these observations.

    Source: spec controllers, section 5.
    """
    if reason == "repeated_action" and contestant.count is not None:
        return contestant.count
    waiting = limits.policy(observations[-1].tool).wait
    cycle = shortest_cycle(observations, limits) or limits.cycle_max or _SHORTEST_CYCLE
    bounds: dict[str, int | None] = {
        "repeated_action": limits.repeat,
        "tool_failure": limits.error_streak,
        "nonproductive_cycle": cycle * limits.cycle_repeats,
        "no_progress": limits.waits(observations[-1].tool or "") if waiting else limits.window,
        "invalid_completion": None if limits.max_refusals is None else limits.max_refusals + 1,
        "stalled_verifier": limits.error_streak,
    }
    bound = bounds.get(reason)
    if bound is None:
        return max(value for value in (*bounds.values(), limits.max_waits, 1) if value is not None)
    return bound


def shortest_cycle(observations: Sequence[Observation], limits: Limits) -> int | None:
    """Return the shortest period of row c that the last calls complete, None when none does.

    Stated anew from the sentence of the row, for streams of one observation a turn.
    """
    calls: list[Call] = []
    for seen in observations:
        if seen.progress is not None and seen.progress > 0:
            calls.clear()
        elif seen.tool is not None and not limits.policy(seen.tool).wait:
            calls.append(
                Call(seen.action_fingerprint, seen.result_fingerprint, seen.state_fingerprint)
            )
    for period in range(_SHORTEST_CYCLE, (limits.cycle_max or 0) + 1):
        tail = calls[-period * limits.cycle_repeats :]
        if len(tail) == period * limits.cycle_repeats and all(
            repeats(later, earlier) for earlier, later in zip(tail, tail[period:], strict=False)
        ):
            return period
    return None


def markdown(result: Discrimination) -> str:
    """Return the table of contestants and, below it, the table of pairs, as Markdown text."""
    heads = (
        "contestant",
        "declares",
        "pairs right / within reach",
        "beyond",
        "variants right / within reach",
        "95 %",
        "sides right / ceiling",
    )
    rows = [
        (
            one.contestant,
            ", ".join(one.needs) or "nothing",
            f"{one.right} / {one.within_reach}",
            str(one.beyond),
            f"{one.both_right} / {one.reachable}",
            span(one.interval),
            f"{one.sides_right} / {one.ceiling}",
        )
        for one in result.contestants
    ]
    return f"{table(heads, rows)}\n\n{_pairs_table(result)}\n"


def _pairs_table(result: Discrimination) -> str:
    names = [score.pair for score in result.contestants[0].pairs] if result.contestants else []
    rows: list[list[str]] = []
    for index, name in enumerate(names):
        scores = [one.pairs[index] for one in result.contestants]
        rows.append([name, *(_cell(score) for score in scores)])
    heads = [f"pair (pathology, twin right, each of {result.variants})"]
    return table(heads + [one.contestant for one in result.contestants], rows)


def _cell(score: PairScore) -> str:
    sides = f"{score.pathology_right}, {score.twin_right}"
    return sides + ("" if score.within_reach else " (beyond)")


def _shown(pair: Pair, seed: int) -> Streams:
    """Return a variant's streams with the fingerprints that any controller would compute."""
    streams = pair.streams(setting(seed))

    def marked(seen: Observation) -> Observation:
        volatile = streams.limits.policy(seen.tool).volatile
        action = result = None
        if seen.arguments is not None:
            action = action_fingerprint(seen.tool, seen.arguments, volatile)
        if seen.result is not None:
            result = result_fingerprint(seen.result, volatile)
        return msgspec.structs.replace(seen, action_fingerprint=action, result_fingerprint=result)

    return msgspec.structs.replace(
        streams,
        pathology=tuple(map(marked, streams.pathology)),
        twin=tuple(map(marked, streams.twin)),
    )


def _pair_score(contestant: Judged, name: str, all_: Sequence[Streams]) -> PairScore:
    """Return one contestant's score on the variants of one pair."""
    counts: dict[str, int] = {"right": 0, "early": 0, "late": 0, "budget": 0, "missed": 0}
    twin_right = both = reach = 0
    for streams in all_:
        verdict = _pathology_verdict(contestant, streams)
        counts[verdict] += 1
        twin = first_act(contestant, streams.twin, streams.limits).act != "detection"
        twin_right += twin
        if is_within_reach(streams, contestant.needs):
            reach += 1
            both += twin and verdict == "right"
    return PairScore(
        pair=name,
        variants=len(all_),
        within_reach=reach,
        pathology_right=counts["right"],
        twin_right=twin_right,
        both_right=both,
        interval=clopper_pearson(both, reach) if reach else None,
        early=counts["early"],
        late=counts["late"],
        budget=counts["budget"],
        missed=counts["missed"],
        twin_stopped=len(all_) - twin_right,
    )


def _pathology_verdict(contestant: Judged, streams: Streams) -> str:
    """Return "right", or how the contestant has the pathology wrong."""
    first = first_act(contestant, streams.pathology, streams.limits)
    if first.turn is None or first.act == "finish":
        return "missed"
    if first.act == "budget":
        return "budget"
    if first.turn < streams.onset:
        return "early"
    seen = streams.pathology[: first.turn]
    within = THRESHOLDS * threshold(contestant, first.reason or "", seen, streams.limits)
    return "right" if first.turn - streams.onset <= within else "late"


def _contestant_score(contestant: Judged, scores: Sequence[PairScore]) -> ContestantScore:
    reached = [score for score in scores if score.within_reach]
    both, reachable = sum(s.both_right for s in reached), sum(s.within_reach for s in reached)
    return ContestantScore(
        contestant=contestant.name,
        needs=contestant.needs,
        right=sum(score.both_right == score.within_reach for score in reached),
        within_reach=len(reached),
        beyond=len(scores) - len(reached),
        both_right=both,
        reachable=reachable,
        interval=clopper_pearson(both, reachable) if reachable else None,
        sides_right=sum(score.pathology_right + score.twin_right for score in scores),
        ceiling=sum(score.variants + score.within_reach for score in scores),
        pairs=tuple(scores),
    )
