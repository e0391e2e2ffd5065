"""A run is the agent's acts, the world's answers and the controller's decisions, turn by turn.

Theory of operation: a `Session` makes one observation a turn from the agent's act, the world's
answer, the progress meter and the drawn usage. `trajectory` runs it to the verified finish or the
horizon; `play` asks a controller after every turn. As nothing that a controller of level A to D
says reaches the agent, such a run is a prefix of the trajectory. A `recover` decision of level E is
answered by the chance of leaving the mode that the caller assumes, against one draw that depends on
the task, the number of the recovery and the strategy alone; it costs a turn of its own.

Choices: a run that its controller never stops ends at the horizon of its limits, or after
`TURNS_MAX` turns, with reason `none`. A `Played` is verified when it ended with `completed` and the
world's verifier holds: what nobody claimed is no verified success. Refusals are counted under gate
`verify` only. An act's state fingerprint is None for polls and outages, whose next answer depends
on what nobody sees.

Source: spec control, sections 1, 3 and 4; spec controllers, section 2.
"""

from __future__ import annotations

from collections.abc import Mapping

import msgspec

from loopcore.control.decisions import Controller
from loopcore.control.limits import HORIZON_WITHOUT_STEPS, Limits, ToolPolicy
from loopcore.control.observations import Observation, Usage
from loopcore.control.progress import ProgressMeter
from loopcore.errors import UsageError
from loopcore.worlds import purposes
from loopcore.worlds.agents import Agent, Spoken
from loopcore.worlds.applications import BUILDERS, WORLDS
from loopcore.worlds.calls import FINISH, LOST, Answer, Call, state_digest
from loopcore.worlds.draws import Draws
from loopcore.worlds.habits import RELEVANT, plan
from loopcore.worlds.model import Played, Recovery, Task, Trajectory
from loopcore.worlds.world import UNAVAILABLE

# The horizon of a run that nothing else bounds, and the most that any run has.
HORIZON = HORIZON_WITHOUT_STEPS
TURNS_MAX = 10_000
NO_REASON = "none"
# In so many turns the measure cannot be taken, and so many claims the verifier cannot judge.
MEASURE_MISSING = 0.02
VERIFIER_BROKEN = 0.02
# Tokens of the first turn and of each turn since the context began, and their spread as bits.
INPUT_FIRST, INPUT_TURN, INPUT_BITS = 1_200, 260, 9
OUTPUT_LEAST, OUTPUT_BITS = 40, 8
# Prices in microunits a token, and latency with its spread; a poll sleeps first.
INPUT_PRICE, OUTPUT_PRICE = 3, 15
LATENCY_LEAST, LATENCY_BITS, POLL_LATENCY = 700, 12, 5_000
# One model call in so many must be made twice.
TWICE_BITS = 5


class RecoveryCost(msgspec.Struct, frozen=True, kw_only=True):
    """What the turn of a recovery consumes beside the context that it reads."""

    model_calls: int
    output_tokens: int
    latency_ms: int


# A recovery is decided by a model call; a critique has a second one, a person takes minutes.
RECOVERY_COSTS: Mapping[str, RecoveryCost] = {
    "replan": RecoveryCost(model_calls=1, output_tokens=600, latency_ms=6_000),
    "other_arguments": RecoveryCost(model_calls=1, output_tokens=150, latency_ms=2_000),
    "fallback_tool": RecoveryCost(model_calls=1, output_tokens=200, latency_ms=2_500),
    "smaller_context": RecoveryCost(model_calls=1, output_tokens=400, latency_ms=5_000),
    "drop_satisfied": RecoveryCost(model_calls=1, output_tokens=150, latency_ms=2_000),
    "critique": RecoveryCost(model_calls=2, output_tokens=900, latency_ms=9_000),
    "ask_person": RecoveryCost(model_calls=1, output_tokens=120, latency_ms=600_000),
}
STRATEGY_NUMBERS = {strategy: number for number, strategy in enumerate(RECOVERY_COSTS)}


def tool_policies(application: str) -> dict[str, ToolPolicy]:
    """Return the policy of each tool of an application, for `Limits.tools`.

    Errors: UsageError when there is no such application.
    """
    if application not in WORLDS:
        raise UsageError(f"application: expected one of {', '.join(WORLDS)}, got {application!a}")
    return {**WORLDS[application].box.tools}


class Session:
    """One run of a task.

    Fields:
        turn: the last turn, 0 before the first. onset: turn of the onset so far, or None.
    """

    def __init__(self, task: Task) -> None:
        if task.application not in BUILDERS:
            tool_policies(task.application)
        self.task = task
        self.turn = 0
        self.onset: int | None = None
        self._draws = Draws(task.seed, task.application, task.number)
        self._plan = plan(task, self._draws)
        self._world, hands = BUILDERS[task.application](self._plan.setup)
        self.agent = Agent(self._plan, self._world, hands, self._draws)
        self._meter = ProgressMeter()
        self._reading = self._world.reading()
        self._meter.update(self._reading)
        self._state = self._digest()
        self._act = 0
        self._recoveries = 0
        self._context_from = 0
        self._recovery: RecoveryCost | None = None
        self._finish = None if self._plan.spoken else self._world.box.call(FINISH)
        self._refused = self._world.box.says("the verifier refused")
        self._accepted = self._world.box.says("done")

    @property
    def done(self) -> bool:
        """Whether the task is truly done."""
        return self._world.verified()

    def refresh(self, seed: int) -> None:
        """Draw what follows from another seed; what the task is stays."""
        self._draws = Draws(seed, self.task.application, self.task.number)
        self.agent.draws = self._draws

    def next(self) -> Observation:
        """Return the observation of the next turn."""
        self.turn += 1
        if self._recovery is not None:
            return self._recovery_turn(self._recovery)
        self._act += 1
        act = self.agent.act(self._act)
        if self.onset is None and self.agent.entered:
            self.onset = self.turn
        if act is Spoken.CLAIM:
            return self._claim()
        if act is Spoken.TALK:
            return Observation(
                turn=self.turn,
                action=1,
                state_fingerprint=self._state,
                progress=self._progress(),
                usage=self._usage(None),
            )
        return self._dispatch(act)

    def _dispatch(self, call: Call) -> Observation:
        answer = self._world.execute(call)
        self.agent.hear(call, answer)
        if self.agent.answer_lost:
            answer = LOST
        if self._world.changed:
            self._world.changed = False
            self._reading = self._world.reading()
            self._state = self._digest()
        hidden = call.wait or answer.error == UNAVAILABLE
        return Observation(
            turn=self.turn,
            action=1,
            tool=call.tool,
            arguments=call.arguments,
            result=answer.result,
            action_fingerprint=call.fingerprint,
            result_fingerprint=answer.fingerprint,
            state_fingerprint=None if hidden else self._state,
            progress=self._progress(),
            error_class=answer.error,
            usage=self._usage(call),
        )

    def _claim(self) -> Observation:
        """Return the observation of a finish, spoken or called, with the verifier's answer."""
        verified: bool | None = self._world.verified()
        if self._draws.uniform(self._act, purposes.JUDGED) < VERIFIER_BROKEN:
            verified = None
        call = self._finish
        answer: Answer | None = None
        if call is not None and verified is not None:
            answer = self._accepted if verified else self._refused
        return Observation(
            turn=self.turn,
            action=1,
            tool=None if call is None else call.tool,
            arguments=None if call is None else call.arguments,
            result=None if answer is None else answer.result,
            action_fingerprint=None if call is None else call.fingerprint,
            result_fingerprint=None if answer is None else answer.fingerprint,
            state_fingerprint=self._state,
            progress=self._progress(),
            claims_done=True,
            verified=verified,
            usage=self._usage(call),
        )

    def recover(
        self, strategy: str, reason: str, leaving: Mapping[tuple[str, str], float]
    ) -> Recovery:
        """Return what a recovery came to; the agent has left its mode when it was won.

        Arguments:
            leaving: chance of leaving by habit and strategy; one that is missing is 0.

        Errors: UsageError for a strategy that is none.
        """
        if strategy not in RECOVERY_COSTS:
            raise UsageError(
                f"strategy: expected one of {', '.join(RECOVERY_COSTS)}, got {strategy!a}"
            )
        habit = self.task.habit
        needed = self.agent.mode is not None
        won = False
        if needed and strategy in RELEVANT.get(habit, ()):
            place = Draws(self.task.seed, self.task.application, self.task.number).uniform(
                self._recoveries, purposes.LEAVING + STRATEGY_NUMBERS[strategy]
            )
            won = place < leaving.get((habit, strategy), 0.0)
        if won:
            self.agent.leave()
        self._recoveries += 1
        self._recovery = RECOVERY_COSTS[strategy]
        if strategy == "smaller_context":
            self._context_from = self.turn
        return Recovery(turn=self.turn, strategy=strategy, reason=reason, won=won, needed=needed)

    def _recovery_turn(self, cost: RecoveryCost) -> Observation:
        """Return the observation of the turn that a recovery takes."""
        self._recovery = None
        tokens = self._input_tokens() * cost.model_calls
        return Observation(
            turn=self.turn,
            action=1,
            state_fingerprint=self._state,
            progress=self._meter.update(self._reading),
            usage=Usage(
                model_calls=cost.model_calls,
                tool_calls=0,
                input_tokens=tokens,
                output_tokens=cost.output_tokens,
                cost_microunits=tokens * INPUT_PRICE + cost.output_tokens * OUTPUT_PRICE,
                latency_ms=cost.latency_ms,
            ),
        )

    def _digest(self) -> str | None:
        state = self._world.state()
        return None if state is None else state_digest(self.task.application, state)

    def _progress(self) -> int | None:
        if self._draws.uniform(self._act, purposes.MEASURED) < MEASURE_MISSING:
            return None
        return self._meter.update(self._reading)

    def _input_tokens(self) -> int:
        return INPUT_FIRST + INPUT_TURN * (self.turn - self._context_from)

    def _usage(self, call: Call | None) -> Usage:
        """Return what the turn consumed; one draw has bits enough for all of it."""
        bits = self._draws.word(self._act, purposes.USAGE)
        model_calls = 1 if bits & ((1 << TWICE_BITS) - 1) else 2
        bits >>= TWICE_BITS
        tokens = (self._input_tokens() + (bits & ((1 << INPUT_BITS) - 1))) * model_calls
        bits >>= INPUT_BITS
        output = OUTPUT_LEAST + (bits & ((1 << OUTPUT_BITS) - 1))
        bits >>= OUTPUT_BITS
        latency = LATENCY_LEAST + (bits & ((1 << LATENCY_BITS) - 1))
        return Usage(
            model_calls=model_calls,
            tool_calls=0 if call is None else 1,
            input_tokens=tokens,
            output_tokens=output,
            cost_microunits=tokens * INPUT_PRICE + output * OUTPUT_PRICE,
            latency_ms=latency + POLL_LATENCY if call is not None and call.wait else latency,
        )


def trajectory(task: Task, horizon: int) -> Trajectory:
    """Return what the agent of a task does when only the verifier and the horizon end it.

    Arguments:
        horizon: turns at most, from 1.

    Errors: UsageError for an unknown application or a horizon below 1.
    """
    if horizon < 1:
        raise UsageError(f"horizon: expected at least 1 turn, got {horizon}")
    session = Session(task)
    observations: list[Observation] = []
    verified: int | None = None
    for _ in range(horizon):
        observation = session.next()
        observations.append(observation)
        if observation.verified:
            verified = observation.turn
            break
    return Trajectory(
        task=task,
        observations=tuple(observations),
        onset=session.onset,
        verified_turn=verified,
    )


def play(
    task: Task,
    controller: Controller,
    limits: Limits,
    leaving: Mapping[tuple[str, str], float],
) -> Played:
    """Return the run of a task under a controller, which is started with these limits.

    Arguments:
        controller: a level or a variant. limits: as they are; `tool_policies` gives their tools.
        leaving: chance that a recovery makes an agent leave its mode, by habit and strategy; 0
            where it is missing, and wherever the strategy changes nothing relevant.

    Errors: UsageError for an unknown application.
    """
    controller.start(limits)
    session = Session(task)
    horizon = min(limits.horizon_turns() or TURNS_MAX, TURNS_MAX)
    observations: list[Observation] = []
    recoveries: list[Recovery] = []
    rejected = 0
    reason = NO_REASON
    for _ in range(horizon):
        observation = session.next()
        observations.append(observation)
        if observation.claims_done and observation.verified is False:
            rejected += 1
        decision = controller.observe(observation)
        if decision.decision == "stop":
            reason = decision.reason or NO_REASON
            break
        if decision.decision == "recover" and decision.strategy is not None:
            recoveries.append(session.recover(decision.strategy, decision.reason or "", leaving))
    return Played(
        task=task,
        observations=tuple(observations),
        reason=reason,
        verified=reason == "completed" and session.done,
        rejected=rejected if limits.gate == "verify" else 0,
        recoveries=tuple(recoveries),
    )


def continuations(task: Task, onset: int, count: int) -> list[bool]:
    """Return whether each of `count` fresh continuations from a turn on verifies.

    Arguments:
        onset: the first turn that is drawn anew; the turns before it are those of the task.

    Each continuation has the horizon of a whole run from there on.
    """
    outcomes: list[bool] = []
    for fresh in range(count):
        session = Session(task)
        for _ in range(onset - 1):
            session.next()
        session.refresh(task.seed + fresh + 1)
        outcomes.append(any(session.next().verified for _ in range(HORIZON)))
    return outcomes
