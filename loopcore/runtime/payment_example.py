"""A first example: an agent that pays over a lossy connection, and survives `kill -9` anywhere.

    python -m loopcore.runtime.payment_example --folder shop

Theory of operation: the agent is a script without memory; it pays what the run's history does not
show as paid. The journal and the service each have a file in the folder. End the program at any
moment and start it again: it goes on where the journal ends, asks the service about a call whose
outcome nobody knows, and pays the rest. What it prints in the end comes from the journal and from
the service's own ledger, read apart, so that each checks the other.

Choices: the lease is short, so that a new start does not wait long for the one that was killed.

Source: spec runtime, sections 2 to 4.
"""

from __future__ import annotations

import argparse
import asyncio
import sqlite3
import sys
import time
from collections.abc import Sequence
from contextlib import closing
from pathlib import Path
from typing import NoReturn

from loopcore.errors import LoopcoreError, UsageError
from loopcore.runtime.clocks import Clock
from loopcore.runtime.envelope import Rules
from loopcore.runtime.messages import Finding, Proposal, Reconcile
from loopcore.runtime.payloads import RunReceipt, TerminalCommitted, payload_of
from loopcore.runtime.payment_example_service import KeyRefused, Payment, PaymentService
from loopcore.runtime.policies import run_policy
from loopcore.runtime.projection import agreement
from loopcore.runtime.runner import Runner
from loopcore.runtime.scopes import Scope
from loopcore.runtime.tools import (
    Accepted,
    Planned,
    Planner,
    Refused,
    ToolCall,
    ToolFailed,
    ToolResult,
    Verdict,
    act,
    finish,
    tool,
    verified_no_effect,
    verified_success,
)
from loopcore.runtime.views import View
from loopcore.store.contract import Store
from loopcore.store.journal import Event
from loopcore.store.sqlite import SqliteStore

RUN = "payments"
AMOUNT = 10
ORDERS_MAX = 100
PAUSE_MS_MAX = 60_000
# With this seed the connection loses answers, and one request arrives after others.
SEED = 3
SEED_MAX = 2**63 - 1
DIGITS_MAX = 20
# The two files in the folder: the runner's, and the service's own.
JOURNAL, SERVICE = "journal.db", "service.db"
LEASE_MS = 2_000
# Enough for a connection that loses as many answers as this one does.
CALLS_EACH = 10
EXIT_OK, EXIT_WANTING, EXIT_INPUT, EXIT_INTERRUPTED = 0, 1, 2, 130


def account(order: int) -> str:
    """Return whom an order pays."""
    return f"account-{order}"


def paying(orders: int, *, at_once: int = 1) -> Planner:
    """Return a planner without memory: proposes what the history does not show as paid."""

    def propose(view: View) -> Planned:
        paid = {r.arguments for r in view.history if r.tool == "pay" and r.outcome == "succeeded"}
        wanted: list[Proposal] = []
        for order in range(orders):
            proposal = act("pay", {"account": account(order), "amount": AMOUNT})
            if proposal.arguments not in paid:
                wanted.append(proposal)
        return wanted[:at_once] if wanted else finish({"paid": orders})

    return propose


def payment_runner(  # noqa: PLR0913 a test says what differs from the example
    store: Store,
    service: PaymentService,
    *,
    orders: int = 3,
    at_once: int = 1,
    pause_ms: int = 0,
    calls_max: int | None = None,
    lease_ms: int = LEASE_MS,
    scopes: Sequence[Scope] = (),
    clock: Clock | None = None,
    worker: str | None = None,
) -> Runner:
    """Return the example's agent, ready to run or to go on.

    Arguments:
        orders: how many accounts are paid once each; at_once: calls side by side.
        pause_ms: how long each answer takes, for people who want to end the agent meanwhile.
        calls_max: the policy's bound on calls; None leaves room for what the connection loses.
    """

    def pay(call: ToolCall) -> ToolResult:
        request = Payment(
            key=call.idempotency_key,
            identity=call.identity,
            account=str(call.arguments["account"]),
            amount=AMOUNT,
        )
        try:
            answer = service.pay(request)
        except KeyRefused as refused:
            raise ToolFailed(str(refused), error_class="key_refused") from None
        finally:
            time.sleep(pause_ms / 1_000)
        return ToolResult(output=answer, evidence=(call.evidence(answer),))

    def ask(question: Reconcile) -> Finding:
        key = question.idempotency_key
        return verified_success() if service.was_paid(key) else verified_no_effect(key)

    def verify(view: View, claim: str) -> Verdict:
        del view, claim
        paid = {payment.account for payment in service.ledger().effects}
        missing = [account(order) for order in range(orders) if account(order) not in paid]
        if missing:
            return Refused(reason=f"{missing[0]} is not paid")
        return Accepted(subject=f"{orders} accounts are paid")

    calls = CALLS_EACH * (orders + 1)
    return Runner(
        policy=run_policy(
            RUN,
            max_tool_calls=calls if calls_max is None else calls_max,
            max_steps=calls + 1,
            max_consecutive_no_progress=calls,
            max_consecutive_repeated_actions=calls,
        ),
        planner=paying(orders, at_once=at_once),
        tools=[tool("pay", pay, effect="unsafe", parameters=("account", "amount"))],
        verifier=verify,
        reconciler=ask,
        store=store,
        task=f"pay {orders} accounts {AMOUNT} each",
        # A kill while it is verified counts as a fault of the verifier.
        rules=Rules(lease_ms=lease_ms, verifier_faults_max=calls),
        scopes=scopes,
        clock=clock,
        worker=worker,
    )


def told(events: Sequence[Event], service: PaymentService) -> list[str]:
    """Return what the journal and the service's ledger say, in lines for people."""
    kinds = [event.kind for event in events]
    payloads = [payload_of(event) for event in events]
    receipts = [one.receipt for one in payloads if isinstance(one, TerminalCommitted)]
    ledger = service.ledger()
    paid = {payment.account: payment.amount for payment in ledger.effects}
    verdict = agreement(events)
    return [
        f"run {RUN}: {receipts[-1].terminal if receipts else 'not over'}",
        f"journal: {len(events)} events, {kinds.count('lease_acquired')} starts,"
        f" {kinds.count('action_dispatched')} dispatches,"
        f" {kinds.count('effect_reconciled')} outcomes found out by asking",
        f"service: {len(ledger.crossings)} requests, {len(ledger.effects)} payments,"
        f" {len(ledger.fences)} keys refused for good, {len(ledger.duplicates())} paid twice",
        *(f"  {name} got {amount}" for name, amount in sorted(paid.items())),
        f"agreement: {verdict.reason}",
    ]


class _Parser(argparse.ArgumentParser):
    """An argument parser that complains in one sentence."""

    def error(self, message: str) -> NoReturn:
        raise UsageError(f"{message} (see `{self.prog} --help`)")


def _whole(text: str, least: int, most: int) -> int:
    """Return the integer that a text spells; raises ArgumentTypeError for any other."""
    spelled = text.isascii() and text.isdigit() and len(text) <= DIGITS_MAX
    if not spelled or not least <= int(text) <= most:
        shown = repr(text[:DIGITS_MAX])
        raise argparse.ArgumentTypeError(f"takes an integer from {least} to {most}, not {shown}")
    return int(text)


def _options(words: Sequence[str] | None) -> argparse.Namespace:
    parser = _Parser(
        prog="python -m loopcore.runtime.payment_example",
        description="An agent that pays over a lossy connection. End it with kill -9 at any"
        " moment and start it again: nothing is paid twice.",
        allow_abbrev=False,
    )
    parser.add_argument("--folder", type=Path, required=True, help="made where there is none")
    parser.add_argument(
        "--orders",
        type=lambda text: _whole(text, 1, ORDERS_MAX),
        default=3,
        help="how many accounts are paid, 3 if not given",
    )
    parser.add_argument(
        "--seed",
        type=lambda text: _whole(text, 0, SEED_MAX),
        default=SEED,
        help=f"of what the connection loses, {SEED} if not given",
    )
    parser.add_argument(
        "--pause-ms",
        type=lambda text: _whole(text, 0, PAUSE_MS_MAX),
        default=200,
        help="how long each answer takes, 200 if not given",
    )
    return parser.parse_args(words)


def _say(line: str) -> None:
    sys.stdout.write(f"{line}\n")
    sys.stdout.flush()


def _complain(sentence: str) -> int:
    """Write one sentence for a person; return the exit status for a user's or machine's fault."""
    shown = " ".join(sentence.split()).encode("ascii", "backslashreplace").decode()
    sys.stderr.write(f"loopcore: {shown}\n")
    return EXIT_INPUT


def _pay(options: argparse.Namespace) -> int:
    """Begin or go on, and tell what became of it; return the exit status."""
    folder: Path = options.folder
    folder.mkdir(parents=True, exist_ok=True)
    with (
        closing(SqliteStore(folder / JOURNAL)) as store,
        closing(PaymentService(folder / SERVICE, seed=options.seed)) as service,
    ):
        already = store.head(RUN).sequence
        _say(f"going on behind event {already}" if already else "beginning")
        runner = payment_runner(store, service, orders=options.orders, pause_ms=options.pause_ms)
        receipt: RunReceipt = asyncio.run(runner.run(RUN))
        for line in told(list(store.read(RUN)), service):
            _say(line)
        duplicates = service.ledger().duplicates()
    return EXIT_OK if receipt.terminal == "completed" and not duplicates else EXIT_WANTING


def main(words: Sequence[str] | None = None) -> int:
    """Return the exit status: 0 all is paid once, 1 it is not, 2 bad input, 130 interrupted."""
    try:
        return _pay(_options(words))
    except KeyboardInterrupt:
        _complain("interrupted; start it again to go on")
        return EXIT_INTERRUPTED
    except LoopcoreError as error:
        return _complain(str(error))
    except OSError as error:
        return _complain(f"{error.filename or 'the folder'}: {error.strerror or error}")
    except sqlite3.Error as error:
        return _complain(f"the service's file: {error}")


if __name__ == "__main__":
    sys.exit(main())
