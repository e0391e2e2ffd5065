"""Claim: sixteen processes that contend for one run keep its order and lose nothing."""

from __future__ import annotations

import subprocess
import sys
from collections import Counter
from contextlib import closing
from pathlib import Path

import pytest

from loopcore.store.contract import Store
from loopcore.store.journal import verify_journal
from loopcore.testing.store_builtin import postgres, sqlite
from properties.core.journal_values import RUN, begin

PROCESSES = 16
EACH = 12
# A reservation of one unit each, and fewer units than are asked for.
BUDGET = 150
SECONDS_MAX = 300
# Each process reserves by compare-and-swap while the journal shows room, and says what it got.
WORKER = f"""
import sys
from loopcore.store.contract import StaleHead
from loopcore.store.journal import chain
from loopcore.testing.store_builtin import {{factory}}
from properties.core.journal_values import RUN, draft
store = {{factory}}(sys.argv[1], lambda: 0)
sys.stdin.readline()
got = refused = 0
for number in range({EACH}):
    while True:
        head = store.head(RUN)
        if head.sequence - 2 >= {BUDGET}:
            break
        drafts = [draft("action_reserved", worker=int(sys.argv[2]), number=number)]
        try:
            store.append(RUN, head.digest, head.epoch, chain(head, drafts))
        except StaleHead:
            refused += 1
            continue
        got += 1
        break
print(got, refused)
"""
FACTORIES = [
    pytest.param("sqlite", marks=pytest.mark.slow),
    pytest.param("postgres", marks=[pytest.mark.slow, pytest.mark.postgres]),
]


@pytest.mark.parametrize("factory", FACTORIES)
def test_sixteen_processes_never_spend_more_than_there_is(factory: str, tmp_path: Path) -> None:
    makes = {"sqlite": sqlite, "postgres": postgres}
    store: Store = makes[factory](str(tmp_path), lambda: 0)
    with closing(store):
        begin(store)
        program = WORKER.format(factory=factory)
        children = [
            subprocess.Popen(
                [sys.executable, "-c", program, str(tmp_path), str(number)],
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                text=True,
            )
            for number in range(PROCESSES)
        ]
        said = [child.communicate("go\n", SECONDS_MAX)[0] for child in children]
        assert [child.returncode for child in children] == [0] * PROCESSES
        got = [int(words.split()[0]) for words in said]
        events = list(store.read(RUN))
        head = store.head(RUN)
        destroy = getattr(store, "destroy", lambda: None)
        destroy()
    assert sum(got) == BUDGET == head.sequence - 2 == len(events) - 2
    assert verify_journal(events).head == head
    owners = Counter(event.payload["worker"] for event in events[2:])
    assert [owners[number] for number in range(PROCESSES)] == got
    for worker in range(PROCESSES):
        numbers = [
            event.payload["number"] for event in events[2:] if event.payload["worker"] == worker
        ]
        assert numbers == list(range(got[worker]))
