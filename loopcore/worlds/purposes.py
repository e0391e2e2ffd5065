"""No two draws of a run share a turn and a purpose; this is the list of purposes.

Theory of operation: draws that shape a task as a whole stand at turn 0, which no act has; draws of
an act stand at its number, from 1. A purpose that is needed several times has a range of its own.

Choices: the turn of a draw is the agent's own count of acts. Recoveries, which only level E makes,
take a turn of the run but are no act, so a recovery that was not needed delays the run and leaves
its luck alone.
"""

from __future__ import annotations

# The turn of draws about the task as a whole.
PLAN_TURN = 0

# At turn 0.
HABIT = 0
SIZE = 1
SHAPE = 2
MODE_TURN = 3
MODE_KIND = 4
MODE_NOISE = 5
MODE_LENGTH = 6
SLOW_TURNS = 7
CLAIMS = 8
STUBBORN = 9
LOST_TURN = 10
REISSUED = 11
UNSAFE = 12
SPOKEN = 13
WAIT_COUNT = 14
EARLY = 15
# Ranges: one each for the operations to wait for and for the outages.
WAIT_POLLS = 16
WAIT_TURNS = 24
OUTAGE_TURNS = 32
OUTAGE_LENGTHS = 40
OUTAGE_COUNT = 48
CLAIM_TURNS = 49

# At the number of an act.
INTENT = 0
DETAIL = 1
USAGE = 2
MEASURED = 3
JUDGED = 4
RETRY = 5
CHECK = 6

# At the number of a recovery; a range, one for each strategy.
LEAVING = 16
