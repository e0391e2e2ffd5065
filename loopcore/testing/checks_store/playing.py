"""Play a script of operations on a store and on the naive model, and compare every answer.

Theory of operation: a script says what is to be done in terms of where the journals stand ("append
to the current head", "with the epoch before"), and the model, which is right, says what that is. So
a script is plain JSON, and shortening it leaves it a script. A refusal must be one of those that
fit, and must have changed nothing: after it, and at the end, every journal is read.

Operations of a script: `append` (kinds, head, shift, fault, payload, fields, lease_ms), `renew`
(shift, lease_ms), `tick` (ms), `read` (after), `head`, `runs`, `reopen`; each with `run` and
`handle` where it has one. Choices: runs of a case have names of their own, so cases share a store.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import TypeAlias, cast

from loopcore.testing.contract import Case, Json, Judgement
from loopcore.testing.store_contract import StoreTarget
from loopcore.testing.store_model import GENESIS, NaiveStore, Record, named, spelled

Script: TypeAlias = "list[dict[str, Json]]"

START_MS = 1_700_000_000_000
LEASE_MS = 1000
# Where an append can put itself; `earlier` is the event before the head.
HEADS = ("current", "earlier", "genesis", "other run", "unknown")
_SHOWN_CHARACTERS_MAX = 300


@dataclass(slots=True, kw_only=True)
class Played:
    """What a script showed: the first wrong answer, and what it went through."""

    finding: str | None = None
    expected: object = None
    got: object = None
    labels: list[str] = field(default_factory=list[str])

    def judgement(self, topics: Sequence[str]) -> Judgement:
        """Return it as a judgement that only counts when one of the topics was met."""
        words = {label.partition(":")[0] for label in self.labels}
        return Judgement(
            finding=self.finding,
            vacuous=self.finding is None and words.isdisjoint(topics),
            labels=tuple(dict.fromkeys(self.labels)),
            expected=self.expected,
            got=self.got,
        )


def script_of(case: Case) -> Script:
    """Return a case's script."""
    return cast("Script", case["script"])


def play(target: StoreTarget, script: Script) -> Played:
    """Return what a script shows of a store; raise TargetError where the store gives no answer."""
    return Player(target).play(script)


def draft(run_id: str, kind: str, payload: Json, fields: Record | None = None) -> Record:
    """Return an event that is not linked yet."""
    event: Record = {
        "schema": "loopcore/event/1",
        "run_id": run_id,
        "kind": kind,
        "policy_sha256": "1" * 64,
        "state_sha256": "2" * 64,
        "principal": "worker",
        "tenant": "tenant",
        "grant_sha256": "3" * 64,
        "idempotency_key": None,
        "producer_release": "suite/1",
        "model_version": None,
        "prompt_version": None,
        "tool_version": None,
        "at_unix_ms": START_MS,
        "clock": "simulated",
        "payload": payload,
    }
    return {**event, **(fields or {})}


def linked(drafts: Sequence[Record], sequence: int, digest: str, epoch: int) -> list[Record]:
    """Return drafts as events behind a head, whose epoch is the one before them."""
    events: list[Record] = []
    for each in drafts:
        sequence += 1
        epoch += each["kind"] == "lease_acquired"
        event = {**each, "sequence": sequence, "previous_event_sha256": digest, "epoch": epoch}
        digest = named(event)
        events.append(event)
    return events


class Player:
    """A store and its model, side by side, on runs that are this player's own."""

    def __init__(self, target: StoreTarget) -> None:
        self._target = target
        self._space = target.namespace()
        self.model = NaiveStore(START_MS)
        self._touched: list[str] = []
        self.played = Played()

    def name(self, operation: dict[str, Json]) -> str:
        """Return the id of an operation's run."""
        name = self._space + str(operation.get("run", "a"))
        if name not in self._touched:
            self._touched.append(name)
        return name

    def play(self, script: Script) -> Played:
        """Return what a script shows, which ends with the first wrong answer."""
        for place, operation in enumerate(script):
            self.step(operation, place)
            if self.played.finding is not None:
                return self.played
        self.read_everything("at the end")
        return self.played

    def step(self, operation: dict[str, Json], place: int) -> None:
        """Do one operation, the one at this place of a script."""
        step: Callable[[dict[str, Json], int], None] = getattr(self, f"_{operation['do']}")
        step(operation, place)

    def ask(self, operation: dict[str, Json]) -> dict[str, object]:
        """Return the store's answer to an operation, at the model's time."""
        return self._target.perform({**operation, "now": self.model.now_ms})

    def compare(self, what: str, expected: object, got: object) -> None:
        """Note a wrong answer, if it is the first."""
        if expected != got and self.played.finding is None:
            words = f"{what} gave {_cut(got)}, and {_cut(expected)} was expected"
            self.played.finding, self.played.expected, self.played.got = words, expected, got

    def refused(self, what: str, fitting: frozenset[str], answer: dict[str, object]) -> None:
        """Note whether an answer is one of the fitting refusals, or none where none fits."""
        name = answer.get("refused")
        if name not in fitting:
            expected = " or ".join(sorted(fitting)) or "no refusal"
            self.compare(what, expected, name or "no refusal")

    def read_everything(self, when: str, handle: Json = 0) -> None:
        """Compare every journal and every head with the model's."""
        for run_id in self._touched:
            run = self.model.run(run_id)
            self._see(run_id, 0, handle, f"reading {run_id} {when}")
            got = self.ask({"do": "head", "run": run_id, "handle": handle})
            self.compare(f"the head of {run_id} {when}", {"head": run.head()}, got)

    def _see(self, run_id: str, after: int, handle: Json, what: str) -> None:
        events = [spelled(event) for event in self.model.run(run_id).events[after:]]
        got = self.ask({"do": "read", "run": run_id, "after": after, "handle": handle})
        self.compare(what, {"events": events}, got)

    def _append(self, operation: dict[str, Json], place: int) -> None:
        run_id = self.name(operation)
        request, events = self.request(operation, run_id)
        answer = self.ask({"do": "append", "handle": operation.get("handle", 0), **request})
        fault = operation.get("fault")
        label = self.played.labels.append
        if fault is not None:
            fitting = frozenset({"InvalidEvent"})
            label(f"fault:{fault}")
        else:
            epoch = cast("int", request["epoch"])
            fitting = self.model.append(run_id, str(request["expected_head"]), epoch, events)
            label(f"head:{operation.get('head', 'current')}")
            if operation.get("handle"):
                label("handle:another")
        for name in fitting or ("accepted",):
            label(f"append:{name}")
        what = f"operation {place + 1}, the append of {' + '.join(_kinds(operation))},"
        self.refused(what, fitting, answer)
        if fitting:
            self.read_everything(f"after the refusal of operation {place + 1}")
        else:
            head = {"head": self.model.run(run_id).head()}
            self.compare(what, head, answer)

    def request(
        self, operation: dict[str, Json], run_id: str
    ) -> tuple[dict[str, Json], list[Record]]:
        """Return what an append asks the store, and its events."""
        run = self.model.run(run_id)
        sequence, digest = self._place(str(operation.get("head", "current")), run_id)
        kinds = _kinds(operation)
        if run.events and kinds[:2] == ["run_created", "lease_acquired"]:
            # The run was opened before; what is left is to take its lease.
            kinds = kinds[1:]
        shift = cast("int", operation.get("shift", 0))
        takes = "lease_acquired" in kinds
        epoch = max(run.epoch() + takes + shift, int(takes))
        fields = cast("Record | None", operation.get("fields"))
        drafts = [draft(run_id, kind, self._payload(kind, operation), fields) for kind in kinds]
        events = linked(drafts, sequence, digest, epoch - takes)
        if operation.get("fault") is not None:
            from loopcore.testing.checks_store.faults import FAULTS

            place = cast("int", operation.get("place", 0)) % max(len(events), 1)
            events = FAULTS[str(operation["fault"])](events, place)
        request: dict[str, Json] = {"run": run_id, "expected_head": digest, "epoch": epoch}
        return {**request, "events": cast("list[Json]", events)}, events

    def _payload(self, kind: str, operation: dict[str, Json]) -> Json:
        if kind == "lease_acquired":
            return {"duration_ms": operation.get("lease_ms", LEASE_MS)}
        return operation.get("payload", {})

    def _place(self, head: str, run_id: str) -> tuple[int, str]:
        """Return the sequence and digest that a script means."""
        run = self.model.run(run_id)
        last = len(run.events)
        if head == "earlier" and last:
            return last - 1, run.digest(last - 1)
        if head == "genesis":
            return 0, GENESIS
        if head == "unknown":
            return last, named({"no": "event"})
        others = [name for name in self.model.runs() if name != run_id]
        if head == "other run" and others:
            other = self.model.run(others[0])
            return len(other.events), other.digest()
        return last, run.digest()

    def _renew(self, operation: dict[str, Json], place: int) -> None:
        run_id = self.name(operation)
        epoch = max(self.model.run(run_id).epoch() + cast("int", operation.get("shift", 0)), 0)
        duration = cast("int", operation.get("lease_ms", LEASE_MS))
        request: dict[str, Json] = {"run": run_id, "epoch": epoch, "duration_ms": duration}
        answer = self.ask({"do": "renew", "handle": operation.get("handle", 0), **request})
        fitting = self.model.renew(run_id, epoch, duration)
        self.played.labels += [f"renewal:{name}" for name in fitting or ("accepted",)]
        self.refused(f"operation {place + 1}, a renewal,", fitting, answer)

    def _tick(self, operation: dict[str, Json], place: int) -> None:
        del place
        self.model.now_ms += cast("int", operation["ms"])
        self.played.labels.append(
            "clock:forth" if cast("int", operation["ms"]) > 0 else "clock:back"
        )

    def _read(self, operation: dict[str, Json], place: int) -> None:
        run_id, after = self.name(operation), cast("int", operation.get("after", 0))
        length = len(self.model.run(run_id).events)
        where = "whole" if after == 0 else "behind" if after < length else "beyond the end"
        self.played.labels.append(f"read:{where if length else 'empty'}")
        what = f"operation {place + 1}, reading behind {after},"
        self._see(run_id, after, operation.get("handle", 0), what)

    def _head(self, operation: dict[str, Json], place: int) -> None:
        run_id = self.name(operation)
        got = self.ask({"do": "head", "run": run_id, "handle": operation.get("handle", 0)})
        what = f"operation {place + 1}, the head,"
        self.compare(what, {"head": self.model.run(run_id).head()}, got)

    def _runs(self, operation: dict[str, Json], place: int) -> None:
        answer = self.ask({"do": "runs", "handle": operation.get("handle", 0)})
        listed = cast("list[str]", answer.get("runs", []))
        got = [name for name in listed if name.startswith(self._space)]
        self.played.labels.append(f"runs:{min(len(self.model.runs()), 2)}")
        self.compare(f"operation {place + 1}, the list of runs,", self.model.runs(), got)

    def _reopen(self, operation: dict[str, Json], place: int) -> None:
        del operation
        self.ask({"do": "reopen"})
        self.played.labels.append("store:reopened")
        self.read_everything(f"after operation {place + 1} opened the store again")


def _kinds(operation: dict[str, Json]) -> list[str]:
    return cast("list[str]", operation.get("kinds", ["state_committed"]))


def _cut(value: object) -> str:
    text = value if isinstance(value, str) else spelled({"": value})[4:-1]
    return text if len(text) <= _SHOWN_CHARACTERS_MAX else text[:_SHOWN_CHARACTERS_MAX] + "…"
