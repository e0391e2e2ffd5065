"""A payment service that loses answers, for the first example: kept in a file, it outlives a crash.

Theory of operation: the service is what lies beyond the boundary, so it has a file of its own and
knows nothing of the runner. Every request that leaves the caller is a crossing; a payment that was
made is an effect; a key that the service was told to refuse is a fence. The three are counted
apart. How the connection treats a request is drawn from the seed and the request's number: answered
as it should be, answered in vain, lost before it arrived, or so late that it arrives after others.

Choices: the service does not compare idempotency keys unless it is told to. So a second call for
the same payment pays twice, and the ledger says so: nothing but the caller prevents it.

Source: spec runtime, sections 3 and 9.
"""

from __future__ import annotations

import random
import sqlite3
from collections.abc import Callable, Generator
from contextlib import contextmanager
from pathlib import Path
from threading import Lock
from typing import Literal

import msgspec

BUSY_SECONDS = 30.0
# What becomes of a request, with its share in a hundred.
FATES: tuple[tuple[str, int], ...] = (
    ("answered", 45),
    ("answer lost", 25),
    ("request lost", 15),
    ("late", 15),
)
# A late request arrives behind at most so many others.
LATE_BY_MAX = 3

# Where a watcher is told that a request stands: a crash in tests happens at one of these.
Moment = Literal[
    "pay called", "pay crossed", "pay done", "question called", "key refused", "question answered"
]

_TABLES = """
CREATE TABLE IF NOT EXISTS crossings (
    number INTEGER PRIMARY KEY, key TEXT NOT NULL, identity TEXT NOT NULL, account TEXT NOT NULL,
    amount INTEGER NOT NULL, fate TEXT NOT NULL, arrives INTEGER NOT NULL, arrived INTEGER NOT NULL
) STRICT;
CREATE TABLE IF NOT EXISTS effects (
    number INTEGER PRIMARY KEY, key TEXT NOT NULL, identity TEXT NOT NULL, account TEXT NOT NULL,
    amount INTEGER NOT NULL
) STRICT;
CREATE TABLE IF NOT EXISTS fences (key TEXT PRIMARY KEY) STRICT;
"""
_CROSS = (
    "INSERT INTO crossings (number, key, identity, account, amount, fate, arrives, arrived)"
    " VALUES (?, ?, ?, ?, ?, ?, ?, 0)"
)
_DUE = (
    "SELECT number, key, identity, account, amount FROM crossings"
    " WHERE fate = 'late' AND NOT arrived AND arrives <= ? ORDER BY arrives, number"
)
_PAY = "INSERT INTO effects (key, identity, account, amount) VALUES (?, ?, ?, ?)"


class Payment(msgspec.Struct, frozen=True, kw_only=True):
    """One request, or the effect of one; identity: of what the caller wants, over all attempts."""

    key: str
    identity: str
    account: str
    amount: int


class Ledger(msgspec.Struct, frozen=True, kw_only=True):
    """What the service itself knows, in the order in which it happened."""

    crossings: tuple[Payment, ...]
    effects: tuple[Payment, ...]
    fences: frozenset[str]

    def duplicates(self) -> tuple[str, ...]:
        """Return the identities that were paid more than once."""
        paid = [effect.identity for effect in self.effects]
        return tuple(sorted({identity for identity in paid if paid.count(identity) > 1}))


class KeyRefused(Exception):
    """The service was told to refuse this key for good, and nothing was paid."""


def _nothing(moment: Moment) -> None:
    del moment


class PaymentService:
    """The service behind its lossy connection; safe for threads and processes.

    Arguments:
        path: its file, made where there is none. seed: of the connection's losses.
        lossy: False answers every request. enforces: the same key has one effect.
        watch: is told where a request stands, after what came before was made durable.
    """

    def __init__(
        self,
        path: Path,
        *,
        seed: int = 0,
        lossy: bool = True,
        enforces: bool = False,
        watch: Callable[[Moment], None] = _nothing,
    ) -> None:
        self._seed = seed
        self._lossy = lossy
        self._enforces = enforces
        self._watch = watch
        self._lock = Lock()
        self._connection = sqlite3.connect(
            path, timeout=BUSY_SECONDS, isolation_level=None, check_same_thread=False
        )
        self._connection.execute("PRAGMA journal_mode = WAL")
        self._connection.executescript(_TABLES)

    def pay(self, payment: Payment) -> str:
        """Return the service's answer to a payment that was made.

        Raises KeyRefused where nothing was paid and never will be under this key; ConnectionError
        where the caller cannot know.
        """
        self._watch("pay called")
        number, fate = self._cross(payment)
        self._watch("pay crossed")
        if fate == "late":
            raise ConnectionError("no answer came in time")
        if fate == "request lost":
            raise ConnectionError("the connection broke")
        with self._transaction() as ledger:
            taken = _arrive(ledger, number, payment, enforces=self._enforces)
        self._watch("pay done")
        if fate == "answer lost":
            raise ConnectionError("the connection broke")
        if not taken:
            raise KeyRefused("this key is refused for good")
        return f"paid {payment.amount} to {payment.account}"

    def was_paid(self, key: str) -> bool:
        """Return whether a key was paid, after which no request under this key ever is.

        First the fence, then the look: what is under way meanwhile is refused when it arrives.
        """
        self._watch("question called")
        with self._transaction() as ledger:
            self._deliver(ledger, _requests(ledger))
            ledger.execute("INSERT OR IGNORE INTO fences (key) VALUES (?)", (key,))
        self._watch("key refused")
        with self._transaction() as ledger:
            found = ledger.execute("SELECT 1 FROM effects WHERE key = ?", (key,)).fetchone()
        self._watch("question answered")
        return found is not None

    def deliver(self) -> None:
        """Let every request arrive that is still under way."""
        with self._transaction() as ledger:
            self._deliver(ledger, _requests(ledger) + LATE_BY_MAX)

    def ledger(self) -> Ledger:
        """Return all that the service knows."""
        with self._transaction() as ledger:
            fields = "SELECT key, identity, account, amount FROM"
            crossings = ledger.execute(f"{fields} crossings ORDER BY number").fetchall()
            effects = ledger.execute(f"{fields} effects ORDER BY number").fetchall()
            fences = ledger.execute("SELECT key FROM fences").fetchall()
        return Ledger(
            crossings=tuple(_payment(row) for row in crossings),
            effects=tuple(_payment(row) for row in effects),
            fences=frozenset(key for (key,) in fences),
        )

    def close(self) -> None:
        """Close the file."""
        with self._lock:
            self._connection.close()

    def _cross(self, payment: Payment) -> tuple[int, str]:
        """Note that a request left the caller; return its number and its fate."""
        with self._transaction() as ledger:
            number = _requests(ledger) + 1
            self._deliver(ledger, number)
            fate, late_by = self._draw(number)
            row = (number, *msgspec.structs.astuple(payment), fate, number + late_by)
            ledger.execute(_CROSS, row)
        return number, fate

    def _draw(self, number: int) -> tuple[str, int]:
        """Return what the connection does to the request with this number."""
        if not self._lossy:
            return "answered", 0
        draw = random.Random(f"{self._seed}/{number}")
        names, shares = zip(*FATES, strict=True)
        (fate,) = draw.choices(names, shares)
        return fate, draw.randint(1, LATE_BY_MAX)

    def _deliver(self, ledger: sqlite3.Connection, number: int) -> None:
        """Let the late requests arrive that are due when there are so many requests."""
        for late, *fields in ledger.execute(_DUE, (number,)).fetchall():
            _arrive(ledger, late, _payment(tuple(fields)), enforces=self._enforces)

    @contextmanager
    def _transaction(self) -> Generator[sqlite3.Connection]:
        """Yield the connection; what is done with it is kept whole or not at all."""
        with self._lock:
            self._connection.execute("BEGIN IMMEDIATE")
            try:
                yield self._connection
            except BaseException:
                self._connection.execute("ROLLBACK")
                raise
            self._connection.execute("COMMIT")


def _requests(ledger: sqlite3.Connection) -> int:
    """Return how many requests crossed so far."""
    ((count,),) = ledger.execute("SELECT count(*) FROM crossings").fetchall()
    return int(count)


def _payment(row: tuple[str, str, str, int]) -> Payment:
    key, identity, account, amount = row
    return Payment(key=key, identity=identity, account=account, amount=amount)


def _arrive(ledger: sqlite3.Connection, number: int, payment: Payment, *, enforces: bool) -> bool:
    """Return whether a request that arrives is paid; a refused key never is."""
    ledger.execute("UPDATE crossings SET arrived = 1 WHERE number = ?", (number,))
    key = (payment.key,)
    if ledger.execute("SELECT 1 FROM fences WHERE key = ?", key).fetchone() is not None:
        return False
    paid = ledger.execute("SELECT 1 FROM effects WHERE key = ?", key).fetchone() is not None
    if not (enforces and paid):
        ledger.execute(_PAY, msgspec.structs.astuple(payment))
    return True
