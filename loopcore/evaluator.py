"""The minimal reference evaluator: (policy, steps) -> receipt, with no clock, I/O or randomness.

Theory of operation: `Run.decide` first refuses a step that is not well formed, then moves the
counters, then tests every rule *independently* and lets the release's table pick the winner. Rules
never look at each other, and their order stands only in `loopcore.terminals.PRECEDENCE`.

    run = start(policy)
    for step in steps:
        run.advance(step)          # the terminal that this step reached, or None
    receipt = run.finish()

`evaluate` is the same code, with one digest over all steps instead of one update a step. A refused
step changes nothing: the run stands where the step before left it.

Values must come from `loopcore.decoding`; here they are trusted to be in range.

Source: spec evaluator, sections 2 to 5.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Sequence
from hashlib import sha256

import msgspec

from loopcore.canonical import INTEGER_MAX, canonical, digest
from loopcore.errors import InputError
from loopcore.models import Policy, Receipt, Step, Terminal, Usage
from loopcore.terminals import ERROR_CODES, PRECEDENCE, USAGE_RULES

# A bound that no total can exceed, since totals end at INTEGER_MAX.
_UNBOUNDED = INTEGER_MAX + 1

# Each rule's terminal, in the order in which `Run.decide` tests the rules; no precedence.
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
_NONE_FIRED = (False,) * len(_RULES)


class CycleDetector:
    """Tells whether the last pairs of (action, state after) repeat with some period of 2 or more.

    Holds the last `length_max` pairs and one streak a period: how many pairs in a row equal the
    pair one period earlier. Time and memory a step are bounded by `length_max`.

    Source: spec evaluator, section 3, *cycle*.
    """

    __slots__ = ("_equal", "_length_max", "_repeats", "_streaks", "_window")

    def __init__(self, length_max: int, repeats: int) -> None:
        self._length_max = length_max
        self._repeats = repeats
        self._window: deque[tuple[str, str]] = deque(maxlen=length_max)
        self._streaks = [0] * (length_max + 1)
        self._equal = 0

    def observe(self, pair: tuple[str, str]) -> bool:
        """Take in the next pair; return whether a cycle ends at it."""
        window, streaks = self._window, self._streaks
        self._equal = self._equal + 1 if window and window[-1] == pair else 1
        found = False
        for length in range(2, min(self._length_max, len(window)) + 1):
            if window[-length] == pair:
                streaks[length] += 1
                if streaks[length] >= length * (self._repeats - 1) and self._equal < length:
                    found = True
            else:
                streaks[length] = 0
        window.append(pair)
        return found


class Run:
    """An evaluation in progress under one policy; made by `start`."""

    __slots__ = (
        "_cost", "_cycles", "_ended_at", "_evidence_max", "_hasher", "_idle", "_input_tokens",
        "_input_tokens_max", "_last_action", "_model_calls", "_output_tokens",
        "_output_tokens_max", "_progress", "_proof", "_repairs", "_same", "_seen", "_state",
        "_steps", "_tool_calls", "_usage_rules", "policy", "terminal", "violations",
    )  # fmt: skip

    def __init__(self, policy: Policy) -> None:
        self.policy = policy
        self.terminal: Terminal | None = None
        self.violations: tuple[Terminal, ...] = ()
        self._usage_rules = USAGE_RULES[policy.evaluator_release]
        self._input_tokens_max = _bound(policy.max_input_tokens)
        self._output_tokens_max = _bound(policy.max_output_tokens)
        self._evidence_max = _bound(policy.max_evidence_receipts)
        self._cycles: CycleDetector | None = None
        if policy.max_cycle_length is not None and policy.cycle_repeats is not None:
            self._cycles = CycleDetector(policy.max_cycle_length, policy.cycle_repeats)
        self._steps = self._model_calls = self._tool_calls = self._repairs = self._cost = 0
        self._input_tokens = self._output_tokens = self._progress = self._same = self._idle = 0
        self._seen: set[str] = set()
        self._state: str = policy.initial_state_sha256
        self._ended_at = policy.started_at_unix_ms
        self._last_action: str | None = None
        self._proof: str | None = None
        self._hasher = sha256(b"[")

    def advance(self, step: Step, encoded: bytes | None = None) -> Terminal | None:
        """Take one more step; return the terminal that it reached, or None.

        Arguments:
            encoded: the step's canonical bytes, where the caller has them already.

        Raises InputError with a step code when the step is not well formed; nothing has changed.
        """
        terminal = self.decide(step)
        if self._steps > 1:
            self._hasher.update(b",")
        self._hasher.update(canonical(step) if encoded is None else encoded)
        return terminal

    def decide(self, step: Step) -> Terminal | None:  # noqa: PLR0915 one hot path, in order
        """Do as `advance` does, but leave the step out of the digest that `finish` makes."""
        kind = step.action_kind
        evidence = step.new_evidence_receipt_sha256
        if self.terminal is not None:
            raise self._refusal("post_terminal_step", step)
        if step.sequence != self._steps + 1:
            raise self._refusal("sequence_gap", step)
        completed_at = step.completed_at_unix_ms
        if completed_at < self._ended_at:
            raise self._refusal("time_regression", step)
        if step.state_before_sha256 != self._state:
            raise self._refusal("state_chain_broken", step)
        if len(evidence) > 1 and len(set(evidence)) != len(evidence):
            raise self._refusal("duplicate_evidence", step)
        usage_rule = self._usage_rules.get(kind)
        if usage_rule is None:
            raise self._refusal("unsupported_kind", step)
        deltas = (step.model_calls_delta, step.tool_calls_delta, step.repairs_delta)
        tokens = step.input_tokens_delta or step.output_tokens_delta
        if deltas not in usage_rule or (tokens and not step.model_calls_delta):
            raise self._refusal("usage_mismatch", step)
        proof = step.completion_receipt_sha256
        if proof is not None and kind != "finish":
            raise self._refusal("unexpected_completion_receipt", step)
        cost = self._cost + step.cost_microunits_delta
        input_tokens = self._input_tokens + step.input_tokens_delta
        output_tokens = self._output_tokens + step.output_tokens_delta
        if cost > INTEGER_MAX or input_tokens > INTEGER_MAX or output_tokens > INTEGER_MAX:
            raise self._refusal("usage_overflow", step)

        self._steps = steps = self._steps + 1
        self._model_calls = model_calls = self._model_calls + step.model_calls_delta
        self._tool_calls = tool_calls = self._tool_calls + step.tool_calls_delta
        self._repairs = repairs = self._repairs + step.repairs_delta
        self._cost = cost
        self._input_tokens = input_tokens
        self._output_tokens = output_tokens
        seen = self._seen
        proven = finish = kind == "finish"
        if finish:
            succeeded = step.outcome == "succeeded"
            proven = succeeded and proof is not None and proof in evidence and proof not in seen
        known = len(seen)
        seen.update(evidence)
        state = step.state_after_sha256
        cycle = False
        if kind != "wait":
            if step.outcome == "succeeded" and state != self._state and len(seen) > known:
                self._progress += 1
                self._idle = 0
            else:
                self._idle += 1
            self._same = self._same + 1 if step.action_sha256 == self._last_action else 1
            self._last_action = step.action_sha256
            if self._cycles is not None:
                cycle = self._cycles.observe((step.action_sha256, state))
        self._state = state
        self._ended_at = completed_at

        policy = self.policy
        fired = (
            completed_at >= policy.deadline_unix_ms,
            steps > policy.max_steps,
            model_calls > policy.max_model_calls,
            tool_calls > policy.max_tool_calls,
            repairs > policy.max_repairs,
            cost > policy.max_cost_microunits,
            input_tokens > self._input_tokens_max,
            output_tokens > self._output_tokens_max,
            len(seen) > self._evidence_max,
            step.outcome == "indeterminate",
            proven,
            finish and not proven,
            self._same >= policy.max_consecutive_repeated_actions,
            cycle,
            self._idle >= policy.max_consecutive_no_progress,
        )
        if fired != _NONE_FIRED:
            self._end([name for name, hit in zip(_RULES, fired, strict=True) if hit], proof)
        return self.terminal

    def _end(self, fired: list[Terminal], proof: str | None) -> None:
        """Let the release's table order the rules that fired; the first one is the terminal."""
        table = PRECEDENCE[self.policy.evaluator_release]
        ordered: list[Terminal] = [name for name in table if name in fired]
        self.terminal = ordered[0]
        self.violations = tuple(name for name in ordered if name != "completed")
        self._proof = proof if self.terminal == "completed" else None

    def finish(self, steps_sha256: str | None = None) -> Receipt:
        """Return the receipt of the steps taken so far; the run may still go on afterwards.

        Arguments:
            steps_sha256: digest of the array of steps, for steps that went through `decide`.
        """
        if steps_sha256 is None:
            hasher = self._hasher.copy()
            hasher.update(b"]")
            steps_sha256 = hasher.hexdigest()
        unsigned = Receipt(
            schema="loopcore/receipt/1",
            evaluator_release=self.policy.evaluator_release,
            policy_sha256=digest(self.policy),
            steps_sha256=steps_sha256,
            terminal=self.terminal or "input_exhausted",
            terminal_sequence=None if self.terminal is None else self._steps,
            violations=("input_exhausted",) if self.terminal is None else self.violations,
            usage=Usage(
                steps=self._steps,
                model_calls=self._model_calls,
                tool_calls=self._tool_calls,
                repairs=self._repairs,
                cost_microunits=self._cost,
                input_tokens=self._input_tokens,
                output_tokens=self._output_tokens,
                evidence_receipts=len(self._seen),
            ),
            verified_progress_steps=self._progress,
            final_state_sha256=self._state,
            completion_receipt_sha256=self._proof,
            started_at_unix_ms=self.policy.started_at_unix_ms,
            ended_at_unix_ms=self._ended_at,
            receipt_sha256="",
        )
        return msgspec.structs.replace(unsigned, receipt_sha256=receipt_digest(unsigned))

    def _refusal(self, code: str, step: Step) -> InputError:
        """Return the error of a step that is not well formed; the run stands as before it."""
        late = code == "post_terminal_step"
        return InputError(
            code,
            f"step {self._steps} (sequence {step.sequence}): {ERROR_CODES[code]}.",
            step=self._steps,
            terminal=self.terminal if late else None,
            terminal_sequence=self._steps if late else None,
        )


def receipt_digest(receipt: Receipt) -> str:
    """Return the digest of a receipt without its field `receipt_sha256`."""
    body = msgspec.structs.asdict(receipt)
    del body["receipt_sha256"]
    return digest(body)


def start(policy: Policy) -> Run:
    """Return a run with no steps under a decoded policy."""
    return Run(policy)


def evaluate(policy: Policy, steps: Sequence[Step], *, steps_sha256: str | None = None) -> Receipt:
    """Return the receipt of a whole trace.

    Arguments:
        policy, steps: decoded values.
        steps_sha256: digest of the array of steps, where the caller has its bytes already.

    Raises InputError with the code and index of the first step that is not well formed.
    """
    run = Run(policy)
    decide = run.decide
    for step in steps:
        decide(step)
    return run.finish(digest(steps) if steps_sha256 is None else steps_sha256)


def _bound(value: int | None) -> int:
    return _UNBOUNDED if value is None else value
