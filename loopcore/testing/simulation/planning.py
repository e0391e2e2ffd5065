"""The simulated planner: it proposes whatever chance says, sensible or not.

Source: spec runtime, sections 2 and 9.
"""

from __future__ import annotations

from loopcore.runtime.messages import Act, Ask, Finish, Proposal
from loopcore.testing.simulation.draws import Draws
from loopcore.testing.simulation.options import CHILD_TOOL, Options, ToolCase, carve

_STRANGE = (
    Act(tool="nobody"),
    Act(tool="finish", arguments="{}"),
    Act(tool="pay", arguments="[1]"),
    Act(tool="pay", arguments='{"other": 1}'),
    Act(tool="pay", arguments='{"n": 9}'),
    Act(tool="post", arguments='{"n": 1}', key="k"),
    Act(tool="post", arguments='{"n": 2}', key="k"),
)


def proposals(draws: Draws, options: Options, tools: tuple[ToolCase, ...]) -> tuple[Proposal, ...]:
    """Return what the planner proposes next; nothing: it gives up."""
    planning = options.planning
    if draws.chance(planning.finishes):
        return (Finish(),)
    if draws.chance(planning.gives_up):
        return ()
    if draws.chance(planning.asks):
        return (Ask(question="which?"),)
    found: list[Proposal] = [
        _one(draws, options, tools) for _ in range(1 + draws.below(planning.batch_max))
    ]
    if draws.chance(planning.finishes):
        found.append(Finish())
    return tuple(found)


def _one(draws: Draws, options: Options, tools: tuple[ToolCase, ...]) -> Act:
    planning = options.planning
    if draws.chance(planning.strange):
        return draws.pick(_STRANGE)
    tool = draws.pick(tools).rule.name
    arguments = f'{{"n": {draws.below(planning.variety)}}}'
    if tool == CHILD_TOOL:
        return Act(tool=tool, arguments=arguments, carve=carve(draws))
    occurrence = 1 + draws.below(3) if draws.chance(planning.repeats) else None
    return Act(tool=tool, arguments=arguments, occurrence=occurrence)
