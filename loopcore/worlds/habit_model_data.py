"""What a fitted habit model is, as data that ships in one JSON file.

Source: spec control, section 4 (the columnar tier).
"""

from __future__ import annotations

from itertools import accumulate
from typing import Annotated

import msgspec

SCHEMA = "loopcore/habits/1"
# The unit of shares and of growth a turn in a file that has only integers.
MILLION = 1_000_000

Count = Annotated[int, msgspec.Meta(ge=0)]


class Start(msgspec.Struct, frozen=True, array_like=True):
    """Where a run's chain goes at a turn that its plan names.

    Fields:
        what: one of STARTS in `habit_model_fitting`. manner: of such runs, see `States`.
        successors: pairs of the place of a state and how often it was there.
    """

    what: str
    manner: Count
    successors: list[Count]


class Chain(msgspec.Struct, frozen=True, kw_only=True):
    """What was counted of one habit in one application.

    Fields:
        plans: for each run that was counted its close (turn of the last success, 0 for none),
            onset (0 for none), manner (see `States`), and turn of the finish (0 for none).
        steps: packed states in ascending order, each as what it is more than the one before.
        rows: for each state, pairs of the place of what followed and how often.
        starts: what was there at the turns that a plan names.
    """

    plans: list[tuple[Count, Count, Count, Count]]
    steps: list[Count]
    rows: list[list[Count]]
    starts: list[Start]

    @property
    def states(self) -> list[int]:
        """The packed states."""
        return list(accumulate(self.steps))


class UsageClass(msgspec.Struct, frozen=True, kw_only=True):
    """What turns of one kind consume: equally frequent rows, and how these grow.

    Fields:
        rows: six amounts each, in the order of the columns, as of turn 0.
        growth: six amounts a turn and model call, in millionths.
    """

    rows: list[list[int]]
    growth: list[int]


class ApplicationModel(msgspec.Struct, frozen=True, kw_only=True):
    """The chains of one application, and what they share.

    Fields:
        tools: for nothing, a call, a repeatable call and a poll the one name that stands for all,
            "" where there is none. errors: two names of error classes.
        unmeasured: turns whose progress is unknown, in millionths. usage: by kind of turn.
        chains: by habit.
    """

    tools: list[str]
    errors: list[str]
    unmeasured: Count
    usage: list[UsageClass]
    chains: dict[str, Chain]


class Fitted(msgspec.Struct, frozen=True, kw_only=True):
    """A fitted model.

    Fields:
        seed: of the runs that were counted. runs: of each habit in each application.
        horizon: of these runs, and therefore the longest that can be generated.
        probe: by application, what a few of these runs came to (see `fitting`).
    """

    schema: str
    seed: int
    runs: Count
    horizon: Count
    probe: dict[str, list[Count]]
    applications: dict[str, ApplicationModel]
