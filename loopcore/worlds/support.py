"""Support: data to collect from records and from the customer, and steps that help when done once.

Theory of operation: every datum of a case has one true value, which a look-up or a question gives;
it is collected when the case holds that value. A step of the remediation takes effect at once, and
twice is once too often. A value that somebody made up is in the case and is not collected. In
a case that cannot be done, nobody has one of the data.

Source: spec control, section 2 (support).
"""

from __future__ import annotations

from collections.abc import Hashable

from loopcore.control.limits import ToolPolicy
from loopcore.control.progress import Reading, support_reading
from loopcore.worlds.calls import Answer, Call, Toolbox
from loopcore.worlds.world import Arguments, Hands, Setup, World

SUPPORT_TOOLS = {
    "lookup": ToolPolicy(effect="none"),
    "ask": ToolPolicy(effect="none"),
    "search_articles": ToolPolicy(effect="none"),
    "case_view": ToolPolicy(repeatable=True, effect="none"),
    "note": ToolPolicy(effect="idempotent"),
    "set_priority": ToolPolicy(effect="idempotent"),
    "remediate": ToolPolicy(),
    "reverse": ToolPolicy(effect="idempotent"),
    "await_reply": ToolPolicy(wait=True, effect="none"),
}
DATA = (
    "order",
    "email",
    "plan",
    "invoice",
    "device",
    "version",
    "region",
    "contact",
    "serial",
    "address",
    "warranty",
    "carrier",
    "language",
    "balance",
    "renewal",
)
STEPS = ("refund", "reset", "replace", "unlock", "reship", "credit", "upgrade")
PRIORITIES = ("low", "normal", "high", "urgent")
# Of the size, this share are data; the rest are steps.
DATA_OF, DATA_EACH = 2, 3
# A gaming agent looks at the case once in so many games.
GAMES = 3
# The datum that nobody has.
NOBODY_HAS = "consent"
NOBODY_KNOWS = "?"


class Support(World):
    """A case with `size` data and steps together."""

    box = Toolbox(SUPPORT_TOOLS)
    wait_tool = "await_reply"

    def __init__(self, setup: Setup) -> None:
        super().__init__(setup)
        data = max(1, setup.size * DATA_OF // DATA_EACH)
        self.records = {
            name: f"{name} {setup.shape >> 2 * place & 3}" for place, name in enumerate(DATA[:data])
        }
        if setup.impossible:
            self.records[NOBODY_HAS] = NOBODY_KNOWS
        self.steps = STEPS[: max(1, setup.size - data)]
        self.collected: dict[str, str] = {}
        self.done: list[str] = []
        self.priority = PRIORITIES[0]
        self.handlers = {
            "lookup": self._tell,
            "ask": self._tell,
            "search_articles": self._search,
            "case_view": self._view,
            "note": self._note,
            "set_priority": self._prioritise,
            "remediate": self._remediate,
            "reverse": self._reverse,
        }

    def reading(self) -> Reading:
        """Return the data not collected and the steps not done."""
        return support_reading(
            records=self.records,
            collected=self.collected,
            remediation=self.steps,
            done=self.done,
        )

    def verified(self) -> bool:
        """Return whether every datum is true and every step was done exactly once."""
        return self.collected == self.records and sorted(self.done) == sorted(self.steps)

    def state(self) -> Hashable:
        """Return the case as it stands."""
        held = tuple(self.collected.get(name) for name in self.records)
        return (held, tuple(self.done), self.priority)

    def _tell(self, arguments: Arguments) -> Answer:
        name = str(arguments["datum"])
        value = self.records.get(name, NOBODY_KNOWS)
        return self.box.says("not known" if value == NOBODY_KNOWS else value)

    def _search(self, arguments: Arguments) -> Answer:
        known = str(arguments["query"]) in self.steps
        return self.box.says(f"article on {arguments['query']}" if known else "no article")

    def _view(self, arguments: Arguments) -> Answer:
        return self.box.shows(noted=len(self.collected), done=len(self.done))

    def _note(self, arguments: Arguments) -> Answer:
        name, value = str(arguments["datum"]), str(arguments["value"])
        if name not in self.records:
            return self.box.says("no such field in this case", "field_unknown")
        if self.collected.get(name) != value:
            self.collected[name] = value
            self.changed = True
        return self.box.says(f"{name} noted")

    def _prioritise(self, arguments: Arguments) -> Answer:
        self.priority = str(arguments["priority"])
        self.changed = True
        return self.box.says(f"priority {self.priority}")

    def _remediate(self, arguments: Arguments) -> Answer:
        step = str(arguments["step"])
        if step not in self.steps:
            return self.box.says("you may not do this", "permission_denied")
        self.done.append(step)
        self.changed = True
        return self.box.says(f"{step} done")

    def _reverse(self, arguments: Arguments) -> Answer:
        step = str(arguments["step"])
        if self.done.count(step) > 1:
            self.done.remove(step)
            self.changed = True
        return self.box.says(f"one {step} kept")


class SupportHands(Hands):
    """How an agent looks up, notes and helps."""

    def __init__(self, world: Support) -> None:
        super().__init__(world)
        self.world = world
        self._known: set[str] = set()

    def step(self) -> Call | None:
        """Return the look-up and the note of the next datum, then the next step."""
        world = self.world
        name = self._missing()
        if name is not None:
            if name in self._known and world.records[name] != NOBODY_KNOWS:
                return self._note(name, world.records[name])
            self._known.add(name)
            return self._tell(name)
        step = self._undone()
        return None if step is None else world.box.call("remediate", step=step)

    def repair(self) -> Call | None:
        """Return the reversal of a step that was done twice."""
        done = self.world.done
        twice = next((step for step in done if done.count(step) > 1), None)
        return None if twice is None else self.world.box.call("reverse", step=twice)

    def look(self, index: int) -> Call:
        """Return a look-up or a search of the articles."""
        if index % 4 == 0:
            step = self.world.steps[index // 4 % len(self.world.steps)]
            return self.world.box.call("search_articles", query=step)
        names = list(self.world.records)
        return self._tell(names[index % len(names)])

    def check(self) -> Call:
        """Return a view of the case."""
        return self.world.box.call("case_view")

    def mistake(self, index: int) -> Call:
        """Return a wrong note of the datum in work."""
        name = self._missing()
        return self.look(index) if name is None else self._note(name, f"unclear {index % 4}")

    def slip(self, index: int) -> Call:
        """Return a note in a field that is not there."""
        return self._note(f"{DATA[index % len(DATA)]}_", "unclear 0")

    def effect(self, *, unsafe: bool) -> Call:
        """Return a step, done each time that it is called, or a note."""
        name, step = self._missing(), self._undone()
        if step is not None and (unsafe or name is None):
            return self.world.box.call("remediate", step=step)
        if name is None or self.world.records[name] == NOBODY_KNOWS:
            return self.check()
        return self._note(name, self.world.records[name])

    def alternate(self, phase: int) -> Call:
        """Return one of several priorities, each undoing the one before."""
        return self.world.box.call("set_priority", priority=PRIORITIES[phase])

    def reword(self, index: int) -> Call:
        """Return a question that nobody can answer, in other words."""
        return self.world.box.call("ask", datum=f"{_word(index)} problem {index}")

    def fail(self, index: int) -> Call:
        """Return a step that the agent may not do."""
        return self.world.box.call("remediate", step=f"override-{index}")

    def game(self, index: int) -> Call:
        """Return a made-up note, of a datum that is missing, or a view of the case."""
        name = self._missing()
        if index % GAMES == GAMES - 1 or name is None:
            return self.check()
        names = [name for name in self.world.records if self._is_missing(name)]
        return self._note(names[index % len(names)], "n/a")

    def _tell(self, name: str) -> Call:
        """Return the way to a datum: half of them are in the records, half the customer knows."""
        asked = name in self.world.records and len(name) % 2 == 1
        return self.world.box.call("ask" if asked else "lookup", datum=name)

    def _note(self, name: str, value: str) -> Call:
        return self.world.box.call("note", datum=name, value=value)

    def _is_missing(self, name: str) -> bool:
        return self.world.collected.get(name) != self.world.records[name]

    def _missing(self) -> str | None:
        return next((name for name in self.world.records if self._is_missing(name)), None)

    def _undone(self) -> str | None:
        done = self.world.done
        return next((step for step in self.world.steps if step not in done), None)


def _word(index: int) -> str:
    return ("exact", "actual", "original", "underlying")[index % 4]
