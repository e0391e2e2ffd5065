"""Every pathology has a legitimate twin of one shape and opposite verdict.

Theory of operation: `TWINS` is a table of kinds. A kind and a `Setting` (seed, turns, thresholds)
give two streams of observations; the names, gaps, periods and positions come from the seed, so a
kind is never one example. No kind was made to suit a level: those that the progress of level D
cannot judge (no measure, a round longer than it looks for, a start slower than its window) stand
in the table like any other.

Source: spec control, section 4; the incidents of kind "detector".
"""

from __future__ import annotations

from loopcore.worlds import twins_repeating as repeating
from loopcore.worlds import twins_working as working
from loopcore.worlds.twins_model import Pair, Setting, Streams, default_setting, setting

__all__ = ["TWINS", "Pair", "Setting", "Streams", "default_setting", "setting"]

TWINS: tuple[Pair, ...] = (
    Pair(
        name="poll declared as wait",
        pathology="the job stands still",
        twin="the job advances",
        make=repeating.declared_poll,
    ),
    Pair(
        name="poll without a policy",
        pathology="the build stands still",
        twin="the build advances",
        make=repeating.undeclared_poll,
    ),
    Pair(
        name="one call, new results",
        pathology="the clock is read again",
        twin="a log grows",
        make=repeating.clock,
    ),
    Pair(
        name="one call, new results, unmeasured",
        pathology="the clock is read again",
        twin="a log grows",
        make=repeating.unmeasured_clock,
    ),
    Pair(
        name="new words, one answer",
        pathology="a search is reworded and finds the same",
        twin="each message is acknowledged and changes the state",
        make=working.reworded_search,
    ),
    Pair(
        name="new words, one answer, unmeasured",
        pathology="a search is reworded and finds the same",
        twin="each message is acknowledged and changes the state",
        make=working.unmeasured_rewording,
    ),
    Pair(
        name="edit and test",
        pathology="the same tests fail",
        twin="fewer tests fail",
        make=working.edit_and_test,
    ),
    Pair(
        name="two edits in turn",
        pathology="each undoes the other",
        twin="each goes on from the other",
        make=repeating.oscillation,
    ),
    Pair(
        name="re-read",
        pathology="nothing has changed since",
        twin="something has changed since",
        make=working.reread,
    ),
    Pair(
        name="round of calls",
        pathology="the state comes back each round",
        twin="the state goes on",
        make=repeating.round_of_steps,
    ),
    Pair(
        name="long round of calls, unmeasured",
        pathology="the results come back each round",
        twin="each round finds other results",
        make=repeating.long_round,
    ),
    Pair(
        name="failures across tools",
        pathology="one cause behind all",
        twin="another cause each, and fewer left",
        make=working.error_class,
    ),
    Pair(
        name="refused claims",
        pathology="the same part is missing each time",
        twin="each claim follows new work",
        make=working.claims,
    ),
    Pair(
        name="claims without an answer",
        pathology="the verifier is broken",
        twin="the verifier was busy",
        make=working.verifier,
    ),
    Pair(
        name="next page",
        pathology="the cursor stands still",
        twin="the cursor moves",
        make=repeating.pagination,
    ),
    Pair(
        name="routine over items",
        pathology="the same item again",
        twin="one item after the other",
        make=working.batch,
    ),
    Pair(
        name="retry after a time-out",
        pathology="the tool never answers",
        twin="the tool answers after a few tries",
        make=working.retry,
    ),
    Pair(
        name="falling and rising score",
        pathology="lost ground is regained",
        twin="each rise is a new best",
        make=working.regained_ground,
    ),
    Pair(
        name="repeatable heartbeat",
        pathology="nothing goes on behind it",
        twin="work goes on behind it",
        make=repeating.heartbeat,
    ),
    Pair(
        name="read and sleep",
        pathology="the output stands still",
        twin="the output grows",
        make=repeating.read_and_sleep,
    ),
    Pair(
        name="one control pressed again",
        pathology="the page stays",
        twin="another page each time",
        make=repeating.pressed_control,
    ),
    Pair(
        name="arguments written otherwise",
        pathology="one object in another order of keys",
        twin="another object in the same order",
        make=repeating.shuffled_keys,
    ),
    Pair(
        name="renumbered element",
        pathology="one button under new numbers",
        twin="another button each time",
        make=repeating.volatile_reference,
    ),
    Pair(
        name="turns without a call",
        pathology="text for ever",
        twin="a thought before each piece of work",
        make=working.thinking,
    ),
    Pair(
        name="no success for longer than the window",
        pathology="wandering without end",
        twin="a slow start that then succeeds",
        make=working.slow_start,
    ),
)
