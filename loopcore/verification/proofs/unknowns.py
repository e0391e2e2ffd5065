"""The unknowns of a proof: a policy, steps and the attributes of a run, with their ranges.

Theory of operation: every field that a decision may depend on is an unknown integer of the range
that the wire allows, and nothing more is assumed about it. A digest is a number below 2^256. A
solver's answer gives each unknown a value, which turns back into a trace of plain JSON.

Source: spec evaluator, section 1.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from loopcore.testing.building import name_digest, roomy_policy
from loopcore.testing.naive import EXTENDED_FIELDS
from loopcore.testing.naive_wire import INTEGER_MAX, KINDS, RELEASES, STEPS_MAX, Record
from loopcore.verification.proofs.terms import (
    NONE,
    Listing,
    Number,
    Script,
    between,
    disjunction,
    equal,
)
from loopcore.verification.proofs.translation import Environment

OUTCOMES = ("succeeded", "failed", "indeterminate")
DIGEST_MAX = 2**256 - 1

# Lowest and highest value of each integer of the policy; the extended ones may be null.
POLICY_RANGES: dict[str, tuple[int, int]] = {
    "started_at_unix_ms": (0, INTEGER_MAX),
    "deadline_unix_ms": (0, INTEGER_MAX),
    "max_steps": (1, INTEGER_MAX),
    "max_model_calls": (0, INTEGER_MAX),
    "max_tool_calls": (0, INTEGER_MAX),
    "max_repairs": (0, INTEGER_MAX),
    "max_cost_microunits": (0, INTEGER_MAX),
    "max_consecutive_no_progress": (1, INTEGER_MAX),
    "max_consecutive_repeated_actions": (2, INTEGER_MAX),
    "max_input_tokens": (0, INTEGER_MAX),
    "max_output_tokens": (0, INTEGER_MAX),
    "max_evidence_receipts": (0, INTEGER_MAX),
    "max_cycle_length": (2, 16),
    "cycle_repeats": (2, 8),
}
STEP_INTEGERS = (
    "sequence",
    "completed_at_unix_ms",
    "model_calls_delta",
    "tool_calls_delta",
    "repairs_delta",
    "cost_microunits_delta",
    "input_tokens_delta",
    "output_tokens_delta",
)
STEP_DIGESTS = ("action_sha256", "state_before_sha256", "state_after_sha256")
EVIDENCE, PROOF = "new_evidence_receipt_sha256", "completion_receipt_sha256"


def declare_policy(script: Script, release: str, name: str = "policy") -> Environment:
    """Return the attributes of an unknown policy of a release, as `name.field`."""
    env: Environment = {f"{name}.evaluator_release": Number(script.code(release), "name")}
    for field, (low, high) in POLICY_RANGES.items():
        term = script.declare(f"{name}.{field}", "Int")
        is_nullable = field in EXTENDED_FIELDS
        env[f"{name}.{field}"] = Number(term, "integer", is_nullable)
        within = between(low, term, high)
        if is_nullable:
            is_null = equal(term, NONE)
            within = is_null if release == RELEASES[0] else disjunction((is_null, within))
        script.require(within)
    script.require(f"(< {name}.started_at_unix_ms {name}.deadline_unix_ms)")
    both = (equal(f"{name}.{field}", NONE) for field in ("max_cycle_length", "cycle_repeats"))
    script.require(equal(*both))
    env[f"{name}.initial_state_sha256"] = _digest(script, f"{name}.initial_state_sha256")
    return env


def declare_step(script: Script, name: str, evidence_max: int) -> Environment:
    """Return the attributes of an unknown step with up to so much evidence, as `name.field`."""
    env: Environment = {}
    for field in STEP_INTEGERS:
        term = script.declare(f"{name}.{field}", "Int")
        script.require(between(0, term, INTEGER_MAX))
        env[f"{name}.{field}"] = Number(term)
    for field, allowed in (("action_kind", KINDS), ("outcome", OUTCOMES)):
        term = script.declare(f"{name}.{field}", "Int")
        script.require(disjunction(equal(term, script.code(each)) for each in allowed))
        env[f"{name}.{field}"] = Number(term, "name")
    for field in STEP_DIGESTS:
        env[f"{name}.{field}"] = _digest(script, f"{name}.{field}")
    env[f"{name}.{PROOF}"] = _digest(script, f"{name}.{PROOF}", is_nullable=True)
    items = [_digest(script, f"{name}.e{place}").term for place in range(evidence_max)]
    length = script.declare(f"{name}.evidence", "Int")
    script.require(between(0, length, evidence_max))
    env[f"{name}.{EVIDENCE}"] = Listing(tuple(items), length)
    return env


def _digest(script: Script, name: str, *, is_nullable: bool = False) -> Number:
    term = script.declare(name, "Int")
    script.require(between(-1 if is_nullable else 0, term, DIGEST_MAX))
    return Number(term, "digest", is_nullable)


def step_limit(index: str) -> str:
    """Return the term that a step's index is one that a document can have."""
    return between(0, index, STEPS_MAX - 1)


def trace_of(
    script: Script, values: Mapping[str, int], release: str, steps: Sequence[str]
) -> tuple[Record, list[Record]]:
    """Return the policy and the steps that a solver's values stand for."""
    names = {int(code): name for name, code in script.names.items()}

    def number(name: str) -> int | None:
        found = values.get(name, 0)
        return None if found < 0 else found

    def digest(name: str) -> str | None:
        found = number(name)
        return None if found is None else f"{found:064x}"

    policy = roomy_policy(release)
    policy.update({field: number(f"policy.{field}") for field in POLICY_RANGES})
    policy["policy_id"] = "counterexample"
    policy["run_envelope_sha256"] = name_digest("other", 1)
    policy["initial_state_sha256"] = digest("policy.initial_state_sha256")
    made: list[Record] = []
    for step in steps:
        evidence = [digest(f"{step}.e{i}") for i in range(values.get(f"{step}.evidence", 0))]
        made.append(
            {
                **{field: number(f"{step}.{field}") for field in STEP_INTEGERS},
                **{field: names[values[f"{step}.{field}"]] for field in ("action_kind", "outcome")},
                **{field: digest(f"{step}.{field}") for field in (*STEP_DIGESTS, PROOF)},
                EVIDENCE: evidence,
            }
        )
    return policy, made
