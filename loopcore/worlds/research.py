"""Research: claims that need sources which were read, support them, and are independent.

Theory of operation: each claim has two documents of different origins that support it, a copy of
the first under another address, and one that is beside the point. A search lists them, opening one
is reading it, and a citation counts when its document was read and supports the claim; two of one
origin count as one. A note that is published twice stands there twice. Nobody can know the state of
the outside world, so there is no state fingerprint.

Source: spec control, section 2 (research).
"""

from __future__ import annotations

from loopcore.control.limits import ToolPolicy
from loopcore.control.progress import SOURCES_MIN, Reading, research_reading
from loopcore.worlds.calls import Answer, Call, Toolbox
from loopcore.worlds.world import Arguments, Hands, Setup, World

RESEARCH_TOOLS = {
    "search": ToolPolicy(effect="none"),
    "open": ToolPolicy(effect="none"),
    "list_citations": ToolPolicy(repeatable=True, effect="none"),
    "cite": ToolPolicy(effect="idempotent"),
    "retract": ToolPolicy(effect="idempotent"),
    "publish_note": ToolPolicy(),
    "withdraw_note": ToolPolicy(effect="idempotent"),
    "fetch_status": ToolPolicy(wait=True, effect="none"),
}
# The documents of a claim by the last letter of their address.
FIRST, COPY, SECOND, BESIDE = "a", "b", "c", "d"
DOCUMENTS = (FIRST, COPY, SECOND, BESIDE)
SUPPORTING = (FIRST, COPY, SECOND)
NOTES_SOUND = 1
# A claim takes about five calls, so there are fewer of them than pieces of other work.
CLAIMS_LEAST, SIZE_A_CLAIM = 2, 2


class Research(World):
    """A question with a claim for every two of `size`."""

    box = Toolbox(RESEARCH_TOOLS)
    wait_tool = "fetch_status"

    def __init__(self, setup: Setup) -> None:
        super().__init__(setup)
        self.claims = [
            f"claim-{number}" for number in range(max(CLAIMS_LEAST, setup.size // SIZE_A_CLAIM))
        ]
        self.opened: set[str] = set()
        self.cited: dict[str, list[str]] = {claim: [] for claim in self.claims}
        self.origins = {
            document_of(claim, letter): self._origin(claim, letter)
            for claim in self.claims
            for letter in DOCUMENTS
        }
        self.notes = 0
        self.handlers = {
            "search": self._search,
            "open": self._open,
            "list_citations": self._list,
            "cite": self._cite,
            "retract": self._retract,
            "publish_note": self._publish,
            "withdraw_note": self._withdraw,
        }

    def _origin(self, claim: str, letter: str) -> str:
        """Return who stands behind a document; the last claim of a lost task has one origin."""
        if self.setup.impossible and claim == self.claims[-1]:
            return claim
        return document_of(claim, FIRST if letter == COPY else letter)

    def supporting(self, claim: str) -> list[str]:
        """Return the cited documents that support a claim, and those that nobody has read."""
        return [
            document
            for document in self.cited[claim]
            if document[-1] in SUPPORTING or document not in self.opened
        ]

    def reading(self) -> Reading:
        """Return the claims without enough independent sources, and how many they lack."""
        return research_reading(
            required=self.claims,
            support={claim: self.supporting(claim) for claim in self.claims},
            origins=self.origins,
            read=self.opened,
        )

    def verified(self) -> bool:
        """Return whether every claim has independent, read support, and no note is there twice."""
        reading = self.reading()
        return not any(reading.remaining) and not reading.integrity and self.notes <= NOTES_SOUND

    def state(self) -> None:
        """Return None: the outside world has no state that somebody could know."""
        return

    def _search(self, arguments: Arguments) -> Answer:
        query = str(arguments["query"])
        if query not in self.cited:
            return self.box.says("no results")
        return self.box.says(" ".join(document_of(query, letter) for letter in DOCUMENTS))

    def _open(self, arguments: Arguments) -> Answer:
        document = str(arguments["document"])
        if document not in self.origins:
            return self.box.says("there is no such page", "not_found")
        if document not in self.opened:
            self.opened.add(document)
            self.changed = True
        return self.box.says(f"text of {document}, by {self.origins[document]}")

    def _list(self, arguments: Arguments) -> Answer:
        return self.box.shows(citations=sum(len(cited) for cited in self.cited.values()))

    def _cite(self, arguments: Arguments) -> Answer:
        claim, document = str(arguments["claim"]), str(arguments["document"])
        if claim not in self.cited:
            return self.box.says("the claim is locked by another editor", "locked")
        if document not in self.cited[claim]:
            self.cited[claim].append(document)
            self.changed = True
        return self.box.says(f"cited for {claim}")

    def _retract(self, arguments: Arguments) -> Answer:
        claim, document = str(arguments["claim"]), str(arguments["document"])
        if document in self.cited[claim]:
            self.cited[claim].remove(document)
            self.changed = True
        return self.box.says(f"retracted from {claim}")

    def _publish(self, arguments: Arguments) -> Answer:
        self.notes += 1
        self.changed = True
        return self.box.says("note published")

    def _withdraw(self, arguments: Arguments) -> Answer:
        self.notes = min(self.notes, NOTES_SOUND)
        self.changed = True
        return self.box.says("one note kept")


class ResearchHands(Hands):
    """How an agent searches, reads and cites."""

    def __init__(self, world: Research) -> None:
        super().__init__(world)
        self.world = world
        self._searched: set[str] = set()

    def step(self) -> Call | None:
        """Return the search, the reading or the citation that the next claim needs."""
        claim = self._next()
        if claim is None:
            return None
        if claim not in self._searched:
            self._searched.add(claim)
            return self.world.box.call("search", query=claim)
        first, second = document_of(claim, FIRST), document_of(claim, SECOND)
        document = second if first in self.world.cited[claim] else first
        if document not in self.world.opened:
            return self.world.box.call("open", document=document)
        if document in self.world.cited[claim]:
            # Two citations of one origin: there is no other source, and this finds none either.
            return self.reword(len(self._searched))
        return self._cite(claim, document)

    def repair(self) -> Call | None:
        """Return the retraction of what nobody has read, or the withdrawal of a second note."""
        world = self.world
        for claim, cited in world.cited.items():
            for document in cited:
                if document not in world.opened:
                    return world.box.call("retract", claim=claim, document=document)
        return world.box.call("withdraw_note") if world.notes > NOTES_SOUND else None

    def look(self, index: int) -> Call:
        """Return a search for a claim or the reading of one of its documents."""
        claims = self.world.claims
        claim = claims[index % len(claims)]
        if index % 3 == 0:
            return self.world.box.call("search", query=claim)
        return self.world.box.call("open", document=document_of(claim, DOCUMENTS[index % 4]))

    def check(self) -> Call:
        """Return the list of citations."""
        return self.world.box.call("list_citations")

    def mistake(self, index: int) -> Call:
        """Return the citation of a document that is beside the point, once it was read."""
        claim = self._next()
        if claim is None:
            return self.look(index)
        document = document_of(claim, BESIDE)
        if document not in self.world.opened:
            return self.world.box.call("open", document=document)
        return self._cite(claim, document)

    def slip(self, index: int) -> Call:
        """Return the opening of an address with a slip in it."""
        return self.world.box.call("open", document=f"claim-{index % 8}/")

    def effect(self, *, unsafe: bool) -> Call:
        """Return a note that is published each time, or a citation."""
        claim = self._next()
        first = document_of(claim or "", FIRST)
        if unsafe or claim is None or first not in self.world.opened:
            name = "publish_note" if unsafe else "list_citations"
            return self.world.box.call(name)
        return self._cite(claim, first)

    def alternate(self, phase: int) -> Call:
        """Return the reading of one of several documents of a claim."""
        claim = self._next() or self.world.claims[0]
        return self.world.box.call("open", document=document_of(claim, DOCUMENTS[phase]))

    def reword(self, index: int) -> Call:
        """Return a search that finds nothing, in other words."""
        return self.world.box.call("search", query=f"{_word(index)} evidence {index}")

    def fail(self, index: int) -> Call:
        """Return a citation for a claim that is locked."""
        return self._cite("claim-locked", f"page-{index}")

    def game(self, index: int) -> Call:
        """Return a citation of an unread document, of a copy, or of the same source again."""
        claim = self._next() or self.world.claims[0]
        if index % 3 == 0:
            return self._cite(claim, f"{claim}/unread-{index}")
        cited = self.world.cited[claim]
        if index % 3 == 1 and cited:
            return self._cite(claim, cited[0])
        copy = document_of(claim, COPY)
        if document_of(claim, FIRST) in cited and copy in self.world.opened:
            return self._cite(claim, copy)
        return self._cite(claim, f"{claim}/unread-0")

    def _next(self) -> str | None:
        """Return the first claim that still lacks a source, None when there is none."""
        world = self.world
        for claim in world.claims:
            origins = {
                world.origins[document]
                for document in world.cited[claim]
                if document in world.opened and document[-1] in SUPPORTING
            }
            if len(origins) < SOURCES_MIN:
                return claim
        return None

    def _cite(self, claim: str, document: str) -> Call:
        return self.world.box.call("cite", claim=claim, document=document)


def document_of(claim: str, letter: str) -> str:
    """Return the address of a document of a claim."""
    return f"{claim}/{letter}"


def _word(index: int) -> str:
    return ("independent", "primary", "second", "further")[index % 4]
