"""What is reserved and charged: one vector for all budgets, so that none is forgotten in a sum.

Theory of operation: a reservation, a charge, a carved budget and a total are all `Amounts`. Which
bound of the policy holds which member is a table, in no order of its own: the release's precedence
orders what it finds.

Source: spec runtime, section 2; spec evaluator, section 4.
"""

from __future__ import annotations

import msgspec

from loopcore.canonical import INTEGER_MAX
from loopcore.models import ActionKind, Count, Policy, Terminal
from loopcore.terminals import EXTENDED, PRECEDENCE, USAGE_RULES


class Amounts(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Steps, calls, repairs, microunits and tokens."""

    steps: Count = 0
    model_calls: Count = 0
    tool_calls: Count = 0
    repairs: Count = 0
    cost_microunits: Count = 0
    input_tokens: Count = 0
    output_tokens: Count = 0

    def plus(self, other: Amounts) -> Amounts:
        """Return the sum, each member at most the largest integer that travels."""
        return Amounts(
            steps=min(INTEGER_MAX, self.steps + other.steps),
            model_calls=min(INTEGER_MAX, self.model_calls + other.model_calls),
            tool_calls=min(INTEGER_MAX, self.tool_calls + other.tool_calls),
            repairs=min(INTEGER_MAX, self.repairs + other.repairs),
            cost_microunits=min(INTEGER_MAX, self.cost_microunits + other.cost_microunits),
            input_tokens=min(INTEGER_MAX, self.input_tokens + other.input_tokens),
            output_tokens=min(INTEGER_MAX, self.output_tokens + other.output_tokens),
        )

    def minus(self, other: Amounts) -> Amounts:
        """Return the difference, each member at least zero."""
        return Amounts(
            steps=max(0, self.steps - other.steps),
            model_calls=max(0, self.model_calls - other.model_calls),
            tool_calls=max(0, self.tool_calls - other.tool_calls),
            repairs=max(0, self.repairs - other.repairs),
            cost_microunits=max(0, self.cost_microunits - other.cost_microunits),
            input_tokens=max(0, self.input_tokens - other.input_tokens),
            output_tokens=max(0, self.output_tokens - other.output_tokens),
        )

    def at_least(self, other: Amounts) -> Amounts:
        """Return the larger of each member."""
        return other.plus(self.minus(other))

    def value(self, member: str) -> int:
        """Return the member of this name."""
        found: int = getattr(self, member)
        return found


NOTHING = Amounts()
MEMBERS: tuple[str, ...] = Amounts.__struct_fields__


class Measured(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """What a call reports of its own usage; None where it reports nothing, which is not zero."""

    cost_microunits: Count | None = None
    input_tokens: Count | None = None
    output_tokens: Count | None = None


UNMEASURED = Measured()


class Bound(msgspec.Struct, frozen=True):
    """One budget: its terminal, the member that it holds, and the policy's field."""

    terminal: Terminal
    member: str
    field: str


BOUNDS: tuple[Bound, ...] = (
    Bound("step_budget_exhausted", "steps", "max_steps"),
    Bound("model_budget_exhausted", "model_calls", "max_model_calls"),
    Bound("tool_budget_exhausted", "tool_calls", "max_tool_calls"),
    Bound("repair_budget_exhausted", "repairs", "max_repairs"),
    Bound("cost_budget_exhausted", "cost_microunits", "max_cost_microunits"),
    Bound("input_token_budget_exhausted", "input_tokens", "max_input_tokens"),
    Bound("output_token_budget_exhausted", "output_tokens", "max_output_tokens"),
)


def calls_of(kind: ActionKind, *, by_model: bool = False) -> Amounts:
    """Return the step and the calls that one action of a kind takes.

    Arguments:
        by_model: of a repair: whether a model makes it.
    """
    model_calls, tool_calls, repairs = USAGE_RULES[EXTENDED][kind][-1 if by_model else 0]
    return Amounts(steps=1, model_calls=model_calls, tool_calls=tool_calls, repairs=repairs)


def exceeded(policy: Policy, total: Amounts, at_unix_ms: int) -> tuple[Terminal, ...]:
    """Return every budget that a total is over, and the deadline when reached, in precedence.

    Source: spec evaluator, section 4: a bound may be used up; the deadline may not be reached.
    """
    over: set[Terminal] = set()
    if at_unix_ms >= policy.deadline_unix_ms:
        over.add("deadline_exceeded")
    for bound in BOUNDS:
        limit: int | None = getattr(policy, bound.field)
        if limit is not None and total.value(bound.member) > limit:
            over.add(bound.terminal)
    if not over:
        return ()
    return tuple(name for name in PRECEDENCE[policy.evaluator_release] if name in over)
