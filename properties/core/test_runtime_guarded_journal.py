"""A journal that no honest worker can have written does not fold.

Each case takes a journal of one payment whose answer was lost and one finish, stops behind a given
kind of event, and appends what the protocol forbids there.
"""

from collections.abc import Callable

import msgspec
import pytest

from loopcore.runtime.amounts import NOTHING, Amounts
from loopcore.runtime.drafting import Batch, Stamp
from loopcore.runtime.payloads import (
    ActionDispatched,
    ActionReserved,
    CancelRequested,
    EffectReconciled,
    EvidenceValidated,
    Fence,
    FinishRefused,
    LeaseReleased,
    OutcomeObserved,
    Payload,
    ReservationSettled,
    ResumptionStarted,
    RunResumed,
    StateCommitted,
    payload_of,
)
from loopcore.runtime.protocol import fold, fold_all
from loopcore.runtime.state import Action, State
from loopcore.runtime.tools import act, finish, tool
from loopcore.runtime.virtual import run_virtually
from loopcore.store.journal import Event, InvalidEvent, chain
from properties.core.runner_worlds import Effects, Stores, policy, run, runner


def journal() -> list[Event]:
    """Return the journal that every case is cut from."""
    bank = Effects(lost=frozenset({0}))
    _, stores = run(
        lambda s: runner(
            s,
            [[act("pay", {"order": 1})], [finish()]],
            [tool("pay", bank.pay, cost_microunits_max=5)],
            reconciler=bank.find_out,
            under=policy(max_cost_microunits=7),
        )
    )
    return stores.events("r")


def _state(events: list[Event], behind: str) -> State:
    place = next(index for index, event in enumerate(events) if event.kind == behind)
    return fold_all(events[: place + 1])


def _try(state: State, payload: Payload, key: str | None, state_sha256: str | None = None) -> None:
    batch = Batch(state, Stamp(at_unix_ms=state.last_at_unix_ms))
    batch.add(payload, key=key, state_sha256=state_sha256)
    for event in batch.events():
        fold(state, event)


def _again(state: State, **changes: object) -> ActionReserved:
    action = state.actions["a1"].reserved
    small = Amounts(steps=1, tool_calls=1)
    return msgspec.structs.replace(action, **{"action": "a9", "reserved": small, **changes})


FORBIDDEN: list[tuple[str, str, Callable[[State], Payload], str]] = [
    ("settled twice", "reservation_settled",
     lambda s: ReservationSettled(action="a1", charged=NOTHING, complete=True, because="outcome"),
     "second time"),
    ("settled at zero after its outcome", "outcome_observed",
     lambda s: ReservationSettled(
         action="a1", charged=NOTHING, complete=True, because="not_called"), "was called"),
    ("settled without an outcome", "action_dispatched",
     lambda s: ReservationSettled(action="a1", charged=NOTHING, complete=True, because="outcome"),
     "no outcome"),
    ("dispatched twice", "action_dispatched",
     lambda s: ActionDispatched(action="a1", deadline_unix_ms=9), "not reserved"),
    ("an action that nobody reserved", "action_reserved",
     lambda s: ActionDispatched(action="a7", deadline_unix_ms=9), "no action"),
    ("dispatched again while unknown", "reservation_settled",
     lambda s: _again(s, attempt=2), "not over"),
    ("one name for two actions", "reservation_settled",
     lambda s: _again(s, action="a1", identity="b" * 64), "not a new one"),
    ("one identity with another payload", "state_committed",
     lambda s: _again(s, payload_sha256="c" * 64, attempt=2), "another payload"),
    ("over a budget", "state_committed",
     lambda s: _again(s, identity="d" * 64, reserved=Amounts(steps=1, cost_microunits=3)),
     "over a budget"),
    ("no effect without a fence", "reservation_settled",
     lambda s: EffectReconciled(action="a1", finding="verified_no_effect", reconciler="x"),
     "without a fence"),
    ("no effect behind another key's fence", "reservation_settled",
     lambda s: EffectReconciled(
         action="a1", finding="verified_no_effect", reconciler="x",
         fence=Fence(kind="key_refused", key="other")), "without a fence"),
    ("a second definitive outcome", "state_committed",
     lambda s: OutcomeObserved(action="a1", outcome="failed"), "awaits no such outcome"),
    ("late usage before the terminal", "state_committed",
     lambda s: OutcomeObserved(action="a1", outcome="failed", usage_late=True),
     "after the terminal"),
    ("a step that is not settled", "outcome_observed",
     lambda s: StateCommitted(action="a1", step=1, state_before_sha256=s.state_sha256),
     "settled action"),
    ("a step out of order", "effect_reconciled",
     lambda s: StateCommitted(action="a1", step=2, state_before_sha256=s.state_sha256),
     "does not follow"),
    ("a step from another state", "effect_reconciled",
     lambda s: StateCommitted(action="a1", step=1, state_before_sha256="e" * 64),
     "does not follow"),
    ("evidence that was seen", "evidence_validated",
     lambda s: EvidenceValidated(
         action="a2", accepted=tuple(sorted(s.evidence_seen)), rejected=()), "seen before"),
    ("a refused finish that is none", "state_committed",
     lambda s: FinishRefused(action="a1", reason=""), "no finish"),
    ("a resumption that is not due", "state_committed",
     lambda s: ResumptionStarted(owner="w", head_sequence=1, head_sha256="0" * 64), "resumed"),
    ("a lease of somebody else", "state_committed",
     lambda s: LeaseReleased(owner="nobody"), "does not hold"),
    ("a cancel request after the terminal", "terminal_committed",
     lambda s: CancelRequested(by="local", reason=""), "after the terminal"),
    ("a step after the terminal", "terminal_committed",
     lambda s: StateCommitted(action="a1", step=3, state_before_sha256=s.state_sha256),
     "after the terminal"),
    ("a successor of another receipt", "terminal_committed",
     lambda s: RunResumed(
         new_run_id="n", new_policy_sha256="0" * 64, receipt_sha256="1" * 64, by="w"),
     "another receipt"),
    ("a successor without a terminal", "state_committed",
     lambda s: RunResumed(
         new_run_id="n", new_policy_sha256="0" * 64, receipt_sha256="1" * 64, by="w"),
     "at most one successor"),
]  # fmt: skip


@pytest.mark.parametrize(
    ("behind", "make", "reason"),
    [case[1:] for case in FORBIDDEN],
    ids=[case[0] for case in FORBIDDEN],
)
def test_what_the_protocol_forbids_does_not_fold(
    behind: str, make: Callable[[State], Payload], reason: str
) -> None:
    state = _state(journal(), behind)
    payload = make(state)
    key = getattr(state.actions.get(getattr(payload, "action", "")), "key", "k" * 64)
    with pytest.raises(InvalidEvent, match=reason):
        _try(state, payload, key)


@pytest.mark.parametrize("kind", ["action_reserved", "action_dispatched"])
def test_nothing_is_admitted_behind_a_cancel_request(kind: str) -> None:
    events = journal()
    state = _state(events, "run_created" if kind == "action_reserved" else "action_reserved")
    _try(state, CancelRequested(by="local", reason=""), None)
    wanted = next(event for event in events if event.kind == kind)
    with pytest.raises(InvalidEvent, match="ending"):
        _try(state, payload_of(wanted), wanted.idempotency_key)


def test_a_terminal_with_something_unsettled_does_not_fold() -> None:
    events = journal()
    state = _state(events, "action_reserved")
    last = next(event for event in events if event.kind == "terminal_committed")
    with pytest.raises(InvalidEvent, match="not settled"):
        _try(state, payload_of(last), None)


def test_a_receipt_that_lies_about_usage_does_not_fold() -> None:
    events = journal()
    place = next(i for i, event in enumerate(events) if event.kind == "terminal_committed")
    payload = msgspec.json.decode(msgspec.json.encode(events[place].payload))
    payload["receipt"]["usage"]["tool_calls"] = 0
    state = fold_all(events[:place])
    lie = msgspec.structs.replace(events[place], payload=payload)
    (event,) = chain(state.head, [lie])
    with pytest.raises(InvalidEvent, match="usage"):
        fold(state, event)


def test_a_stamp_before_the_last_one_does_not_fold() -> None:
    events = journal()
    state = fold_all(events[:3])
    early = msgspec.structs.replace(events[3], at_unix_ms=events[2].at_unix_ms - 1)
    with pytest.raises(InvalidEvent, match="stamp"):
        fold(state, early)


def test_an_event_whose_state_is_not_the_fold_does_not_fold() -> None:
    events = journal()
    state = fold_all(events[:3])
    with pytest.raises(InvalidEvent, match="state"):
        fold(state, msgspec.structs.replace(events[3], state_sha256="f" * 64))


def test_a_driver_appends_nothing_that_does_not_fold(monkeypatch: pytest.MonkeyPatch) -> None:
    """The protocol is made to settle twice; the journal must not learn of it."""
    from loopcore.runtime import settlement

    honest = settlement.add_step

    def settles_again(
        batch: Batch, state: State, action: Action, state_after: str, *, ends: bool
    ) -> None:
        honest(batch, state, action, state_after, ends=ends)
        settlement.add_zero(batch, action, because="not_called")

    monkeypatch.setattr(settlement, "add_step", settles_again)
    stores = Stores()
    made = runner(stores, [[act("pay")]], [tool("pay", Effects().pay)])
    with pytest.raises(InvalidEvent):
        run_virtually(made.run("r"))
    assert "outcome_observed" not in stores.kinds("r")
    fold_all(stores.events("r"))
