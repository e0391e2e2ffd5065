"""Levels A to E a second time: at each observation everything is recomputed from the whole run.

Theory of operation: `NaiveController` keeps every observation of the run with what it answered, and
nothing derived from them. Each row of the table of detectors is a function from that list to "does
it fire on the last one", written as the sentence of the specification reads, with slices and
comparisons in place of counters. It costs quadratic time and all memory; that is the point. It
shares with the levels only the values (observations, limits, decisions) and the fingerprints, which
have tests of their own.

Level E puts the rows of detectors to the observations after the last recovery alone, and budgets
and gate to all of them. A recovery was begun in each turn that is over and whose highest answer is
one; which strategy comes next is in `loopcore.testing.naive_controllers_recovering`.

Source: spec control, section 2; spec controllers, sections 2 to 6.
"""

from __future__ import annotations

from collections.abc import Callable

import msgspec

from loopcore.control.decisions import Decision
from loopcore.control.fingerprints import action_fingerprint, result_fingerprint
from loopcore.control.limits import Limits
from loopcore.control.observations import Observation
from loopcore.testing.naive_controllers_recovering import ORDERS, next_strategy

HIGHEST_FIRST = [
    "stop completed",
    "stop deadline_exceeded",
    "stop step_budget_exhausted",
    "stop model_budget_exhausted",
    "stop tool_budget_exhausted",
    "stop cost_budget_exhausted",
    "stop input_token_budget_exhausted",
    "stop output_token_budget_exhausted",
    "stop stalled_verifier",
    "stop invalid_completion",
    "stop repeated_action",
    "stop tool_failure",
    "stop nonproductive_cycle",
    "stop no_progress",
    "reject_finish invalid_completion",
    "continue",
]


class Run:
    """A run so far, with the questions that the specification asks of it."""

    def __init__(self, limits: Limits, observations: list[Observation]) -> None:
        self.limits = limits
        self.all = observations
        self.now = observations[-1]
        self.turns: dict[int, list[Observation]] = {}
        for seen in observations:
            self.turns.setdefault(seen.turn, []).append(seen)
        self.refusals = [seen for seen in observations if seen.claims_done and is_no(seen)]

    def waits(self, seen: Observation) -> bool:
        """Whether its tool is marked as waiting."""
        return self.limits.policy(seen.tool).wait

    def is_call(self, seen: Observation) -> bool:
        """Whether it has a tool or an action fingerprint, and does not wait."""
        named = seen.tool is not None or seen.action_fingerprint is not None
        return named and not self.waits(seen)

    def is_good(self, seen: Observation) -> bool:
        """Whether it brought progress, and does not wait."""
        return not self.waits(seen) and seen.progress is not None and seen.progress > 0

    def from_good(self) -> list[Observation]:
        """Return the last good observation and what came after it."""
        good = [index for index, seen in enumerate(self.all) if self.is_good(seen)]
        return self.all[good[-1] :] if good else self.all

    def since_good(self) -> list[Observation]:
        """Return what came after the last good observation."""
        return [seen for seen in self.from_good() if not self.is_good(seen)]

    def is_duplicate(self, seen: Observation) -> bool:
        """Whether this call's action stood in its turn already."""
        return seen.action_fingerprint is not None and any(
            self.is_call(other) and other.action_fingerprint == seen.action_fingerprint
            for other in self.turns[seen.turn]
            if other.action < seen.action
        )

    def calls(self, among: list[Observation]) -> list[Observation]:
        """Return the calls that count."""
        return [seen for seen in among if self.is_call(seen) and not self.is_duplicate(seen)]

    def is_identical_refusal(self, seen: Observation) -> bool:
        """Whether it is a refusal of which nothing is known to differ from the one before."""
        if seen not in self.refusals[1:]:
            return False
        before = self.refusals[self.refusals.index(seen) - 1]
        return not (
            known_to_differ(seen.state_fingerprint, before.state_fingerprint)
            or known_to_differ(seen.result_fingerprint, before.result_fingerprint)
        )


def with_fingerprints(seen: Observation, limits: Limits) -> Observation:
    """Return the observation with the fingerprints that can be computed of it filled in."""
    volatile = limits.policy(seen.tool).volatile
    action, result = seen.action_fingerprint, seen.result_fingerprint
    if action is None and seen.arguments is not None:
        action = action_fingerprint(seen.tool, seen.arguments, volatile)
    if result is None and seen.result is not None:
        result = result_fingerprint(seen.result, volatile)
    return msgspec.structs.replace(seen, action_fingerprint=action, result_fingerprint=result)


def is_no(seen: Observation) -> bool:
    """Whether the verifier ran and refused."""
    return seen.verified is False


def known_to_differ(one: str | None, other: str | None) -> bool:
    """Whether both are known and not the same."""
    return one is not None and other is not None and one != other


def repeats(later: Observation, earlier: Observation) -> bool:
    """Whether one call repeats another, by section 4."""
    if later.action_fingerprint is None:
        return False
    if later.action_fingerprint != earlier.action_fingerprint:
        return False
    if later.state_fingerprint is not None and earlier.state_fingerprint is not None:
        return later.state_fingerprint == earlier.state_fingerprint
    return (
        later.result_fingerprint is not None
        and later.result_fingerprint == earlier.result_fingerprint
    )


def row_n(run: Run) -> str | None:
    """The last `repeat` calls have one known action fingerprint."""
    length = run.limits.repeat
    if length is None or run.limits.policy(run.now.tool).repeatable:
        return None
    resets = [i for i, s in enumerate(run.all) if run.is_good(s) and not run.is_call(s)]
    calls = run.calls(run.all[resets[-1] + 1 :] if resets else run.all)
    last = calls[-length:]
    fingerprints = {call.action_fingerprint for call in last}
    if len(last) < length or last[-1] is not run.now or None in fingerprints:
        return None
    return "repeated_action" if len(fingerprints) == 1 else None


def row_r(run: Run) -> str | None:
    """The last `repeat` calls since the last good one each repeat the one before."""
    length = run.limits.repeat
    if length is None or run.limits.policy(run.now.tool).repeatable:
        return None
    last = run.calls(run.since_good())[-length:]
    if len(last) < length or last[-1] is not run.now:
        return None
    pairs = zip(last[1:], last, strict=False)
    return "repeated_action" if all(repeats(later, earlier) for later, earlier in pairs) else None


def row_e(run: Run) -> str | None:
    """The last `error_streak` calls since the last good one have one error class."""
    length = run.limits.error_streak
    if length is None:
        return None
    counted: list[Observation] = []
    for seen in run.since_good():
        if run.waits(seen) or (run.is_call(seen) and run.is_duplicate(seen)):
            continue
        if not run.is_call(seen) and seen.error_class is None:
            continue
        classes = {other.error_class for other in counted if other.turn == seen.turn}
        if seen.error_class is None or seen.error_class not in classes:
            counted.append(seen)
    last = counted[-length:]
    if len(last) < length or last[-1] is not run.now:
        return None
    classes = {seen.error_class for seen in last}
    return "tool_failure" if len(classes) == 1 and None not in classes else None


def row_c(run: Run) -> str | None:
    """The last p × cycle_repeats calls since the last good one repeat with period p."""
    calls = run.calls(run.since_good())
    if run.limits.cycle_max is None or not calls or calls[-1] is not run.now:
        return None
    for period in range(2, run.limits.cycle_max + 1):
        last = calls[-period * run.limits.cycle_repeats :]
        if len(last) < period * run.limits.cycle_repeats:
            continue
        periodic = all(repeats(last[i], last[i - period]) for i in range(period, len(last)))
        end = range(len(last) - (period - 1), len(last))
        constant = all(repeats(last[i], last[i - 1]) for i in end)
        if periodic and not constant:
            return "nonproductive_cycle"
    return None


def row_w(run: Run) -> str | None:
    """There were `window` idle turns since the last good observation."""
    if run.limits.window is None or run.waits(run.now):
        return None
    idle: set[int] = set()
    for turn in {seen.turn for seen in run.since_good()}:
        active = [seen for seen in run.turns[turn] if not run.waits(seen)]
        if not any(run.is_good(seen) for seen in active) and any(
            makes_idle(run, seen) for seen in active
        ):
            idle.add(turn)
    return "no_progress" if len(idle) >= run.limits.window else None


def makes_idle(run: Run, seen: Observation) -> bool:
    """Whether it makes its turn idle, as far as no good observation is in that turn."""
    if run.limits.gate == "verify" and seen.claims_done:
        # A claim that nobody could verify is neither a refusal nor idle.
        if seen.verified is None:
            return False
        if run.is_identical_refusal(seen):
            return True
    return seen.progress is not None and seen.progress <= 0


def row_p(run: Run) -> str | None:
    """The waiting tool has had `max_waits` observations since any progress."""
    if run.now.tool is None or not run.waits(run.now):
        return None
    policy = run.limits.policy(run.now.tool)
    bound = policy.max_waits if policy.max_waits is not None else run.limits.max_waits
    better = [i for i, s in enumerate(run.all) if s.progress is not None and s.progress > 0]
    recent = run.all[better[-1] + 1 :] if better else run.all
    waited = [seen for seen in recent if seen.tool == run.now.tool]
    # An observation that is itself progress leaves nothing to count.
    if bound is None or not waited or len(waited) < bound:
        return None
    return "no_progress"


def row_horizon(run: Run) -> str | None:
    """The turn's number has reached the horizon."""
    horizon = run.limits.horizon_turns()
    return "step_budget_exhausted" if horizon is not None and run.now.turn >= horizon else None


def row_steps(run: Run) -> str | None:
    """So many turns were not all waiting."""
    steps = run.limits.max_steps
    if steps is None or run.waits(run.now):
        return None
    active = {seen.turn for seen in run.all if not run.waits(seen)}
    return "step_budget_exhausted" if len(active) >= steps else None


def rows_budgets(run: Run) -> list[str]:
    """Return the reasons of every budget that is used up."""
    limits = run.limits
    use = [seen.usage for seen in run.all]
    reasons: list[str] = []
    latency = sum(usage.latency_ms or 0 for usage in use)
    if limits.max_latency_ms is not None and latency >= limits.max_latency_ms:
        reasons.append("deadline_exceeded")
    for reason, bound, total in (
        ("model", limits.max_model_calls, sum(usage.model_calls or 0 for usage in use)),
        ("tool", limits.max_tool_calls, sum(usage.tool_calls or 0 for usage in use)),
        ("cost", limits.max_cost_microunits, sum(usage.cost_microunits or 0 for usage in use)),
        ("input_token", limits.max_input_tokens, sum(usage.input_tokens or 0 for usage in use)),
        ("output_token", limits.max_output_tokens, sum(usage.output_tokens or 0 for usage in use)),
    ):
        if bound is not None and total > bound:
            reasons.append(f"{reason}_budget_exhausted")
    return reasons


def gate_answer(level: str, run: Run) -> str:
    """Return what the gate answers to the current observation, by section 6."""
    if not run.now.claims_done:
        return "continue"
    if run.limits.gate == "trust" or run.now.verified is True:
        return "stop completed"
    if run.now.verified is False:
        # A refusal on a good observation is the first since it.
        count = len([seen for seen in run.from_good() if seen in run.refusals])
        refusals = run.limits.max_refusals
        if level != "A" and refusals is not None and count >= refusals + 1:
            return "stop invalid_completion"
        return "reject_finish invalid_completion"
    length = run.limits.error_streak
    last = [seen for seen in run.all if seen.claims_done]
    stalled = length is not None and len(last) >= length
    if level != "A" and stalled and all(seen.verified is None for seen in last[-(length or 1) :]):
        return "stop stalled_verifier"
    return "continue"


ROWS: dict[str, list[Callable[[Run], str | None]]] = {
    "A": [row_horizon],
    "B": [row_horizon, row_steps, row_p],
    "C": [row_horizon, row_steps, row_p, row_n],
    "D": [row_horizon, row_steps, row_p, row_r, row_e, row_c, row_w],
    "E": [row_horizon, row_steps, row_p, row_r, row_e, row_c, row_w],
}
DETECTORS = [row_p, row_r, row_e, row_c, row_w]


class NaiveController:
    """A level that remembers observations only; `name` is A, B, C, D or E."""

    def __init__(self, name: str) -> None:
        self.name = name
        self.limits = Limits()
        self.seen: list[Observation] = []
        self.answers: list[Decision] = []

    def start(self, limits: Limits) -> None:
        """Begin a new run."""
        self.limits, self.seen, self.answers = limits, [], []

    def observe(self, observation: Observation) -> Decision:
        """Return the decision for this observation, from the whole run."""
        for turn in sorted({seen.turn for seen in self.seen}):
            pairs = zip(self.seen, self.answers, strict=True)
            highest = min((answer for seen, answer in pairs if seen.turn == turn), key=rank)
            if highest.decision == "stop" and observation.turn > turn:
                return highest
        self.seen.append(with_fingerprints(observation, self.limits))
        self.answers.append(self.decide())
        return self.answers[-1]

    def decide(self) -> Decision:
        """Return the decision for the last observation."""
        if self.name != "E":
            return decide(self.name, self.limits, self.seen)
        begun = self.begun()
        turn = max((turn for turn, _ in begun), default=0)
        said = decide("E", self.limits, self.seen, since=turn)
        if said.decision != "stop" or said.reason not in ORDERS:
            return said
        recoveries = [recovery for _, recovery in begun]
        strategy = next_strategy(said.reason, recoveries, self.limits)
        if strategy is None:
            return said
        return Decision(decision="recover", reason=said.reason, strategy=strategy)

    def begun(self) -> list[tuple[int, Decision]]:
        """Return the turns before the current one that ended in a recovery, each with that."""
        before: dict[int, list[Decision]] = {}
        for seen, answer in zip(self.seen, self.answers, strict=False):
            if seen.turn < self.seen[-1].turn:
                before.setdefault(seen.turn, []).append(answer)
        decisions = [(turn, min(answers, key=rank)) for turn, answers in before.items()]
        return [(turn, said) for turn, said in decisions if said.decision == "recover"]


def rank(decision: Decision) -> int:
    """Return the place of a decision in the order of precedence, 0 for the highest."""
    kind = decision.decision.replace("recover", "stop")
    return HIGHEST_FIRST.index(" ".join(filter(None, (kind, decision.reason))))


def decide(level: str, limits: Limits, seen: list[Observation], since: int = 0) -> Decision:
    """Return what a level says of the last of these observations, apart from earlier stops.

    Arguments:
        since: the turn after which detectors look; 0 for the whole run.
    """
    run = Run(limits, seen)
    recent = Run(limits, [each for each in seen if each.turn > since])
    # Whether a refusal is the same answer again is a fact of the whole run.
    recent.refusals = run.refusals
    answers = [gate_answer(level, run)]
    for row in ROWS[level]:
        reason = row(recent if row in DETECTORS else run)
        answers += [] if reason is None else [f"stop {reason}"]
    if level != "A":
        answers += [f"stop {reason}" for reason in rows_budgets(run)]
    kind, _, reason = min(answers, key=HIGHEST_FIRST.index).partition(" ")
    return msgspec.convert({"decision": kind, "reason": reason or None}, Decision)
