"""The minimal reference evaluator: (policy, steps) -> receipt, with no clock, I/O or randomness.

Theory of operation: `Run.decide` takes each step in three movements: refuse it unless it is well
formed, move the counters, test every rule *independently*. The release's table then picks the
winner: rules never look at each other, and their order stands only in
`loopcore.terminals.PRECEDENCE`.

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
from collections.abc import Iterable, Sequence
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
        "_amounts", "_calls", "_cycles", "_ended_at", "_hasher", "_proof", "_seen", "_state",
        "_streaks", "policy", "terminal", "violations",
    )  # fmt: skip

    def __init__(self, policy: Policy) -> None:
        self.policy = policy
        self.terminal: Terminal | None = None
        self.violations: tuple[Terminal, ...] = ()
        self._cycles: CycleDetector | None = None
        if policy.max_cycle_length is not None and policy.cycle_repeats is not None:
            self._cycles = CycleDetector(policy.max_cycle_length, policy.cycle_repeats)
        # Steps, model calls, tool calls, repairs.
        self._calls = (0, 0, 0, 0)
        # Cost in microunits, input tokens, output tokens.
        self._amounts = (0, 0, 0)
        # Steps of verified progress, consecutive steps without, consecutive steps with one action,
        # and that action.
        self._streaks: tuple[int, int, int, str | None] = (0, 0, 0, None)
        self._seen: set[str] = set()
        self._state: str = policy.initial_state_sha256
        self._ended_at = policy.started_at_unix_ms
        self._proof: str | None = None
        self._hasher = sha256(b"[")

    def advance(self, step: Step, encoded: bytes | None = None) -> Terminal | None:
        """Take one more step; return the terminal that it reached, or None.

        Arguments:
            encoded: the step's canonical bytes, where the caller has them already.

        Raises InputError with a step code when the step is not well formed; nothing has changed.
        """
        self.decide((step,))
        if self._calls[0] > 1:
            self._hasher.update(b",")
        self._hasher.update(canonical(step) if encoded is None else encoded)
        return self.terminal

    def decide(self, new_steps: Iterable[Step]) -> None:  # noqa: PLR0912, PLR0915 one loop
        """Judge more steps, leaving them out of the digest that `finish` makes by itself.

        Raises InputError with a step code at the first step that is not well formed; the run then
        stands as after the step before it. All counters live in local variables while it goes.
        """
        policy, seen, cycles = self.policy, self._seen, self._cycles
        usage_rules = USAGE_RULES[policy.evaluator_release]
        deadline, steps_max = policy.deadline_unix_ms, policy.max_steps
        model_calls_max, tool_calls_max = policy.max_model_calls, policy.max_tool_calls
        repairs_max, cost_max = policy.max_repairs, policy.max_cost_microunits
        input_tokens_max = _bound(policy.max_input_tokens)
        output_tokens_max = _bound(policy.max_output_tokens)
        evidence_max = _bound(policy.max_evidence_receipts)
        same_max = policy.max_consecutive_repeated_actions
        idle_max = policy.max_consecutive_no_progress
        steps, model_calls, tool_calls, repairs = self._calls
        cost, input_tokens, output_tokens = self._amounts
        progress, idle, same, last_action = self._streaks
        state, ended_at, known = self._state, self._ended_at, len(seen)
        terminal, refuse, see = self.terminal, self._refusal, seen.add
        try:
            for step in new_steps:
                kind, outcome = step.action_kind, step.outcome
                evidence, proof = step.new_evidence_receipt_sha256, step.completion_receipt_sha256
                completed_at = step.completed_at_unix_ms
                # Is the step well formed? In the order of `STEP_ERRORS`.
                if terminal is not None:
                    raise refuse("post_terminal_step", steps)
                if step.sequence != steps + 1:
                    raise refuse("sequence_gap", steps)
                if completed_at < ended_at:
                    raise refuse("time_regression", steps)
                if step.state_before_sha256 != state:
                    raise refuse("state_chain_broken", steps)
                if len(evidence) > 1 and len(set(evidence)) != len(evidence):
                    raise refuse("duplicate_evidence", steps)
                if kind not in usage_rules:
                    raise refuse("unsupported_kind", steps)
                deltas = (step.model_calls_delta, step.tool_calls_delta, step.repairs_delta)
                inputs, outputs = step.input_tokens_delta, step.output_tokens_delta
                if deltas not in usage_rules[kind] or ((inputs or outputs) and not deltas[0]):
                    raise refuse("usage_mismatch", steps)
                if proof is not None and kind != "finish":
                    raise refuse("unexpected_completion_receipt", steps)
                cost_after = cost + step.cost_microunits_delta
                if (
                    cost_after > INTEGER_MAX
                    or input_tokens + inputs > INTEGER_MAX
                    or output_tokens + outputs > INTEGER_MAX
                ):
                    raise refuse("usage_overflow", steps)

                # Move the counters.
                steps += 1
                model_calls += deltas[0]
                tool_calls += deltas[1]
                repairs += deltas[2]
                cost = cost_after
                input_tokens += inputs
                output_tokens += outputs
                succeeded = outcome == "succeeded"
                proven = proof is not None and succeeded and proof in evidence and proof not in seen
                for receipt in evidence:
                    see(receipt)
                known, known_before = len(seen), known
                before, state, action = state, step.state_after_sha256, step.action_sha256
                cycle = False
                if kind != "wait":
                    if succeeded and known > known_before and state != before:
                        progress += 1
                        idle = 0
                    else:
                        idle += 1
                    same = same + 1 if action == last_action else 1
                    last_action = action
                    if cycles is not None:
                        cycle = cycles.observe((action, state))
                ended_at = completed_at

                # Test every rule on its own, in the order of `_RULES`.
                fired = (
                    completed_at >= deadline,
                    steps > steps_max,
                    model_calls > model_calls_max,
                    tool_calls > tool_calls_max,
                    repairs > repairs_max,
                    cost > cost_max,
                    input_tokens > input_tokens_max,
                    output_tokens > output_tokens_max,
                    known > evidence_max,
                    outcome == "indeterminate",
                    proven,
                    kind == "finish" and not proven,
                    same >= same_max,
                    cycle,
                    idle >= idle_max,
                )
                if fired != _NONE_FIRED:
                    terminal = self._end(fired, proof)
        finally:
            self._calls = (steps, model_calls, tool_calls, repairs)
            self._amounts = (cost, input_tokens, output_tokens)
            self._streaks = (progress, idle, same, last_action)
            self._state, self._ended_at = state, ended_at

    def _end(self, fired: tuple[bool, ...], proof: str | None) -> Terminal:
        """Let the release's table order the rules that fired; the first one is the terminal."""
        names = {name for name, hit in zip(_RULES, fired, strict=True) if hit}
        table = PRECEDENCE[self.policy.evaluator_release]
        ordered: list[Terminal] = [name for name in table if name in names]
        self.terminal = ordered[0]
        self.violations = tuple(name for name in ordered if name != "completed")
        self._proof = proof if self.terminal == "completed" else None
        return self.terminal

    def finish(self, steps_sha256: str | None = None) -> Receipt:
        """Return the receipt of the steps taken so far; the run may still go on afterwards.

        Arguments:
            steps_sha256: digest of the array of steps, for steps that went through `decide`.
        """
        if steps_sha256 is None:
            hasher = self._hasher.copy()
            hasher.update(b"]")
            steps_sha256 = hasher.hexdigest()
        steps, model_calls, tool_calls, repairs = self._calls
        cost, input_tokens, output_tokens = self._amounts
        unsigned = Receipt(
            schema="loopcore/receipt/1",
            evaluator_release=self.policy.evaluator_release,
            policy_sha256=digest(self.policy),
            steps_sha256=steps_sha256,
            terminal=self.terminal or "input_exhausted",
            terminal_sequence=None if self.terminal is None else steps,
            violations=("input_exhausted",) if self.terminal is None else self.violations,
            usage=Usage(
                steps=steps,
                model_calls=model_calls,
                tool_calls=tool_calls,
                repairs=repairs,
                cost_microunits=cost,
                input_tokens=input_tokens,
                output_tokens=output_tokens,
                evidence_receipts=len(self._seen),
            ),
            verified_progress_steps=self._streaks[0],
            final_state_sha256=self._state,
            completion_receipt_sha256=self._proof,
            started_at_unix_ms=self.policy.started_at_unix_ms,
            ended_at_unix_ms=self._ended_at,
            receipt_sha256="",
        )
        return msgspec.structs.replace(unsigned, receipt_sha256=receipt_digest(unsigned))

    def _refusal(self, code: str, index: int) -> InputError:
        """Return the error of the step at an index that is not well formed."""
        late = code == "post_terminal_step"
        return InputError(
            code,
            f"step {index}: {ERROR_CODES[code]}.",
            step=index,
            terminal=self.terminal if late else None,
            terminal_sequence=index if late else None,
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
    run.decide(steps)
    return run.finish(digest(steps) if steps_sha256 is None else steps_sha256)


def _bound(value: int | None) -> int:
    return _UNBOUNDED if value is None else value
