"""The reference evaluator over many traces at once: equal to the scalar one on every trace.

Theory of operation: the three movements of `loopcore.evaluator.Run.decide`, a step of all traces at
a time: is the step well formed, move the counters, test every rule on its own. Budgets are kept as
what is left of them. Each check and each rule is an array of booleans; only for the traces in which
one of them holds is the order asked: of the checks the first of `STEP_ERRORS`, of the rules the
first of the release's table. A trace that is decided is still counted on, and nobody looks at it.

What depends on the evidence is computed before (`loopcore.batch.evidence`) or given. Cycles cost
only where a policy asks for them. `malformed` and `invalid_policy` are the decoder's to find:
columns are made of decoded traces.

Source: spec evaluator, sections 2 to 4.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TypeAlias, cast

import numpy as np

from loopcore.batch.columns import UNKNOWN, Booleans, Int8s, Int32s, Int64s
from loopcore.batch.evidence import Evidence, evidence_of
from loopcore.batch.pair_cycles import PairCycles
from loopcore.batch.state import choose, counters
from loopcore.batch.traces import KINDS, OUTCOMES, Integers, PolicyColumns, TraceColumns
from loopcore.canonical import INTEGER_MAX
from loopcore.models import Terminal
from loopcore.terminals import EXTENDED, PRECEDENCE, REFERENCE, STEP_ERRORS

MODEL, TOOL, REPAIR, FINISH, WAIT = (
    KINDS.index(kind) for kind in ("model_generation", "tool_call", "repair", "finish", "wait")
)
SUCCEEDED, INDETERMINATE = OUTCOMES.index("succeeded"), OUTCOMES.index("indeterminate")

# Index 0, then the codes in the order in which a step is checked.
ERRORS: tuple[str, ...] = ("none", *(code for code, _ in STEP_ERRORS))
# Index 0: an error came before any terminal.
TERMINALS: tuple[str, ...] = ("none", *PRECEDENCE[EXTENDED])
_POST_TERMINAL = ERRORS.index("post_terminal_step")
_INPUT_EXHAUSTED = TERMINALS.index("input_exhausted")

# The checks after `post_terminal_step`, in their order.
_CHECKS = ERRORS[2:]
# Each rule's terminal, in the order in which `_Group.rules` gives them; no precedence.
_RULES: tuple[Terminal, ...] = (
    "deadline_exceeded",
    "step_budget_exhausted",
    "model_budget_exhausted",
    "tool_budget_exhausted",
    "repair_budget_exhausted",
    "cost_budget_exhausted",
    "input_token_budget_exhausted",
    "output_token_budget_exhausted",
    "evidence_budget_exhausted",
    "indeterminate_effect",
    "completed",
    "invalid_completion",
    "repeated_action",
    "nonproductive_cycle",
    "no_progress",
)
# The place of each rule in the tables of the two releases; one that a table lacks comes last.
_PLACES: Int64s = np.array(
    [
        [
            PRECEDENCE[release].index(rule) if rule in PRECEDENCE[release] else len(_RULES)
            for rule in _RULES
        ]
        for release in (REFERENCE, EXTENDED)
    ]
)
_TERMINAL_OF: Int8s = np.array([TERMINALS.index(rule) for rule in _RULES], np.int8)

# The deltas that each bound sums, in the order of the rules.
_TOTALS = {
    "max_model_calls": "model_calls",
    "max_tool_calls": "tool_calls",
    "max_repairs": "repairs",
    "max_cost_microunits": "cost",
    "max_input_tokens": "input_tokens",
    "max_output_tokens": "output_tokens",
    "max_evidence_receipts": "fresh",
}

Span: TypeAlias = "slice[int, int, None]"

GROUP_TRACES = 32_768


@dataclass(frozen=True, slots=True, kw_only=True)
class Decisions:
    """What became of each trace, shape (traces,).

    Fields:
        terminal: index into TERMINALS. terminal_step: index of its step, UNKNOWN for
            `input_exhausted` and where an error came first.
        error: index into ERRORS, 0 for a well formed trace. error_step: UNKNOWN for none. With
            `post_terminal_step` the terminal stands beside the error.
    """

    terminal: Int8s
    terminal_step: Int32s
    error: Int8s
    error_step: Int32s


def decide(
    traces: TraceColumns, policies: PolicyColumns, evidence: Evidence | None = None
) -> Decisions:
    """Return the terminal or the error of every trace, with its step.

    Arguments:
        evidence: what `evidence_of(traces)` returns, where the caller has it already.

    Linear in steps × traces.
    """
    worth = evidence_of(traces) if evidence is None else evidence
    shape = traces.traces
    made = Decisions(
        terminal=np.full(shape, _INPUT_EXHAUSTED, np.int8),
        terminal_step=np.full(shape, UNKNOWN, np.int32),
        error=np.zeros(shape, np.int8),
        error_step=np.full(shape, UNKNOWN, np.int32),
    )
    for first in range(0, traces.traces, GROUP_TRACES):
        last = min(first + GROUP_TRACES, traces.traces)
        _Group(traces, policies, worth, slice(first, last)).decide(made)
    late = (made.terminal_step != UNKNOWN) & (traces.lengths > made.terminal_step + 1)
    made.error[late] = _POST_TERMINAL
    made.error_step[late] = made.terminal_step[late] + 1
    return made


class _Total:
    """What is left of one bound in each trace, where the deltas can exceed it at all."""

    def __init__(self, bound: Int64s, deltas: Integers | Int8s) -> None:
        """Begin with the whole bound; `deltas`: shape (steps, traces)."""
        self._deltas = cast("Int64s", deltas)
        used_max = int(deltas.max(initial=0)) * len(deltas)
        self.is_reachable = used_max > int(bound.min(initial=INTEGER_MAX))
        kind = next((kind for kind in (np.int16, np.int32) if used_max < np.iinfo(kind).max), None)
        # A total that fits fewer bytes exceeds neither 2^53-1 nor the largest bound that fits.
        self._least: Int64s | None = bound - INTEGER_MAX if kind is None else None
        if kind is None:
            self._left = bound.copy()
        else:
            narrow = np.minimum(bound, np.iinfo(kind).max).astype(kind)
            self._left = cast("Int64s", narrow)

    def use(self, step: int, exceeded: Booleans, overflown: Booleans) -> None:
        """Take a step; tell where the bound is exceeded, and add where 2^53-1 is."""
        self._left -= self._deltas[step]
        np.less(self._left, 0, out=exceeded)
        if self._least is not None:
            overflown |= self._left < self._least


class _Group:
    """The traces from `first` up to `last`, decided together."""

    def __init__(
        self, traces: TraceColumns, policies: PolicyColumns, evidence: Evidence, span: Span
    ) -> None:
        count = policies.extended[span].size
        self._traces, self._evidence, self._span = traces, evidence, span
        self._extended = policies.extended[span]
        self._deadline = policies.deadline_ms[span]
        if traces.elapsed_ms.dtype != np.int64:
            # No time reaches the largest value of a narrow column.
            most = np.iinfo(traces.elapsed_ms.dtype).max
            narrow = np.minimum(self._deadline, most).astype(traces.elapsed_ms.dtype)
            self._deadline = cast("Int64s", narrow)
        totals = {
            rule: _Total(policies.bound(bound)[span], _column(traces, evidence, bound)[:, span])
            for rule, bound in enumerate(_TOTALS, start=_RULES.index("model_budget_exhausted"))
        }
        self._totals = [(rule, total) for rule, total in totals.items() if total.is_reachable]
        self._idle = counters(traces.steps, count)
        self._same = counters(traces.steps, count)
        most = traces.steps + 1
        self._steps_max, self._same_max, self._idle_max = (
            cast("Int32s", np.minimum(policies.bound(name)[span], most).astype(self._idle.dtype))
            for name in (
                "max_steps",
                "max_consecutive_repeated_actions",
                "max_consecutive_no_progress",
            )
        )
        self._steps_least = int(self._steps_max.min(initial=most))
        self._last_action = cast("Int32s", np.full(count, UNKNOWN, traces.action.dtype))
        self._elapsed = cast("Int64s", np.zeros(count, traces.elapsed_ms.dtype))
        self._state = cast("Int32s", np.zeros(count, traces.after.dtype))
        self._cycles: PairCycles | None = None
        if policies.cycle_length[span].any():
            self._cycles = PairCycles(
                traces.action[:, span],
                traces.after[:, span],
                policies.cycle_length[span],
                policies.cycle_repeats[span],
            )
        # Where the current step waits and where it is a finish; None for nowhere.
        self._waits: Booleans | None = None
        self._finish: Booleans | None = None
        # What holds in the current step: shape (checks, traces) and (rules, traces).
        self._wrong: Booleans = np.zeros((len(_CHECKS), count), np.bool_)
        self._fired: Booleans = np.zeros((len(_RULES), count), np.bool_)

    def decide(self, made: Decisions) -> None:
        """Write what becomes of the group's traces."""
        lengths = self._traces.lengths[self._span]
        shortest, first = int(lengths.min()), self._span.start
        undecided: Booleans = np.ones(lengths.size, np.bool_)
        for step in range(self._traces.steps):
            if step >= shortest:
                undecided &= lengths > step
            self._check(step)
            self._rule(step)
            hit = cast("Booleans", self._wrong.any(axis=0) | self._fired.any(axis=0))
            hit &= undecided
            if hit.any():
                self._settle(np.flatnonzero(hit), first, step, made)
                undecided ^= hit
                if not undecided.any():
                    return

    def _check(self, step: int) -> None:
        """Fill in which checks find the step not well formed, and move the totals."""
        traces, span, wrong = self._traces, self._span, self._wrong
        kind, elapsed = traces.kind[step, span], cast("Int64s", traces.elapsed_ms[step, span])
        before, proof = traces.before[step, span], traces.proof[step, span]
        np.not_equal(traces.sequence[step, span], step + 1, out=wrong[0])
        np.less(elapsed, self._elapsed, out=wrong[1])
        np.not_equal(before, self._state, out=wrong[2])
        wrong[3] = self._evidence.duplicate[step, span]
        waits: Booleans = kind == WAIT
        # Most steps have no wait in any trace, and then need less.
        self._waits = waits if waits.any() else None
        if self._waits is None:
            wrong[4].fill(False)
        else:
            np.greater(waits, self._extended, out=wrong[4])
        self._check_usage(step, kind)
        finish: Booleans = kind == FINISH
        self._finish = finish if finish.any() else None
        np.not_equal(proof, UNKNOWN, out=wrong[6])
        if self._finish is not None:
            wrong[6] &= ~self._finish
        overflown = wrong[7]
        overflown.fill(False)
        for rule, total in self._totals:
            total.use(step, self._fired[rule], overflown)

    def _check_usage(self, step: int, kind: Int8s) -> None:
        """Fill in where deltas do not fit the kind, or tokens stand without a model call.

        Booleans are compared with the deltas as what they are in memory, 0 and 1.
        """
        traces, span, wrong = self._traces, self._span, self._wrong[5]
        model, tool = traces.model_calls[step, span], traces.tool_calls[step, span]
        repair = (kind == REPAIR).view(np.int8)
        np.not_equal(traces.repairs[step, span], repair, out=wrong)
        uses_tool: Booleans = kind == TOOL
        if self._waits is not None:
            uses_tool |= self._waits
        wrong |= tool != uses_tool.view(np.int8)
        # What differs from the kind's own number of model calls; a repair may have one.
        wrong |= (model ^ (kind == MODEL).view(np.int8)) > repair
        tokens = traces.input_tokens[step, span] | traces.output_tokens[step, span]
        wrong |= (tokens != 0) & (model == 0)

    def _rule(self, step: int) -> None:
        """Move the counters and fill in which rules fire."""
        traces, span, fired = self._traces, self._span, self._fired
        outcome, after = traces.outcome[step, span], cast("Int32s", traces.after[step, span])
        elapsed = cast("Int64s", traces.elapsed_ms[step, span])
        succeeded: Booleans = outcome == SUCCEEDED
        progress = succeeded & (self._evidence.fresh[step, span] != 0)
        progress &= self._state != after
        self._count(cast("Int32s", traces.action[step, span]), progress)
        np.greater_equal(elapsed, self._deadline, out=fired[0])
        if step >= self._steps_least:
            np.less_equal(self._steps_max, step, out=fired[1])
        np.equal(outcome, INDETERMINATE, out=fired[9])
        if self._finish is None:
            fired[10:12].fill(False)
        else:
            np.logical_and(self._evidence.proven[step, span], succeeded, out=fired[10])
            np.greater(self._finish, fired[10], out=fired[11])
        np.greater_equal(self._same, self._same_max, out=fired[12])
        if self._cycles is not None:
            fired[13] = self._cycles.update(step, self._waits)
        np.greater_equal(self._idle, self._idle_max, out=fired[14])
        self._elapsed, self._state = elapsed, after

    def _count(self, action: Int32s, progress: Booleans) -> None:
        """Move `idle`, `same` and the last action, which a wait leaves as they were."""
        if self._waits is None:
            self._idle += 1
            self._idle *= ~progress
            self._same *= action == self._last_action
            self._same += 1
            self._last_action = action
            return
        active = ~self._waits
        self._idle += active
        self._idle *= ~(progress & active)
        self._same *= (action == self._last_action) | self._waits
        self._same += active
        # The last action may be a row of the columns, which stays as it is.
        self._last_action = self._last_action.copy()
        choose(self._last_action, action, active)

    def _settle(self, hit: Int64s, first: int, step: int, made: Decisions) -> None:
        """Write what the checks and the rules that hold come to, for the traces `hit`."""
        wrong = self._wrong[:, hit]
        failed = cast("Booleans", wrong.any(axis=0))
        spoiled, ended = first + hit[failed], first + hit[~failed]
        made.error[spoiled] = wrong.argmax(axis=0)[failed] + ERRORS.index(_CHECKS[0])
        made.error_step[spoiled] = step
        made.terminal[spoiled] = 0
        fired = self._fired[:, hit[~failed]]
        places = _PLACES[self._extended[hit[~failed]].astype(np.int8)].T
        winner = np.where(fired, places, len(_RULES) + 1).argmin(axis=0)
        made.terminal[ended] = _TERMINAL_OF[winner]
        made.terminal_step[ended] = step


def _column(traces: TraceColumns, evidence: Evidence, bound: str) -> Int64s:
    """Return the deltas that a bound sums."""
    source = evidence if bound == "max_evidence_receipts" else traces
    return cast("Int64s", getattr(source, _TOTALS[bound]))
