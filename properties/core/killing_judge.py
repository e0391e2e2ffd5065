"""What must hold of a journal and the service's own ledger, wherever a process was killed.

The judge reads the events by themselves: what was dispatched under each key, and what the journal
then says of it. Effects, crossings and fences come from the service, which the runner cannot touch.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from typing import Literal

from loopcore.runtime.folding import fold_all
from loopcore.runtime.payloads import (
    ActionReserved,
    EffectReconciled,
    OutcomeObserved,
    ReservationSettled,
    RunReceipt,
    TerminalCommitted,
    payload_of,
)
from loopcore.runtime.payment_example_service import Ledger
from loopcore.store.journal import Event, verify_journal
from properties.core.runner_worlds import agreed

# What a journal says of a key: dispatched and nobody knows, or how it came out.
Standing = Literal["reserved", "open", "succeeded", "failed", "never called"]


def standings(events: Sequence[Event]) -> dict[str, Standing]:
    """Return what the journal says of each key of a payment."""
    keys: dict[str, str] = {}
    found: dict[str, Standing] = {}
    for event in events:
        payload = payload_of(event)
        if isinstance(payload, ActionReserved) and payload.tool == "pay":
            keys[payload.action] = event.idempotency_key or ""
            found[keys[payload.action]] = "reserved"
        key = keys.get(str(event.payload.get("action")), "")
        if key and event.kind == "action_dispatched":
            assert found[key] == "reserved", "dispatched twice"
            found[key] = "open"
        if not key or found[key] not in ("open", "reserved"):
            continue
        match payload:
            case OutcomeObserved() if payload.outcome != "indeterminate":
                found[key] = "succeeded" if payload.outcome == "succeeded" else "failed"
            case EffectReconciled() if payload.finding == "verified_success":
                found[key] = "succeeded"
            case EffectReconciled() if payload.finding == "verified_no_effect":
                found[key] = "failed"
            case ReservationSettled() if payload.because in ("never_called", "not_called"):
                found[key] = "never called"
            case _:
                pass
    return found


def judged(events: Sequence[Event], ledger: Ledger) -> dict[str, Standing]:
    """Assert what holds at any moment of a run; return what the journal says of each key."""
    assert verify_journal(events).verdict != "invalid"
    fold_all(events)
    if events:
        agreed(events)
    found = standings(events)
    assert ledger.duplicates() == (), "an effect was made twice"
    crossed = [payment.key for payment in ledger.crossings]
    assert len(set(crossed)) == len(crossed), "a key crossed the boundary twice"
    assert {found.get(key) for key in crossed} <= {"open", "succeeded", "failed"}, (
        "a call crossed without a dispatch"
    )
    for effect in ledger.effects:
        assert found.get(effect.key) in ("open", "succeeded"), "an effect that nobody knows of"
    paid = {effect.key for effect in ledger.effects}
    assert {key for key, standing in found.items() if standing == "succeeded"} <= paid
    failed = {key for key, standing in found.items() if standing == "failed"}
    assert failed <= ledger.fences, "no effect was said without a fence"
    settled = Counter(
        event.payload["action"] for event in events if event.kind == "reservation_settled"
    )
    assert all(count == 1 for count in settled.values()), "settled twice"
    return found


def receipt_of(events: Sequence[Event]) -> RunReceipt:
    """Return the one receipt of a run that is over."""
    payloads = [payload_of(event) for event in events]
    (receipt,) = [one.receipt for one in payloads if isinstance(one, TerminalCommitted)]
    return receipt


def judged_as_completed(events: Sequence[Event], ledger: Ledger, orders: int) -> RunReceipt:
    """Assert that the run is over and each account was paid once; return its receipt."""
    found = judged(events, ledger)
    receipt = receipt_of(events)
    assert receipt.terminal == "completed", receipt.reason
    assert receipt.open_effects == ()
    assert "open" not in found.values()
    assert "reserved" not in found.values()
    assert {key for key, standing in found.items() if standing == "succeeded"} == {
        effect.key for effect in ledger.effects
    }
    accounts = Counter(effect.account for effect in ledger.effects)
    assert accounts == Counter({f"account-{order}": 1 for order in range(orders)})
    return receipt
