"""The ledger of one run: a naive second statement of what its journal may say.

Theory of operation: every event is read here as plain JSON the moment it stands in the journal,
before any worker folds it, and held against the rules R01 to R12 and against what really happened
behind the boundary. Nothing of the runner's own fold is used, so a rule that was lost there still
stands here. Sums are vectors of integers in the order of `MEMBERS`.

Source: spec verification, section 2 (R01 to R12); spec runtime, sections 1 to 5.
"""

from __future__ import annotations

import json
from hashlib import sha256
from typing import TypeAlias, cast

import msgspec

from loopcore.models import Policy
from loopcore.runtime.amounts import BOUNDS, MEMBERS
from loopcore.store.journal import Event
from loopcore.testing.simulation.effects import Effects
from loopcore.testing.simulation.tape import Broken

Vector: TypeAlias = "tuple[int, ...]"
ZERO: Vector = (0,) * len(MEMBERS)
_METERED = ("cost_microunits", "input_tokens", "output_tokens")
# What may follow a terminal, from the words of the specification.
_AFTERWARDS = {
    "lease_acquired",
    "lease_released",
    "effect_reconciled",
    "outcome_observed",
    "run_resumed",
}
# What a client without a lease may write.
_BY_CLIENTS = {"run_created", "cancel_requested"}


def plus(one: Vector, other: Vector) -> Vector:
    """Return the sum of two vectors."""
    return tuple(map(sum, zip(one, other, strict=True)))


class Entry:
    """What the journal said of one action so far."""

    __slots__ = (
        "charged", "committed", "dispatched", "effect", "identity", "key", "late", "measured",
        "name", "outcome", "reserved", "status",
    )  # fmt: skip

    def __init__(self, name: str, payload: dict[str, object], key: str, *, effect: bool) -> None:
        self.name = name
        self.key = key
        self.identity = str(payload["identity"])
        self.reserved = _vector(payload["reserved"])
        self.effect = effect
        self.status = "reserved"
        self.outcome: str | None = None
        self.measured: dict[str, object] = {}
        self.charged: Vector | None = None
        self.dispatched = False
        self.committed = False
        self.late = ZERO


class Ledger:
    """One run's journal, as far as it was read.

    Arguments:
        effects: what really happened. before: the ledger of the run that this one continues.
    """

    def __init__(self, effects: Effects, before: Ledger | None = None) -> None:
        self._effects = effects
        self._policy: Policy | None = None
        # Tools of which no effect is seen behind the boundary: readers, the verifier, children.
        self._effectless: set[str] = {"finish"}
        self._parallel_max = 0
        self._clients: set[object] = set()
        self.sequence, self.digest, self.epoch = 0, "0" * 64, 0
        self.at_ms = 0
        self.owner: str | None = None
        self.lease_until_ms: int | None = None
        self.entries: dict[str, Entry] = {} if before is None else dict(before.entries)
        self.attempts: dict[str, list[Entry]] = {} if before is None else dict(before.attempts)
        self.charged: Vector = ZERO if before is None else plus(before.charged, before.late)
        self.outstanding = ZERO
        self.committed: Vector = ZERO if before is None else before.committed
        self.late: Vector = ZERO
        self.cancelled_at_ms: int | None = None
        # Whether the run was bound to end for another reason when it was cancelled.
        self.was_ending = False
        self.terminal: str | None = None
        self.open_children: set[str] = set()
        self.resumed = False

    def take(self, event: Event, by: str, store_now_ms: int) -> None:
        """Read one more event; raise Broken naming the first rule that it breaks.

        Arguments:
            by: the worker or client that appended it.
        """
        self._link(event)
        self._authority(event, by, store_now_ms)
        payload = event.payload
        match event.kind:
            case "run_created":
                self._created(payload)
            case "action_reserved":
                self._reserved(event, payload)
            case "action_dispatched":
                self._dispatched(payload)
            case "outcome_observed":
                self._observed(payload)
            case "effect_reconciled":
                self._reconciled(payload)
            case "reservation_settled":
                self._settled(payload)
            case "state_committed":
                self._committed(payload)
            case "child_created":
                self.open_children.add(str(payload["child_run_id"]))
            case "cancel_requested":
                if self.cancelled_at_ms is not None or self.terminal is not None:
                    raise Broken("R05", "a cancel request where none may stand")
                if payload["by"] not in self._clients:
                    raise Broken("R07", f"{payload['by']} is no client of this run")
                self.cancelled_at_ms = event.at_unix_ms
            case "run_resumed":
                if self.terminal is None or self.resumed:
                    raise Broken("R10", "a second successor, or one of a run that goes on")
                self.resumed = True
            case "terminal_committed":
                self._ended(event, cast("dict[str, object]", payload["receipt"]))
            case _:
                pass

    def _created(self, payload: dict[str, object]) -> None:
        if self._policy is not None:
            raise Broken("R03", "the run is created twice")
        self._policy = msgspec.convert(payload["policy"], Policy)
        envelope = cast("dict[str, object]", payload["envelope"])
        rules = cast("dict[str, object]", envelope["rules"])
        self._clients = {envelope["principal"], *cast("list[object]", envelope["clients"])}
        self._parallel_max = cast("int", rules["parallel_max"])
        for tool in cast("list[dict[str, object]]", envelope["tools"]):
            if tool["effect"] == "none" or tool["child"]:
                self._effectless.add(str(tool["name"]))

    def _link(self, event: Event) -> None:
        if (event.sequence, event.previous_event_sha256) != (self.sequence + 1, self.digest):
            raise Broken("R03", f"event {event.sequence} is not linked to event {self.sequence}")
        if event.at_unix_ms < self.at_ms:
            raise Broken("R03", f"event {event.sequence} is stamped before the last one")
        self.sequence, self.at_ms = event.sequence, event.at_unix_ms
        self.digest = naive_digest(event)

    def _authority(self, event: Event, by: str, store_now_ms: int) -> None:
        """Let only the holder of the epoch write, and only what may still be written."""
        kind = event.kind
        if self.terminal is not None:
            late = kind != "outcome_observed" or event.payload["usage_late"] is True
            if kind not in _AFTERWARDS or not late:
                raise Broken("R05", f"a {kind} after the terminal")
        if kind == "lease_acquired":
            held = self.lease_until_ms is not None and store_now_ms < self.lease_until_ms
            if event.epoch != self.epoch + 1 or held:
                raise Broken("R07", f"{by} took a lease that {self.owner} holds")
            self.epoch, self.owner = event.epoch, by
            self.lease_until_ms = store_now_ms + cast("int", event.payload["duration_ms"])
            return
        if event.epoch != self.epoch:
            raise Broken("R07", f"a {kind} of epoch {event.epoch} in the epoch {self.epoch}")
        stillborn = self.epoch == 0 and not self.entries and self.cancelled_at_ms is not None
        if kind not in _BY_CLIENTS and by != self.owner and not stillborn:
            raise Broken("R07", f"{by} wrote a {kind} in the epoch of {self.owner}")
        if kind == "lease_released":
            self.lease_until_ms = None

    def _entry(self, payload: dict[str, object], rule: str) -> Entry:
        entry = self.entries.get(str(payload["action"]))
        if entry is None:
            raise Broken(rule, f"nothing was reserved for {payload['action']}")
        return entry

    def _over(self) -> None:
        if self.cancelled_at_ms is not None or self.terminal is not None:
            raise Broken("R05", "an action after the terminal or a cancel request")

    def _reserved(self, event: Event, payload: dict[str, object]) -> None:
        self._over()
        name, tool = str(payload["action"]), str(payload["tool"])
        effect = tool not in self._effectless
        entry = Entry(name, payload, str(event.idempotency_key), effect=effect)
        if name in self.entries:
            raise Broken("R06", f"{name} is reserved twice")
        self.entries[name] = entry
        self.attempts.setdefault(entry.identity, []).append(entry)
        self.outstanding = plus(self.outstanding, entry.reserved)
        total, policy = plus(self.charged, self.outstanding), self._policy
        for bound in BOUNDS:
            limit = cast("int | None", getattr(policy, bound.field))
            if limit is not None and total[MEMBERS.index(bound.member)] > limit:
                raise Broken("R02", f"{name} is reserved over {bound.field}")
        if policy is None or event.at_unix_ms >= policy.deadline_unix_ms:
            raise Broken("R02", f"{name} is reserved at the deadline")

    def _dispatched(self, payload: dict[str, object]) -> None:
        self._over()
        entry = self._entry(payload, "R06")
        if entry.status != "reserved":
            raise Broken("R08", f"{entry.name} is dispatched, and it is {entry.status}")
        for earlier in self.attempts[entry.identity]:
            if earlier is entry or not entry.effect:
                continue
            if earlier.outcome is None and earlier.status != "dropped":
                raise Broken("R08", f"{entry.name} repeats {earlier.name}, of which nobody knows")
            if earlier.outcome == "succeeded":
                raise Broken("R01", f"{entry.name} repeats {earlier.name}, which succeeded")
        entry.status, entry.dispatched = "dispatched", True
        running = sum(1 for each in self.entries.values() if each.status == "dispatched")
        if running > self._parallel_max:
            raise Broken("R02", f"{running} calls at a time")

    def _observed(self, payload: dict[str, object]) -> None:
        entry, outcome = self._entry(payload, "R06"), str(payload["outcome"])
        measured = cast("dict[str, object]", payload["measured"])
        if payload["usage_late"]:
            self._late_usage(entry, measured)
            return
        if payload["late"]:
            # A step that was committed as indeterminate decided the run; what comes then is late.
            if entry.outcome is None and entry.status != "dropped" and not entry.committed:
                raise Broken("R06", f"the first outcome of {entry.name} is called a late one")
            return
        if entry.outcome is not None or not entry.dispatched or entry.status == "dropped":
            raise Broken("R06", f"an outcome of {entry.name}, which awaits none")
        if outcome == "indeterminate":
            entry.status, entry.measured = "unknown", measured
            return
        self._truth(entry, outcome)
        entry.status, entry.outcome, entry.measured = "known", outcome, measured

    def _late_usage(self, entry: Entry, measured: dict[str, object]) -> None:
        """Charge what was reported after the terminal, above what was charged already, once."""
        if entry.charged is None:
            return
        due = _charge(entry.reserved, measured)
        known = plus(entry.charged, entry.late)
        more = tuple(max(0, new - old) for new, old in zip(due, known, strict=True))
        entry.late = plus(entry.late, more)
        self.late = plus(self.late, more)

    def _truth(self, entry: Entry, outcome: str) -> None:
        """Compare an outcome with what really happened."""
        if not entry.effect:
            return
        effects, key = self._effects, entry.key
        if outcome == "succeeded" and key not in effects.done:
            raise Broken("R08", f"{entry.name} is said to have succeeded, and nothing happened")
        if outcome == "failed" and (key in effects.done or key not in effects.denied):
            raise Broken("R08", f"{entry.name} is failed by guess")

    def _reconciled(self, payload: dict[str, object]) -> None:
        entry, finding = self._entry(payload, "R08"), payload["finding"]
        if finding == "still_indeterminate" or payload["late"]:
            return
        done = entry.key in self._effects.done
        if finding == "verified_success" and not done:
            raise Broken("R08", f"an effect of {entry.name} is verified that never happened")
        if finding == "verified_no_effect" and (done or not self._effects.is_over(entry.key)):
            raise Broken("R08", f"no effect of {entry.name} is verified without a fence")
        entry.outcome = "succeeded" if finding == "verified_success" else "failed"
        if self.terminal is None:
            entry.measured = cast("dict[str, object]", payload["measured"])
        entry.status = "known"

    def _settled(self, payload: dict[str, object]) -> None:
        entry, because = self._entry(payload, "R06"), payload["because"]
        charged = _vector(payload["charged"])
        if entry.charged is not None:
            raise Broken("R06", f"{entry.name} is settled a second time")
        expected = _charge(entry.reserved, entry.measured)
        if because in ("never_called", "not_called"):
            if self._effects.crossings[entry.key]:
                raise Broken("R06", f"{entry.name} is settled at zero, and it was called")
            expected, entry.status = ZERO, "dropped"
        elif because == "indeterminate":
            expected = tuple(map(max, expected, entry.reserved))
        elif entry.outcome is None:
            raise Broken("R06", f"{entry.name} is settled without an outcome")
        if charged != expected:
            raise Broken("R06", f"{entry.name} is settled at {charged}, and {expected} is due")
        entry.charged = charged
        self.charged = plus(self.charged, charged)
        self.outstanding = tuple(
            old - held for old, held in zip(self.outstanding, entry.reserved, strict=True)
        )

    def _committed(self, payload: dict[str, object]) -> None:
        entry = self._entry(payload, "R06")
        if entry.committed or entry.charged is None or entry.status == "dropped":
            raise Broken("R06", f"{entry.name} is no settled action without a step")
        if payload["step"] != self.committed[0] + 1:
            raise Broken(
                "R04", f"{entry.name} is step {payload['step']} behind {self.committed[0]}"
            )
        entry.committed = True
        self.committed = plus(self.committed, entry.charged)

    def _ended(self, event: Event, receipt: dict[str, object]) -> None:
        for entry in self.entries.values():
            if entry.charged is None:
                raise Broken("R06", f"the run ends, and {entry.name} is not settled")
        usage = cast("dict[str, int]", receipt["usage"])
        if tuple(usage[name] for name in MEMBERS) != self.committed:
            raise Broken("R04", "the receipt's usage is not what the journal says")
        listed = {
            str(effect["action"])
            for effect in cast("list[dict[str, object]]", receipt["open_effects"])
        }
        unknown = self.unknown()
        if listed != unknown:
            raise Broken(
                "R08", f"the receipt names {sorted(listed)}, and open is {sorted(unknown)}"
            )
        if self.open_children:
            raise Broken("R11", f"the run ends before its child {min(self.open_children)}")
        self.terminal = str(receipt["terminal"])
        cancelled = self.cancelled_at_ms is not None
        if self.terminal == "cancelled" and not cancelled:
            raise Broken("R11", "a run ends as cancelled that nobody cancelled")
        between = receipt["on_step"] is None and not self.was_ending
        if cancelled and between and self.terminal != "cancelled":
            raise Broken("R11", f"a run that was cancelled ends as {self.terminal}")

    def unknown(self) -> set[str]:
        """Return every dispatch of which nobody knows what became of it."""
        return {
            name
            for name, entry in self.entries.items()
            if entry.dispatched and entry.outcome is None and entry.status != "dropped"
        }

    def check_crossing(self, action: str) -> None:
        """Raise Broken where a call may not cross the boundary, as far as the journal tells."""
        entry = self.entries.get(action)
        if entry is None or not entry.dispatched:
            raise Broken("R08", f"{action} crosses the boundary before its dispatch is durable")
        if entry.status == "dropped":
            raise Broken("R06", f"{action} crosses the boundary, and it is settled at zero")

    def check_sums(self, charged: Vector, outstanding: Vector) -> None:
        """Raise Broken where a worker's fold has other sums than the journal."""
        if charged != plus(self.charged, self.late):
            raise Broken("R04", f"the fold has charged {charged}, the journal {self.charged}")
        if outstanding != self.outstanding:
            raise Broken("R04", f"the fold holds {outstanding}, the journal {self.outstanding}")


def _vector(amounts: object) -> Vector:
    values = cast("dict[str, int]", amounts)
    return tuple(values[name] for name in MEMBERS)


def _charge(reserved: Vector, measured: dict[str, object]) -> Vector:
    """Return what is due for a call: measured where it was, reserved where it was not."""
    due = list(reserved)
    calls_model = reserved[MEMBERS.index("model_calls")] > 0
    for name in _METERED:
        value = measured.get(name)
        if isinstance(value, int) and (calls_model or name == "cost_microunits"):
            due[MEMBERS.index(name)] = value
    return tuple(due)


def naive_digest(event: Event) -> str:
    """Return an event's digest by the standard library alone."""
    plain = msgspec.to_builtins(event)
    text = json.dumps(plain, sort_keys=True, separators=(",", ":"), ensure_ascii=False)
    return sha256(text.encode()).hexdigest()
