"""Jobs: units of work that run for some polls, and count when their output was collected.

Theory of operation: a unit is submitted, polled until it is done, and collected. A poll advances
a running unit, and a stalled one never, until it is started anew. A unit that was submitted twice
is charged twice. The system of record takes no unit's word for its output, but it takes additional
units, which are none of the task's. In a task that cannot be done, the last unit fails or stalls
whenever it is started. Nobody can know the state of the queue, so there is no state fingerprint.

Source: spec control, section 2 (long-running jobs).
"""

from __future__ import annotations

from loopcore.control.limits import ToolPolicy
from loopcore.control.progress import Reading, jobs_reading
from loopcore.worlds.calls import Answer, Call, Toolbox
from loopcore.worlds.world import FROZEN, Arguments, Hands, Setup, World

JOBS_TOOLS = {
    "submit": ToolPolicy(),
    "poll": ToolPolicy(wait=True, effect="none"),
    "collect": ToolPolicy(effect="idempotent"),
    "restart": ToolPolicy(effect="idempotent"),
    "logs": ToolPolicy(effect="none"),
    "search_logs": ToolPolicy(effect="none"),
    "list_units": ToolPolicy(repeatable=True, effect="none"),
    "register": ToolPolicy(effect="idempotent"),
    "unregister": ToolPolicy(effect="idempotent"),
    "cancel": ToolPolicy(effect="idempotent"),
    "set_priority": ToolPolicy(effect="idempotent"),
}
UNITS_LEAST, UNITS_MOST = 2, 12
SIZE_A_UNIT = 2
# Polls of a unit are 1 more than so many bits of the task's shape say.
POLLS_BITS = 2
# Of units that answer with what is left, one in so many.
TELLS_LEFT = 2
# All units are submitted at once where the three highest bits of the shape are this.
TOGETHER = 7
PRIORITIES = ("low", "normal", "high", "urgent")
WAITING = "not started"


class Jobs(World):
    """A batch with a unit for every two of `size`."""

    box = Toolbox(JOBS_TOOLS)
    wait_tool = "poll"

    def __init__(self, setup: Setup) -> None:
        super().__init__(setup)
        # The operations of the plan are units here; none stands beside them.
        self.waits = [FROZEN]
        count = min(UNITS_MOST, max(UNITS_LEAST, (setup.size + 1) // SIZE_A_UNIT))
        self.units = [f"unit-{number}" for number in range(count)]
        self.submitted = dict.fromkeys(self.units, 0)
        self.left = {unit: self._polls(number) for number, unit in enumerate(self.units)}
        self.collected: set[str] = set()
        self.extra: set[str] = set()
        self.hopeless = self.units[-1] if setup.impossible else None
        self.stalls = (setup.shape >> 60) & 1 == 1
        self.handlers = {
            "submit": self._submit,
            "collect": self._collect,
            "restart": self._restart,
            "logs": self._logs,
            "search_logs": self._search,
            "list_units": self._list,
            "register": self._register,
            "unregister": self._unregister,
            "cancel": self._cancel,
            "set_priority": self._prioritise,
        }

    def _polls(self, number: int) -> int:
        """Return how often a unit must be polled, the long operations of the plan among them."""
        bits = (self.setup.shape >> (POLLS_BITS * number)) & ((1 << POLLS_BITS) - 1)
        planned = self.setup.waits[number] if number < len(self.setup.waits) else 0
        return 1 + bits + planned

    def fails(self, unit: str) -> bool:
        """Return whether a unit has failed, which the hopeless one does at once."""
        return unit == self.hopeless and not self.stalls

    def freeze(self, unit: str) -> None:
        """Let a running unit stall, as happens in queues."""
        if self.submitted[unit] and self.left[unit] > 0:
            self.left[unit] = FROZEN

    def reading(self) -> Reading:
        """Return the units whose output was not collected."""
        return jobs_reading(units=self.units, done=self.collected | self.extra)

    def verified(self) -> bool:
        """Return whether every unit was collected, none charged twice, and none made up."""
        return (
            len(self.collected) == len(self.units)
            and not self.extra
            and max(self.submitted.values()) <= 1
        )

    def state(self) -> None:
        """Return None: the queue moves by itself."""
        return

    def poll(self, arguments: Arguments) -> Answer:
        """Advance a running unit by one poll."""
        unit = str(arguments["unit"])
        if not self.submitted.get(unit):
            return self.box.shows(unit=unit, status=WAITING)
        if self.fails(unit):
            return self.box.shows(unit=unit, status="failed")
        if self.left[unit] > 0 and unit != self.hopeless:
            self.left[unit] -= 1
        left = self.left[unit]
        if left == 0:
            return self.box.shows(unit=unit, status="done")
        if left > 0 and self.units.index(unit) % TELLS_LEFT:
            return self.box.shows(unit=unit, status="running", left=left)
        return self.box.shows(unit=unit, status="running")

    def _submit(self, arguments: Arguments) -> Answer:
        unit = str(arguments["unit"])
        if unit not in self.submitted:
            return self.box.says("quota exceeded in this queue", "quota_exceeded")
        self.submitted[unit] += 1
        self.changed = True
        return self.box.says(f"{unit} submitted")

    def _collect(self, arguments: Arguments) -> Answer:
        unit = str(arguments["unit"])
        if unit not in self.submitted:
            return self.box.says("no such unit", "not_found")
        if not self.submitted[unit] or self.left[unit] != 0 or unit == self.hopeless:
            return self.box.says(f"{unit} has no output", "not_ready")
        self.collected.add(unit)
        self.changed = True
        return self.box.says(f"output of {unit}")

    def _restart(self, arguments: Arguments) -> Answer:
        unit = str(arguments["unit"])
        if self.left[unit] == FROZEN:
            self.left[unit] = 1
            self.changed = True
        return self.box.says(f"{unit} restarted")

    def _logs(self, arguments: Arguments) -> Answer:
        unit = str(arguments["unit"])
        started = self.submitted.get(unit, 0) > 0
        return self.box.says(f"{unit}: " + ("worker started" if started else "no log yet"))

    def _search(self, arguments: Arguments) -> Answer:
        return self.box.says("no line matches")

    def _list(self, arguments: Arguments) -> Answer:
        return self.box.shows(
            submitted=sum(count > 0 for count in self.submitted.values()),
            collected=len(self.collected),
        )

    def _register(self, arguments: Arguments) -> Answer:
        unit = str(arguments["unit"])
        if unit in self.submitted:
            return self.box.says(f"{unit} has no output", "not_ready")
        self.extra.add(unit)
        self.changed = True
        return self.box.says(f"{unit} registered as done")

    def _unregister(self, arguments: Arguments) -> Answer:
        self.extra.discard(str(arguments["unit"]))
        self.changed = True
        return self.box.says("struck from the record")

    def _cancel(self, arguments: Arguments) -> Answer:
        unit = str(arguments["unit"])
        self.submitted[unit] = min(self.submitted[unit], 1)
        self.changed = True
        return self.box.says(f"one run of {unit} kept")

    def _prioritise(self, arguments: Arguments) -> Answer:
        return self.box.says(f"priority {arguments['priority']}")


class JobsHands(Hands):
    """How an agent submits, polls and collects: all at once, or one unit after the other."""

    def __init__(self, world: Jobs) -> None:
        super().__init__(world)
        self.world = world
        self._together = world.setup.shape >> 61 == TOGETHER
        self._restarts = 0

    def step(self) -> Call | None:
        """Return the submission, the poll, or the collection that comes next."""
        world = self.world
        unit = self._next()
        if unit is None:
            return None
        if self._together:
            waiting = next((name for name in world.units if not world.submitted[name]), None)
            if waiting is not None:
                return world.box.call("submit", unit=waiting)
        if not world.submitted[unit]:
            return world.box.call("submit", unit=unit)
        if world.fails(unit):
            self._restarts += 1
            return world.box.call("restart" if self._restarts % 2 else "logs", unit=unit)
        if world.left[unit] != 0 or unit == world.hopeless:
            return self._poll(unit)
        return world.box.call("collect", unit=unit)

    def repair(self) -> Call | None:
        """Return the call that restarts a stalled unit, or takes back what was spoilt."""
        world = self.world
        for unit, left in world.left.items():
            if left == FROZEN:
                return world.box.call("restart", unit=unit)
        if world.extra:
            return world.box.call("unregister", unit=min(world.extra))
        twice = next((unit for unit, count in world.submitted.items() if count > 1), None)
        return None if twice is None else world.box.call("cancel", unit=twice)

    def stall(self) -> Call:
        """Return a poll of the unit in work, which stalls; one never submitted does not start."""
        unit = self._next() or self.world.units[0]
        self.world.freeze(unit)
        return self._poll(unit)

    def waiting(self) -> bool:
        """Return whether the unit in work is running."""
        unit = self._next()
        return unit is not None and self.world.submitted[unit] > 0 and self.world.left[unit] != 0

    def look(self, index: int) -> Call:
        """Return the log of a unit."""
        units = self.world.units
        return self.world.box.call("logs", unit=units[index % len(units)])

    def check(self) -> Call:
        """Return the list of units."""
        return self.world.box.call("list_units")

    def mistake(self, index: int) -> Call:
        """Return the collection of the unit in work, ready or not."""
        unit = self._next()
        if unit is None or self.world.left[unit] == 0:
            return self.look(index)
        return self.world.box.call("collect", unit=unit)

    def slip(self, index: int) -> Call:
        """Return the collection of a unit that is not there."""
        return self.world.box.call("collect", unit=f"unit_{index}")

    def effect(self, *, unsafe: bool) -> Call:
        """Return a submission, charged each time, or a registration that changes nothing."""
        world = self.world
        waiting = next((unit for unit in world.units if not world.submitted[unit]), None)
        if unsafe and waiting is not None:
            return world.box.call("submit", unit=waiting)
        unit = self._next() or world.units[0]
        ready = world.submitted[unit] and world.left[unit] == 0
        return world.box.call("collect" if ready else "set_priority", unit=unit, priority="high")

    def alternate(self, phase: int) -> Call:
        """Return one of several priorities of one unit, each undoing the one before."""
        return self.world.box.call(
            "set_priority", unit=self.world.units[-1], priority=PRIORITIES[phase]
        )

    def reword(self, index: int) -> Call:
        """Return a search of the logs that finds nothing, in other words."""
        return self.world.box.call("search_logs", pattern=f"{_word(index)} {index}")

    def fail(self, index: int) -> Call:
        """Return a submission to a queue that is full."""
        return self.world.box.call("submit", unit=f"unit-0/retry-{index}")

    def game(self, index: int) -> Call:
        """Return the registration of a unit that is none, or of one without its output."""
        if index % 3 == 0:
            return self.world.box.call("register", unit=f"unit-0/part-{index}")
        unit = self._next() or self.world.units[0]
        return self.world.box.call("register", unit=unit)

    def _next(self) -> str | None:
        """Return the first unit that was not collected, None when there is none."""
        collected = self.world.collected
        return next((unit for unit in self.world.units if unit not in collected), None)

    def _poll(self, unit: str) -> Call:
        return self.world.box.call("poll", unit=unit)


def _word(index: int) -> str:
    return ("error", "warning", "traceback", "killed")[index % 4]
