"""An agent acts on its plan: good work with its noise, until a mode begins that it cannot leave.

Theory of operation: an act is a call, talk, or the claim to be done. Outside a mode the first rule
that applies decides: a slow start, what is queued, the retry of a tool that was out of order, an
operation that is polled until it is done, an early claim, an effect whose answer gets lost, and
otherwise an intent that is drawn. Within a mode nothing that the world answers is heard, so no luck
ends it: only `leave`, which a won recovery calls, does. An agent enters a mode only while the task
is not done, and no mode does useful work and then claims, so no run verifies after an onset.

Source: spec control, section 3 (onset) and section 4 (habits).
"""

from __future__ import annotations

from collections import deque
from enum import Enum
from typing import TypeAlias

from loopcore.worlds import purposes
from loopcore.worlds.calls import Answer, Call
from loopcore.worlds.draws import Draws
from loopcore.worlds.habits import (
    BURST_LENGTHS,
    CHECK_BEFORE_CLAIM,
    COMPARE_LENGTHS,
    REPEATED,
    RETRY_AT_ONCE,
    Intent,
    Mode,
    Plan,
)
from loopcore.worlds.world import UNAVAILABLE, Hands, World

# Of a game, every so many acts are a claim.
GAMES_A_CLAIM = 4
# What an agent does that works on a task that cannot be done: upper bounds of the draw.
FLOUNDER_ADVANCE, FLOUNDER_LOOK, FLOUNDER_CHECK = 0.50, 0.65, 0.77
FLOUNDER_MISTAKE, FLOUNDER_REWORD, FLOUNDER_TALK = 0.87, 0.92, 0.96
# When nothing seems to be left, it claims so as often as this instead of the next useful call.
FLOUNDER_CLAIM = 0.30
# Reads of a slow start are different ones, apart from a talk or a repetition now and then.
SLOW_TALK, SLOW_AGAIN = 0.10, 0.25
# Who waits for work to be done does something else less often, by this factor.
CALM_WHILE_WAITING = 4.0
# An operation that is done is followed by so much other work before the next one begins.
ACTS_BETWEEN_WAITS = 5
# Bits of a draw that choose one of several details, and bits that make a truth value of a share.
DETAIL_BITS = 16
SHARE_UNIT = 1 / (1 << DETAIL_BITS)


class Spoken(Enum):
    """An act that dispatches nothing."""

    TALK = "talk"
    CLAIM = "claim"


Act: TypeAlias = "Call | Spoken"


class Agent:
    """The agent of one task.

    Fields:
        mode: that it is in, or None. entered: it is or was in a mode.
        answer_lost: the answer to the act just chosen takes place and does not arrive.
        draws: may be replaced from an act on, which is a fresh continuation.
    """

    def __init__(self, plan: Plan, world: World, hands: Hands, draws: Draws) -> None:
        self.plan = plan
        self.draws = draws
        self.mode: Mode | None = None
        self.entered = False
        self.answer_lost = False
        self._world = world
        self._hands = hands
        self._mode_due: Mode | None = plan.mode
        self._mode_acts = 0
        self._repeated: Call | None = None
        self._queue: deque[Act] = deque()
        self._retry: Call | None = None
        self._last_look: Call | None = None
        self._operation: int | None = None
        self._waits = 0
        self._acts = 0
        self._free_from = 0
        self._outages = 0
        self._claims = 0
        self._slow = plan.slow
        self._lost_due = plan.lost
        self._reissue: Call | None = None

    def act(self, number: int) -> Act:
        """Return the agent's act of this number, from 1 in order."""
        self.answer_lost = False
        self._acts = number
        if self.mode is None:
            self._enter(number)
        if self.mode is not None:
            return self._in_mode(number, self.mode)
        if self._reissue is not None:
            again, self._reissue = self._reissue, None
            return again
        if number <= self._slow:
            return self._explore(number)
        if self._queue:
            return self._queue.popleft()
        if self._retry is not None:
            if self.draws.uniform(number, purposes.RETRY) < RETRY_AT_ONCE:
                return self._retry
            return Spoken.TALK
        return self._scheduled(number) or self._intend(number)

    def hear(self, call: Call, answer: Answer) -> None:
        """Take in the answer to a call."""
        self._retry = call if answer.error == UNAVAILABLE and not call.wait else None
        if self._operation is not None and self._world.waits[self._operation] == 0:
            self._operation = None
            self._free_from = self._acts + ACTS_BETWEEN_WAITS

    def leave(self) -> None:
        """Leave the mode for good, knowing what was spoilt; the work goes on."""
        self.mode = None
        self._mode_due = None
        self._claims = len(self.plan.claims)
        self._lost_due = None
        self._reissue = self._retry = self._operation = None
        self._queue.clear()
        self._hands.aware = True

    def _enter(self, number: int) -> None:
        """Enter a mode when it is due and the task is not done."""
        plan = self.plan
        due: Mode | None = None
        if plan.setup.impossible or (self._reissue is not None and self._reissue.unsafe):
            due = "flounder"
        elif self._mode_due is not None and number >= plan.mode_turn:
            due, self._mode_due = self._mode_due, None
        elif plan.stubborn and not self._claims and number >= plan.claims[0]:
            due, self._claims = "claim", len(plan.claims)
        if due is not None and not (self._world.verified() and self._reissue is None):
            self.mode = due
            self.entered = True

    def _scheduled(self, number: int) -> Act | None:
        """Return the act that the plan has for now, None when it has none."""
        plan = self.plan
        waits = self._operation is None and self._waits < len(self._world.waits) - 1
        if waits and number >= max(plan.waits[self._waits], self._free_from):
            self._operation = self._waits
            self._waits += 1
        if self._operation is not None:
            return self._hands.poll(self._operation)
        if self._claims < len(plan.claims) and number >= plan.claims[self._claims]:
            self._claims += 1
            if not self._world.verified():
                return Spoken.CLAIM
        if self._lost_due is not None and number >= self._lost_due and not self._world.outage:
            self._lost_due = None
            if not self._world.verified():
                return self._lose()
        return None

    def _lose(self) -> Call:
        """Return an effect whose answer will not arrive, and plan what follows."""
        call = self._hands.effect(unsafe=self.plan.unsafe)
        self.answer_lost = True
        if self.plan.reissued:
            self._reissue = call
        else:
            self._queue.append(self._hands.check())
        return call

    def _explore(self, number: int) -> Act:
        """Return an act of a slow start."""
        place = self.draws.uniform(number, purposes.INTENT)
        if place < SLOW_TALK:
            return Spoken.TALK
        if place < SLOW_AGAIN and self._last_look is not None:
            return self._last_look
        return self._look(number - 1)

    def _look(self, index: int) -> Call:
        self._last_look = self._hands.look(index)
        return self._last_look

    def _intend(self, number: int) -> Act:
        """Return an act of the agent's own choice."""
        place = self.draws.uniform(number, purposes.INTENT)
        if self._hands.waiting():
            place *= CALM_WHILE_WAITING
        for end, intent in self.plan.intents:
            if place < end:
                return self._noise(intent, self.draws.word(number, purposes.DETAIL))
        outages = self.plan.outages
        if self._outages < len(outages) and number >= outages[self._outages]:
            self._world.outage += self.plan.outage_lengths[self._outages]
            self._outages += 1
        call = self._hands.advance()
        share = self.draws.uniform(number, purposes.CHECK)
        if call is None:
            if share < CHECK_BEFORE_CLAIM:
                self._queue.append(Spoken.CLAIM)
                return self._hands.check()
            return Spoken.CLAIM
        if share < self.plan.check_after and call.effect:
            self._queue.append(self._hands.check())
        return call

    def _noise(self, intent: Intent, bits: int) -> Act:
        """Return an act that is not the next useful one, and queue what belongs to it."""
        detail = bits >> DETAIL_BITS
        match intent:
            case "look":
                return self._look(detail % 16)
            case "again":
                return self._last_look or self._look(detail % 16)
            case "mistake":
                if (bits % (1 << DETAIL_BITS)) * SHARE_UNIT < self.plan.check_after:
                    self._queue.append(self._hands.check())
                return self._hands.mistake(detail % 16)
            case "slip":
                return self._hands.slip(detail % 16)
            case "talk":
                return Spoken.TALK
            case "check":
                return self._hands.check()
            case "burst":
                look = self._last_look or self._look(detail % 16)
                length = BURST_LENGTHS[bits % len(BURST_LENGTHS)]
                self._queue.extend([look] * (length - 1))
                return look
            case "compare":
                pair = (self._look(detail % 16), self._look(detail % 16 + 1))
                length = COMPARE_LENGTHS[bits % len(COMPARE_LENGTHS)]
                self._queue.extend(pair[place % 2] for place in range(1, length))
                return pair[0]

    def _in_mode(self, number: int, mode: Mode) -> Act:
        """Return an act within a mode; the first one is never noise."""
        plan = self.plan
        place = self.draws.uniform(number, purposes.INTENT)
        index = self._mode_acts
        if mode == "flounder":
            self._mode_acts += 1
            return self._flounder(number, place, index)
        if index and place < plan.noise:
            return Spoken.TALK if place < plan.noise / 2 else self._hands.look(number % 16)
        self._mode_acts += 1
        match mode:
            case "repeat":
                if self._repeated is None:
                    self._repeated = self._chosen(number)
                return self._repeated
            case "alternate":
                return self._hands.alternate(index % plan.cycle)
            case "reword":
                return self._hands.reword(index)
            case "fail":
                return self._hands.fail(index if plan.kind % 2 else 0)
            case "game":
                claims = index % GAMES_A_CLAIM == GAMES_A_CLAIM - 1
                return Spoken.CLAIM if claims else self._hands.game(index)
            case "claim":
                return self._hands.check() if plan.kind % 2 and index % 2 else Spoken.CLAIM

    def _chosen(self, number: int) -> Call:
        """Return the call that an exact repeater repeats."""
        match REPEATED[self.plan.kind % len(REPEATED)]:
            case "check":
                return self._hands.check()
            case "poll":
                return self._hands.stall()
            case _:
                return self._hands.look(number % 16)

    def _flounder(self, number: int, place: float, index: int) -> Act:
        """Return an act of work on a task that cannot be done, or can no longer be."""
        if self._reissue is not None:
            again, self._reissue = self._reissue, None
            return again
        detail = self.draws.word(number, purposes.DETAIL) >> DETAIL_BITS
        if place < FLOUNDER_ADVANCE:
            call = self._hands.advance()
            if call is not None:
                return call
            claims = self.draws.uniform(number, purposes.CHECK) < FLOUNDER_CLAIM
            return Spoken.CLAIM if claims else self._hands.mistake(detail % 16)
        if place < FLOUNDER_LOOK:
            return self._hands.look(detail % 16)
        if place < FLOUNDER_CHECK:
            return self._hands.check()
        if place < FLOUNDER_MISTAKE:
            return self._hands.mistake(detail % 16)
        if place < FLOUNDER_REWORD:
            return self._hands.reword(index)
        return Spoken.TALK if place < FLOUNDER_TALK else Spoken.CLAIM
