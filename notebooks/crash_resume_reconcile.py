# ---
# jupyter:
#   kernelspec:
#     display_name: Python 3
#     language: python
#     name: python3
# ---

# %% [markdown]
# # Crash, resume, reconcile
#
# An agent pays accounts over a connection that loses answers, and its process is ended by `kill -9`
# in the middle of a payment. This page starts it, kills it, looks at what is left on the disk, and
# starts it again. The payment service keeps a ledger of its own, so what really happened does not
# depend on what the runner believes. Everything below is computed when the page runs.

# %%
import os
import signal
import subprocess
import sys
import time
from collections import Counter
from contextlib import closing
from pathlib import Path
from shutil import rmtree
from tempfile import mkdtemp

from loopcore.runtime.folding import fold_all
from loopcore.runtime.payloads import EffectReconciled, OutcomeObserved, payload_of
from loopcore.runtime.payment_example import JOURNAL, RUN, SERVICE
from loopcore.runtime.payment_example_service import Ledger, PaymentService
from loopcore.runtime.projection import agreement, project
from loopcore.store.journal import Anchor, Event, verify_journal
from loopcore.store.sqlite import SqliteStore

# A page prints what it computes, begins with its title, and has a header for Jupyter.
# ruff: noqa: D100, ERA001, T201

folder = Path(mkdtemp(prefix="loopcore-shop-"))
SECONDS_MAX = 30


def started(pause_ms: int) -> subprocess.Popen[str]:
    """Start the agent in a process of its own."""
    words = ["--folder", str(folder), "--pause-ms", str(pause_ms)]
    program = [sys.executable, "-m", "loopcore.runtime.payment_example", *words]
    return subprocess.Popen(program, stdout=subprocess.PIPE, text=True)


def events() -> list[Event]:
    """Return the journal as it stands on the disk."""
    with closing(SqliteStore(folder / JOURNAL)) as store:
        return list(store.read(RUN))


def ledger() -> Ledger:
    """Return what the payment service knows."""
    with closing(PaymentService(folder / SERVICE)) as service:
        return service.ledger()


# %% [markdown]
# ## Crash
#
# The agent reserves, writes that it dispatches, and only then calls. As soon as the service has
# made a payment, and while its answer is on the way, the process is gone: nothing is flushed,
# released or closed.

# %%
process = started(pause_ms=500)
until = time.monotonic() + SECONDS_MAX
while not (folder / SERVICE).exists() or not ledger().effects:
    assert time.monotonic() < until
    time.sleep(0.01)
os.kill(process.pid, signal.SIGKILL)
process.communicate()
print("the process ended with", process.returncode)
assert process.returncode == -signal.SIGKILL

# %% [markdown]
# ## What is left
#
# Every event holds the digest of the one before it, so what is on the disk can be checked as it is.
# A journal by itself is consistent at most: that nothing was cut off behind its end can only be
# said against an anchor that was kept elsewhere.

# %%
left = events()
for event in left:
    print(f"{event.sequence:3} {event.kind}")
alone = verify_journal(left)
print(f"alone: {alone.verdict} ({alone.reason})")
anchor = Anchor(run_id=RUN, sequence=left[-1].sequence, digest=alone.head.digest)
print("against an anchor:", verify_journal(left, anchor).verdict)
print("with its tail cut off:", verify_journal(left[:-1], anchor).verdict)

# %% [markdown]
# The state of a run is what its journal says and nothing else. Folding it shows what the crash left
# open: a dispatch of which nobody knows, although the service has made the payment. It is charged
# at its worst case, and it is not called again on a guess.

# %%
state = fold_all(left)
for action in state.actions.values():
    print(action.name, action.reserved.tool, action.reserved.arguments, action.status)
print("payments that the service made so far:", len(ledger().effects))

# %% [markdown]
# ## Resume and reconcile
#
# The same command goes on. It waits until the dead owner's lease is over, takes the run with a
# higher epoch, and asks the service about the open call first. The service is told to refuse that
# key for good *before* it looks: a request may be under way still, so "it did not happen" would be
# no more than "it did not happen yet". What was paid is not paid again; what was not is tried anew,
# under a new key.

# %%
said, _ = started(pause_ms=0).communicate(timeout=SECONDS_MAX)
print(said)
assert "run payments: completed" in said

# %%
whole = events()
assert whole[: len(left)] == left, "what was written stays as it is"
unknown: set[str] = set()
for event in whole:
    payload = payload_of(event)
    if isinstance(payload, OutcomeObserved) and payload.outcome == "indeterminate":
        print(f"{event.sequence:3} {payload.action}: nobody knows ({payload.error_class})")
    if isinstance(payload, EffectReconciled):
        fence = "" if payload.fence is None else f", fenced by {payload.fence.kind}"
        print(f"{event.sequence:3} {payload.action}: {payload.finding}{fence}")
        unknown.add(payload.action)
print(f"{len(unknown)} calls were asked about")

# %% [markdown]
# ## The ledger decides
#
# The service does not compare keys, so a second call for a payment would have paid twice. It counts
# what crossed the boundary and what happened apart.

# %%
final = ledger()
accounts = Counter(effect.account for effect in final.effects)
print(f"{len(final.crossings)} requests, {len(final.effects)} payments: {dict(accounts)}")
print("paid twice:", len(final.duplicates()))
assert set(accounts.values()) == {1}
assert final.duplicates() == ()

# %% [markdown]
# And the evaluator, which never saw the runner, gets the same verdict from the trace that the
# journal tells.

# %%
verdict = agreement(whole)
assert verdict.receipt is not None
print(f"{len(project(whole).steps)} steps: {verdict.receipt.terminal}; {verdict.reason}")
assert verdict.agrees
rmtree(folder)
