"""The built-in stores as factories, as a user would write one for a store of their own."""

from __future__ import annotations

import os
from collections.abc import Callable
from hashlib import sha256
from pathlib import Path

from loopcore import __version__
from loopcore.errors import UsageError
from loopcore.store.contract import Store
from loopcore.store.memory import MemoryStore
from loopcore.store.sqlite import SqliteStore

__all__ = ["BUILT_IN", "__version__", "memory", "postgres", "postgres_dsn", "sqlite"]

DSN_VARIABLE = "LOOPCORE_POSTGRES_DSN"
_NAME_DIGITS = 16


def memory(location: str, now_ms: Callable[[], int]) -> Store:
    """Return a store in this process's memory."""
    del location
    return MemoryStore(now_ms)


def sqlite(location: str, now_ms: Callable[[], int]) -> Store:
    """Return the SQLite store in a folder."""
    return SqliteStore(Path(location) / "journals.sqlite", now_ms=now_ms)


def postgres(location: str, now_ms: Callable[[], int]) -> Store:
    """Return a PostgreSQL store whose schema is named after the location."""
    from loopcore.testing.store_postgres import PassingPostgresStore

    schema = "loopcore_verify_" + sha256(location.encode()).hexdigest()[:_NAME_DIGITS]
    return PassingPostgresStore(postgres_dsn(), schema=schema, now_ms=now_ms)


def postgres_dsn() -> str:
    """Return where PostgreSQL is; raise UsageError where the environment does not say."""
    dsn = os.environ.get(DSN_VARIABLE)
    if not dsn:
        raise UsageError(f"the store postgres needs {DSN_VARIABLE}, a libpq connection string")
    return dsn


BUILT_IN = ("memory", "sqlite", "postgres")
