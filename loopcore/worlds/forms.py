"""Other forms of autonomy on the same worlds: what a loop is measured against.

Theory of operation: a form is another way to choose the next act. It plays a task through the same
tools, verifier and draws, under the step bound, the budgets and the gate of level B. Where code
chooses the next step there is no habit to fall into, so such a form meets only what the world does
to it (goals that cannot be met, outages, operations that take time) and slips of the model; this
flatters it, and it is brittle in return. Where a model still chooses, the task's habit applies.

- single response: one model call writes down every call and the claim; nothing that comes back is
  read.
- fixed workflow: the same calls, each with a model call for its arguments; a failed one is retried
  and a poll repeated, in bounded number; one claim at the end.
- planner and executor: a plan of a few steps at a time, made with sight of the state; a new plan
  ends any mode that the executor fell into.
- bounded search: a few candidates for each step are tried on a copy of the world and the one with
  the best measure is taken, while the branch budget lasts. It needs a world that can be copied.
- human checkpoint: the loop under level D, and every few turns a person looks, who notices with a
  stated chance that the agent is in a mode, and ends what cannot be done.

Choices: a run that its form ends without a verified finish has reason `none`. A turn without a
model call consumes no tokens. Candidates are asked for together, so their latency is that of one.

Source: spec control, section 4 (worlds, verifier and draws).
"""

from __future__ import annotations

import copy
from collections.abc import Callable, Mapping
from types import MappingProxyType

import msgspec

from loopcore.control.levels import controller
from loopcore.control.limits import Limits
from loopcore.control.observations import Observation, Usage
from loopcore.worlds.agents import Act, Agent, Spoken
from loopcore.worlds.applications import BUILDERS, WORLDS
from loopcore.worlds.calls import Answer, Call
from loopcore.worlds.draws import Draws
from loopcore.worlds.habits import RELEVANT
from loopcore.worlds.model import Played, Recovery, Task
from loopcore.worlds.playing import INPUT_PRICE, NO_REASON, OUTPUT_PRICE, TURNS_MAX, Session
from loopcore.worlds.world import Setup

# A script has at most so many calls; tasks that cannot be done would have no end.
SCRIPT_MAX = 80
STEPS_MAX = 400
# A failed call of the workflow is made again, and an operation polled, so often.
RETRIES_MAX = 3
POLLS_MAX = 20
# Steps of a plan; candidates of a search step; branches of a whole search.
PLAN_STEPS = 8
SEARCH_WIDTH = 3
BRANCHES_MAX = 24
# Turns between two looks of a person, and the chance that the person sees what is wrong.
CHECKPOINT_TURNS = 10
PERSON_NOTICES = 0.8
# Draws of the forms, at the number of an act: beyond those of agents and recoveries.
_NOISE, _NOISE_KIND, _NOTICE = 40, 41, 42

Form = Callable[[Task, Limits], Played]


class FormAgent(Agent):
    """An agent that acts by a form.

    Fields:
        model_calls: of the act just chosen, in model calls of an ordinary turn.
        outputs: tokens that they write, in outputs of an ordinary model call.
        over: the form has nothing more to do.
    """

    def __init__(self, agent: Agent) -> None:
        super().__init__(agent.plan, agent._world, agent._hands, agent.draws)
        self.model_calls = 1
        self.outputs = 1
        self.over = False

    def _strike(self, number: int) -> None:
        """Put a tool out of order where the task's plan says so."""
        while self._outages < len(self.plan.outages) and number >= self.plan.outages[self._outages]:
            self._world.outage += self.plan.outage_lengths[self._outages]
            self._outages += 1

    def _slipped(self, number: int, call: Call) -> Call:
        """Return the call, or a slip or a mistake as often as the plan makes them."""
        place = self.draws.uniform(number, _NOISE)
        index = self.draws.word(number, _NOISE_KIND) % 16
        start = 0.0
        for end, intent in self.plan.intents:
            if intent in ("slip", "mistake") and start <= place < end and not call.wait:
                return self._hands.slip(index) if intent == "slip" else self._hands.mistake(index)
            start = end
        return call


class Script(FormAgent):
    """The calls that a flawless run would make, made blindly, and the claim."""

    def __init__(self, agent: Agent) -> None:
        super().__init__(agent)
        name = next(name for name, world in WORLDS.items() if isinstance(self._world, world))
        self._calls = flawless(name, self.plan.setup)
        self._place = 0

    def act(self, number: int) -> Act:
        """Return the next call of the response, which only its first turn asked a model for."""
        self._strike(number)
        self.model_calls = int(number == 1)
        self.outputs = len(self._calls) + 1
        if self._place == len(self._calls):
            self.over = True
            return Spoken.CLAIM
        self._place += 1
        return self._slipped(number, self._calls[self._place - 1])


class Workflow(Script):
    """The same calls, each retried and polled in bounded number."""

    def __init__(self, agent: Agent) -> None:
        super().__init__(agent)
        self._tries = 0

    def act(self, number: int) -> Act:
        """Return the call in work, or the next one when it succeeded or was tried enough."""
        if self._place and self._tries:
            self._strike(number)
            call = self._calls[self._place - 1]
            self.model_calls = int(not call.wait)
            return self._slipped(number, call)
        act = super().act(number)
        self.model_calls = self.outputs = 1
        return act

    def hear(self, call: Call, answer: Answer) -> None:
        """Say whether the call in work has to be made once more."""
        asked = self._calls[self._place - 1]
        unfinished = answer.error is not None or call is not asked
        bound = POLLS_MAX if call.wait else RETRIES_MAX
        if call.wait and isinstance(answer.result, dict):
            unfinished = answer.result.get("status") == "running"
        self._tries = self._tries + 1 if unfinished and self._tries < bound else 0


class Planner(FormAgent):
    """Plans of a few steps; within one the executor may fall into the task's mode."""

    def __init__(self, agent: Agent) -> None:
        super().__init__(agent)
        self._steps = 0
        self._met = False

    def act(self, number: int) -> Act:
        """Return a step of the plan, or the turn in which a new one is made."""
        self._strike(number)
        if not self._steps:
            self._steps = PLAN_STEPS
            if self.mode != "flounder":
                self.leave()
            return Spoken.TALK
        self._steps -= 1
        self._fall(number)
        if self.mode is not None:
            return self._in_mode(number, self.mode)
        if self._retry is not None:
            return self._retry
        call = self._hands.advance()
        return Spoken.CLAIM if call is None else self._slipped(number, call)

    def _fall(self, number: int) -> None:
        """Enter the mode of the task when it is due, once."""
        due = "flounder" if self.plan.setup.impossible else self.plan.mode
        late = number >= self.plan.mode_turn or self.plan.setup.impossible
        if due is not None and late and not self._met and not self._world.verified():
            self._met = self.entered = True
            self.mode = due


class Search(FormAgent):
    """The agent's own act, unless another candidate does better on a copy of the world."""

    def __init__(self, agent: Agent) -> None:
        super().__init__(agent)
        self._branches = BRANCHES_MAX

    def act(self, number: int) -> Act:
        """Return the candidate with the best measure, the agent's own where none is better."""
        own = super().act(number)
        self.model_calls = 1
        if self._branches < SEARCH_WIDTH - 1 or self.answer_lost:
            return own
        self._branches -= SEARCH_WIDTH - 1
        self.model_calls = SEARCH_WIDTH
        best, measure = own, self._measured(own)
        call = self._hands.advance()
        if call is not None:
            for candidate in (self._slipped(number, call), self._hands.look(number % 16)):
                found = self._measured(candidate)
                if found < measure:
                    best, measure = candidate, found
        return best

    def _measured(self, act: Act) -> tuple[int, tuple[int, ...]]:
        """Return violated constraints and what remains after an act, smaller being better."""
        world = copy.deepcopy(self._world)
        if isinstance(act, Call):
            world.execute(act)
        reading = world.reading()
        return len(reading.integrity), reading.remaining


def flawless(application: str, setup: Setup) -> list[Call]:
    """Return the calls of a run without slips and outages, at most SCRIPT_MAX of them."""
    world, hands = BUILDERS[application](setup)
    calls: list[Call] = []
    for _ in range(STEPS_MAX):
        call = None if world.verified() else hands.advance()
        if call is None or len(calls) == SCRIPT_MAX:
            break
        # A poll is written down once; whoever can read answers repeats it.
        if not (call.wait and calls and calls[-1] is call):
            calls.append(call)
        world.execute(call)
    return calls


def single_response(task: Task, limits: Limits) -> Played:
    """Return the run of one response that is carried out without a look."""
    return _played(task, limits, Script)


def fixed_workflow(task: Task, limits: Limits) -> Played:
    """Return the run of a workflow whose steps are code."""
    return _played(task, limits, Workflow)


def planner_executor(task: Task, limits: Limits) -> Played:
    """Return the run of a planner that looks again every few steps."""
    return _played(task, limits, Planner)


def bounded_search(task: Task, limits: Limits) -> Played:
    """Return the run of a search over candidate steps with a branch budget."""
    return _played(task, limits, Search)


def human_checkpoint(task: Task, limits: Limits) -> Played:
    """Return the run of the loop under level D with a person who looks every few turns."""
    level = controller("D")
    level.start(limits)
    session = Session(task)
    leaving: dict[tuple[str, str], float] = {
        (habit, "ask_person"): PERSON_NOTICES for habit in RELEVANT
    }
    draws = Draws(task.seed, task.application, task.number)
    seen: list[Observation] = []
    recoveries: list[Recovery] = []
    reason, gives_up = NO_REASON, False
    for _ in range(_horizon(limits)):
        seen.append(session.next())
        decision = level.observe(seen[-1])
        if decision.decision == "stop":
            reason = decision.reason or NO_REASON
            break
        if gives_up:
            break
        if session.turn % CHECKPOINT_TURNS == 0:
            looked = session.recover("ask_person", "awaiting_input", leaving)
            recoveries.append(looked)
            hopeless = looked.needed and "ask_person" not in RELEVANT.get(task.habit, ())
            gives_up = hopeless and draws.uniform(session.turn, _NOTICE) < PERSON_NOTICES
    return _result(limits, session, seen, reason, tuple(recoveries))


FORMS: Mapping[str, Form] = MappingProxyType(
    {
        "single response": single_response,
        "fixed workflow": fixed_workflow,
        "planner and executor": planner_executor,
        "bounded search": bounded_search,
        "human checkpoint": human_checkpoint,
    }
)


def _horizon(limits: Limits) -> int:
    return min(limits.horizon_turns() or TURNS_MAX, TURNS_MAX)


def _played(task: Task, limits: Limits, make: Callable[[Agent], FormAgent]) -> Played:
    """Return the run of a form under level B."""
    level = controller("B")
    level.start(limits)
    session = Session(task)
    agent = make(session.agent)
    session.agent = agent
    seen: list[Observation] = []
    reason = NO_REASON
    for _ in range(_horizon(limits)):
        observation = session.next()
        usage = _scaled(observation.usage, agent.model_calls, agent.outputs)
        seen.append(msgspec.structs.replace(observation, usage=usage))
        decision = level.observe(seen[-1])
        if decision.decision == "stop":
            reason = decision.reason or NO_REASON
            break
        if agent.over:
            break
    return _result(limits, session, seen, reason)


def _result(
    limits: Limits,
    session: Session,
    seen: list[Observation],
    reason: str,
    recoveries: tuple[Recovery, ...] = (),
) -> Played:
    """Return what a run came to."""
    refused = sum(one.claims_done and one.verified is False for one in seen)
    return Played(
        task=session.task,
        observations=tuple(seen),
        reason=reason,
        verified=reason == "completed" and session.done,
        rejected=refused if limits.gate == "verify" else 0,
        recoveries=recoveries,
    )


def _scaled(usage: Usage, calls: int, outputs: int) -> Usage:
    """Return the usage of a turn with so many times its model calls and their outputs."""
    inputs = (usage.input_tokens or 0) * calls
    written = (usage.output_tokens or 0) * calls * outputs
    return msgspec.structs.replace(
        usage,
        model_calls=(usage.model_calls or 0) * calls,
        input_tokens=inputs,
        output_tokens=written,
        cost_microunits=inputs * INPUT_PRICE + written * OUTPUT_PRICE,
    )
