"""Level E a second time: what to try next follows from the list of all recoveries so far.

Theory of operation: nothing is remembered and nothing counted down. Whoever asks gives every
recovery that was begun in the run; what is spent of a budget, and what was tried last for a reason,
is looked up in that list. The tables are written from the rules of level E and shared with nobody.

Source: spec control, section 2; spec controllers, section 3.
"""

from __future__ import annotations

from loopcore.control.decisions import Decision
from loopcore.control.limits import Limits

# What to try for a detection, in turn.
ORDERS = {
    "repeated_action": ["drop_satisfied", "other_arguments", "replan", "ask_person"],
    "tool_failure": ["other_arguments", "fallback_tool", "replan", "ask_person"],
    "nonproductive_cycle": ["replan", "critique", "smaller_context", "ask_person"],
    "no_progress": ["critique", "smaller_context", "fallback_tool", "ask_person"],
}
REPLANS = {"replan", "drop_satisfied", "smaller_context"}
TOOL_RETRIES = {"other_arguments", "fallback_tool"}
CRITIQUES = {"critique"}
EVERYTHING = {*REPLANS, *TOOL_RETRIES, *CRITIQUES, "ask_person"}


def next_strategy(reason: str, begun: list[Decision], limits: Limits) -> str | None:
    """Return what to try now after these recoveries, or None when nothing is left to try."""
    tried = [recovery.strategy for recovery in begun]
    affordable = set(EVERYTHING)
    for kind, bound in (
        (REPLANS, limits.max_replans),
        (TOOL_RETRIES, limits.max_tool_retries),
        (CRITIQUES, limits.max_critiques),
        (EVERYTHING, limits.max_recoveries),
    ):
        if bound is not None and sum(strategy in kind for strategy in tried) >= bound:
            affordable -= kind
    order = ORDERS[reason]
    before = [recovery.strategy for recovery in begun if recovery.reason == reason]
    if before:
        # The one that was tried last for this reason comes last now.
        place = order.index(before[-1] or "")
        order = order[place + 1 :] + order[: place + 1]
    return next((strategy for strategy in order if strategy in affordable), None)
