"""The run's counters and streaks, and the terminal that a next step would reach.

Theory of operation: `judge` tests every rule on the step that would come next and changes nothing,
so that a decision may be discarded when its append is refused; `advance` takes the step in when
its event is folded. Order is the release's table alone. This is a second statement of the
evaluator's rules on purpose: agreement of the two is what `loopcore.runtime.projection` checks.

Source: spec evaluator, sections 3 and 4; spec runtime, sections 2 and 8.
"""

from __future__ import annotations

from collections import deque
from copy import deepcopy
from typing import NamedTuple

from loopcore.evaluator import CycleDetector
from loopcore.models import ActionKind, Outcome, Policy, Terminal, Usage
from loopcore.runtime.amounts import NOTHING, Amounts, exceeded
from loopcore.terminals import PRECEDENCE

# The longest cycle and the most repetitions that a policy may name.
PAIRS_MAX = 16 * 8


class Taken(NamedTuple):
    """One step as its events tell it."""

    kind: ActionKind
    action_sha256: str
    outcome: Outcome
    state_after: str
    evidence: tuple[str, ...]
    proof: str | None
    at_unix_ms: int
    charged: Amounts


class Verdict(NamedTuple):
    """What a step does to a run: its terminal or None, and all rules that fired."""

    terminal: Terminal | None
    violations: tuple[Terminal, ...]
    progress: bool


class _Next(NamedTuple):
    total: Amounts
    fresh: int
    idle: int
    same: int
    progress: bool
    proven: bool


class Progress:
    """Totals, streaks and detector memory of one run."""

    __slots__ = (
        "_cycles", "at_unix_ms", "idle", "last_action", "pairs", "policy", "same", "seen",
        "state_sha256", "total", "verified_progress_steps",
    )  # fmt: skip

    def __init__(self, policy: Policy) -> None:
        self.policy = policy
        self.total = NOTHING
        self.idle = 0
        self.same = 0
        self.last_action: str | None = None
        self.verified_progress_steps = 0
        self.seen: set[str] = set()
        self.state_sha256: str = policy.initial_state_sha256
        self.at_unix_ms = policy.started_at_unix_ms
        self.pairs: deque[tuple[str, str]] = deque(maxlen=PAIRS_MAX)
        self._cycles = _detector(policy)

    def copy(self) -> Progress:
        """Return counters that move on their own."""
        twin = Progress(self.policy)
        for name in ("total", "idle", "same", "last_action", "verified_progress_steps",
                     "state_sha256", "at_unix_ms"):  # fmt: skip
            setattr(twin, name, getattr(self, name))
        twin.seen = set(self.seen)
        twin.pairs = deque(self.pairs, maxlen=PAIRS_MAX)
        twin._cycles = deepcopy(self._cycles)
        return twin

    def continue_under(self, policy: Policy) -> None:
        """Go on under another policy with every counter, streak and pair kept."""
        self.policy = policy
        self._cycles = _detector(policy)
        if self._cycles is not None:
            for pair in self.pairs:
                self._cycles.observe(pair)

    def _next(self, step: Taken) -> _Next:
        fresh = sum(1 for receipt in step.evidence if receipt not in self.seen)
        succeeded = step.outcome == "succeeded"
        proven = (
            step.proof is not None
            and succeeded
            and step.proof in step.evidence
            and step.proof not in self.seen
        )
        progress, idle, same = False, self.idle, self.same
        if step.kind != "wait":
            progress = succeeded and fresh > 0 and step.state_after != self.state_sha256
            idle = 0 if progress else idle + 1
            same = same + 1 if step.action_sha256 == self.last_action else 1
        return _Next(self.total.plus(step.charged), fresh, idle, same, progress, proven)

    def _verdict(self, step: Taken, after: _Next, cycle: bool) -> Verdict:
        policy = self.policy
        fired = set(exceeded(policy, after.total, step.at_unix_ms))
        evidence_max = policy.max_evidence_receipts
        if evidence_max is not None and len(self.seen) + after.fresh > evidence_max:
            fired.add("evidence_budget_exhausted")
        if step.outcome == "indeterminate":
            fired.add("indeterminate_effect")
        if after.proven:
            fired.add("completed")
        elif step.kind == "finish":
            fired.add("invalid_completion")
        if after.same >= policy.max_consecutive_repeated_actions:
            fired.add("repeated_action")
        if cycle:
            fired.add("nonproductive_cycle")
        if after.idle >= policy.max_consecutive_no_progress:
            fired.add("no_progress")
        ordered: list[Terminal] = [
            name for name in PRECEDENCE[policy.evaluator_release] if name in fired
        ]
        terminal = ordered[0] if ordered else None
        return Verdict(
            terminal, tuple(name for name in ordered if name != "completed"), after.progress
        )

    def judge(self, step: Taken) -> Verdict:
        """Return what the step would do; nothing has changed."""
        cycle = False
        if self._cycles is not None and step.kind != "wait":
            cycle = deepcopy(self._cycles).observe((step.action_sha256, step.state_after))
        return self._verdict(step, self._next(step), cycle)

    def advance(self, step: Taken) -> Verdict:
        """Take the step in and return what it did."""
        after = self._next(step)
        cycle = False
        if step.kind != "wait":
            pair = (step.action_sha256, step.state_after)
            self.pairs.append(pair)
            if self._cycles is not None:
                cycle = self._cycles.observe(pair)
            self.last_action = step.action_sha256
        verdict = self._verdict(step, after, cycle)
        self.total, self.idle, self.same = after.total, after.idle, after.same
        self.verified_progress_steps += after.progress
        self.seen.update(step.evidence)
        self.state_sha256 = step.state_after
        self.at_unix_ms = step.at_unix_ms
        return verdict

    def usage(self) -> Usage:
        """Return the totals as a receipt has them."""
        total = self.total
        return Usage(
            steps=total.steps,
            model_calls=total.model_calls,
            tool_calls=total.tool_calls,
            repairs=total.repairs,
            cost_microunits=total.cost_microunits,
            input_tokens=total.input_tokens,
            output_tokens=total.output_tokens,
            evidence_receipts=len(self.seen),
        )


def _detector(policy: Policy) -> CycleDetector | None:
    if policy.max_cycle_length is None or policy.cycle_repeats is None:
        return None
    return CycleDetector(policy.max_cycle_length, policy.cycle_repeats)
