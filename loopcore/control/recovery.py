"""A detection first changes something that is relevant to it, so often as the budgets allow.

Theory of operation: a level answers with a rank of the table of precedence. `Recoveries` says what
that rank means for level E: the stop of a detector becomes `recover` with the next strategy of its
reason, while there is budget. It is asked for every observation and changes nothing by answering,
so all answers of one turn that have one rank are equal. Only when the turn is over, and its
decision is that recovery, does `begin` take the budgets. The level then makes its detectors anew.

A strategy is what must change before the agent goes on: the plan, the arguments, the tool, what the
agent is shown, which actions it still takes. Retrying the same thing changes nothing and is none.
Each strategy draws on the nested budget of its kind, if it has one, and on the total.

Choices:
- A recovery stands where the stop of its reason stands in the precedence. So the finish, a budget
  or the gate on any observation of the same turn ends the run, and of two detections in a turn the
  higher reason decides, whether it still has a strategy or not.
- A turn begins one recovery at most, and draws on the budgets once.
- The strategies of a reason are tried in order, round and round, from the one after its last; one
  without budget is passed over. So none is proposed twice running for one reason while another has
  budget. Where only that one is left it is proposed again: a new plan is another plan.
- Every reason has the same right to the budgets; what one spends another has not.
- Asking a person has no nested budget. A budget of null is unbounded and one of 0 is none, so with
  max_recoveries null only the step bound, the horizon and the other budgets end a run.
- After a recovery, nothing observed before it or in its turn counts for rows r, e, c, w and p.
  Sums, steps, the horizon, the refusals and the broken verifier answers of the gate go on, and a
  refusal is still compared with the last refusal of the run: it is the same answer all the same.
- A run that is restarted is observed again from its start. Its recoveries are then the same.

Source: spec control, section 2, level E; spec controllers, sections 3 and 5.
"""

from __future__ import annotations

from collections.abc import Mapping

from loopcore.control.decisions import Decision
from loopcore.control.limits import Limits
from loopcore.control.precedence import DECISIONS, PRECEDENCE

# The budget on which every recovery draws.
TOTAL = "max_recoveries"

# Every strategy, with the limit that bounds it within the total, or None.
BUDGETS: Mapping[str, str | None] = {
    "replan": "max_replans",
    "other_arguments": "max_tool_retries",
    "fallback_tool": "max_tool_retries",
    "smaller_context": "max_replans",
    "drop_satisfied": "max_replans",
    "critique": "max_critiques",
    "ask_person": None,
}
STRATEGIES: tuple[str, ...] = tuple(BUDGETS)

# What is tried for the reason of a detection, in this order.
TRIED: Mapping[str, tuple[str, ...]] = {
    # The call succeeds and nothing comes of it: its purpose may be met, else it is the wrong call.
    "repeated_action": ("drop_satisfied", "other_arguments", "replan", "ask_person"),
    # The call fails: other arguments, then another way to the same end.
    "tool_failure": ("other_arguments", "fallback_tool", "replan", "ask_person"),
    # Each step looks right and the round is wrong, which only a view of the whole can show.
    "nonproductive_cycle": ("replan", "critique", "smaller_context", "ask_person"),
    # Everything is new and nothing helps, or what is waited for does not come.
    "no_progress": ("critique", "smaller_context", "fallback_tool", "ask_person"),
}


class Recoveries:
    """Which stops become recoveries; what is left of the budgets, and the last strategies."""

    def __init__(self, limits: Limits) -> None:
        self._left: dict[str, int | None] = {
            "max_replans": limits.max_replans,
            "max_tool_retries": limits.max_tool_retries,
            "max_critiques": limits.max_critiques,
            TOTAL: limits.max_recoveries,
        }
        # The last strategy that was begun for each reason.
        self._last: dict[str, str] = {}

    def answer(self, rank: int) -> Decision:
        """Return what a rank means now; the same until a recovery begins."""
        row = PRECEDENCE[rank]
        if row.source != "detector" or row.reason is None:
            return DECISIONS[rank]
        strategy = self._next(row.reason)
        if strategy is None:
            return DECISIONS[rank]
        return Decision(decision="recover", reason=row.reason, strategy=strategy)

    def begin(self, recovery: Decision) -> None:
        """Take the budgets of a recovery, whose turn is over."""
        if recovery.reason is None or recovery.strategy is None:
            raise ValueError(f"not a recovery: {recovery}")
        self._last[recovery.reason] = recovery.strategy
        for budget in (BUDGETS[recovery.strategy], TOTAL):
            left = None if budget is None else self._left[budget]
            if budget is not None and left is not None:
                self._left[budget] = left - 1

    def _next(self, reason: str) -> str | None:
        """Return the strategy after the last one of this reason that has budget, or None."""
        tried = TRIED[reason]
        last = self._last.get(reason)
        first = 0 if last is None else tried.index(last) + 1
        for strategy in (*tried[first:], *tried[:first]):
            if self._has(BUDGETS[strategy]) and self._has(TOTAL):
                return strategy
        return None

    def _has(self, budget: str | None) -> bool:
        """Return whether something is left of a budget; None is no budget, and never spent."""
        left = None if budget is None else self._left[budget]
        return left is None or left > 0
