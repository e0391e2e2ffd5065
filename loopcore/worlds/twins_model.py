"""What a pair of twins is: two streams of one shape and opposite verdict, and how they are built.

Theory of operation: a maker yields, turn for turn, what the pathology and what its twin shows. Both
come from the same draws, so they differ only where the verdict lies: turn, claims, verifier's
answers, usage and the productive turns before the onset are the same. A stream ends where enough
was shown; what would follow (nothing, or a verified finish) is the truth of the pair and is not
shown, since it would tell the two apart for free.

Choices: a legitimate twin reaches a new best at least every `GAP_MAX`-th time it could. Twins that
are slower than any window are pairs of their own.

Source: spec control, section 4.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from random import Random
from typing import TypeAlias

import msgspec

from loopcore.control.limits import Limits, ToolPolicy
from loopcore.control.observations import Json, Observation, Usage

# Legitimate work shows a new best at least every so many chances.
GAP_MAX = 4
# Productive turns before the onset, and thresholds, of the settings that a seed draws.
LEAD_MAX = 8
REPEAT_RANGE = (3, 6)
WINDOW_RANGE = (8, 16)
STREAK_RANGE = (3, 6)
CYCLE_MAX_RANGE = (4, 7)
CYCLE_REPEATS_RANGE = (2, 4)
WAITS_RANGE = (6, 20)
REFUSALS_RANGE = (2, 5)

_WORDS = (
    *("amber", "birch", "cedar", "delta", "ember", "fjord", "grove", "harbor"),
    *("island", "juniper", "kernel", "ledger", "meadow", "nickel", "orchard", "pebble"),
    *("quarry", "ripple", "summit", "timber", "upland", "valley", "willow", "zephyr"),
)


class Setting(msgspec.Struct, frozen=True, kw_only=True):
    """The parameters of one variant of every pair.

    Fields:
        seed: of names, gaps and usage. lead: productive turns before the onset.
        turns: shown from the onset on. limits: the thresholds; a pair adds its tool policies.
    """

    seed: int
    lead: int
    turns: int
    limits: Limits


class Streams(msgspec.Struct, frozen=True, kw_only=True):
    """One variant of a pair.

    Fields:
        pathology, twin: observations, as many in both, one a turn from turn 1.
        onset: the turn at which the pathology enters the mode that it never leaves by itself.
        limits: with the policies of the pair's tools.
    """

    pathology: tuple[Observation, ...]
    twin: tuple[Observation, ...]
    onset: int
    limits: Limits


class Seen(msgspec.Struct, frozen=True, kw_only=True):
    """What one turn of a stream shows besides its number and usage."""

    tool: str | None = None
    arguments: Json = None
    result: Json = None
    state: str | None = None
    progress: int | None = 0
    error: str | None = None
    claims_done: bool = False
    verified: bool | None = None


Both: TypeAlias = tuple[Seen, Seen]
Maker: TypeAlias = "Callable[[Scene], Iterator[Both]]"


class Pair(msgspec.Struct, frozen=True, kw_only=True):
    """A kind of pathology and its legitimate twin.

    Fields:
        name: of the pair. pathology, twin: what each is, and why it does or does not verify.
        make: yields both, turn for turn and without end.
    """

    name: str
    pathology: str
    twin: str
    make: Maker

    def streams(self, setting: Setting) -> Streams:
        """Return both streams of this pair under a setting; the same for the same arguments."""
        scene = Scene(self.name, setting)
        lead = [(seen, seen) for _, seen in zip(range(setting.lead), scene.lead(), strict=False)]
        body = [both for _, both in zip(range(setting.turns), self.make(scene), strict=False)]
        usages = [scene.usage() for _ in range(setting.lead + setting.turns)]
        pathology, twin = (
            tuple(
                _observation(turn, both[side], usage)
                for turn, (both, usage) in enumerate(zip(lead + body, usages, strict=True), start=1)
            )
            for side in (0, 1)
        )
        tools = {**setting.limits.tools, **scene.policies}
        return Streams(
            pathology=pathology,
            twin=twin,
            onset=setting.lead + 1,
            limits=msgspec.structs.replace(setting.limits, tools=tools),
        )


class Scene:
    """The draws of one variant: names of tools and things, gaps, and the policies of its tools."""

    def __init__(self, name: str, setting: Setting) -> None:
        self.limits = setting.limits
        self.random = Random(f"{name}/{setting.seed}")
        self.policies: dict[str, ToolPolicy] = {}
        self._words = self.random.sample(_WORDS, len(_WORDS))

    def word(self, index: int) -> str:
        """Return the scene's index-th name; different indexes have different names."""
        round_, place = divmod(index, len(self._words))
        return self._words[place] + (str(round_) if round_ else "")

    def tool(self, verb: str, policy: ToolPolicy | None = None) -> str:
        """Return a tool's name that begins with a verb, and record its policy if it has one."""
        name = f"{verb}_{self.word(self.random.randrange(len(_WORDS)))}"
        if policy is not None:
            self.policies[name] = policy
        return name

    def between(self, bounds: tuple[int, int]) -> int:
        """Return an integer within bounds, both included."""
        return self.random.randint(*bounds)

    def flag(self) -> bool:
        """Return whether a fair coin fell on its head."""
        return self.random.random() < 0.5  # noqa: PLR2004 (a fair coin)

    def new_bests(self, gap_max: int = GAP_MAX) -> Iterator[int]:
        """Yield the progress of legitimate work: 1 for a new best, at least every gap_max-th."""
        while True:
            yield from [0] * (self.between((1, gap_max)) - 1)
            yield 1

    def lead(self) -> Iterator[Seen]:
        """Yield productive turns: another thing each, done at once."""
        tool, index = self.tool("make"), 0
        while True:
            index += 1
            yield Seen(
                tool=tool,
                arguments={"item": f"first {index}"},
                result=f"made {index}",
                state=f"lead {index}",
                progress=1,
            )

    def usage(self) -> Usage:
        """Return what one turn consumed."""
        inputs, outputs = self.between((400, 4000)), self.between((20, 400))
        return Usage(
            model_calls=1,
            tool_calls=1,
            input_tokens=inputs,
            output_tokens=outputs,
            cost_microunits=3 * inputs + 15 * outputs,
            latency_ms=self.between((300, 9000)),
        )


def setting(seed: int) -> Setting:
    """Return the setting that a seed draws: lead and every threshold, without a step bound.

    As many turns are shown from the onset on as two of the largest threshold need.
    """
    random = Random(f"setting/{seed}")
    limits = Limits(
        max_steps=None,
        horizon=None,
        repeat=random.randint(*REPEAT_RANGE),
        window=random.randint(*WINDOW_RANGE),
        error_streak=random.randint(*STREAK_RANGE),
        cycle_max=random.randint(*CYCLE_MAX_RANGE),
        cycle_repeats=random.randint(*CYCLE_REPEATS_RANGE),
        max_waits=random.randint(*WAITS_RANGE),
        max_refusals=random.randint(*REFUSALS_RANGE),
    )
    return Setting(
        seed=seed,
        lead=random.randint(0, LEAD_MAX),
        turns=2 * largest_threshold(limits) + 1,
        limits=limits,
    )


def default_setting(seed: int = 0) -> Setting:
    """Return the setting of the default thresholds, without a step bound."""
    limits = Limits(max_steps=None, horizon=None)
    lead = Random(f"lead/{seed}").randint(0, LEAD_MAX)
    return Setting(seed=seed, lead=lead, turns=2 * largest_threshold(limits) + 1, limits=limits)


def largest_threshold(limits: Limits) -> int:
    """Return the largest threshold of any row or of the gate that is on, at least 1."""
    cycle = 0 if limits.cycle_max is None else limits.cycle_max * limits.cycle_repeats
    refusals = 0 if limits.max_refusals is None else limits.max_refusals + 1
    others = (limits.repeat, limits.window, limits.error_streak, limits.max_waits)
    return max(1, cycle, refusals, *(bound or 0 for bound in others))


def _observation(turn: int, seen: Seen, usage: Usage) -> Observation:
    return Observation(
        turn=turn,
        action=1,
        tool=seen.tool,
        arguments=seen.arguments,
        result=seen.result,
        state_fingerprint=seen.state,
        progress=seen.progress,
        error_class=seen.error,
        claims_done=seen.claims_done,
        verified=seen.verified,
        usage=usage,
    )
