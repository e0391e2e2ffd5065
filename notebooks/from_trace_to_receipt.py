# ---
# jupyter:
#   kernelspec:
#     display_name: Python 3
#     language: python
#     name: python3
# ---

# %% [markdown]
# # From a trace to its receipt
#
# An agent's loop leaves a *trace*: the policy that bounds it and the steps it took. The evaluator
# reads the trace and answers with a *receipt*: at which step the run ended, why, and what it had
# used by then. This page builds a trace by hand, lets it end in several ways, and shows what the
# receipt is good for. Every number below is computed when the page runs.

# %%
import io
import json
from collections.abc import Iterable

import msgspec

from loopcore.canonical import canonical, digest
from loopcore.decoding import decode_receipt
from loopcore.documents import evaluate_stream
from loopcore.errors import InputError
from loopcore.evaluator import evaluate, start
from loopcore.models import ActionKind, Policy, Step
from loopcore.receipts import compare_receipts
from loopcore.terminals import PRECEDENCE, REFERENCE

# A page prints what it computes, begins with its title, and has a header for Jupyter.
# ruff: noqa: D100, ERA001, PT017, T201


# %% [markdown]
# ## The policy
#
# A policy holds nothing but bounds and digests. It never changes during a run: its own digest is
# its name, and a higher bound makes another policy.


# %%
def named(text: str) -> str:
    """Return the digest that stands for something that we give a name here."""
    return digest({"schema": "example/name/1", "name": text})


STARTED = 1_700_000_000_000
policy = Policy(
    schema="loopcore/policy/1",
    policy_id="a small repair job",
    evaluator_release=REFERENCE,
    run_envelope_sha256=named("the task, its environment and inputs"),
    behavior_spec_sha256=named("what done means"),
    initial_state_sha256=named("state 0"),
    started_at_unix_ms=STARTED,
    deadline_unix_ms=STARTED + 60_000,
    max_steps=6,
    max_model_calls=3,
    max_tool_calls=3,
    max_repairs=1,
    max_cost_microunits=50_000,
    max_consecutive_no_progress=2,
    max_consecutive_repeated_actions=2,
    max_input_tokens=None,
    max_output_tokens=None,
    max_evidence_receipts=None,
    max_cycle_length=None,
    cycle_repeats=None,
)
print("policy", digest(policy))

# %% [markdown]
# ## Steps
#
# A step says what was done (its kind and a digest of the action), from which state to which state,
# with which new evidence, and what it cost. *Verified progress* needs all three: the step
# succeeded, the state changed, and there is evidence not seen before.


# %%
def step(number: int, kind: ActionKind, **changes: object) -> Step:
    """Return a step that makes progress, with some of its fields changed."""
    proof = named(f"evidence {number}")
    made = Step(
        sequence=number,
        action_kind=kind,
        action_sha256=named(f"action {number}"),
        state_before_sha256=named(f"state {number - 1}"),
        state_after_sha256=named(f"state {number}"),
        new_evidence_receipt_sha256=(proof,),
        outcome="succeeded",
        completed_at_unix_ms=STARTED + 1_000 * number,
        model_calls_delta=int(kind == "model_generation"),
        tool_calls_delta=int(kind == "tool_call"),
        repairs_delta=int(kind == "repair"),
        cost_microunits_delta=4_000,
        input_tokens_delta=900 if kind == "model_generation" else 0,
        output_tokens_delta=120 if kind == "model_generation" else 0,
        completion_receipt_sha256=proof if kind == "finish" else None,
    )
    return msgspec.structs.replace(made, **changes)


good_run = (
    step(1, "model_generation"),
    step(2, "tool_call"),
    step(3, "verification"),
    step(4, "finish"),
)

# %% [markdown]
# ## Its terminal
#
# The evaluator takes one step at a time and says after each whether the run has ended.

# %%
run = start(policy)
for one in good_run:
    run.advance(one)
    print(one.sequence, one.action_kind, "->", run.finish().terminal)

receipt = evaluate(policy, good_run)
assert receipt.terminal == "completed"
assert receipt.terminal_sequence == len(good_run)
print(json.dumps(msgspec.to_builtins(receipt.usage), indent=1))

# %% [markdown]
# Every proper prefix of the run is `input_exhausted`: the steps ended and nothing had fired. Only
# the finish, which brings a fresh proof and names it, completes the run. Note what that means, and
# what it does not: **completion: identity only**. The evaluator saw that a fresh proof was named;
# whether the proof is true is for the verifier of proofs to say.

# %% [markdown]
# ## Two rules on one step
#
# What if several rules fire on the same step? Each is tested on its own, and the first in the
# release's table wins. The others are not lost: they stand among the receipt's `violations`.

# %%
for place, terminal in enumerate(PRECEDENCE[REFERENCE], start=1):
    print(place, terminal)

# %%
repeated = step(2, "tool_call", action_sha256=good_run[0].action_sha256)
tie = (
    good_run[0],
    msgspec.structs.replace(repeated, completed_at_unix_ms=policy.deadline_unix_ms),
)
tied = evaluate(policy, tie)
print("winner    ", tied.terminal, "at step", tied.terminal_sequence)
print("violations", ", ".join(tied.violations))
assert tied.violations[0] == tied.terminal == "deadline_exceeded"
assert "repeated_action" in tied.violations

# %% [markdown]
# One millisecond earlier the deadline has not come, and the repetition wins.

# %%
earlier = msgspec.structs.replace(tie[1], completed_at_unix_ms=policy.deadline_unix_ms - 1)
print(evaluate(policy, (tie[0], earlier)).terminal)
assert evaluate(policy, (tie[0], earlier)).terminal == "repeated_action"

# %% [markdown]
# ## Claims that are no proof
#
# A finish that names no proof, or an old one, does not complete a run. An effect whose outcome is
# not known stops it until somebody has looked.

# %%
old_proof = good_run[1].new_evidence_receipt_sha256[0]
endings = {
    "no proof named": step(4, "finish", completion_receipt_sha256=None),
    "an old proof named": step(4, "finish", completion_receipt_sha256=old_proof),
    "outcome not known": step(4, "tool_call", outcome="indeterminate"),
}
for words, last in endings.items():
    print(f"{words:<20}", evaluate(policy, (*good_run[:3], last)).terminal)
assert evaluate(policy, (*good_run[:3], endings["an old proof named"])).terminal == (
    "invalid_completion"
)

# %% [markdown]
# ## Tampering, and replay
#
# A receipt binds the policy, the steps and itself by their digests. Whoever has the trace can
# replay it and compare. Here somebody lowers the cost of a step afterwards.

# %%
cheaper = msgspec.structs.replace(good_run[1], cost_microunits_delta=1)
tampered = (good_run[0], cheaper, *good_run[2:])
found = compare_receipts(evaluate(policy, tampered), receipt)
print("differs in:", ", ".join(found.differing))
assert {"steps_sha256", "usage.cost_microunits", "receipt_sha256"} == set(found.differing)
assert found.self_consistent

# %% [markdown]
# The receipt is consistent with itself, so it belongs to another trace. A receipt that was itself
# altered is told apart from that, because its own digest no longer fits.

# %%
altered = msgspec.to_builtins(receipt) | {"verified_progress_steps": 99}
found = compare_receipts(evaluate(policy, good_run), decode_receipt(json.dumps(altered).encode()))
print("differs in:", ", ".join(found.differing), "- self-consistent:", found.self_consistent)
assert not found.self_consistent

# %%
changed_bits = 0
whole = canonical(receipt)
for place in range(0, 8 * len(whole), 97):
    spoilt = bytearray(whole)
    spoilt[place // 8] ^= 1 << (place % 8)
    try:
        same = not compare_receipts(receipt, decode_receipt(bytes(spoilt))).differing
    except InputError:
        same = False
    assert not same
    changed_bits += 1
print(changed_bits, "single bits of the receipt were flipped; every one was found")

# %% [markdown]
# ## A trace that is not well formed
#
# Broken chains, gaps and repeats are errors with their exact step, not verdicts.

# %%
gap = (good_run[0], msgspec.structs.replace(good_run[1], sequence=3))
try:
    evaluate(policy, gap)
except InputError as error:
    print(error.code, "at index", error.step, "-", error.message)
    assert (error.code, error.step) == ("sequence_gap", 1)
else:
    raise AssertionError("a gap went unseen")

# %% [markdown]
# ## A stream
#
# A long run need not be in memory. As a stream its first line is the policy, every further line a
# step, and the receipt is the same to the byte.


# %%
def stream(steps: Iterable[Step]) -> bytes:
    """Return the run as one JSON object a line, the policy first."""
    head = {"schema": "loopcore/trace/1", "policy": msgspec.to_builtins(policy)}
    return b"".join(canonical(value) + b"\n" for value in (head, *steps))


streamed = evaluate_stream(io.BytesIO(stream(good_run)))
print("streamed", streamed.receipt_sha256)
print("document", receipt.receipt_sha256)
assert canonical(streamed) == canonical(receipt)
