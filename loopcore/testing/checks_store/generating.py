"""Pieces of scripts that several properties draw."""

from __future__ import annotations

from collections.abc import Sequence

from hypothesis import strategies as st
from hypothesis.strategies import SearchStrategy

from loopcore.testing.checks_store.playing import LEASE_MS, Script
from loopcore.testing.contract import Case, Json

OPERATIONS_MAX = 8
# Kinds whose payload the store does not look into.
KINDS = ("action_reserved", "action_dispatched", "outcome_observed", "state_committed")


def do(name: str, **members: Json) -> dict[str, Json]:
    """Return an operation."""
    return {"do": name, **members}


def append(*kinds: str, **members: Json) -> dict[str, Json]:
    """Return an append."""
    return {"do": "append", "kinds": list(kinds or ("state_committed",)), **members}


def opening(run: str = "a", lease_ms: int = LEASE_MS) -> dict[str, Json]:
    """Return the append that begins a run and takes its first lease."""
    return append("run_created", "lease_acquired", run=run, lease_ms=lease_ms)


def batches(most: int = 4) -> SearchStrategy[list[Json]]:
    """Return a strategy for the kinds of a batch."""
    return st.lists(st.sampled_from(KINDS), min_size=1, max_size=most).map(list[Json])


def scripts(
    beginning: Script, *operations: SearchStrategy[dict[str, Json]], most: int = OPERATIONS_MAX
) -> SearchStrategy[Case]:
    """Return a strategy for scripts that begin alike and go on with some of these operations."""
    rest = st.lists(st.one_of(operations), min_size=1, max_size=most)
    return rest.map(lambda drawn: {"script": [*beginning, *drawn]})


def script(*operations: dict[str, Json]) -> Case:
    """Return an explicit case."""
    return {"script": list(operations)}


def goals(*labels: str) -> frozenset[str]:
    """Return labels that must be met."""
    return frozenset(labels)


def one_of(values: Sequence[Json]) -> SearchStrategy[Json]:
    """Return a strategy for one of some values."""
    return st.sampled_from(list(values))


def filled(do: str, **members: SearchStrategy[Json]) -> SearchStrategy[dict[str, Json]]:
    """Return a strategy for an operation whose members are drawn."""
    return st.fixed_dictionaries({"do": st.just(do), **members})
