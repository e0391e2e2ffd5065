"""The envelope of a run: tools, grants and the runner's own rules, named by the policy's digest.

Theory of operation: the policy holds the envelope's digest and the journal's first event holds
both, so nothing that a planner, a tool or an input says can change what is permitted: authority is
read from here alone. Every choice that the specification leaves to policy is a field of `Rules`.

Choices: a grant names a tool and may bound its parameters; a call is authorised by one grant that
fits it whole. Effects are `none` (read only), `idempotent` or `unsafe`; only a tool without effect
may be repeated after an unknown outcome.

Source: spec runtime, sections 1 and 2.
"""

from __future__ import annotations

import json
from typing import Annotated, Literal, cast

import msgspec

from loopcore.canonical import digest
from loopcore.control.limits import Effect
from loopcore.errors import UsageError
from loopcore.models import ActionKind, Count, Policy, Positive
from loopcore.runtime.amounts import Amounts, calls_of
from loopcore.terminals import USAGE_RULES

Name = Annotated[str, msgspec.Meta(min_length=1, max_length=128)]

FINISH = "finish"


class ToolRule(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """What is declared of one tool before the run begins.

    Fields:
        kind: the kind of step that a call is; `wait` marks a declared poll.
        effect: what a second execution would do.
        cost_microunits_max, input_tokens_max, output_tokens_max: the worst case of one call.
        parameters: the only names that arguments may have, or None for any.
        timeout_ms: how long one call may take, at most until the deadline; None for no own bound.
        lifetime_ms: after this the effect's own system refuses the call's arrival, since the
            lifetime travels with the call; None where no such promise exists.
        by_model: of a repair: a model makes it. child: a call is a run of its own.
        release, model_version, prompt_version: what produced an outcome, for the journal.
    """

    name: Name
    kind: ActionKind = "tool_call"
    effect: Effect = "unsafe"
    cost_microunits_max: Count = 0
    input_tokens_max: Count = 0
    output_tokens_max: Count = 0
    parameters: tuple[Name, ...] | None = None
    timeout_ms: Positive | None = None
    lifetime_ms: Positive | None = None
    by_model: bool = False
    child: bool = False
    release: Name = "1"
    model_version: Name | None = None
    prompt_version: Name | None = None

    def worst(self) -> Amounts:
        """Return what one call reserves."""
        return calls_of(self.kind, by_model=self.by_model).plus(
            Amounts(
                cost_microunits=self.cost_microunits_max,
                input_tokens=self.input_tokens_max,
                output_tokens=self.output_tokens_max,
            )
        )


FINISH_RULE = ToolRule(name=FINISH, kind="finish", effect="none")


class Grant(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Authority to call one tool.

    Fields:
        maximum: the largest integer that a parameter may have; choices: the texts that it may be.
    """

    tool: Name
    maximum: dict[str, Count] = {}
    choices: dict[str, tuple[str, ...]] = {}

    def covers(self, arguments: dict[str, object]) -> bool:
        """Return whether arguments stay within this grant."""
        for name, most in self.maximum.items():
            value = arguments.get(name)
            if isinstance(value, bool) or not isinstance(value, int) or value > most:
                return False
        return all(arguments.get(name) in allowed for name, allowed in self.choices.items())


class Control(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A controller level beside the policy; its limits as `loopcore.control.limits` decodes."""

    level: Literal["A", "B", "C", "D"]
    limits: dict[str, object] = {}


class ScopeUse(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A budget wider than this run, held in a journal of its own."""

    scope_id: Name
    kind: Literal["thread", "tree"]


class Rules(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Every choice of the runner that a policy may make.

    Fields:
        batch: what happens to a batch larger than the remainder: admitted up to it, or refused.
        planning: the planner is asked when nothing runs, or after each settlement.
        parallel_max: calls in flight. batch_max: actions of one proposal.
        refusals_max: refused proposals in a row that do not end the run.
        finish_refusals_max: refused finishes that do not end it; verifier_faults_max: in a row.
        retries_max: infrastructure failures in a row that do not end it.
        reconciliations_max: answers "still indeterminate" to one effect; reconcile_after_ms apart.
        evidence_issuers: trusted issuers; None trusts a tool for its own calls alone.
        evidence_age_ms_max: how old accepted evidence may be; None for any age.
        child_margin_ms: how long before its parent a child must be over.
    """

    batch: Literal["partial", "whole"] = "partial"
    planning: Literal["after_all", "after_each"] = "after_all"
    parallel_max: Positive = 8
    batch_max: Positive = 64
    refusals_max: Count = 3
    finish_refusals_max: Count = 3
    verifier_faults_max: Count = 2
    retries_max: Count = 3
    reconciliations_max: Count = 3
    reconcile_after_ms: Count = 1_000
    shutdown_ms: Count = 5_000
    lease_ms: Positive = 30_000
    clock_jump_ms_max: Count = 60_000
    output_characters_max: Positive = 16_384
    evidence_issuers: tuple[Name, ...] | None = None
    evidence_age_ms_max: Positive | None = None
    children_max: Count = 8
    depth_max: Count = 2
    child_margin_ms: Count = 1_000


class Envelope(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """All that a run may do and how; its digest is the policy's `run_envelope_sha256`.

    Fields:
        clients: who may request a cancellation, besides the principal.
    """

    schema: Literal["loopcore/envelope/1"] = "loopcore/envelope/1"
    task: str = ""
    principal: Name = "local"
    tenant: Name = "local"
    clients: tuple[Name, ...] = ()
    tools: tuple[ToolRule, ...] = ()
    grants: tuple[Grant, ...] = ()
    rules: Rules = Rules()
    control: Control | None = None
    scopes: tuple[ScopeUse, ...] = ()

    def rule(self, tool: str) -> ToolRule | None:
        """Return what is declared of the tool with exactly this name."""
        for rule in self.tools:
            if rule.name == tool:
                return rule
        return FINISH_RULE if tool == FINISH else None


def sealed(policy: Policy, envelope: Envelope) -> Policy:
    """Return the policy that names this envelope, after checking that the two fit.

    Raises UsageError naming the tool or scope that does not fit.
    """
    kinds = USAGE_RULES[policy.evaluator_release]
    names = [rule.name for rule in envelope.tools]
    for rule in envelope.tools:
        if rule.kind not in kinds:
            raise UsageError(f"tool {rule.name}: {policy.evaluator_release} has no {rule.kind}")
        if names.count(rule.name) > 1:
            raise UsageError(f"tool {rule.name}: declared twice")
        if (rule.name == FINISH) != (rule.kind == "finish"):
            raise UsageError(f"tool {rule.name}: the finish alone has the kind finish")
        if rule.by_model and rule.kind != "repair":
            raise UsageError(f"tool {rule.name}: only a repair is by a model or not")
        tokens = rule.input_tokens_max or rule.output_tokens_max
        if tokens and not rule.worst().model_calls:
            raise UsageError(f"tool {rule.name}: tokens belong to a model call")
        if rule.child and rule.kind != "tool_call":
            raise UsageError(f"tool {rule.name}: a child run is a tool call")
    for grant in envelope.grants:
        if grant.tool not in names:
            raise UsageError(f"grant: there is no tool {grant.tool}")
    scopes = [scope.scope_id for scope in envelope.scopes]
    if len(set(scopes)) != len(scopes):
        raise UsageError("scopes: one is named twice")
    return msgspec.structs.replace(policy, run_envelope_sha256=digest(envelope))


def arguments_object(text: str) -> dict[str, object] | None:
    """Return the JSON object that a text spells, or None.

    Half surrogate pairs, which models write and tools return, are kept.
    """
    try:
        return as_object(msgspec.json.decode(text))
    except (msgspec.MsgspecError, UnicodeError, RecursionError):
        return _lenient_object(text)


def _lenient_object(text: str) -> dict[str, object] | None:
    """Return the object in which only half surrogate pairs are no proper JSON, or None."""
    try:
        return as_object(json.loads(text, parse_constant=_no_number))
    except (ValueError, RecursionError):
        return None


def _no_number(name: str) -> object:
    raise ValueError(f"{name} is no number")


def as_object(value: object) -> dict[str, object] | None:
    """Return a JSON object, or None for any other value."""
    if not isinstance(value, dict):
        return None
    items = cast("dict[object, object]", value)
    return cast("dict[str, object]", items) if all(isinstance(key, str) for key in items) else None
